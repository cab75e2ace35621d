//! Why an operation does not go on.

use windlass_policy::slots::types::Failure;

use crate::Error;

/// A step that has failed for good.
#[derive(Clone, Debug)]
pub(crate) struct StepFailure {
    pub(crate) step: String,
    pub(crate) failure: Failure,
}

/// Why an operation does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A step failed for good, or the operation was called off.
    Failed(Box<StepFailure>),
    /// It is left to the next start.
    Left,
    /// The journal cannot be written, so nothing more may be done.
    Journal(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Journal(error)
    }
}

impl Stop {
    pub(crate) fn failed(step: &str, failure: Failure) -> Self {
        Self::Failed(Box::new(StepFailure { step: step.to_owned(), failure }))
    }
}

/// The cause that the journal keeps of an operation that has ended.
pub(crate) fn stored_cause(cause: &serde_json::Value) -> Option<StepFailure> {
    Some(StepFailure {
        step: cause.get("step")?.as_str()?.to_owned(),
        failure: serde_json::from_value(cause.get("failure")?.clone()).ok()?,
    })
}
