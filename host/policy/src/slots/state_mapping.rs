//! Slot `state-mapping`: what an autoscaler is told about each server, and what is done about it
//! (`windlass:policy/state-mapping`). The one slot whose question is a batch: one answer for each server.

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::slot::{self, Deferred, EXAMPLE_NOW_MS, Slot};
use crate::slot_name::SlotName;

/// Watched tags at most: each server has one bit for each.
pub const MAX_WATCHED_TAGS: usize = u64::BITS as usize;

/// Scaleway's states of an Instance server. It has no error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// Starting.
    #[component(name = "starting")]
    Starting,
    /// Running.
    #[component(name = "running")]
    Running,
    /// Stopping.
    #[component(name = "stopping")]
    Stopping,
    /// Stopped.
    #[component(name = "stopped")]
    Stopped,
    /// Stopped in place.
    #[component(name = "stopped-in-place")]
    StoppedInPlace,
    /// Locked.
    #[component(name = "locked")]
    Locked,
    /// A word this host does not know.
    #[component(name = "other")]
    Other,
}

/// Scaleway's `state_detail`. "booting kernel" can last for as long as a server runs, when its image has no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum StateDetail {
    /// The empty text.
    #[component(name = "none")]
    None,
    /// Allocating node.
    #[component(name = "allocating-node")]
    AllocatingNode,
    /// Provisioning node.
    #[component(name = "provisioning-node")]
    ProvisioningNode,
    /// Starting.
    #[component(name = "starting")]
    Starting,
    /// Booting kernel.
    #[component(name = "booting-kernel")]
    BootingKernel,
    /// Booted.
    #[component(name = "booted")]
    Booted,
    /// Ready.
    #[component(name = "ready")]
    Ready,
    /// Stopping.
    #[component(name = "stopping")]
    Stopping,
    /// Stopping in place.
    #[component(name = "stopping-in-place")]
    StoppingInPlace,
    /// Stopped in place.
    #[component(name = "stopped-in-place")]
    StoppedInPlace,
    /// Terminating.
    #[component(name = "terminating")]
    Terminating,
    /// Rebooting.
    #[component(name = "rebooting")]
    Rebooting,
    /// A word this host does not know.
    #[component(name = "other")]
    Other,
}

/// An operation of ours that is working on the server at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// None.
    #[component(name = "none")]
    None,
    /// Create.
    #[component(name = "create")]
    Create,
    /// Cleanup.
    #[component(name = "cleanup")]
    Cleanup,
    /// Suspend.
    #[component(name = "suspend")]
    Suspend,
    /// Resume.
    #[component(name = "resume")]
    Resume,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// One server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Server {
    /// State.
    pub state: ServerState,
    /// Detail.
    pub detail: StateDetail,
    /// Since Scaleway created it. Milliseconds.
    pub age: u64,
    /// Since it was first seen in this state. Milliseconds.
    #[component(name = "state-age")]
    pub state_age: u64,
    /// Whether it was ever seen running.
    #[component(name = "has-run")]
    pub has_run: bool,
    /// What we are doing to it now.
    #[component(name = "in-flight")]
    pub in_flight: Operation,
    /// Whether it was stopped in place by a suspension of ours that nobody has resumed.
    pub suspended: bool,
    /// Position of its type in [`Question::server_types`].
    #[component(name = "server-type")]
    pub server_type: u32,
    /// Bit n, from the lowest, is set when the server carries the tag at position n in [`Question::watched_tags`].
    #[component(name = "watched-tags")]
    pub watched_tags: u64,
}

impl Server {
    /// Whether it is there to work: it runs, and no cleanup of it is under way, to which a reap would add nothing.
    fn runs(&self) -> bool {
        self.state == ServerState::Running && self.in_flight != Operation::Cleanup
    }
}

/// The servers of one listing.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// When the listing was taken. Milliseconds since 1970-01-01T00:00:00Z.
    pub now: u64,
    /// The zone of all these servers.
    pub zone: String,
    /// The group of all these servers, where they were listed for one.
    pub group: Option<String>,
    /// The server types (Scaleway's commercial types) of these servers, each once.
    #[component(name = "server-types")]
    pub server_types: Vec<String>,
    /// The tags that the operator has a policy watch, at most [`MAX_WATCHED_TAGS`].
    #[component(name = "watched-tags")]
    pub watched_tags: Vec<String>,
    /// Servers.
    pub servers: Vec<Server>,
}

/// What to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// Leave it out of this report. An autoscaler tolerates that for a few reports, then forgets the server.
    #[component(name = "none")]
    None,
    /// Creating.
    #[component(name = "creating")]
    Creating,
    /// Running.
    #[component(name = "running")]
    Running,
    /// Only true while a cleanup is in flight: the host replaces it by `none` where none is.
    #[component(name = "deleting")]
    Deleting,
    /// Deleted.
    #[component(name = "deleted")]
    Deleted,
    /// Timeout.
    #[component(name = "timeout")]
    Timeout,
    /// Suspending.
    #[component(name = "suspending")]
    Suspending,
    /// Suspended.
    #[component(name = "suspended")]
    Suspended,
    /// Resuming.
    #[component(name = "resuming")]
    Resuming,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// None.
    #[component(name = "none")]
    None,
    /// The host cleans the server up with everything that belongs to it. It reports `deleting` only while that
    /// cleanup is really in flight.
    #[component(name = "reap")]
    Reap,
}

/// What to report about one server and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Mapping {
    /// Report.
    pub report: Report,
    /// Action.
    pub action: Action,
}

/// The judgement about one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The next policy decides about this server.
    #[component(name = "defer")]
    Defer,
    /// Mapped.
    #[component(name = "mapped")]
    Mapped(Mapping),
}

/// One server's verdict and why.
pub type Answer = slot::Answer<Verdict>;

/// The slot `state-mapping`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateMapping;

impl Slot for StateMapping {
    const NAME: SlotName = SlotName::StateMapping;
    type Question = Question;
    type Answer = Vec<Answer>;

    fn deferred(answers: &Vec<Answer>) -> Deferred {
        let items: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.verdict == Verdict::Defer)
            .map(|(index, _)| index)
            .collect();
        match items.len() {
            0 => Deferred::Nothing,
            count if count == answers.len() => Deferred::Whole,
            _ => Deferred::Items(items),
        }
    }

    fn items(question: &Question) -> usize {
        question.servers.len()
    }

    fn part(question: &Question, items: &[usize]) -> Question {
        Question {
            now: question.now,
            zone: question.zone.clone(),
            group: question.group.clone(),
            server_types: question.server_types.clone(),
            watched_tags: question.watched_tags.clone(),
            servers: items.iter().map(|item| question.servers[*item]).collect(),
        }
    }

    fn merge(answers: &mut Vec<Answer>, items: &[usize], later: Vec<Answer>) {
        for (item, answer) in items.iter().zip(later) {
            answers[*item] = answer;
        }
    }

    fn select(answers: &Vec<Answer>, items: &[usize]) -> Vec<Answer> {
        items.iter().map(|item| answers[*item].clone()).collect()
    }

    fn running(question: &Question) -> usize {
        question.servers.iter().filter(|server| server.runs()).count()
    }

    fn removed(question: &Question, answers: &Vec<Answer>) -> usize {
        let is_reaped =
            |answer: &Answer| matches!(answer.verdict, Verdict::Mapped(Mapping { action: Action::Reap, .. }));
        let servers = question.servers.iter().zip(answers);
        servers.filter(|(server, answer)| server.runs() && is_reaped(answer)).count()
    }

    /// One answer for each server.
    fn check(question: &Question, answers: &Vec<Answer>) -> Result<(), String> {
        if answers.len() == question.servers.len() {
            return Ok(());
        }
        Err(format!("{} answers for {} servers", answers.len(), question.servers.len()))
    }

    /// Reports only what is plainly so, and reaps nothing.
    fn keep(question: &Question) -> Vec<Answer> {
        let keep_one = |server: &Server| {
            let report = match (server.in_flight, server.state) {
                (Operation::Cleanup, _) => Report::Deleting,
                (Operation::Create, _) | (Operation::None, ServerState::Starting) => Report::Creating,
                (Operation::Suspend, _) => Report::Suspending,
                (Operation::Resume, _) => Report::Resuming,
                (Operation::None, ServerState::Running) => Report::Running,
                (Operation::None, ServerState::StoppedInPlace) if server.suspended => Report::Suspended,
                (Operation::None | Operation::Other, _) => Report::None,
            };
            Answer { verdict: Verdict::Mapped(Mapping { report, action: Action::None }), reason: None }
        };
        question.servers.iter().map(keep_one).collect()
    }

    fn example() -> Question {
        let server = |state, detail, has_run, in_flight| Server {
            state,
            detail,
            age: 90_000,
            state_age: 30_000,
            has_run,
            in_flight,
            suspended: false,
            server_type: u32::from(has_run),
            watched_tags: u64::from(has_run),
        };
        Question {
            now: EXAMPLE_NOW_MS,
            zone: "fr-par-1".into(),
            group: Some("example".into()),
            server_types: vec!["DEV1-S".into(), "DEV1-M".into()],
            watched_tags: vec!["debug".into()],
            servers: vec![
                server(ServerState::Running, StateDetail::Booted, true, Operation::None),
                server(ServerState::Stopped, StateDetail::None, false, Operation::Create),
                server(ServerState::Stopped, StateDetail::None, true, Operation::None),
                server(ServerState::Starting, StateDetail::AllocatingNode, false, Operation::Create),
                server(ServerState::Stopping, StateDetail::Stopping, true, Operation::Cleanup),
                server(ServerState::Other, StateDetail::Other, false, Operation::None),
            ],
        }
    }
}
