//! A scenario of what was done with a real cluster, from the journal that has its history. Nothing of it names a server, an
//! owner or a project, nor the cluster: only its groups, which an arm has as well.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use windlass_cluster::{
    ClusterEvent, ClusterEventKind, ClusterName, ClusterOperation, ClusterStore as _, LogClusterStore, OperationKind,
    OperationState, Stage, StoreError,
};
use windlass_fleeting::{ClusterConduct, HookConduct, Scale, Scenario, Time, WaitTimes};
use windlass_lifecycle::{
    Journal, Operation, OperationFilter, OperationKind as ServerOperation, OperationState as ServerState, Requester,
};
use windlass_policy::slots::types::FailureClass;

use crate::record::{HOUR, Places, hours, listed, percentile, removals, removed_at, span, thousandths};

/// The shortest time between two looks at a cluster in a scenario.
const MIN_REPAIR: u64 = 10_000;

/// How many nodes each group has.
type Nodes = BTreeMap<String, u32>;

/// The clusters for which servers were created or removed between two times, in milliseconds since 1970.
///
/// # Errors
/// The journal cannot be read.
pub fn clusters_in(journal: &Journal, from: u64, to: u64) -> Result<BTreeSet<String>, windlass_lifecycle::Error> {
    let operations = journal.operations(&OperationFilter::default())?;
    let during = operations.iter().filter(|operation| (from..to).contains(&operation.created_at));
    Ok(during.filter_map(|operation| Some(of_cluster(operation)?.0)).collect())
}

/// The cluster for which an operation on a server was done, and the number of its own operation.
fn of_cluster(operation: &Operation) -> Option<(String, u64)> {
    match operation.requested_by()?.requester {
        Requester::Cluster { cluster, operation } => Some((cluster, operation)),
        _ => None,
    }
}

/// The scenario of what was done with a cluster between two times, in milliseconds since 1970. It begins at the full
/// hour before; where there was no cluster yet, at the one before its creation. Where there is one in the end, it is
/// there until the scenario ends. None: there was no such cluster.
///
/// # Errors
/// The journal cannot be read.
pub async fn recorded_cluster(
    journal: &Journal,
    name: &ClusterName,
    from: u64,
    to: u64,
) -> Result<Option<Scenario>, StoreError> {
    let store = LogClusterStore::of(journal);
    let mut operations = store.operations(name, u32::MAX).await?;
    operations.reverse();
    let events = store.events(name, None, 0, u32::MAX).await?;
    let start = from - from % HOUR;
    let (before, mut during): (Vec<_>, Vec<_>) = operations.into_iter().partition(|it| it.began_at < start);
    during.retain(|operation| operation.began_at < to);
    let there = before.last().map(left_by).unwrap_or_default();
    let is_there = there.values().any(|count| *count > 0);
    let start = match during.first() {
        Some(first) if !is_there => first.began_at - first.began_at % HOUR,
        None if !is_there => return Ok(None),
        _ => start,
    };
    let length = to.saturating_sub(start).div_ceil(HOUR).max(1);
    let end = start + length * HOUR;
    let mut course = Course::of(start, there, &during);
    course.end(end);
    let servers = journal.operations(&OperationFilter::default())?;
    let made: Vec<&Operation> = servers
        .iter()
        .filter(|it| it.kind == ServerOperation::CreateServer)
        .filter(|it| of_cluster(it).is_some_and(|(cluster, _)| cluster == name.as_str()))
        .collect();
    let mut places = Places::default();
    let (mut created, mut failed) = (0, 0);
    for creation in made.iter().filter(|it| (start..to).contains(&it.created_at)) {
        places.take_in(creation, &journal.entries(&creation.id)?);
        *(if creation.state == ServerState::Done { &mut created } else { &mut failed }) += 1;
    }
    let numbers: BTreeSet<u64> = during.iter().map(|operation| operation.number).collect();
    let mut hooks = Hooks::default();
    for event in events.iter().filter(|event| numbers.contains(&event.operation)) {
        hooks.take_in(event);
        if let Some((zone, types)) = lacking(event) {
            types.for_each(|server_type| places.lacks(zone, server_type, event.at));
        }
    }
    let removals = removals(&servers);
    let lived = made.iter().map(|creation| {
        let until = match creation.state {
            ServerState::Done => removed_at(creation, &removals).unwrap_or(end),
            _ => creation.ended_at.unwrap_or(creation.created_at),
        };
        until.min(end).saturating_sub(creation.created_at.max(start))
    });
    let mut observed = vec![("server_hours", thousandths(hours(lived.sum()))), ("failures", f64::from(failed))];
    observed.extend(course.observed());
    if !is_there {
        observed.push(("creations", f64::from(created)));
    }
    let Some(starts_at) = i64::try_from(start).ok().and_then(|start| Timestamp::from_millisecond(start).ok()) else {
        return Ok(None);
    };
    let (offers, incidents) = places.offers_and_incidents(start, to);
    let mut conduct = hooks.conduct();
    (conduct.exists, conduct.repair_every) = (true, course.repair_every());
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    Ok(Some(Scenario {
        demand: Vec::new(),
        scales: course.scales,
        cluster: Some(conduct),
        offers,
        incidents,
        observed: observed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..listed("recorded from a cluster's journal", starts_at, length, Vec::new())
    }))
}

/// The nodes that there are after an operation, and those that it was to bring about.
fn left_by(operation: &ClusterOperation) -> Nodes {
    let is_done = operation.state == OperationState::Done;
    let counts = operation.counts.iter();
    counts.map(|(group, it)| (group.to_string(), if is_done { it.wanted } else { it.before })).collect()
}

fn wanted_by(operation: &ClusterOperation) -> Nodes {
    operation.counts.iter().map(|(group, counts)| (group.to_string(), counts.wanted)).collect()
}

/// What its operator asked for, and what came of it. A termination scales it to nothing, and a creation from there.
struct Course {
    scales: Vec<Scale>,
    /// Each scaling: when it was wanted, and how long it took until it was there.
    changes: Vec<(u64, Option<u64>)>,
    waited: Vec<Duration>,
    not_ready: usize,
    failed: usize,
    repairs: usize,
    /// From the end of a failed operation until its repair began: of a repair that failed, and of what else failed.
    pauses_again: Vec<u64>,
    pauses: Vec<u64>,
}

impl Course {
    fn of(start: u64, there: Nodes, operations: &[ClusterOperation]) -> Self {
        let mut wanted: Nodes = operations.iter().flat_map(wanted_by).map(|(group, _)| (group, 0)).collect();
        wanted.extend(there);
        let mut course = Self {
            scales: vec![Scale { at: Time::default(), groups: wanted.clone() }],
            changes: Vec::new(),
            waited: Vec::new(),
            not_ready: 0,
            failed: 0,
            repairs: 0,
            pauses_again: Vec::new(),
            pauses: Vec::new(),
        };
        // The end of the last operation where it failed, and whether it was a repair.
        let mut failed: Option<(u64, bool)> = None;
        for operation in operations {
            let is_terminated = operation.kind == OperationKind::Terminate;
            let mut asked = wanted.clone();
            match is_terminated {
                true => asked.values_mut().for_each(|count| *count = 0),
                false => asked.extend(wanted_by(operation)),
            }
            let is_repair = asked == wanted;
            if !is_repair {
                // At 0s is what the scenario begins with.
                let at = Time(Duration::from_secs(((operation.began_at - start + 500) / 1_000).max(1)));
                course.scales.push(Scale { at, groups: asked.clone() });
                course.changes.push((operation.began_at, None));
                wanted = asked;
            } else if !is_terminated {
                course.repairs += 1;
                if let Some((ended, was_repair)) = failed {
                    let pauses = if was_repair { &mut course.pauses_again } else { &mut course.pauses };
                    pauses.push(operation.began_at.saturating_sub(ended));
                }
            }
            let ended = operation.ended_at.unwrap_or(operation.began_at);
            let has_failed = matches!(operation.state, OperationState::Recovered | OperationState::Failed);
            course.failed += usize::from(has_failed);
            failed = has_failed.then_some((ended, is_repair));
            if operation.state == OperationState::Done {
                course.ready(ended);
            }
        }
        course
    }

    /// All that was wanted is there.
    fn ready(&mut self, at: u64) {
        for (began, waited) in self.changes.iter_mut().filter(|(_, waited)| waited.is_none()) {
            *waited = Some(at.saturating_sub(*began));
        }
    }

    /// What is not there by now never was.
    fn end(&mut self, at: u64) {
        self.not_ready = self.changes.iter().filter(|(_, waited)| waited.is_none()).count();
        self.ready(at);
        let waited = self.changes.iter().filter_map(|(_, waited)| *waited);
        self.waited = waited.map(Duration::from_millis).collect();
    }

    fn observed(&self) -> Vec<(&'static str, f64)> {
        let counts = [("failed_operations", self.failed), ("repairs", self.repairs), ("not_ready", self.not_ready)];
        let mut observed: Vec<_> = counts.map(|(name, count)| (name, count as f64)).into();
        if !self.waited.is_empty() {
            let WaitTimes { p50_ms, p95_ms, worst_ms } = WaitTimes::of(self.waited.clone());
            let waits = [("ready_p50", p50_ms), ("ready_p95", p95_ms), ("ready_worst", worst_ms)];
            observed.extend(waits.map(|(name, waited)| (name, waited as f64 / 1_000.0)));
        }
        observed
    }

    /// How often somebody looked: the time between two repairs, the first of which failed. Where a failure was repaired
    /// at once, it came on average half as long after the look before.
    fn repair_every(&self) -> Option<Time> {
        let median = |times: &[u64]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            percentile(&times, 50)
        };
        let every = median(&self.pauses_again).or_else(|| Some(2 * median(&self.pauses)?))?;
        Some(Time(Duration::from_secs(every.max(MIN_REPAIR) / 1_000)))
    }
}

/// The zone and the types of which nothing was left when they were asked for: a creation would have failed. The event
/// has only the words for people of [`windlass_lifecycle::Catalogue`].
fn lacking(event: &ClusterEvent) -> Option<(&str, impl Iterator<Item = &str>)> {
    let words = match &event.what {
        ClusterEventKind::NodeFailed { stage: Stage::Validate, reason, .. } => reason,
        ClusterEventKind::Waiting { stage: Stage::Validate, failure, .. } => failure,
        _ => return None,
    };
    let (zone, types) = words.strip_suffix(" left")?.split_once(" has no ")?;
    Some((zone.rsplit(' ').next().unwrap_or(zone), types.split(" and no ")))
}

/// A run of a hook.
#[derive(Clone, Copy)]
struct HookRun {
    stage: Stage,
    began: u64,
    ended: Option<u64>,
    has_failed: bool,
}

/// How the runs of the hook of a stage went.
#[derive(Default)]
struct HookRuns {
    took: Vec<u64>,
    failed: usize,
}

/// How hooks went, by stage.
#[derive(Default)]
struct Hooks {
    of_stages: BTreeMap<Stage, HookRuns>,
    /// The one whose end may still be told of.
    current: Option<HookRun>,
}

impl Hooks {
    /// Takes in the next event.
    fn take_in(&mut self, event: &ClusterEvent) {
        let at = event.at;
        match &event.what {
            ClusterEventKind::StepBegan { stage, total, .. } => {
                self.count();
                let is_of_hook = matches!(stage, Stage::Decommission | Stage::Configure | Stage::Start);
                let run = HookRun { stage: *stage, began: at, ended: None, has_failed: false };
                self.current = (is_of_hook && *total > 0).then_some(run);
            }
            ClusterEventKind::NodeDone { .. } => self.ended(at, false),
            ClusterEventKind::NodeFailed { .. } => self.ended(at, true),
            ClusterEventKind::Waiting { milliseconds, .. } => {
                self.ended(at, true);
                let again = self.current.map(|run| HookRun { began: at + milliseconds, ended: None, ..run });
                self.count();
                self.current = again.map(|run| HookRun { has_failed: false, ..run });
            }
            ClusterEventKind::Recovering(recovery) if recovery.cause.class == FailureClass::Cancelled => {
                self.current = None;
            }
            ClusterEventKind::Closed { .. } => self.count(),
            _ => {}
        }
    }

    fn ended(&mut self, at: u64, has_failed: bool) {
        if let Some(run) = &mut self.current {
            run.ended = run.ended.or(Some(at));
            run.has_failed |= has_failed;
        }
    }

    /// The current run has no further events.
    fn count(&mut self) {
        let Some(run) = self.current.take() else { return };
        let Some(ended) = run.ended else { return };
        let of_stage = self.of_stages.entry(run.stage).or_default();
        of_stage.took.push(ended.saturating_sub(run.began));
        of_stage.failed += usize::from(run.has_failed);
    }

    fn conduct(&self) -> ClusterConduct {
        let conduct = |stage: Stage| {
            let HookRuns { took, failed } = self.of_stages.get(&stage)?;
            // Also a stage without a hook has its events.
            let seconds = span(took.clone()).filter(|(_, longest)| *longest > 0);
            let failed = (*failed > 0).then(|| thousandths(*failed as f64 / took.len() as f64));
            let conduct = HookConduct { hook_seconds: seconds, failed_hooks: failed };
            (conduct != HookConduct::default()).then_some(conduct)
        };
        let [decommission, configure, start] = [Stage::Decommission, Stage::Configure, Stage::Start].map(conduct);
        ClusterConduct { decommission, configure, start, ..ClusterConduct::default() }
    }
}

#[cfg(test)]
mod tests {
    use windlass_cluster::Counts;

    use super::*;

    const MINUTE: u64 = 60_000;

    fn operation(
        kind: OperationKind,
        (before, wanted): (u32, u32),
        began: u64,
        state: OperationState,
    ) -> ClusterOperation {
        let mut operation = ClusterOperation::begun(kind, Stage::Validate, "a-host", began * MINUTE);
        operation.counts = [("web".parse().unwrap(), Counts { before, wanted })].into();
        (operation.state, operation.ended_at) = (state, Some((began + 1) * MINUTE));
        operation
    }

    #[test]
    fn a_cluster_that_is_away_has_no_nodes_and_asking_again_is_a_repair() {
        use OperationKind::{Create, Scale, Terminate};
        let operations = [
            operation(Create, (0, 2), 37, OperationState::Recovered),
            operation(Create, (0, 2), 48, OperationState::Done),
            operation(Scale, (2, 4), 60, OperationState::Done),
            operation(Terminate, (4, 0), 70, OperationState::Done),
            operation(Create, (0, 2), 90, OperationState::Done),
        ];
        let mut course = Course::of(0, Nodes::new(), &operations);
        course.end(120 * MINUTE);
        let scales: Vec<_> = course.scales.iter().map(|scale| (scale.at.to_string(), scale.groups["web"])).collect();
        let expected = [("0s", 0), ("37m", 2), ("1h", 4), ("1h10m", 0), ("1h30m", 2)];
        assert_eq!(scales, expected.map(|(at, nodes)| (at.to_owned(), nodes)));
        assert_eq!((course.failed, course.repairs, course.not_ready), (1, 1, 0));
        assert_eq!(course.waited.iter().map(Duration::as_secs).collect::<Vec<_>>(), [720, 60, 60, 60]);
        assert_eq!(course.repair_every().map(|every| every.to_string()), Some("20m".to_owned()));
        let there = [("web".to_owned(), 4)].into();
        let course = Course::of(65 * MINUTE, there, &[operation(Scale, (4, 4), 67, OperationState::Done)]);
        assert_eq!((course.scales.len(), course.repairs, course.changes.len()), (1, 1, 0));
    }

    #[test]
    fn what_the_stage_validate_lacks_is_read_from_its_words() {
        let event = |what| ClusterEvent { sequence: 1, cluster: "farm".parse().unwrap(), operation: 1, at: 5, what };
        let failed = |stage, reason: &str| ClusterEventKind::NodeFailed {
            stage,
            step: "ask Scaleway".to_owned(),
            node: "web".to_owned(),
            reason: reason.to_owned(),
        };
        let words = "groups.web.types: fr-par-1 has no DEV1-S and no DEV1-M left";
        let lacks = event(failed(Stage::Validate, words));
        let (zone, types) = lacking(&lacks).unwrap();
        assert_eq!((zone, types.collect::<Vec<_>>()), ("fr-par-1", vec!["DEV1-S", "DEV1-M"]));
        assert!(lacking(&event(failed(Stage::Servers, words))).is_none());
        assert!(lacking(&event(failed(Stage::Validate, "groups.web.types: no"))).is_none());
    }
}
