//! Slot `retry`: whether a failed step is tried again, and when (`windlass:policy/retry`).

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::{Failure, Subject};
pub use crate::bindings::retry::*;
use crate::slot_name::SlotName;

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

    fn topic(question: &Question) -> Topic<'_> {
        let words = format!("{} of {}", question.step, question.operation);
        Topic { zone: Some(&question.zone), ..Topic::of_group(words, &question.subject) }
    }

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
            subject: Subject::example(),
            server_type: Some("DEV1-S".into()),
        }
    }
}
