//! The ways in which a policy fails.

use serde::{Deserialize, Serialize};

/// How a policy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// The guest trapped: a panic, an unreachable instruction, an access out of bounds, a division by zero.
    Trap,
    /// A rule of a file of rules could not be evaluated: a division by zero, an order with something absent.
    RuleFailed,
    /// [`Limits::time_ms`](crate::Limits).
    TimeLimit,
    /// [`Limits::fuel`](crate::Limits).
    FuelLimit,
    /// [`Limits::memory_bytes`](crate::Limits).
    MemoryLimit,
    /// [`Limits::table_elements`](crate::Limits).
    TableLimit,
    /// The guest's stack of 512 KiB.
    StackLimit,
    /// [`Limits::answer_bytes`](crate::Limits).
    AnswerLimit,
    /// [`Limits::handles`](crate::Limits).
    HandleLimit,
    /// The answer breaks the rules of the component model: a text that is no UTF-8, a case that doesn't exist.
    MalformedAnswer,
    /// The answer doesn't fit the question ([`Slot::check`](crate::slots::Slot::check)).
    RejectedAnswer,
    /// It is a tenant's, and answered about what is not its to decide
    /// ([`Slot::check_tenant_answer`](crate::slots::Slot::check_tenant_answer)). The next policy decides, and it counts as no failure.
    NotAllowed,
    /// It failed too often in a row before and is no longer asked until it is replaced.
    Suspended,
    /// A granted capability had a defect.
    HostCall,
    /// The operation began with a policy that can no longer be loaded.
    Unavailable,
    /// The host had no room for another instance. Doesn't count towards suspension.
    HostBusy,
    /// It would have removed too many running machines at one look ([`Brake`](crate::Brake)).
    Brake,
}

impl FailureKind {
    /// Whether the host or the clock had a part in it, so that the same policy may decide the same question another
    /// time. What else fails a policy lies in the policy and its question alone.
    pub fn depends_on_the_moment(self) -> bool {
        match self {
            FailureKind::TimeLimit
            | FailureKind::Suspended
            | FailureKind::HostCall
            | FailureKind::Unavailable
            | FailureKind::HostBusy
            | FailureKind::Brake => true,
            FailureKind::Trap
            | FailureKind::RuleFailed
            | FailureKind::FuelLimit
            | FailureKind::MemoryLimit
            | FailureKind::TableLimit
            | FailureKind::StackLimit
            | FailureKind::AnswerLimit
            | FailureKind::HandleLimit
            | FailureKind::MalformedAnswer
            | FailureKind::RejectedAnswer
            | FailureKind::NotAllowed => false,
        }
    }

    /// Whether a larger question alone can make a policy fail so.
    pub(crate) fn may_follow_from_size(self) -> bool {
        match self {
            FailureKind::TimeLimit
            | FailureKind::FuelLimit
            | FailureKind::MemoryLimit
            | FailureKind::StackLimit
            | FailureKind::AnswerLimit => true,
            FailureKind::Trap
            | FailureKind::RuleFailed
            | FailureKind::TableLimit
            | FailureKind::HandleLimit
            | FailureKind::MalformedAnswer
            | FailureKind::RejectedAnswer
            | FailureKind::NotAllowed
            | FailureKind::Suspended
            | FailureKind::HostCall
            | FailureKind::Unavailable
            | FailureKind::HostBusy
            | FailureKind::Brake => false,
        }
    }
}
