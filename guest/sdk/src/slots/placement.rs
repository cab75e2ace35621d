//! Slot `placement`: in which zone, and of which server type, servers are created next.

pub use crate::bindings::placement::exports::windlass::policy::placement::{
    Answer, Assignment, Place, Question, Verdict,
};
use crate::types::Timestamp;

/// A policy for the slot `placement`. In the prelude it is called `Placement`.
pub trait Policy {
    /// Places the servers that are wanted now.
    fn decide(&self, question: Question) -> Answer;
}

impl Place {
    /// Whether the slot `retry` lets it be tried at that instant.
    #[must_use]
    pub fn may_be_tried(&self, now: Timestamp) -> bool {
        self.backoff_until.is_none_or(|until| until <= now)
    }
}

impl Answer {
    /// The next policy decides.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// Create these, and nothing else now.
    #[must_use]
    pub const fn place(assignments: Vec<Assignment>) -> Self {
        Self { verdict: Verdict::Place(assignments), reason: None }
    }

    /// Adds why, for people.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
