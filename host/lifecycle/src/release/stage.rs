//! The stages of a release, and which follows which: pure functions of what was seen, answered and done.

use std::time::Duration;

use windlass_policy::slots::release::{self, Verdict};
use windlass_scaleway::types::apple_silicon::Server;

use super::request::{ASKINGS, ReleaseOutcome, ReleaseRequest, ReleaseSpecification};
use crate::machines::actions::{End, Given, Owner, Progress, owner};
use crate::machines::host::{Presence, Refused};
use crate::machines::names::{PoolPrefix, is_returning};
use crate::machines::restart::Restart;
use crate::run::milliseconds;

/// When a release is to be asked for again, where no policy says.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(60);
/// What a policy's `retry-after` is cut to.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(24 * 3600);

/// Where a release stands: what is done next, with what it needs.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// The host is read.
    Look,
    /// The slot is asked about the host, with the refusal of its last answer.
    Ask { request: ReleaseRequest, host: Box<Server>, refusal: Option<(release::Action, Refused)> },
    /// The slot has answered: this is done to the host.
    Act { request: ReleaseRequest, host: Box<Server>, action: Action },
    /// That was refused: the host is read once more, for the next asking.
    LookAgain { request: ReleaseRequest, host: Box<Server>, action: release::Action, refused: Refused },
    /// The end, and why, where no policy has said it.
    Ended { outcome: ReleaseOutcome, reason: Option<String> },
}

/// What is done to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is wiped, and gets a name of its pool.
    ReturnToPool {
        prefix: PoolPrefix,
        system: Option<String>,
    },
    Terminate,
    ScheduleDeletion,
    Reboot,
    /// It gets the claim's name again, which an earlier asking has taken from it.
    TakeBack,
}

/// How long a policy's `retry-after` is waited for, in milliseconds.
pub(super) fn waits(after: u64) -> u64 {
    milliseconds(Duration::from_millis(after).clamp(SOONEST, LATEST))
}

/// The outcome of a release that nothing stands in the way of but time.
pub(super) fn ask_again() -> ReleaseOutcome {
    ReleaseOutcome::AskAgain { after: milliseconds(ASK_AGAIN) }
}

impl Stage {
    fn ended(outcome: ReleaseOutcome) -> Self {
        Self::Ended { outcome, reason: None }
    }

    fn ended_because(outcome: ReleaseOutcome, reason: impl Into<String>) -> Self {
        Self::Ended { outcome, reason: Some(reason.into()) }
    }

    /// The slot has been asked as often as it may be.
    pub(super) fn exhausted() -> Self {
        Self::ended_because(
            ask_again(),
            format!("Scaleway refused what the release policy decided, {ASKINGS} times in a row"),
        )
    }
}

/// After the first look. Whose the host is tells what is to be done; `restart` is one for recovery since it was
/// claimed.
pub(super) fn after_look(
    specification: &ReleaseSpecification,
    given: &Given,
    progress: &Progress,
    restart: Option<&Restart>,
    seen: Presence,
) -> Stage {
    let request = &specification.request;
    let host = match seen {
        Presence::Gone => return Stage::ended(ReleaseOutcome::AlreadyGone),
        Presence::Here(host) => host,
    };
    match (owner(specification, &host, given), &request.pool_prefix) {
        (Owner::Claim, _) => match restart.filter(|restart| restart.took_effect(&host)) {
            Some(restart) if restart.answers(request) => {
                Stage::ended_because(ReleaseOutcome::Rebooted, "it was restarted when this was asked before")
            }
            restarted => {
                let rebooted = request.rebooted || restarted.is_some();
                Stage::Ask { request: ReleaseRequest { rebooted, ..request.clone() }, host, refusal: None }
            }
        },
        // That it goes back to the pool was decided, and half of it is done.
        (Owner::Returning, Some(prefix)) => {
            let action = Action::ReturnToPool { prefix: prefix.clone(), system: progress.system.clone() };
            Stage::Act { request: request.clone(), host, action }
        }
        (Owner::Returning, None) => Stage::Ask { request: request.clone(), host, refusal: None },
        (Owner::Returned, _) => Stage::ended(ReleaseOutcome::ReturnedToPool { name: host.name }),
        (Owner::Other, _) => {
            let reason = format!("it is called {:?} and not {}", host.name, request.claim);
            Stage::ended_because(ReleaseOutcome::NotOurs { name: host.name }, reason)
        }
    }
}

/// After an answer of the slot; `last_resort`: no policy could give one, and the host's own answer is to keep things as
/// they are.
pub(super) fn after_answer(
    request: ReleaseRequest,
    host: Box<Server>,
    verdict: Verdict,
    last_resort: bool,
    progress: &Progress,
) -> Stage {
    let action = match verdict {
        Verdict::RetryAfter(after) => {
            return Stage::ended(ReleaseOutcome::AskAgain { after: waits(after) });
        }
        // As it is, and again.
        Verdict::Defer => return Stage::ended(ask_again()),
        _ if last_resort => return Stage::ended(ask_again()),
        // An earlier asking may have taken the claim's name from it. One that is wiped has it no more to keep.
        Verdict::Keep if is_returning(&host.name) && !progress.is_wiped() => Action::TakeBack,
        Verdict::Keep => return Stage::ended(ReleaseOutcome::Kept),
        Verdict::ReturnToPool(_) | Verdict::Terminate | Verdict::ScheduleDeletion if request.replaced_with_claimant => {
            return Stage::ended(ReleaseOutcome::GivenUp);
        }
        Verdict::ReturnToPool(how) => match &request.pool_prefix {
            Some(prefix) => Action::ReturnToPool { prefix: prefix.clone(), system: how.operating_system },
            // `Release::check` refuses that answer; were it to change, the host stays.
            None => return Stage::ended(ask_again()),
        },
        Verdict::Terminate => Action::Terminate,
        Verdict::ScheduleDeletion => Action::ScheduleDeletion,
        Verdict::Reboot => Action::Reboot,
    };
    Stage::Act { request, host, action }
}

/// After something was done, or refused.
pub(super) fn after_action(request: ReleaseRequest, host: Box<Server>, end: End) -> Stage {
    match end {
        End::Done(outcome) => Stage::ended(outcome),
        End::Refused(action, refused) => Stage::LookAgain { request, host, action, refused: *refused },
    }
}

/// After the look that follows a refusal. `None`: the host cannot be read now, and is as it was.
pub(super) fn after_refusal(
    request: ReleaseRequest,
    host: Box<Server>,
    refusal: (release::Action, Refused),
    seen: Option<Presence>,
) -> Stage {
    let host = match seen {
        Some(Presence::Gone) => return Stage::ended(ReleaseOutcome::AlreadyGone),
        Some(Presence::Here(seen)) => seen,
        None => host,
    };
    Stage::Ask { request, host, refusal: Some(refusal) }
}

#[cfg(test)]
mod tests {
    use windlass_policy::slots::release::PoolReturn;
    use windlass_policy::slots::types::FailureClass;

    use super::*;
    use crate::failure;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    fn request() -> ReleaseRequest {
        let zone = "fr-par-1".parse().unwrap();
        ReleaseRequest::new(zone, ID, "ci-mac-a".parse().unwrap(), Some("ci-pool-".parse().unwrap()))
    }

    fn host(name: &str) -> Box<Server> {
        Box::new(Server { id: ID.into(), name: name.into(), ..Server::default() })
    }

    fn looked(name: &str) -> Stage {
        let specification = ReleaseSpecification { request: request() };
        let seen = Presence::Here(host(name));
        after_look(&specification, &Given::default(), &Progress::default(), None, seen)
    }

    fn answered(name: &str, verdict: Verdict, progress: &Progress) -> Stage {
        after_answer(request(), host(name), verdict, false, progress)
    }

    fn outcome(stage: &Stage) -> Option<&ReleaseOutcome> {
        match stage {
            Stage::Ended { outcome, .. } => Some(outcome),
            _ => None,
        }
    }

    fn action(stage: Stage) -> Option<Action> {
        match stage {
            Stage::Act { action, .. } => Some(action),
            _ => None,
        }
    }

    #[test]
    fn the_name_tells_whether_the_slot_is_asked_the_return_goes_on_or_the_host_is_left_alone() {
        let returning = request().claim.returning(ID);
        assert!(matches!(looked("ci-mac-a"), Stage::Ask { refusal: None, .. }));
        assert!(matches!(action(looked(&returning)), Some(Action::ReturnToPool { .. })));
        let stranger = looked("somebody-elses");
        assert!(matches!(outcome(&stranger), Some(ReleaseOutcome::NotOurs { .. })));
        let specification = ReleaseSpecification { request: request() };
        let pooled = looked(&"ci-pool-".parse::<PoolPrefix>().unwrap().name(&specification.request.claim, ID));
        assert!(matches!(outcome(&pooled), Some(ReleaseOutcome::ReturnedToPool { .. })));
        let gone = after_look(&specification, &Given::default(), &Progress::default(), None, Presence::Gone);
        assert_eq!(outcome(&gone), Some(&ReleaseOutcome::AlreadyGone));
    }

    #[test]
    fn each_answer_leads_to_its_action_and_what_is_no_answer_to_asking_again() {
        let none = Progress::default();
        for (verdict, expected) in [
            (Verdict::Terminate, Action::Terminate),
            (Verdict::ScheduleDeletion, Action::ScheduleDeletion),
            (Verdict::Reboot, Action::Reboot),
        ] {
            assert_eq!(action(answered("ci-mac-a", verdict, &none)), Some(expected));
        }
        let how = PoolReturn { operating_system: Some("macos".into()) };
        let returned = action(answered("ci-mac-a", Verdict::ReturnToPool(how.clone()), &none));
        assert!(matches!(returned, Some(Action::ReturnToPool { system: Some(_), .. })), "{returned:?}");
        let elsewhere = ReleaseRequest { pool_prefix: None, ..request() };
        let stage = after_answer(elsewhere, host("ci-mac-a"), Verdict::ReturnToPool(how), false, &none);
        assert_eq!(outcome(&stage), Some(&ask_again()), "it has no pool");
        assert_eq!(outcome(&answered("ci-mac-a", Verdict::Defer, &none)), Some(&ask_again()));
        let stage = after_answer(request(), host("ci-mac-a"), Verdict::Terminate, true, &none);
        assert_eq!(outcome(&stage), Some(&ask_again()), "the last resort destroys nothing");
        for (asked, expected) in [(0, 1_000), (5_000, 5_000), (u64::MAX, 24 * 3_600_000)] {
            let stage = answered("ci-mac-a", Verdict::RetryAfter(asked), &none);
            assert_eq!(outcome(&stage), Some(&ReleaseOutcome::AskAgain { after: expected }), "{asked}");
        }
    }

    #[test]
    fn a_host_that_is_replaced_with_its_claimant_is_given_up_and_left_as_it_is() {
        let none = Progress::default();
        let how = PoolReturn { operating_system: None };
        for verdict in [Verdict::ReturnToPool(how), Verdict::Terminate, Verdict::ScheduleDeletion] {
            let request = ReleaseRequest { replaced_with_claimant: true, ..request() };
            let stage = after_answer(request, host("ci-mac-a"), verdict, false, &none);
            assert_eq!(outcome(&stage), Some(&ReleaseOutcome::GivenUp));
        }
        let request = ReleaseRequest { replaced_with_claimant: true, ..request() };
        let stage = after_answer(request, host("ci-mac-a"), Verdict::Reboot, false, &none);
        assert_eq!(action(stage), Some(Action::Reboot), "what keeps the claim is carried out");
    }

    #[test]
    fn a_host_that_is_kept_gets_the_claims_name_again_unless_it_is_wiped() {
        let returning = request().claim.returning(ID);
        let kept = |name: &str, progress: &Progress| answered(name, Verdict::Keep, progress);
        assert_eq!(outcome(&kept("ci-mac-a", &Progress::default())), Some(&ReleaseOutcome::Kept));
        assert_eq!(action(kept(&returning, &Progress::default())), Some(Action::TakeBack));
        for wiped in
            [Progress { reinstalled: true, ..Progress::default() }, Progress { taken: Some(5), ..Progress::default() }]
        {
            assert_eq!(outcome(&kept(&returning, &wiped)), Some(&ReleaseOutcome::Kept), "{wiped:?}");
        }
    }

    #[test]
    fn a_refusal_is_put_to_the_slot_with_the_host_as_it_is_now() {
        let refused = Refused::of(failure::of_class(FailureClass::PreconditionFailed, "too early"));
        let stage = after_action(
            request(),
            host("ci-mac-a"),
            End::Refused(release::Action::Terminate, Box::new(refused.clone())),
        );
        assert!(matches!(stage, Stage::LookAgain { action: release::Action::Terminate, .. }));
        let next = |seen| after_refusal(request(), host("before"), (release::Action::Terminate, refused.clone()), seen);
        for (seen, expected) in [(Some(Presence::Here(host("now"))), "now"), (None, "before")] {
            let Stage::Ask { host, refusal: Some((release::Action::Terminate, _)), .. } = next(seen) else { panic!() };
            assert_eq!(host.name, expected);
        }
        assert_eq!(outcome(&next(Some(Presence::Gone))), Some(&ReleaseOutcome::AlreadyGone));
    }
}
