use windlass_guest_sdk::prelude::*;

use rollback::{Answer, Plan, Question};

settings! {
    /// What is kept, and when.
    pub struct @TYPE@ {
        /// The class of failure after which everything stays, to be looked at.
        pub keep_after: FailureClass = FailureClass::Other,
    }
}

impl Rollback for @TYPE@ {
    fn decide(&self, question: Question) -> Answer {
        if question.cause.as_ref().is_none_or(|cause| cause.class != self.keep_after) {
            // The next policy decides, at last the built-in default.
            return Answer::defer();
        }
        let mut plan = Plan::new();
        for position in 0..question.resources.len() {
            plan.keep(position);
        }
        Answer::plan(plan).because("kept, to be looked at")
    }
}

export_policy!(@TYPE@: rollback);
