//! What a server is to be, as data.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{
    Architecture, CreateServer, Image, ImageState, Ip, IpType, VolumeTemplate, VolumeType,
};
use windlass_scaleway::types::marketplace::ImageStorage;

use crate::Error;
use crate::identifier::{GroupName, OperationId};
use crate::tags;

/// Scaleway takes user data of at most 128 KiB. No recording shows the limit; the value is that of its documentation
/// for cloud-init (assumption: user-data-size).
const LONGEST_CLOUD_INIT: usize = 128 * 1024;
/// Addresses, volumes, networks of one server at most: far above what Scaleway allows, so that a slip costs nothing.
const MOST_PARTS: usize = 16;
/// Addresses that a pool names at most.
const MOST_POOLED: usize = 1_000;
/// Tags of one server at most, and bytes of one.
const MOST_TAGS: usize = 64;
const LONGEST_TAG: usize = 4096;

/// How long a create may take by default, in milliseconds: ten times the longest recorded boot, rounded up.
pub const DEFAULT_DEADLINE_MILLISECONDS: u64 = 600_000;

/// A server to create, with everything that belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerSpecification {
    /// The group it belongs to.
    pub group: GroupName,
    /// Its name. Absent: the operation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The zone.
    pub zone: Zone,
    /// Server types (Scaleway's commercial types) in the order of preference: the next is tried when one is out of
    /// stock.
    pub types: Vec<String>,
    /// What it boots.
    pub image: ImageChoice,
    /// Flexible addresses to make and attach.
    #[serde(default)]
    pub addresses: Vec<AddressKind>,
    /// Addresses that exist, of which it gets one that is free, beside those that are made. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_pool: Option<AddressPool>,
    /// Whether Scaleway gives it a dynamic address at power-on when it has no flexible one.
    #[serde(default)]
    pub dynamic_address: bool,
    /// The root volume. Absent: as the image says, on Block Storage.
    #[serde(default)]
    pub root_volume: RootVolume,
    /// Further volumes, at positions 1, 2, ...
    #[serde(default)]
    pub volumes: Vec<ExtraVolume>,
    /// Ids of private networks to join.
    #[serde(default)]
    pub private_networks: Vec<String>,
    /// Id of a security group. Absent: the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,
    /// Id of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// Tags beside ours. None may begin as ours do, and none may hold a comma.
    #[serde(default)]
    pub tags: Vec<String>,
    /// User data for cloud-init. It may hold secrets, so the journal keeps its length only.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub cloud_init: Option<CloudInit>,
    /// The project. Absent: the client's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// How long the creation may take, in milliseconds, until the server runs.
    #[serde(default = "default_deadline")]
    pub deadline_milliseconds: u64,
}

fn default_deadline() -> u64 {
    DEFAULT_DEADLINE_MILLISECONDS
}

/// An image, by id, by the marketplace's label, or the newest of the project's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageChoice {
    /// A label, `ubuntu_noble`: resolved for the zone, the server type and the kind of root volume.
    Label(String),
    /// The id of an image in the zone.
    Id(String),
    /// The newest of the project's own images of this name.
    Name(String),
    /// The newest of the project's own images with this tag.
    Tag(String),
}

impl ImageChoice {
    /// Of these images the newest that is meant, is available, and is made for this architecture; of the project,
    /// where that is known. `None`, too, for a label and an id, which need no list.
    #[must_use]
    pub fn newest_of<'a>(
        &self,
        images: &'a [Image],
        architecture: &Architecture,
        project: Option<&str>,
    ) -> Option<&'a Image> {
        let is_meant = |image: &Image| match self {
            Self::Name(name) => image.name == *name,
            Self::Tag(tag) => image.tags.contains(tag),
            Self::Label(_) | Self::Id(_) => false,
        };
        let usable = images.iter().filter(|image| {
            is_meant(image)
                && !image.public
                && image.state == ImageState::Available
                && image.arch == *architecture
                && project.is_none_or(|project| image.project == project)
        });
        usable.max_by_key(|image| (image.created_at(), &image.id))
    }

    /// A UUID is an id, all else a label.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if uuid::Uuid::parse_str(text).is_ok() { Self::Id(text.to_owned()) } else { Self::Label(text.to_owned()) }
    }
}

/// Flexible IPv4 addresses that exist and are handed round. Each server gets one that serves nobody; it is never made,
/// marked or deleted, and free again when its server is gone (assumption: delete-leaves-parts).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressPool {
    /// These, by id or by address.
    Ips(Vec<String>),
    /// Those with this tag.
    Tag(String),
}

impl AddressPool {
    /// Whether it holds this address. Never one that carries a tag of ours: that belongs to some server, and goes with
    /// it.
    #[must_use]
    pub fn holds(&self, ip: &Ip) -> bool {
        let is_named = match self {
            Self::Ips(named) => named.iter().any(|name| *name == ip.id || ip.address.as_ref() == Some(name)),
            Self::Tag(tag) => ip.tags.contains(tag),
        };
        is_named && ip.ip_type == IpType::RoutedIpv4 && !ip.tags.iter().any(|tag| tags::is_ours(tag))
    }

    fn check(&self) -> Result<(), Error> {
        let field = "address_pool";
        match self {
            Self::Ips(named) if named.is_empty() => Err(problem(field, "it names no address")),
            Self::Ips(named) if named.len() > MOST_POOLED => {
                Err(problem(field, format!("{} are more than {MOST_POOLED}", named.len())))
            }
            Self::Ips(named) if named.iter().any(|name| name.is_empty() || name.len() > 128) => {
                Err(problem(field, "one is empty or longer than 128 bytes"))
            }
            Self::Tag(tag) if tag.is_empty() || tag.len() > LONGEST_TAG || tag.contains(',') => {
                Err(problem(field, format!("the tag is empty, longer than {LONGEST_TAG} bytes, or holds a comma")))
            }
            Self::Tag(tag) if tags::is_ours(tag) => {
                Err(problem(field, format!("{tag:?} begins with `{}`, which is reserved", tags::PREFIX)))
            }
            Self::Ips(_) | Self::Tag(_) => Ok(()),
        }
    }
}

/// A kind of flexible address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressKind {
    /// One IPv4 address.
    Ipv4,
    /// One IPv6 prefix.
    Ipv6,
}

impl AddressKind {
    pub(crate) fn ip_type(self) -> IpType {
        match self {
            Self::Ipv4 => IpType::RoutedIpv4,
            Self::Ipv6 => IpType::RoutedIpv6,
        }
    }
}

/// Where a volume lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    /// Block Storage: outlives its server.
    #[default]
    Block,
    /// The hypervisor's disk: goes when its server is terminated.
    Local,
}

impl VolumeKind {
    fn volume_type(self) -> VolumeType {
        match self {
            Self::Block => VolumeType::BlockStorage,
            Self::Local => VolumeType::LocalSsd,
        }
    }

    pub(crate) fn image_storage(self) -> ImageStorage {
        match self {
            Self::Block => ImageStorage::BlockStorage,
            Self::Local => ImageStorage::Local,
        }
    }
}

/// The root volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootVolume {
    /// Where it lives.
    #[serde(default)]
    pub kind: VolumeKind,
    /// Bytes. Absent: as large as the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Operations per second (Block Storage: 5000 or 15000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<u32>,
}

/// A further volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtraVolume {
    /// A new one, which belongs to the server and goes with it.
    New {
        /// Where it lives.
        kind: VolumeKind,
        /// Bytes.
        size: u64,
        /// Operations per second (Block Storage only).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations_per_second: Option<u32>,
    },
    /// A Block Storage volume that exists. It is attached, and never deleted.
    Existing {
        /// Its id.
        id: String,
    },
}

/// User data that cloud-init reads at the first boot. Its content is never shown, logged or journalled. What was set is
/// there when the server boots (assumption: user-data-answers).
#[derive(Clone)]
pub struct CloudInit(Vec<u8>);

impl CloudInit {
    /// Takes the content of a cloud-init file.
    #[must_use]
    pub fn new(content: impl Into<Vec<u8>>) -> Self {
        Self(content.into())
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for CloudInit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CloudInit({} bytes)", self.0.len())
    }
}

impl Serialize for CloudInit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} bytes", self.0.len()))
    }
}

fn problem(field: &'static str, problem: impl Into<String>) -> Error {
    Error::Specification { field, problem: problem.into() }
}

impl ServerSpecification {
    /// A server of this group and type, with one IPv4 address and the image's own root volume.
    #[must_use]
    pub fn new(group: GroupName, zone: Zone, server_type: &str, image: ImageChoice) -> Self {
        Self {
            group,
            name: None,
            zone,
            types: vec![server_type.to_owned()],
            image,
            addresses: vec![AddressKind::Ipv4],
            address_pool: None,
            dynamic_address: false,
            root_volume: RootVolume::default(),
            volumes: Vec::new(),
            private_networks: Vec::new(),
            security_group: None,
            placement_group: None,
            tags: Vec::new(),
            cloud_init: None,
            project: None,
            deadline_milliseconds: DEFAULT_DEADLINE_MILLISECONDS,
        }
    }

    /// What the server is called that the operation makes.
    pub(crate) fn server_name<'a>(&'a self, operation: &'a OperationId) -> &'a str {
        self.name.as_deref().unwrap_or(operation.as_str())
    }

    /// Checks what can be checked without asking Scaleway.
    ///
    /// # Errors
    /// [`Error::Specification`], for the first field that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        if self.types.is_empty() {
            return Err(problem("types", "at least one server type is needed, for example DEV1-S"));
        }
        for (field, texts) in [("types", &self.types), ("private_networks", &self.private_networks)] {
            if texts.len() > MOST_PARTS {
                return Err(problem(field, format!("{} are more than {MOST_PARTS}", texts.len())));
            }
            if texts.iter().any(|text| text.is_empty() || text.len() > 128) {
                return Err(problem(field, "one is empty or longer than 128 bytes"));
            }
        }
        if let Some(name) = &self.name
            && (name.is_empty() || name.len() > 128)
        {
            return Err(problem("name", "it is empty or longer than 128 bytes"));
        }
        match &self.image {
            ImageChoice::Label(text) | ImageChoice::Id(text) if text.is_empty() || text.len() > 128 => {
                return Err(problem("image", "it is empty or longer than 128 bytes"));
            }
            ImageChoice::Name(text) | ImageChoice::Tag(text) if text.is_empty() || text.len() > LONGEST_TAG => {
                return Err(problem("image", format!("its name or tag is empty or longer than {LONGEST_TAG} bytes")));
            }
            _ => {}
        }
        if let Some(pool) = &self.address_pool {
            pool.check()?;
        }
        if self.addresses.len() > MOST_PARTS || self.volumes.len() > MOST_PARTS {
            return Err(problem("addresses and volumes", format!("at most {MOST_PARTS} of each")));
        }
        if self.root_volume.kind == VolumeKind::Local && self.root_volume.operations_per_second.is_some() {
            return Err(problem("root_volume", "operations per second can only be chosen on Block Storage"));
        }
        if self.root_volume.size.is_some_and(|size| size == 0 || size % 512 != 0) {
            return Err(problem("root_volume", "the size is no positive multiple of 512 bytes"));
        }
        for volume in &self.volumes {
            match volume {
                ExtraVolume::New { size, .. } if *size == 0 || size % 512 != 0 => {
                    return Err(problem("volumes", "a size is no positive multiple of 512 bytes"));
                }
                ExtraVolume::New { kind: VolumeKind::Local, operations_per_second: Some(_), .. } => {
                    return Err(problem("volumes", "operations per second can only be chosen on Block Storage"));
                }
                ExtraVolume::Existing { id } if uuid::Uuid::parse_str(id).is_err() => {
                    return Err(problem("volumes", format!("{id:?} is no id of a volume")));
                }
                _ => {}
            }
        }
        if self.tags.len() > MOST_TAGS {
            return Err(problem("tags", format!("{} are more than {MOST_TAGS}", self.tags.len())));
        }
        for tag in &self.tags {
            // The text of a tag may be a key; the message names its number.
            if tag.is_empty() || tag.len() > LONGEST_TAG || tag.contains(',') {
                return Err(problem(
                    "tags",
                    format!(
                        "one is empty, longer than {LONGEST_TAG} bytes, or holds a comma, which Scaleway's filters \
                         cannot ask for"
                    ),
                ));
            }
            if tags::is_ours(tag) {
                return Err(problem("tags", format!("{tag:?} begins with `{}`, which is reserved", tags::PREFIX)));
            }
        }
        if let Some(cloud_init) = &self.cloud_init
            && cloud_init.content().len() > LONGEST_CLOUD_INIT
        {
            return Err(problem(
                "cloud_init",
                format!(
                    "{} bytes are more than the {LONGEST_CLOUD_INIT} that Scaleway takes",
                    cloud_init.content().len()
                ),
            ));
        }
        if self.deadline_milliseconds < 1_000 || self.deadline_milliseconds > 24 * 3_600_000 {
            return Err(problem("deadline_milliseconds", "it is below a second or above a day"));
        }
        Ok(())
    }

    /// Ids of volumes that exist already and are attached: never ours.
    pub(crate) fn existing_volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().filter_map(|volume| match volume {
            ExtraVolume::Existing { id } => Some(id.as_str()),
            ExtraVolume::New { .. } => None,
        })
    }

    /// The positions of the volumes that come into being with the server: the boot volume's, and those of new local
    /// ones. New Block Storage volumes are made before it, and all else that hangs there somebody attached.
    pub(crate) fn positions_made(&self) -> impl Iterator<Item = String> {
        let local = self.volumes.iter().enumerate().filter_map(|(index, volume)| match volume {
            ExtraVolume::New { kind: VolumeKind::Local, .. } => Some((index + 1).to_string()),
            _ => None,
        });
        std::iter::once("0".to_owned()).chain(local)
    }

    /// The new Block Storage volumes, with their positions: made before the server, since only so they can be tagged
    /// from birth.
    pub(crate) fn new_block_volumes(&self) -> impl Iterator<Item = (usize, u64, Option<u32>)> {
        self.volumes.iter().enumerate().filter_map(|(index, volume)| match volume {
            ExtraVolume::New { kind: VolumeKind::Block, size, operations_per_second } => {
                Some((index + 1, *size, *operations_per_second))
            }
            _ => None,
        })
    }

    /// The request that creates the server.
    pub(crate) fn create_request(
        &self,
        name: &str,
        server_type: &str,
        image: &str,
        addresses: &[String],
        block_volumes: &BTreeMap<usize, String>,
        tags: Vec<String>,
    ) -> CreateServer {
        let mut volumes = BTreeMap::new();
        if self.root_volume.size.is_some() || self.root_volume.kind == VolumeKind::Local {
            volumes.insert(
                "0".to_owned(),
                VolumeTemplate {
                    size: self.root_volume.size,
                    volume_type: Some(self.root_volume.kind.volume_type()),
                    ..VolumeTemplate::default()
                },
            );
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            let position = index + 1;
            let template = match volume {
                ExtraVolume::New { kind: VolumeKind::Local, size, .. } => VolumeTemplate {
                    name: Some(format!("{name}-{position}")),
                    size: Some(*size),
                    volume_type: Some(VolumeType::LocalSsd),
                    ..VolumeTemplate::default()
                },
                ExtraVolume::New { kind: VolumeKind::Block, .. } => VolumeTemplate {
                    id: block_volumes.get(&position).cloned(),
                    volume_type: Some(VolumeType::BlockStorage),
                    ..VolumeTemplate::default()
                },
                ExtraVolume::Existing { id } => VolumeTemplate {
                    id: Some(id.clone()),
                    volume_type: Some(VolumeType::BlockStorage),
                    ..VolumeTemplate::default()
                },
            };
            volumes.insert(position.to_string(), template);
        }
        CreateServer {
            name: name.to_owned(),
            commercial_type: server_type.to_owned(),
            image: Some(image.to_owned()),
            volumes,
            dynamic_ip_required: Some(self.dynamic_address),
            public_ips: addresses.to_vec(),
            project: self.project.clone(),
            tags,
            security_group: self.security_group.clone(),
            placement_group: self.placement_group.clone(),
            ..CreateServer::default()
        }
    }
}
