use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, timeout};
use tracing::Instrument;
use tracing::field::Empty;
use url::Url;

use crate::answer::Answer;
use crate::call::Call;
use crate::concurrency::Concurrency;
use crate::error::{ApiError, DeadlinePhase, Error, ErrorClass, ReceivedAnswer, retry_after};
use crate::metric_names;
use crate::rate_limit::RateLimit;
use crate::settings::{ConfigurationError, Settings};
use crate::transport::{HttpTransport, Transport};

/// The header that carries the secret key (SDK).
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// Scaleway's APIs. A clone is cheap and shares connections and limits.
///
/// # Guarantees
/// - Each call waits its turn under the client's [`Limits`](crate::Limits), is sent once, and ends within its deadline.
///   Nothing is repeated here: whether to try again is somebody else's judgement.
/// - The token goes to the configured address only (redirects are not followed) and into no error, log or metric.
/// - Every call is one tracing span and is counted under [`metric_names`](crate::metric_names).
/// - All waiting is `tokio::time`; no thread or task is started by this type. (The HTTP transport's connections are
///   driven by tasks of their own, as in any hyper client.)
///
/// Dropping a call's future abandons the call; whether it took effect is then as unknown as after a timeout, unless it
/// was never [`Sent`](crate::Sent).
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    transport: Arc<dyn Transport>,
    headers: HeaderMap,
    rate: RateLimit,
    concurrency: Concurrency,
    /// Whether the last call that got an answer was refused for the key.
    denied: AtomicBool,
}

/// The answer to a raw request, whatever its status.
#[derive(Debug, Clone)]
pub struct RawAnswer {
    pub status: u16,
    /// How many items a list of the Instance API has in all, as its header `X-Total-Count` tells.
    pub total_count: Option<u64>,
    /// Scaleway's id of the request.
    pub request_id: Option<String>,
    /// The body's media type.
    pub content_type: Option<String>,
    /// When it was answered, by the clock of whoever answered: the header `Date`, word for word.
    pub date: Option<String>,
    /// The body, whole but for passwords, which are `<sealed>`; at most
    /// [`Limits::answer_bytes`](crate::Limits::answer_bytes).
    pub body: Bytes,
}

/// What [`Shared::exchange`] needs to know of a call beside the request itself.
struct Target {
    /// Method and template of the path, for metrics and the span.
    method: &'static str,
    template: &'static str,
    /// Path, for errors.
    path: String,
}

impl Client {
    /// A client over HTTP.
    ///
    /// # Errors
    /// When the HTTP client cannot be made.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let transport = Arc::new(HttpTransport::new(&settings)?);
        Self::with_transport(settings, transport)
    }

    /// A client over something else, for example the simulator in the same process.
    ///
    /// # Errors
    /// When settings cannot become headers, which their own checks rule out.
    pub fn with_transport(settings: Settings, transport: Arc<dyn Transport>) -> Result<Self, Error> {
        let unwritable = |place: &str| ConfigurationError::Invalid {
            place: place.to_owned(),
            problem: "cannot be written as an HTTP header".to_owned(),
        };
        let mut token =
            HeaderValue::from_str(settings.secret_key().expose()).map_err(|_| unwritable("the secret key"))?;
        // Kept out of `Debug` and of HTTP/2's header tables.
        token.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTH_TOKEN, token);
        headers.insert(
            USER_AGENT,
            HeaderValue::from_str(settings.user_agent()).map_err(|_| unwritable("the user agent"))?,
        );
        let limits = settings.limits();
        let shared = Shared {
            rate: RateLimit::new(limits),
            concurrency: Concurrency::new(limits),
            denied: AtomicBool::new(false),
            headers,
            transport,
            settings,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Whether Scaleway's last answer refused the key (401 or 403). The key may have been replaced since: a caller that
    /// read it from a file or a Secret should read it again.
    pub fn is_denied(&self) -> bool {
        self.shared.denied.load(Ordering::Relaxed)
    }

    /// Sends any request to Scaleway, under the same limits, and returns the answer whatever its status.
    ///
    /// `path_and_query` is absolute (`/instance/v1/zones/fr-par-1/servers?per_page=1`) and must already be in the form
    /// in which it is sent: a path that a URL parser would rewrite (`..`, `//`, backslashes, unescaped characters) is
    /// refused, because whoever granted the path matched the text and not its rewriting. A body is sent as JSON.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for such paths and unknown methods; [`Error::Transport`] and [`Error::Deadline`] when
    /// no answer came.
    pub async fn send_raw(&self, method: &str, path_and_query: &str, body: Option<Bytes>) -> Result<RawAnswer, Error> {
        self.send_raw_of(method, path_and_query, body.map(|body| ("application/json", body))).await
    }

    /// The same with a body of any media type: user data are `text/plain`.
    ///
    /// # Errors
    /// Those of [`send_raw`](Self::send_raw).
    ///
    /// # Panics
    /// When the media type holds anything but visible ASCII.
    pub async fn send_raw_of(
        &self,
        method: &str,
        path_and_query: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<RawAnswer, Error> {
        let (method, url) = crate::raw::checked(method, path_and_query, self.shared.settings.api_url())?;
        let target = Target {
            method: method_label(&method),
            template: crate::raw::TEMPLATE,
            path: path_and_query.split('?').next().unwrap_or_default().to_owned(),
        };
        let (content_type, body) = body.unzip();
        let content_type = content_type.map(|media_type| (CONTENT_TYPE, HeaderValue::from_static(media_type)));
        let request = self.shared.request(method, &url, content_type, body.unwrap_or_default(), &target)?;
        let understand = |response: http::Response<Bytes>| {
            Ok(RawAnswer {
                status: response.status().as_u16(),
                total_count: total_count(response.headers()),
                request_id: self.shared.request_id(response.headers()),
                content_type: header_text(response.headers(), &CONTENT_TYPE),
                date: header_text(response.headers(), &DATE),
                body: self.shared.without_secret(response.body()),
            })
        };
        self.shared.exchange(request, &target, understand).await
    }

    /// Sends a call; any answer but success is an error.
    pub(crate) async fn call(&self, call: Call) -> Result<Answer, Error> {
        self.call_and(call, Ok).await
    }

    /// Sends a call and understands its answer inside the call's span, so that an answer that cannot be understood is
    /// counted as such.
    pub(crate) async fn call_and<T>(
        &self,
        call: Call,
        understand: impl FnOnce(Answer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let shared = &self.shared;
        let url = call.url(shared.settings.api_url())?;
        let target = Target {
            method: method_label(&call.method),
            template: call.template,
            path: api_path(&url, shared.settings.api_url()),
        };
        let method = call.method.clone();
        let (body, content_type) = call.into_body();
        let request = shared.request(method, &url, content_type, body, &target)?;
        let understand = |response| {
            understand(shared.successful(response, &target)?).map_err(|error| shared.without_secret_in(error))
        };
        shared.exchange(request, &target, understand).await
    }
}

impl Client {
    /// An error of an answer that was understood outside of its call, without the secrets that the answer may repeat.
    pub(crate) fn without_secret_in(&self, error: Error) -> Error {
        self.shared.without_secret_in(error)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl Shared {
    fn request(
        &self,
        method: http::Method,
        url: &Url,
        content_type: Option<(HeaderName, HeaderValue)>,
        body: Bytes,
        target: &Target,
    ) -> Result<http::Request<Bytes>, Error> {
        let mut request =
            http::Request::builder().method(method).uri(url.as_str()).body(body).map_err(|error| Error::Transport {
                method: target.method.to_owned(),
                path: target.path.clone(),
                source: crate::transport::TransportError::Unsendable(error.into()),
            })?;
        *request.headers_mut() = self.headers.clone();
        if let Some((name, value)) = content_type {
            request.headers_mut().insert(name, value);
        }
        Ok(request)
    }

    /// One call: its turn, its deadline, its span and its metrics.
    async fn exchange<T>(
        &self,
        request: http::Request<Bytes>,
        target: &Target,
        understand: impl FnOnce(http::Response<Bytes>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let span = tracing::info_span!(
            "scaleway_call",
            method = target.method,
            path = target.template,
            status = Empty,
            request_id = Empty,
            class = Empty,
            duration_ms = Empty,
        );
        async {
            let _permit = self.turn(target).await?;
            let start = Instant::now();
            let in_flight = InFlight::begin();
            let response = self.answered(request, target).await;
            drop(in_flight);
            let elapsed = start.elapsed();

            let status = response.as_ref().ok().map(|response| response.status().as_u16());
            if let Some(status) = status {
                self.denied.store(matches!(status, 401 | 403), Ordering::Relaxed);
            }
            if let Ok(response) = &response
                && let Some(request_id) = self.request_id(response.headers())
            {
                tracing::Span::current().record("request_id", request_id.as_str());
            }
            let result = response.and_then(understand);
            record(target, status, elapsed, result.as_ref().err());
            result
        }
        .instrument(span)
        .await
    }

    /// Waits for the client's own limits.
    ///
    /// Boxed, as is [`Shared::answered`]: whether a caller's future is `Send` is proven through all that it awaits, and
    /// rustc's recursion limit ends that proof.
    fn turn<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<SemaphorePermit<'a>, Error>> {
        async {
            let limit = self.settings.limits().queue_deadline;
            let start = Instant::now();
            let turn = timeout(limit, async {
                let place = self.concurrency.place(&target.path).await;
                self.rate.admit().await;
                place
            })
            .await;
            metrics::histogram!(metric_names::QUEUE_SECONDS).record(start.elapsed().as_secs_f64());
            turn.map_err(|_| {
                let error = Error::Deadline {
                    method: target.method.to_owned(),
                    path: target.path.clone(),
                    phase: DeadlinePhase::Queued,
                    limit,
                };
                record(target, None, Duration::ZERO, Some(&error));
                error
            })
        }
        .boxed()
    }

    /// Sends and waits, within the deadline.
    fn answered<'a>(
        &'a self,
        request: http::Request<Bytes>,
        target: &'a Target,
    ) -> BoxFuture<'a, Result<http::Response<Bytes>, Error>> {
        async move {
            let limits = self.settings.limits();
            let lost =
                |source| Error::Transport { method: target.method.to_owned(), path: target.path.clone(), source };
            crate::sent::mark();
            let response = timeout(limits.call_deadline, self.transport.send(request))
                .await
                .map_err(|_| Error::Deadline {
                    method: target.method.to_owned(),
                    path: target.path.clone(),
                    phase: DeadlinePhase::Sent,
                    limit: limits.call_deadline,
                })?
                .map_err(lost)?;
            if response.body().len() > limits.answer_bytes {
                return Err(lost(crate::transport::TransportError::AnswerTooLarge { limit: limits.answer_bytes }));
            }
            Ok(response)
        }
        .boxed()
    }

    /// The answer, when its status says success.
    fn successful(&self, response: http::Response<Bytes>, target: &Target) -> Result<Answer, Error> {
        let status = response.status();
        let request_id = self.request_id(response.headers());
        if !status.is_success() {
            let body = self.without_secret(response.body());
            return Err(Error::Api(Box::new(ApiError::understand(ReceivedAnswer {
                method: target.method,
                path: &target.path,
                status: status.as_u16(),
                request_id,
                retry_after: retry_after(response.headers()),
                body: &body,
            }))));
        }
        Ok(Answer {
            method: target.method.to_owned(),
            path: target.path.clone(),
            status: status.as_u16(),
            request_id,
            total_count: total_count(response.headers()),
            body: response.into_body(),
        })
    }

    /// Scaleway's id of a request. It is quoted in errors, so it is not to repeat the key either.
    fn request_id(&self, headers: &HeaderMap) -> Option<String> {
        let id = header_text(headers, &REQUEST_ID)?;
        Some(String::from_utf8_lossy(&self.without_key(&id.into())).into_owned())
    }

    fn without_secret_in(&self, error: Error) -> Error {
        match error {
            Error::Malformed(mut answer) => {
                let body = self.without_secret(&Bytes::from(std::mem::take(&mut answer.body)));
                answer.body = String::from_utf8_lossy(&body).into_owned();
                let problem = self.without_secret(&Bytes::from(std::mem::take(&mut answer.problem)));
                answer.problem = String::from_utf8_lossy(&problem).into_owned();
                Error::Malformed(answer)
            }
            other => other,
        }
    }

    /// Passwords that an answer holds stay with those who call for the answer itself. And should an answer ever repeat
    /// the key (a proxy that echoes requests does), it goes no further.
    fn without_secret(&self, body: &Bytes) -> Bytes {
        match crate::redaction::sealed(body) {
            Cow::Borrowed(_) => self.without_key(body),
            Cow::Owned(sealed) => self.without_key(&sealed.into()),
        }
    }

    fn without_key(&self, body: &Bytes) -> Bytes {
        let secret = self.settings.secret_key().expose();
        if !body.windows(secret.len()).any(|window| window.eq_ignore_ascii_case(secret.as_bytes())) {
            return body.clone();
        }
        let mut scrubbed = body.to_vec();
        let mut at = 0;
        while at + secret.len() <= scrubbed.len() {
            if scrubbed[at..at + secret.len()].eq_ignore_ascii_case(secret.as_bytes()) {
                scrubbed[at..at + secret.len()].fill(b'*');
                at += secret.len();
            } else {
                at += 1;
            }
        }
        scrubbed.into()
    }
}

/// Counts a call as under way for as long as it lives, also when its future is dropped.
struct InFlight;

impl InFlight {
    fn begin() -> Self {
        metrics::gauge!(metric_names::CALLS_IN_FLIGHT).increment(1.0);
        Self
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!(metric_names::CALLS_IN_FLIGHT).decrement(1.0);
    }
}

fn record(target: &Target, status: Option<u16>, elapsed: Duration, error: Option<&Error>) {
    let class = error.map_or("ok", |error| error.class().as_str());
    let span = tracing::Span::current();
    if let Some(status) = status {
        span.record("status", status);
    }
    span.record("class", class);
    span.record("duration_ms", u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    match error {
        None => tracing::debug!("done"),
        Some(error) if error.class() == ErrorClass::NotFound => tracing::debug!(%error, "not found"),
        Some(error) => tracing::info!(%error, ambiguous = error.is_ambiguous(), "failed"),
    }
    let status = status.map_or_else(|| "none".to_owned(), |status| status.to_string());
    metrics::counter!(
        metric_names::CALLS,
        "method" => target.method, "path" => target.template, "status" => status, "class" => class
    )
    .increment(1);
    metrics::histogram!(metric_names::CALL_SECONDS, "method" => target.method, "path" => target.template)
        .record(elapsed.as_secs_f64());
}

/// The path below the base, for errors: without a proxy's prefix, and without the query.
fn api_path(url: &Url, base: &Url) -> String {
    url.path().strip_prefix(base.path().trim_end_matches('/')).unwrap_or(url.path()).to_owned()
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(text.chars().take(256).collect())
}

fn total_count(headers: &HeaderMap) -> Option<u64> {
    header_text(headers, &TOTAL_COUNT).and_then(|text| text.trim().parse().ok())
}

fn method_label(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}
