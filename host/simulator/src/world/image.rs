use super::World;
use crate::clock::Micros;

/// An image: one of the catalogue's, or one made by `backup`.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) arch: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) public: bool,
    pub(crate) root: RootVolume,
    pub(crate) from_server: String,
    pub(crate) state: &'static str,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) modified: Micros,
}

/// From what a server's root volume is made.
#[derive(Debug, Clone)]
pub(crate) enum RootVolume {
    /// A Block Storage snapshot. The API shows neither its size nor its name.
    Block {
        snapshot: String,
        size: u64,
    },
    Local {
        snapshot: String,
        name: String,
        size: u64,
    },
}

/// A snapshot of a local volume.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) volume_type: String,
    pub(crate) size: u64,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) base_volume: Option<(String, String)>,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) ready: bool,
}

impl World {
    /// An image of the zone: the world's own or the catalogue's.
    pub(crate) fn image(&self, zone: &str, id: &str) -> Option<Image> {
        match self.images.get(id) {
            Some(image) if image.zone == zone => Some(image.clone()),
            Some(_) => None,
            None => {
                let public = self.public_images.in_zone(zone).iter().find(|public| public.image.id == id)?;
                Some(public.image.clone())
            }
        }
    }
}
