use std::fmt;
use std::path::PathBuf;

use windlass_console::ServeOptions;
use windlass_lifecycle::{GroupName, OwnerName, PoolPrefix};
use windlass_policy::slots::release::Requested;
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

use super::metrics_address::MetricsAddress;

/// Everything a group of Macs needs to know, checked.
#[derive(Clone)]
pub struct AppleSiliconConfiguration {
    /// The group's name: in ids and names.
    pub group: GroupName,
    /// The name as it was written, for people.
    pub written_name: String,
    /// Whose hosts these are; absent: a random name that is kept in the state directory. With one, the hosts are found
    /// again also when the state directory is lost.
    pub owner: Option<OwnerName>,
    /// Whether hosts of the group that the state directory did not claim are taken over (or left alone). Absent: the
    /// group does not start beside them.
    pub adopt: Option<bool>,
    /// Credentials and address of the API.
    pub settings: Settings,
    /// Where the hosts are.
    pub zone: Zone,
    /// Scaleway's type: `M4-S`.
    pub server_type: String,
    /// What hosts are to have.
    pub operating_system: OperatingSystem,
    /// The pool that hosts are taken from and return to. Absent: there is none.
    pub pool: Option<PoolPrefix>,
    /// Whether hosts are ordered (where there is a pool: when it is empty). Each costs a day at least.
    pub order: bool,
    /// What the release policy is told to be requested when a host is released.
    pub release_requested: Option<Requested>,
    /// The most hosts at any time.
    pub max_size: u32,
    /// How many may be left that should be released; with more, none is claimed.
    pub max_leftovers: u32,
    /// Whether all hosts are released when the runner shuts the group down.
    pub delete_on_shutdown: bool,
    /// Where the journal, compiled policies and the decision log are kept.
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

/// The operating system that hosts are to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatingSystem {
    /// Of the pool's hosts, any; of ordered ones, the type's default.
    Any,
    /// By its name (`macos-sequoia-15.6`) or its family (`Sequoia`).
    Named(String),
    /// By Scaleway's id; its name is looked up.
    Id(String),
}

impl fmt::Debug for AppleSiliconConfiguration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AppleSiliconConfiguration")
            .field("group", &self.group)
            .field("zone", &self.zone)
            .field("server_type", &self.server_type)
            .field("operating_system", &self.operating_system)
            .field("pool", &self.pool)
            .field("order", &self.order)
            .field("max_size", &self.max_size)
            .field("state_directory", &self.state_directory)
            .finish_non_exhaustive()
    }
}
