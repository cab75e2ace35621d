use windlass_guest_sdk::prelude::*;

use state_mapping::{Answer, Operation, Question, Report, Server, ServerState};

settings! {
    /// How long a stopped server is left alone.
    pub struct @TYPE@ {
        /// The time in which somebody may look into a server that stopped after it ran, in milliseconds.
        pub grace_ms: u64 = 600_000,
    }
}

impl StateMapping for @TYPE@ {
    fn decide(&self, server: &Server, _listing: &Question) -> Answer {
        let stopped = server.state == ServerState::Stopped && server.has_run && server.in_flight == Operation::None;
        match stopped && server.state_age < self.grace_ms {
            // An autoscaler gives no work to what is being created, and keeps its place.
            true => Answer::report(Report::Creating).because("stopped; somebody may look into it"),
            // The next policy decides, at last the built-in default.
            false => Answer::defer(),
        }
    }
}

export_policy!(@TYPE@: state_mapping);
