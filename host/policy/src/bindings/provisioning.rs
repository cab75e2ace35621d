//! `windlass:policy/provisioning`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Failure, Subject, Timestamp};

/// What was being done.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    #[component(name = "create")]
    Create,
    #[component(name = "scale")]
    Scale,
    #[component(name = "terminate")]
    Terminate,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// Where it failed. `create` goes validate, servers, wait, prepare, configure, start; `scale` goes validate,
/// decommission, resize, configure, start; `terminate` goes decommission, servers.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    #[component(name = "validate")]
    Validate,
    #[component(name = "servers")]
    Servers,
    #[component(name = "wait")]
    Wait,
    #[component(name = "prepare")]
    Prepare,
    #[component(name = "decommission")]
    Decommission,
    #[component(name = "resize")]
    Resize,
    #[component(name = "configure")]
    Configure,
    #[component(name = "start")]
    Start,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// What a node is to the operation that failed.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// It was there before and is to stay.
    #[component(name = "staying")]
    Staying,
    /// It was there before and is to go.
    #[component(name = "leaving")]
    Leaving,
    /// It was made by this operation.
    #[component(name = "made")]
    Made,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Node {
    pub name: String,
    pub group: String,
    pub role: NodeRole,
    /// Whether it still exists.
    pub exists: bool,
    /// Whether the user's decommission hook has ended well for it.
    pub decommissioned: bool,
    /// Whether the user's configure hook has ended well for it.
    pub configured: bool,
}

/// One node group's counts.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    pub name: String,
    pub before: u32,
    pub wanted: u32,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    pub now: Timestamp,
    pub random: u64,
    /// Whose cluster it is. It names the cluster.
    pub subject: Subject,
    pub operation: Operation,
    pub stage: Stage,
    pub cause: Failure,
    pub groups: Vec<Group>,
    pub nodes: Vec<Node>,
}

/// The state in which the cluster is left.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    #[component(name = "active")]
    Active,
    #[component(name = "error")]
    Error,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recovery {
    pub state: ClusterState,
    /// Positions in `nodes`. Exactly these are deleted.
    pub delete: Vec<u32>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[component(name = "defer")]
    Defer,
    #[component(name = "recover")]
    Recover(Recovery),
}

/// The verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
