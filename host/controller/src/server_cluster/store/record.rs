//! The record of a cluster as data: from an object's status to what a store gives, and what each write makes of it.
//! Nothing here calls anybody.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_cluster::{
    Begin, Change, Cluster, ClusterEvent, ClusterEventKind, ClusterName, ClusterOperation, Counts, Fence, Node,
    NodeState, OperationKind, OperationState, Recovery, Requests, StoreError, StoredCluster,
};
use windlass_policy::{cut, kind_word};

use crate::kinds::{
    ClusterOperationStatus, CountsStatus, EventStatus, GroupStatus, NodeStatus, PastOperation, RecordStatus,
    ServerCluster, ServerClusterSpec, ServerClusterStatus, StepStatus, annotations,
};
use crate::server_cluster::specification;

/// Operations of one cluster that are kept.
pub(super) const KEPT_OPERATIONS: u64 = 10;
/// Events that are kept.
const KEPT_EVENTS: usize = 32;
/// Of what is left, so many nodes are told; the nodes themselves tell all.
const TOLD_LEFT: usize = 20;
const MAX_REASONS: usize = 32;
const MAX_STEPS: usize = 32;
/// Reasons of a past operation.
const PAST_REASONS: usize = 4;
const MAX_REASON_LEN: usize = 512;
const MAX_PROBLEM_LEN: usize = 256;
/// Names in the event of a recovery; the operation's recovery has all.
const MAX_DELETED_NAMES: usize = 20;
/// etcd takes 1.5 MiB in a request, the whole object in it. Above the first bound what is told to people is cut, above
/// the second nothing is written. In between is room for what the API server itself adds.
const SOFT_LIMIT: usize = 900_000;
const HARD_LIMIT: usize = 1_400_000;
/// JSON's numbers are exact up to here.
const MAX_FENCE_BITS: u32 = 53;

/// What a write answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) fence: u64,
    pub(super) number: u64,
    pub(super) there: bool,
}

fn corrupt(table: &'static str, row: &str, problem: impl ToString) -> StoreError {
    StoreError::Row { table, row: row.to_owned(), problem: problem.to_string() }
}

fn parse<T: DeserializeOwned>(table: &'static str, row: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| corrupt(table, row, error))
}

/// RFC 3339 with milliseconds.
fn time(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds).ok().and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn milliseconds(table: &'static str, row: &str, text: &str) -> Result<u64, StoreError> {
    let at: Timestamp = text.parse().map_err(|error| corrupt(table, row, error))?;
    Ok(u64::try_from(at.as_millisecond()).unwrap_or_default())
}

fn cut_all(texts: &[String], most: usize) -> Vec<String> {
    texts.iter().take(most).map(|text| cut(text, MAX_REASON_LEN)).collect()
}

/// Without keys that say nothing, so that what is written is what is read.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn node_status(node: &Node) -> NodeStatus {
    let texts = |addresses: &[std::net::IpAddr]| addresses.iter().map(ToString::to_string).collect();
    NodeStatus {
        name: node.name.clone(),
        group: node.group.to_string(),
        number: node.index,
        role: node.role.to_string(),
        state: node.state.to_string(),
        creation: node.creation.as_ref().map(ToString::to_string),
        server_id: node.server.clone(),
        server_type: node.server_type.clone(),
        addresses: texts(&node.addresses),
        private_addresses: texts(&node.private_addresses),
        decommission_began: node.decommission_began,
        decommissioned: node.decommissioned,
        configure_began: node.configure_began,
        configured: node.configured,
        started: node.started,
        not_ours: node.not_ours,
        problem: node.problem.as_deref().map(|problem| cut(problem, MAX_PROBLEM_LEN)),
    }
}

fn node(status: &NodeStatus) -> Result<Node, StoreError> {
    let row = &status.name;
    let addresses = |texts: &[String]| -> Result<Vec<std::net::IpAddr>, StoreError> {
        texts.iter().map(|text| text.parse().map_err(|error| corrupt("nodes", row, error))).collect()
    };
    let creation = status.creation.as_deref().map(windlass_lifecycle::OperationId::parse).transpose();
    Ok(Node {
        name: status.name.clone(),
        group: status.group.parse().map_err(|error| corrupt("nodes", row, error))?,
        index: status.number,
        role: parse("nodes", row, &status.role)?,
        state: parse("nodes", row, &status.state)?,
        creation: creation.map_err(|error| corrupt("nodes", row, error))?,
        server: status.server_id.clone(),
        server_type: status.server_type.clone(),
        addresses: addresses(&status.addresses)?,
        private_addresses: addresses(&status.private_addresses)?,
        // Objects are not applied anew: a cluster's templates never change.
        template: None,
        // Hooks over ssh do not run here.
        ssh_host_key: None,
        decommission_began: status.decommission_began,
        decommissioned: status.decommissioned,
        configure_began: status.configure_began,
        configured: status.configured,
        started: status.started,
        not_ours: status.not_ours,
        problem: status.problem.clone(),
    })
}

fn operation_status(operation: &ClusterOperation, steps: Vec<StepStatus>) -> ClusterOperationStatus {
    let counts = operation.counts.iter().map(|(group, counts)| CountsStatus {
        group: group.to_string(),
        before: counts.before,
        wanted: counts.wanted,
    });
    ClusterOperationStatus {
        number: operation.number,
        kind: operation.kind.to_string(),
        state: operation.state.to_string(),
        stage: operation.stage.to_string(),
        runner: operation.runner.clone(),
        counts: counts.collect(),
        force: operation.force,
        steps,
        reasons: cut_all(&operation.reasons, MAX_REASONS),
        recovery: operation
            .recovery
            .as_ref()
            .and_then(|recovery| serde_json::to_value(recovery).ok())
            .map(without_nulls),
        policies: (!operation.policies.is_null()).then(|| without_nulls(operation.policies.clone())),
        began_at: time(operation.began_at),
        ended_at: operation.ended_at.map(time),
    }
}

fn operation(status: &ClusterOperationStatus) -> Result<ClusterOperation, StoreError> {
    let row = status.number.to_string();
    let wrong = |problem: String| corrupt("operation", &row, problem);
    let mut counts = BTreeMap::new();
    for count in &status.counts {
        let group = count.group.parse().map_err(|error: windlass_cluster::InvalidName| wrong(error.to_string()))?;
        counts.insert(group, Counts { before: count.before, wanted: count.wanted });
    }
    let recovery: Option<Recovery> = match &status.recovery {
        Some(value) => Some(serde_json::from_value(value.clone()).map_err(|error| wrong(error.to_string()))?),
        None => None,
    };
    Ok(ClusterOperation {
        number: status.number,
        kind: parse("operation", &row, &status.kind)?,
        state: parse("operation", &row, &status.state)?,
        stage: parse("operation", &row, &status.stage)?,
        runner: status.runner.clone(),
        policies: status.policies.clone().unwrap_or_default(),
        counts,
        force: status.force,
        recovery,
        reasons: status.reasons.clone(),
        // Their words stand among the reasons.
        kept: Vec::new(),
        began_at: milliseconds("operation", &row, &status.began_at)?,
        ended_at: status.ended_at.as_deref().map(|at| milliseconds("operation", &row, at)).transpose()?,
    })
}

/// The operation that is open.
fn open(status: &ServerClusterStatus) -> Option<&ClusterOperationStatus> {
    status.operation.as_ref().filter(|operation| operation.state == OperationState::Open.as_ref())
}

fn past(operation: &ClusterOperation) -> PastOperation {
    PastOperation {
        number: operation.number,
        kind: operation.kind.to_string(),
        state: operation.state.to_string(),
        stage: operation.stage.to_string(),
        cause: operation.recovery.as_ref().map(|recovery| kind_word(&recovery.cause.class)),
        reasons: cut_all(&operation.reasons, PAST_REASONS),
        began_at: time(operation.began_at),
        ended_at: operation.ended_at.map(time),
    }
}

fn operation_of_past(past: &PastOperation) -> Result<ClusterOperation, StoreError> {
    operation(&ClusterOperationStatus {
        number: past.number,
        kind: past.kind.clone(),
        state: past.state.clone(),
        stage: past.stage.clone(),
        reasons: past.reasons.clone(),
        began_at: past.began_at.clone(),
        ended_at: past.ended_at.clone(),
        ..ClusterOperationStatus::default()
    })
}

fn requests(object: &ServerCluster, status: &ServerClusterStatus) -> Requests {
    let record = status.record.as_ref();
    let annotated = object.metadata.annotations.as_ref().and_then(|all| all.get(annotations::CANCEL));
    let called_off =
        open(status).is_some_and(|operation| annotated.is_some_and(|number| *number == operation.number.to_string()));
    Requests {
        cancel: called_off || record.is_some_and(|record| record.cancel),
        delete: object.metadata.deletion_timestamp.is_some() || record.is_some_and(|record| record.delete),
    }
}

/// The cluster that an object holds; `None` when nothing was begun, or all of it is gone.
pub(in crate::server_cluster) fn stored(
    object: &ServerCluster,
    with_nodes: bool,
) -> Result<Option<StoredCluster>, StoreError> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let Some(status) = &object.status else { return Ok(None) };
    let (Some(state), Some(record)) = (&status.state, &status.record) else { return Ok(None) };
    let wrong = |error: String| corrupt("spec", &name, error);
    let mut wanted = specification::specification(&name, &object.spec).map_err(wrong)?;
    let mut last_index = BTreeMap::new();
    for group in &status.groups {
        let known = group.name.parse().map_err(|error: windlass_cluster::InvalidName| wrong(error.to_string()))?;
        if let Some(data) = wanted.groups.get_mut(&known) {
            data.count = group.count;
        }
        last_index.insert(known, group.last_number);
    }
    let mut nodes = Vec::new();
    if with_nodes {
        nodes = status.nodes.iter().map(node).collect::<Result<Vec<_>, _>>()?;
    }
    let cluster = Cluster {
        name: wanted.name.clone(),
        state: parse("status", &name, state)?,
        reasons: status.reasons.clone(),
        left: status.left.clone(),
        specification: wanted,
        last_index,
        created_at: milliseconds("status", &name, &record.created_at)?,
        updated_at: milliseconds("status", &name, &record.updated_at)?,
    };
    let open = open(status).map(operation).transpose()?;
    Ok(Some(StoredCluster { cluster, nodes, open, requests: requests(object, status), fence: Fence(record.fence) }))
}

/// The operations that are known, the newest first; of those before the last one only what is told of them.
pub(super) fn operations(object: &ServerCluster, limit: u32) -> Result<Vec<ClusterOperation>, StoreError> {
    let Some(status) = &object.status else { return Ok(Vec::new()) };
    let last = status.operation.as_ref();
    let earlier = status.history.iter().filter(|past| last.is_none_or(|last| last.number != past.number));
    last.map(operation).into_iter().chain(earlier.map(operation_of_past)).take(limit as usize).collect()
}

/// The events that are known, the oldest first.
pub(super) fn events(
    object: &ServerCluster,
    cluster: &ClusterName,
    operation: Option<u64>,
    after: u64,
    limit: u32,
) -> Result<Vec<ClusterEvent>, StoreError> {
    let known = object.status.as_ref().map(|status| status.events.as_slice()).unwrap_or_default();
    known
        .iter()
        .filter(|event| event.sequence > after && operation.is_none_or(|operation| event.operation == operation))
        .take(limit as usize)
        .map(|event| {
            let row = event.sequence.to_string();
            Ok(ClusterEvent {
                sequence: event.sequence,
                cluster: cluster.clone(),
                operation: event.operation,
                at: milliseconds("events", &row, &event.at)?,
                what: serde_json::from_value(event.what.clone()).map_err(|error| corrupt("events", &row, error))?,
            })
        })
        .collect()
}

/// The requests, under this fence.
pub(super) fn requests_under(object: &ServerCluster, fence: Fence) -> Option<Requests> {
    let status = object.status.as_ref().filter(|status| status.state.is_some())?;
    (status.record.as_ref()?.fence == fence.0).then(|| requests(object, status))
}

/// Drawn, not counted: an object that comes again under an old name begins anew, and its fences must not be those of
/// its forerunner.
fn new_fence() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0 >> (u64::BITS - MAX_FENCE_BITS)
}

/// The record of a cluster that is taken over as it stands.
pub(in crate::server_cluster) fn begun_record(now: Timestamp) -> RecordStatus {
    let now = time(u64::try_from(now.as_millisecond()).unwrap_or_default());
    RecordStatus { fence: new_fence(), created_at: now.clone(), updated_at: now, ..RecordStatus::default() }
}

fn under(status: &ServerClusterStatus, fence: Fence) -> Result<(), StoreError> {
    match (&status.state, &status.record) {
        (Some(_), Some(record)) if record.fence == fence.0 => Ok(()),
        (Some(_), Some(_)) => Err(StoreError::Overtaken),
        _ => Err(StoreError::Gone),
    }
}

fn put_cluster(status: &mut ServerClusterStatus, cluster: &Cluster) {
    status.state = Some(cluster.state.to_string());
    status.established |= cluster.state == windlass_cluster::ClusterState::Active;
    status.reasons = cut_all(&cluster.reasons, MAX_REASONS);
    status.left = cut_all(&cluster.left, TOLD_LEFT);
    if cluster.left.len() > TOLD_LEFT {
        status.left.push(format!("and {} more", cluster.left.len() - TOLD_LEFT));
    }
    let group = |(name, data): (&windlass_cluster::NodeGroupName, &windlass_cluster::NodeGroup)| GroupStatus {
        name: name.to_string(),
        count: data.count,
        last_number: cluster.last_index.get(name).copied().unwrap_or_default(),
    };
    status.groups = cluster.specification.groups.iter().map(group).collect();
    if let Some(record) = &mut status.record {
        record.created_at = time(cluster.created_at);
        record.updated_at = time(cluster.updated_at);
    }
}

fn put_nodes(status: &mut ServerClusterStatus, nodes: &[Node]) {
    let places: BTreeMap<String, usize> =
        status.nodes.iter().enumerate().map(|(place, node)| (node.name.clone(), place)).collect();
    for changed in nodes {
        match places.get(&changed.name) {
            Some(place) => status.nodes[*place] = node_status(changed),
            None => status.nodes.push(node_status(changed)),
        }
    }
    status.nodes.sort_by(|a, b| (&a.group, a.number).cmp(&(&b.group, b.number)));
}

fn count_running(status: &mut ServerClusterStatus) {
    let running = status.nodes.iter().filter(|node| node.state == NodeState::Running.as_ref()).count();
    status.running_nodes = status.state.as_ref().map(|_| u32::try_from(running).unwrap_or(u32::MAX));
}

/// Opens an operation.
pub(super) fn begin(status: &mut ServerClusterStatus, begin: &Begin) -> Result<Answer, StoreError> {
    let exists = status.state.is_some();
    match begin.expected {
        None if exists => return Err(StoreError::Overtaken),
        None => {}
        Some(_) if !exists => return Err(StoreError::Gone),
        Some(expected) => {
            under(status, expected)?;
            if open(status).is_some() {
                return Err(StoreError::Overtaken);
            }
        }
    }
    let earlier = status.operation.as_ref().map_or(0, |operation| operation.number);
    let number = 1 + status.history.first().map_or(earlier, |past| past.number.max(earlier));
    if !exists {
        status.nodes.clear();
        status.established = false;
    }
    let record = status.record.get_or_insert_default();
    // Whatever begins takes the place of a request to delete.
    record.delete = false;
    record.fence = new_fence();
    record.cancel = false;
    let fence = record.fence;
    put_cluster(status, &begin.cluster);
    put_nodes(status, &begin.nodes);
    let opened = ClusterOperation { number, state: OperationState::Open, ..begin.operation.clone() };
    status.operation = Some(operation_status(&opened, Vec::new()));
    let oldest = number.saturating_sub(KEPT_OPERATIONS);
    status.history.retain(|past| past.number > oldest);
    status.events.retain(|event| event.operation > oldest);
    status.progress = None;
    count_running(status);
    Ok(Answer { fence, number, there: true })
}

/// Lets another process go on with the open operation.
pub(super) fn take_over(status: &mut ServerClusterStatus, expected: Fence, runner: &str) -> Result<Answer, StoreError> {
    under(status, expected)?;
    let Some(operation) =
        status.operation.as_mut().filter(|operation| operation.state == OperationState::Open.as_ref())
    else {
        return Err(StoreError::Overtaken);
    };
    operation.runner = runner.to_owned();
    let number = operation.number;
    let fence = new_fence();
    if let Some(record) = &mut status.record {
        record.fence = fence;
    }
    Ok(Answer { fence, number, there: true })
}

/// Adds requests to the operation of this number, while it is open.
pub(super) fn request(status: &mut ServerClusterStatus, operation: u64, requests: Requests) -> Answer {
    let there = status.state.is_some() && open(status).is_some_and(|open| open.number == operation);
    if there && let Some(record) = &mut status.record {
        record.cancel |= requests.cancel;
        record.delete |= requests.delete;
    }
    Answer { there, ..Answer::default() }
}

/// Takes a request to delete back.
pub(super) fn withdraw(status: &mut ServerClusterStatus) -> Answer {
    let mut there = false;
    if let Some(record) = &mut status.record {
        there = std::mem::take(&mut record.delete);
    }
    Answer { there, ..Answer::default() }
}

/// Writes a change, all of it or nothing.
pub(super) fn commit(status: &mut ServerClusterStatus, fence: Fence, change: &Change) -> Result<Answer, StoreError> {
    under(status, fence)?;
    if change.ends_well() && status.record.as_ref().is_some_and(|record| record.cancel) {
        return Err(StoreError::Cancelled);
    }
    let number = status.operation.as_ref().map_or(0, |operation| operation.number);
    if let Some(cluster) = &change.cluster {
        put_cluster(status, cluster);
    }
    if !change.nodes.is_empty() {
        put_nodes(status, &change.nodes);
    }
    if !change.forget_nodes.is_empty() {
        let forgotten: std::collections::BTreeSet<&String> = change.forget_nodes.iter().collect();
        status.nodes.retain(|node| !forgotten.contains(&node.name));
    }
    if let Some(operation) = &change.operation {
        let steps = status.operation.take().map(|known| known.steps).unwrap_or_default();
        status.operation = Some(operation_status(operation, steps));
    }
    for (at, what) in &change.events {
        happened(status, number, *at, what);
    }
    if let Some(operation) = change.operation.as_ref().filter(|operation| operation.state != OperationState::Open) {
        status.history.insert(0, past(operation));
        status.progress = None;
        if let Some(record) = &mut status.record {
            record.cancel = false;
            // A termination is itself what was requested.
            record.delete &= operation.kind != OperationKind::Terminate;
        }
    }
    if change.forget_cluster {
        status.state = None;
        status.established = false;
        status.reasons.clear();
        status.left.clear();
        status.groups.clear();
        status.nodes.clear();
    }
    count_running(status);
    Ok(Answer { there: true, ..Answer::default() })
}

/// Counts an event into the operation's steps, and keeps it for people unless it is one of many.
fn happened(status: &mut ServerClusterStatus, number: u64, at: u64, what: &ClusterEventKind) {
    let sequence = match &mut status.record {
        Some(record) => {
            record.events += 1;
            record.events
        }
        None => 0,
    };
    let steps = status.operation.as_mut().map(|operation| &mut operation.steps);
    if let Some(steps) = steps {
        let mut count = |stage: String, step: &String, done: u32, failed: u32| {
            if let Some(known) = steps.iter_mut().rev().find(|known| known.stage == stage && known.step == *step) {
                known.done += done;
                known.failed += failed;
            }
        };
        match what {
            ClusterEventKind::NodeDone { stage, step, .. } => count(stage.to_string(), step, 1, 0),
            ClusterEventKind::NodeFailed { stage, step, .. } => count(stage.to_string(), step, 0, 1),
            ClusterEventKind::StepBegan { stage, step, total } if steps.len() < MAX_STEPS => steps.push(StepStatus {
                stage: stage.to_string(),
                step: step.clone(),
                total: *total,
                ..StepStatus::default()
            }),
            _ => {}
        }
    }
    status.progress = status.operation.as_ref().and_then(progress);
    let recorded = match what {
        ClusterEventKind::NodeDone { .. } => return,
        ClusterEventKind::NodeFailed { stage, step, node, reason } => ClusterEventKind::NodeFailed {
            stage: *stage,
            step: step.clone(),
            node: node.clone(),
            reason: cut(reason, MAX_REASON_LEN),
        },
        ClusterEventKind::Recovering(recovery) => {
            let mut recovery = recovery.clone();
            recovery.delete.truncate(MAX_DELETED_NAMES);
            ClusterEventKind::Recovering(recovery)
        }
        ClusterEventKind::Closed { state, cluster, reasons } => {
            ClusterEventKind::Closed { state: *state, cluster: *cluster, reasons: cut_all(reasons, PAST_REASONS) }
        }
        other => other.clone(),
    };
    let what = without_nulls(serde_json::to_value(&recorded).unwrap_or_default());
    status.events.push(EventStatus { sequence, operation: number, at: time(at), what });
    let over = status.events.len().saturating_sub(KEPT_EVENTS);
    status.events.drain(..over);
}

/// The steps of the stage that an operation is in: `remove servers 2/2, create servers 1/3`.
fn progress(operation: &ClusterOperationStatus) -> Option<String> {
    let stage = &operation.steps.last()?.stage;
    let of_stage = operation.steps.iter().filter(|step| step.stage == *stage);
    let words: Vec<String> =
        of_stage.map(|step| format!("{} {}/{}", step.step, step.done + step.failed, step.total)).collect();
    Some(cut(words.join(", "), 250))
}

/// Cuts what is told to people when an object with this specification grows towards what it can hold. Gives its size in
/// bytes.
pub(super) fn bound(status: &mut ServerClusterStatus, spec: &ServerClusterSpec) -> Result<usize, StoreError> {
    let fixed = serde_json::to_vec(spec).map_or(usize::MAX, |bytes| bytes.len());
    let size = |status: &ServerClusterStatus| {
        serde_json::to_vec(status).map_or(usize::MAX, |bytes| bytes.len().saturating_add(fixed))
    };
    let mut bytes = size(status);
    if bytes > SOFT_LIMIT {
        let over = status.events.len().saturating_sub(4);
        status.events.drain(..over);
        for node in &mut status.nodes {
            node.problem = node.problem.as_deref().map(|problem| cut(problem, 64));
        }
        bytes = size(status);
    }
    if bytes > HARD_LIMIT {
        let nodes = status.nodes.len();
        let problem = format!(
            "the object with its record of {nodes} nodes has {bytes} bytes, more than the {HARD_LIMIT} that it can hold"
        );
        return Err(StoreError::Failed { what: "writing", problem });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(nodes: u32) -> ServerClusterStatus {
        let name: ClusterName = "c".repeat(32).parse().unwrap();
        let group = "g".repeat(22);
        let node = |number: u32| NodeStatus {
            name: format!("{name}-{group}-{number}"),
            group: group.clone(),
            number,
            role: "staying".into(),
            state: "running".into(),
            creation: Some(format!("{name}-0123456789ab")),
            server_id: Some("11111111-2222-4333-8444-555555555555".into()),
            server_type: Some("ENT1-2XL".into()),
            addresses: vec!["151.115.100.100".into()],
            private_addresses: vec!["172.16.100.100".into()],
            configured: true,
            started: true,
            ..NodeStatus::default()
        };
        ServerClusterStatus { nodes: (1..=nodes).map(node).collect(), ..ServerClusterStatus::default() }
    }

    #[test]
    fn a_thousand_nodes_fit_with_room_and_so_do_twice_as_many_that_come_and_go() {
        let spec = ServerClusterSpec::default();
        let bytes = bound(&mut large(1_000), &spec).unwrap();
        println!("1,000 nodes with the longest names: {bytes} bytes");
        assert!(bytes < 500_000, "{bytes}");
        // The most that can be there: 1,000 leave while 1,000 others come, each with a problem to tell.
        let mut most = large(2_000);
        for node in &mut most.nodes {
            node.problem = Some("é".repeat(MAX_PROBLEM_LEN / 2));
        }
        let bytes = bound(&mut most, &spec).unwrap();
        println!("2,000 nodes, each with a problem: {bytes} bytes");
        assert!(most.nodes[0].problem.as_ref().unwrap().len() < MAX_PROBLEM_LEN, "their words were cut");
        assert!(bytes < 1_000_000, "{bytes}");
        let error = bound(&mut large(4_000), &spec).unwrap_err().to_string();
        assert!(error.contains("4000 nodes"), "{error}");
    }

    #[test]
    fn times_are_kept_to_the_millisecond() {
        assert_eq!(time(1_763_740_000_123), "2025-11-21T15:46:40.123Z");
        assert_eq!(milliseconds("t", "r", &time(1_763_740_000_123)).unwrap(), 1_763_740_000_123);
    }

    #[test]
    fn progress_is_that_of_all_steps_of_the_stage() {
        let step = |stage: &str, step: &str, done, total| StepStatus {
            stage: stage.into(),
            step: step.into(),
            total,
            done,
            failed: 0,
        };
        let mut operation = ClusterOperationStatus::default();
        assert_eq!(progress(&operation), None);
        operation.steps = vec![
            step("decommission", "run the decommission hook", 2, 2),
            step("resize", "remove servers", 2, 2),
            step("resize", "create servers", 1, 3),
        ];
        assert_eq!(progress(&operation).unwrap(), "remove servers 2/2, create servers 1/3");
    }

    #[test]
    fn fences_are_numbers_that_json_keeps() {
        assert!((0..1_000).all(|_| new_fence() < 1 << MAX_FENCE_BITS));
        assert_ne!(new_fence(), new_fence());
    }
}
