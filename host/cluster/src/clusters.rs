//! The entry: clusters as they are known, with their operations and what happened in these.

use std::sync::Arc;

use windlass_lifecycle::{
    LeftResource, OperationKind as JournalKind, OperationState as JournalState, Report, ResourceName,
};
use windlass_policy::slots::types::Label;

use crate::Error;
use crate::name::ClusterName;
use crate::reader::ClusterReader;
use crate::record::Node;
use crate::shared::{ClusterOptions, Shared};
use crate::status::{ClusterHistory, ClusterStatus};
use crate::store::StoredCluster;

/// Clusters: created, scaled, terminated, resumed, looked at. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Clusters").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

impl Clusters {
    /// Makes the entry. Opens nothing and asks nobody; what an earlier process left open is not touched yet: see
    /// [`Clusters::resume`].
    #[must_use]
    pub fn new(options: ClusterOptions) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// Tells policies these labels of a cluster's object from now on. Kept in memory; none forgets them.
    pub fn set_labels(&self, cluster: &ClusterName, labels: Vec<Label>) {
        let mut known = self.shared.labels.lock();
        match labels.is_empty() {
            true => known.remove(cluster),
            false => known.insert(cluster.clone(), labels),
        };
    }

    /// Every cluster, by name; without nodes.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<ClusterStatus>, Error> {
        let mut all = Vec::new();
        for stored in self.shared.store.clusters().await? {
            all.push(self.status_of(stored).await);
        }
        Ok(all)
    }

    /// What the creation of a node's server has made and not removed, as far as the journal says; empty where that
    /// cannot be read.
    #[must_use]
    pub fn made_by(&self, node: &Node) -> Vec<ResourceName> {
        let journal = self.shared.lifecycle.journal();
        node.creation.as_ref().and_then(|creation| journal.made_by(creation).ok()).unwrap_or_default()
    }

    /// What the last removal of a node's server has left, as far as the journal says; empty where none has.
    #[must_use]
    pub fn left_of(&self, node: &Node) -> Vec<LeftResource> {
        let journal = self.shared.lifecycle.journal();
        let operations = node.server.as_ref().and_then(|server| journal.operations_of_resource(server).ok());
        let mut removals =
            operations.into_iter().flatten().filter(|operation| operation.kind == JournalKind::CleanupServer);
        let last = removals.next().filter(|operation| operation.state == JournalState::Left);
        last.as_ref().and_then(Report::of).map(|report| report.left).unwrap_or_default()
    }

    /// One cluster with its nodes and its operation.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn status(&self, name: &ClusterName) -> Result<ClusterStatus, Error> {
        let stored = self.stored(name).await?;
        Ok(self.status_of(stored).await)
    }

    pub(crate) async fn status_of(&self, stored: StoredCluster) -> ClusterStatus {
        let operation_lives = stored.open.is_some() && self.lives(&stored).await;
        ClusterStatus::of(stored, operation_lives)
    }

    /// The same clusters, to look at.
    #[must_use]
    pub fn reader(&self) -> ClusterReader {
        let Shared { store, client, lifecycle, .. } = &*self.shared;
        ClusterReader::new(Some(Arc::clone(store)), client.clone(), Some(lifecycle.owner().clone()))
    }

    /// As [`ClusterReader::history`].
    ///
    /// # Errors
    /// As there.
    pub async fn history(&self, name: &ClusterName) -> Result<Vec<ClusterHistory>, Error> {
        self.reader().history(name).await
    }

    /// Refuses what changes something, where the state directory is a copy.
    ///
    /// # Errors
    /// [`Error::Lifecycle`].
    pub fn check_history(&self) -> Result<(), Error> {
        Ok(self.shared.lifecycle.check_history()?)
    }

    pub(crate) async fn stored(&self, name: &ClusterName) -> Result<StoredCluster, Error> {
        match self.shared.store.cluster(name).await? {
            Some(stored) => Ok(stored),
            None => Err(self.unknown(name).await?),
        }
    }

    /// The number that the cluster's next operation gets.
    pub(crate) async fn next_number(&self, name: &ClusterName) -> Result<u64, Error> {
        let last = self.shared.store.operations(name, 1).await?;
        Ok(last.first().map_or(1, |operation| operation.number + 1))
    }

    pub(crate) async fn unknown(&self, name: &ClusterName) -> Result<Error, Error> {
        self.reader().unknown(name).await
    }

    /// Whether somebody works on the cluster's open operation.
    pub(crate) async fn lives(&self, stored: &StoredCluster) -> bool {
        let Some(open) = &stored.open else { return false };
        if open.runner == self.shared.runner {
            return self.shared.active.contains(&stored.cluster.name);
        }
        self.shared.store.runner_lives(&open.runner).await
    }

    pub(crate) async fn refuse_busy(&self, stored: &StoredCluster) -> Result<(), Error> {
        let Some(open) = &stored.open else { return Ok(()) };
        let (cluster, number, kind) = (stored.cluster.name.to_string(), open.number, open.kind);
        let busy = Error::Busy { cluster, number, kind, stage: open.stage };
        if self.lives(stored).await {
            return Err(busy);
        }
        // Only what is still open now was left by a dead process: the other may have ended between the two looks.
        match self.shared.store.cluster(&stored.cluster.name).await? {
            Some(now) if now.fence == stored.fence && now.open.is_some() => {
                // On a copy it cannot be resumed either.
                self.check_history()?;
                Err(Error::Interrupted { cluster: stored.cluster.name.to_string(), number, kind })
            }
            _ => Err(busy),
        }
    }
}
