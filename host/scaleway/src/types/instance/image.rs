use super::Architecture;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// Whether an image can be used.
    pub enum ImageState {
        /// Yes.
        Available = "available",
        /// Not yet.
        Creating = "creating",
        /// Broken.
        Error = "error",
    }
}

answers! {
    /// An image: what a server's root volume is made from.
    pub struct Image {
        /// UUID. Changes with every release of a marketplace image: resolve labels, never keep ids.
        pub id: String,
        /// Name for people.
        pub name: String,
        pub arch: Architecture,
        pub organization: String,
        pub project: String,
        pub root_volume: Option<super::ServerVolume>,
        /// Whether everybody may use it.
        pub public: bool,
        /// Whether it can be used.
        pub state: ImageState,
        pub tags: Vec<String>,
        /// When it was created, RFC 3339.
        pub creation_date: String,
        /// When it last changed, RFC 3339.
        pub modification_date: String,
        pub zone: String,
    }
}

impl Image {
    /// When it was created, when Scaleway's text can be read.
    pub fn created_at(&self) -> Option<jiff::Timestamp> {
        crate::types::instant::instant(&self.creation_date)
    }
}

/// What to list of a zone's images (SDK).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListImages {
    /// Only of this project.
    pub project: Option<String>,
    /// Only those that everybody may use, or only the others.
    pub public: Option<bool>,
    /// Only for this processor architecture.
    pub arch: Option<Architecture>,
}
