//! The default policy of the slot `state-mapping`. Knows what a server's state means to an autoscaler; must not know
//! which autoscaler asks. README.md holds the decisions as a table.

use windlass_guest_sdk::prelude::*;

use state_mapping::{Answer, Operation, Question, Report, Server, ServerState, StateDetail};

settings! {
    /// How long a server may take to become usable.
    pub struct DefaultStateMapping {
        /// How long a server may be on its way to its first run, counted from its creation, before it is reaped. The
        /// same for a server that hangs in `starting` with nothing of ours in flight, counted from when it was seen so.
        /// Milliseconds.
        pub deadline_ms: u64 = 900_000,
    }
    check(self) {
        if self.deadline_ms == 0 {
            return Err("`deadline-ms` is 0: every new server would be reaped before it ran".into());
        }
        Ok(())
    }
}

impl StateMapping for DefaultStateMapping {
    fn decide(&self, server: &Server, _listing: &Question) -> Answer {
        // What we are doing counts for more than what Scaleway says about it in passing.
        match server.in_flight {
            Operation::Cleanup => return Answer::report(Report::Deleting),
            Operation::Other => {
                return Answer::report(Report::None)
                    .because("an operation that this policy does not know is in flight");
            }
            Operation::None | Operation::Create | Operation::Suspend | Operation::Resume => {}
        }
        match server.state {
            ServerState::Running => running(server),
            ServerState::Starting => self.starting(server),
            ServerState::Stopping => self.stopping(server),
            ServerState::Stopped | ServerState::StoppedInPlace => self.stopped(server),
            ServerState::Locked => self.locked(server),
            ServerState::Other => unknown(server),
        }
    }
}

fn running(server: &Server) -> Answer {
    Answer::report(match server.in_flight {
        // Handed out only when the whole creation has ended: tags, user data and the wait for the server are steps of
        // it.
        Operation::Create => Report::Creating,
        Operation::Suspend => Report::Suspending,
        Operation::Resume => Report::Resuming,
        Operation::None | Operation::Cleanup | Operation::Other => Report::Running,
    })
}

/// Neither running nor gone: what an operation of ours makes of it.
fn under_way(server: &Server) -> Option<Report> {
    match server.in_flight {
        Operation::Suspend => Some(Report::Suspending),
        Operation::Resume => Some(Report::Resuming),
        Operation::None | Operation::Create | Operation::Cleanup | Operation::Other => None,
    }
}

fn unknown(server: &Server) -> Answer {
    match server.in_flight {
        // The operation has deadlines of its own and undoes itself.
        Operation::Create => Answer::report(Report::Creating),
        Operation::Suspend => Answer::report(Report::Suspending),
        Operation::Resume => Answer::report(Report::Resuming),
        Operation::None | Operation::Cleanup | Operation::Other => {
            Answer::report(Report::None).because("Scaleway reports a state that this host does not know")
        }
    }
}

impl DefaultStateMapping {
    fn starting(&self, server: &Server) -> Answer {
        if let Some(report) = under_way(server) {
            return Answer::report(report);
        }
        // A server that has run before and starts again (a reboot, somebody's power-on) gets the deadline anew.
        let waited = if server.has_run { server.state_age } else { server.age };
        if waited > self.deadline_ms {
            return Answer::reap().because("it hangs in starting");
        }
        Answer::report(Report::Creating)
    }

    fn stopping(&self, server: &Server) -> Answer {
        if let Some(report) = under_way(server) {
            return Answer::report(report);
        }
        match server.detail {
            // A reboot passes through stopping and starting, and comes back.
            StateDetail::Rebooting => self.starting(server),
            // The operation that suspended it has ended before Scaleway did.
            _ if server.suspended => Answer::report(Report::Suspending),
            _ if server.in_flight == Operation::Create && server.age <= self.deadline_ms => {
                Answer::report(Report::Creating)
            }
            _ => Answer::reap().because("somebody else is stopping it"),
        }
    }

    fn stopped(&self, server: &Server) -> Answer {
        if let Some(report) = under_way(server) {
            return Answer::report(report);
        }
        if server.suspended {
            return Answer::report(Report::Suspended);
        }
        if server.in_flight == Operation::Create {
            // The pause between the creation of a server and its power-on: volumes, tags and user data come in between.
            return match server.age <= self.deadline_ms {
                true => Answer::report(Report::Creating),
                false => Answer::reap().because("it was not powered on before the deadline"),
            };
        }
        if server.has_run {
            return Answer::reap().because("it stopped after it ran");
        }
        if server.state == ServerState::StoppedInPlace {
            return Answer::reap().because("it was stopped in place, and not by a suspension of ours");
        }
        // Never ran, and nothing of ours works on it: after a restart, before the journal has been taken up again.
        if server.age <= self.deadline_ms {
            return Answer::report(Report::Creating);
        }
        Answer::reap().because("it was never powered on, and nothing is in flight")
    }

    fn locked(&self, server: &Server) -> Answer {
        if server.in_flight == Operation::Create && server.age <= self.deadline_ms {
            return Answer::report(Report::Creating);
        }
        // Nobody can use it, stop it or delete it: only Scaleway's support unlocks it. Given up, it gives its capacity
        // back at once; and as it is listed each time, it is judged again as soon as it is unlocked.
        Answer::report(Report::Timeout).because("Scaleway has locked it: it cannot be used or deleted")
    }
}

export_policy!(DefaultStateMapping: state_mapping; silent_panics);

#[cfg(test)]
mod tests;
