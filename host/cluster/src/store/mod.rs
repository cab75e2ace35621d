//! Where clusters are kept: one interface, so that the same operations run on one machine (in the journal's log)
//! and elsewhere (for example on the status of a Kubernetes object, with leader election for liveness).

mod log;

use async_trait::async_trait;

pub use log::LogClusterStore;
pub use windlass_lifecycle::log::Fence;

use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEvent, ClusterEventKind, ClusterOperation, Node, OperationKind, OperationState};

#[derive(Clone, Debug, PartialEq)]
pub struct StoredCluster {
    pub cluster: Cluster,
    /// Its nodes, by group and index.
    pub nodes: Vec<Node>,
    /// The operation that is open, if one is.
    pub open: Option<ClusterOperation>,
    /// What other processes request of that operation.
    pub requests: Requests,
    /// What a write must name. It changes with every operation that begins and with every one that is taken over. Never
    /// given twice in the life of a store, also not to a later cluster of the same name.
    pub fence: Fence,
}

/// What other processes request of the operation under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// It is to be called off.
    pub cancel: bool,
    /// The user deletes the cluster.
    pub delete: bool,
}

/// An operation to begin.
#[derive(Clone, Debug)]
pub struct Begin {
    /// What is there: `None` makes a new cluster. Anything else there refuses ([`StoreError::Overtaken`]).
    pub expected: Option<Fence>,
    /// The cluster as it is to be while the operation runs.
    pub cluster: Cluster,
    /// Nodes to write: new ones, and changed ones.
    pub nodes: Vec<Node>,
    /// The operation. Its number is given by the store.
    pub operation: ClusterOperation,
}

/// What is written together, or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub cluster: Option<Cluster>,
    /// Nodes to write.
    pub nodes: Vec<Node>,
    /// Names of nodes to forget.
    pub forget_nodes: Vec<String>,
    /// The operation. One that is not open any more is ended with this write.
    pub operation: Option<ClusterOperation>,
    /// What happened, in order, and when (milliseconds since 1970).
    pub events: Vec<(u64, ClusterEventKind)>,
    /// Whether the cluster is forgotten with this write. Its operations and events stay, for the history.
    pub forget_cluster: bool,
}

impl Change {
    /// Whether it ends an operation as done that can be cancelled.
    #[must_use]
    pub fn ends_well(&self) -> bool {
        let done = |operation: &ClusterOperation| {
            operation.state == OperationState::Done && operation.kind != OperationKind::Terminate
        };
        self.operation.as_ref().is_some_and(done)
    }
}

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A read or write failed.
    #[error("{what}: {problem}")]
    Failed {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        problem: String,
    },
    /// Something stored cannot be understood.
    #[error("table {table}, row {row}: {problem}")]
    Row { table: &'static str, row: String, problem: String },
    /// The cluster is not stored any more.
    #[error("the cluster was removed meanwhile")]
    Gone,
    /// The operation was to be done, and somebody has cancelled it.
    #[error("the operation was cancelled")]
    Cancelled,
    /// Somebody else began or took over an operation on this cluster.
    #[error("another process is at work on this cluster")]
    Overtaken,
}

/// Keeps clusters.
///
/// # Guarantees that an implementation must give
/// - *One operation per cluster at a time*: [`begin`](ClusterStore::begin) succeeds for one of several callers who saw
///   the same state, and each later write names the fence that it got.
/// - *All or nothing*: what one call writes is there whole or not at all, also after a crash; and it is there when the
///   call returns.
/// - *Operations and events survive their cluster*, within a bound on their number, as long as there is a place that
///   can hold them.
#[async_trait]
pub trait ClusterStore: Send + Sync + std::fmt::Debug {
    /// Every cluster, by name; without nodes.
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError>;

    /// One cluster with its nodes.
    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError>;

    /// Opens an operation. Gives the fence for its writes, and the operation's number.
    async fn begin(&self, begin: Begin) -> Result<(Fence, u64), StoreError>;

    /// Takes the open operation over for `runner`; whoever holds `expected` can write no more.
    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError>;

    /// Writes. [`StoreError::Gone`] and [`StoreError::Overtaken`] say that nothing was written. So does
    /// [`StoreError::Cancelled`]: no operation but a termination ends as done while its end is requested.
    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError>;

    /// Adds requests to the operation of this number. False when it is not open any more, so that no request outlives
    /// what it was made for.
    ///
    /// A request to cancel ends with the operation. One to delete stays until the termination that follows it begins;
    /// any other operation that begins before that takes its place, and so does [`withdraw`](ClusterStore::withdraw).
    async fn request(&self, name: &ClusterName, operation: u64, requests: Requests) -> Result<bool, StoreError>;

    /// Takes a request to delete back. False when there was none.
    async fn withdraw(&self, name: &ClusterName) -> Result<bool, StoreError>;

    /// The requests; `None` when there is no such cluster, or not under this fence.
    async fn requests(&self, name: &ClusterName, fence: Fence) -> Result<Option<Requests>, StoreError>;

    /// A cluster's operations, the newest first; also of clusters that are gone.
    async fn operations(&self, name: &ClusterName, limit: u32) -> Result<Vec<ClusterOperation>, StoreError>;

    /// A cluster's events after the one of the sequence `after`, the oldest first; of one operation, or of all.
    async fn events(
        &self,
        name: &ClusterName,
        operation: Option<u64>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ClusterEvent>, StoreError>;

    /// What this process is called in the operations that it runs, so that [`runner_lives`](ClusterStore::runner_lives)
    /// can be asked about it: the lifecycle's name, unless the store tells processes apart by another.
    fn runner(&self, lifecycle: &str) -> String {
        lifecycle.to_owned()
    }

    /// Whether the process behind a runner's name still works.
    async fn runner_lives(&self, runner: &str) -> bool;
}
