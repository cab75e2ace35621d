use windlass_guest_sdk::prelude::*;

use retry::{Answer, Question};

settings! {
    /// How long to wait for stock.
    pub struct @TYPE@ {
        /// Milliseconds between two attempts.
        pub wait_ms: u64 = 60_000,
    }
}

impl Retry for @TYPE@ {
    fn decide(&self, question: Question) -> Answer {
        match question.failure.class {
            FailureClass::OutOfStock => Answer::wait(self.wait_ms).because("stock may come back"),
            // The next policy decides, at last the built-in default.
            _ => Answer::defer(),
        }
    }
}

export_policy!(@TYPE@: retry);
