//! The pages over HTTP, and the word that something has changed.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
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
use futures::FutureExt as _;
use maud::Markup;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{OperationFilter, OperationId, OperationState, StateDirectory};
use windlass_policy::DecisionFilter;

use crate::connections::Certified;
use crate::pages::{self, Frame};
use crate::read::Source;
use crate::rehearsals::ShowRehearsal;
use crate::{Access, Candidates, Error, Prices};

const SCRIPT: &str = include_str!("../assets/live.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// Nothing runs and nothing is shown but what comes from here.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// How often it is looked whether something has changed.
const LOOK: Duration = Duration::from_secs(1);
/// How many pages are notified of changes at the same time; further ones are reloaded by hand.
const MAX_FOLLOWERS: usize = 32;
/// How long a page is notified of changes before it must ask again and authenticate again.
const MAX_FOLLOWING: Duration = Duration::from_secs(10 * 60);
/// Pages that are read at the same time; further ones wait.
const MAX_READERS: usize = 2;
/// How long a page may take, its waiting included.
const MAX_PAGE: Duration = Duration::from_secs(20);

/// A console on a state directory.
#[derive(Debug)]
pub struct Console {
    source: Source,
    access: Access,
    readers: Arc<Semaphore>,
    followers: AtomicUsize,
    /// What pages looked like last; one looks for all that follow.
    changed: watch::Sender<String>,
    /// Whether somebody looks.
    looking: Mutex<bool>,
    end: CancellationToken,
}

impl Console {
    /// On this directory, for those whom `access` lets look.
    #[must_use]
    pub fn new(state: StateDirectory, access: Access) -> Self {
        Self {
            source: Source::new(state),
            access,
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            followers: AtomicUsize::new(0),
            changed: watch::Sender::default(),
            looking: Mutex::new(false),
            end: CancellationToken::new(),
        }
    }

    /// Tells nobody of changes any more when this is cancelled.
    pub(crate) fn until(self, end: CancellationToken) -> Self {
        Self { end, ..self }
    }

    /// The same with what machines cost, which somebody else finds out.
    #[must_use]
    pub fn with_prices(self, prices: Prices) -> Self {
        Self { source: self.source.with_prices(prices), ..self }
    }

    /// The same, saying what it does not show: the state directories `FOLDER/GROUP/NAME` in this one, and what these
    /// words tell of.
    #[must_use]
    pub fn with_elsewhere(self, folder: &'static str, words: &'static str) -> Self {
        Self { source: self.source.with_elsewhere(folder, words), ..self }
    }

    /// The same with policies that decisions can be put to.
    #[must_use]
    pub fn with_candidates(self, candidates: Candidates) -> Self {
        Self { source: self.source.with_candidates(candidates), ..self }
    }

    /// The same with rehearsals that were saved in the directory, shown in this way.
    #[must_use]
    pub fn with_rehearsals(self, show: ShowRehearsal) -> Self {
        Self { source: self.source.with_rehearsals(show), ..self }
    }

    /// The pages as a service, for a server that has others.
    pub fn router(self) -> Router {
        routes(Arc::new(self))
    }
}

fn routes(console: Arc<Console>) -> Router {
    let router = Router::new();
    #[cfg(feature = "clusters")]
    let router = router.route("/clusters", get(clusters)).route("/clusters/{name}", get(cluster));
    router
        .route("/", get(now))
        .route("/operations", get(operations))
        .route("/operations/{id}", get(operation))
        .route("/decisions", get(decisions))
        .route("/decisions/{id}", get(decision))
        .route("/policies", get(policies))
        .route("/rehearsals", get(rehearsals))
        .route("/rehearsals/{name}", get(rehearsal))
        .route("/search", get(search))
        .route("/changes", get(changes))
        .route("/assets/console.css", get(|| async { asset("text/css; charset=utf-8", pages::STYLE) }))
        .route("/assets/live.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/assets/icon.svg", get(|| async { asset("image/svg+xml", ICON) }))
        .fallback(nothing)
        .layer(from_fn_with_state(Arc::clone(&console), guard))
        .with_state(console)
}

/// Lets nobody through who may not look, and tells browsers what pages may do.
async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let certified = request.extensions().get::<Certified>().is_some();
    let mut response = match console.access.refusal(request.method(), request.headers(), certified) {
        Some((status, words)) => {
            let mut response = (status, words).into_response();
            if status == StatusCode::UNAUTHORIZED {
                let challenge = HeaderValue::from_static("Basic realm=\"Windlass\", charset=\"UTF-8\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            response
        }
        // A page that panics costs its answer, and one that takes too long as well.
        None => match timeout(MAX_PAGE, AssertUnwindSafe(next.run(request)).catch_unwind()).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "this page cannot be rendered").into_response(),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "this page takes too long; try it later").into_response(),
        },
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
    let source = Arc::clone(&console);
    let now = reading(&console, move || Ok(pages::now(&Handle::current().block_on(source.source.now())?)));
    shown(&console, "Now", "/", now.await)
}

/// What somebody filters by: a form sends what was left empty, too.
fn given(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[derive(Debug, Default, Deserialize)]
struct WhichOperations {
    state: Option<String>,
    group: Option<String>,
    host: Option<String>,
    tenant: Option<String>,
    before: Option<String>,
}

async fn operations(State(console): State<Arc<Console>>, Query(which): Query<WhichOperations>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(&console, move || {
        let mut filter = OperationFilter::default();
        let states = [
            OperationState::Open,
            OperationState::Unverified,
            OperationState::Left,
            OperationState::Kept,
            OperationState::Undone,
            OperationState::Done,
            OperationState::Abandoned,
        ];
        filter.states = states.into_iter().filter(|state| which.state.as_deref() == Some(state.as_str())).collect();
        (filter.group, filter.host, filter.tenant) = (given(which.group), given(which.host), given(which.tenant));
        filter.before = which.before.as_deref().and_then(|id| OperationId::parse(id).ok());
        let (found, next) = source.source.operations(filter.clone())?;
        Ok(pages::operations(&found, &filter, next.as_ref(), source.source.is_shared()))
    });
    shown(&console, "Operations", "/operations", content.await)
}

async fn operation(State(console): State<Arc<Console>>, Path(id): Path<String>) -> Response {
    let (source, of) = (Arc::clone(&console), id.clone());
    let content = reading(&console, move || Ok(pages::operation(&source.source.operation(&of)?))).await;
    shown(&console, &id, "/operations", content)
}

#[derive(Debug, Default, Deserialize)]
struct WhichDecisions {
    slot: Option<String>,
    failed: Option<bool>,
    removals: Option<bool>,
    policy: Option<String>,
    before: Option<String>,
}

async fn decisions(State(console): State<Arc<Console>>, Query(which): Query<WhichDecisions>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(&console, move || {
        let mut filter = DecisionFilter::default();
        filter.slot = which.slot.as_deref().and_then(|slot| slot.parse().ok());
        filter.only_fallbacks = which.failed == Some(true);
        filter.only_removals = which.removals == Some(true);
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
    let content =
        reading(&console, move || Ok(pages::decision(&source.source.decision(&of, which.policy.as_deref())?))).await;
    shown(&console, &id, "/decisions", content)
}

#[derive(Debug, Default, Deserialize)]
struct WhichHost {
    host: Option<String>,
}

async fn policies(State(console): State<Arc<Console>>, Query(which): Query<WhichHost>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(&console, move || Ok(pages::policies(&source.source.policies(given(which.host))?))).await;
    shown(&console, "Policies", "/policies", content)
}

async fn rehearsals(State(console): State<Arc<Console>>) -> Response {
    let source = Arc::clone(&console);
    let content = reading(&console, move || Ok(pages::rehearsals(&source.source.rehearsals()?))).await;
    shown(&console, "Rehearsals", "/rehearsals", content)
}

async fn rehearsal(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Response {
    let (source, of) = (Arc::clone(&console), name.clone());
    let content = reading(&console, move || source.source.rehearsal(&of)).await;
    shown(&console, &name, "/rehearsals", content)
}

#[derive(Debug, Default, Deserialize)]
struct WhatFor {
    q: Option<String>,
}

async fn search(State(console): State<Arc<Console>>, Query(what): Query<WhatFor>) -> Response {
    let source = Arc::clone(&console);
    let found = reading(&console, move || {
        let text = what.q.unwrap_or_default();
        Ok(pages::search(&Handle::current().block_on(source.source.search(&text))?))
    });
    shown(&console, "Search", "/search", found.await)
}

#[cfg(feature = "clusters")]
async fn clusters(State(console): State<Arc<Console>>) -> Response {
    let source = Arc::clone(&console);
    let found =
        reading(&console, move || Ok(pages::clusters(&Handle::current().block_on(source.source.all_clusters())?)));
    shown(&console, "Clusters", "/clusters", found.await)
}

#[cfg(feature = "clusters")]
async fn cluster(State(console): State<Arc<Console>>, Path(name): Path<String>) -> Response {
    let (source, of) = (Arc::clone(&console), name.clone());
    let found = reading(&console, move || Ok(pages::cluster(&Handle::current().block_on(source.source.cluster(&of))?)));
    shown(&console, &name, "/clusters", found.await)
}

async fn nothing(State(console): State<Arc<Console>>, request: Request) -> Response {
    let name = request.uri().path().to_owned();
    shown(&console, "Not found", "", Err(Error::Unknown { what: "page", name }))
}

/// Reads on a thread for it: files are read, and a log may be large. Whoever gave it up, a reader has its place until
/// it has read.
async fn reading(console: &Console, read: impl FnOnce() -> Shown + Send + 'static) -> Shown {
    let place = Arc::clone(&console.readers).acquire_owned().await;
    let read = move || {
        let _place = place;
        read()
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(shown) => shown,
        // The panic was logged.
        Err(_) => Err(Error::Defective),
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
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot render a console page");
            }
            (status, title, pages::problem(title, &words(&error)))
        }
    };
    let frame = Frame::Served { part, has_rehearsals: console.source.shows_rehearsals() };
    let page = pages::page(title, frame, &console.source.path(), &content);
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

/// A page that is notified of changes.
struct Follower(Arc<Console>);

impl Follower {
    fn of(console: &Arc<Console>) -> Option<Self> {
        let taken = console
            .followers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < MAX_FOLLOWERS).then_some(count + 1));
        taken.ok().map(|_| Self(Arc::clone(console)))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What pages look like; none where that is unknown.
async fn mark(console: Arc<Console>) -> Option<String> {
    let mark = tokio::task::spawn_blocking(move || console.source.mark()).await.ok()?;
    Some(format!("{mark:016x}"))
}

/// Checks for changes, for as long as any page is notified of them.
async fn look(console: Arc<Console>) {
    loop {
        tokio::select! {
            () = console.end.cancelled() => return,
            () = sleep(LOOK) => {}
        }
        {
            let mut looking = console.looking.lock();
            if console.changed.receiver_count() == 0 {
                *looking = false;
                return;
            }
        }
        if let Some(now) = mark(Arc::clone(&console)).await {
            console.changed.send_if_modified(|before| {
                let changed = *before != now;
                *before = now;
                changed
            });
        }
    }
}

/// An event each time that pages may look different. Each has an id, so that a page that reconnects, as a
/// browser does by itself, learns of what came between.
async fn changes(State(console): State<Arc<Console>>, headers: HeaderMap) -> Response {
    let Some(follower) = Follower::of(&console) else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are waiting for changes").into_response();
    };
    let mut changed = console.changed.subscribe();
    if !*console.looking.lock() {
        let now = mark(Arc::clone(&console)).await.unwrap_or_default();
        let mut looking = console.looking.lock();
        if !*looking {
            *looking = true;
            console.changed.send_replace(now);
            tokio::spawn(look(Arc::clone(&console)));
        }
    }
    let now = changed.borrow_and_update().clone();
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let first = match seen.is_some_and(|seen| seen != now) {
        true => event(&now),
        // No event, but what is said at the next time.
        false => Event::default().id(now),
    };
    let last = Instant::now() + MAX_FOLLOWING;
    let following = futures::stream::unfold((follower, changed), move |(follower, mut changed)| async move {
        tokio::select! {
            () = follower.0.end.cancelled() => return None,
            () = sleep_until(last) => return None,
            reported = changed.changed() => reported.ok()?,
        }
        let now = changed.borrow_and_update().clone();
        Some((Ok::<_, Infallible>(event(&now)), (follower, changed)))
    });
    let events = futures::StreamExt::chain(futures::stream::iter([Ok(first)]), following);
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn event(mark: &str) -> Event {
    Event::default().event("changed").id(mark).data("")
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    fn console() -> (tempfile::TempDir, Arc<Console>) {
        let folder = tempfile::tempdir().unwrap();
        let access = Access::new("127.0.0.1:0".parse().unwrap(), [], None).unwrap();
        let console = Arc::new(Console::new(StateDirectory::open(folder.path()).unwrap(), access));
        (folder, console)
    }

    async fn status(router: Router, path: &str) -> StatusCode {
        let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
        router.oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_page_that_panics_costs_its_answer_and_nothing_else() {
        let (_folder, console) = console();
        async fn defective(State(console): State<Arc<Console>>) -> Response {
            let content = reading(&console, || panic!("while it was read")).await;
            shown(&console, "Defective", "", content)
        }
        let pages = Router::new()
            .route(
                "/defective",
                get(|| async {
                    if true {
                        panic!("a defective page")
                    }
                }),
            )
            .route("/unreadable", get(defective))
            .layer(from_fn_with_state(Arc::clone(&console), guard))
            .with_state(Arc::clone(&console));
        assert_eq!(status(pages.clone(), "/defective").await, StatusCode::INTERNAL_SERVER_ERROR);
        for _ in 0..2 * MAX_READERS {
            assert_eq!(status(pages.clone(), "/unreadable").await, StatusCode::INTERNAL_SERVER_ERROR);
        }
        // No reader is lost with it.
        assert_eq!(console.readers.available_permits(), MAX_READERS);
        assert_eq!(status(routes(console), "/").await, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_takes_too_long_is_given_up() {
        let (_folder, console) = console();
        let pages = Router::new()
            .route("/slow", get(|| async { std::future::pending::<&str>().await }))
            .layer(from_fn_with_state(Arc::clone(&console), guard))
            .with_state(console);
        assert_eq!(status(pages, "/slow").await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn so_many_pages_are_read_at_a_time_also_when_nobody_waits_for_them_any_more() {
        let (_folder, console) = console();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let read = || {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            reading(&console, move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(Markup::default())
            })
        };
        // Given up while they are read.
        for _ in 0..20 {
            let _ = timeout(Duration::from_millis(1), read()).await;
        }
        for page in futures::future::join_all((0..20).map(|_| read())).await {
            page.unwrap();
        }
        assert!(most.load(Ordering::SeqCst) <= MAX_READERS, "{most:?}");
    }
}
