mod http_client;
mod service;

use bytes::Bytes;
use futures::future::BoxFuture;
use windlass_process::with_causes;

use crate::error::ErrorClass;

pub use service::ServiceTransport;

pub(crate) use http_client::{HttpTransport, is_loopback};

/// What carries requests to an API and brings answers back.
///
/// The client's own one is HTTP over a pooled connection with rustls. Another one makes the client speak to something
/// in the same process, which is how the simulator runs under simulated time: nothing between the client's methods and
/// the transport starts a thread or reads a wall clock; all waiting is `tokio::time`.
///
/// # What a transport gets
/// A request with an absolute URI, the token and the user agent in its headers, and its whole body. Mind the token.
///
/// # What it must do
/// Answer with the whole body, whatever the status; tell in its error whether the request may have arrived; set no
/// deadline of its own (the client does, by dropping the future); repeat nothing.
pub trait Transport: Send + Sync {
    /// Sends one request and waits for its answer.
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>>;
}

/// Why no answer came. The variants tell whether the request may have arrived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection could be made: the request never left.
    #[error("no connection could be made, the request was not sent: {}", with_causes(.0.as_ref()))]
    NotConnected(#[source] Cause),
    /// The certificate at the other end is not trusted here: the request never left. Asking again changes nothing.
    #[error(
        "the API's certificate is not trusted, the request was not sent: {}; if a proxy or a private authority signs \
         it, add that authority to this machine's certificates, or name it in SSL_CERT_FILE",
        with_causes(.0.as_ref())
    )]
    Untrusted(#[source] Cause),
    /// The connection was lost after the request may have left. It may still take effect
    /// (assumption: late-effect-within-second-look).
    #[error("the connection was lost before an answer came: {}", with_causes(.0.as_ref()))]
    Lost(#[source] Cause),
    /// The answer is larger than the client reads. The request did arrive.
    #[error("the answer is larger than {limit} bytes, which is all that is read")]
    AnswerTooLarge { limit: usize },
    /// The request could not be written as HTTP: it never left.
    #[error("the request cannot be sent: {}", with_causes(.0.as_ref()))]
    Unsendable(#[source] Cause),
}

/// What lies under a transport error: words, or another error.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

impl TransportError {
    /// Whether the request may have arrived, and taken effect.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            TransportError::NotConnected(_) | TransportError::Untrusted(_) | TransportError::Unsendable(_) => false,
            TransportError::Lost(_) | TransportError::AnswerTooLarge { .. } => true,
        }
    }

    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            TransportError::NotConnected(_) | TransportError::Lost(_) => ErrorClass::Connection,
            TransportError::AnswerTooLarge { .. } => ErrorClass::MalformedAnswer,
            // What this machine has to change, not the API.
            TransportError::Untrusted(_) | TransportError::Unsendable(_) => ErrorClass::InvalidArguments,
        }
    }
}
