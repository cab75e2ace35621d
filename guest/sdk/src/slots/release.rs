//! Slot `release`: what becomes of a machine that its owner no longer wants.

pub use crate::bindings::release::exports::windlass::policy::release::{
    Action, Activity, Answer, Machine, MachineKind, PoolReturn, Question, Refusal, Requested, Trigger, Verdict,
};
use crate::types::Milliseconds;

/// A policy for the slot `release`. In the prelude it is called `Release`.
pub trait Policy {
    /// Judges one machine.
    fn decide(&self, question: Question) -> Answer;
}

impl Answer {
    const fn new(verdict: Verdict) -> Self {
        Self { verdict, reason: None }
    }

    /// The next policy decides.
    #[must_use]
    pub const fn defer() -> Self {
        Self::new(Verdict::Defer)
    }

    /// Rename it into its pool and reinstall it, with this operating system or with the one that it has.
    #[must_use]
    pub const fn return_to_pool(operating_system: Option<String>) -> Self {
        Self::new(Verdict::ReturnToPool(PoolReturn { operating_system }))
    }

    /// Delete it now.
    #[must_use]
    pub const fn terminate() -> Self {
        Self::new(Verdict::Terminate)
    }

    /// Let Scaleway delete it as soon as it can be deleted.
    #[must_use]
    pub const fn schedule_deletion() -> Self {
        Self::new(Verdict::ScheduleDeletion)
    }

    /// Leave it as it is and end the release.
    #[must_use]
    pub const fn keep() -> Self {
        Self::new(Verdict::Keep)
    }

    /// Ask again after so many milliseconds.
    #[must_use]
    pub const fn retry_after(milliseconds: Milliseconds) -> Self {
        Self::new(Verdict::RetryAfter(milliseconds))
    }

    /// Reboot it and give it back to its owner, who sets it up again.
    #[must_use]
    pub const fn reboot() -> Self {
        Self::new(Verdict::Reboot)
    }

    /// Adds why, for people.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
