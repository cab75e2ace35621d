//! Abandoning a cluster: its record stays, and its nodes are left alone.

use serde::Serialize;
use windlass_lifecycle::{AbandonTarget, Abandonment, Operation};

use crate::Error;
use crate::clusters::Clusters;
use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEventKind, ClusterState, Node, NodeState, OperationState};
use crate::store::Change;

/// A cluster that somebody abandoned.
#[derive(Debug, Serialize)]
pub struct AbandonedCluster {
    pub cluster: Cluster,
    /// Its nodes. They are left alone.
    pub nodes: Vec<Node>,
    /// The operations of the journal that were abandoned with it now, with what each leaves alone.
    pub operations: Vec<Operation>,
}

impl Clusters {
    /// Leaves a cluster's nodes alone. Nothing is changed on Scaleway.
    ///
    /// # Guarantees
    /// The cluster is kept, as `abandoned`. Nothing but [`Clusters::terminate`] touches its nodes again: its operation
    /// is not resumed, and neither are those of its servers; no sweep removes them. Asked for again, it abandons what
    /// was not yet.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Busy`] while somebody works on the cluster; [`Error::Lifecycle`] while somebody
    /// works on a node, or when the journal cannot be written; and the store's.
    pub async fn abandon(&self, name: &ClusterName, abandonment: &Abandonment) -> Result<AbandonedCluster, Error> {
        self.check_history()?;
        let shared = &self.shared;
        let stored = self.stored(name).await?;
        let busy = || {
            let open = stored.open.as_ref()?;
            let (cluster, number) = (name.to_string(), open.number);
            Some(Error::Busy { cluster, number, kind: open.kind, stage: open.stage })
        };
        if self.lives(&stored).await
            && let Some(busy) = busy()
        {
            return Err(busy);
        }
        let Some(_active) = shared.active.hold(name) else {
            return Err(busy().unwrap_or_else(|| Error::Store(crate::StoreError::Overtaken)));
        };
        let fence = match &stored.open {
            Some(_) => shared.store.take_over(name, stored.fence, &shared.runner).await?,
            None => stored.fence,
        };
        let (mut operations, mut nodes) = (Vec::new(), stored.nodes);
        for node in nodes.iter_mut().filter(|node| node.exists()) {
            let target = AbandonTarget::Server {
                zone: stored.cluster.specification.zone.clone(),
                creation: node.creation.clone(),
                server: node.server.clone(),
            };
            operations.extend(shared.lifecycle.abandon_machine(&target, abandonment).await?);
            if matches!(node.state, NodeState::Creating | NodeState::Removing) {
                node.state = NodeState::Left;
                node.problem = Some(abandonment.words());
            }
        }
        let at = shared.lifecycle.now();
        let reasons = vec![abandonment.words()];
        let mut cluster = stored.cluster;
        if cluster.state == ClusterState::Abandoned && stored.open.is_none() {
            return Ok(AbandonedCluster { cluster, nodes, operations });
        }
        cluster.state = ClusterState::Abandoned;
        cluster.reasons.clone_from(&reasons);
        cluster.updated_at = at;
        let mut operation = stored.open;
        if let Some(open) = &mut operation {
            open.runner.clone_from(&shared.runner);
            open.state = OperationState::Abandoned;
            open.reasons.extend(reasons.clone());
            open.ended_at = Some(at);
        }
        let event =
            ClusterEventKind::Closed { state: OperationState::Abandoned, cluster: Some(cluster.state), reasons };
        let change = Change {
            cluster: Some(cluster.clone()),
            nodes: nodes.clone(),
            operation,
            events: vec![(at, event)],
            ..Change::default()
        };
        // A deletion that was requested would follow.
        shared.store.withdraw(name).await?;
        shared.store.commit(name, fence, change).await?;
        Ok(AbandonedCluster { cluster, nodes, operations })
    }
}
