//! What a cluster is to be, as data.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_lifecycle::{
    AddressKind, CloudInit, ExtraVolume, ImageChoice, RootVolume, ServerSpecification, VolumeKind,
};
use windlass_policy::Mistake;
use windlass_scaleway::Zone;

use crate::hooks::{Hook, HookAction};
use crate::name::{ClusterName, NodeGroupName};
use crate::units;

/// Node groups of one cluster at most.
const MAX_GROUPS: usize = 64;
/// Nodes of one cluster at most: far above what is measured (2,000), so that a slip costs nothing.
pub(crate) const MAX_NODES: u32 = 10_000;

/// A specification asks for something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}{}", also.iter().map(|other| format!("; {other}")).collect::<String>())]
pub struct InvalidSpecification {
    /// The key, or the line.
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
    /// What else is wrong.
    pub also: Vec<InvalidSpecification>,
}

impl InvalidSpecification {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), also: Vec::new() }
    }

    /// Several mistakes as one error; none where there are none.
    pub(crate) fn all_of(mistakes: impl IntoIterator<Item = Mistake>) -> Result<(), Self> {
        let mut all = mistakes.into_iter().map(|mistake| Self::new(mistake.place, mistake.words));
        match all.next() {
            None => Ok(()),
            Some(first) => Err(Self { also: all.collect(), ..first }),
        }
    }
}

/// A cluster: groups of servers that belong together, and what the user does with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpecification {
    pub name: ClusterName,
    /// The zone in which all of it is.
    pub zone: Zone,
    /// Id of the project. Absent: the client's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// How long one server may take until it runs.
    #[serde(default = "default_server_deadline", with = "units::duration")]
    pub server_deadline: Duration,
    /// How long the stages `wait` and `prepare` may take each, until every node runs and has its addresses.
    #[serde(default = "default_wait_deadline", with = "units::duration")]
    pub wait_deadline: Duration,
    /// The node groups by name.
    pub groups: BTreeMap<NodeGroupName, NodeGroup>,
    /// What the user runs at three points of a cluster's life.
    #[serde(default, skip_serializing_if = "HookSet::is_empty")]
    pub hooks: HookSet,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeGroup {
    /// How many nodes.
    pub count: u32,
    /// Server types in the order of preference: the next is tried when one is out of stock.
    pub types: Vec<String>,
    /// An image by the marketplace's label (`ubuntu_noble`) or by id.
    pub image: String,
    /// The root volume. Absent: as the image says, on Block Storage.
    #[serde(default, skip_serializing_if = "VolumeSpecification::is_default")]
    pub root_volume: VolumeSpecification,
    /// Further volumes, made new for each node and removed with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeSpecification>,
    /// Flexible addresses of each node. Absent: one of IPv4.
    #[serde(default = "default_addresses")]
    pub addresses: Vec<AddressKind>,
    /// Whether a node without a flexible address gets a dynamic one.
    #[serde(default)]
    pub dynamic_address: bool,
    /// Ids of private networks to join.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_networks: Vec<String>,
    /// Id of a security group. Absent: the project's default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,
    /// Id of a placement group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// A file with user data for cloud-init, relative to the specification's folder. Only its place is stored: its
    /// content may hold secrets, and is read anew by each operation that makes nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init_file: Option<String>,
    /// Tags beside ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpecification {
    /// `block` (Block Storage) or `local`.
    #[serde(default)]
    pub kind: VolumeKind,
    /// Bytes, written as `20GB`. A root volume may leave it out: as large as the image.
    #[serde(default, with = "units::optional_size", skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Operations per second (Block Storage: 5000 or 15000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<u32>,
}

impl VolumeSpecification {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What the user runs. Each may be absent: then the stage does nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookSet {
    /// Before nodes are taken away: move their work and data elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decommission: Option<Hook>,
    /// When nodes run: make them what they are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<Hook>,
    /// When nodes are configured: let them serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Hook>,
}

impl HookSet {
    fn is_empty(&self) -> bool {
        self.decommission.is_none() && self.configure.is_none() && self.start.is_none()
    }
}

fn default_server_deadline() -> Duration {
    Duration::from_millis(windlass_lifecycle::DEFAULT_DEADLINE_MILLISECONDS)
}

fn default_wait_deadline() -> Duration {
    Duration::from_secs(300)
}

fn default_addresses() -> Vec<AddressKind> {
    vec![AddressKind::Ipv4]
}

impl NodeGroup {
    /// Nodes of this type, with one IPv4 address each and nothing else.
    #[must_use]
    pub fn new(count: u32, server_type: &str, image: &str) -> Self {
        Self {
            count,
            types: vec![server_type.to_owned()],
            image: image.to_owned(),
            root_volume: VolumeSpecification::default(),
            volumes: Vec::new(),
            addresses: default_addresses(),
            dynamic_address: false,
            private_networks: Vec::new(),
            security_group: None,
            placement_group: None,
            cloud_init_file: None,
            tags: Vec::new(),
        }
    }

    /// What its nodes are made by: a digest of everything but the count. Of a cloud-init file it knows the path alone.
    pub(crate) fn digest(&self) -> String {
        let json = serde_json::to_vec(&Self { count: 0, ..self.clone() }).expect("strings, numbers and lists are JSON");
        hex::encode(&ring::digest::digest(&ring::digest::SHA256, &json).as_ref()[..16])
    }
}

impl ClusterSpecification {
    /// A cluster without nodes and hooks.
    #[must_use]
    pub fn new(name: ClusterName, zone: Zone) -> Self {
        Self {
            name,
            zone,
            project: None,
            server_deadline: default_server_deadline(),
            wait_deadline: default_wait_deadline(),
            groups: BTreeMap::new(),
            hooks: HookSet::default(),
        }
    }

    /// As JSON with the whole URLs of webhooks, which are cut wherever else this is written: for a store, and for a
    /// file that its reader may see.
    ///
    /// # Errors
    /// [`serde_json`]'s.
    pub fn with_secrets(&self) -> Result<serde_json::Value, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        let hooks = [
            ("decommission", &self.hooks.decommission),
            ("configure", &self.hooks.configure),
            ("start", &self.hooks.start),
        ];
        for (name, hook) in hooks {
            if let Some(HookAction::Webhook(webhook)) = hook.as_ref().map(|hook| &hook.action) {
                value["hooks"][name]["webhook"]["url"] = webhook.url.as_str().into();
            }
        }
        Ok(value)
    }

    /// Writes server types and ids as Scaleway has them ([`ServerSpecification::normalize`]), so that what is stored and
    /// what is compared with it look alike.
    pub fn normalize(&mut self) {
        let names: Vec<NodeGroupName> = self.groups.keys().cloned().collect();
        for name in names {
            let mut server = self.server(&name, "", None);
            server.normalize();
            let Some(group) = self.groups.get_mut(&name) else { continue };
            group.types = server.types;
            if let ImageChoice::Id(id) = server.image {
                group.image = id;
            }
            group.private_networks = server.private_networks;
            group.security_group = server.security_group;
            group.placement_group = server.placement_group;
        }
    }

    /// Checks what can be checked without asking Scaleway.
    ///
    /// # Errors
    /// All of the [problems](Self::problems).
    pub fn check(&self) -> Result<(), InvalidSpecification> {
        InvalidSpecification::all_of(self.problems())
    }

    /// The groups that cannot stand beside another cluster's, since their nodes would have its nodes' names: hooks, and
    /// the inventories that they make, know nodes by these. `cluster-a` with the group `b` and `cluster` with `a-b` are
    /// such clusters.
    pub(crate) fn groups_named_as_in(&self, other: &Self) -> Vec<Mistake> {
        let mut problems = Vec::new();
        for group in self.groups.keys().filter(|_| self.name != other.name) {
            let node = self.name.node(group, 1);
            if let Some(same) = other.groups.keys().find(|theirs| other.name.node(theirs, 1) == node) {
                let (cluster, place) = (&other.name, format!("groups.{group}"));
                let words = format!(
                    "its nodes would be called {node} and so on, as those of group {same} of cluster {cluster}; give \
                     it another name"
                );
                problems.push(Mistake::new(place, words));
            }
        }
        problems
    }

    /// Everything that is known to be wrong, without asking Scaleway: each names its place and what would be right.
    #[must_use]
    pub fn problems(&self) -> Vec<Mistake> {
        let mut problems = Vec::new();
        let mut add = |place: String, words: String| problems.push(Mistake::new(place, words));
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            add("groups".to_owned(), format!("there must be 1 to {MAX_GROUPS} node groups"));
        }
        let total = self.groups.values().fold(0_u32, |sum, group| sum.saturating_add(group.count));
        if total > MAX_NODES {
            add("groups".to_owned(), format!("{total} nodes are more than {MAX_NODES}"));
        }
        if self.wait_deadline < Duration::from_secs(1) || self.wait_deadline > Duration::from_secs(86_400) {
            add("wait_deadline".to_owned(), "it is below a second or above a day".to_owned());
        }
        let mut sized = self.clone();
        sized.groups.values_mut().for_each(|group| group.volumes.retain(|volume| volume.size.is_some()));
        for (number, (name, group)) in self.groups.iter().enumerate() {
            let place = |field: &str| format!("groups.{name}.{field}");
            for (number, _) in group.volumes.iter().enumerate().filter(|(_, volume)| volume.size.is_none()) {
                add(place(&format!("volumes[{number}].size")), "it is needed, for example 20GB".to_owned());
            }
            // Existing volumes cannot be named, so the number of nodes only shows in their names, which are checked.
            for problem in sized.server(name, &self.name.node(name, 1), None).problems(1) {
                match problem.field {
                    // It is one for all groups.
                    "deadline_milliseconds" if number > 0 => {}
                    "deadline_milliseconds" => add("server_deadline".to_owned(), problem.problem),
                    field => add(place(field), problem.problem),
                }
            }
        }
        for (name, hook) in [
            ("decommission", &self.hooks.decommission),
            ("configure", &self.hooks.configure),
            ("start", &self.hooks.start),
        ] {
            for Mistake { place, words } in hook.iter().flat_map(Hook::problems) {
                add(format!("hooks.{name}.{place}"), words);
            }
        }
        problems
    }

    /// The server behind a node. The group must be one of this specification's.
    pub(crate) fn server(
        &self,
        group: &NodeGroupName,
        node: &str,
        cloud_init: Option<CloudInit>,
    ) -> ServerSpecification {
        let parts = self.groups.get(group).cloned().unwrap_or_else(|| NodeGroup::new(0, "", ""));
        let server_group =
            self.name.as_str().parse().expect("a cluster's name keeps the rules of a group's and is shorter");
        let mut specification =
            ServerSpecification::new(server_group, self.zone.clone(), "", ImageChoice::parse(&parts.image));
        specification.name = Some(node.to_owned());
        specification.types = parts.types;
        specification.addresses = parts.addresses;
        specification.dynamic_address = parts.dynamic_address;
        specification.root_volume = RootVolume {
            kind: parts.root_volume.kind,
            size: parts.root_volume.size,
            operations_per_second: parts.root_volume.operations_per_second,
        };
        specification.volumes = parts
            .volumes
            .into_iter()
            .map(|volume| ExtraVolume::New {
                kind: volume.kind,
                size: volume.size.unwrap_or_default(),
                operations_per_second: volume.operations_per_second,
            })
            .collect();
        specification.private_networks = parts.private_networks;
        specification.security_group = parts.security_group;
        specification.placement_group = parts.placement_group;
        specification.tags = parts.tags;
        specification.cloud_init = cloud_init;
        specification.project = self.project.clone();
        specification.deadline_milliseconds = u64::try_from(self.server_deadline.as_millis()).unwrap_or(u64::MAX);
        specification
    }
}
