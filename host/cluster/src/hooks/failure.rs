//! How hooks fail, and what policies learn of it.

use std::time::Duration;

use windlass_policy::is_unprintable;
use windlass_policy::slots::types::{Failure, FailureClass};

use super::output::HookOutput;
use crate::failure::short;

/// `EX_TEMPFAIL` of sysexits.h: "temporary failure; user is invited to retry".
pub(super) const EXIT_TRY_AGAIN: i32 = 75;
/// The contract's bound of [`Failure::message`].
const MAX_MESSAGE_LEN: usize = 1024;

/// A hook that failed: which, how, and what it had said until then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{hook} {problem}{}", self.last_words())]
pub struct HookFailure {
    /// The hook, in words.
    pub hook: String,
    pub problem: HookProblem,
    /// What it said, and which nodes are done all the same.
    pub output: HookOutput,
}

/// What can go wrong with a hook. The words continue a sentence that begins with the hook.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HookProblem {
    /// The program is not there or could not be started.
    #[error("could not be started: {0}")]
    NotStarted(String),
    /// It ended with an exit code that is not 0.
    #[error("ended with exit code {0}")]
    ExitCode(i32),
    /// A signal that was not ours ended it.
    #[error("was ended by signal {0}")]
    Signal(String),
    /// It took too long and was ended.
    #[error("did not end within its time limit of {} s and was ended", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The operation was called off while it ran, and it was ended.
    #[error("was ended, since the operation was cancelled")]
    CalledOff,
    /// The signing secret cannot be read.
    #[error("cannot be signed: {0}")]
    Secret(String),
    /// The private key cannot be read.
    #[error("has no usable key: {0}")]
    Key(String),
    /// There was no connection: the hook did not begin.
    #[error("could not be reached: {0}")]
    Connection(String),
    /// The connection was lost while the hook ran: how it ended is not known.
    #[error("lost its connection before it ended: {0}")]
    ConnectionLost(String),
    /// What ran it is gone without a result: how it ended is not known.
    #[error("ended, and its result is not known: {0}")]
    Vanished(String),
    /// The webhook's answer was not 2xx.
    #[error("was answered with HTTP {status}{}", .location.as_deref().map(|to| format!(" (a redirect to {to}, which is \
        not followed)")).unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Where a redirect points.
        location: Option<String>,
    },
    /// The node did not let the user in.
    #[error("could not log in: the node does not accept the key for user {user}")]
    LoginRefused {
        /// Who tried.
        user: String,
    },
    /// The node showed another host key than it must.
    #[error("stopped before logging in: the node shows the host key {shown}, but must show {expected}")]
    HostKey {
        /// The fingerprint it showed.
        shown: String,
        /// The fingerprint it must show, or what says so.
        expected: String,
    },
    /// The node has no address of the kind that the hook asks for.
    #[error("found no address of the node to connect to: give it one, or set ssh.address")]
    NoAddress,
    /// The command failed on some nodes; each with its own problem.
    #[error("failed on {} of {of} nodes: {}", .failed.len(), first_of(.failed))]
    Nodes {
        /// Those that failed.
        failed: Vec<NodeFailure>,
        /// The number of nodes.
        of: usize,
    },
}

/// How it failed on one node.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{node} {problem}")]
pub struct NodeFailure {
    pub node: String,
    pub problem: HookProblem,
}

fn first_of(failed: &[NodeFailure]) -> String {
    const SHOWN: usize = 3;
    let mut words = failed.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if failed.len() > SHOWN {
        words.push_str(&format!("; and {} more", failed.len() - SHOWN));
    }
    words
}

impl HookProblem {
    /// Whether (and as what) it may pass by itself. `None`: the user's own code, or configuration, has failed.
    fn passing(&self) -> Option<FailureClass> {
        match self {
            Self::ExitCode(EXIT_TRY_AGAIN) => Some(FailureClass::TransientState),
            Self::Connection(_) | Self::ConnectionLost(_) => Some(FailureClass::Connection),
            Self::Refused { status: 429, .. } => Some(FailureClass::RateLimited),
            Self::Refused { status: 502..=504, .. } => Some(FailureClass::Gateway),
            Self::Refused { status: 500..=599, .. } => Some(FailureClass::ServerError),
            // As patient as its least patient part: one node whose command failed for good fails the stage.
            Self::Nodes { failed, .. } => {
                let mut classes = failed.iter().map(|failure| failure.problem.passing());
                let first = classes.next()??;
                classes.try_fold(first, |slowest, class| {
                    Some(if class? == slowest { slowest } else { FailureClass::Connection })
                })
            }
            _ => None,
        }
    }

    /// Whether time ran out, on at least one node.
    #[must_use]
    pub fn is_time_out(&self) -> bool {
        match self {
            Self::TimedOut(_) => true,
            Self::Nodes { failed, .. } => failed.iter().any(|failure| failure.problem.is_time_out()),
            _ => false,
        }
    }

    /// Whether it is known how far it came, on each node: it was not ended in the middle.
    #[must_use]
    pub fn is_end_known(&self) -> bool {
        match self {
            Self::Signal(_) | Self::TimedOut(_) | Self::CalledOff | Self::ConnectionLost(_) | Self::Vanished(_) => {
                false
            }
            // A gateway says nothing of what is behind it.
            Self::Refused { status: 502 | 504, .. } => false,
            Self::Nodes { failed, .. } => failed.iter().all(|failure| failure.problem.is_end_known()),
            _ => true,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl HookFailure {
    /// The failure as the `provisioning` slot gets it: `hook-failed` or `hook-timed-out`.
    #[must_use]
    pub fn for_provisioning(&self) -> Failure {
        let class = if self.problem.is_time_out() { FailureClass::HookTimedOut } else { FailureClass::HookFailed };
        self.failure(class)
    }

    /// The failure as the `retry` slot gets it. What may pass by itself has the class that says so: no connection (a
    /// node's sshd that is not up yet), HTTP 429 and 5xx, exit code 75 (`EX_TEMPFAIL`). All else is the user's own
    /// word, `hook-failed` or `hook-timed-out`, which the default policy never repeats.
    #[must_use]
    pub fn for_retry(&self) -> Failure {
        match self.problem.passing() {
            Some(class) => self.failure(class),
            None => self.for_provisioning(),
        }
    }

    fn failure(&self, class: FailureClass) -> Failure {
        let mut message = self.to_string();
        if message.len() > MAX_MESSAGE_LEN {
            let mut end = MAX_MESSAGE_LEN - '…'.len_utf8();
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push('…');
        }
        Failure {
            class,
            message,
            method: None,
            path: None,
            status: self.problem.status(),
            error_type: None,
            resource: None,
            // The hook is the user's: whether it took effect nobody here can look up. Hooks are to be idempotent.
            ambiguous: false,
        }
    }

    /// What it said last: on stderr, or else on stdout; under ssh, on the first node that failed.
    fn last_words(&self) -> String {
        let of = |stderr: &super::Captured, stdout: &super::Captured| {
            let words = stderr.last_lines(3);
            if words.is_empty() { stdout.last_lines(3) } else { words }
        };
        let words = match &self.problem {
            HookProblem::Nodes { failed, .. } => failed
                .iter()
                .filter_map(|failure| self.output.nodes.iter().find(|node| node.node == failure.node))
                .map(|node| of(&node.stderr, &node.stdout))
                .find(|words| !words.is_empty())
                .unwrap_or_default(),
            _ => of(&self.output.stderr, &self.output.stdout),
        };
        if words.is_empty() { words } else { format!("; it said: {}", short(printable(&words))) }
    }
}

/// One line without anything that a terminal would obey: the words are the user's program's, and stand in errors,
/// events and logs.
fn printable(words: &str) -> String {
    words.replace('\n', " / ").chars().map(|c| if is_unprintable(c) { '\u{FFFD}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Captured, NodeOutput};
    use super::*;

    fn failure(problem: HookProblem) -> HookFailure {
        HookFailure { hook: "program ./configure".into(), problem, output: HookOutput::default() }
    }

    fn nodes(problems: Vec<HookProblem>) -> HookProblem {
        let of = problems.len() + 1;
        let failed = problems
            .into_iter()
            .enumerate()
            .map(|(index, problem)| NodeFailure { node: format!("farm-workers-{}", index + 1), problem })
            .collect();
        HookProblem::Nodes { failed, of }
    }

    #[test]
    fn only_what_can_pass_by_itself_is_offered_to_the_retry_slot_as_passing() {
        use FailureClass as Class;
        let lost = || HookProblem::Connection("refused".into());
        let refused = |status| HookProblem::Refused { status, location: None };
        for (problem, class) in [
            (HookProblem::ExitCode(1), Class::HookFailed),
            (HookProblem::ExitCode(75), Class::TransientState),
            (HookProblem::Signal("9".into()), Class::HookFailed),
            (HookProblem::TimedOut(Duration::from_secs(1)), Class::HookTimedOut),
            (lost(), Class::Connection),
            (HookProblem::ConnectionLost("reset".into()), Class::Connection),
            (HookProblem::Vanished("deleted".into()), Class::HookFailed),
            (refused(429), Class::RateLimited),
            (refused(503), Class::Gateway),
            (refused(500), Class::ServerError),
            (refused(404), Class::HookFailed),
            (refused(302), Class::HookFailed),
            (HookProblem::Secret("no".into()), Class::HookFailed),
            (HookProblem::LoginRefused { user: "root".into() }, Class::HookFailed),
            (nodes(vec![lost(), lost()]), Class::Connection),
            (nodes(vec![HookProblem::ExitCode(75)]), Class::TransientState),
            (nodes(vec![HookProblem::ExitCode(75), lost()]), Class::Connection),
            (nodes(vec![lost(), HookProblem::ExitCode(2)]), Class::HookFailed),
            (nodes(vec![lost(), HookProblem::TimedOut(Duration::from_secs(1))]), Class::HookTimedOut),
        ] {
            let failure = failure(problem);
            assert_eq!(failure.for_retry().class, class, "{failure}");
            let cause = failure.for_provisioning().class;
            assert!(matches!(cause, Class::HookFailed | Class::HookTimedOut), "{failure}: {cause:?}");
        }
    }

    #[test]
    fn the_message_holds_the_programs_last_words_within_the_contracts_bound() {
        let mut failure = failure(HookProblem::ExitCode(3));
        failure.output.stderr.text = "starting\nno disk\u{1b}[2J left\n".into();
        assert_eq!(
            failure.to_string(),
            "program ./configure ended with exit code 3; it said: starting / no disk\u{FFFD}[2J left"
        );
        failure.output.stderr.text = "é".repeat(4000);
        let message = failure.for_provisioning().message;
        assert!(message.len() <= MAX_MESSAGE_LEN && message.ends_with('…'), "{}", message.len());
    }

    #[test]
    fn failures_on_many_nodes_are_told_briefly_with_the_first_words_that_were_said() {
        let mut failure = failure(nodes(vec![HookProblem::ExitCode(1); 5]));
        failure.output.nodes = vec![NodeOutput {
            node: "farm-workers-2".into(),
            succeeded: false,
            stdout: Captured::default(),
            stderr: Captured { text: "disk full".into(), dropped: 0 },
            host_key: None,
        }];
        let words = failure.to_string();
        assert!(words.contains("failed on 5 of 6 nodes: farm-workers-1 ended with exit code 1"), "{words}");
        assert!(words.contains("and 2 more") && words.ends_with("it said: disk full"), "{words}");
    }
}
