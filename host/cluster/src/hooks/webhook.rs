//! One signed HTTP request.

use std::net::SocketAddr;
use std::time::Duration;

use windlass_process::with_causes;

use super::destinations::Destinations;
use super::failure::HookProblem;
use super::hook::{WebhookHook, place};
use super::input::{HookInput, trace_context};
use super::output::{CAPTURED_BYTES, HookOutput, Tail};
use super::secret::WebhookSecret;

/// Holds the signature: `t=<unix seconds>,v1=<hex hmac-sha256 of "<t>.<body>">`.
pub(super) const SIGNATURE: &str = "windlass-signature";
/// The same for all attempts at one stage of one operation: a receiver that has done it already answers 2xx at once.
pub(super) const DELIVERY: &str = "windlass-delivery";
/// The same two by the Standard Webhooks, for receivers that verify with one of their libraries: the delivery, the
/// instant in seconds, and the signature over both and the body.
const STANDARD: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];
/// How long the connection may take to come about, within the hook's time limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer is read up to here, and the connection closed after that.
const MAX_ANSWER_LEN: usize = 1024 * 1024;

/// What [`DELIVERY`] holds.
pub(super) fn delivery(input: &HookInput) -> String {
    format!("{}-{}", input.operation_id, windlass_policy::kind_word(&input.stage))
}

/// Sends it and reads the answer; where only some `destinations` may be reached, no more of it than the status.
pub(super) async fn run(
    webhook: &WebhookHook,
    secret: &WebhookSecret,
    destinations: Option<&Destinations>,
    input: &HookInput,
    limit: Duration,
    output: &mut HookOutput,
) -> Result<(), HookProblem> {
    let mut answer = Tail::new(CAPTURED_BYTES);
    let ended = tokio::time::timeout(limit, send(webhook, secret, destinations, input, &mut answer)).await;
    output.stdout = answer.finish();
    ended.unwrap_or(Err(HookProblem::TimedOut(limit)))
}

async fn send(
    webhook: &WebhookHook,
    secret: &WebhookSecret,
    destinations: Option<&Destinations>,
    input: &HookInput,
    answer: &mut Tail,
) -> Result<(), HookProblem> {
    let body = input.json();
    let delivery = delivery(input);
    let now = jiff::Timestamp::now().as_second();
    let addresses = match destinations {
        Some(destinations) => destinations.of(&webhook.url).await?,
        None => Vec::new(),
    };
    let mut request = client(webhook, &addresses)?.post(webhook.url.clone());
    if let Some(context) = trace_context() {
        request = request.header("traceparent", context);
    }
    let mut response = request
        .header(reqwest::header::CONTENT_TYPE, "application/json")
        .header(SIGNATURE, secret.signature(now, &body))
        .header(DELIVERY, &delivery)
        .header(STANDARD[2], secret.standard_signature(&delivery, now, &body))
        .header(STANDARD[1], now)
        .header(STANDARD[0], delivery)
        .body(body)
        .send()
        .await
        .map_err(lost)?;
    let status = response.status();
    let mut length = 0;
    while destinations.is_none() && length < MAX_ANSWER_LEN {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                length += chunk.len();
                answer.push(&chunk);
            }
            Ok(None) => break,
            // The status has been read, and it is what counts.
            Err(_) => break,
        }
    }
    if status.is_success() {
        return Ok(());
    }
    let location = response.headers().get(reqwest::header::LOCATION).and_then(|to| to.to_str().ok());
    let location = location.filter(|_| destinations.is_none());
    // As in our own words: a path or a query may hold a token.
    let location = location.map(|to| match response.url().join(to) {
        Ok(url) => place(&url).chars().take(200).collect(),
        Err(_) => "what is no URL".to_owned(),
    });
    Err(HookProblem::Refused { status: status.as_u16(), location })
}

/// A client for one request: hooks are rare, and a pool would keep connections of which nobody knows. Where addresses
/// are given, the URL's host has these alone.
fn client(webhook: &WebhookHook, addresses: &[SocketAddr]) -> Result<reqwest::Client, HookProblem> {
    // One provider for the process. When the embedding program installed another one before us, that one stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        // A redirect would carry the body and its signature to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        // The retry policy decides about repetitions.
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .referer(false);
    if let (false, Some(host)) = (addresses.is_empty(), webhook.url.host_str()) {
        builder = builder.resolve_to_addrs(host, addresses);
    }
    if super::files::is_loopback(&webhook.url) {
        builder = builder.no_proxy();
    }
    if webhook.url.scheme() == "http" {
        // No TLS is ever spoken then: trust no certificate, and need none on the system.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| HookProblem::Connection(with_causes(&error)))
}

fn lost(error: reqwest::Error) -> HookProblem {
    // Only before there is a connection is it sure that the receiver got nothing.
    let problem = if error.is_connect() { HookProblem::Connection } else { HookProblem::ConnectionLost };
    problem(with_causes(&error.without_url()))
}
