//! Slot `release`: what becomes of a machine that its owner no longer wants (`windlass:policy/release`).

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::slot::{self, Deferred, EXAMPLE_NOW_MS, Slot};
use super::types::Failure;
use crate::slot_name::{OnFailure, SlotName};

/// What sort of machine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum MachineKind {
    /// Instance.
    #[component(name = "instance")]
    Instance,
    /// Apple silicon server.
    #[component(name = "apple-silicon-server")]
    AppleSiliconServer,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// Why the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Requested {
    /// Return to pool.
    #[component(name = "return-to-pool")]
    ReturnToPool,
    /// Terminate.
    #[component(name = "terminate")]
    Terminate,
    /// Keep.
    #[component(name = "keep")]
    Keep,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Machine {
    /// Kind.
    pub kind: MachineKind,
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Zone.
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
    /// Created at. Milliseconds since 1970-01-01T00:00:00Z.
    #[component(name = "created-at")]
    pub created_at: u64,
    /// Before this instant Scaleway refuses to delete it. Milliseconds since 1970-01-01T00:00:00Z.
    #[component(name = "deletable-at")]
    pub deletable_at: Option<u64>,
    /// Whether its deletion is scheduled already.
    #[component(name = "deletion-scheduled")]
    pub deletion_scheduled: bool,
    /// Failed set-ups since it was claimed.
    #[component(name = "bootstrap-failures")]
    pub bootstrap_failures: u32,
    /// Whether it was rebooted for recovery since it was claimed.
    pub rebooted: bool,
}

/// The actions that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Return to pool.
    #[component(name = "return-to-pool")]
    ReturnToPool,
    /// Terminate.
    #[component(name = "terminate")]
    Terminate,
    /// Schedule deletion.
    #[component(name = "schedule-deletion")]
    ScheduleDeletion,
    /// Reboot.
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
    /// Action.
    pub action: Action,
    /// Failure.
    pub failure: Failure,
    /// The instant from which it would be accepted, where Scaleway said so. Milliseconds since 1970-01-01T00:00:00Z.
    #[component(name = "not-before")]
    pub not_before: Option<u64>,
}

/// The machine and the circumstances.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// Now. Milliseconds since 1970-01-01T00:00:00Z.
    pub now: u64,
    /// Random.
    pub random: u64,
    /// Trigger.
    pub trigger: Trigger,
    /// Machine.
    pub machine: Machine,
    /// Requested.
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
    /// Defer.
    #[component(name = "defer")]
    Defer,
    /// Return to pool.
    #[component(name = "return-to-pool")]
    ReturnToPool(PoolReturn),
    /// Delete it now. An Apple silicon host under its billing floor refuses.
    #[component(name = "terminate")]
    Terminate,
    /// Let Scaleway delete it as soon as it can be deleted.
    #[component(name = "schedule-deletion")]
    ScheduleDeletion,
    /// Leave it as it is and end the release. It has left its owner all the same; after a failed set-up, it stays with
    /// its owner, who sets it up again.
    #[component(name = "keep")]
    Keep,
    /// Ask again after so many milliseconds. Milliseconds.
    #[component(name = "retry-after")]
    RetryAfter(u64),
    /// Reboot it and give it back to whoever sets it up (recovery).
    #[component(name = "reboot")]
    Reboot,
}

/// The verdict and why.
pub type Answer = slot::Answer<Verdict>;

/// The slot `release`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Release;

/// When the native last resort has the question put again, in milliseconds.
const KEEP_ASK_AGAIN_MS: u64 = 60_000;

impl Slot for Release {
    const NAME: SlotName = SlotName::Release;
    type Question = Question;
    type Answer = Answer;

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// A machine without a pool prefix cannot return to a pool.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        match &answer.verdict {
            Verdict::ReturnToPool(_) if question.machine.pool_prefix.is_none() => {
                Err(format!("machine {} has no pool prefix, so it cannot return to a pool", question.machine.id))
            }
            _ => Ok(()),
        }
    }

    /// The machine stays as it is, and the question is put again in a minute.
    fn keep(_question: &Question) -> Answer {
        Answer { verdict: Verdict::RetryAfter(KEEP_ASK_AGAIN_MS), reason: None }
    }

    /// A failing judgement never destroys a physical host: it is kept, and asked about again.
    fn on_failure(question: &Question) -> OnFailure {
        match question.machine.kind {
            MachineKind::AppleSiliconServer | MachineKind::Other => OnFailure::Keep,
            MachineKind::Instance => OnFailure::Default,
        }
    }

    fn example() -> Question {
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            trigger: Trigger::Released,
            machine: Machine {
                kind: MachineKind::AppleSiliconServer,
                id: "11111111-2222-4333-8444-555555555555".into(),
                name: "pool-11111111".into(),
                zone: "fr-par-3".into(),
                machine_type: "M4-S".into(),
                status: "ready".into(),
                operating_system: Some("macos-sequoia-15.6".into()),
                pool_prefix: Some("pool-".into()),
                adopted: true,
                created_at: EXAMPLE_NOW_MS - 3_600_000,
                deletable_at: Some(EXAMPLE_NOW_MS + 82_800_000),
                deletion_scheduled: false,
                bootstrap_failures: 0,
                rebooted: false,
            },
            requested: None,
            refusal: None,
            attempt: 1,
        }
    }
}
