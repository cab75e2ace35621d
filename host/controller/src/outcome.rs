//! How a job on a machine ended, and what that means for its status.

use std::time::Duration;

use jiff::Timestamp;
use windlass_lifecycle::{AdoptedMachine, CreatedServer, Error as LifecycleError, ReleaseOutcome, Released};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::apple_silicon::Server as Host;

use crate::apple_silicon::setup::ended::{Ended, Ran};
use crate::job_kind::JobKind;
use crate::kinds::{OperationStatus, REPLACEMENT_DUE, ResourceInUse};
use crate::status::{bounded, time};

/// The first wait after a failure; it doubles up to [`MAX_WAIT`].
pub(crate) const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait after a failure.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(300);

/// Between two looks at one host.
const AFTER_INSPECTION: Duration = Duration::from_secs(30);

/// How a job ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A host carries the object's claim.
    Adopted { machine: Box<AdoptedMachine>, ordered: bool },
    /// A host was read, with its passwords.
    Inspected(Box<Host>),
    /// A release, or a recovery, was judged and carried out.
    Released(Box<Released>),
    /// A script was run on a host.
    Ran(Box<Ran>),
    /// A server runs.
    Created(Box<CreatedServer>),
    /// Nothing of an object was ever made.
    NothingMade,
    /// An operation on a cluster did what it was to.
    Operated { message: String },
    /// What has to be there is not there yet. Nothing went wrong.
    Waiting { reason: &'static str, message: String, after: Duration },
    /// It went wrong, and is tried again.
    Failed { reason: &'static str, message: String },
    /// It cannot come to an end without people.
    Refused { reason: &'static str, message: String },
    /// It was called off, and nothing of it is left.
    CalledOff { message: String },
    /// It has not begun, since this process ends.
    LeftOpen,
    /// Nothing was done: while it waited for its turn, the object or what stands above it changed.
    NotBegun,
}

/// What the release slot says of a host or server whose Machine is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// It stays as it is.
    Kept,
    /// It was restarted.
    Rebooted,
    /// It is to be replaced together with its Machine.
    GivenUp,
}

impl Recovery {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "Kept",
            Self::Rebooted => "Rebooted",
            Self::GivenUp => REPLACEMENT_DUE,
        }
    }
}

/// How long to wait after the `attempt`-th failure in a row, from 1.
pub(crate) fn backoff(attempt: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << attempt.saturating_sub(1).min(10)).min(MAX_WAIT)
}

/// A wait that is up to a quarter longer, so that not all that failed at once try again at once.
pub(crate) fn jittered(wait: Duration, random: u64) -> Duration {
    let spread = u64::try_from(wait.as_millis() / 4).unwrap_or(u64::MAX).max(1);
    wait + Duration::from_millis(random % spread)
}

/// What an error says, without the id of the operation, which the status shows: each try has another, and what fails
/// again in the same way is to say the same again.
pub(crate) fn words_of(error: &LifecycleError) -> String {
    match error {
        LifecycleError::Failed(failure) => error.to_string().replacen(failure.operation.as_str(), "the operation", 1),
        _ => error.to_string(),
    }
}

/// An error's words without the id of the request, which differs at each try: a condition that says the same otherwise
/// is not written again.
pub(crate) fn without_request(error: &LifecycleError) -> String {
    let id = match error {
        LifecycleError::Scaleway { source, .. } => source.request_id(),
        _ => None,
    };
    without_id(error.to_string(), id)
}

fn without_id(words: String, id: Option<&str>) -> String {
    match id {
        Some(id) => words.replace(&format!(" [request {id}]"), "").replace(&format!(", request {id}"), ""),
        None => words,
    }
}

/// Whether objects that ask for the same wait for the same where they wait for this reason.
pub(crate) fn is_shared_wait(reason: &str) -> bool {
    ["NoHostAvailable", "LimitReached", "NotPlaced"].contains(&reason)
}

pub(crate) fn later(now: Timestamp, after: Duration) -> String {
    // Kubernetes' times have whole seconds: never earlier than asked for.
    let after = Duration::from_secs(after.as_secs() + u64::from(after.subsec_nanos() > 0));
    time(now.checked_add(after).unwrap_or(now))
}

impl Outcome {
    /// Why a job of this kind came to nothing or waits, in a word.
    fn reason(&self, kind: &str) -> Option<&'static str> {
        match self {
            Self::Waiting { reason, .. } | Self::Failed { reason, .. } | Self::Refused { reason, .. } => Some(reason),
            Self::Released(released) => reason_to_wait(released, kind == JobKind::Recover.as_str()),
            Self::Ran(ran) => match &ran.ended {
                Ended::Done => None,
                Ended::Again { .. } => Some("SetupRetried"),
                Ended::GivenUp { .. } => Some("SetupFailed"),
                Ended::NotBegun { reason, .. } => Some(reason),
            },
            _ => None,
        }
    }

    /// Whether an event tells of this wait, and whether that is a Warning. What ends by itself in a moment is no news,
    /// and a policy's patience nothing that anybody has to look at.
    pub(crate) fn wait_event(&self) -> Option<bool> {
        match self {
            Self::Waiting { reason: "Contended" | "Creating" | "WaitingForBootstrapData", .. } => None,
            Self::Waiting { reason: "ReleaseWaiting", .. } => Some(false),
            _ => Some(true),
        }
    }

    /// Writes the end of the operation into its mirror.
    pub(crate) fn describe(&self, operation: &mut OperationStatus, now: Timestamp) {
        operation.not_before = None;
        operation.reason = self.reason(&operation.kind).map(str::to_owned);
        let (state, message) = match self {
            Self::Adopted { machine, .. } => {
                operation.id = machine.operation.as_ref().map(ToString::to_string).or(operation.id.take());
                let entry = ResourceInUse {
                    kind: "apple-silicon-server".to_owned(),
                    id: machine.server.id.clone(),
                    zone: machine.server.zone.clone(),
                };
                if !operation.resources.contains(&entry) {
                    operation.resources.push(entry);
                }
                ("done", None)
            }
            Self::Inspected(_) => {
                // A listing that does not show yet what was read is not read against again and again.
                operation.not_before = Some(later(now, AFTER_INSPECTION));
                ("done", None)
            }
            Self::Ran(ran) => match &ran.ended {
                Ended::Done => ("done", None),
                Ended::Again { message, after } | Ended::NotBegun { message, after, .. } => {
                    operation.not_before = Some(later(now, *after));
                    ("waiting", Some(message.clone()))
                }
                Ended::GivenUp { message } => ("failed", Some(message.clone())),
            },
            Self::Created(_) => ("done", None),
            Self::NothingMade => ("done", Some("nothing was created".to_owned())),
            Self::Operated { message } => ("done", Some(message.clone())),
            Self::Released(released) => {
                operation.id = released.operation.as_ref().map(ToString::to_string).or(operation.id.take());
                let state = match &released.outcome {
                    ReleaseOutcome::AskAgain { after } => {
                        operation.not_before = Some(later(now, Duration::from_millis(*after)));
                        "waiting"
                    }
                    _ => "done",
                };
                (state, Some(released.words()))
            }
            Self::Waiting { message, after, .. } => {
                operation.not_before = Some(later(now, *after));
                ("waiting", Some(message.clone()))
            }
            Self::Failed { message, .. } => {
                let wait = jittered(backoff(operation.attempt), rand::random());
                operation.not_before = Some(later(now, wait));
                ("failed", Some(message.clone()))
            }
            Self::Refused { message, .. } => ("failed", Some(message.clone())),
            Self::CalledOff { message } => ("done", Some(message.clone())),
            Self::LeftOpen => ("running", None),
            Self::NotBegun => {
                operation.attempt = operation.attempt.saturating_sub(1);
                (
                    "waiting",
                    Some("the object, its Machine or its Cluster changed before the operation began".to_owned()),
                )
            }
        };
        operation.state = state.to_owned();
        if message.is_some() || state == "done" {
            operation.message = message.map(bounded);
        }
    }
}

/// Why a judgement, or what it ordered, is still waited for, in a word.
pub(crate) fn reason_to_wait(released: &Released, recovering: bool) -> Option<&'static str> {
    match (&released.outcome, released.policy_failures.is_empty()) {
        (ReleaseOutcome::AskAgain { .. }, false) => Some("PolicyFailed"),
        (ReleaseOutcome::AskAgain { .. }, true) if recovering => Some("RecoveryWaiting"),
        (ReleaseOutcome::AskAgain { .. }, true) => Some("ReleaseWaiting"),
        _ => None,
    }
}

/// Whether who waits for this reason had put a question to a policy, and puts it again.
pub(crate) fn is_asked_again(reason: &str) -> bool {
    ["PolicyFailed", "RecoveryWaiting", "ReleaseWaiting"].contains(&reason)
}

/// How long until the last operation of one of these kinds may be tried again.
pub(crate) fn not_yet(last: Option<&OperationStatus>, kinds: &[JobKind], now: Timestamp) -> Option<Duration> {
    let last = last.filter(|last| kinds.iter().any(|kind| kind.as_str() == last.kind))?;
    let at: Timestamp = last.not_before.as_deref()?.parse().ok()?;
    Duration::try_from(at.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// Whether people should look at how a release stands: the host is somebody else's, or Scaleway refuses for good what
/// the policy ordered and the policy has not got around it. Patience, a policy's own or one that Scaleway asks for, is
/// no reason to call anybody.
pub(crate) fn needs_people(released: &Released) -> bool {
    match released.outcome {
        ReleaseOutcome::NotOurs { .. } => true,
        ReleaseOutcome::AskAgain { .. } | ReleaseOutcome::Kept => released.refused_class.is_some_and(is_for_good),
        _ => false,
    }
}

/// Whether the same call would be refused again, until somebody changes something.
const fn is_for_good(class: FailureClass) -> bool {
    match class {
        FailureClass::InvalidArguments
        | FailureClass::AuthenticationDenied
        | FailureClass::PermissionDenied
        | FailureClass::QuotaExceeded
        | FailureClass::Conflict
        | FailureClass::PreconditionFailed
        | FailureClass::HookFailed
        | FailureClass::HookTimedOut
        | FailureClass::Other => true,
        // It has gone, it is busy, or Scaleway or the way to it is: that passes.
        FailureClass::NotFound
        | FailureClass::Expired
        | FailureClass::TransientState
        | FailureClass::Locked
        | FailureClass::RateLimited
        | FailureClass::OutOfStock
        | FailureClass::ServerError
        | FailureClass::Gateway
        | FailureClass::Timeout
        | FailureClass::Connection
        | FailureClass::MalformedAnswer
        | FailureClass::DeadlineExceeded
        | FailureClass::Cancelled
        | FailureClass::Interrupted => false,
    }
}

/// The outcome in one word, for metrics and reasons.
pub(crate) fn word(outcome: &ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::ReturnedToPool { .. } => "ReturnedToPool",
        ReleaseOutcome::Terminated => "Terminated",
        ReleaseOutcome::DeletionScheduled { .. } => "DeletionScheduled",
        ReleaseOutcome::Kept => "Kept",
        ReleaseOutcome::AskAgain { .. } => "AskAgain",
        ReleaseOutcome::Rebooted => "Rebooted",
        ReleaseOutcome::GivenUp => "GivenUp",
        ReleaseOutcome::AlreadyGone => "AlreadyGone",
        ReleaseOutcome::NotOurs { .. } => "NotOurs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_request_is_left_out_of_a_condition() {
        for (words, id, short) in [
            ("GET /a: 401 denied [request 1-2]", Some("1-2"), "GET /a: 401 denied"),
            ("401 [request 1]; try again", Some("1"), "401; try again"),
            ("the answer (200, request 1) is no list", Some("1"), "the answer (200) is no list"),
            ("refused", None, "refused"),
        ] {
            assert_eq!(without_id(words.to_owned(), id), short);
        }
    }

    #[test]
    fn waits_grow_to_their_bound() {
        assert_eq!(backoff(1), Duration::from_secs(5));
        assert_eq!(backoff(4), Duration::from_secs(40));
        assert_eq!(backoff(9), MAX_WAIT);
        assert_eq!(backoff(u32::MAX), MAX_WAIT);
        for random in [0, 1, 74_999, 75_000, u64::MAX] {
            let wait = jittered(MAX_WAIT, random);
            assert!((MAX_WAIT..MAX_WAIT + Duration::from_secs(75)).contains(&wait), "{random}: {wait:?}");
        }
    }

    #[test]
    fn a_wait_is_never_shortened_by_whole_seconds() {
        let now = Timestamp::from_second(100).unwrap();
        assert_eq!(later(now, Duration::from_millis(1)), "1970-01-01T00:01:41Z");
        assert_eq!(later(now, Duration::from_secs(2)), "1970-01-01T00:01:42Z");
    }

    #[test]
    fn people_are_called_for_what_scaleway_refuses_for_good_and_not_for_patience() {
        use FailureClass as Class;
        let ask_again = || ReleaseOutcome::AskAgain { after: 60_000 };
        for (outcome, refused_class, called) in [
            (ask_again(), None, false),
            (ask_again(), Some(Class::TransientState), false),
            (ask_again(), Some(Class::RateLimited), false),
            (ask_again(), Some(Class::ServerError), false),
            (ask_again(), Some(Class::PreconditionFailed), true),
            (ask_again(), Some(Class::PermissionDenied), true),
            (ask_again(), Some(Class::QuotaExceeded), true),
            (ReleaseOutcome::Kept, None, false),
            (ReleaseOutcome::Kept, Some(Class::InvalidArguments), true),
            // The refusal was got around.
            (ReleaseOutcome::DeletionScheduled { deletable_at: None }, Some(Class::PreconditionFailed), false),
            (ReleaseOutcome::NotOurs { name: "other".into() }, None, true),
        ] {
            let released = Released {
                outcome,
                reason: None,
                decided_by: None,
                policy_failures: Vec::new(),
                refused: refused_class.map(|class| format!("{class:?}")),
                refused_class,
                report: None,
                operation: None,
            };
            assert_eq!(needs_people(&released), called, "{released:?}");
        }
    }
}
