//! `windlass:policy/release`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Failure, Milliseconds, Money, Subject, Timestamp};

/// What sort of machine it is.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum MachineKind {
    #[component(name = "instance")]
    Instance,
    #[component(name = "apple-silicon-server")]
    AppleSiliconServer,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// Why the question is asked.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The owner released the machine.
    #[component(name = "released")]
    Released,
    /// Its set-up failed again.
    #[component(name = "bootstrap-failed")]
    BootstrapFailed,
    /// It carries a claim that no living owner explains, and somebody asked to take such machines back.
    #[component(name = "reclaim")]
    Reclaim,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// What the owner asked for (an annotation, for example). A policy may refuse it.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Requested {
    #[component(name = "return-to-pool")]
    ReturnToPool,
    #[component(name = "terminate")]
    Terminate,
    #[component(name = "keep")]
    Keep,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// What a machine was doing, as far as its host can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Activity {
    /// When it was last used: GitLab Runner asked how to connect to it or whether it is alive, as it does before each
    /// job. Absent where that was not seen.
    #[component(name = "last-used")]
    pub last_used: Option<Timestamp>,
    /// How often GitLab Runner asked how to connect to it: at least once for each job. Absent where that is not
    /// counted.
    pub connections: Option<u32>,
    /// Whether its Kubernetes Node is ready, as its Machine says. Absent where it has none or nobody says.
    #[component(name = "node-ready")]
    pub node_ready: Option<bool>,
    /// Since when it is so. Absent where nobody says.
    #[component(name = "node-ready-since")]
    pub node_ready_since: Option<Timestamp>,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Machine {
    pub kind: MachineKind,
    pub id: String,
    pub name: String,
    pub zone: String,
    /// Scaleway's type: `M4-S`, `DEV1-S`.
    #[component(name = "machine-type")]
    pub machine_type: String,
    /// Scaleway's status, word for word.
    pub status: String,
    /// The name of the operating system now installed, where known.
    #[component(name = "operating-system")]
    pub operating_system: Option<String>,
    /// The prefix of the pool that it belongs to. Without one it cannot return.
    #[component(name = "pool-prefix")]
    pub pool_prefix: Option<String>,
    /// Whether the machine was taken from the pool (and not ordered for this owner).
    pub adopted: bool,
    #[component(name = "created-at")]
    pub created_at: Timestamp,
    /// Before this instant Scaleway refuses to delete it.
    #[component(name = "deletable-at")]
    pub deletable_at: Option<Timestamp>,
    /// Whether its deletion is scheduled already.
    #[component(name = "deletion-scheduled")]
    pub deletion_scheduled: bool,
    /// Failed set-ups since it was claimed.
    #[component(name = "bootstrap-failures")]
    pub bootstrap_failures: u32,
    /// Whether it was rebooted for recovery since it was claimed.
    pub rebooted: bool,
    /// What an hour of it costs by Scaleway's catalogue. Absent where that is not known.
    #[component(name = "price-per-hour")]
    pub price_per_hour: Option<Money>,
    /// What it was doing.
    pub activity: Activity,
}

/// The actions that can be refused.
#[derive(Clone, Copy, Hash, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    #[component(name = "return-to-pool")]
    ReturnToPool,
    #[component(name = "terminate")]
    Terminate,
    #[component(name = "schedule-deletion")]
    ScheduleDeletion,
    #[component(name = "reboot")]
    Reboot,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// What was tried and how it was refused.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Refusal {
    pub action: Action,
    pub failure: Failure,
    /// The instant from which it would be accepted, where Scaleway said so.
    #[component(name = "not-before")]
    pub not_before: Option<Timestamp>,
}

/// The machine and the circumstances.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    pub now: Timestamp,
    pub random: u64,
    pub trigger: Trigger,
    /// Whose machine it is, and who asks.
    pub subject: Subject,
    pub machine: Machine,
    pub requested: Option<Requested>,
    /// Absent at the first asking.
    pub refusal: Option<Refusal>,
    /// How often the question has been asked in this release, from 1.
    pub attempt: u32,
}

/// How a machine returns to its pool: renamed to `<prefix><uuid>` and reinstalled, which wipes its disk.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PoolReturn {
    /// The operating system to install. Absent: the one that it has.
    #[component(name = "operating-system")]
    pub operating_system: Option<String>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[component(name = "defer")]
    Defer,
    #[component(name = "return-to-pool")]
    ReturnToPool(PoolReturn),
    /// Delete it now. An Apple silicon host under its billing floor refuses.
    #[component(name = "terminate")]
    Terminate,
    /// Let Scaleway delete it as soon as it can be deleted.
    #[component(name = "schedule-deletion")]
    ScheduleDeletion,
    /// Leave it as it is and end the release. It has left its owner all the same; after a failed set-up, it stays
    /// with its owner, who sets it up again.
    #[component(name = "keep")]
    Keep,
    /// Ask again after so many milliseconds.
    #[component(name = "retry-after")]
    RetryAfter(Milliseconds),
    /// Reboot it and give it back to its owner, who sets it up again (recovery).
    #[component(name = "reboot")]
    Reboot,
}

/// The verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
