//! What a reconcile decides to do: the same moves for every kind of machine.

use std::time::Duration;

use crate::jobs::JobKind;
use crate::kinds::{OperationStatus, Phase};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing of ours hangs on the object.
    Nothing,
    /// Nothing is done while it is paused.
    Pause(String),
    /// Write the finalizer, and with it what the machine will be known by, before anything is called.
    Mark,
    /// Wait, and say why.
    Wait { phase: Phase, reason: &'static str, message: String, after: Option<Duration> },
    /// Leave everything as it is and look again.
    LookAgain { after: Duration },
    /// Call the running job off: the object is deleted.
    CallOff,
    /// Start a job.
    Start(JobKind),
    /// The machine is there; where something is wrong with it, that is said.
    Provisioned { trouble: Option<(&'static str, String)> },
    /// Take the finalizer away.
    LetGo,
}

/// What the last operation said.
pub(crate) fn words(last: Option<&OperationStatus>) -> String {
    last.and_then(|last| last.message.clone()).unwrap_or_default()
}
