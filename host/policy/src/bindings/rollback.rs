//! `windlass:policy/rollback`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Failure, ResourceKind, Subject, Timestamp};

/// How the host came to know of a resource.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Its creation was answered, and the journal holds its id.
    #[component(name = "journal")]
    Journal,
    /// It was found by its operation tag; the answer to its creation was lost.
    #[component(name = "tag-search")]
    TagSearch,
    /// It was found attached to a resource of ours.
    #[component(name = "attachment")]
    Attachment,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// A resource that exists.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resource {
    pub kind: ResourceKind,
    pub id: String,
    pub name: String,
    /// Scaleway's state or status, word for word, where the kind has one.
    pub state: Option<String>,
    /// The position in `resources` of the server that it is attached to, where it is attached to one of them.
    #[component(name = "attached-to")]
    pub attached_to: Option<u32>,
    /// Whether it carries the owner tag. What does not may be kept or detached, never deleted.
    pub owned: bool,
    pub evidence: Evidence,
}

/// What is there, and why it is to be undone.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    pub now: Timestamp,
    pub random: u64,
    /// The operation that failed: `create-server`, or `cleanup-server` for an ordinary deletion.
    pub operation: String,
    /// Whose the resources are.
    pub subject: Subject,
    /// What failed. Absent when nothing did and the server is simply no longer wanted.
    pub cause: Option<Failure>,
    /// The step that failed, with the cause.
    #[component(name = "failed-step")]
    pub failed_step: Option<String>,
    pub resources: Vec<Resource>,
}

/// What to do with a resource.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Make it cease to exist, from whatever state it is in. A server goes by Scaleway's `terminate` when its local
    /// volumes go too, otherwise it is powered off and deleted, which leaves them.
    #[component(name = "delete")]
    Delete,
    /// Separate it from its server (IP addresses, volumes and private NICs).
    #[component(name = "detach")]
    Detach,
    /// Power it off and wait until it has stopped (servers).
    #[component(name = "power-off")]
    PowerOff,
    /// Leave it in place on purpose. It is marked as kept, reported, and left alone by the sweep.
    #[component(name = "keep")]
    Keep,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// Position in `resources`.
    pub resource: u32,
    pub action: Action,
    /// Positions in the plan of the steps that must have ended before this one begins.
    pub after: Vec<u32>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[component(name = "defer")]
    Defer,
    #[component(name = "plan")]
    Plan(Vec<Step>),
}

/// The verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
