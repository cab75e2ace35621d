//! Failures: how an error of the client becomes the failure that policies judge and the journal keeps.

use std::sync::Arc;
use std::time::Duration;

use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::ErrorClass;

fn class(class: ErrorClass) -> FailureClass {
    match class {
        ErrorClass::InvalidArguments => FailureClass::InvalidArguments,
        ErrorClass::AuthenticationDenied => FailureClass::AuthenticationDenied,
        ErrorClass::PermissionDenied => FailureClass::PermissionDenied,
        ErrorClass::QuotaExceeded => FailureClass::QuotaExceeded,
        ErrorClass::NotFound => FailureClass::NotFound,
        ErrorClass::Expired => FailureClass::Expired,
        ErrorClass::Conflict => FailureClass::Conflict,
        ErrorClass::PreconditionFailed => FailureClass::PreconditionFailed,
        ErrorClass::TransientState => FailureClass::TransientState,
        ErrorClass::Locked => FailureClass::Locked,
        ErrorClass::RateLimited => FailureClass::RateLimited,
        ErrorClass::OutOfStock => FailureClass::OutOfStock,
        ErrorClass::ServerError => FailureClass::ServerError,
        ErrorClass::Gateway => FailureClass::Gateway,
        ErrorClass::Timeout => FailureClass::Timeout,
        ErrorClass::Connection => FailureClass::Connection,
        ErrorClass::MalformedAnswer => FailureClass::MalformedAnswer,
        ErrorClass::Other => FailureClass::Other,
    }
}

/// What a failed call that was to make something had for an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None: it never left.
    None,
    /// None, in Scaleway's own words or by the rate limit (assumption: refusals-have-no-effect).
    Refused,
    /// The failure does not tell.
    Unknown,
}

/// See [`Effect`].
pub(crate) fn effect(failure: &Failure) -> Effect {
    let is_own = |word: &String| windlass_scaleway::ApiError::is_own_type(word);
    match failure.status {
        _ if failure.ambiguous => Effect::Unknown,
        None => Effect::None,
        Some(_) if failure.class == FailureClass::RateLimited => Effect::Refused,
        Some(400..500) if failure.error_type.as_ref().is_some_and(is_own) => Effect::Refused,
        Some(_) => Effect::Unknown,
    }
}

/// The failure that an error of the client is. Without bodies; Scaleway's words are cut to 1 KiB.
#[must_use]
pub fn of_error(error: &windlass_scaleway::Error) -> Failure {
    let message = error
        .api()
        .map(windlass_scaleway::ApiError::words)
        .filter(|words| !words.is_empty())
        .unwrap_or_else(|| error.to_string());
    Failure {
        class: class(error.class()),
        message: Failure::bounded(&message),
        method: error.method().map(str::to_owned),
        path: error.path().map(str::to_owned),
        status: error.status(),
        error_type: error.error_type().map(str::to_owned),
        resource: error.resource().map(str::to_owned),
        ambiguous: error.is_ambiguous(),
    }
}

/// Why an attempt failed, and what the host itself has to heed of it, whatever a policy says.
#[derive(Clone, Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) failure: Failure,
    /// How long Scaleway asks to be left alone (`Retry-After`).
    pub(crate) retry_after: Option<Duration>,
}

impl From<Failure> for AttemptFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, retry_after: None }
    }
}

impl From<&windlass_scaleway::Error> for AttemptFailure {
    fn from(error: &windlass_scaleway::Error) -> Self {
        Self { failure: of_error(error), retry_after: error.retry_after() }
    }
}

impl From<windlass_scaleway::Error> for AttemptFailure {
    fn from(error: windlass_scaleway::Error) -> Self {
        Self::from(&error)
    }
}

impl From<Arc<windlass_scaleway::Error>> for AttemptFailure {
    fn from(error: Arc<windlass_scaleway::Error>) -> Self {
        Self::from(&*error)
    }
}

/// A failure without a call.
pub(crate) fn of_class(class: FailureClass, message: impl AsRef<str>) -> Failure {
    Failure::of_class(class, message)
}
