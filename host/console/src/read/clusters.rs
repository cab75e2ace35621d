//! Clusters, read from the journal's file.

use windlass_cluster::{
    ClusterEvent, ClusterName, ClusterOperation, ClusterPlan, ClusterStore, LogClusterStore, StoredCluster,
};

use super::Source;
use crate::Error;

/// Operations and events of a cluster that are shown.
const MAX_OPERATIONS: u32 = 50;
const MAX_EVENTS: u32 = 500;

/// A cluster with what was done to it. One that is gone has its history still.
#[derive(Debug)]
pub(crate) struct ClusterView {
    pub(crate) name: ClusterName,
    pub(crate) stored: Option<StoredCluster>,
    pub(crate) operations: Vec<ClusterOperation>,
    pub(crate) events: Vec<ClusterEvent>,
    /// What comes next, or could.
    pub(crate) next: Vec<ClusterPlan>,
}

impl Source {
    fn clusters(&self) -> Result<Option<LogClusterStore>, Error> {
        Ok(self.journal()?.map(|journal| LogClusterStore::of(&journal)))
    }

    pub(crate) async fn all_clusters(&self) -> Result<Vec<StoredCluster>, Error> {
        match self.clusters()? {
            Some(store) => store.clusters().await.map_err(Error::Clusters),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn cluster(&self, name: &str) -> Result<ClusterView, Error> {
        let unknown = || Error::Unknown { what: "cluster", name: name.to_owned() };
        let name: ClusterName = name.parse().map_err(|_| unknown())?;
        let store = self.clusters()?.ok_or_else(unknown)?;
        let stored = store.cluster(&name).await.map_err(Error::Clusters)?;
        let operations = store.operations(&name, MAX_OPERATIONS).await.map_err(Error::Clusters)?;
        if stored.is_none() && operations.is_empty() {
            return Err(unknown());
        }
        let last = operations.first().map(|operation| operation.number);
        let events = store.events(&name, last, 0, MAX_EVENTS).await.map_err(Error::Clusters)?;
        let next = stored.as_ref().map(|stored| ClusterPlan::next_of(stored, last.unwrap_or(0))).unwrap_or_default();
        Ok(ClusterView { name, stored, operations, events, next })
    }
}
