//! Slot `retry`: whether a failed step is tried again, and when.

pub use crate::bindings::retry::exports::windlass::policy::retry::{Answer, Question, Verdict};
use crate::types::Milliseconds;

/// A policy for the slot `retry`. In the prelude it is called `Retry`.
pub trait Policy {
    /// Judges one failed attempt.
    fn decide(&self, question: Question) -> Answer;
}

impl Answer {
    /// The next policy decides.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// The step has failed for good.
    #[must_use]
    pub const fn give_up() -> Self {
        Self { verdict: Verdict::GiveUp, reason: None }
    }

    /// Try again after so many milliseconds.
    #[must_use]
    pub const fn wait(milliseconds: Milliseconds) -> Self {
        Self { verdict: Verdict::Wait(milliseconds), reason: None }
    }

    /// Adds why, for people.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
