//! What can go wrong, named by what failed.

use std::path::PathBuf;

use windlass_lifecycle::Aftermath;
use windlass_policy::slots::types::Failure;

use crate::name::InvalidName;
use crate::record::{ClusterState, KeptNode, Node, OperationKind, Stage};
use crate::specification::InvalidSpecification;
use crate::store::StoreError;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name breaks the rules of its kind.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A specification asks for something that cannot be.
    #[error(transparent)]
    Specification(#[from] InvalidSpecification),
    /// A specification's file cannot be used.
    #[error("{} cannot be used: {problem}", path.display())]
    SpecificationFile { path: PathBuf, problem: String },
    /// There is a cluster of this name.
    #[error(
        "there is a cluster {name} already, in the state {state}; {}",
        if *state == ClusterState::Abandoned { "terminate it first" } else { "scale it, or terminate it first" }
    )]
    Exists { name: String, state: ClusterState },
    /// There is none.
    #[error("there is no cluster \
        {name}{}", near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The cluster whose name is most like it.
        near: Option<String>,
    },
    /// A scaling names a group that the cluster does not have.
    #[error("cluster {cluster} has no node group {group}; it has: {}", groups.join(", "))]
    UnknownGroup {
        cluster: String,
        /// The group that was asked for.
        group: String,
        /// The groups that there are.
        groups: Vec<String>,
    },
    /// A scaling names a node that the cluster does not have.
    #[error("cluster {cluster} has no node \
        {node}{}", near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default())]
    UnknownNode {
        cluster: String,
        /// The node that was asked for.
        node: String,
        /// The node whose name is most like it.
        near: Option<String>,
    },
    /// A scaling names a node that cannot leave.
    #[error("node {node} cannot be removed: {problem}")]
    Node { node: String, problem: String },
    /// Another operation is under way.
    #[error(
        "cluster {cluster} is busy: operation {number} ({kind}) is at the stage {stage}; wait for it, cancel it, or \
         terminate the cluster"
    )]
    Busy {
        cluster: String,
        number: u64,
        kind: OperationKind,
        /// Where it is.
        stage: Stage,
    },
    /// A termination is under way.
    #[error("operation {number} of cluster {cluster} cannot be cancelled: a termination always runs to its end")]
    NotCancellable { cluster: String, number: u64 },
    /// The process that ran the cluster's operation died.
    #[error("operation {number} ({kind}) of cluster {cluster} was left open by a process that ended; resume it first")]
    Interrupted { cluster: String, number: u64, kind: OperationKind },
    /// Somebody abandoned the cluster, and only a termination touches its nodes again.
    #[error("cluster {cluster} was abandoned; only its termination touches its nodes again")]
    Abandoned { cluster: String },
    /// An operation failed. What its provisioning policy answered was carried out, as far as the failure says.
    #[error("{0}")]
    Failed(Box<ClusterFailure>),
    /// The operation was left, stored, to the next start.
    #[error("operation {number} of cluster {cluster} is left open; the next start finishes or undoes it")]
    LeftOpen { cluster: String, number: u64 },
    /// A policy with which the operation began is not there any more as it was.
    #[error(
        "operation {number} of cluster {cluster} waits for a policy that it started with and that is missing or changed \
         ({lost}): restore the state directory's folder policies, or run `windlass cluster abandon {cluster}`"
    )]
    PolicyLost { cluster: String, number: u64, lost: String },
    /// Another process took the operation over.
    #[error("another process goes on with operation {number} of cluster {cluster}")]
    TakenOver { cluster: String, number: u64 },
    /// The store of clusters cannot be used; nothing was touched.
    #[error("the clusters' store: {0}")]
    Store(#[from] StoreError),
    /// The store of clusters failed while an operation was under way. The operation is open; the next start that can
    /// write finishes or undoes it.
    #[error(
        "operation {number} ({kind}) of cluster {cluster} stopped at the stage {stage}, because it could not be recorded: \
         {source}"
    )]
    Unrecorded {
        cluster: String,
        number: u64,
        kind: OperationKind,
        /// Where it stopped.
        stage: Stage,
        /// The nodes that existed then, or may have, as far as this process knows.
        nodes: Vec<Node>,
        /// What the store said.
        source: StoreError,
    },
    /// The floor below failed outside of an operation.
    #[error(transparent)]
    Lifecycle(#[from] windlass_lifecycle::Error),
}

impl Error {
    /// What is left after this error.
    #[must_use]
    pub fn aftermath(&self) -> Aftermath {
        match self {
            Self::Name(_)
            | Self::Specification(_)
            | Self::SpecificationFile { .. }
            | Self::Exists { .. }
            | Self::Unknown { .. }
            | Self::UnknownGroup { .. }
            | Self::UnknownNode { .. }
            | Self::Node { .. }
            | Self::Busy { .. }
            | Self::NotCancellable { .. }
            | Self::Interrupted { .. }
            | Self::Abandoned { .. }
            // The store failed before anything was begun. Later it is `Unrecorded`.
            | Self::Store(_) => Aftermath::Refused,
            Self::Failed(failed) if failed.left.is_empty() && failed.kept.is_empty() => Aftermath::Clean,
            Self::Failed(_) => Aftermath::Left(Vec::new()),
            Self::LeftOpen { .. } | Self::TakenOver { .. } | Self::PolicyLost { .. } => Aftermath::Open,
            Self::Unrecorded { .. } => Aftermath::Left(Vec::new()),
            Self::Lifecycle(error) => error.aftermath(),
        }
    }
}

/// How an operation failed, and what was done about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterFailure {
    pub cluster: String,
    /// Its nth operation.
    pub number: u64,
    /// What it did.
    pub kind: OperationKind,
    /// Where it failed.
    pub stage: Stage,
    pub cause: Failure,
    /// The state in which the cluster is left; absent when it is gone.
    pub state: Option<ClusterState>,
    /// Everything there is to say, the first cause first.
    pub reasons: Vec<String>,
    /// What should be gone and is not.
    pub left: Vec<String>,
    /// Nodes that have left the cluster and whose servers stay.
    pub kept: Vec<KeptNode>,
}

impl std::fmt::Display for ClusterFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of cluster {} failed at the stage {}: ", self.kind, self.cluster, self.stage)?;
        write!(formatter, "{}", self.reasons.join("; "))?;
        match self.state {
            Some(state) => write!(formatter, "; the cluster is now {state}")?,
            None => write!(formatter, "; the cluster is gone")?,
        }
        if !self.left.is_empty() {
            write!(formatter, "; LEFT: {}", self.left.join("; "))?;
        }
        self.kept.iter().try_for_each(|kept| write!(formatter, "; {kept}"))
    }
}
