//! The one handler: whatever goes wrong in an operation on a cluster is met here, and nowhere else.
//!
//! It looks first: if the cluster is gone, or the user deletes it, the operation stops quietly and leaves nothing
//! behind. Otherwise the `provisioning` slot says in which state the cluster is left and which nodes are deleted; that
//! is stored, and then done. When that fails too, the cluster is left in `error`, with both reasons and a list of what
//! is left.

use std::collections::BTreeSet;

use windlass_policy::slots::Provisioning;
use windlass_policy::slots::provisioning::{self, Verdict};
use windlass_policy::slots::types::Failure;

use crate::failure;
use crate::record::{
    Cluster, ClusterHappening, ClusterState, Node, NodeRole, NodeState, OperationKind, OperationState, Recovery,
};
use crate::run::{Book, Run, StageFailure, Stop};
use crate::stages::servers;
use crate::store::Change;
use crate::{ClusterFailure, ClusterOutcome, Error, metric_names};

/// Ends an operation whose stages all went well.
pub(crate) async fn succeed(run: &Run) -> Result<ClusterOutcome, Stop> {
    let at = run.now();
    run.change(|book, change| {
        book.operation.state = OperationState::Done;
        if book.operation.kind == OperationKind::Terminate {
            change.forget_cluster = true;
        } else {
            book.cluster.state = ClusterState::Active;
        }
        book.cluster.reasons.clear();
        close(book, change, at);
    })
    .await?;
    Ok(outcome(run))
}

/// Meets an error, whatever it is and wherever it comes from.
pub(crate) async fn handle(run: &Run, stop: Stop) -> Result<ClusterOutcome, Error> {
    match recover(run, stop).await {
        Ok(ended) => ended,
        // What stopped the recovery itself: it cannot be recovered from, only told.
        Err(Stop::Gone) => vanished(run).await,
        Err(Stop::Left) => Err(Error::LeftOpen { cluster: run.name.to_string(), number: number(run) }),
        Err(Stop::Overtaken) => Err(Error::TakenOver { cluster: run.name.to_string(), number: number(run) }),
        Err(Stop::Store(error)) => Err(Error::Store(error)),
        // `recover` ends every failed stage itself; one more in its own work is such a stage.
        Err(Stop::Failed(failed)) => Err(failed_again(run, &failed)),
    }
}

async fn recover(run: &Run, stop: Stop) -> Result<Result<ClusterOutcome, Error>, Stop> {
    let Stop::Failed(failed) = stop else { return Err(stop) };
    let kind = run.book.lock().operation.kind;
    let requests = run.shared.store.requests(&run.name, run.fence).await.map_err(Stop::from)?;
    match requests {
        // Gone, or another's by now: the next write tells which.
        None => {
            run.change(|_, _| {}).await?;
            return Err(Stop::Gone);
        }
        Some(requests) if requests.delete && kind != OperationKind::Terminate => {
            return stop_quietly(run).await.map(Ok);
        }
        Some(_) => {}
    }
    let stored = run.book.lock().operation.recovery.clone();
    let recovery = match stored {
        Some(recovery) => recovery,
        None => decide(run, &failed).await?,
    };
    tracing::warn!(cluster = %run.name, operation = %kind, stage = %recovery.stage, cause = %failure::words(&recovery.cause),
        state = %recovery.state, delete = recovery.delete.len(), "recovering");
    let first = format!("{kind} failed at the stage {}: {}", recovery.stage, failure::words(&recovery.cause));
    let rolled_back = carry_out(run, &recovery).await;
    let (state, second) = match rolled_back {
        Ok(()) => (OperationState::Recovered, None),
        Err(Stop::Failed(again)) => {
            (OperationState::Failed, Some(format!("the rollback failed, too: {}", failure::words(&again.failure))))
        }
        Err(graver) => return Err(graver),
    };
    let at = run.now();
    run.change(|book, change| {
        let mut reasons = vec![first];
        reasons.extend(second);
        reasons.append(&mut book.operation.reasons);
        book.operation.reasons = reasons.clone();
        book.operation.state = state;
        let left = left(&book.nodes.values().collect::<Vec<_>>());
        // Whole again is only what has nothing left that should be gone.
        book.cluster.state = match recovery.state {
            ClusterState::Active if state == OperationState::Recovered && left.is_empty() => ClusterState::Active,
            _ => ClusterState::Error,
        };
        book.cluster.reasons = reasons;
        close(book, change, at);
    })
    .await?;
    Ok(Err(failed_as(run, &recovery.cause, recovery.stage)))
}

/// Asks the slot, and stores what it answers before anything of it is done.
async fn decide(run: &Run, failed: &StageFailure) -> Result<Recovery, Stop> {
    let (question, names) = question(run, failed);
    let decision = run.policies.decide::<Provisioning>(question, |_, _| Ok(())).await;
    run.quote::<Provisioning>(failed.stage.as_str(), &decision);
    let answer = match decision.answer.verdict {
        Verdict::Recover(recovery) => recovery,
        // `defer` is never a chain's answer.
        Verdict::Defer => provisioning::Recovery { state: provisioning::ClusterState::Error, delete: Vec::new() },
    };
    let recovery = Recovery {
        stage: failed.stage,
        cause: failed.failure.clone(),
        state: match answer.state {
            provisioning::ClusterState::Active => ClusterState::Active,
            provisioning::ClusterState::Error => ClusterState::Error,
        },
        delete: answer.delete.iter().filter_map(|position| names.get(*position as usize).cloned()).collect(),
        decided_by: decision.decided_by.to_string(),
        reason: decision.reason,
        decision: decision.id.to_string(),
    };
    let at = run.now();
    run.change(|book, change| {
        book.operation.recovery = Some(recovery.clone());
        change.operation = Some(book.operation.clone());
        change.events.push((at, ClusterHappening::Recovering(recovery.clone())));
    })
    .await?;
    Ok(recovery)
}

/// The question, and the names behind the positions of its nodes.
fn question(run: &Run, failed: &StageFailure) -> (provisioning::Question, Vec<String>) {
    let names = run.names(|_| true);
    let book = run.book.lock();
    let nodes = names
        .iter()
        .filter_map(|name| book.nodes.get(name))
        .map(|node| provisioning::Node {
            name: node.name.clone(),
            group: node.group.to_string(),
            role: node.role.for_policy(),
            exists: node.exists(),
            decommissioned: node.decommissioned,
            configured: node.configured,
        })
        .collect();
    let counts = book.operation.counts.iter();
    let groups = counts
        .map(|(name, counts)| provisioning::Group {
            name: name.to_string(),
            before: counts.before,
            wanted: counts.wanted,
        })
        .collect();
    let question = provisioning::Question {
        now: run.now(),
        random: run.shared.random(),
        cluster: run.name.to_string(),
        operation: book.operation.kind.for_policy(),
        stage: failed.stage.for_policy(),
        cause: failed.failure.clone(),
        groups,
        nodes,
    };
    (question, names)
}

/// Deletes what is to be deleted. Nothing is ever made or brought back: that maximizes the chance that it succeeds.
async fn carry_out(run: &Run, recovery: &Recovery) -> Result<(), Stop> {
    let delete: BTreeSet<&String> = recovery.delete.iter().collect();
    let nodes = run.names(|node| node.exists() && delete.contains(&node.name));
    if nodes.is_empty() {
        return Ok(());
    }
    servers::remove(run, recovery.stage, &nodes).await
}

/// The user deletes the cluster: no error, and the termination follows in this process, so that nothing stays even if
/// whoever asked for it is gone.
async fn stop_quietly(run: &Run) -> Result<ClusterOutcome, Stop> {
    let at = run.now();
    run.change(|book, change| {
        change.events.push((at, ClusterHappening::StoppingQuietly));
        book.operation.state = OperationState::Cancelled;
        book.operation.reasons.insert(0, "the cluster was deleted meanwhile".to_owned());
        book.cluster.state = ClusterState::Terminating;
        close(book, change, at);
    })
    .await?;
    Ok(outcome(run))
}

/// The record is gone: nothing can be stored any more. What the operation knows is removed all the same.
async fn vanished(run: &Run) -> Result<ClusterOutcome, Error> {
    tracing::info!(cluster = %run.name, "the cluster's record is gone: stopping quietly");
    let left = servers::remove_unrecorded(run).await;
    let number = number(run);
    run.tell(number, run.now(), ClusterHappening::StoppingQuietly);
    if left.is_empty() {
        return Ok(ClusterOutcome { number, state: OperationState::Cancelled, cluster: None, nodes: Vec::new() });
    }
    let book = run.book.lock();
    let cause = failure::of_class(
        windlass_policy::slots::types::FailureClass::Other,
        "the cluster's record is gone, and not everything of it could be removed",
    );
    Err(Error::Failed(Box::new(ClusterFailure {
        cluster: run.name.to_string(),
        number,
        kind: book.operation.kind,
        stage: book.operation.stage,
        reasons: vec![cause.message.clone()],
        cause,
        state: None,
        left,
    })))
}

/// Ends the operation in the book, and writes it with everything that changes by that: nodes that are gone are
/// forgotten, the others stay.
fn close(book: &mut Book, change: &mut Change, at: u64) {
    book.operation.ended_at = Some(at);
    let gone: Vec<String> = book
        .nodes
        .values()
        .filter(|node| matches!(node.state, NodeState::Removed | NodeState::Planned))
        .map(|node| node.name.clone())
        .collect();
    for name in &gone {
        book.nodes.remove(name);
    }
    for node in book.nodes.values_mut() {
        if node.role != NodeRole::Staying {
            node.role = NodeRole::Staying;
            change.nodes.push(node.clone());
        }
    }
    book.cluster.left = left(&book.nodes.values().collect::<Vec<_>>());
    book.cluster.updated_at = at;
    count_nodes(&mut book.cluster, book.operation.kind, &book.nodes.values().collect::<Vec<_>>());
    change.forget_nodes = gone;
    change.cluster = Some(book.cluster.clone());
    change.operation = Some(book.operation.clone());
    change.events.push((
        at,
        ClusterHappening::Closed {
            state: book.operation.state,
            cluster: (!change.forget_cluster).then_some(book.cluster.state),
            reasons: book.operation.reasons.clone(),
        },
    ));
    let (kind, outcome) = (book.operation.kind.as_str(), book.operation.state.as_str());
    metrics::counter!(metric_names::OPERATIONS, "kind" => kind, "outcome" => outcome).increment(1);
    let seconds = at.saturating_sub(book.operation.began_at) as f64 / 1_000.0;
    metrics::histogram!(metric_names::OPERATION_SECONDS, "kind" => kind, "outcome" => outcome).record(seconds);
}

/// After a scaling, the counts say what there is. A creation's stay what was asked for.
fn count_nodes(cluster: &mut Cluster, kind: OperationKind, nodes: &[&Node]) {
    if kind != OperationKind::Scale {
        return;
    }
    for (name, group) in &mut cluster.specification.groups {
        let count = nodes.iter().filter(|node| node.group == *name && node.state == NodeState::Running).count();
        group.count = u32::try_from(count).unwrap_or(u32::MAX);
    }
}

fn left(nodes: &[&Node]) -> Vec<String> {
    nodes
        .iter()
        .filter(|node| node.state == NodeState::Left)
        .map(|node| {
            format!("{}: {}", node.name, node.problem.as_deref().unwrap_or("nobody could see whether it is gone"))
        })
        .collect()
}

fn number(run: &Run) -> u64 {
    run.book.lock().operation.number
}

fn outcome(run: &Run) -> ClusterOutcome {
    let book = run.book.lock();
    let gone = book.operation.kind == OperationKind::Terminate && book.operation.state == OperationState::Done;
    let mut nodes: Vec<Node> = book.nodes.values().cloned().collect();
    nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
    ClusterOutcome {
        number: book.operation.number,
        state: book.operation.state,
        cluster: (!gone).then(|| book.cluster.clone()),
        nodes,
    }
}

fn failed_as(run: &Run, cause: &Failure, stage: crate::record::Stage) -> Error {
    let book = run.book.lock();
    Error::Failed(Box::new(ClusterFailure {
        cluster: run.name.to_string(),
        number: book.operation.number,
        kind: book.operation.kind,
        stage,
        cause: cause.clone(),
        state: Some(book.cluster.state),
        reasons: book.operation.reasons.clone(),
        left: book.cluster.left.clone(),
    }))
}

fn failed_again(run: &Run, failed: &StageFailure) -> Error {
    failed_as(run, &failed.failure, failed.stage)
}
