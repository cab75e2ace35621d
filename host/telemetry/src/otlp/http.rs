//! One request of OTLP over HTTP: the same reqwest and rustls as all other requests.

use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use url::{Host, Url};

use super::settings::Endpoint;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of an answer is read: it says what was rejected, in some words.
const MAX_ANSWER_LEN: usize = 64 * 1024;

/// Why a batch was not taken.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Without the endpoint, which may hold a token.
    pub(super) words: String,
    /// Whether the same batch may be taken later.
    pub(super) again: bool,
    pub(super) retry_after: Option<Duration>,
}

/// A client for one endpoint.
pub(super) struct Client {
    client: reqwest::Client,
    endpoint: Endpoint,
}

impl Client {
    pub(super) fn new(endpoint: Endpoint) -> Result<Self, String> {
        // One provider for the process. When the embedding program installed another one before us, that one stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            // A redirect would carry the headers to wherever it points.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT.min(endpoint.timeout))
            .timeout(endpoint.timeout)
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .referer(false);
        if is_loopback(&endpoint.url) {
            builder = builder.no_proxy();
        }
        if endpoint.url.scheme() == "http" {
            // No TLS is ever spoken then: trust no certificate, and need none on the system.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| with_causes(&error.without_url()))?;
        Ok(Self { client, endpoint })
    }

    /// Sends one message, and returns the start of the answer.
    pub(super) async fn post(&self, message: Bytes) -> Result<Bytes, Refusal> {
        let lost = |error: reqwest::Error| Refusal {
            words: with_causes(&error.without_url()),
            again: true,
            retry_after: None,
        };
        let request = self
            .client
            .post(self.endpoint.url.clone())
            .headers(self.endpoint.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(message);
        let mut response = request.send().await.map_err(lost)?;
        let status = response.status();
        if !status.is_success() {
            let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            return Err(Refusal {
                words: format!("it answers {}", status.as_u16()),
                // Those that the specification names.
                again: matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                ),
                retry_after: seconds.map(Duration::from_secs),
            });
        }
        let mut answer = Vec::new();
        // It was taken, whatever else is said: an answer that is too long or breaks off is not needed.
        while let Ok(Some(chunk)) = response.chunk().await {
            if answer.len() + chunk.len() > MAX_ANSWER_LEN {
                return Ok(Bytes::new());
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(answer.into())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(domain)) => domain == "localhost" || domain.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The error with its causes: reqwest's own words stop before what matters.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
