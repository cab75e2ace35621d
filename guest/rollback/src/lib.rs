//! The default policy of the slot `rollback`. Knows what depends on what on Scaleway; must not know how anything is
//! deleted. README.md holds the decisions as a table.

mod plan;

use windlass_guest_sdk::prelude::*;

use rollback::{Answer, Question};

settings! {
    /// Undoes everything.
    pub struct DefaultRollback {}
}

impl Rollback for DefaultRollback {
    fn decide(&self, question: Question) -> Answer {
        let undoing = plan::undo(&question, &[]);
        let answer = Answer::plan(undoing.steps);
        match (undoing.kept_hosts, undoing.kept_unknown) {
            (0, 0) => answer,
            (0, _) => answer.because("what this policy does not know is kept, with what is attached to it"),
            _ => answer.because("physical hosts are released by the release slot, never by a rollback"),
        }
    }
}

export_policy!(DefaultRollback: rollback; silent_panics);

#[cfg(test)]
mod tests;
