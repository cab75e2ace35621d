use std::fmt;

use windlass_lifecycle::{CloudInit, ServerSpecification};
use windlass_scaleway::Zone;

use super::common::Common;
use super::zones::ZonalIds;

/// Everything a group of instances needs to know, checked.
#[derive(Clone)]
pub struct Configuration {
    /// What groups of Macs have as well.
    pub common: Common,
    /// What each server is to be, in the first zone, without the keys that are added when the state directory is open.
    pub server: ServerSpecification,
    /// In what it differs between the zones.
    pub zonal: ZonalIds,
    /// The tags that the state-mapping policy sees on servers: each once, at most
    /// [`MAX_WATCHED_TAGS`](windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS).
    pub watched_tags: Vec<String>,
    /// How many creations run at the same time.
    pub max_parallel_creates: u32,
    /// Whether instances can be suspended (`stop_in_place`; a server stopped in place is still billed).
    pub suspend: bool,
}

/// Servers take longer than this to boot, in milliseconds.
const SHORTEST_BOOT: u64 = 30_000;

impl Configuration {
    /// What is probably not meant, although it can be.
    pub fn doubts(&self) -> Vec<String> {
        let cloud_init = self.server.cloud_init.as_ref().and_then(CloudInit::doubt);
        let timeout = self.server.deadline_milliseconds;
        let is_short = timeout < SHORTEST_BOOT;
        let short = is_short.then(|| {
            let seconds = timeout / 1_000;
            format!("create_timeout: servers take longer than {seconds} s to boot, so each creation would fail")
        });
        cloud_init.map(|doubt| format!("cloud_init: {doubt}")).into_iter().chain(short).collect()
    }
}

/// Without cloud-init and tags, which may hold secrets.
impl fmt::Debug for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Configuration")
            .field("common", &self.common)
            .field("types", &self.server.types)
            .field("image", &self.server.image)
            .finish_non_exhaustive()
    }
}

impl AsRef<Common> for Configuration {
    fn as_ref(&self) -> &Common {
        &self.common
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
}
