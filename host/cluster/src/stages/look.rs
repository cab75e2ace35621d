//! Looking at the nodes that are there, before hooks receive them: addresses change, and servers are deleted by
//! others.

use std::collections::BTreeSet;

use windlass_lifecycle::OwnerName;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::record::{Node, NodeState, Stage};
use crate::run::{Run, Stop};
use crate::stages::see::{public_addresses, see, see_each};
use crate::stages::wait::private_addresses;

/// Notes on a node that runs what its server is like now; `None`: it is gone. Says what is wrong with it.
pub(crate) fn note(node: &mut Node, server: Option<&Server>, owner: &OwnerName) -> Option<String> {
    node.not_ours = server.is_some_and(|server| !owner.owns(server));
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
    node.problem = match node.not_ours {
        true => Some(format!("server {} {}", server.id, not_ours(owner))),
        false => rests.then(|| format!("server {} is {}", server.id, server.state)),
    };
    node.problem.clone()
}

/// As [`note`]. A node that served, and no longer can, is `gone`.
pub(crate) fn note_loss(
    node: &mut Node,
    server: Option<&Server>,
    owner: &OwnerName,
    gone: &mut BTreeSet<String>,
) -> Option<String> {
    let served = !node.is_spent();
    let problem = note(node, server, owner);
    if served && (server.is_none() || node.not_ours) {
        gone.insert(node.name.clone());
    }
    problem
}

/// What is said of a server that somebody has taken over.
pub(crate) fn not_ours(owner: &OwnerName) -> String {
    format!("is no longer ours: somebody took its tag {} off, or changed it", owner.tag())
}

/// Looks at every node that runs: its addresses are those that it has now. A server that somebody deleted or took over
/// can neither serve nor be decommissioned. Gives the names of those nodes that counted as serving: only by them it can
/// be chosen who else leaves.
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
    let (client, zone, ids) = (&run.shared.client, &zone, &ids);
    let look = || async move {
        match see(client, zone, ids).await {
            // A list that cannot be read holds no termination up: the record has every id.
            Err(_) if stage == Stage::Decommission => see_each(client, zone, ids).await,
            seen => seen,
        }
    };
    let seen = run.attempt(step, look).await?;
    let mut private = private_addresses(run, step, &nodes, &seen, None).await?;
    let at = run.now();
    let mut gone = BTreeSet::new();
    let mut reasons = Vec::new();
    run.change(|book, change| {
        for name in &nodes {
            let Some(node) = book.nodes.get_mut(name) else { continue };
            let id = node.server.clone().unwrap_or_default();
            let problem = note_loss(node, seen.get(&id), run.shared.lifecycle.owner(), &mut gone);
            node.private_addresses = private.remove(name).unwrap_or_default();
            match problem {
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
