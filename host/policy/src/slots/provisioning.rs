//! Slot `provisioning`: how a cluster recovers when one of its operations failed (`windlass:policy/provisioning`).

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::slot::{self, Deferred, EXAMPLE_NOW_MS, Slot};
use super::types::Failure;
use crate::slot_name::SlotName;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Create.
    #[component(name = "create")]
    Create,
    /// Scale.
    #[component(name = "scale")]
    Scale,
    /// Terminate.
    #[component(name = "terminate")]
    Terminate,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// Where it failed. `create` goes validate, servers, wait, prepare, configure, start; `scale` goes decommission,
/// resize, configure, start; `terminate` goes decommission, servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Validate.
    #[component(name = "validate")]
    Validate,
    /// Servers.
    #[component(name = "servers")]
    Servers,
    /// Wait.
    #[component(name = "wait")]
    Wait,
    /// Prepare.
    #[component(name = "prepare")]
    Prepare,
    /// Decommission.
    #[component(name = "decommission")]
    Decommission,
    /// Resize.
    #[component(name = "resize")]
    Resize,
    /// Configure.
    #[component(name = "configure")]
    Configure,
    /// Start.
    #[component(name = "start")]
    Start,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// What a node is to the operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
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
    /// Name.
    pub name: String,
    /// Group.
    pub group: String,
    /// Role.
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
    /// Name.
    pub name: String,
    /// Before.
    pub before: u32,
    /// Wanted.
    pub wanted: u32,
}

/// A failed operation.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// Now. Milliseconds since 1970-01-01T00:00:00Z.
    pub now: u64,
    /// Random.
    pub random: u64,
    /// Cluster.
    pub cluster: String,
    /// Operation.
    pub operation: Operation,
    /// Stage.
    pub stage: Stage,
    /// Cause.
    pub cause: Failure,
    /// Groups.
    pub groups: Vec<Group>,
    /// Nodes.
    pub nodes: Vec<Node>,
}

/// The state in which the cluster is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    /// Active.
    #[component(name = "active")]
    Active,
    /// Error.
    #[component(name = "error")]
    Error,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recovery {
    /// State.
    pub state: ClusterState,
    /// Positions in `nodes`. Exactly these are deleted.
    pub delete: Vec<u32>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Defer.
    #[component(name = "defer")]
    Defer,
    /// Recover.
    #[component(name = "recover")]
    Recover(Recovery),
}

/// The verdict and why.
pub type Answer = slot::Answer<Verdict>;

/// The slot `provisioning`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provisioning;

impl Slot for Provisioning {
    const NAME: SlotName = SlotName::Provisioning;
    type Question = Question;
    type Answer = Answer;

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// Every position exists, and none is named twice.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        let Verdict::Recover(recovery) = &answer.verdict else { return Ok(()) };
        let mut named = vec![false; question.nodes.len()];
        for position in &recovery.delete {
            match named.get_mut(*position as usize) {
                None => {
                    return Err(format!(
                        "the recovery deletes node {position}, and there are only {}",
                        question.nodes.len()
                    ));
                }
                Some(true) => return Err(format!("the recovery deletes node {position} twice")),
                Some(named) => *named = true,
            }
        }
        Ok(())
    }

    /// The cluster is left in error, and no node is deleted.
    fn keep(_question: &Question) -> Answer {
        Answer { verdict: Verdict::Recover(Recovery { state: ClusterState::Error, delete: Vec::new() }), reason: None }
    }

    fn example() -> Question {
        let node = |name: &str, role, exists| Node {
            name: name.into(),
            group: "workers".into(),
            role,
            exists,
            decommissioned: false,
            configured: false,
        };
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            cluster: "example".into(),
            operation: Operation::Scale,
            stage: Stage::Resize,
            cause: Failure::example(),
            groups: vec![Group { name: "workers".into(), before: 2, wanted: 3 }],
            nodes: vec![
                node("workers-1", NodeRole::Staying, true),
                node("workers-2", NodeRole::Leaving, true),
                node("workers-3", NodeRole::Made, false),
            ],
        }
    }
}
