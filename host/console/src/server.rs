//! The pages over HTTP, and the word that something has changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::Markup;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{OperationFilter, OperationId, OperationState, StateDirectory};
use windlass_policy::DecisionFilter;

use crate::pages::{self, Frame};
use crate::read::Source;
use crate::{Access, Candidates, Error, Prices};

/// The look of pages.
pub(crate) const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Nothing runs and nothing is shown but what comes from here.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// How often it is looked whether something has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Pages that are told of changes at the same time; a further one is read again by hand.
const MOST_FOLLOWERS: usize = 32;

/// A console on a state directory.
#[derive(Debug)]
pub struct Console {
    source: Source,
    access: Access,
    followers: AtomicUsize,
    end: CancellationToken,
}

impl Console {
    /// On this directory, for those whom `access` lets look.
    #[must_use]
    pub fn new(state: StateDirectory, access: Access) -> Self {
        let (followers, end) = (AtomicUsize::new(0), CancellationToken::new());
        Self { source: Source::new(state), access, followers, end }
    }

    /// The same with what machines cost, which somebody else finds out.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { source: self.source.with_prices(prices), ..self }
    }

    /// The same with policies that decisions can be put to.
    #[must_use]
    pub fn with_candidates(self, candidates: Candidates) -> Self {
        Self { source: self.source.with_candidates(candidates), ..self }
    }

    /// The pages as a service, for a server that has others.
    pub fn router(self) -> Router {
        routes(Arc::new(self))
    }
}

/// Serves the console until `end`.
///
/// # Errors
/// The listener broke.
pub async fn serve(listener: TcpListener, console: Console, end: CancellationToken) -> Result<(), Error> {
    let address = listener.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into());
    let console = Console { end: end.clone(), ..console };
    let ended = async move { end.cancelled().await };
    axum::serve(listener, console.router())
        .with_graceful_shutdown(ended)
        .await
        .map_err(|source| Error::Serve { address, source })
}

fn routes(console: Arc<Console>) -> Router {
    Router::new()
        .route("/", get(now))
        .route("/operations", get(operations))
        .route("/operations/{id}", get(operation))
        .route("/decisions", get(decisions))
        .route("/decisions/{id}", get(decision))
        .route("/policies", get(policies))
        .route("/clusters", get(clusters))
        .route("/clusters/{name}", get(cluster))
        .route("/changes", get(changes))
        .route("/assets/console.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
        .route("/assets/live.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/assets/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(&console), guard))
        .with_state(console)
}

/// Lets nobody through who may not look, and tells browsers what pages may do.
async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let mut response = match console.access.refusal(request.method(), request.headers()) {
        Some((status, words)) => {
            let mut response = (status, words).into_response();
            if status == StatusCode::UNAUTHORIZED {
                let challenge = HeaderValue::from_static("Basic realm=\"Windlass\", charset=\"UTF-8\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            response
        }
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("referrer-policy"), "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn asset(kind: &'static str, content: &'static str) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    (headers, content).into_response()
}

type Shown = Result<Markup, Error>;

async fn now(State(console): State<Arc<Console>>) -> Response {
    let now = console.source.now().await;
    shown(&console, "Now", "/", now.map(|now| pages::now(&now)))
}

#[derive(Debug, Default, Deserialize)]
struct WhichOperations {
    state: Option<String>,
    before: Option<String>,
}

async fn operations(State(console): State<Arc<Console>>, Query(which): Query<WhichOperations>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(move || {
        let mut filter = OperationFilter::default();
        let states = [
            OperationState::Open,
            OperationState::Unverified,
            OperationState::Left,
            OperationState::Kept,
            OperationState::Undone,
            OperationState::Done,
        ];
        filter.states = states.into_iter().filter(|state| which.state.as_deref() == Some(state.as_str())).collect();
        filter.before = which.before.as_deref().and_then(|id| OperationId::parse(id).ok());
        let (found, next) = source.source.operations(filter.clone())?;
        Ok(pages::operations(&found, &filter, next.as_ref()))
    });
    shown(&console, "Operations", "/operations", content.await)
}

async fn operation(State(console): State<Arc<Console>>, Path(id): Path<String>) -> Response {
    let (source, of) = (Arc::clone(&console), id.clone());
    let content = reading(move || Ok(pages::operation(&source.source.operation(&of)?))).await;
    shown(&console, &id, "/operations", content)
}

#[derive(Debug, Default, Deserialize)]
struct WhichDecisions {
    slot: Option<String>,
    failed: Option<bool>,
    policy: Option<String>,
    before: Option<String>,
}

async fn decisions(State(console): State<Arc<Console>>, Query(which): Query<WhichDecisions>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(move || {
        let mut filter = DecisionFilter::default();
        filter.slot = which.slot.as_deref().and_then(|slot| slot.parse().ok());
        filter.only_fallbacks = which.failed == Some(true);
        filter.policy = which.policy;
        filter.limit = crate::read::PAGE;
        let before = which.before.as_deref().and_then(|id| id.parse().ok());
        Ok(pages::decisions(&source.source.decisions(&filter, before)?, &filter))
    });
    shown(&console, "Decisions", "/decisions", content.await)
}

#[derive(Debug, Default, Deserialize)]
struct WhichPolicy {
    policy: Option<String>,
}

async fn decision(
    State(console): State<Arc<Console>>,
    Path(id): Path<String>,
    Query(which): Query<WhichPolicy>,
) -> Response {
    let (source, of) = (Arc::clone(&console), id.clone());
    let content = reading(move || Ok(pages::decision(&source.source.decision(&of, which.policy.as_deref())?))).await;
    shown(&console, &id, "/decisions", content)
}

async fn policies(State(console): State<Arc<Console>>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(move || Ok(pages::policies(&source.source.policies()?))).await;
    shown(&console, "Policies", "/policies", content)
}

async fn clusters(State(console): State<Arc<Console>>) -> Response {
    let found = console.source.all_clusters().await;
    shown(&console, "Clusters", "/clusters", found.map(|found| pages::clusters(&found)))
}

async fn cluster(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Response {
    let found = console.source.cluster(&name).await;
    shown(&console, &name, "/clusters", found.map(|found| pages::cluster(&found)))
}

async fn nothing(State(console): State<Arc<Console>>, request: Request) -> Response {
    let name = request.uri().path().to_owned();
    shown(&console, "Not found", "", Err(Error::Unknown { what: "page", name }))
}

/// Reads on a thread for it: files are read, and a log may be large.
async fn reading(read: impl FnOnce() -> Shown + Send + 'static) -> Shown {
    match tokio::task::spawn_blocking(read).await {
        Ok(shown) => shown,
        // A page that panicked; the panic was logged.
        Err(_) => Err(Error::Unknown { what: "answer:", name: "this page is defective".to_owned() }),
    }
}

fn shown(console: &Console, title: &str, part: &str, content: Shown) -> Response {
    let (status, title, content) = match content {
        Ok(content) => (StatusCode::OK, title, content),
        Err(error) => {
            let unknown = matches!(error, Error::Unknown { .. });
            let (status, title) = match unknown {
                true => (StatusCode::NOT_FOUND, "Not found"),
                false => (StatusCode::INTERNAL_SERVER_ERROR, "It cannot be shown"),
            };
            if !unknown {
                tracing::warn!(error = &error as &dyn std::error::Error, "a page of the console cannot be shown");
            }
            (status, title, pages::problem(title, &words(&error)))
        }
    };
    let page = pages::page(title, Frame::Served { part }, &console.source.path(), &content);
    let kind = [(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))];
    (status, kind, Body::from(page.into_string())).into_response()
}

/// An error and its causes.
fn words(error: &Error) -> Vec<String> {
    let mut words = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(of) = cause {
        words.push(of.to_string());
        cause = of.source();
    }
    words
}

/// One of those that are told of changes.
struct Follower(Arc<Console>);

impl Follower {
    fn of(console: &Arc<Console>) -> Option<Self> {
        let taken = console
            .followers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < MOST_FOLLOWERS).then_some(count + 1));
        taken.ok().map(|_| Self(Arc::clone(console)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An event each time that pages may look different.
async fn changes(State(console): State<Arc<Console>>) -> Response {
    let Some(follower) = Follower::of(&console) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are told of changes").into_response();
    };
    let mark =
        |console: Arc<Console>| async move { tokio::task::spawn_blocking(move || console.source.mark()).await.ok() };
    let before = mark(Arc::clone(&console)).await;
    let changes = futures::stream::unfold((follower, before), move |(follower, before)| async move {
        loop {
            tokio::select! {
                () = follower.0.end.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => {}
            }
            let now = mark(Arc::clone(&follower.0)).await;
            if now.is_some() && now != before {
                return Some((Ok::<_, Infallible>(Event::default().event("changed").data("")), (follower, now)));
            }
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}
