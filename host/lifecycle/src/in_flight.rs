//! Calls whose effect nobody has seen: sent, and their answers lost. Such a call may still take effect.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::journal::step::Step;
use crate::journal::{Entry, Operation, Phase};
use crate::run::{Run, milliseconds};
use crate::shared::Limits;
use crate::stop::Stop;

/// What a journal tells of one step's calls. A step of one name is taken one after the other, so the last entry tells
/// how it stands.
#[derive(Default)]
struct Calls {
    /// When the call was sent that has no answer yet, at the latest.
    open: Option<u64>,
    /// When the latest call was given up whose effect was looked for and not seen.
    unseen: Option<u64>,
}

/// When the latest call was sent that makes something and whose effect nobody has seen, by the journal of a process
/// that died. `None`: every such call has an answer.
///
/// It may have sent the call of each intent without an outcome, and of each try that it waited for.
pub(crate) fn lost_call(entries: &[Entry]) -> Option<u64> {
    let mut steps: BTreeMap<&str, Calls> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| Step::may_arrive_late(&entry.step)) {
        let calls = steps.entry(&entry.step).or_default();
        match entry.phase {
            // A note tells of an answer that was lost: the look comes next.
            Phase::Intent | Phase::Note => calls.open = Some(entry.at),
            Phase::Outcome => calls.open = None,
            Phase::Failure => {
                calls.open = entry.data["wait"].as_u64().map(|wait| entry.at.saturating_add(wait));
                if entry.data["failure"]["ambiguous"] == true {
                    calls.unseen = Some(entry.at);
                }
            }
        }
    }
    steps.into_values().filter_map(|calls| calls.unseen.max(calls.open)).max()
}

/// The same for an operation of the journal; one that was looked at before has its time in its row.
pub(crate) fn lost_by(operation: &Operation, entries: &[Entry], limits: &Limits) -> Option<u64> {
    let looked_for = operation.look_at.map(|look_at| look_at.saturating_sub(milliseconds(limits.second_look)));
    looked_for.or_else(|| lost_call(entries))
}

/// When an operation whose lost call was sent at `lost` has to be looked at again, after a look at `looked`. `None`:
/// that look was the last one. A call of a time to come was sent by a clock that was ahead: it counts from the look.
///
/// Nothing recorded tells how late a call can take effect at Scaleway (assumption: late-effect-within-second-look).
pub(crate) fn next_look(lost: Option<u64>, looked: u64, limits: &Limits) -> Option<u64> {
    let last = lost?.min(looked).saturating_add(milliseconds(limits.second_look));
    (looked < last).then_some(last)
}

/// Waits until a call that was sent at `lost` has had the time to arrive, as a rule.
pub(crate) async fn settle(run: &Run, lost: Option<u64>) -> Result<(), Stop> {
    let limits = &run.shared.limits;
    let Some(settled) = lost.map(|lost| lost.saturating_add(milliseconds(limits.settle))) else { return Ok(()) };
    // No longer than that, also where the clock was set back since.
    let wait = Duration::from_millis(settled.saturating_sub(run.now())).min(limits.settle);
    run.sleep("settle", wait).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(step: &str, phase: Phase, at: u64, data: Value) -> Entry {
        Entry { sequence: at, step: step.into(), phase, resource: None, data, at }
    }

    fn intent(at: u64) -> Entry {
        entry("create-ip", Phase::Intent, at, json!({}))
    }

    fn outcome(at: u64) -> Entry {
        entry("create-ip", Phase::Outcome, at, json!({}))
    }

    fn lost(at: u64) -> Entry {
        entry("create-ip", Phase::Note, at, json!({ "ambiguous": {} }))
    }

    fn failed(at: u64, ambiguous: bool, wait: Option<u64>) -> Entry {
        entry("create-ip", Phase::Failure, at, json!({ "failure": { "ambiguous": ambiguous }, "wait": wait }))
    }

    #[test]
    fn a_call_is_lost_until_its_effect_was_seen_or_it_was_refused() {
        for (case, entries, expected) in [
            ("nothing was sent", vec![], None),
            ("the process died", vec![intent(5)], Some(5)),
            ("it was answered", vec![intent(5), outcome(6)], None),
            ("the answer was lost and the effect found", vec![intent(5), lost(6), outcome(8)], None),
            ("the process died before the look", vec![intent(5), lost(6)], Some(6)),
            ("it was given up unseen", vec![intent(5), lost(6), failed(8, true, None)], Some(8)),
            ("it was refused", vec![intent(5), failed(8, false, None)], None),
            ("the process died before the next try", vec![intent(5), failed(8, false, Some(4))], Some(12)),
            (
                "one was lost, and the next one answered: the first may still come",
                vec![intent(5), lost(6), failed(8, true, Some(4)), outcome(20)],
                Some(8),
            ),
            ("a type that is out of stock gave way to another", vec![intent(5), intent(6), outcome(7)], None),
            ("the second of two was not answered", vec![intent(5), outcome(6), intent(7)], Some(7)),
        ] {
            assert_eq!(lost_call(&entries), expected, "{case}");
        }
        let other = entry("power-on", Phase::Intent, 5, json!({}));
        assert_eq!(lost_call(&[other]), None, "nothing is made by it");
    }

    #[test]
    fn the_last_look_is_one_after_the_second_looks_time() {
        let limits = Limits { second_look: Duration::from_millis(100), ..Limits::default() };
        assert_eq!(next_look(None, 0, &limits), None);
        assert_eq!(next_look(Some(50), 60, &limits), Some(150));
        assert_eq!(next_look(Some(50), 149, &limits), Some(150));
        assert_eq!(next_look(Some(50), 150, &limits), None);
        // A clock that was ahead by years does not put the look off by years.
        assert_eq!(next_look(Some(u64::MAX), 7, &limits), Some(107));
    }
}
