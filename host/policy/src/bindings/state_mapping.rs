//! `windlass:policy/state-mapping`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Milliseconds, Subject, Timestamp};

/// Scaleway's states of an Instance server. It has no error state.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    #[component(name = "starting")]
    Starting,
    #[component(name = "running")]
    Running,
    #[component(name = "stopping")]
    Stopping,
    #[component(name = "stopped")]
    Stopped,
    #[component(name = "stopped-in-place")]
    StoppedInPlace,
    #[component(name = "locked")]
    Locked,
    /// A word this host does not know.
    #[component(name = "other")]
    Other,
}

/// Scaleway's `state_detail`. "booting kernel" can last for as long as a server runs, when its image has no agent.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum StateDetail {
    /// The empty text.
    #[component(name = "none")]
    None,
    #[component(name = "allocating-node")]
    AllocatingNode,
    #[component(name = "provisioning-node")]
    ProvisioningNode,
    #[component(name = "starting")]
    Starting,
    #[component(name = "booting-kernel")]
    BootingKernel,
    #[component(name = "booted")]
    Booted,
    #[component(name = "ready")]
    Ready,
    #[component(name = "stopping")]
    Stopping,
    #[component(name = "stopping-in-place")]
    StoppingInPlace,
    #[component(name = "stopped-in-place")]
    StoppedInPlace,
    #[component(name = "terminating")]
    Terminating,
    #[component(name = "rebooting")]
    Rebooting,
    /// A word this host does not know.
    #[component(name = "other")]
    Other,
}

/// An operation of ours that is working on the server at this moment.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    #[component(name = "none")]
    None,
    #[component(name = "create")]
    Create,
    #[component(name = "cleanup")]
    Cleanup,
    #[component(name = "suspend")]
    Suspend,
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
    pub state: ServerState,
    pub detail: StateDetail,
    /// Since Scaleway created it.
    pub age: Milliseconds,
    /// Since it was first seen in this state.
    #[component(name = "state-age")]
    pub state_age: Milliseconds,
    /// Whether it was ever seen running.
    #[component(name = "has-run")]
    pub has_run: bool,
    /// Since GitLab Runner last asked how to connect to it, or whether it is alive: it does so before each job. A job
    /// that began then may still run. Absent where this process has not seen it.
    #[component(name = "unused-for")]
    pub unused_for: Option<Milliseconds>,
    /// What we are doing to it now.
    #[component(name = "in-flight")]
    pub in_flight: Operation,
    /// Whether it was stopped in place by a suspension of ours that nobody has resumed.
    pub suspended: bool,
    /// Position of its type in `server-types` of the question.
    #[component(name = "server-type")]
    pub server_type: u32,
    /// Bit n, from the lowest, is set when the server carries the tag at position n in `watched-tags` of the
    /// question.
    #[component(name = "watched-tags")]
    pub watched_tags: u64,
}

/// The servers of one listing.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// When the listing was taken.
    pub now: Timestamp,
    /// The zone of all these servers.
    pub zone: String,
    /// Whose servers these are. It names their group.
    pub subject: Subject,
    /// The server types (Scaleway's commercial types) of these servers, each once.
    #[component(name = "server-types")]
    pub server_types: Vec<String>,
    /// The tags that the operator has a policy watch, at most 64. Absent on all servers of a kind without tags.
    #[component(name = "watched-tags")]
    pub watched_tags: Vec<String>,
    pub servers: Vec<Server>,
}

/// What to report.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// Leave it out of this report. An autoscaler tolerates that for a few reports, then forgets the server.
    #[component(name = "none")]
    None,
    #[component(name = "creating")]
    Creating,
    #[component(name = "running")]
    Running,
    /// Only true while a cleanup is in flight: the host replaces it by `none` where none is.
    #[component(name = "deleting")]
    Deleting,
    #[component(name = "deleted")]
    Deleted,
    #[component(name = "timeout")]
    Timeout,
    #[component(name = "suspending")]
    Suspending,
    #[component(name = "suspended")]
    Suspended,
    #[component(name = "resuming")]
    Resuming,
}

/// What to do.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
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
    pub report: Report,
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
    #[component(name = "mapped")]
    Mapped(Mapping),
}

/// One server's verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
