use windlass_guest_sdk::prelude::*;

use release::{Answer, Question, Trigger};

settings! {
    /// When a machine is kept.
    pub struct @TYPE@ {
        /// After so many set-ups that failed, a machine is kept, to be looked at.
        pub failures: u32 = 3,
    }
}

impl Release for @TYPE@ {
    fn decide(&self, question: Question) -> Answer {
        match question.trigger == Trigger::BootstrapFailed && question.machine.bootstrap_failures >= self.failures {
            true => Answer::keep().because("its set-up fails again and again; somebody should look"),
            // The next policy decides, at last the built-in default.
            false => Answer::defer(),
        }
    }
}

export_policy!(@TYPE@: release);
