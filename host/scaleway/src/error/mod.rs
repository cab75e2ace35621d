mod answer;
mod class;
mod not_before;
mod retry_after;

use std::time::Duration;

use crate::location::InvalidLocation;
use crate::settings::ConfigurationError;
use crate::transport::TransportError;

pub use answer::{ApiError, ErrorDetail};
pub use class::ErrorClass;

pub(crate) use answer::{ERROR_BODY_BYTES, ReceivedAnswer, bounded_text};
pub(crate) use retry_after::retry_after;

/// What a call can end with instead of its answer.
///
/// Ask [`class`](Error::class) what kind of failure it is, [`is_ambiguous`](Error::is_ambiguous) whether the call may
/// have taken effect all the same, and [`is_not_found`](Error::is_not_found) whether the resource is provably gone.
/// No variant holds credentials; bodies are Scaleway's, bounded to 8 KiB, and the secret key is taken out should an
/// answer ever repeat it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings don't make a client. Nothing was sent.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),

    /// An argument that must not become a request: an empty id would turn a deletion into a call on the whole
    /// collection. Nothing was sent.
    #[error("{method} {path_template}: `{argument}` {problem}; nothing was sent")]
    InvalidArgument {
        method: String,
        /// Path of the call, with its placeholders.
        path_template: &'static str,
        argument: &'static str,
        /// What is wrong with it, to follow its name.
        problem: String,
    },

    /// No answer: the connection could not be made or was lost.
    #[error("{method} {path}: {source}")]
    Transport {
        method: String,
        /// Path of the call, without its query.
        path: String,
        /// What happened, and whether the request may have arrived.
        source: TransportError,
    },

    /// No answer in time.
    #[error("{method} {path}: {}", deadline_words(*.phase, .limit))]
    Deadline {
        method: String,
        /// Path of the call, without its query.
        path: String,
        /// Whether the request had left.
        phase: DeadlinePhase,
        /// The deadline that passed.
        limit: Duration,
    },

    /// Scaleway refused or failed, and said so.
    #[error(transparent)]
    Api(Box<ApiError>),

    /// Scaleway answered with success, and the body is not what this call answers.
    #[error(transparent)]
    Malformed(Box<MalformedAnswer>),

    /// There is such an image, but none that fits this server type in this zone.
    #[error(
        "image `{label}` has no {storage} release for server type {commercial_type} in {zone}; \
         compatible there: {compatible}"
    )]
    IncompatibleImage {
        /// The image's label.
        label: String,
        /// Where its root volume should live: `instance_sbs`, `instance_local`.
        storage: String,
        /// The server type.
        commercial_type: String,
        zone: String,
        /// Some of the server types it fits, or `none`.
        compatible: String,
    },
}

/// When a deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlinePhase {
    /// While the call waited for the client's own rate and concurrency limits: it never left.
    Queued,
    /// After it may have left.
    Sent,
}

fn deadline_words(phase: DeadlinePhase, limit: &Duration) -> String {
    match phase {
        DeadlinePhase::Queued => format!(
            "waited {} s for this client's own rate and concurrency limits and was not sent; \
             raise the limits or ask for less at once",
            limit.as_secs_f64()
        ),
        DeadlinePhase::Sent => format!("no answer within {} s", limit.as_secs_f64()),
    }
}

/// An answer with a success status that cannot be understood. It is kept verbatim (bounded).
#[derive(Debug, Clone, thiserror::Error)]
#[error("{method} {path}: the answer ({status}{}) cannot be understood: {problem}", request_id_words(.request_id))]
pub struct MalformedAnswer {
    pub method: String,
    /// Path of the call, without its query.
    pub path: String,
    pub status: u16,
    /// Scaleway's id of the request, to quote to its support.
    pub request_id: Option<String>,
    pub problem: String,
    /// The body, verbatim, at most 8 KiB.
    pub body: String,
}

fn request_id_words(request_id: &Option<String>) -> String {
    request_id.as_ref().map(|id| format!(", request {id}")).unwrap_or_default()
}

impl From<InvalidLocation> for Error {
    fn from(error: InvalidLocation) -> Self {
        Error::Configuration(error.into())
    }
}

impl Error {
    /// What kind of failure it is.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Configuration(_) | Error::InvalidArgument { .. } | Error::IncompatibleImage { .. } => {
                ErrorClass::InvalidArguments
            }
            Error::Transport { source, .. } => source.class(),
            Error::Deadline { .. } => ErrorClass::Timeout,
            Error::Api(error) => error.class,
            Error::Malformed(_) => ErrorClass::MalformedAnswer,
        }
    }

    /// Whether the call may have taken effect although it failed: its answer was lost (deadline, dropped connection),
    /// is not to be believed (a success that cannot be read) or says nothing about the effect (5xx without a type
    /// that settles it). Look for the effect by its unique tag before you send the call again.
    ///
    /// Calls that only read are never ambiguous.
    pub fn is_ambiguous(&self) -> bool {
        if self.method().is_none_or(is_read_only) {
            return false;
        }
        match self {
            Error::Configuration(_) | Error::InvalidArgument { .. } | Error::IncompatibleImage { .. } => false,
            Error::Transport { source, .. } => source.may_have_arrived(),
            Error::Deadline { phase, .. } => *phase == DeadlinePhase::Sent,
            Error::Api(error) => error.is_ambiguous(),
            Error::Malformed(_) => true,
        }
    }

    /// Whether Scaleway itself refused the call, so that it did nothing: a rate limit, or a 4xx with a `type` in its
    /// body. (assumption: refusals-have-no-effect) A 4xx without one may come from anything in between, and 5xx say
    /// nothing.
    pub fn is_refusal(&self) -> bool {
        self.api().is_some_and(ApiError::is_refusal)
    }

    /// How long the answer asks to be left alone before the next call (`Retry-After`), a day at most.
    pub fn retry_after(&self) -> Option<Duration> {
        self.api().and_then(|error| error.retry_after)
    }

    /// Whether Scaleway says that the resource does not exist, or no longer (`not_found`, `unknown_resource`,
    /// `expired`). A 404 of some proxy or of a wrong address is **not** such a proof, see [`ApiError::class`].
    pub fn is_not_found(&self) -> bool {
        matches!(self.class(), ErrorClass::NotFound | ErrorClass::Expired)
    }

    /// Whether the resource is gone or none that these credentials may see: [`is_not_found`](Self::is_not_found), and
    /// for Apple silicon the 403 `permissions_denied` that stands for it there (recorded 30 of 30).
    ///
    /// A key that may not read servers at all probably gets the same answer. To be sure, list the zone: a list that
    /// is permitted and does not hold the server proves that it is gone.
    pub fn is_gone_or_not_ours(&self) -> bool {
        self.api().is_some_and(ApiError::is_gone_or_not_ours)
    }

    /// Until when Scaleway refuses this, where it tells; see [`ApiError::not_before`].
    pub fn not_before(&self) -> Option<jiff::Timestamp> {
        self.api().and_then(ApiError::not_before)
    }

    /// HTTP method of the call, when one was meant.
    pub fn method(&self) -> Option<&str> {
        match self {
            Error::Configuration(_) | Error::IncompatibleImage { .. } => None,
            Error::InvalidArgument { method, .. }
            | Error::Transport { method, .. }
            | Error::Deadline { method, .. } => Some(method),
            Error::Api(error) => Some(&error.method),
            Error::Malformed(answer) => Some(&answer.method),
        }
    }

    /// Path of the call without its query, when one was meant.
    pub fn path(&self) -> Option<&str> {
        match self {
            Error::Configuration(_) | Error::IncompatibleImage { .. } => None,
            Error::InvalidArgument { path_template, .. } => Some(path_template),
            Error::Transport { path, .. } | Error::Deadline { path, .. } => Some(path),
            Error::Api(error) => Some(&error.path),
            Error::Malformed(answer) => Some(&answer.path),
        }
    }

    /// HTTP status, when an answer came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Api(error) => Some(error.status),
            Error::Malformed(answer) => Some(answer.status),
            _ => None,
        }
    }

    /// The `type` of Scaleway's body, word for word, when there was one.
    pub fn error_type(&self) -> Option<&str> {
        self.api().and_then(|error| error.error_type.as_deref())
    }

    /// The resource the answer speaks of, as Scaleway names it (`instance_server`), when it does.
    pub fn resource(&self) -> Option<&str> {
        self.api().and_then(|error| error.resource.as_deref())
    }

    /// Scaleway's id of the request, when an answer carried one.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Error::Api(error) => error.request_id.as_deref(),
            Error::Malformed(answer) => answer.request_id.as_deref(),
            _ => None,
        }
    }

    /// The answer's body, verbatim and bounded, when an answer came.
    pub fn body(&self) -> Option<&str> {
        match self {
            Error::Api(error) => Some(&error.body),
            Error::Malformed(answer) => Some(&answer.body),
            _ => None,
        }
    }

    /// Scaleway's refusal, when this is one.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Error::Api(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether a call with this method changes nothing at Scaleway.
fn is_read_only(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

#[cfg(test)]
mod tests;
