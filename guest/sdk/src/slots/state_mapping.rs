//! Slot `state-mapping`: what an autoscaler is told about each server, and what is done about it.

pub use crate::bindings::state_mapping::exports::windlass::policy::state_mapping::{
    Answer, Deed, Mapping, Operation, Question, Report, Server, ServerState, StateDetail, Verdict,
};
use crate::types::Timestamp;

/// A policy for the slot `state-mapping`. In the prelude it is called `StateMapping`.
pub trait Policy {
    /// Judges one server. `now` is when the listing was taken.
    fn decide(&self, server: &Server, now: Timestamp) -> Answer;

    /// Judges a listing: one answer for each server, in its order. To be implemented only where a judgement depends on
    /// several servers at once (never reap more than a few in one round, for example).
    fn decide_all(&self, question: &Question) -> Vec<Answer> {
        question.servers.iter().map(|server| self.decide(server, question.now)).collect()
    }
}

impl Answer {
    /// The next policy decides about this server.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// Report this, do nothing.
    #[must_use]
    pub const fn report(report: Report) -> Self {
        Self { verdict: Verdict::Mapped(Mapping { report, deed: Deed::Nothing }), reason: None }
    }

    /// Have the host clean the server up, and report `deleting` while it does.
    #[must_use]
    pub const fn reap() -> Self {
        Self { verdict: Verdict::Mapped(Mapping { report: Report::Deleting, deed: Deed::Reap }), reason: None }
    }

    /// Adds why, for people. Each reason is a string for each server: leave it out in the ordinary cases.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
