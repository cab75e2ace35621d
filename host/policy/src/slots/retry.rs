//! Slot `retry`: whether a failed step is tried again, and when (`windlass:policy/retry`).

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::slot::{self, Deferred, EXAMPLE_NOW_MS, Slot};
use super::types::Failure;
use crate::slot_name::SlotName;

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// Now. Milliseconds since 1970-01-01T00:00:00Z.
    pub now: u64,
    /// A random word, for jitter.
    pub random: u64,
    /// The operation that failed: `create-server`, `cleanup-server`, `release-machine`, ...
    pub operation: String,
    /// The step of it: `create-ip`, `create-server`, `power-on`, `delete-volume`, ...
    pub step: String,
    /// Whether the step belongs to an undo or to a removal, so that giving it up leaves something behind.
    pub undoing: bool,
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// Since the first attempt of this step began. Milliseconds.
    pub elapsed: u64,
    /// Until the operation's deadline, where it has one; no undo has. The host never waits past it: a longer `wait`
    /// counts as `give-up`. Milliseconds.
    #[component(name = "time-left")]
    pub time_left: Option<u64>,
    /// Failure.
    pub failure: Failure,
    /// Where it happened.
    pub zone: String,
    /// The group that the server belongs or was to belong to, where it is about one.
    pub group: Option<String>,
    /// The server type (Scaleway's commercial type) that was asked for, where one was.
    #[component(name = "server-type")]
    pub server_type: Option<String>,
}

/// The judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Defer.
    #[component(name = "defer")]
    Defer,
    /// The step has failed for good.
    #[component(name = "give-up")]
    GiveUp,
    /// Try again after so many milliseconds. The host bounds both the single wait and their sum.
    #[component(name = "wait")]
    Wait(u64),
}

/// The verdict and why.
pub type Answer = slot::Answer<Verdict>;

/// The slot `retry`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry;

/// How often the native last resort tries again before it gives up.
const KEEP_ATTEMPTS: u32 = 5;
/// The wait after the first failure in the native last resort; it doubles with each attempt.
const KEEP_FIRST_WAIT_MS: u64 = 1_000;

impl Slot for Retry {
    const NAME: SlotName = SlotName::Retry;
    type Question = Question;
    type Answer = Answer;

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    fn check(_question: &Question, _answer: &Answer) -> Result<(), String> {
        // Any wait is well formed; the host bounds it where it waits.
        Ok(())
    }

    /// A few doubling waits, then give up. No jitter: this is the answer when nothing else works.
    fn keep(question: &Question) -> Answer {
        let verdict = if question.attempt < KEEP_ATTEMPTS {
            Verdict::Wait(KEEP_FIRST_WAIT_MS << question.attempt.saturating_sub(1).min(KEEP_ATTEMPTS))
        } else {
            Verdict::GiveUp
        };
        Answer { verdict, reason: None }
    }

    fn example() -> Question {
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            operation: "create-server".into(),
            step: "power-on".into(),
            undoing: false,
            attempt: 1,
            elapsed: 250,
            time_left: Some(599_750),
            failure: Failure::example(),
            zone: "fr-par-1".into(),
            group: Some("example".into()),
            server_type: Some("DEV1-S".into()),
        }
    }
}
