//! Clusters in the world: what is asked for, and what their operator does when one has failed.

use std::sync::Arc;

use windlass_cluster::{
    ClusterControl, ClusterName, ClusterOptions, ClusterSpecification, ClusterState, ClusterStatus, Clusters,
    LogClusterStore, NodeGroup, ScaleRequest,
};
use windlass_lifecycle::Lifecycle;
use windlass_policy::Host;
use windlass_scaleway::Client;

use crate::account::zone;

const NAMES: [&str; 2] = ["farm-north", "farm-south"];
const NODES: &str = "web";

/// The name of one of the clusters.
pub(crate) fn name(chosen: usize) -> ClusterName {
    NAMES[chosen % NAMES.len()].parse().expect("a valid name")
}

/// Whether the servers of this group are those of a cluster.
pub(crate) fn is_cluster(group: &str) -> bool {
    NAMES.contains(&group)
}

/// Opens what a process needs.
pub(crate) fn open(lifecycle: Lifecycle, client: Client, policies: Arc<Host>) -> Clusters {
    let store = LogClusterStore::of(lifecycle.journal());
    Clusters::new(ClusterOptions::new(lifecycle, client, policies, Arc::new(store)))
}

/// A cluster of so many nodes, without hooks.
pub(crate) fn specification(chosen: usize, count: u32) -> ClusterSpecification {
    let mut specification = ClusterSpecification::new(name(chosen), zone());
    let nodes = NodeGroup::new(count, "DEV1-S", "ubuntu_noble");
    specification.groups.insert(NODES.parse().expect("a valid name"), nodes);
    specification
}

/// So many nodes.
pub(crate) fn scaling(count: u32) -> ScaleRequest {
    let counts = [(NODES.parse().expect("a valid name"), count)].into();
    ScaleRequest { counts, ..ScaleRequest::default() }
}

/// A round of the end: what is open is taken up, and what failed its operator repairs, or takes away. Says what there
/// was to do.
pub(crate) async fn round(clusters: &Clusters, repair: bool) -> Vec<String> {
    let mut work = Vec::new();
    match clusters.resume(&ClusterControl::new()).await {
        Ok(resumed) => {
            work.extend(
                resumed.iter().map(|it| format!("cluster {}: operation {} is taken up", it.cluster, it.number)),
            );
        }
        Err(error) => work.push(format!("clusters cannot be taken up: {error}")),
    }
    for status in states(clusters).await {
        let cluster = &status.cluster;
        if cluster.state != ClusterState::Error || status.operation.is_some() {
            continue;
        }
        let (name, control) = (&cluster.name, ClusterControl::new());
        let ended = if repair {
            let groups = &cluster.specification.groups;
            let counts = groups.iter().map(|(name, group)| (name.clone(), group.count)).collect();
            clusters.scale(name, &ScaleRequest { counts, ..ScaleRequest::default() }, &control).await
        } else {
            clusters.terminate(name, true, &control).await
        };
        let word = if repair { "repaired" } else { "terminated" };
        let how = ended.map_or_else(|error| error.to_string(), |outcome| outcome.state.to_string());
        work.push(format!("cluster {name} is {word} after {}: {how}", cluster.reasons.join("; ")));
    }
    work
}

/// All clusters with their nodes.
pub(crate) async fn states(clusters: &Clusters) -> Vec<ClusterStatus> {
    let mut states = Vec::new();
    for listed in clusters.list().await.unwrap_or_default() {
        states.extend(clusters.status(&listed.cluster.name).await.ok());
    }
    states
}
