//! What a server is to be, as data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use windlass_policy::is_unprintable;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{
    Architecture, CreateServer, Image, ImageState, Ip, IpType, VolumeTemplate, VolumeType,
};
use windlass_scaleway::types::marketplace::ImageStorage;

use crate::identifier::{GroupName, OperationId};
use crate::tags;
use crate::{Error, RequestedBy};

/// Scaleway takes user data of at most 128 KiB. No recording shows the limit; the value is that of its documentation
/// for cloud-init (assumption: user-data-size).
const MAX_CLOUD_INIT_LEN: usize = 128 * 1024;
/// Addresses, volumes, networks of one server at most: far above what Scaleway allows, so that a slip costs nothing.
const MAX_PARTS: usize = 16;
/// Addresses of one kind at most, as `windlass server create` takes them.
const MAX_ADDRESSES: usize = 5;
/// What Block Storage offers.
const OPERATIONS_PER_SECOND: [u32; 2] = [5_000, 15_000];
/// Addresses that a pool names at most.
const MAX_POOLED: usize = 1_000;
/// Tags of one server at most, and bytes of one.
const MAX_TAGS: usize = 64;
const MAX_TAG_LEN: usize = 4096;
/// Bytes of all tags of one server at most. The journal's row of a creation holds them, too
/// (assumption: server-text-limits).
const MAX_TAG_BYTES: usize = 64 * 1024;
/// The smallest root volume of an image of the marketplace (assumption: marketplace-root-volume).
const MIN_ROOT_BYTES: u64 = 10_000_000_000;
/// The largest volume of Block Storage, by Scaleway's documentation (assumption: block-volume-size).
const MAX_BLOCK_BYTES: u64 = 10_000_000_000_000;
/// Bytes of a server's name at most. Neither a recording nor Scaleway's SDK shows a limit
/// (assumption: server-text-limits).
const MAX_NAME_LEN: usize = 128;

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
    /// Whom it is for, and why. The journal has it before anything is made.
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub requested_by: RequestedBy,
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
    /// The newest of these images that matches, is available, and is made for this architecture; of the project,
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

    /// That the project has none like this.
    pub(crate) fn absent(&self, architecture: &Architecture, zone: &Zone) -> String {
        let architecture = architecture.as_str();
        format!("the project has no available image {} for {architecture} in {zone}", self.described())
    }

    /// In words, to follow "image".
    #[must_use]
    pub fn described(&self) -> String {
        match self {
            Self::Label(label) => format!("{label:?}"),
            Self::Id(id) => id.clone(),
            Self::Name(name) => format!("called {name:?}"),
            Self::Tag(tag) => format!("with the tag {tag:?}"),
        }
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

    fn find_problems(&self, zone: &Zone, count: usize, problems: &mut Problems) {
        let field = "address_pool";
        match self {
            Self::Ips(named) => {
                if named.is_empty() {
                    problems.add(field, "it names no address");
                } else if named.len() > MAX_POOLED {
                    problems.add(field, format!("{} are more than {MAX_POOLED}", named.len()));
                } else if named.len() < count {
                    problems.add(field, format!("it names {}, too few for {count} servers", named.len()));
                }
                if named.iter().any(|name| name.is_empty() || name.len() > MAX_NAME_LEN) {
                    problems.add(field, format!("one is empty or longer than {MAX_NAME_LEN} bytes"));
                }
                for elsewhere in named.iter().filter_map(|name| zone.local_id(name).err()) {
                    problems.add(field, elsewhere.to_string());
                }
            }
            Self::Tag(tag) if tag.is_empty() || tag.len() > MAX_TAG_LEN || tag.contains(',') => {
                problems.add(field, format!("the tag is empty, longer than {MAX_TAG_LEN} bytes, or holds a comma"));
            }
            Self::Tag(tag) if tags::is_ours(tag) => {
                problems.add(field, format!("{tag:?} begins with `{}`, which is reserved", tags::PREFIX));
            }
            Self::Tag(_) => {}
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
    /// A fast disk beside a GPU, for data that can be made again: goes when its server is terminated. Never a root
    /// volume (assumption: scratch-volumes).
    Scratch,
}

impl VolumeKind {
    fn volume_type(self) -> VolumeType {
        match self {
            Self::Block => VolumeType::BlockStorage,
            Self::Local => VolumeType::LocalSsd,
            Self::Scratch => VolumeType::Scratch,
        }
    }

    /// Which release of an image a root volume of this kind is made of.
    #[must_use]
    pub fn image_storage(self) -> ImageStorage {
        match self {
            Self::Block => ImageStorage::BlockStorage,
            // Refused as a root volume.
            Self::Local | Self::Scratch => ImageStorage::Local,
        }
    }
}

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
    Existing { id: String },
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

    /// Why cloud-init would not take it, as far as its first line tells: it knows what it reads by these words. Under
    /// `#cloud-config` there has to be YAML. Other systems read other things from the same place, so this is nothing to
    /// refuse.
    #[must_use]
    pub fn doubt(&self) -> Option<String> {
        const KNOWN: [&str; 12] = [
            "#cloud-config",
            "#cloud-boothook",
            "#!",
            "#include",
            "#part-handler",
            "#upstart-job",
            "#ps1",
            "## template:",
            "content-type:",
            "mime-version:",
            // Ignition, and Talos.
            "{",
            "version:",
        ];
        const GZIP: [u8; 2] = [0x1f, 0x8b];
        if self.0.starts_with(&GZIP) {
            return None;
        }
        let Ok(text) = std::str::from_utf8(&self.0) else {
            return Some("it is neither text nor compressed with gzip, so cloud-init ignores it".to_owned());
        };
        let begin: String = text.trim_start().chars().take(32).collect::<String>().to_ascii_lowercase();
        let is_known = KNOWN.iter().any(|word| begin.starts_with(word));
        if !is_known {
            return Some("its first line is not `#cloud-config` or `#!/bin/sh`, so cloud-init ignores it".to_owned());
        }
        if !begin.starts_with("#cloud-config") {
            return None;
        }
        let error = serde_norway::from_str::<IgnoredAny>(text).err()?;
        let line = error.location()?.line();
        let words = windlass_policy::plain_yaml(text, line, &error.to_string());
        Some(format!("line {line}: {words}; cloud-init ignores what is not YAML"))
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

/// Something in a specification that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecificationProblem {
    /// The field, as the specification names it.
    pub field: &'static str,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl fmt::Display for SpecificationProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.problem)
    }
}

struct Problems(Vec<SpecificationProblem>);

impl Problems {
    fn add(&mut self, field: &'static str, problem: impl Into<String>) {
        self.0.push(SpecificationProblem { field, problem: problem.into() });
    }

    /// An id that is none, or of another zone.
    fn add_id(&mut self, field: &'static str, text: &str, zone: &Zone, of: &str) {
        match zone.local_id(text) {
            Err(elsewhere) => self.add(field, elsewhere.to_string()),
            Ok(id) if uuid::Uuid::parse_str(id).is_err() => {
                self.add(field, format!("{text:?} is no id of {of}: write its UUID, as Scaleway's console shows it"));
            }
            Ok(_) => {}
        }
    }
}

/// The name of one of several servers.
pub(crate) fn numbered(name: &str, number: usize, count: usize) -> String {
    if count > 1 { format!("{name}-{number}") } else { name.to_owned() }
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
            requested_by: RequestedBy::default(),
        }
    }

    /// What the server is called that the operation makes.
    pub(crate) fn server_name<'a>(&'a self, operation: &'a OperationId) -> &'a str {
        self.name.as_deref().unwrap_or(operation.as_str())
    }

    /// Writes everything as Scaleway has it: server types in upper case without the spaces around them, and ids without
    /// the zone or region that Terraform prints before them. What is of another zone or region stays, and is one of the
    /// [problems](Self::problems).
    pub fn normalize(&mut self) {
        let zone = &self.zone;
        let local = |text: &mut String| {
            if let Ok(id) = zone.local_id(text)
                && id.len() < text.len()
            {
                *text = id.to_owned();
            }
        };
        self.types.iter_mut().for_each(|server_type| *server_type = server_type.trim().to_ascii_uppercase());
        if let ImageChoice::Label(text) | ImageChoice::Id(text) = &mut self.image {
            local(text);
            self.image = ImageChoice::parse(text);
        }
        if let Some(AddressPool::Ips(ips)) = &mut self.address_pool {
            ips.iter_mut().for_each(local);
        }
        for volume in &mut self.volumes {
            if let ExtraVolume::Existing { id } = volume {
                local(id);
            }
        }
        self.private_networks.iter_mut().for_each(local);
        self.security_group.iter_mut().chain(&mut self.placement_group).for_each(local);
    }

    /// Checks what can be checked without asking Scaleway.
    ///
    /// # Errors
    /// [`Error::Specification`], for the first field that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        match self.problems(1).into_iter().next() {
            None => Ok(()),
            Some(SpecificationProblem { field, problem }) => Err(Error::Specification { field, problem }),
        }
    }

    /// Everything that is known to be wrong with so many servers of this kind, without asking Scaleway.
    #[must_use]
    pub fn problems(&self, count: usize) -> Vec<SpecificationProblem> {
        let mut normal = self.clone();
        normal.normalize();
        let mut problems = Problems(Vec::new());
        normal.find_problems(count, &mut problems);
        problems.0
    }

    fn find_problems(&self, count: usize, problems: &mut Problems) {
        if self.types.is_empty() {
            problems.add("types", "at least one server type is needed, for example DEV1-S");
        }
        for (field, texts) in [("types", &self.types), ("private_networks", &self.private_networks)] {
            if texts.len() > MAX_PARTS {
                problems.add(field, format!("{} are more than {MAX_PARTS}", texts.len()));
            }
            if let Some(empty) = texts.iter().position(String::is_empty) {
                problems.add(field, format!("number {} is empty", empty + 1));
            }
            if let Some(long) = texts.iter().position(|text| text.len() > MAX_NAME_LEN) {
                problems.add(field, format!("number {} is longer than {MAX_NAME_LEN} bytes", long + 1));
            }
        }
        if let Some(name) = &self.name {
            let longest = numbered(name, count, count).len();
            if name.is_empty() {
                problems.add("name", "it is empty");
            } else if name.len() > MAX_NAME_LEN {
                problems.add("name", format!("it has {} bytes, and {MAX_NAME_LEN} are allowed", name.len()));
            } else if longest > MAX_NAME_LEN {
                let words =
                    format!("with the numbers of {count} servers it has {longest} bytes, more than {MAX_NAME_LEN}");
                problems.add("name", words);
            }
            // No table could show it, and nobody could type it to name the server.
            if let Some(letter) = name.chars().find(|letter| is_unprintable(*letter)) {
                problems.add("name", format!("it holds the unprintable character {letter:?}; leave it out"));
            }
        }
        self.find_problems_of_image(problems);
        if let Some(pool) = &self.address_pool {
            pool.find_problems(&self.zone, count, problems);
        }
        if self.addresses.len() > MAX_PARTS || self.volumes.len() > MAX_PARTS {
            problems.add("addresses and volumes", format!("at most {MAX_PARTS} of each"));
        }
        for (kind, name) in [(AddressKind::Ipv4, "IPv4"), (AddressKind::Ipv6, "IPv6")] {
            let number = self.addresses.iter().filter(|address| **address == kind).count();
            if number > MAX_ADDRESSES {
                problems.add("addresses", format!("{number} of {name} are more than {MAX_ADDRESSES}"));
            }
        }
        self.find_problems_of_volumes(count, problems);
        let mut networks = BTreeSet::new();
        for network in &self.private_networks {
            problems.add_id("private_networks", network, &self.zone, "a private network");
            if !networks.insert(network) {
                problems.add("private_networks", format!("{network:?} is named twice"));
            }
        }
        for (field, group, of) in [
            ("security_group", &self.security_group, "a security group"),
            ("placement_group", &self.placement_group, "a placement group"),
        ] {
            if let Some(group) = group {
                problems.add_id(field, group, &self.zone, of);
            }
        }
        self.find_problems_of_tags(problems);
        match self.cloud_init.as_ref().map(|cloud_init| cloud_init.content().len()) {
            Some(0) => problems.add("cloud_init", "it is empty: leave it out, or name a file with content"),
            Some(length) if length > MAX_CLOUD_INIT_LEN => problems.add(
                "cloud_init",
                format!("{length} bytes are more than the {MAX_CLOUD_INIT_LEN} that Scaleway takes"),
            ),
            _ => {}
        }
        if self.deadline_milliseconds < 1_000 || self.deadline_milliseconds > 24 * 3_600_000 {
            let seconds = self.deadline_milliseconds as f64 / 1_000.0;
            problems.add("deadline_milliseconds", format!("must be from 1s to 24h, for example 10m; found {seconds}s"));
        }
    }

    fn find_problems_of_image(&self, problems: &mut Problems) {
        match &self.image {
            ImageChoice::Label(text) | ImageChoice::Id(text) if text.is_empty() || text.len() > MAX_NAME_LEN => {
                problems.add("image", format!("it is empty or longer than {MAX_NAME_LEN} bytes"));
            }
            ImageChoice::Label(text) | ImageChoice::Id(text) => {
                if let Err(elsewhere) = self.zone.local_id(text) {
                    problems.add("image", elsewhere.to_string());
                }
            }
            ImageChoice::Name(text) | ImageChoice::Tag(text) if text.is_empty() || text.len() > MAX_TAG_LEN => {
                problems.add("image", format!("its name or tag is empty or longer than {MAX_TAG_LEN} bytes"));
            }
            ImageChoice::Name(_) | ImageChoice::Tag(_) => {}
        }
    }

    fn find_problems_of_volumes(&self, count: usize, problems: &mut Problems) {
        const NO_OPERATIONS: &str = "operations per second can only be chosen on Block Storage";
        let wrong_operations = |kind: VolumeKind, operations: Option<u32>| match operations {
            Some(_) if kind != VolumeKind::Block => Some(NO_OPERATIONS.to_owned()),
            Some(other) if !OPERATIONS_PER_SECOND.contains(&other) => {
                Some(format!("operations per second must be 5000 or 15000, found {other}"))
            }
            _ => None,
        };
        let is_wrong = |size: u64| size == 0 || !size.is_multiple_of(512);
        let mut check_block = |field, kind, size: u64| {
            if kind == VolumeKind::Block && size > MAX_BLOCK_BYTES {
                let most = MAX_BLOCK_BYTES / 1_000_000_000;
                let words = format!("{} GB is more than the {most} GB of a Block Storage volume", size / 1_000_000_000);
                problems.add(field, words);
            }
        };
        self.root_volume.size.into_iter().for_each(|size| check_block("root_volume", self.root_volume.kind, size));
        for volume in &self.volumes {
            if let ExtraVolume::New { kind, size, .. } = volume {
                check_block("volumes", *kind, *size);
            }
        }
        if let Some(words) = wrong_operations(self.root_volume.kind, self.root_volume.operations_per_second) {
            problems.add("root_volume", words);
        }
        if self.root_volume.kind == VolumeKind::Scratch {
            problems.add(
                "root_volume",
                "the root volume cannot be scratch storage; use scratch storage for an additional volume",
            );
        }
        if self.root_volume.size.is_some_and(is_wrong) {
            problems.add("root_volume", "the size must be a multiple of 512 bytes");
        }
        if let (ImageChoice::Label(_), Some(size @ 1..MIN_ROOT_BYTES)) = (&self.image, self.root_volume.size) {
            let words = format!(
                "{} GB is too small for an image of the marketplace, which needs {} GB; units are GB, TB, GiB and TiB",
                size as f64 / 1e9,
                MIN_ROOT_BYTES / 1_000_000_000
            );
            problems.add("root_volume", words);
        }
        let mut existing = BTreeSet::new();
        for volume in &self.volumes {
            match volume {
                ExtraVolume::New { kind, size, operations_per_second } => {
                    if is_wrong(*size) {
                        problems.add("volumes", "a size is no positive multiple of 512 bytes");
                    }
                    if let Some(words) = wrong_operations(*kind, *operations_per_second) {
                        problems.add("volumes", words);
                    }
                }
                ExtraVolume::Existing { id } => {
                    problems.add_id("volumes", id, &self.zone, "a volume");
                    if !existing.insert(id) {
                        problems.add("volumes", format!("{id:?} is named twice"));
                    } else if count > 1 {
                        let words =
                            format!("{id} can be attached to only one server, and {count} servers are requested");
                        problems.add("volumes", words);
                    }
                }
            }
        }
    }

    fn find_problems_of_tags(&self, problems: &mut Problems) {
        if self.tags.len() > MAX_TAGS {
            problems.add("tags", format!("{} are more than {MAX_TAGS}", self.tags.len()));
        }
        let total: usize = self.tags.iter().map(String::len).sum();
        if total > MAX_TAG_BYTES {
            problems.add("tags", format!("{total} bytes in all are more than {MAX_TAG_BYTES}"));
        }
        // The text of a tag may be a key; the message tells its rule.
        if self.tags.iter().any(|tag| tag.is_empty() || tag.len() > MAX_TAG_LEN || tag.contains(',')) {
            let words = format!(
                "one is empty, longer than {MAX_TAG_LEN} bytes, or holds a comma, which Scaleway's filters cannot ask for"
            );
            problems.add("tags", words);
        }
        if self.tags.iter().any(|tag| tag.contains(is_unprintable)) {
            problems.add("tags", "one holds an unprintable character, such as a line break; leave it out");
        }
        for tag in self.tags.iter().filter(|tag| tags::is_ours(tag)) {
            problems.add("tags", format!("{tag:?} begins with `{}`, which is reserved", tags::PREFIX));
        }
    }

    /// Ids of volumes that exist already and are attached: never ours.
    pub(crate) fn existing_volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().filter_map(|volume| match volume {
            ExtraVolume::Existing { id } => Some(id.as_str()),
            ExtraVolume::New { .. } => None,
        })
    }

    /// The positions of the volumes that come into being with the server: the boot volume's, and those of new local
    /// and scratch ones. New Block Storage volumes are made before it, and all else that hangs there somebody attached.
    pub(crate) fn positions_made(&self) -> impl Iterator<Item = String> {
        let local = self.volumes.iter().enumerate().filter_map(|(index, volume)| match volume {
            ExtraVolume::New { kind: VolumeKind::Local | VolumeKind::Scratch, .. } => Some((index + 1).to_string()),
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
        if self.root_volume.size.is_some() || self.root_volume.kind != VolumeKind::Block {
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
                ExtraVolume::New { kind: VolumeKind::Block, .. } => VolumeTemplate {
                    id: block_volumes.get(&position).cloned(),
                    volume_type: Some(VolumeType::BlockStorage),
                    ..VolumeTemplate::default()
                },
                ExtraVolume::New { kind, size, .. } => VolumeTemplate {
                    name: Some(format!("{name}-{position}")),
                    size: Some(*size),
                    volume_type: Some(kind.volume_type()),
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    fn good() -> ServerSpecification {
        let image = ImageChoice::parse("ubuntu_noble");
        ServerSpecification::new("ci".parse().unwrap(), "fr-par-1".parse().unwrap(), "DEV1-S", image)
    }

    /// The problems of a changed specification, in words.
    fn problems(count: usize, change: impl FnOnce(&mut ServerSpecification)) -> Vec<String> {
        let mut changed = good();
        change(&mut changed);
        changed.problems(count).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_is_measured_with_the_numbers_of_all_servers() {
        let named = |length: usize, count: usize| problems(count, |it| it.name = Some("n".repeat(length)));
        assert_eq!((named(128, 1), named(126, 9)), (Vec::new(), Vec::new()));
        assert_eq!(named(126, 12), ["name: with the numbers of 12 servers it has 129 bytes, more than 128"]);
        for (letter, shown) in [('\n', "\\n"), ('\u{202e}', "\\u{202e}"), ('\u{200b}', "\\u{200b}")] {
            let found = problems(1, |it| it.name = Some(format!("a{letter}b")));
            assert_eq!(found, [format!("name: it holds the unprintable character '{shown}'; leave it out")]);
            let found = problems(1, |it| it.tags = vec![format!("a{letter}b")]);
            assert_eq!(found, ["tags: one holds an unprintable character, such as a line break; leave it out"]);
        }
    }

    #[test]
    fn an_existing_volume_is_for_one_server_and_once() {
        let volume = || ExtraVolume::Existing { id: ID.to_owned() };
        assert_eq!(problems(1, |it| it.volumes = vec![volume()]), Vec::<String>::new());
        let found = problems(2, |it| it.volumes = vec![volume()]);
        assert_eq!(found, [format!("volumes: {ID} can be attached to only one server, and 2 servers are requested")]);
        let found = problems(1, |it| it.volumes = vec![volume(), volume()]);
        assert!(found.len() == 1 && found[0].contains("named twice"), "{found:?}");
    }

    #[test]
    fn addresses_and_operations_per_second_are_those_that_there_are() {
        let found = problems(1, |it| {
            it.addresses = vec![AddressKind::Ipv4; 6];
            it.root_volume.operations_per_second = Some(7_000);
            it.volumes = vec![ExtraVolume::New {
                kind: VolumeKind::Block,
                size: 20_000_000_000,
                operations_per_second: Some(6_000),
            }];
        });
        assert_eq!(
            found,
            [
                "addresses: 6 of IPv4 are more than 5",
                "root_volume: operations per second must be 5000 or 15000, found 7000",
                "volumes: operations per second must be 5000 or 15000, found 6000",
            ]
        );
        let right = |it: &mut ServerSpecification| {
            it.addresses = [[AddressKind::Ipv4; 5], [AddressKind::Ipv6; 5]].concat();
            it.root_volume.operations_per_second = Some(15_000);
        };
        assert_eq!(problems(1, right), Vec::<String>::new());
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let found = problems(1, |it| {
            it.types = Vec::new();
            it.tags = vec!["t".repeat(4_092); 64];
            it.private_networks = vec!["lan".to_owned()];
            it.root_volume.size = Some(1_000_000_000);
        });
        let fields: Vec<&str> = found.iter().filter_map(|problem| problem.split(':').next()).collect();
        assert_eq!(fields, ["types", "root_volume", "private_networks", "tags"], "{found:?}");
        assert!(found[1].contains("1 GB is too small") && found[1].contains("units are GB"), "{found:?}");
        assert!(found[3].contains("261888 bytes in all"), "{found:?}");
    }

    #[test]
    fn ids_as_terraform_prints_them_are_taken_where_zone_and_region_agree() {
        let all = |location: &str| {
            let mut it = good();
            let id = || format!("{location}/{ID}");
            it.image = ImageChoice::parse(&id());
            it.volumes = vec![ExtraVolume::Existing { id: id() }];
            it.private_networks = vec![id()];
            (it.security_group, it.placement_group) = (Some(id()), Some(id()));
            it.address_pool = Some(AddressPool::Ips(vec![id()]));
            it
        };
        for location in ["fr-par-1", "fr-par"] {
            let mut it = all(location);
            assert_eq!(it.problems(1), [], "{location}");
            it.normalize();
            assert_eq!(it.image, ImageChoice::Id(ID.to_owned()));
            assert_eq!(it.volumes, [ExtraVolume::Existing { id: ID.to_owned() }]);
            assert_eq!(it.private_networks, [ID]);
            assert_eq!((it.security_group.as_deref(), it.placement_group.as_deref()), (Some(ID), Some(ID)));
            assert_eq!(it.address_pool, Some(AddressPool::Ips(vec![ID.to_owned()])));
        }
        for location in ["fr-par-2", "nl-ams"] {
            let found = all(location).problems(1);
            let fields: BTreeSet<&str> = found.iter().map(|problem| problem.field).collect();
            let every = ["address_pool", "image", "placement_group", "private_networks", "security_group", "volumes"];
            assert_eq!(fields, every.into(), "{found:?}");
            assert!(found[0].problem.ends_with(&format!("is in {location}, and this is fr-par-1")), "{found:?}");
        }
    }

    #[test]
    fn a_block_volume_is_no_larger_than_the_largest() {
        assert_eq!(problems(1, |it| it.root_volume.size = Some(MAX_BLOCK_BYTES)), Vec::<String>::new());
        let found = problems(1, |it| it.root_volume.size = Some(99_999_000_000_000_000));
        assert_eq!(found, ["root_volume: 99999000 GB is more than the 10000 GB of a Block Storage volume"]);
        let kind = VolumeKind::Block;
        let large = ExtraVolume::New { kind, size: MAX_BLOCK_BYTES + 512, operations_per_second: None };
        assert!(problems(1, |it| it.volumes = vec![large])[0].starts_with("volumes: "));
    }

    #[test]
    fn what_cloud_init_would_ignore_is_doubted_and_what_it_or_others_read_is_not() {
        for read in [
            "#cloud-config\n",
            "#cloud-config\nusers: [default]\n",
            "\n #!/bin/sh\n",
            "## template: jinja\n",
            "MIME-Version: 1.0",
            "{\"ignition\": {}}",
        ] {
            assert_eq!(CloudInit::new(read).doubt(), None, "{read}");
        }
        assert_eq!(CloudInit::new(vec![0x1f, 0x8b]).doubt(), None, "gzip");
        for ignored in ["packages: [docker.io]\n", "# cloud-config\n", "#cloudconfig\n"] {
            assert!(CloudInit::new(ignored).doubt().is_some(), "{ignored}");
        }
        let broken = CloudInit::new("#cloud-config\npackages: [docker").doubt().unwrap();
        assert!(broken.starts_with("line ") && broken.contains("the list has no closing ]"), "{broken}");
        let found = problems(1, |it| it.cloud_init = Some(CloudInit::new("")));
        assert!(found.len() == 1 && found[0].contains("it is empty"), "{found:?}");
    }

    #[test]
    fn server_types_are_written_in_upper_case() {
        let mut it = good();
        it.types = vec!["dev1-s".to_owned(), " Pro2-XS".to_owned()];
        it.normalize();
        assert_eq!(it.types, ["DEV1-S", "PRO2-XS"]);
    }

    #[test]
    fn a_scratch_volume_is_made_with_its_server_and_is_no_root() {
        let mut it = good();
        it.volumes =
            vec![ExtraVolume::New { kind: VolumeKind::Scratch, size: 512_000_000_000, operations_per_second: None }];
        let made = it.create_request("n", "H100-1-80G", ID, &[], &BTreeMap::new(), Vec::new());
        assert_eq!(made.volumes["1"].volume_type, Some(VolumeType::Scratch));
        assert_eq!(it.positions_made().collect::<Vec<_>>(), ["0", "1"]);
        let root = RootVolume { kind: VolumeKind::Scratch, ..RootVolume::default() };
        let found = problems(1, |it| it.root_volume = root);
        assert!(found.len() == 1 && found[0].contains("the root volume cannot be scratch storage"), "{found:?}");
    }
}
