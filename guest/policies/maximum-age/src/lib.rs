//! A policy for `state-mapping`: runners that are old and unused are replaced, the oldest first, a few at a time.

use std::cmp::Reverse;

use windlass_guest_sdk::prelude::*;

use state_mapping::{Answer, Operation, Question, Server, ServerState};

const MINUTE: Milliseconds = 60_000;
const HOUR: Milliseconds = 60 * MINUTE;

settings! {
    /// Which servers are replaced.
    pub struct MaximumAge {
        /// Servers that were created so many hours ago are replaced.
        pub max_age_hours: u64 = 24,
        /// Only if GitLab Runner has not asked for them for so many minutes, which has to be longer than the longest
        /// job: a job that began before may still run.
        pub unused_minutes: u64 = 120,
        /// So many servers of a group in a zone go at the same time.
        pub at_a_time: u32 = 1,
    }
    check(self) {
        match self.unused_minutes {
            0 => Err("`unused-minutes` is 0: servers would be deleted while jobs run on them".into()),
            _ => Ok(()),
        }
    }
}

/// For how long a server was not used, as far as the plugin has seen.
fn unused(server: &Server) -> Milliseconds {
    // A plugin that has just started has seen no use of any server, and a job may run on each. It counts a state from
    // when it saw it first, so this is no longer than it has been watching.
    server.unused_for.unwrap_or(server.state_age)
}

impl StateMapping for MaximumAge {
    fn decide(&self, server: &Server, _listing: &Question) -> Answer {
        let idle = server.state == ServerState::Running && server.in_flight == Operation::None && !server.suspended;
        let is_old = server.age >= self.max_age_hours.saturating_mul(HOUR);
        if !idle || !is_old || unused(server) < self.unused_minutes.saturating_mul(MINUTE) {
            return Answer::defer();
        }
        let (hours, minutes) = (server.age / HOUR, unused(server) / MINUTE);
        let unused = match server.unused_for {
            Some(_) => format!("was not used for {minutes} min"),
            None => format!("was not seen in use for the {minutes} min that it runs"),
        };
        Answer::reap().because(format!("it is {hours} h old, and {unused}"))
    }

    fn decide_all(&self, question: &Question) -> Vec<Answer> {
        let mut answers: Vec<Answer> = question.servers.iter().map(|server| self.decide(server, question)).collect();
        let going = question.servers.iter().filter(|server| server.in_flight == Operation::Cleanup).count();
        let mut due: Vec<(Milliseconds, &mut Answer)> =
            question.servers.iter().map(|server| server.age).zip(&mut answers).collect();
        due.retain(|(_, answer)| **answer != Answer::defer());
        due.sort_by_key(|(age, _)| Reverse(*age));
        for (_, answer) in due.into_iter().skip((self.at_a_time as usize).saturating_sub(going)) {
            *answer = Answer::defer();
        }
        answers
    }
}

export_policy!(MaximumAge: state_mapping);

#[cfg(test)]
mod tests {
    use windlass_guest_sdk::testing::{configure, server, state_mapping_question};

    use super::*;

    /// A running server of so many hours that was used so many minutes ago.
    fn used(hours: u64, minutes: u64) -> Server {
        let (age, unused_for) = (hours * HOUR, Some(minutes * MINUTE));
        Server { age, state_age: age, unused_for, ..server(ServerState::Running) }
    }

    /// Which of the servers go.
    fn reaped(settings: &str, servers: &[Server]) -> Vec<usize> {
        let policy: MaximumAge = configure(settings).unwrap_or_else(|error| panic!("{error}"));
        let answers = policy.decide_all(&state_mapping_question(servers));
        assert_eq!(answers.len(), servers.len());
        let reaped =
            |(position, answer): (usize, &Answer)| (answer.verdict == Answer::reap().verdict).then_some(position);
        answers.iter().enumerate().filter_map(reaped).collect()
    }

    #[test]
    fn a_server_goes_that_is_old_and_was_not_used_for_long() {
        assert_eq!(reaped("{}", &[used(24, 120)]), [0]);
        for stays in [used(23, 120), used(24, 119), used(1000, 0)] {
            assert!(reaped("{}", &[stays]).is_empty(), "{stays:?}");
        }
    }

    #[test]
    fn after_a_restart_unused_counts_from_the_first_look() {
        let watched = |minutes| Server { unused_for: None, state_age: minutes * MINUTE, ..used(1000, 0) };
        assert!(reaped("{}", &[watched(119)]).is_empty());
        assert_eq!(reaped("{}", &[watched(120)]), [0]);
    }

    #[test]
    fn the_oldest_goes_first_and_one_at_a_time() {
        let servers = [used(30, 500), used(50, 500), used(40, 500)];
        assert_eq!(reaped("{}", &servers), [1]);
        assert_eq!(reaped(r#"{"at-a-time": 2}"#, &servers), [1, 2]);
        assert!(reaped(r#"{"at-a-time": 0}"#, &servers).is_empty());
    }

    #[test]
    fn the_next_one_waits_until_the_last_one_is_gone() {
        let going = Server { in_flight: Operation::Cleanup, ..used(60, 500) };
        assert!(reaped("{}", &[used(50, 500), going]).is_empty());
        assert_eq!(reaped(r#"{"at-a-time": 2}"#, &[used(50, 500), going, used(51, 500)]), [2]);
    }

    #[test]
    fn only_a_server_that_runs_and_is_left_alone_goes() {
        let old = used(1000, 1000);
        for stays in [
            Server { state: ServerState::Stopped, ..old },
            Server { state: ServerState::Starting, ..old },
            Server { in_flight: Operation::Create, ..old },
            Server { in_flight: Operation::Other, ..old },
            Server { suspended: true, ..old },
        ] {
            assert!(reaped("{}", &[stays]).is_empty(), "{stays:?}");
        }
    }

    #[test]
    fn settings_that_would_kill_every_job_are_refused() {
        let refused = configure::<MaximumAge>(r#"{"unused-minutes": 0}"#).err();
        assert!(refused.is_some_and(|words| words.contains("unused-minutes")));
    }
}
