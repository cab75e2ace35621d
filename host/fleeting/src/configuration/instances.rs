use std::fmt;
use std::path::PathBuf;

use windlass_console::ServeOptions;
use windlass_lifecycle::{GroupName, OwnerName, ServerSpecification};
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

use super::metrics_address::MetricsAddress;
use super::zones::ZonalIds;

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
    /// How many may be left that should be gone; with more, nothing is created.
    pub max_leftovers: u32,
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
