//! What happened in the last 24 hours, as far as the newest operations and decisions tell it.

use std::collections::BTreeMap;

use windlass_lifecycle::{Clock, Operation, OperationFilter, OperationId, OperationKind, OperationState};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionFilter, DecisionSummary, Outcome, PolicyChange, PolicyEventKind, policy_changes};

use super::{RECENT_BYTES, Source};
use crate::Error;

const HOUR_MS: u64 = 3_600_000;
const HOURS: usize = 24;
/// The newest operations that are looked at.
const OPERATIONS: usize = 2_000;
/// Those that are read at once: a quiet day needs no more.
const AT_ONCE: u32 = 200;
/// The newest decisions that are looked at.
const DECISIONS: usize = 200;
/// Causes and changes that are shown.
const MOST: usize = 5;
/// Changes of policies that are looked at.
const CHANGES: usize = 100;

/// The last 24 hours.
#[derive(Debug, Default)]
pub(crate) struct Day {
    /// The oldest first, the one that is not over last.
    pub(crate) hours: Vec<Hour>,
    /// Why creations failed, the most frequent first.
    pub(crate) causes: Vec<Cause>,
    /// Where more happened than was looked at: the oldest operation that was, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    /// How policies changed, the newest first.
    pub(crate) changes: Vec<PolicyChange>,
}

/// What began in an hour.
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
}

/// Creations that failed for the same cause.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) words: String,
    pub(crate) count: usize,
    /// The newest of them.
    pub(crate) last: OperationId,
}

/// What a policy did in the newest decisions.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) decided: usize,
    pub(crate) deferred: usize,
    pub(crate) failed: usize,
}

/// The newest decisions, by slot and policy.
#[derive(Debug, Default)]
pub(crate) struct Deciding {
    pub(crate) decisions: usize,
    /// The oldest of them, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    pub(crate) policies: BTreeMap<(SlotName, String), Asked>,
}

impl Source {
    pub(super) fn day(&self) -> Result<Day, Error> {
        let now = Clock::System.now();
        let begins = begins(now);
        let mut filter = OperationFilter::default();
        filter.limit = Some(AT_ONCE);
        let mut operations: Vec<Operation> = Vec::new();
        loop {
            let found = self.list(&filter)?;
            let is_last = found.len() < AT_ONCE as usize;
            operations.extend(found);
            let Some(oldest) = operations.last() else { break };
            if is_last || oldest.created_at < begins || operations.len() >= OPERATIONS {
                break;
            }
            filter.before = Some(oldest.id.clone());
        }
        let mut day = Day::of(&operations, now);
        day.changes = policy_changes(self.state.handle(), CHANGES).map_err(Error::Policies)?;
        // A host that starts puts all of its policies in force, and nothing has changed by that.
        let changes = |change: &PolicyChange| !matches!(change.what, PolicyEventKind::InForce { .. });
        day.changes.retain(|change| change.at_ms >= begins && changes(change));
        day.changes.truncate(MOST);
        Ok(day)
    }

    pub(super) fn deciding(&self) -> Result<Deciding, Error> {
        let mut filter = DecisionFilter::default();
        (filter.limit, filter.most_bytes) = (DECISIONS, Some(RECENT_BYTES));
        Ok(Deciding::of(&self.decisions(&filter, None)?.decisions))
    }
}

impl Day {
    /// Of these operations, the newest first.
    fn of(operations: &[Operation], now: u64) -> Self {
        let begins = begins(now);
        let mut hours = [Hour::default(); HOURS];
        for (hour, from) in hours.iter_mut().zip((begins..).step_by(HOUR_MS as usize)) {
            hour.from = from;
        }
        let mut causes: BTreeMap<String, (usize, OperationId)> = BTreeMap::new();
        for operation in operations {
            let Some(since) = operation.created_at.checked_sub(begins) else { continue };
            let hour = usize::try_from(since / HOUR_MS).ok().and_then(|hour| hours.get_mut(hour));
            // By a clock that was ahead.
            let Some(hour) = hour else { continue };
            use OperationKind::{AdoptMachine, CleanupServer, CreateServer, OrderMachine, ReleaseMachine, Sweep};
            match (operation.kind, operation.state) {
                (Sweep, _) | (_, OperationState::Open) => {}
                (CreateServer | AdoptMachine | OrderMachine, OperationState::Done) => hour.created += 1,
                (CreateServer | AdoptMachine | OrderMachine, _) => {
                    hour.not_created += 1;
                    let cause = causes.entry(cause_of(operation)).or_insert_with(|| (0, operation.id.clone()));
                    cause.0 += 1;
                }
                (CleanupServer | ReleaseMachine, OperationState::Done) => hour.removed += 1,
                (CleanupServer | ReleaseMachine, OperationState::Left | OperationState::Unverified) => {
                    hour.not_removed += 1;
                }
                (CleanupServer | ReleaseMachine, _) => {}
            }
        }
        let mut causes: Vec<Cause> =
            causes.into_iter().map(|(words, (count, last))| Cause { words, count, last }).collect();
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.count));
        causes.truncate(MOST);
        let oldest = operations.last().filter(|_| operations.len() >= OPERATIONS);
        let since = oldest.map(|oldest| oldest.created_at).filter(|oldest| *oldest > begins);
        Self { hours: hours.to_vec(), causes, since, changes: Vec::new() }
    }
}

/// When the first of the hours begins.
fn begins(now: u64) -> u64 {
    (now / HOUR_MS).saturating_sub(HOURS as u64 - 1) * HOUR_MS
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

impl Deciding {
    fn of(decisions: &[DecisionSummary]) -> Self {
        let mut deciding = Self {
            decisions: decisions.len(),
            since: decisions.iter().map(|decision| decision.at_ms).min(),
            policies: BTreeMap::new(),
        };
        for asked in decisions.iter().flat_map(|decision| &decision.asked) {
            let key = (asked.policy.slot, asked.policy.name.to_string());
            let policy = deciding.policies.entry(key).or_default();
            match asked.outcome {
                Outcome::Decided | Outcome::DecidedPart { .. } => policy.decided += 1,
                Outcome::Deferred => policy.deferred += 1,
                Outcome::Fallback { .. } => policy.failed += 1,
            }
        }
        deciding
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn operation(kind: &str, state: &str, before: u64, cause: Value) -> Operation {
        let at = NOW - before;
        serde_json::from_value(json!({
            "id": "ci-0nqrsxtrgyns", "kind": kind, "group": "ci", "zone": "fr-par-1", "owner": "default",
            "specification": {}, "policies": {}, "runner": "1", "state": state, "cause": cause, "reasons": [],
            "report": null, "ended_by": null, "created_at": at, "updated_at": at, "ended_at": at,
        }))
        .unwrap()
    }

    #[test]
    fn each_operation_counts_in_its_hour_and_older_ones_and_open_ones_in_none() {
        let failed = || json!({"step": "create-server", "failure": {"error-type": "out_of_stock"}});
        let day = Day::of(
            &[
                operation("create-server", "open", 0, Value::Null),
                operation("create-server", "done", 0, Value::Null),
                operation("create-server", "undone", 0, failed()),
                operation("create-server", "left", HOUR_MS, failed()),
                operation("cleanup-server", "done", HOUR_MS, Value::Null),
                operation("cleanup-server", "left", HOUR_MS, Value::Null),
                operation("sweep", "done", 0, Value::Null),
                operation("create-server", "done", 24 * HOUR_MS, Value::Null),
            ],
            NOW,
        );
        let [.., before, last] = day.hours.as_slice() else { panic!("{day:?}") };
        assert_eq!(day.hours.len(), 24);
        assert_eq!((last.from, before.from), (NOW, NOW - HOUR_MS));
        assert_eq!((last.created, last.not_created, last.removed, last.not_removed), (1, 1, 0, 0));
        assert_eq!((before.created, before.not_created, before.removed, before.not_removed), (0, 1, 1, 1));
        assert_eq!(day.hours.iter().map(|hour| hour.created).sum::<usize>(), 1);
        let [cause] = day.causes.as_slice() else { panic!("{day:?}") };
        assert_eq!((cause.words.as_str(), cause.count), ("create-server: out of stock", 2));
        assert_eq!(day.since, None);
    }
}
