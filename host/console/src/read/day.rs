//! What happened in the last 24 hours: counts over the whole journal, and the newest failures and decisions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_lifecycle::{
    Clock, Course, Operation, OperationCount, OperationFilter, OperationId, OperationKind, OperationState,
};
use windlass_policy::slots::SlotName;
use windlass_policy::{
    DecisionFilter, DecisionSummary, FailureKind, Outcome, PolicyChange, PolicyEventKind, policy_changes,
};

use super::{RECENT_BYTES, Source};
use crate::Error;

const HOUR_MS: u64 = 3_600_000;
const HOURS: usize = 24;
/// How often in an hour the servers are counted.
pub(crate) const SPANS_OF_HOUR: usize = 4;
const SPAN_MS: u64 = HOUR_MS / SPANS_OF_HOUR as u64;
/// The newest failures of each state that are read.
const FAILURES: u32 = 200;
/// The newest decisions that are read.
const DECISIONS: usize = 1_000;
/// The newest decisions in which a policy failed that are read.
const FALLBACKS: usize = 100;
/// Causes and changes that are shown.
const MAX_SHOWN: usize = 5;
/// Changes of policies that are looked at.
const CHANGES: usize = 100;

/// The last 24 hours.
#[derive(Debug, Default)]
pub(crate) struct Day {
    /// The oldest first, the one that is not over last.
    pub(crate) hours: Vec<Hour>,
    /// Four of each hour; of the last one, those that have begun.
    pub(crate) levels: Vec<Level>,
    /// What the servers of these levels cost, in euro. Absent where there is no catalogue.
    pub(crate) spent: Option<f64>,
    /// Why creations failed, the most frequent first.
    pub(crate) causes: Vec<Cause>,
    /// Whether there were more failures than were read.
    pub(crate) more_failures: bool,
    /// The newest first.
    pub(crate) incidents: Vec<Incident>,
    /// How policies changed otherwise, the newest first.
    pub(crate) changes: Vec<PolicyChange>,
}

/// What ended in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hour {
    /// In milliseconds since 1970.
    pub(crate) from: u64,
    pub(crate) created: usize,
    /// Creations that failed or were cancelled.
    pub(crate) not_created: usize,
    pub(crate) removed: usize,
    /// Removals that have left something.
    pub(crate) not_removed: usize,
    /// Decisions of policies that did not fail, among those read.
    pub(crate) decided: usize,
    /// Decisions in which a policy failed, among those read.
    pub(crate) not_decided: usize,
}

/// What a server costs for an hour, by its zone and the types that it may be of.
type Price<'p> = &'p dyn Fn(&str, &[String]) -> Option<f64>;

/// What there was at the end of a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Level {
    pub(crate) running: usize,
    pub(crate) creating: usize,
    pub(crate) removing: usize,
    /// What those that run cost for an hour, in euro.
    pub(crate) hourly: f64,
    /// Those without a known price.
    pub(crate) unpriced: usize,
}

/// Creations that failed for the same cause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) words: String,
    pub(crate) count: usize,
    /// The newest of them.
    pub(crate) last: OperationId,
}

/// Something that went wrong, once or several times within an hour.
#[derive(Debug)]
pub(crate) struct Incident {
    /// The last time, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) count: usize,
    /// The last one of them.
    pub(crate) what: What,
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum What {
    /// It failed, or has left something.
    Operation(Box<Operation>),
    /// It was suspended, or a new file of it was refused.
    Policy(Box<PolicyChange>),
    /// A policy failed in it, or the brake held it back.
    Decision(Box<DecisionSummary>),
}

/// What a policy did in the newest decisions.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) decided: usize,
    pub(crate) deferred: usize,
    pub(crate) failed: usize,
}

/// The newest decisions, by slot and policy, and by slot and verdict.
#[derive(Debug, Default)]
pub(crate) struct Deciding {
    pub(crate) decisions: usize,
    /// The oldest of them, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    pub(crate) policies: BTreeMap<(SlotName, String), Asked>,
    pub(crate) verdicts: BTreeMap<(SlotName, String), usize>,
}

impl Source {
    /// The last 24 hours, and the newest decisions.
    pub(super) fn day(&self) -> Result<(Day, Deciding), Error> {
        let now = Clock::System.now();
        let begins = begins(now);
        let course = match self.journal()? {
            Some(journal) => journal.course(begins, SPAN_MS).map_err(Error::Journal)?,
            None => Course::default(),
        };
        let price = |zone: &str, types: &[String]| self.price(zone, types);
        let mut day = Day::of(&course, now, self.prices.is_some().then_some(&price));
        let (failures, more) = self.failures(begins)?;
        day.more_failures = more;
        day.causes = causes(&failures);
        let changes = policy_changes(self.state.handle(), CHANGES).map_err(Error::Policies)?;
        let of_day = changes.into_iter().filter(|change| change.at_ms >= begins);
        let (wrong, changes): (Vec<_>, Vec<_>) = of_day.partition(|change| {
            matches!(change.what, PolicyEventKind::Suspended { .. } | PolicyEventKind::Refused { .. })
        });
        // A host that starts puts all of its policies in force, and nothing has changed by that.
        let changed = |change: &PolicyChange| !matches!(change.what, PolicyEventKind::InForce { .. });
        day.changes = changes.into_iter().filter(changed).take(MAX_SHOWN).collect();
        let mut filter = DecisionFilter::default();
        (filter.limit, filter.most_bytes) = (DECISIONS, Some(RECENT_BYTES));
        let decisions = self.decisions(&filter, None)?.decisions;
        day.count_decisions(&decisions);
        (filter.limit, filter.only_fallbacks) = (FALLBACKS, true);
        let fallbacks = self.decisions(&filter, None)?.decisions;
        day.incidents = incidents(failures, wrong, fallbacks, begins);
        Ok((day, Deciding::of(&decisions)))
    }

    /// The operations that failed since then, the newest of each state; and whether there may be more.
    fn failures(&self, begins: u64) -> Result<(Vec<Operation>, bool), Error> {
        use OperationState::{Abandoned, Kept, Left, Undone, Unverified};
        let (mut failures, mut more) = (Vec::new(), false);
        // One by one: the journal reads all of several states to find the newest.
        for state in [Left, Unverified, Undone, Kept, Abandoned] {
            let mut filter = OperationFilter::default();
            (filter.states, filter.limit) = (vec![state], Some(FAILURES));
            let found = self.list(&filter)?;
            let oldest = found.get(FAILURES as usize - 1);
            more |= oldest.is_some_and(|oldest| oldest.created_at >= begins);
            failures.extend(found.into_iter().filter(|operation| ended(operation) >= begins));
        }
        // What was cancelled has no cause.
        failures.retain(|operation| operation.cause.is_some() || !operation.state.has_ended());
        failures.sort_by_key(|operation| std::cmp::Reverse(ended(operation)));
        Ok((failures, more))
    }

    /// What a server costs for an hour that is of one of these types: what they cost on average.
    fn price(&self, zone: &str, types: &[String]) -> Option<f64> {
        let prices = self.prices.as_ref()?;
        let known: Option<Vec<f64>> = types.iter().map(|server_type| prices.hourly(zone, server_type)).collect();
        let known = known.filter(|known| !known.is_empty())?;
        Some(known.iter().sum::<f64>() / known.len() as f64)
    }
}

impl Day {
    /// `price` is absent where no prices are known.
    fn of(course: &Course, now: u64, price: Option<Price<'_>>) -> Self {
        let begins = begins(now);
        let of_types = |zone: &str, types: &[String]| price.and_then(|price| price(zone, types));
        let mut hours = vec![Hour::default(); HOURS];
        for (hour, from) in hours.iter_mut().zip((begins..).step_by(HOUR_MS as usize)) {
            hour.from = from;
        }
        let mut day =
            Self { hours, levels: levels(course, begins / SPAN_MS, now / SPAN_MS, of_types), ..Self::default() };
        for ended in &course.ended {
            let Some(span) = ended.ended else { continue };
            let Some(hour) = day.hour(span.saturating_mul(SPAN_MS)) else { continue };
            let count = usize::try_from(ended.count).unwrap_or(usize::MAX);
            use OperationState::{Done, Left, Unverified};
            match (ended.kind, ended.state) {
                (kind, Done) if kind.acquires() => hour.created += count,
                (kind, _) if kind.acquires() => hour.not_created += count,
                (kind, Done) if removes(kind) => hour.removed += count,
                (kind, Left | Unverified) if removes(kind) => hour.not_removed += count,
                _ => {}
            }
        }
        let hours_of = |span: usize| {
            let from = begins + SPAN_MS * span as u64;
            now.saturating_sub(from).min(SPAN_MS) as f64 / HOUR_MS as f64
        };
        day.spent =
            price.map(|_| day.levels.iter().enumerate().map(|(span, level)| level.hourly * hours_of(span)).sum());
        day
    }

    /// The hour of an instant; none of what is older, or comes from a clock that is ahead.
    fn hour(&mut self, at_ms: u64) -> Option<&mut Hour> {
        let since = at_ms.checked_sub(self.hours.first()?.from)?;
        self.hours.get_mut(usize::try_from(since / HOUR_MS).ok()?)
    }

    fn count_decisions(&mut self, decisions: &[DecisionSummary]) {
        for decision in decisions {
            let Some(hour) = self.hour(decision.at_ms) else { continue };
            match decision.is_fallback() {
                true => hour.not_decided += 1,
                false => hour.decided += 1,
            }
        }
    }

    /// Whether there is nothing to show of these hours.
    pub(crate) fn is_empty(&self) -> bool {
        let nothing = |level: &Level| level.running + level.creating + level.removing == 0;
        let idle = |hour: &Hour| *hour == Hour { from: hour.from, ..Hour::default() };
        self.levels.iter().all(nothing) && self.hours.iter().all(idle) && self.incidents.is_empty()
    }

    /// How many incidents an hour had.
    pub(crate) fn count_incidents(&self, hour: &Hour) -> usize {
        self.incidents_of(hour).map(|(_, incident)| incident.count).sum()
    }

    /// The incidents of an hour, with their places among all.
    pub(crate) fn incidents_of<'d>(&'d self, hour: &'d Hour) -> impl Iterator<Item = (usize, &'d Incident)> {
        let within = |at_ms: u64| at_ms >= hour.from && at_ms < hour.from + HOUR_MS;
        self.incidents.iter().enumerate().filter(move |(_, incident)| within(incident.at_ms))
    }
}

/// How many machines there were at the end of each span, counted backwards from those that there are now.
fn levels(course: &Course, first: u64, last: u64, price: impl Fn(&str, &[String]) -> Option<f64>) -> Vec<Level> {
    let count = |one: &OperationCount| i64::try_from(one.count).unwrap_or(i64::MAX);
    let mut running: BTreeMap<(&str, &[String]), i64> = BTreeMap::new();
    for one in &course.standing {
        *running.entry((&one.zone, &one.types)).or_default() += count(one);
    }
    let kinds: [fn(OperationKind) -> bool; 2] = [OperationKind::acquires, removes];
    let mut open = kinds.map(|is| course.open.iter().filter(|one| is(one.kind)).map(count).sum::<i64>());
    let shown = |number: i64| usize::try_from(number).unwrap_or_default();
    let mut levels = Vec::new();
    for span in (first..=last).rev() {
        let mut level =
            Level { running: 0, creating: shown(open[0]), removing: shown(open[1]), hourly: 0.0, unpriced: 0 };
        for ((zone, types), number) in running.iter().filter(|(_, number)| **number > 0) {
            level.running += shown(*number);
            match price(zone, types) {
                Some(price) => level.hourly += price * *number as f64,
                None => level.unpriced += shown(*number),
            }
        }
        levels.push(level);
        for one in course.ended.iter().filter(|one| one.ended == Some(span) && one.made_a_machine()) {
            *running.entry((&one.zone, &one.types)).or_default() -= count(one);
        }
        for one in course.removed.iter().filter(|one| one.ended == Some(span)) {
            *running.entry((&one.zone, &one.types)).or_default() += count(one);
        }
        for (open, is) in open.iter_mut().zip(kinds) {
            let of_kind = || course.ended.iter().chain(&course.open).filter(|one| is(one.kind));
            *open += of_kind().filter(|one| one.ended == Some(span)).map(count).sum::<i64>();
            *open -= of_kind().filter(|one| one.began == span).map(count).sum::<i64>();
        }
    }
    levels.reverse();
    levels
}

/// Whether such an operation removes a machine, or releases it.
fn removes(kind: OperationKind) -> bool {
    matches!(kind, OperationKind::CleanupServer | OperationKind::ReleaseMachine)
}

/// When the first of the hours begins.
fn begins(now: u64) -> u64 {
    (now / HOUR_MS).saturating_sub(HOURS as u64 - 1) * HOUR_MS
}

fn ended(operation: &Operation) -> u64 {
    operation.ended_at.unwrap_or(operation.updated_at)
}

/// Why creations failed.
fn causes(failures: &[Operation]) -> Vec<Cause> {
    let mut causes: BTreeMap<String, Cause> = BTreeMap::new();
    for operation in failures.iter().filter(|operation| operation.kind.acquires()) {
        let words = cause_of(operation);
        let new = || Cause { words: words.clone(), count: 0, last: operation.id.clone() };
        causes.entry(words.clone()).or_insert_with(new).count += 1;
    }
    let mut causes: Vec<Cause> = causes.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
    causes.truncate(MAX_SHOWN);
    causes
}

/// The step that failed and how, without what is of this operation alone.
fn cause_of(operation: &Operation) -> String {
    let word = |path: &str| operation.cause.as_ref()?.pointer(path)?.as_str().filter(|word| !word.is_empty());
    let how = word("/failure/error-type").or_else(|| word("/failure/class"));
    match (word("/step"), how) {
        (Some(step), Some(how)) => format!("{step}: {}", how.replace(['_', '-'], " ")),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => format!("{}, no cause recorded", operation.state),
    }
}

/// What went wrong, the newest first; what is alike within an hour counts together.
fn incidents(
    failures: Vec<Operation>,
    policies: Vec<PolicyChange>,
    decisions: Vec<DecisionSummary>,
    begins: u64,
) -> Vec<Incident> {
    let operations = failures.into_iter().map(|operation| {
        let like = format!("{} {} {}", operation.kind, operation.state, cause_of(&operation));
        (ended(&operation), like, What::Operation(Box::new(operation)))
    });
    let policies = policies.into_iter().map(|change| {
        let like = format!("{} {:?}", change.policy.name, change.what);
        (change.at_ms, like, What::Policy(Box::new(change)))
    });
    let decisions = decisions.into_iter().filter_map(|decision| {
        let failed = failures_of(&decision);
        let like = failed.iter().map(|(policy, kind)| format!("{} {policy} {kind:?}", decision.slot));
        let like = like.collect::<Vec<_>>().join(", ");
        (!failed.is_empty()).then_some((decision.at_ms, like, What::Decision(Box::new(decision))))
    });
    let mut all: Vec<_> = operations.chain(policies).chain(decisions).filter(|(at_ms, ..)| *at_ms >= begins).collect();
    all.sort_by_key(|(at_ms, ..)| std::cmp::Reverse(*at_ms));
    let mut incidents: Vec<Incident> = Vec::new();
    let mut places: BTreeMap<(u64, String), usize> = BTreeMap::new();
    for (at_ms, like, what) in all {
        let place = *places.entry((at_ms / HOUR_MS, like)).or_insert(incidents.len());
        match incidents.get_mut(place) {
            Some(incident) => incident.count += 1,
            None => incidents.push(Incident { at_ms, count: 1, what }),
        }
    }
    incidents
}

/// The policies that failed in a decision, and how. A suspended policy was not asked: its suspension is an incident of
/// its own.
pub(crate) fn failures_of(decision: &DecisionSummary) -> Vec<(&str, FailureKind)> {
    let failed = decision.asked.iter().filter_map(|asked| match &asked.outcome {
        Outcome::Fallback { kind, .. } if *kind != FailureKind::Suspended => Some((&*asked.policy.name, *kind)),
        _ => None,
    });
    failed.collect()
}

impl Deciding {
    fn of(decisions: &[DecisionSummary]) -> Self {
        let mut deciding = Self {
            decisions: decisions.len(),
            since: decisions.iter().map(|decision| decision.at_ms).min(),
            ..Self::default()
        };
        for decision in decisions {
            for asked in &decision.asked {
                let key = (asked.policy.slot, asked.policy.name.to_string());
                let policy = deciding.policies.entry(key).or_default();
                match asked.outcome {
                    Outcome::Decided | Outcome::DecidedPart { .. } => policy.decided += 1,
                    Outcome::Deferred => policy.deferred += 1,
                    Outcome::Fallback { .. } => policy.failed += 1,
                }
            }
            for verdict in verdicts(&decision.answer) {
                *deciding.verdicts.entry((decision.slot, verdict)).or_default() += 1;
            }
        }
        deciding
    }
}

/// What an answer says, each once: in a batch there are several.
fn verdicts(answer: &Value) -> BTreeSet<String> {
    let answers = match answer {
        Value::Array(answers) => answers.as_slice(),
        one => std::slice::from_ref(one),
    };
    let word = |value: &Value| value.as_str().map(|word| word.replace('-', " "));
    let of = |answer: &Value| match answer.get("verdict")? {
        Value::Object(case) => {
            let (name, with) = case.iter().next()?;
            match (with.get("action").and_then(Value::as_str), with.get("report")) {
                (Some("reap"), _) => Some("remove".to_owned()),
                (_, Some(report)) => word(report).map(|report| format!("report {report}")),
                _ => Some(name.replace('-', " ")),
            }
        }
        name => word(name),
    };
    answers.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// At the beginning of an hour.
    const NOW: u64 = 1_800_000_000_000;
    const SPAN: u64 = NOW / SPAN_MS;

    fn counted(kind: &str, state: &str, began: u64, ended: Option<u64>, count: u64) -> OperationCount {
        OperationCount {
            kind: serde_json::from_value(json!(kind)).unwrap(),
            state: serde_json::from_value(json!(state)).unwrap(),
            zone: "fr-par-1".into(),
            types: vec!["DEV1-S".into()],
            began,
            ended,
            count,
        }
    }

    #[test]
    fn each_operation_counts_in_the_hour_in_which_it_ended() {
        let ended = vec![
            counted("create-server", "done", SPAN - 1, Some(SPAN), 2),
            counted("create-server", "undone", SPAN, Some(SPAN), 1),
            counted("create-server", "left", SPAN - 1, Some(SPAN - 1), 1),
            counted("cleanup-server", "done", SPAN - 4, Some(SPAN - 4), 1),
            counted("cleanup-server", "left", SPAN - 4, Some(SPAN - 1), 1),
            counted("sweep", "done", SPAN, Some(SPAN), 1),
            counted("create-server", "done", SPAN - 100, Some(SPAN - 96), 1),
            counted("create-server", "done", SPAN, Some(SPAN + 4), 1),
        ];
        let day = Day::of(&Course { ended, ..Course::default() }, NOW, None);
        let [.., before, last] = day.hours.as_slice() else { panic!("{day:?}") };
        assert_eq!(day.hours.len(), 24);
        assert_eq!((last.from, before.from), (NOW, NOW - HOUR_MS));
        assert_eq!((last.created, last.not_created, last.removed, last.not_removed), (2, 1, 0, 0));
        assert_eq!((before.created, before.not_created, before.removed, before.not_removed), (0, 1, 1, 1));
        assert_eq!(day.hours.iter().map(|hour| hour.created).sum::<usize>(), 2);
    }

    #[test]
    fn servers_of_the_past_are_told_from_those_that_exist_and_what_happened() {
        let course = Course {
            standing: vec![counted("create-server", "done", 1, None, 2)],
            open: vec![counted("create-server", "open", SPAN - 1, None, 1)],
            ended: vec![
                counted("create-server", "done", SPAN - 3, Some(SPAN - 2), 3),
                counted("cleanup-server", "done", SPAN - 1, Some(SPAN), 2),
            ],
            removed: vec![counted("create-server", "done", SPAN - 3, Some(SPAN), 2)],
        };
        let price = |_: &str, types: &[String]| (types == ["DEV1-S"]).then_some(0.5);
        let day = Day::of(&course, NOW + SPAN_MS / 2, Some(&price));
        let [.., fourth, third, second, first, last] = day.levels.as_slice() else { panic!("{day:?}") };
        let reported = |level: &Level| (level.running, level.creating, level.removing, level.hourly);
        assert_eq!(
            [fourth, third, second, first, last].map(reported),
            [(1, 0, 0, 0.5), (1, 3, 0, 0.5), (4, 0, 0, 2.0), (4, 1, 2, 2.0), (2, 1, 0, 1.0)]
        );
        assert_eq!(day.levels.len(), 93, "what has not begun has no level");
        // One server in 90 spans, four in two, and two in half of the last.
        let spent = 0.5 * (90.0 * 0.25 + 4.0 * 2.0 * 0.25 + 2.0 * 0.125);
        assert!(day.spent.is_some_and(|found| (found - spent).abs() < 1e-9), "{:?} {spent}", day.spent);
        let unknown = Day::of(&course, NOW, None);
        assert_eq!(unknown.spent, None, "without prices nothing is said to be spent");
        assert_eq!(unknown.levels.last().map(|level| (level.hourly, level.unpriced)), Some((0.0, 2)));
    }

    #[test]
    fn failures_that_are_alike_are_one_incident_of_their_hour() {
        let operation = |id: &str, before: u64, error: &str| -> Operation {
            let at = NOW - before;
            serde_json::from_value(json!({
                "id": id, "kind": "create-server", "group": "ci", "zone": "fr-par-1", "owner": "default",
                "specification": {}, "policies": {}, "runner": "1", "state": "undone",
                "cause": {"step": "create-server", "failure": {"error-type": error}}, "reasons": [],
                "report": null, "ended_by": null, "created_at": at, "updated_at": at, "ended_at": at,
            }))
            .unwrap()
        };
        let failures = vec![
            operation("ci-0nqrsxtrgyn1", 1, "out_of_stock"),
            operation("ci-0nqrsxtrgyn2", 2, "out_of_stock"),
            operation("ci-0nqrsxtrgyn3", 3, "quota_exceeded"),
            operation("ci-0nqrsxtrgyn4", HOUR_MS + 1, "out_of_stock"),
        ];
        let [cause, other] = &*causes(&failures) else { panic!() };
        assert_eq!((cause.words.as_str(), cause.count), ("create-server: out of stock", 3));
        assert_eq!((cause.last.as_str(), other.count), ("ci-0nqrsxtrgyn1", 1));
        let incidents = incidents(failures, Vec::new(), Vec::new(), NOW - 24 * HOUR_MS);
        let counts: Vec<_> = incidents.iter().map(|incident| (NOW - incident.at_ms, incident.count)).collect();
        assert_eq!(counts, [(1, 2), (3, 1), (HOUR_MS + 1, 1)]);
    }

    #[test]
    fn a_verdict_is_told_by_its_case_and_once_for_each_answer() {
        let reported = |answer: Value| verdicts(&answer).into_iter().collect::<Vec<_>>();
        assert_eq!(reported(json!({"verdict": "give-up", "reason": null})), ["give up"]);
        assert_eq!(reported(json!({"verdict": {"wait": 20}})), ["wait"]);
        assert_eq!(reported(json!({"verdict": {"plan": [{"action": "delete"}]}})), ["plan"]);
        let mapped = |report: &str, action: &str| json!({"verdict": {"mapped": {"report": report, "action": action}}});
        let batch = json!([mapped("running", "none"), mapped("running", "none"), mapped("deleting", "reap")]);
        assert_eq!(reported(batch), ["remove", "report running"]);
        assert_eq!(reported(Value::Null), [""; 0]);
    }
}
