//! The one handler: whatever goes wrong in an operation on a cluster is met here, and nowhere else.
//!
//! It looks first: if the cluster is gone, or the user deletes it, the operation stops quietly and leaves nothing
//! behind. Otherwise the `provisioning` slot says in which state the cluster is left and which nodes are deleted; that
//! is stored, and then done. When that fails too, the cluster is left in `error`, with both reasons and a list of what
//! is left.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_policy::slots::Provisioning;
use windlass_policy::slots::provisioning::{self, Verdict};
use windlass_policy::slots::types::Failure;

use crate::record::{
    Cluster, ClusterEventKind, ClusterOperation, ClusterState, Node, NodeRole, NodeState, OperationKind,
    OperationState, Recovery,
};
use crate::run::{Book, Run, StageFailure, Stop};
use crate::stages::servers;
use crate::standing;
use crate::store::{Change, StoreError};
use crate::{ClusterFailure, ClusterOutcome, Error, metric_names};

/// For how many nodes the reason why they do not serve is reported.
const MAX_UNSERVING: usize = 10;

/// Ends an operation whose stages all went well.
pub(crate) async fn succeed(run: &Run) -> Result<ClusterOutcome, Stop> {
    let at = run.now();
    let known = run.book.lock().clone();
    let ended = run
        .change(|book, change| {
            book.operation.state = OperationState::Done;
            if book.operation.kind == OperationKind::Terminate {
                change.forget_cluster = true;
            }
            close(book, change, at);
        })
        .await;
    if let Err(Stop::Store(StoreError::Cancelled)) = ended {
        // Requested after the last look at requests.
        let stage = known.operation.stage;
        *run.book.lock() = known;
        return Err(Stop::called_off(stage));
    }
    ended?;
    count_ended(run, at);
    Ok(outcome(run))
}

/// Meets an error, whatever it is and wherever it comes from.
pub(crate) async fn handle(run: &Run, stop: Stop) -> Result<ClusterOutcome, Error> {
    match recover(run, stop).await {
        Ok(ended) => ended,
        // What stopped the recovery itself cannot be recovered from, only reported.
        Err(Stop::Gone) => vanished(run).await,
        Err(Stop::Left) => Err(Error::LeftOpen { cluster: run.name.to_string(), number: number(run) }),
        Err(Stop::Overtaken) => Err(Error::TakenOver { cluster: run.name.to_string(), number: number(run) }),
        Err(Stop::Store(error)) => Err(unrecorded(run, error)),
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
    tracing::warn!(cluster = %run.name, operation = %kind, stage = %recovery.stage,
        cause = %recovery.cause.words(),
        state = %recovery.state, delete = recovery.delete.len(), "recovering");
    let first = format!("{kind} failed at the stage {}: {}", recovery.stage, recovery.cause.words());
    let rolled_back = carry_out(run, &recovery).await;
    let (state, second) = match rolled_back {
        Ok(()) => (OperationState::Recovered, None),
        Err(Stop::Failed(again)) => {
            let words = match again.failure == recovery.cause {
                true => "the rollback failed in the same way".to_owned(),
                false => format!("the rollback failed, too: {}", again.failure.words()),
            };
            (OperationState::Failed, Some(words))
        }
        Err(graver) => return Err(graver),
    };
    let at = run.now();
    run.change(|book, change| {
        let mut reasons = vec![first];
        reasons.extend(second);
        reasons.append(&mut book.operation.reasons);
        book.operation.reasons = reasons;
        book.operation.state = state;
        close(book, change, at);
    })
    .await?;
    count_ended(run, at);
    Ok(Err(failed_as(run, &recovery.cause, recovery.stage)))
}

/// Asks the slot, and stores what it answers before anything of it is done.
async fn decide(run: &Run, failed: &StageFailure) -> Result<Recovery, Stop> {
    let (question, names) = question(run, failed);
    let decision = run.policies.decide::<Provisioning>(question).await;
    run.quote(failed.stage.into(), &decision);
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
        change.events.push((at, ClusterEventKind::Recovering(recovery.clone())));
    })
    .await?;
    Ok(recovery)
}

/// The question, and the names behind the positions of its nodes.
fn question(run: &Run, failed: &StageFailure) -> (provisioning::Question, Vec<String>) {
    let (names, subject) = (run.names(|_| true), run.subject());
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
        random: run.shared.lifecycle.random_word(),
        subject,
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
        change.events.push((at, ClusterEventKind::StoppingQuietly));
        book.operation.state = OperationState::Cancelled;
        book.operation.reasons.insert(0, "the cluster was deleted meanwhile".to_owned());
        close(book, change, at);
    })
    .await?;
    count_ended(run, at);
    Ok(outcome(run))
}

/// The record is gone: nothing can be stored any more. What the operation knows is removed all the same.
async fn vanished(run: &Run) -> Result<ClusterOutcome, Error> {
    tracing::info!(cluster = %run.name, "the cluster's record is gone: stopping quietly");
    let left = servers::remove_unrecorded(run).await;
    let number = number(run);
    run.tell(number, run.now(), ClusterEventKind::StoppingQuietly);
    if left.is_empty() {
        return Ok(ClusterOutcome {
            number,
            state: OperationState::Cancelled,
            cluster: None,
            nodes: Vec::new(),
            kept: run.book.lock().operation.kept.clone(),
        });
    }
    let book = run.book.lock();
    let cause = Failure::of_class(
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
        kept: book.operation.kept.clone(),
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
    stand(&mut book.cluster, &book.operation, book.nodes.values());
    book.cluster.updated_at = at;
    count_nodes(&mut book.cluster, book.operation.kind, &book.nodes.values().collect::<Vec<_>>());
    change.forget_nodes = gone;
    change.cluster = Some(book.cluster.clone());
    change.operation = Some(book.operation.clone());
    change.events.push((
        at,
        ClusterEventKind::Closed {
            state: book.operation.state,
            cluster: (!change.forget_cluster).then_some(book.cluster.state),
            reasons: book.operation.reasons.clone(),
        },
    ));
}

fn count_ended(run: &Run, at: u64) {
    let operation = run.book.lock().operation.clone();
    let (kind, outcome): (&str, &str) = (operation.kind.into(), operation.state.into());
    metrics::counter!(metric_names::OPERATIONS, "kind" => kind, "outcome" => outcome).increment(1);
    let lasted = Duration::from_millis(at.saturating_sub(operation.began_at));
    metrics::histogram!(metric_names::OPERATION_SECONDS, "kind" => kind, "outcome" => outcome)
        .record(lasted.as_secs_f64());
}

/// Notes where a cluster stands with these nodes after its last operation, and why.
pub(crate) fn stand<'n>(
    cluster: &mut Cluster,
    last: &ClusterOperation,
    nodes: impl IntoIterator<Item = &'n Node, IntoIter: Clone>,
) {
    let nodes = nodes.into_iter();
    cluster.state = standing::state(last, nodes.clone());
    cluster.reasons = match last.state {
        OperationState::Recovered | OperationState::Failed | OperationState::Abandoned => last.reasons.clone(),
        OperationState::Open | OperationState::Done | OperationState::Cancelled => Vec::new(),
    };
    if cluster.state == ClusterState::Error {
        // What a failed operation left is reported elsewhere; a successful one leaves nothing, so this is new.
        let reported = |node: &&Node| last.state == OperationState::Done || node.state != NodeState::Left;
        cluster.reasons.extend(unserving(nodes.clone().filter(reported)));
    }
    cluster.left = left(nodes);
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

/// Why these nodes do not serve.
fn unserving<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<String> {
    let mut nodes: Vec<&Node> = nodes.collect();
    nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
    let mut words: Vec<String> = nodes
        .iter()
        .filter_map(|node| Some(format!("{}: {}", node.name, node.problem_in_serving()?)))
        .take(MAX_UNSERVING + 1)
        .collect();
    if words.len() > MAX_UNSERVING {
        words[MAX_UNSERVING] = "and more nodes do not serve".to_owned();
    }
    words
}

fn left<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<String> {
    nodes
        .filter(|node| node.state == NodeState::Left)
        .map(|node| format!("{}: {}", node.name, node.problem.as_deref().unwrap_or(standing::UNSEEN)))
        .collect()
}

fn number(run: &Run) -> u64 {
    run.book.lock().operation.number
}

fn outcome(run: &Run) -> ClusterOutcome {
    outcome_of(&run.book.lock())
}

fn outcome_of(book: &Book) -> ClusterOutcome {
    let gone = book.operation.kind == OperationKind::Terminate && book.operation.state == OperationState::Done;
    let mut nodes: Vec<Node> = book.nodes.values().cloned().collect();
    nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
    ClusterOutcome {
        number: book.operation.number,
        state: book.operation.state,
        cluster: (!gone).then(|| book.cluster.clone()),
        nodes,
        kept: book.operation.kept.clone(),
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
        reasons: book.cluster.reasons.clone(),
        left: book.cluster.left.clone(),
        kept: book.operation.kept.clone(),
    }))
}

/// The operation can write no more: it reports what exists, since nothing is undone before it can be recorded.
fn unrecorded(run: &Run, source: StoreError) -> Error {
    let book = run.book.lock();
    let mut nodes: Vec<&Node> = book.nodes.values().filter(|node| node.exists()).collect();
    nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
    Error::Unrecorded {
        cluster: run.name.to_string(),
        number: book.operation.number,
        kind: book.operation.kind,
        stage: book.operation.stage,
        nodes: nodes.into_iter().cloned().collect(),
        source,
    }
}

fn failed_again(run: &Run, failed: &StageFailure) -> Error {
    failed_as(run, &failed.failure, failed.stage)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::Stage;
    use crate::specification::{ClusterSpecification, NodeGroup};

    const AT: u64 = 9_000;

    /// A cluster of two groups, `a` with 2 and `b` with 1 nodes wanted, and these nodes: group, number, state, role.
    fn book(kind: OperationKind, nodes: &[(&str, u32, NodeState, NodeRole)]) -> Book {
        let name: crate::ClusterName = "farm".parse().unwrap();
        let mut specification = ClusterSpecification::new(name.clone(), "fr-par-1".parse().unwrap());
        for (group, count) in [("a", 2), ("b", 1)] {
            specification.groups.insert(group.parse().unwrap(), NodeGroup::new(count, "DEV1-S", "ubuntu_noble"));
        }
        let node = |&(group, index, state, role): &(&str, u32, NodeState, NodeRole)| {
            let node = Node { state, role, ..Node::planned(&name, &group.parse().unwrap(), index) };
            (node.name.clone(), node)
        };
        Book {
            nodes: nodes.iter().map(node).collect(),
            operation: ClusterOperation {
                number: 7,
                state: OperationState::Done,
                reasons: vec!["because".to_owned()],
                ..ClusterOperation::begun(kind, Stage::Validate, "1-abc", 1_000)
            },
            cluster: Cluster {
                name,
                state: ClusterState::Active,
                reasons: Vec::new(),
                left: Vec::new(),
                specification,
                last_index: BTreeMap::new(),
                created_at: 1,
                updated_at: 1,
            },
        }
    }

    fn counts(book: &Book) -> Vec<u32> {
        book.cluster.specification.groups.values().map(|group| group.count).collect()
    }

    const NODES: &[(&str, u32, NodeState, NodeRole)] = &[
        ("a", 1, NodeState::Running, NodeRole::Staying),
        ("a", 10, NodeState::Running, NodeRole::Made),
        ("a", 2, NodeState::Running, NodeRole::Made),
        ("a", 3, NodeState::Planned, NodeRole::Made),
        ("b", 1, NodeState::Removed, NodeRole::Leaving),
        ("b", 2, NodeState::Left, NodeRole::Leaving),
    ];

    #[test]
    fn what_ends_is_written_with_everything_that_changes_by_it() {
        let mut book = book(OperationKind::Scale, NODES);
        let mut change = Change::default();
        close(&mut book, &mut change, AT);
        assert_eq!(change.forget_nodes, ["farm-a-3", "farm-b-1"]);
        let changed: Vec<&str> = change.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(changed, ["farm-a-10", "farm-a-2", "farm-b-2"], "those whose role has ended");
        assert!(book.nodes.values().all(|node| node.role == NodeRole::Staying));
        assert_eq!(book.cluster.left, ["farm-b-2: cannot check whether it is gone"]);
        assert_eq!((book.operation.ended_at, book.cluster.updated_at), (Some(AT), AT));
        assert_eq!(change.cluster.as_ref(), Some(&book.cluster));
        assert_eq!(change.operation.as_ref(), Some(&book.operation));
        let closed = |cluster| ClusterEventKind::Closed {
            state: OperationState::Done,
            cluster,
            reasons: vec!["because".to_owned()],
        };
        assert_eq!(change.events, [(AT, closed(Some(ClusterState::Error)))], "its nodes do not serve");
        let mut forgotten = Change { forget_cluster: true, ..Change::default() };
        close(&mut book, &mut forgotten, AT);
        assert_eq!(forgotten.events, [(AT, closed(None))]);
        let unserving = ["farm-a-1: it runs and is not configured", "farm-a-2: it runs and is not configured"];
        assert_eq!(book.cluster.reasons[..2], unserving, "an error says which nodes do not serve");
    }

    #[test]
    fn after_a_scaling_the_counts_say_what_runs_and_after_anything_else_what_was_asked_for() {
        for (kind, expected) in
            [(OperationKind::Scale, [3, 0]), (OperationKind::Create, [2, 1]), (OperationKind::Terminate, [2, 1])]
        {
            let mut book = book(kind, NODES);
            close(&mut book, &mut Change::default(), AT);
            assert_eq!(counts(&book), expected, "{kind}");
        }
    }

    #[test]
    fn a_cluster_is_reported_as_gone_by_a_termination_that_is_done_only() {
        for (kind, state, gone) in [
            (OperationKind::Terminate, OperationState::Done, true),
            (OperationKind::Terminate, OperationState::Failed, false),
            (OperationKind::Scale, OperationState::Done, false),
        ] {
            let mut book = book(kind, NODES);
            book.operation.state = state;
            let outcome = outcome_of(&book);
            assert_eq!((outcome.number, outcome.state, outcome.cluster.is_none()), (7, state, gone));
            let order: Vec<&str> = outcome.nodes.iter().take(4).map(|node| node.name.as_str()).collect();
            assert_eq!(order, ["farm-a-1", "farm-a-2", "farm-a-3", "farm-a-10"], "by their numbers");
        }
    }
}
