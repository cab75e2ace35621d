//! `windlass:policy/retry`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Failure, Milliseconds, Subject, Timestamp};

/// A failed attempt.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    pub now: Timestamp,
    /// A random word, for jitter.
    pub random: u64,
    /// The operation that failed: `create-server`, `cleanup-server`, `release-machine`, ...
    pub operation: String,
    /// The step of it: `create-ip`, `create-server`, `power-on`, `delete-volume`, ...
    pub step: String,
    /// Whether the step belongs to an undo or to a removal, so that giving it up leaves something behind.
    pub undoing: bool,
    /// Which attempt failed, from 1.
    pub attempt: u32,
    /// Since the first attempt of this step began.
    pub elapsed: Milliseconds,
    /// Until the operation's deadline, where it has one; no undo has. The host never waits past it: a longer `wait`
    /// counts as `give-up`.
    #[component(name = "time-left")]
    pub time_left: Option<Milliseconds>,
    pub failure: Failure,
    /// Where it happened.
    pub zone: String,
    /// Whom the operation works for.
    pub subject: Subject,
    /// The server type (Scaleway's commercial type) that was asked for, where one was.
    #[component(name = "server-type")]
    pub server_type: Option<String>,
}

/// The judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[component(name = "defer")]
    Defer,
    /// The step has failed for good.
    #[component(name = "give-up")]
    GiveUp,
    /// Try again after so many milliseconds. The host bounds both the single wait and their sum.
    #[component(name = "wait")]
    Wait(Milliseconds),
}

/// The verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
