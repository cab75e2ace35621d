//! Looking at a cluster between its operations: what Scaleway says of its servers is reported, or recorded, and where
//! the cluster stands follows from that.

use std::sync::Arc;

use windlass_lifecycle::OwnerName;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::Error;
use crate::clusters::Clusters;
use crate::handler::stand;
use crate::name::ClusterName;
use crate::record::{ClusterState, Node, NodeState};
use crate::stages::{look, see};
use crate::status::{ClusterObservation, ClusterStatus, NodeObservation};
use crate::store::{Change, StoreError};

/// A function on data: what is known of a node beside its server as it is.
pub(crate) fn sight(node: &Node, server: Option<&Server>, owner: Option<&OwnerName>) -> NodeObservation {
    let mut differences = Vec::new();
    let addresses = server.map(see::public_addresses).unwrap_or_default();
    match (server, node.state) {
        (None, NodeState::Running) => differences.push("its server is gone: somebody deleted it".to_owned()),
        (Some(server), NodeState::Running) => {
            if let Some(owner) = owner.filter(|owner| !owner.owns(server)) {
                differences.push(format!("its server {}", look::not_ours(owner)));
            }
            if server.state != ServerState::Running {
                differences.push(format!("its server is {}", server.state));
            }
            if addresses != node.addresses {
                let list = |list: &[std::net::IpAddr]| match list {
                    [] => "none".to_owned(),
                    list => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                };
                differences.push(format!("its addresses are {}, and were {}", list(&addresses), list(&node.addresses)));
            }
        }
        (Some(server), _) if server.state == ServerState::Locked => {
            differences.push("its server is locked by Scaleway".to_owned());
        }
        _ => {}
    }
    let state = server.map(|server| server.state.to_string());
    NodeObservation { node: node.name.clone(), state, addresses, differences }
}

impl Clusters {
    /// Looks at the server of each node that runs, and notes its public addresses, and that it is gone, powered off or
    /// no longer ours: a cluster with such a node is no longer `active`. Nothing is changed at Scaleway; what is
    /// missing is replaced by the next [`Clusters::scale`]. Private addresses are looked up by the next operation.
    ///
    /// It costs one listing of the zone, shared as [`Lifecycle::servers`](windlass_lifecycle::Lifecycle::servers) is,
    /// and one call for each server that the listing lacks. Nothing is written when nothing differs.
    ///
    /// Gives the cluster as it is noted now, and in [`ClusterStatus::seen`] how that differs from before.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Busy`] and [`Error::Interrupted`], since an operation looks itself;
    /// [`Error::Lifecycle`] when Scaleway cannot be asked; and the store's.
    pub async fn refresh(&self, name: &ClusterName) -> Result<ClusterStatus, Error> {
        let mut stored = self.stored(name).await?;
        self.refuse_busy(&stored).await?;
        if stored.cluster.state == ClusterState::Abandoned {
            return Ok(self.status_of(stored).await);
        }
        let zone = stored.cluster.specification.zone.clone();
        let listing = self.shared.lifecycle.servers(&zone).await?;
        // What an operation has written since the listing is newer.
        if listing.taken_at < stored.cluster.updated_at {
            return Ok(self.status_of(stored).await);
        }
        let runs = |node: &&Node| node.state == NodeState::Running && node.server.is_some();
        let ids: Vec<String> = stored.nodes.iter().filter(runs).filter_map(|node| node.server.clone()).collect();
        let listed = ids.iter().filter_map(|id| Some((id.clone(), listing.get(id)?.clone())));
        let mut seen = listed.collect();
        see::read_unlisted(&self.shared.client, &zone, &ids, &mut seen).await.map_err(|source| {
            windlass_lifecycle::Error::Scaleway { what: "looking at the nodes' servers", source: Arc::new(source) }
        })?;
        let at = self.shared.lifecycle.now();
        let (mut sights, mut changed) = (Vec::new(), Vec::new());
        for node in stored.nodes.iter_mut().filter(|node| runs(&&**node)) {
            let server = node.server.as_ref().and_then(|id| seen.get(id));
            let owner = self.shared.lifecycle.owner();
            sights.push(sight(node, server, Some(owner)));
            let before = node.clone();
            look::note(node, server, owner);
            if *node != before {
                changed.push(node.clone());
            }
        }
        if !changed.is_empty() {
            let last = self.shared.store.operations(name, 1).await?.into_iter().next();
            let Some(last) = last else { return Err(self.unknown(name).await?) };
            stand(&mut stored.cluster, &last, &stored.nodes);
            stored.cluster.updated_at = at;
            let change = Change { cluster: Some(stored.cluster.clone()), nodes: changed, ..Change::default() };
            match self.shared.store.commit(name, stored.fence, change).await {
                // An operation has begun meanwhile, and looks itself.
                Err(StoreError::Overtaken | StoreError::Gone) => return self.status(name).await,
                written => written?,
            }
        }
        let mut status = self.status_of(stored).await;
        status.seen = Some(ClusterObservation { at, nodes: sights });
        Ok(status)
    }
}
