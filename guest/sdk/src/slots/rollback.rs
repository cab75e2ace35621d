//! Slot `rollback`: what is undone after a failure, in which order, and what is kept.

pub use crate::bindings::rollback::exports::windlass::policy::rollback::{
    Action, Answer, Evidence, Question, Resource, Step, Verdict,
};

/// A policy for the slot `rollback`. In the prelude it is called `Rollback`.
pub trait Policy {
    /// Plans one undoing.
    fn decide(&self, question: Question) -> Answer;
}

impl Answer {
    /// The next policy decides.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// Do this.
    #[must_use]
    pub fn plan(plan: impl Into<Vec<Step>>) -> Self {
        Self { verdict: Verdict::Plan(plan.into()), reason: None }
    }

    /// Adds why, for people.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// A plan that grows step by step; positions are those of `Question::resources`.
///
/// ```
/// # use windlass_guest_sdk::prelude::*;
/// let mut plan = rollback::Plan::new();
/// let server_gone = plan.delete(0, &[]);
/// plan.delete(1, &[server_gone]); // its IP address
/// let answer = rollback::Answer::plan(plan);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Plan(Vec<Step>);

impl Plan {
    /// An empty plan.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a step that begins when those in `after` have ended. Returns its position, for the `after` of later ones;
    /// so a plan made this way has no cycle.
    pub fn step(&mut self, resource: usize, action: Action, after: &[u32]) -> u32 {
        let position = self.0.len() as u32;
        self.0.push(Step { resource: resource as u32, action, after: after.to_vec() });
        position
    }

    /// Adds a deletion.
    pub fn delete(&mut self, resource: usize, after: &[u32]) -> u32 {
        self.step(resource, Action::Delete, after)
    }

    /// Adds that a resource stays on purpose.
    pub fn keep(&mut self, resource: usize) -> u32 {
        self.step(resource, Action::Keep, &[])
    }
}

impl From<Plan> for Vec<Step> {
    fn from(plan: Plan) -> Self {
        plan.0
    }
}
