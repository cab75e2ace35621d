//! What the entries of an operation say, folded. A process that resumes an operation so knows what the one that began
//! it knew.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use windlass_policy::slots::types::FailureClass;

use super::note::{Note, Record};
use super::record::{Entry, Operation, Phase, ResourceKind, ResourceName};
use super::step::{Create, Step};
use crate::Error;
use crate::aftermath::Effects;
use crate::failure::{self, Effect};
use crate::run::milliseconds;
use crate::shared::Limits;
use crate::stop::StepFailure;

/// Reasons of one operation at most; later ones are in the decision log only.
const MAX_REASONS: usize = 50;

/// What the log of an operation says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// What it has made and removed.
    pub(crate) effects: Effects,
    /// The servers that it has made, whatever became of them.
    pub(crate) servers: Vec<ResourceName>,
    /// The server that it had begun to power on: everything else was settled before.
    pub(crate) powering_on: Option<String>,
    /// The server of an interrupted creation that somebody else has started.
    pub(crate) started_elsewhere: Option<ResourceName>,
    /// Why it is to be undone. What was cancelled stays cancelled.
    undo: Option<StepFailure>,
    /// The step that has failed for good: a process may die before it journals the undo.
    given_up: Option<StepFailure>,
    /// Whether more may exist than the log names: an answer to a creating call was lost, or in doubt.
    pub(crate) may_have_duplicates: bool,
    /// The creating calls by their step. The steps of one name are taken one after the other.
    calls: BTreeMap<String, Calls>,
    /// What policies said about their decisions, in order.
    pub(crate) reasons: Vec<String>,
}

/// What is known of one step's calls.
#[derive(Clone, Debug, Default)]
struct Calls {
    /// When the call was sent that has no answer yet, at the latest.
    open: Option<u64>,
    /// When the latest call was given up whose effect was looked for and not seen.
    unseen: Option<u64>,
    /// The latest call was refused.
    refused: Option<FailureClass>,
    /// Whether a call may have had an effect that the log does not name.
    doubt: Option<Doubt>,
}

/// Why a call may have had an effect that the log does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doubt {
    /// Scaleway refused it in its own words, and it was not sent again: a refusal may be wrong.
    Refused,
    /// Nothing tells: it was under way when its process died, its answer was lost or in doubt, or it was refused and
    /// sent again.
    Unknown,
}

impl Calls {
    fn doubt(&mut self, doubt: Doubt) {
        self.doubt = self.doubt.max(Some(doubt));
    }
}

impl Progress {
    /// Folds the entries of one operation.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the entry that cannot be understood.
    pub(crate) fn of(entries: &[Entry]) -> Result<Self, Error> {
        let mut progress = Self::default();
        for entry in entries {
            progress.take(entry)?;
        }
        Ok(progress)
    }

    /// Why the operation is to be undone, as far as its entries say.
    pub(crate) fn cause(self) -> Option<StepFailure> {
        self.undo.or(self.given_up)
    }

    /// When the latest call was sent that makes something and whose effect nobody has seen: it may still take effect.
    /// `None`: every such call has an answer. An operation that was looked at before has the time in its row.
    pub(crate) fn lost_call(&self, operation: &Operation, limits: &Limits) -> Option<u64> {
        let looked_for = operation.look_at.map(|look_at| look_at.saturating_sub(milliseconds(limits.second_look)));
        looked_for.or_else(|| self.unanswered())
    }

    /// The kinds of which a call may have had an effect that the log does not name.
    pub(crate) fn doubts(&self) -> BTreeMap<ResourceKind, Doubt> {
        let doubt = |calls: &Calls| calls.open.map(|_| Doubt::Unknown).or(calls.doubt);
        self.calls.iter().filter_map(|(step, calls)| Some((Step::makes(step)?, doubt(calls)?))).collect()
    }

    fn unanswered(&self) -> Option<u64> {
        self.calls.values().filter_map(|calls| calls.unseen.max(calls.open)).max()
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Error> {
        self.effects.take(&entry.step, entry.phase, entry.resource.as_ref(), &entry.data);
        if Step::may_arrive_late(&entry.step) {
            self.take_call(entry);
        }
        match entry.record()? {
            // The creation has gone on, so the failure of an earlier step was tolerated.
            Record::Begun(Step::Create(step)) => {
                self.given_up = None;
                if step == Create::PowerOn {
                    self.powering_on = entry.resource.as_ref().map(|resource| resource.id.clone());
                }
            }
            Record::Done(Step::Create(Create::Server { .. })) => self.servers.extend(entry.resource.clone()),
            Record::Failed { step, gave_up } => {
                self.add_reasons(Vec::deserialize(&entry.data["reasons"]).unwrap_or_default());
                self.given_up = gave_up.map(|failure| StepFailure { step, failure }).or(self.given_up.take());
            }
            Record::Noted(note) => self.take_note(entry, note),
            Record::Begun(_) | Record::Done(_) | Record::About { .. } => {}
        }
        Ok(())
    }

    fn take_note(&mut self, entry: &Entry, note: Note) {
        match note {
            Note::UndoBegun { because } => {
                self.undo.get_or_insert(StepFailure { step: because.step, failure: because.failure });
            }
            Note::Cancelled { by } => {
                let failure =
                    failure::of_class(FailureClass::Cancelled, format!("the operation was cancelled by {by}"));
                self.undo.get_or_insert(StepFailure { step: entry.step.clone(), failure });
            }
            Note::StartedElsewhere => self.started_elsewhere.clone_from(&entry.resource),
            Note::Planned { reasons, .. } => self.add_reasons(reasons),
            Note::ReleaseDecided(answer) => self.add_reasons(answer.reasons()),
            Note::Looked { .. }
            | Note::Kept
            | Note::LeftAlone
            | Note::TakenUp { .. }
            | Note::Abandoned { .. }
            | Note::Settled { .. } => {}
        }
    }

    fn add_reasons(&mut self, reasons: Vec<String>) {
        for reason in reasons {
            if self.reasons.len() < MAX_REASONS && self.reasons.last() != Some(&reason) {
                self.reasons.push(reason);
            }
        }
    }

    fn take_call(&mut self, entry: &Entry) {
        let calls = self.calls.entry(entry.step.clone()).or_default();
        match entry.phase {
            Phase::Intent => {
                let refused = calls.refused.take();
                self.may_have_duplicates |= refused.is_some_and(may_be_wrong);
                if calls.open.is_some() || refused.is_some() {
                    calls.doubt(Doubt::Unknown);
                }
                calls.open = Some(entry.at);
            }
            Phase::Note if entry.data["sent"] == false => calls.open = None,
            // Nobody knows what came of it: the look comes next.
            Phase::Note => {
                self.may_have_duplicates = true;
                calls.doubt(Doubt::Unknown);
                calls.open = Some(entry.at);
            }
            Phase::Outcome => calls.open = None,
            Phase::Failure => {
                calls.open = None;
                let failed = entry.failure();
                match failed.as_ref().map(failure::effect) {
                    Some(Effect::None) => {}
                    Some(Effect::Refused) => calls.doubt(Doubt::Refused),
                    Some(Effect::Unknown) | None => calls.doubt(Doubt::Unknown),
                }
                if failed.as_ref().is_some_and(|failed| failed.ambiguous) {
                    calls.unseen = Some(entry.at);
                }
                calls.refused = failed.filter(|failed| failed.status.is_some()).map(|failed| failed.class);
            }
        }
    }
}

/// Whether a refusal of this class may be wrong about its effect. The rate limit says that nothing was done, and so
/// does a lack of stock.
fn may_be_wrong(class: FailureClass) -> bool {
    !matches!(class, FailureClass::RateLimited | FailureClass::OutOfStock)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(step: &str, phase: Phase, at: u64, data: Value) -> Entry {
        Entry { sequence: at, step: step.into(), phase, resource: None, data, at }
    }

    fn of_ip(phase: Phase, at: u64, mut data: Value) -> Entry {
        if matches!(phase, Phase::Intent | Phase::Outcome) {
            data["kind"] = json!("ipv4");
        }
        entry("create-ip", phase, at, data)
    }

    fn intent(at: u64) -> Entry {
        of_ip(Phase::Intent, at, json!({}))
    }

    fn outcome(at: u64) -> Entry {
        of_ip(Phase::Outcome, at, json!({}))
    }

    fn doubted(at: u64) -> Entry {
        of_ip(Phase::Note, at, json!({ "ambiguous": {} }))
    }

    fn unsent(at: u64) -> Entry {
        of_ip(Phase::Note, at, json!({ "sent": false }))
    }

    fn failed(at: u64, class: FailureClass, status: Option<u16>) -> Entry {
        let mut failure = failure::of_class(class, "no");
        (failure.status, failure.ambiguous) = (status, status.is_none());
        of_ip(Phase::Failure, at, json!({ "failure": failure, "wait": 4 }))
    }

    fn lost(at: u64) -> Entry {
        failed(at, FailureClass::Connection, None)
    }

    fn refused(at: u64) -> Entry {
        failed(at, FailureClass::ServerError, Some(500))
    }

    fn of(entries: &[Entry]) -> Progress {
        Progress::of(entries).unwrap()
    }

    #[test]
    fn a_call_is_lost_until_its_effect_was_seen_or_it_was_refused() {
        for (case, entries, expected) in [
            ("nothing was sent", vec![], None),
            ("the process died", vec![intent(5)], Some(5)),
            ("it was answered", vec![intent(5), outcome(6)], None),
            ("it was over before the call had left", vec![intent(5), unsent(6)], None),
            ("the answer was lost and the effect found", vec![intent(5), doubted(6), outcome(8)], None),
            ("the process died before the look", vec![intent(5), doubted(6)], Some(6)),
            ("it was given up unseen", vec![intent(5), doubted(6), lost(8)], Some(8)),
            ("it was refused", vec![intent(5), refused(8)], None),
            ("the process died in the next try", vec![intent(5), refused(8), intent(12)], Some(12)),
            (
                "one was lost, and the next one answered: the first may still come",
                vec![intent(5), doubted(6), lost(8), intent(12), outcome(20)],
                Some(8),
            ),
            ("the second of two was not answered", vec![intent(5), outcome(6), intent(7)], Some(7)),
        ] {
            assert_eq!(of(&entries).unanswered(), expected, "{case}");
        }
        let other = entry("power-on", Phase::Intent, 5, json!({}));
        assert_eq!(of(&[other]).unanswered(), None, "nothing is made by it");
    }

    #[test]
    fn more_may_exist_after_a_doubt_or_a_call_that_was_sent_again() {
        let limited = failed(6, FailureClass::RateLimited, Some(429));
        let out_of_stock = failed(6, FailureClass::OutOfStock, Some(403));
        for (case, entries, expected) in [
            ("it was answered", vec![intent(5), outcome(6)], false),
            ("the answer was lost and the effect found", vec![intent(5), doubted(6), outcome(8)], true),
            ("it was refused for good", vec![intent(5), refused(6)], false),
            ("it was sent again after a refusal", vec![intent(5), refused(6), intent(7)], true),
            ("it was sent again after a rate limit", vec![intent(5), limited, intent(7)], false),
            ("a type that is out of stock gave way to another", vec![intent(5), out_of_stock, intent(7)], false),
            ("the next of its kind", vec![intent(5), refused(6), intent(7), outcome(8)], true),
        ] {
            assert_eq!(of(&entries).may_have_duplicates, expected, "{case}");
        }
    }

    #[test]
    fn a_step_that_failed_for_good_is_forgotten_where_the_creation_went_on() {
        let failed = failure::of_class(FailureClass::InvalidArguments, "no");
        let given_up = entry("change-server-type", Phase::Failure, 1, json!({ "failure": failed, "wait": null }));
        let next = entry("wait-until-running", Phase::Intent, 2, json!({}));
        assert!(of(std::slice::from_ref(&given_up)).cause().is_some());
        assert!(of(&[given_up, next]).cause().is_none());
    }

    #[test]
    fn what_policies_said_is_kept_by_the_entries_once_and_bounded() {
        let said = |words: &str| entry("power-on", Phase::Failure, 1, json!({ "reasons": [words] }));
        let entries = [said("retry: a"), said("retry: a"), said("retry: b")];
        assert_eq!(of(&entries).reasons, ["retry: a", "retry: b"]);
        let many: Vec<Entry> = (0..100).map(|number| said(&number.to_string())).collect();
        assert_eq!(of(&many).reasons.len(), MAX_REASONS);
    }
}
