//! A policy for `state-mapping`: a stopped server is left alone for a while before it is reaped.

use windlass_guest_sdk::prelude::*;

use state_mapping::{Answer, Operation, Question, Report, Server, ServerState};

settings! {
    /// How long a stopped server is left alone.
    pub struct GraceForStopped {
        /// The time in which somebody may still look into a server that stopped after it ran, in milliseconds.
        pub grace_ms: u64 = 600_000,
    }
}

impl StateMapping for GraceForStopped {
    fn decide(&self, server: &Server, _listing: &Question) -> Answer {
        let stopped = matches!(server.state, ServerState::Stopped | ServerState::StoppedInPlace);
        if !stopped || server.suspended || !server.has_run || server.in_flight != Operation::None {
            return Answer::defer();
        }
        match server.state_age < self.grace_ms {
            // An autoscaler gives no work to what is being created, and keeps its place.
            true => Answer::report(Report::Creating).because("stopped; within its time of grace"),
            false => Answer::reap().because("stopped; its time of grace is over"),
        }
    }
}

export_policy!(GraceForStopped: state_mapping);

#[cfg(test)]
mod tests {
    use windlass_guest_sdk::testing::{configure, server, state_mapping_question};

    use super::*;

    fn decide(server: &Server) -> Answer {
        configure::<GraceForStopped>(r#"{"grace-ms": 60000}"#)
            .map(|policy| policy.decide(server, &state_mapping_question([])))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_server_that_stopped_after_it_ran_has_its_time_of_grace() {
        for state in [ServerState::Stopped, ServerState::StoppedInPlace] {
            let young = Server { state_age: 59_999, ..server(state) };
            assert_eq!(decide(&young).verdict, Answer::report(Report::Creating).verdict);
            assert_eq!(decide(&Server { state_age: 60_000, ..young }).verdict, Answer::reap().verdict);
        }
    }

    #[test]
    fn everything_else_is_left_to_the_next_policy() {
        let stopped = server(ServerState::Stopped);
        for other in [
            server(ServerState::Running),
            server(ServerState::Stopping),
            Server { in_flight: Operation::Create, ..stopped },
            Server { in_flight: Operation::Cleanup, ..stopped },
            Server { suspended: true, ..stopped },
            Server { has_run: false, ..stopped },
        ] {
            assert_eq!(decide(&other), Answer::defer(), "{other:?}");
        }
    }
}
