//! `plugin_config`: what the operator wrote, checked as a whole before anything is touched.
//!
//! Keys are those of the Scaleway plugins that exist, so that their `config.toml` works unchanged, and ours beside them
//! (`docs/gitlab-runner.md` explains each). All that is wrong is reported at once.

mod apple_silicon;
mod duration;
mod environment;
mod problem;
mod read;
mod read_apple_silicon;
mod reader;
mod state_directory;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use windlass_lifecycle::{GroupName, OwnerName, ServerSpecification};
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

pub use apple_silicon::{AppleSiliconConfiguration, OperatingSystem};
pub use environment::Surroundings;
pub use problem::{ConfigurationErrors, Problem};

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
    /// Credentials and address of the API.
    pub settings: Settings,
    /// Where the servers are.
    pub zone: Zone,
    /// What each server is to be, without the keys that are added when the state directory is open.
    pub server: ServerSpecification,
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
}

/// Without cloud-init and tags, which may hold secrets.
impl fmt::Debug for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Configuration")
            .field("group", &self.group)
            .field("zone", &self.zone)
            .field("types", &self.server.types)
            .field("image", &self.server.image)
            .field("max_size", &self.max_size)
            .field("state_directory", &self.state_directory)
            .finish_non_exhaustive()
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
    pub fn read(json: &[u8], surroundings: &Surroundings) -> Result<Self, ConfigurationErrors> {
        read::read(json, surroundings)
    }
}
