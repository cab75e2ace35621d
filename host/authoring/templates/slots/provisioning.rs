use windlass_guest_sdk::prelude::*;

use provisioning::{Answer, ClusterState, Question};

settings! {
    /// After which failures nodes stay.
    pub struct @TYPE@ {
        /// Whether nodes stay after a hook that did not end in time, too.
        pub also_timed_out: bool = true,
    }
}

impl Provisioning for @TYPE@ {
    fn decide(&self, question: Question) -> Answer {
        let stay = match question.cause.class {
            FailureClass::HookFailed => true,
            FailureClass::HookTimedOut => self.also_timed_out,
            _ => false,
        };
        match stay {
            true => Answer::recover(ClusterState::Error, Vec::new()).because("a hook failed: its nodes stay"),
            // The next policy decides, at last the built-in default.
            false => Answer::defer(),
        }
    }
}

export_policy!(@TYPE@: provisioning);
