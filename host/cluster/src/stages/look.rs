//! Looking at the nodes that are there, before hooks are told about them: addresses change, and servers are deleted by
//! others.

use std::collections::BTreeSet;

use windlass_scaleway::types::instance::{Server, ServerState};

use crate::record::{Node, NodeState, Stage};
use crate::run::{Run, Stop};
use crate::stages::see::{public_addresses, see};
use crate::stages::wait::private_addresses;

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
