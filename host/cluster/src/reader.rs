//! Clusters to look at: what is stored of them, and what Scaleway says of their nodes. Nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_lifecycle::OwnerName;
use windlass_policy::slots::types::Failure;
use windlass_scaleway::Client;

use crate::Error;
use crate::name::ClusterName;
use crate::record::{ClusterEvent, ClusterOperation, Node};
use crate::refresh::sight;
use crate::stages::see;
use crate::status::{ClusterHistory, ClusterObservation, ClusterStatus};
use crate::store::{ClusterStore, StoredCluster};

/// Operations of a history at most, and events.
const MAX_OPERATIONS: u32 = 1_000;
const MAX_EVENTS: u32 = 1_000_000;

/// Clusters as they are known. It needs no journal to write to and no policies: also on a disk that is full or
/// read-only.
#[derive(Clone, Debug)]
pub struct ClusterReader {
    store: Option<Arc<dyn ClusterStore>>,
    client: Client,
    owner: Option<OwnerName>,
}

impl ClusterReader {
    /// Opens nothing and asks nobody. Without a store there are no clusters; without an owner it is unknown which
    /// servers are no longer ours.
    #[must_use]
    pub fn new(store: Option<Arc<dyn ClusterStore>>, client: Client, owner: Option<OwnerName>) -> Self {
        Self { store, client, owner }
    }

    /// Every cluster, by name; without nodes.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<ClusterStatus>, Error> {
        let mut all = Vec::new();
        if let Some(store) = &self.store {
            for stored in store.clusters().await? {
                all.push(status_of(store.as_ref(), stored).await);
            }
        }
        Ok(all)
    }

    /// One cluster with its nodes and its operation.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn status(&self, name: &ClusterName) -> Result<ClusterStatus, Error> {
        let Some(store) = &self.store else { return Err(self.unknown(name).await?) };
        match store.cluster(name).await? {
            Some(stored) => Ok(status_of(store.as_ref(), stored).await),
            None => Err(self.unknown(name).await?),
        }
    }

    /// As [`ClusterReader::status`], compared with what Scaleway says now, at `at` (milliseconds since 1970). Nothing
    /// is changed: a difference is taken up by the next operation, which looks, too.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's. When Scaleway does not answer, the inner error says so; the status is what
    /// is known here.
    pub async fn compare(&self, name: &ClusterName, at: u64) -> Result<(ClusterStatus, Result<(), Failure>), Error> {
        let mut status = self.status(name).await?;
        let with_server: Vec<&Node> = status.nodes.iter().filter(|node| node.server.is_some()).collect();
        let ids: Vec<String> = with_server.iter().filter_map(|node| node.server.clone()).collect();
        let seen = match see::see(&self.client, &status.cluster.specification.zone, &ids).await {
            Ok(seen) => seen,
            Err(failed) => return Ok((status, Err(failed))),
        };
        let server = |node: &Node| node.server.as_ref().and_then(|id| seen.get(id));
        let nodes = with_server.iter().map(|node| sight(node, server(node), self.owner.as_ref())).collect();
        status.seen = Some(ClusterObservation { at, nodes });
        Ok((status, Ok(())))
    }

    /// What was done with the clusters of this name, the newest operation first; also after its termination.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there never was one (or its history is forgotten), and the store's.
    pub async fn history(&self, name: &ClusterName) -> Result<Vec<ClusterHistory>, Error> {
        let Some(store) = &self.store else { return Err(self.unknown(name).await?) };
        let operations = store.operations(name, MAX_OPERATIONS).await?;
        if operations.is_empty() {
            return Err(self.unknown(name).await?);
        }
        let mut events: BTreeMap<u64, Vec<ClusterEvent>> = BTreeMap::new();
        for event in store.events(name, None, 0, MAX_EVENTS).await? {
            events.entry(event.operation).or_default().push(event);
        }
        let with_events = |operation: ClusterOperation| {
            let events = events.remove(&operation.number).unwrap_or_default();
            ClusterHistory { operation, events }
        };
        Ok(operations.into_iter().map(with_events).collect())
    }

    /// The events of one operation after the one with this sequence, the oldest first: for a view of what another
    /// process does.
    ///
    /// # Errors
    /// The store's.
    pub async fn events(&self, name: &ClusterName, operation: u64, after: u64) -> Result<Vec<ClusterEvent>, Error> {
        match &self.store {
            Some(store) => Ok(store.events(name, Some(operation), after, MAX_EVENTS).await?),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn unknown(&self, name: &ClusterName) -> Result<Error, Error> {
        let all = match &self.store {
            Some(store) => store.clusters().await?,
            None => Vec::new(),
        };
        let near = windlass_policy::nearest(name.as_str(), all.iter().map(|stored| stored.cluster.name.as_str()));
        Ok(Error::Unknown { name: name.to_string(), near: near.map(str::to_owned) })
    }
}

async fn status_of(store: &dyn ClusterStore, stored: StoredCluster) -> ClusterStatus {
    let lives = match &stored.open {
        Some(open) => store.runner_lives(&open.runner).await,
        None => false,
    };
    ClusterStatus::of(stored, lives)
}
