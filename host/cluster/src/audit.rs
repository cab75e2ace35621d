//! What would be decided about the servers of a cluster: for who wants to see what a policy would do before it is in
//! force. Nothing is written, and nothing follows from it.

use windlass_lifecycle::{Asking, Existing, Tried};

use crate::Error;
use crate::clusters::Clusters;
use crate::name::ClusterName;

impl Clusters {
    /// Asks the shadows of the slot `release` what they would decide about the server of each node that exists, if the
    /// cluster were terminated now. By the nodes' names. It costs one listing of the zone, shared as
    /// [`Lifecycle::servers`](windlass_lifecycle::Lifecycle::servers) is.
    ///
    /// # Errors
    /// [`Error::Unknown`]; [`Error::Lifecycle`] when Scaleway cannot be asked; and the store's.
    pub async fn try_release(&self, name: &ClusterName) -> Result<Vec<(String, Vec<Tried>)>, Error> {
        let stored = self.stored(name).await?;
        let zone = &stored.cluster.specification.zone;
        let lifecycle = &self.shared.lifecycle;
        let listing = lifecycle.servers(zone).await?;
        let asking = Asking::default();
        let requested_by = self.shared.requested_by(name, 0, "terminate");
        let mut tried = Vec::new();
        for node in &stored.nodes {
            let Some(server) = node.server.as_ref().and_then(|id| listing.get(id)) else { continue };
            let existing = Existing::Server { zone, server, asking: &asking, requested_by: &requested_by };
            tried.push((node.name.clone(), lifecycle.try_release(existing).await?));
        }
        Ok(tried)
    }
}
