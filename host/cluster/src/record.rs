//! What is known of a cluster, as data: itself, its nodes, its operations, and what happened.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{AsRefStr, Display, IntoStaticStr};
use windlass_lifecycle::{OperationId, ResourceName};
use windlass_policy::slots::provisioning;
use windlass_policy::slots::types::Failure;

use crate::name::{ClusterName, NodeGroupName};
use crate::specification::ClusterSpecification;

/// Where a cluster stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ClusterState {
    /// Its nodes are being made for the first time.
    Creating,
    /// It is whole: every node runs, configured and started.
    Active,
    /// Nodes come or go.
    Scaling,
    /// All of it goes.
    Terminating,
    /// An operation failed, and somebody must look. The reasons say why.
    Error,
    /// Somebody decided to leave its nodes alone: only a termination touches them again.
    Abandoned,
}

/// What an operation does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OperationKind {
    /// Make a cluster.
    Create,
    /// Let nodes come and go.
    Scale,
    /// Take all of it away.
    Terminate,
}

impl OperationKind {
    pub(crate) fn for_policy(self) -> provisioning::Operation {
        match self {
            Self::Create => provisioning::Operation::Create,
            Self::Scale => provisioning::Operation::Scale,
            Self::Terminate => provisioning::Operation::Terminate,
        }
    }
}

/// A part of an operation. `create` goes validate, servers, wait, prepare, configure, start; `scale` goes validate,
/// decommission, resize, configure, start; `terminate` goes decommission, servers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Stage {
    /// Scaleway is asked whether it has what is wanted, before anything is spent.
    Validate,
    /// Servers are made (create) or removed (terminate).
    Servers,
    /// Until every node runs and has its public addresses.
    Wait,
    /// The private addresses are looked up, so that the hooks know every node.
    Prepare,
    /// The user's hook for nodes that go.
    Decommission,
    /// Leaving nodes are removed and new ones made, at the same time.
    Resize,
    /// The user's hook for new nodes.
    Configure,
    /// The user's hook for configured nodes.
    Start,
}

impl Stage {
    pub(crate) fn for_policy(self) -> provisioning::Stage {
        match self {
            Self::Validate => provisioning::Stage::Validate,
            Self::Servers => provisioning::Stage::Servers,
            Self::Wait => provisioning::Stage::Wait,
            Self::Prepare => provisioning::Stage::Prepare,
            Self::Decommission => provisioning::Stage::Decommission,
            Self::Resize => provisioning::Stage::Resize,
            Self::Configure => provisioning::Stage::Configure,
            Self::Start => provisioning::Stage::Start,
        }
    }
}

/// Where an operation stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OperationState {
    /// Running, or left by a process that died.
    Open,
    /// Completed.
    Done,
    /// Failed, and what the provisioning policy answered was carried out.
    Recovered,
    /// Failed, and so did its recovery: something is left.
    Failed,
    /// The user deleted the cluster meanwhile.
    Cancelled,
    /// Somebody decided that it is neither finished nor undone: the nodes are left alone.
    Abandoned,
}

/// What a node is to the operation under way.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum NodeRole {
    /// It was there before and is to stay.
    Staying,
    /// It was there before and is to go.
    Leaving,
    /// It is made by this operation.
    Made,
}

impl NodeRole {
    pub(crate) fn for_policy(self) -> provisioning::NodeRole {
        match self {
            Self::Staying => provisioning::NodeRole::Staying,
            Self::Leaving => provisioning::NodeRole::Leaving,
            Self::Made => provisioning::NodeRole::Made,
        }
    }
}

/// Where a node stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, AsRefStr, IntoStaticStr, Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum NodeState {
    /// It is to be made; nothing was asked of Scaleway.
    Planned,
    /// Its creation is in the journal.
    Creating,
    /// It was made and ran.
    Running,
    /// It is being removed.
    Removing,
    /// It is gone, with everything that belonged to it.
    Removed,
    /// It should be gone, and something of it is left, or nobody could see whether.
    Left,
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// `<cluster>-<group>-<index>`, also the server's name.
    pub name: String,
    pub group: NodeGroupName,
    /// Its number in the group, from 1. Numbers only grow: none is given twice in the life of a cluster.
    pub index: u32,
    /// What it is to the operation under way; `staying` when there is none.
    pub role: NodeRole,
    pub state: NodeState,
    /// The operation of the journal that makes, or made, its server.
    pub creation: Option<OperationId>,
    /// The digest of its group, without the count, when its creation began ([`NodeGroup::digest`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Scaleway's id of its server.
    pub server: Option<String>,
    pub server_type: Option<String>,
    pub addresses: Vec<IpAddr>,
    /// Addresses in private networks.
    pub private_addresses: Vec<IpAddr>,
    /// The host key that an ssh hook saw first.
    #[serde(default)]
    pub ssh_host_key: Option<String>,
    /// Whether the decommission hook was begun for it, and nobody knows how it ended: then it must not serve again.
    #[serde(default)]
    pub decommission_began: bool,
    /// Whether the decommission hook has ended well for it.
    pub decommissioned: bool,
    /// Whether the configure hook was begun for it: from then on it may hold data.
    #[serde(default)]
    pub configure_began: bool,
    /// Whether the configure hook has ended well for it.
    pub configured: bool,
    /// Whether the start hook has ended well for it.
    pub started: bool,
    /// Whether its server carried our owner tag no longer when it was looked at last: then no hook runs for it, and it
    /// leaves the cluster without being removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_ours: bool,
    /// Why it failed, or what of it is left.
    pub problem: Option<String>,
}

impl Node {
    /// One that is to be made.
    #[must_use]
    pub fn planned(cluster: &ClusterName, group: &NodeGroupName, index: u32) -> Self {
        Self {
            name: cluster.node(group, index),
            group: group.clone(),
            index,
            role: NodeRole::Made,
            state: NodeState::Planned,
            creation: None,
            template: None,
            server: None,
            server_type: None,
            addresses: Vec::new(),
            private_addresses: Vec::new(),
            ssh_host_key: None,
            decommission_began: false,
            decommissioned: false,
            configure_began: false,
            configured: false,
            started: false,
            not_ours: false,
            problem: None,
        }
    }

    /// Whether something of it exists, or may.
    #[must_use]
    pub fn exists(&self) -> bool {
        matches!(self.state, NodeState::Creating | NodeState::Running | NodeState::Removing | NodeState::Left)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    pub name: ClusterName,
    pub state: ClusterState,
    /// Why it stands there, the newest operation's words. Empty when all is well.
    pub reasons: Vec<String>,
    /// What should be gone and is not.
    pub left: Vec<String>,
    /// What it is to be. While an operation is under way, the counts are those that are wanted.
    pub specification: ClusterSpecification,
    /// The highest node number given so far, by group.
    pub last_index: BTreeMap<NodeGroupName, u32>,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// Milliseconds since 1970.
    pub updated_at: u64,
}

/// How many nodes a group had before an operation, and how many it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub before: u32,
    pub wanted: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterOperation {
    /// The cluster's nth operation, from 1.
    pub number: u64,
    pub kind: OperationKind,
    pub state: OperationState,
    /// The stage that it is in, or ended in.
    pub stage: Stage,
    /// The process that runs it, or ran it.
    pub runner: String,
    /// The policies with which it began.
    pub policies: Value,
    /// What a rollback needs, stored before the first stage: the counts of each group.
    pub counts: BTreeMap<NodeGroupName, Counts>,
    /// Whether the servers of a termination go without the decommission hook.
    #[serde(default)]
    pub force: bool,
    /// What is done about its failure, stored before it is done.
    pub recovery: Option<Recovery>,
    /// What happened and why, in words for people.
    pub reasons: Vec<String>,
    /// Nodes that have left the cluster and whose servers stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptNode>,
    /// Milliseconds since 1970.
    pub began_at: u64,
    /// Milliseconds since 1970.
    pub ended_at: Option<u64>,
}

/// A node that has left its cluster, and of which the server or something else stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    pub node: String,
    /// Scaleway's id of its server.
    pub server: String,
    /// Who kept it, and why.
    pub why: String,
    /// What of it stays because it is no longer ours. Empty where a policy keeps the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ours: Vec<ResourceName>,
    /// What of it the rollback policy keeps, where the server is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResourceName>,
}

impl std::fmt::Display for KeptNode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.parts.is_empty() {
            true => {
                write!(formatter, "{} has left the cluster, and its server {} is {}", self.node, self.server, self.why)
            }
            false => write!(formatter, "{} has left the cluster: {}", self.node, self.why),
        }
    }
}

impl ClusterOperation {
    /// One that begins at `began_at`. Its number is given by the store.
    #[must_use]
    pub fn begun(kind: OperationKind, stage: Stage, runner: &str, began_at: u64) -> Self {
        Self {
            number: 0,
            kind,
            state: OperationState::Open,
            stage,
            runner: runner.to_owned(),
            policies: Value::Null,
            counts: BTreeMap::new(),
            force: false,
            recovery: None,
            reasons: Vec::new(),
            kept: Vec::new(),
            began_at,
            ended_at: None,
        }
    }

    /// The operation's id as hooks receive it: `<cluster>-<when it began>-<number>`. Unlike a number alone, it is
    /// never that of an operation on an earlier cluster of this name whose history is lost.
    #[must_use]
    pub fn id(&self, cluster: &ClusterName) -> String {
        format!("{cluster}-{:x}-{}", self.began_at, self.number)
    }
}

/// What is done about a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Where it failed.
    pub stage: Stage,
    pub cause: Failure,
    /// The state in which the cluster is left.
    pub state: ClusterState,
    /// The names of the nodes that are deleted.
    pub delete: Vec<String>,
    pub decided_by: String,
    /// What the policy said.
    pub reason: Option<String>,
    /// The decision's id in the decision log.
    pub decision: String,
}

/// What happened at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterEvent {
    /// Grows from event to event, over all clusters of a store. 0 in the live view.
    #[serde(default)]
    pub sequence: u64,
    pub cluster: ClusterName,
    /// Its nth operation.
    pub operation: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// What.
    pub what: ClusterEventKind,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum ClusterEventKind {
    /// An operation is stored and begins.
    Opened { kind: OperationKind, counts: BTreeMap<NodeGroupName, Counts> },
    /// Another process goes on with an operation.
    TakenOver {
        /// The process that began it.
        from: String,
    },
    /// A step begins. A stage has one step, `resize` has two.
    StepBegan {
        stage: Stage,
        /// What is done to each node, in words for people: `create servers`, `run the configure hook`.
        step: String,
        /// How many nodes (in `validate`: how many groups).
        total: u32,
    },
    /// A node is through a step.
    NodeDone {
        stage: Stage,
        step: String,
        /// The node (in `validate`: the group).
        node: String,
    },
    /// A node is not.
    NodeFailed {
        stage: Stage,
        step: String,
        /// The node (in `validate`: the group).
        node: String,
        reason: String,
    },
    /// What a hook wrote, its end where it is long.
    HookOutput {
        stage: Stage,
        /// The words.
        output: String,
    },
    /// An attempt failed, and the retry policy waits.
    Waiting {
        stage: Stage,
        step: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        milliseconds: u64,
        failure: String,
        /// What the policy said.
        reason: Option<String>,
    },
    /// It failed, and the provisioning policy was asked.
    Recovering(Recovery),
    /// The user deleted the cluster meanwhile.
    StoppingQuietly,
    /// It ended.
    Closed {
        state: OperationState,
        /// Where the cluster stands now; absent when it is gone.
        cluster: Option<ClusterState>,
        reasons: Vec<String>,
    },
}

/// A step of an operation, added up from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub stage: Stage,
    /// What is done to each node.
    pub step: String,
    /// How many nodes.
    pub total: u32,
    /// How many are through.
    pub done: u32,
    /// How many have failed.
    pub failed: u32,
}

/// Adds the events of one operation up, step by step in the order of their beginning.
#[must_use]
pub fn progress<'e>(events: impl IntoIterator<Item = &'e ClusterEvent>) -> Vec<Progress> {
    let mut steps: Vec<Progress> = Vec::new();
    for event in events {
        let count = |steps: &mut Vec<Progress>, stage: &Stage, step: &String, done: u32, failed: u32| {
            if let Some(progress) = steps.iter_mut().rev().find(|known| known.stage == *stage && known.step == *step) {
                progress.done += done;
                progress.failed += failed;
            }
        };
        match &event.what {
            ClusterEventKind::StepBegan { stage, step, total } => {
                steps.push(Progress { stage: *stage, step: step.clone(), total: *total, done: 0, failed: 0 })
            }
            ClusterEventKind::NodeDone { stage, step, .. } => count(&mut steps, stage, step, 1, 0),
            ClusterEventKind::NodeFailed { stage, step, .. } => count(&mut steps, stage, step, 0, 1),
            _ => {}
        }
    }
    steps
}
