//! Slot `provisioning`: how a cluster recovers when one of its operations failed.

pub use crate::bindings::provisioning::exports::windlass::policy::provisioning::{
    Answer, ClusterState, Group, Node, NodeRole, Operation, Question, Recovery, Stage, Verdict,
};

/// A policy for the slot `provisioning`. In the prelude it is called `Provisioning`.
pub trait Policy {
    /// Judges one failed operation.
    fn decide(&self, question: Question) -> Answer;
}

impl Answer {
    /// The next policy decides.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// Leave the cluster in that state and delete exactly these nodes (positions in `Question::nodes`).
    #[must_use]
    pub const fn recover(state: ClusterState, delete: Vec<u32>) -> Self {
        Self { verdict: Verdict::Recover(Recovery { state, delete }), reason: None }
    }

    /// Adds why, for people.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}
