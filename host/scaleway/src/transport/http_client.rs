use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_process::with_causes;

use super::{Transport, TransportError};
use crate::settings::{ConfigurationError, Settings};

/// How long one connection may take to come about, within the deadline of the call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection is kept for the next call. Short, because a gateway that closes an idle connection at the
/// moment of a call makes that call ambiguous, and a new connection costs less than looking an effect up.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// HTTP over pooled connections: reqwest with rustls and ring.
#[derive(Debug, Clone)]
pub(crate) struct HttpTransport {
    client: reqwest::Client,
    answer_bytes: usize,
}

impl HttpTransport {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigurationError> {
        // One provider for the process. When the embedding program installed another one before us, that one stands.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            // A redirect would carry the token to wherever it points.
            .redirect(reqwest::redirect::Policy::none())
            // Nothing is repeated here: the retry policy decides, after an ambiguous call was looked up.
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .tls_danger_accept_invalid_certs(settings.insecure())
            .referer(false);
        if is_loopback(settings.api_url()) {
            // As Go's clients do: a proxy cannot reach this machine's own loopback.
            builder = builder.no_proxy();
        }
        if settings.api_url().scheme() == "http" {
            // No TLS is ever spoken then (redirects are not followed): trust no certificate, and need none on the
            // system.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| ConfigurationError::HttpClient(with_causes(&error)))?;
        Ok(Self { client, answer_bytes: settings.limits().answer_bytes })
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        let client = self.client.clone();
        let limit = self.answer_bytes;
        async move {
            let request = reqwest::Request::try_from(request.map(reqwest::Body::from))
                .map_err(|error| TransportError::Unsendable(error.without_url().into()))?;
            let mut response = client.execute(request).await.map_err(classify)?;
            let mut answer = http::Response::builder().status(response.status()).version(response.version());
            if let Some(headers) = answer.headers_mut() {
                *headers = std::mem::take(response.headers_mut());
            }
            let mut body = BytesMut::new();
            while let Some(chunk) =
                response.chunk().await.map_err(|error| TransportError::Lost(error.without_url().into()))?
            {
                if body.len() + chunk.len() > limit {
                    return Err(TransportError::AnswerTooLarge { limit });
                }
                body.extend_from_slice(&chunk);
            }
            answer.body(body.freeze()).map_err(|error| TransportError::Lost(error.into()))
        }
        .boxed()
    }
}

/// To where no connection could be made.
#[derive(Debug, thiserror::Error)]
#[error("{host} (check this address, the proxy and the firewall): {words}")]
struct Unreached {
    host: String,
    /// The error and its causes. Not its source, of which the outermost words say nothing more.
    words: String,
}

fn classify(error: reqwest::Error) -> TransportError {
    let host = error.url().map(|url| url[url::Position::BeforeHost..url::Position::AfterPort].to_owned());
    let error = error.without_url();
    if error.is_connect() && is_about_certificate(&error) {
        TransportError::Untrusted(error.into())
    } else if error.is_connect() {
        TransportError::NotConnected(match host {
            Some(host) => {
                let words = with_causes(&error);
                let words = words.trim_start_matches("error sending request: ");
                let words = match words.contains("InvalidContentType") {
                    true => {
                        "it does not speak TLS: for a server without TLS, write http:// instead of https://".to_owned()
                    }
                    false => words.trim_start_matches("client error (Connect): ").to_owned(),
                };
                Unreached { host, words }.into()
            }
            None => error.into(),
        })
    } else if error.is_builder() {
        TransportError::Unsendable(error.into())
    } else {
        TransportError::Lost(error.into())
    }
}

/// Whether the certificate at the other end was refused here.
fn is_about_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(of_tls) = error.downcast_ref() {
        return matches!(of_tls, rustls::Error::InvalidCertificate(_));
    }
    // An error of I/O does not tell what it wraps as its source.
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    wrapped.is_some_and(|wrapped| is_about_certificate(wrapped)) || error.source().is_some_and(is_about_certificate)
}

pub(crate) fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(domain)) => domain == "localhost" || domain.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
