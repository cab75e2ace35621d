use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::world::{World, sorted};

/// Everything that exists, each as its API shows it, oldest first.
///
/// Volumes of Block Storage and of the Instance API stand together; only the latter have `volume_type`.
/// Dynamic IPs belong to their server and stand there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Instances.
    pub servers: Vec<Value>,
    /// Flexible IPs.
    pub ips: Vec<Value>,
    /// Local and Block Storage volumes.
    pub volumes: Vec<Value>,
    pub private_nics: Vec<Value>,
    /// IAM ssh keys.
    pub ssh_keys: Vec<Value>,
    /// Apple silicon servers. Beside what their API shows, `simulator` tells what was done to each: `reboots`,
    /// `reinstalls`, `reinstalled_at`, `wiped` (when, and under which `name` it was wiped) and `names` (which it had,
    /// since when).
    pub apple_silicon_servers: Vec<Value>,
    /// Apple silicon servers that are gone, with `deleted_at` and `deleted_by` (`delete`, `schedule` or `control`).
    /// They don't exist, so no count counts them.
    #[serde(default)]
    pub gone_apple_silicon_servers: Vec<Value>,
    /// By id, the [`sequence`](crate::RequestRecord::sequence) of the last request that changed a resource, also of
    /// what is gone: of the last 10,000, the request that removed it. A change that comes later by itself, as the end
    /// of a server that was terminated, counts for the request that began it; 0 stands for none, a control for
    /// example. An IP, a volume and a server that are tied or untied are all changed by it.
    /// (Over HTTP they are a control of their own, `/_simulator/changes`: whoever reads the lists finds only lists.)
    #[serde(skip)]
    pub changes: BTreeMap<String, u64>,
}

impl Resources {
    pub(crate) fn of(world: &World) -> Self {
        let mut volumes: Vec<(u64, Value)> =
            world.volumes.values().map(|volume| (volume.created, world.show_volume(volume))).collect();
        volumes.extend(world.block_volumes.values().map(|volume| (volume.created, world.show_block_volume(volume))));
        Self {
            servers: shown(world.servers.values(), |server| server.created, |server| world.show_server(server)),
            ips: shown(world.ips.values(), |ip| ip.created, |ip| world.show_ip(ip)),
            volumes: sorted(volumes, false, |volume| volume.0).into_iter().map(|volume| volume.1).collect(),
            private_nics: shown(world.private_nics.values(), |nic| nic.created, |nic| world.show_private_nic(nic)),
            ssh_keys: shown(world.ssh_keys.values(), |key| key.created, |key| world.show_ssh_key(key)),
            apple_silicon_servers: shown(
                world.apple_servers.values(),
                |server| server.created,
                |server| world.show_apple_server(server),
            ),
            gone_apple_silicon_servers: world.gone_apple_servers.clone(),
            changes: world.changes(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// Whether nothing exists.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Those that carry `tag`. Apple silicon servers and ssh keys have no tags.
    #[must_use]
    pub fn tagged(&self, tag: &str) -> Resources {
        self.filtered(|value| has_tag(value, tag))
    }

    /// Those that do not carry `tag`, the tag of an owner for example: what belongs to others, or to nobody. Apple
    /// silicon servers and ssh keys have no tags and are all among them.
    #[must_use]
    pub fn others(&self, tag: &str) -> Resources {
        self.filtered(|value| !has_tag(value, tag))
    }

    /// With the changes of those that are kept.
    fn filtered(&self, kept: impl Fn(&Value) -> bool) -> Resources {
        let keep = |list: &[Value]| list.iter().filter(|value| kept(value)).cloned().collect();
        let mut filtered = Resources {
            servers: keep(&self.servers),
            ips: keep(&self.ips),
            volumes: keep(&self.volumes),
            private_nics: keep(&self.private_nics),
            ssh_keys: keep(&self.ssh_keys),
            apple_silicon_servers: keep(&self.apple_silicon_servers),
            gone_apple_silicon_servers: Vec::new(),
            changes: BTreeMap::new(),
        };
        let ids: Vec<&str> = filtered.lists().into_iter().flatten().filter_map(|value| value["id"].as_str()).collect();
        filtered.changes = ids.iter().filter_map(|id| Some(((*id).to_owned(), *self.changes.get(*id)?))).collect();
        filtered
    }

    fn lists(&self) -> [&Vec<Value>; 6] {
        [&self.servers, &self.ips, &self.volumes, &self.private_nics, &self.ssh_keys, &self.apple_silicon_servers]
    }
}

fn has_tag(value: &Value, tag: &str) -> bool {
    value["tags"].as_array().is_some_and(|tags| tags.iter().any(|candidate| candidate.as_str() == Some(tag)))
}

fn shown<'a, T: 'a, K: Ord>(
    items: impl Iterator<Item = &'a T>,
    created: impl Fn(&T) -> K,
    view: impl Fn(&T) -> Value,
) -> Vec<Value> {
    sorted(items, false, |item| created(item)).into_iter().map(view).collect()
}
