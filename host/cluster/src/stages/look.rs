//! Looking at the nodes that are there, before hooks are told about them: addresses change, and servers are deleted by
//! others.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use futures::stream;
use windlass_policy::slots::types::Failure;
use windlass_scaleway::types::instance::{ListServers, Server, ServerState};

use crate::record::{Node, NodeState, Stage};
use crate::run::{Run, Stop};
use crate::stages::wait::{private_addresses, public_addresses};

/// Ids in one query at most: about 4 KiB of URL.
const IDS: usize = 100;
/// Servers that are read by their id at a time.
const PARALLEL: usize = 16;

/// These servers by their ids; absent from the answer is what does not exist. A list proves presence, never absence:
/// what it lacks is read by its id.
pub(crate) async fn see(
    client: &windlass_scaleway::Client,
    zone: &windlass_scaleway::Zone,
    ids: &[String],
) -> Result<BTreeMap<String, Server>, Failure> {
    let instance = client.instance(zone);
    let of_error = |error| windlass_lifecycle::failure_of(&error);
    let requests: Vec<ListServers> =
        ids.chunks(IDS).map(|ids| ListServers { servers: ids.to_vec(), ..ListServers::default() }).collect();
    let lists = futures::future::try_join_all(requests.iter().map(|request| instance.list_servers(request)));
    let listed = lists.await.map_err(of_error)?.into_iter().flatten();
    let mut seen: BTreeMap<String, Server> = listed.map(|server| (server.id.clone(), server)).collect();
    read_unlisted(client, zone, ids, &mut seen).await.map_err(of_error)?;
    Ok(seen)
}

/// Adds those of these servers that exist and that a listing lacked.
pub(crate) async fn read_unlisted(
    client: &windlass_scaleway::Client,
    zone: &windlass_scaleway::Zone,
    ids: &[String],
    seen: &mut BTreeMap<String, Server>,
) -> Result<(), windlass_scaleway::Error> {
    let unlisted: Vec<String> = ids.iter().filter(|id| !seen.contains_key(*id)).cloned().collect();
    let instance = &client.instance(zone);
    let read: Vec<_> = stream::iter(unlisted)
        .map(|id| async move { instance.get_server(&id).await })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    for server in read {
        match server {
            Ok(server) => drop(seen.insert(server.id.clone(), server)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Notes on a node that runs what its server is like now; `None`: it is gone. Says what is wrong with it.
pub(crate) fn note(node: &mut Node, server: Option<&Server>) -> Option<String> {
    let Some(server) = server else {
        let words = format!("server {} is gone: somebody deleted it", node.server.as_deref().unwrap_or_default());
        node.state = NodeState::Left;
        (node.addresses, node.private_addresses) = (Vec::new(), Vec::new());
        node.problem = Some(words);
        return node.problem.clone();
    };
    node.addresses = public_addresses(server);
    // What is on its way from one state to the next, as when it is rebooted, is no problem yet.
    let rests = matches!(server.state, ServerState::Stopped | ServerState::StoppedInPlace | ServerState::Locked);
    node.problem = rests.then(|| format!("server {} is {}", server.id, server.state));
    node.problem.clone()
}

/// Looks at every node that runs: its addresses are those that it has now. A server that somebody deleted can neither
/// serve nor be decommissioned. Gives the names of those nodes that counted as serving: only by them it can be chosen
/// who else leaves.
pub(crate) async fn look(run: &Run, stage: Stage) -> Result<BTreeSet<String>, Stop> {
    let nodes = run.names(|node| node.state == NodeState::Running && node.server.is_some());
    if nodes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let step = run.begin_step(stage, "look at the nodes", nodes.len()).await?;
    let (zone, ids) = {
        let book = run.book.lock();
        let ids: Vec<String> =
            nodes.iter().filter_map(|name| book.nodes.get(name)).filter_map(|node| node.server.clone()).collect();
        (book.cluster.specification.zone.clone(), ids)
    };
    let seen = run.attempt(step, || see(&run.shared.client, &zone, &ids)).await?;
    let mut private = private_addresses(run, step, &nodes, &seen, None).await?;
    let at = run.now();
    let mut gone = BTreeSet::new();
    let mut reasons = Vec::new();
    run.change(|book, change| {
        for name in &nodes {
            let Some(node) = book.nodes.get_mut(name) else { continue };
            let id = node.server.clone().unwrap_or_default();
            let server = seen.get(&id);
            if server.is_none() && !node.is_spent() {
                gone.insert(name.clone());
            }
            node.private_addresses = private.remove(name).unwrap_or_default();
            match note(node, server) {
                None => change.events.push((at, Run::done(step, name))),
                Some(problem) => {
                    change.events.push((at, Run::failed(step, name, &problem)));
                    reasons.push(format!("{name}: {problem}"));
                }
            }
            change.nodes.push(node.clone());
        }
    })
    .await?;
    reasons.into_iter().for_each(|reason| run.add_reason(reason));
    Ok(gone)
}
