//! Waiting until nodes are what hooks need: running, with their public addresses; then their private addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::types::instance::{Server, ServerState};
use windlass_scaleway::types::ipam::ListIpamIps;

use crate::record::{NodeState, Stage};
use crate::run::{Run, Stop};
use crate::stages::see::{self, public_addresses};
use crate::trace::Step;

/// Server ids of these nodes, with the nodes' names.
fn servers_of(run: &Run, nodes: &[String]) -> BTreeMap<String, String> {
    let book = run.book.lock();
    nodes
        .iter()
        .filter_map(|name| book.nodes.get(name))
        .filter_map(|node| Some((node.server.clone()?, node.name.clone())))
        .collect()
}

/// Servers by their ids, as they are now; what is missing does not exist.
async fn see(run: &Run, ids: &[String]) -> Result<BTreeMap<String, Server>, Failure> {
    let zone = run.book.lock().cluster.specification.zone.clone();
    see::see(&run.shared.client, &zone, ids).await
}

/// Waits until each of these nodes runs and has a public address, if it is to have one.
pub(crate) async fn wait(run: &Run, stage: Stage, nodes: &[String]) -> Result<(), Stop> {
    let step = run.begin_step(stage, "wait for servers", nodes.len()).await?;
    let mut waiting = servers_of(run, nodes);
    let deadline = Instant::now() + run.book.lock().cluster.specification.wait_deadline;
    loop {
        let ids: Vec<String> = waiting.keys().cloned().collect();
        let seen = run.attempt(step, || see(run, &ids)).await?;
        let mut still = BTreeMap::new();
        let mut ready = Vec::new();
        for (id, name) in waiting {
            let Some(server) = seen.get(&id) else {
                return Err(vanished(run, step, &name, &id).await);
            };
            match server.state {
                ServerState::Running if is_reachable(run, &name, server) => {
                    ready.push((name, public_addresses(server)))
                }
                // A state that this version has no word for says nothing: the deadline ends the wait.
                ServerState::Running | ServerState::Starting | ServerState::Unknown(_) => {
                    still.insert(id, name);
                }
                _ => {
                    let words = format!("{name}: server {id} is {} again", server.state);
                    return Err(fail(run, step, &name, FailureClass::ServerError, words).await);
                }
            }
        }
        let at = run.now();
        run.change(|book, change| {
            for (name, addresses) in ready {
                if let Some(node) = book.nodes.get_mut(&name) {
                    node.addresses = addresses;
                    change.nodes.push(node.clone());
                }
                change.events.push((at, Run::done(step, &name)));
            }
        })
        .await?;
        waiting = still;
        let Some((id, name)) = waiting.first_key_value() else { return Ok(()) };
        if Instant::now() >= deadline {
            let words = format!("{name}: server {id} did not run with an address before the deadline");
            return Err(fail(run, step, &name.clone(), FailureClass::DeadlineExceeded, words).await);
        }
        run.sleep(stage, run.shared.limits.poll_interval).await?;
    }
}

fn is_reachable(run: &Run, node: &str, server: &Server) -> bool {
    let book = run.book.lock();
    let group = book.nodes.get(node).and_then(|node| book.cluster.specification.groups.get(&node.group));
    let wants_address = group.is_some_and(|group| group.dynamic_address || !group.addresses.is_empty());
    !wants_address || !public_addresses(server).is_empty()
}

async fn vanished(run: &Run, step: Step, name: &str, id: &str) -> Stop {
    let words = format!("{name}: server {id} vanished: somebody deleted it");
    fail(run, step, name, FailureClass::NotFound, words).await
}

async fn fail(run: &Run, step: Step, name: &str, class: FailureClass, words: String) -> Stop {
    match run.change_node(name, |_| {}, Some(Run::failed(step, name, &words))).await {
        Ok(()) => Stop::failed(step.stage, Failure::of_class(class, words)),
        Err(graver) => graver,
    }
}

/// Looks up the private addresses of these nodes.
pub(crate) async fn prepare(run: &Run, stage: Stage, nodes: &[String]) -> Result<(), Stop> {
    let step = run.begin_step(stage, "look up addresses", nodes.len()).await?;
    let deadline = Instant::now() + run.book.lock().cluster.specification.wait_deadline;
    let servers = with_networks(run, nodes);
    let mut seen = BTreeMap::new();
    if !servers.is_empty() {
        let ids: Vec<String> = servers.keys().cloned().collect();
        seen = run.attempt(step, || see(run, &ids)).await?;
        if let Some((id, name)) = servers.iter().find(|(id, _)| !seen.contains_key(*id)) {
            return Err(vanished(run, step, name, id).await);
        }
    }
    let mut found = private_addresses(run, step, nodes, &seen, Some(deadline)).await?;
    let at = run.now();
    run.change(|book, change| {
        for name in nodes {
            if let Some(node) = book.nodes.get_mut(name).filter(|node| node.state == NodeState::Running) {
                node.private_addresses = found.remove(name).unwrap_or_default();
                change.nodes.push(node.clone());
                change.events.push((at, Run::done(step, name)));
            }
        }
    })
    .await
}

/// The private addresses of these nodes, whose servers were seen. With a deadline, an interface that has none yet is
/// waited for until then; without, it is left out.
pub(crate) async fn private_addresses(
    run: &Run,
    step: Step,
    nodes: &[String],
    seen: &BTreeMap<String, Server>,
    deadline: Option<Instant>,
) -> Result<BTreeMap<String, Vec<IpAddr>>, Stop> {
    let region = run.book.lock().cluster.specification.zone.region();
    let mut networks: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (id, name) in with_networks(run, nodes) {
        for interface in seen.get(&id).into_iter().flat_map(|server| &server.private_nics) {
            let network = networks.entry(interface.private_network_id.clone()).or_default();
            network.insert(interface.id.clone(), name.clone());
        }
    }
    let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for (network, mut interfaces) in networks {
        let request = &ListIpamIps {
            private_network_id: Some(network.clone()),
            resource_type: Some("instance_private_nic".to_owned()),
            ..ListIpamIps::default()
        };
        loop {
            let ipam = run.shared.client.ipam(&region);
            let ips = run
                .attempt(step, || async {
                    ipam.list_ips(request).await.map_err(|error| windlass_lifecycle::failure_of(&error))
                })
                .await?;
            // An interface has an address of each family of its network; one of them says that it is there.
            let mut there = BTreeSet::new();
            for ip in &ips {
                let Some(interface) = &ip.resource else { continue };
                let Some(node) = interfaces.get(&interface.id) else { continue };
                if let Some(address) = ip.address.split('/').next().and_then(|address| address.parse().ok()) {
                    found.entry(node.clone()).or_default().push(address);
                }
                there.insert(&interface.id);
            }
            interfaces.retain(|id, _| !there.contains(id));
            let (Some(missing), Some(deadline)) = (interfaces.values().next().cloned(), deadline) else { break };
            if Instant::now() >= deadline {
                let words =
                    format!("{missing} has no address in private network {network} and the deadline has passed");
                return Err(fail(run, step, &missing, FailureClass::DeadlineExceeded, words).await);
            }
            run.sleep(step.stage, run.shared.limits.poll_interval).await?;
        }
    }
    Ok(found)
}

/// Server ids of those of these nodes that are in private networks, with the nodes' names.
fn with_networks(run: &Run, nodes: &[String]) -> BTreeMap<String, String> {
    let mut servers = servers_of(run, nodes);
    let book = run.book.lock();
    servers.retain(|_, name| {
        let group = book.nodes.get(name).and_then(|node| book.cluster.specification.groups.get(&node.group));
        group.is_some_and(|group| !group.private_networks.is_empty())
    });
    servers
}
