use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_console::ServeOptions;
use windlass_lifecycle::log::SharedLog;
use windlass_lifecycle::{GroupName, OwnerName};
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

use super::metrics_address::MetricsAddress;

/// What groups of both kinds need to know, checked.
#[derive(Clone)]
pub struct Common {
    /// The group's name: in ids, names and tags.
    pub group: GroupName,
    /// The name as it was written, for people.
    pub written_name: String,
    /// Whose resources these are; absent: a random name that is kept in the state directory. With one, Macs are found
    /// again also when the state directory is lost.
    pub owner: Option<OwnerName>,
    /// Whether machines of the group that the state directory does not know are taken over (or left alone). Absent: the
    /// group does not start beside them.
    pub adopt: Option<bool>,
    /// Credentials and address of the API.
    pub settings: Settings,
    /// Where the machines are: one zone at least, each once, in the operator's order. Macs are in one zone.
    pub zones: Vec<Zone>,
    /// The most machines at any time.
    pub max_size: u32,
    /// How many may be left that should be gone; with more, nothing is created or claimed.
    pub max_leftovers: u32,
    /// Whether all machines are removed or released when the runner shuts the group down.
    pub delete_on_shutdown: bool,
    /// Where journal, keys, compiled policies and the decision log are kept.
    pub state_directory: PathBuf,
    /// The database that has the journal instead, so that another host can take the group over.
    pub shared_state: Option<Arc<dyn SharedLog>>,
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

impl fmt::Debug for Common {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Common")
            .field("group", &self.group)
            .field("zones", &self.zones)
            .field("max_size", &self.max_size)
            .field("state_directory", &self.state_directory)
            .finish_non_exhaustive()
    }
}

impl Common {
    /// The group's folder in the state directory.
    pub(crate) fn folder(&self) -> PathBuf {
        self.state_directory.join("fleeting").join(self.group.as_str())
    }

    /// The first zone, by which the group introduces itself: a further one makes it no other group.
    pub(crate) fn first_zone(&self) -> &Zone {
        self.zones.first().expect("a group has one zone at least")
    }

    /// The brake on one zone's machines, which are judged in a question of their own: all zones together may lose as
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
