//! One member of a group, an instance or a Mac: what is being done with it, and what is reported to the runner. Pure
//! data: no calls, no clock. Every change of what is being done with it is a line of [`Phase::after`].
//!
//! Three properties of the runner's loop decide what is reported (they are facts of fleeting's source):
//! - Each member that `Increase` accepted stays *pending*, and eats capacity, until it has been seen in an update once.
//! - One that was reported as `deleting` is forgotten as soon as it is left out; one that was reported as `running` or
//!   `creating` and is left out holds its capacity for five more updates; one that is reported as `deleted` is
//!   forgotten at once.
//! - Nobody ever asks for the deletion of one that is reported as `deleting`.

use std::time::Duration;

use jiff::Timestamp;
use windlass_lifecycle::{Asking, OperationId, RequestedBy};
use windlass_policy::slots::release::Activity;
use windlass_policy::slots::state_mapping::{Action, Mapping, Operation, Report, ServerState};

use super::places::Place;
use crate::protocol::State;

/// What is being done with a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being created; a Mac is being claimed.
    Creating {
        /// Nobody wants it any more, and the journal does not say so yet. It is removed when it is there.
        unwanted: bool,
    },
    /// Its creation was cancelled. What was made is removed.
    CalledOff,
    /// Its creation failed or was called off and is being undone.
    Undoing,
    /// Nothing.
    Idle {
        /// Whether it was suspended and not resumed since.
        suspended: bool,
    },
    /// It is being stopped in place.
    Suspending,
    /// It is being powered on again.
    Resuming,
    /// It is being removed with everything that belongs to it; a Mac is being released.
    Removing {
        /// The operation that does it; none while it is being journalled, and of a Mac.
        by: Option<OperationId>,
    },
    /// A removal ended and could not remove everything. It is tried again in the background.
    Left {
        /// The operation that left something.
        by: Option<OperationId>,
    },
    /// Nothing of it is left.
    Gone,
}

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its creation ended well.
    Created,
    /// Its creation is being undone.
    UndoBegan,
    /// Nobody wants it any more while it is being created. `told`: whether its creation was cancelled.
    Unwanted {
        informed: bool,
    },
    /// Its removal is accepted. `by`: the operation, where one is in the journal.
    RemovalBegan {
        by: Option<OperationId>,
    },
    /// Its removal could not be accepted.
    RemovalRefused,
    /// Something of it is left.
    LeftBehind {
        by: Option<OperationId>,
    },
    /// Nothing of it is left.
    Ended,
    SuspendBegan,
    ResumeBegan,
    /// A suspension or resumption ended so.
    Rests {
        suspended: bool,
    },
}

impl Phase {
    /// What follows when this happens. `None`: it changes nothing.
    fn after(&self, event: &Event) -> Option<Self> {
        let idle = |suspended| Some(Self::Idle { suspended });
        match (self, event) {
            // Nothing brings back what is gone.
            (Self::Gone, _) => None,
            (_, Event::Ended) => Some(Self::Gone),
            (_, Event::LeftBehind { by }) => Some(Self::Left { by: by.clone() }),
            (Self::Creating { .. }, Event::Unwanted { informed: true }) => Some(Self::CalledOff),
            (Self::Creating { unwanted: false }, Event::Unwanted { informed: false }) => {
                Some(Self::Creating { unwanted: true })
            }
            (Self::Creating { .. } | Self::CalledOff, Event::UndoBegan) => Some(Self::Undoing),
            (Self::Creating { unwanted: false } | Self::Undoing, Event::Created) => idle(false),
            // Who ends the creation begins the removal.
            (Self::Creating { unwanted: true } | Self::CalledOff, Event::Created) => Some(Self::Removing { by: None }),
            (Self::Idle { .. } | Self::Suspending | Self::Resuming, Event::RemovalBegan { by }) => {
                Some(Self::Removing { by: by.clone() })
            }
            (Self::Removing { by: None }, Event::RemovalBegan { by: Some(by) }) => {
                Some(Self::Removing { by: Some(by.clone()) })
            }
            (Self::Removing { by: None }, Event::RemovalRefused) => idle(false),
            (Self::Idle { .. }, Event::SuspendBegan) => Some(Self::Suspending),
            (Self::Idle { .. }, Event::ResumeBegan) => Some(Self::Resuming),
            (Self::Suspending | Self::Resuming, Event::Rests { suspended }) => idle(*suspended),
            _ => None,
        }
    }

    /// What of ours works on it, in the contract's words.
    pub(crate) fn in_flight(&self) -> Operation {
        match self {
            Self::Creating { .. } => Operation::Create,
            Self::CalledOff | Self::Undoing | Self::Removing { .. } => Operation::Cleanup,
            Self::Suspending => Operation::Suspend,
            Self::Resuming => Operation::Resume,
            Self::Idle { .. } | Self::Left { .. } | Self::Gone => Operation::None,
        }
    }

    /// Whether it was asked to go while it was being created.
    pub(crate) fn is_unwanted(&self) -> bool {
        matches!(self, Self::Creating { unwanted: true } | Self::CalledOff)
    }

    /// Whether it is on its way out.
    pub(crate) fn is_leaving(&self) -> bool {
        self.in_flight() == Operation::Cleanup || self.is_unwanted()
    }

    /// Whether its server should be there, and can be asked to go.
    pub(crate) fn stands(&self) -> bool {
        matches!(self, Self::Idle { .. } | Self::Suspending | Self::Resuming)
    }

    /// Whether a policy is asked about it: what has ended, or is only tried again, is nobody's to judge.
    pub(crate) fn is_judged(&self) -> bool {
        !matches!(self, Self::Left { .. } | Self::Gone)
    }
}

/// What the runner knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing, and it waits for the first sight.
    Awaited,
    /// Nothing, or it has forgotten it.
    Forgotten,
    /// The state that was reported last.
    As(State),
}

/// One member.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The operation that created it. Its text is the member's id.
    pub(crate) operation: OperationId,
    phase: Phase,
    /// The number of the latest look that had begun when the phase changed.
    pub(super) changed_during: u64,
    /// Where it is, or is to be. The type is the first that is tried, until the server is seen.
    pub(crate) place: Place,
    /// Since when this process knows of a Mac, in milliseconds since 1970: its operation does not say when it began.
    pub(super) known_since: Option<u64>,
    /// Scaleway's id of the server, once known.
    pub(crate) server: Option<String>,
    /// The state in which the server was last listed, and since when it has been seen so (milliseconds since 1970).
    pub(crate) seen: Option<(ServerState, u64)>,
    /// When the server was created, as Scaleway writes it, and in milliseconds since 1970.
    created: Option<(String, Option<u64>)>,
    /// Whether it ever ran.
    pub(crate) has_run: bool,
    /// What the runner did with it, as far as this process has seen.
    pub(crate) activity: Activity,
    /// Who asked for its end first while it was being created.
    pub(super) unwanted_by: Option<RequestedBy>,
    /// Since when it has been seen on its way out, in milliseconds since 1970.
    leaving: Option<u64>,
    known: Known,
}

impl Entry {
    /// One that is being created on the runner's demand.
    pub(crate) fn demanded(operation: OperationId, place: Place) -> Self {
        Self { known: Known::Awaited, ..Self::found(operation, place, Phase::Creating { unwanted: false }) }
    }

    /// One that is there already.
    pub(crate) fn found(operation: OperationId, place: Place, phase: Phase) -> Self {
        Self {
            operation,
            phase,
            changed_during: 0,
            place,
            known_since: None,
            server: None,
            seen: None,
            created: None,
            has_run: false,
            activity: Activity::default(),
            unwanted_by: None,
            leaving: None,
            known: Known::Forgotten,
        }
    }

    /// What the release slot is asked when the runner no longer wants it.
    pub(super) fn asking(&self) -> Asking {
        Asking { activity: self.activity, ..Asking::default() }
    }

    /// Whether what this look saw is from after the last change of the phase. What is older fits another phase: a server
    /// that was listed as stopped and whose creation has ended since did not stop after it ran.
    pub(super) fn is_seen_by(&self, look: u64) -> bool {
        self.changed_during < look
    }

    /// What is being done with it.
    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// When its creation or claim began, in milliseconds since 1970.
    pub(super) fn began(&self) -> u64 {
        self.known_since.unwrap_or_else(|| self.operation.made_at())
    }

    /// When its server was created, in milliseconds since 1970, by Scaleway's date. Parsed once, since each look asks.
    pub(super) fn created(&mut self, date: &str) -> Option<u64> {
        match &self.created {
            Some((known, created)) if known == date => *created,
            _ => {
                let at: Option<Timestamp> = date.parse().ok();
                let created = at.and_then(|at| u64::try_from(at.as_millisecond()).ok());
                self.created = Some((date.to_owned(), created));
                created
            }
        }
    }

    /// Takes in what happened. Answers the phase before it, where it changed anything.
    pub(super) fn apply(&mut self, event: &Event) -> Option<Phase> {
        if *event == Event::Created {
            self.has_run = true;
        }
        let after = self.phase.after(event)?;
        Some(std::mem::replace(&mut self.phase, after))
    }

    /// For how long it has been seen on its way out, if it is.
    pub(super) fn leaves_for(&mut self, now: u64) -> Option<Duration> {
        if !self.phase.is_leaving() {
            self.leaving = None;
            return None;
        }
        Some(Duration::from_millis(now.saturating_sub(*self.leaving.get_or_insert(now))))
    }

    /// Whether it was suspended and not resumed since.
    pub(crate) fn is_suspended(&self) -> bool {
        matches!(self.phase, Phase::Idle { suspended: true } | Phase::Suspending | Phase::Resuming)
    }

    /// Whether the last report to the runner said that it runs.
    pub(crate) fn runs_for_the_runner(&self) -> bool {
        self.known == Known::As(State::Running)
    }

    /// Whether the runner still waits for its first sight.
    pub(super) fn is_awaited(&self) -> bool {
        self.known == Known::Awaited
    }

    /// Whether leaving it out costs the runner nothing.
    pub(super) fn is_forgotten(&self) -> bool {
        !matches!(self.known, Known::As(state) if state != State::Deleting)
    }

    /// Notes what an update that reached the runner reported.
    pub(super) fn delivered(&mut self, report: Option<State>) {
        self.known = match (report, self.known) {
            // It never takes up what it first sees as one of these.
            (Some(State::Deleted | State::Timeout) | None, Known::Awaited) => Known::Awaited,
            (Some(State::Deleted | State::Timeout), _) | (None, Known::As(State::Deleting)) => Known::Forgotten,
            (Some(state), _) => Known::As(state),
            (None, known) => known,
        };
    }

    /// What to tell about it, where a policy judged its server so.
    ///
    /// - `deleting` is reported only while its removal is in flight, whatever the policy's word.
    /// - One that is to be reaped and whose creation cannot be cancelled is being created until that has ended.
    /// - The runner never takes up a member whose first report is none, `deleted` or `timeout`; it would stay pending
    ///   for ever. So what the runner still waits for is reported as `creating` once.
    pub(crate) fn judged(&self, mapping: Mapping) -> Option<State> {
        let word = match (mapping.action, self.phase.in_flight()) {
            (Action::Reap, Operation::Cleanup) => Some(State::Deleting),
            (Action::Reap, Operation::Create) => Some(State::Creating),
            (_, in_flight) => word(mapping.report, in_flight),
        };
        match word {
            None | Some(State::Deleted | State::Timeout) if self.is_awaited() => Some(State::Creating),
            word => word,
        }
    }

    /// What to tell about it when there is no server that a policy could judge.
    pub(crate) fn without_server(&self) -> Option<State> {
        match (&self.phase, self.known) {
            (Phase::Creating { .. }, _) => Some(State::Creating),
            (Phase::CalledOff | Phase::Undoing | Phase::Removing { .. }, _) => Some(State::Deleting),
            // Nobody could find out what became of it: what was said stays true for now. Nothing removes it.
            (Phase::Idle { .. } | Phase::Suspending | Phase::Resuming, Known::As(state)) => {
                Some(state).filter(|state| *state != State::Deleting)
            }
            (Phase::Idle { .. } | Phase::Suspending | Phase::Resuming, Known::Awaited) => Some(State::Creating),
            (Phase::Idle { .. } | Phase::Suspending | Phase::Resuming, Known::Forgotten) => None,
            // The last word. One that the runner has never seen is reported as `deleting` once, although nothing is in
            // flight any more: the failure was quicker than the runner's update, and without being seen it would stay
            // pending for ever.
            (Phase::Left { .. } | Phase::Gone, Known::Awaited) => Some(State::Deleting),
            (Phase::Left { .. } | Phase::Gone, _) => (!self.is_forgotten()).then_some(State::Deleted),
        }
    }
}

/// A policy's word in fleeting's. `none` is no word at all; `deleting` is one only while a removal is in flight.
fn word(report: Report, in_flight: Operation) -> Option<State> {
    match report {
        Report::None => None,
        Report::Creating => Some(State::Creating),
        Report::Running => Some(State::Running),
        Report::Deleting => (in_flight == Operation::Cleanup).then_some(State::Deleting),
        Report::Deleted => Some(State::Deleted),
        Report::Timeout => Some(State::Timeout),
        Report::Suspending => Some(State::Suspending),
        Report::Suspended => Some(State::Suspended),
        Report::Resuming => Some(State::Resuming),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(text: &str) -> OperationId {
        OperationId::parse(text).unwrap()
    }

    fn creation() -> OperationId {
        operation("ci-k3v9q20mfz7a")
    }

    fn place() -> Place {
        Place { zone: "fr-par-1".parse().unwrap(), server_type: "DEV1-S".to_owned() }
    }

    fn removal() -> OperationId {
        operation("ci-k3v9q20mfz7b")
    }

    fn phases() -> [Phase; 12] {
        [
            Phase::Creating { unwanted: false },
            Phase::Creating { unwanted: true },
            Phase::CalledOff,
            Phase::Undoing,
            Phase::Idle { suspended: false },
            Phase::Idle { suspended: true },
            Phase::Suspending,
            Phase::Resuming,
            Phase::Removing { by: Some(removal()) },
            Phase::Left { by: Some(removal()) },
            Phase::Left { by: Some(creation()) },
            Phase::Gone,
        ]
    }

    fn events() -> [Event; 12] {
        [
            Event::Created,
            Event::UndoBegan,
            Event::Unwanted { informed: true },
            Event::Unwanted { informed: false },
            Event::RemovalBegan { by: Some(removal()) },
            Event::LeftBehind { by: Some(removal()) },
            Event::RemovalRefused,
            Event::Ended,
            Event::SuspendBegan,
            Event::ResumeBegan,
            Event::Rests { suspended: true },
            Event::Rests { suspended: false },
        ]
    }

    #[test]
    fn a_macs_age_counts_from_its_claim_and_an_instances_from_its_operation() {
        let operation = OperationId::parse("ci-k3v9q20mfz7a").unwrap();
        let place = Place { zone: "fr-par-1".parse().unwrap(), server_type: "M4-S".to_owned() };
        let mut entry = Entry::demanded(operation.clone(), place);
        assert_eq!(entry.began(), operation.made_at());
        entry.known_since = Some(5);
        assert_eq!(entry.began(), 5);
    }

    #[test]
    fn nothing_brings_back_what_is_gone_and_everything_can_end() {
        for event in events() {
            assert_eq!(Phase::Gone.after(&event), None, "{event:?}");
        }
        for phase in phases().into_iter().filter(|phase| *phase != Phase::Gone) {
            assert_eq!(phase.after(&Event::Ended), Some(Phase::Gone), "{phase:?}");
        }
    }

    #[test]
    fn a_removal_ends_only_in_nothing_or_in_something_left() {
        let removing = Phase::Removing { by: Some(removal()) };
        for event in events() {
            let after = removing.after(&event);
            assert!(matches!(after, None | Some(Phase::Left { .. } | Phase::Gone)), "{event:?}: {after:?}");
        }
    }

    #[test]
    fn a_late_success_of_a_creation_has_no_say_over_a_removal() {
        let left = [removal(), creation()].map(|by| Phase::Left { by: Some(by) });
        for phase in [Phase::Removing { by: None }, Phase::Left { by: None }].into_iter().chain(left) {
            assert_eq!(phase.after(&Event::Created), None, "{phase:?}");
        }
    }

    #[test]
    fn every_phase_with_something_in_flight_is_left_when_that_ends_well() {
        for phase in phases().into_iter().filter(|phase| !phase.is_unwanted()) {
            let ended = match phase.in_flight() {
                Operation::Create => Event::Created,
                Operation::Cleanup => Event::Ended,
                Operation::Suspend | Operation::Resume => Event::Rests { suspended: false },
                _ => continue,
            };
            let after = phase.after(&ended).unwrap();
            assert_eq!(after.in_flight(), Operation::None, "{phase:?}");
        }
    }

    #[test]
    fn deleting_is_told_only_while_a_removal_is_in_flight_whatever_policies_say_and_the_runner_knows() {
        let reports = [Report::None, Report::Creating, Report::Running, Report::Deleting, Report::Deleted];
        let known = [Known::Awaited, Known::Forgotten, Known::As(State::Running), Known::As(State::Deleting)];
        for phase in phases() {
            let removing = phase.in_flight() == Operation::Cleanup;
            for known in known {
                let entry = Entry { known, ..Entry::found(creation(), place(), phase.clone()) };
                for report in reports {
                    for action in [Action::None, Action::Reap] {
                        let informed = entry.judged(Mapping { report, action });
                        assert!(informed != Some(State::Deleting) || removing, "{phase:?} {known:?} {report:?}");
                    }
                }
                let last_word = !phase.is_judged() && known == Known::Awaited;
                assert!(
                    entry.without_server() != Some(State::Deleting) || removing || last_word,
                    "{phase:?} {known:?}"
                );
            }
        }
    }

    #[test]
    fn what_the_runner_has_never_seen_is_seen_once_whatever_the_policy_says() {
        let mut entry = Entry::demanded(creation(), place());
        entry.apply(&Event::Created);
        let word = |entry: &Entry, report| entry.judged(Mapping { report, action: Action::None });
        let no_sight = [(Report::None, None), (Report::Timeout, Some(State::Timeout))];
        for (report, _) in no_sight {
            assert_eq!(word(&entry, report), Some(State::Creating), "{report:?}");
        }
        assert_eq!(word(&entry, Report::Running), Some(State::Running));
        entry.delivered(Some(State::Creating));
        for (report, informed) in no_sight {
            assert_eq!(word(&entry, report), informed, "seen once is enough");
        }
    }

    #[test]
    fn what_is_reaped_while_its_creation_cannot_be_told_so_is_reported_as_creating_until_that_has_ended() {
        let mut entry = Entry::found(creation(), place(), Phase::Creating { unwanted: false });
        assert!(entry.apply(&Event::Unwanted { informed: false }).is_some());
        assert!(entry.apply(&Event::Unwanted { informed: false }).is_none(), "asked once is enough");
        let reaped = Mapping { report: Report::Deleting, action: Action::Reap };
        assert_eq!(entry.judged(reaped), Some(State::Creating));
        assert!(entry.apply(&Event::Created).is_some_and(|before| before.is_unwanted()));
        assert_eq!(*entry.phase(), Phase::Removing { by: None }, "and then it is removed");
    }
}
