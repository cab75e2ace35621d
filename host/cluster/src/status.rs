//! What callers learn of clusters: how an operation ended, what a cluster is now, what was done with it.

use serde::Serialize;

use crate::record::{Cluster, ClusterEvent, ClusterOperation, KeptNode, Node, OperationState};
use crate::store::StoredCluster;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterOutcome {
    /// The cluster's nth operation.
    pub number: u64,
    /// `done`, or `cancelled`: the user deleted the cluster meanwhile.
    pub state: OperationState,
    /// The cluster; absent when it is gone.
    pub cluster: Option<Cluster>,
    pub nodes: Vec<Node>,
    /// Nodes that have left the cluster and whose servers stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptNode>,
}

/// A cluster with everything that can be seen of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterStatus {
    pub cluster: Cluster,
    /// Its nodes, by group and number.
    pub nodes: Vec<Node>,
    /// The operation under way, if one is.
    pub operation: Option<ClusterOperation>,
    /// Whether the process that runs it lives. One that died waits for [`Clusters::resume`](crate::Clusters::resume).
    pub operation_lives: bool,
    /// Whether its deletion is requested.
    pub deletion_requested: bool,
    /// What Scaleway says of its nodes, where it was asked ([`ClusterReader::compare`](crate::ClusterReader::compare)).
    pub seen: Option<ClusterObservation>,
}

impl ClusterStatus {
    pub(crate) fn of(stored: StoredCluster, operation_lives: bool) -> Self {
        Self {
            cluster: stored.cluster,
            nodes: stored.nodes,
            operation: stored.open,
            operation_lives,
            deletion_requested: stored.requests.delete,
            seen: None,
        }
    }
}

/// What Scaleway says of a cluster's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterObservation {
    /// When it was asked: milliseconds since 1970.
    pub at: u64,
    /// The nodes that have a server.
    pub nodes: Vec<NodeObservation>,
}

/// What Scaleway says of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeObservation {
    /// Its name.
    pub node: String,
    /// The state of its server; absent when there is none.
    pub state: Option<String>,
    /// The server's public addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// How that differs from what is known here, in words.
    pub differences: Vec<String>,
}

/// An operation and what happened in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterHistory {
    pub operation: ClusterOperation,
    /// Its events, in order.
    pub events: Vec<ClusterEvent>,
}

/// What [`Clusters::cancel`](crate::Clusters::cancel) called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalledOff {
    /// The operation of this number will end.
    Operation(u64),
    /// A requested deletion was withdrawn.
    Deletion,
    /// There was nothing to call off.
    Nothing,
}
