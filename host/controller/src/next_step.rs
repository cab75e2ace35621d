//! What a reconcile decides to do: the same moves for every kind of machine.

use std::borrow::Cow;
use std::time::Duration;

use crate::job_kind::JobKind;
use crate::kinds::{OperationStatus, Phase};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing of ours is attached to the object.
    Nothing,
    /// Nothing is done while it is paused.
    Pause(String),
    /// Write the finalizer, and with it what the machine will be known by, before anything is called.
    Mark,
    /// Wait, and say why.
    Wait {
        phase: Phase,
        reason: Cow<'static, str>,
        message: String,
        after: Option<Duration>,
    },
    /// Leave everything as it is and look again.
    LookAgain {
        after: Duration,
    },
    /// Call the running job off: the object is deleted.
    CallOff,
    Start(JobKind),
    /// The machine is there; where something is wrong with it, that is said.
    Provisioned {
        trouble: Option<(&'static str, String)>,
    },
    /// Leave the machine of a deleted object alone, and let the object go.
    Abandon,
    /// Take the finalizer away.
    RemoveFinalizer,
}

impl Next {
    /// Waits because of this.
    pub(crate) fn wait(
        phase: Phase,
        reason: &'static str,
        message: impl Into<String>,
        after: Option<Duration>,
    ) -> Self {
        Self::Wait { phase, reason: reason.into(), message: message.into(), after }
    }

    /// Waits until the last operation may be tried again, with its words; `otherwise` where an earlier version left no
    /// reason.
    pub(crate) fn wait_on(
        phase: Phase,
        last: Option<&OperationStatus>,
        otherwise: &'static str,
        after: Duration,
    ) -> Self {
        let reason = last.and_then(|last| last.reason.clone()).map_or(otherwise.into(), Cow::Owned);
        let message = last.and_then(|last| last.message.clone()).unwrap_or_default();
        Self::Wait { phase, reason, message, after: Some(after) }
    }
}

#[cfg(test)]
impl Next {
    /// The decision in one word, with its reason.
    pub(crate) fn word(&self) -> String {
        match self {
            Next::Wait { reason, .. } => format!("Wait {reason}"),
            Next::Start(kind) => format!("Start {}", kind.as_str()),
            Next::Provisioned { trouble: Some((reason, _)) } => format!("Provisioned {reason}"),
            Next::Provisioned { trouble: None } => "Provisioned".to_owned(),
            Next::Pause(_) => "Pause".to_owned(),
            Next::LookAgain { .. } => "LookAgain".to_owned(),
            other => format!("{other:?}"),
        }
    }
}
