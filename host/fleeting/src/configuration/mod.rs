//! `plugin_config`: what the operator wrote, checked as a whole before anything is touched.
//!
//! Keys are those of the Scaleway plugins that exist, so that their `config.toml` works unchanged, and ours beside them
//! (`docs/gitlab-runner-keys.md` explains each). All that is wrong is reported at once.

mod apple_silicon;
mod common;
mod console;
mod duration;
mod environment;
mod problem;
mod read;
mod read_apple_silicon;
mod reader;
mod state_directory;
mod zones;

#[cfg(test)]
mod documents;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_console::ServeOptions;
use windlass_lifecycle::{GroupName, OwnerName, ServerSpecification};
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

pub use apple_silicon::{AppleSiliconConfiguration, OperatingSystem};
pub use environment::ProcessEnvironment;
pub(crate) use environment::read_file;
pub use problem::{ConfigurationErrors, Problem};
pub use zones::ZonalIds;

/// How many creations run at the same time, unless configured.
const DEFAULT_MAX_PARALLEL_CREATES: u32 = 20;
/// The most instances of a group, unless configured. The runner refuses a group that holds fewer than its
/// `max_instances`, and the message names this key.
const DEFAULT_MAX_SIZE: u32 = 1_000;

/// Everything a group of instances needs to know, checked.
#[derive(Clone)]
pub struct Configuration {
    /// The group's name: in ids, names and tags.
    pub group: GroupName,
    /// The name as it was written, for people.
    pub written_name: String,
    /// Whose resources these are; absent: a random name that is kept in the state directory.
    pub owner: Option<OwnerName>,
    /// Whether servers of the group that the state directory does not know are taken over (or left alone). Absent: the
    /// group does not start beside them.
    pub adopt: Option<bool>,
    /// Credentials and address of the API.
    pub settings: Settings,
    /// Where the servers are: one zone at least, each once, in the operator's order.
    pub zones: Vec<Zone>,
    /// What each server is to be, in the first zone, without the keys that are added when the state directory is open.
    pub server: ServerSpecification,
    /// In what it differs between the zones.
    pub zonal: ZonalIds,
    /// The tags of which the state-mapping policy is told whether a server carries them: each once, at most
    /// [`MAX_WATCHED_TAGS`](windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS).
    pub watched_tags: Vec<String>,
    /// The most instances at any time.
    pub max_size: u32,
    /// How many creations run at the same time.
    pub max_parallel_creates: u32,
    /// Whether instances can be suspended (`stop_in_place`; a server stopped in place is still billed).
    pub suspend: bool,
    /// Whether all instances are removed when the runner shuts the group down.
    pub delete_on_shutdown: bool,
    /// Where journal, keys, compiled policies and the decision log are kept.
    pub state_directory: PathBuf,
    /// The policies of every slot.
    pub policies: Policies,
    /// Where relative paths of policies start.
    pub policy_folder: PathBuf,
    /// How many that run a policy may have reaped at one look.
    pub brake: Brake,
    /// Where metrics are served.
    pub metrics: Option<MetricsAddress>,
    /// Where the console is served, and for whom.
    pub console: Option<ServeOptions>,
}

/// Without cloud-init and tags, which may hold secrets.
impl fmt::Debug for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Configuration")
            .field("group", &self.group)
            .field("zones", &self.zones)
            .field("types", &self.server.types)
            .field("image", &self.server.image)
            .field("max_size", &self.max_size)
            .field("state_directory", &self.state_directory)
            .finish_non_exhaustive()
    }
}

impl Configuration {
    /// What each server of a zone is to be.
    pub(crate) fn server_in(&self, zone: &Zone) -> ServerSpecification {
        let mut server = self.server.clone();
        server.zone = zone.clone();
        let ZonalIds { security_groups, placement_groups, private_networks } = &self.zonal;
        if let Some(id) = security_groups.get(zone) {
            server.security_group = Some(id.clone());
        }
        if let Some(id) = placement_groups.get(zone) {
            server.placement_group = Some(id.clone());
        }
        if let Some(ids) = private_networks.get(&zone.region()) {
            server.private_networks.clone_from(ids);
        }
        server
    }

    /// The brake on one zone's servers, which are judged in a question of their own: all zones together may lose as
    /// many at one look as is configured, but one of each zone where they are more than that.
    pub(crate) fn brake_of_each_zone(&self) -> Brake {
        let zones = u32::try_from(self.zones.len().max(1)).unwrap_or(u32::MAX);
        let servers = match self.brake.servers {
            0 => 0,
            servers => (servers / zones).max(1),
        };
        Brake { servers, share: self.brake.share }
    }
}

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// An address and port.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "http://{address}/metrics"),
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// How long a server may take until it runs, unless configured: ten times the longest recorded boot, rounded up.
const DEFAULT_CREATE_TIMEOUT: Duration = Duration::from_secs(600);

/// What a group is configured to be, by its `kind`.
#[derive(Clone, Debug)]
pub enum GroupConfiguration {
    /// `instance`, the default: servers that are made for the group.
    Instances(Box<Configuration>),
    /// `apple-silicon`: Macs that are claimed from a pool, or ordered.
    AppleSilicon(Box<AppleSiliconConfiguration>),
}

impl GroupConfiguration {
    /// Reads `plugin_config` as the host sends it (a JSON object).
    ///
    /// The environment wins over the configuration where a key has a variable (`SCW_SECRET_KEY`, ...), each variable
    /// also as `..._FILE`; what neither says is looked for where Scaleway's own tools have it.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn read(json: &[u8], process_environment: &ProcessEnvironment) -> Result<Self, ConfigurationErrors> {
        read::read(json, process_environment)
    }
}
