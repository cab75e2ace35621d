//! The network between a process and Scaleway: what gets through, what stands in between, and what was sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokio::time::Instant;
use windlass_scaleway::{Transport, TransportError};

use crate::disk::Disk;
use crate::story::{Endpoint, OutageKind};

/// How long a gateway takes to answer by itself.
const GATEWAY: Duration = Duration::from_millis(30);

/// A process, from its start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) seat: usize,
    /// Tells the processes of one seat apart.
    pub(crate) start: u64,
    /// Whether its state directory is a copy, or a backup that was restored and that nobody has taken over.
    pub(crate) on_copy: bool,
}

/// A call that a process has sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) by: Sender,
    pub(crate) at: Duration,
    /// When the answer came, and its status.
    pub(crate) answered: Option<(Duration, u16)>,
    pub(crate) method: http::Method,
    pub(crate) path: String,
    /// What a server is told to do, or to give away.
    pub(crate) word: Option<String>,
}

/// The collections whose members have a life of their own.
const COLLECTIONS: [&str; 3] = ["servers", "ips", "volumes"];

/// A path up to the id of the resource that it is about, and the rest. `None` for lists and all else.
fn split_at_id(path: &str) -> Option<(&str, &str)> {
    let mut segments = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    segments.nth(4)?;
    // `/instance/v1/zones/fr-par-1/servers/ID/...`: the fifth segment is the collection, the sixth the id.
    let end = segments.nth(1)?;
    let (resource, rest) = path.split_at(end);
    let collection = resource.rsplit('/').nth(1)?;
    COLLECTIONS.contains(&collection).then_some((resource, rest))
}

impl Sent {
    pub(crate) fn changes(&self) -> bool {
        self.method != http::Method::GET
    }

    /// The path of the resource that this call destroys, stops or takes something from.
    pub(crate) fn destroys(&self) -> Option<&str> {
        let (resource, rest) = split_at_id(&self.path)?;
        let word = self.word.as_deref();
        let destroys = match (self.method.as_str(), rest) {
            ("DELETE", _) | ("POST", "/detach-volume") => true,
            ("POST", "/action") => word.is_some_and(|word| word != "poweron"),
            ("PATCH", "") => word == Some("detach"),
            _ => false,
        };
        destroys.then_some(resource)
    }

    /// Whether it powers this server on.
    pub(crate) fn powers_on(&self, server: &str) -> bool {
        self.word.as_deref() == Some("poweron")
            && split_at_id(&self.path).is_some_and(|(resource, _)| id_of(resource) == server)
    }
}

/// The id at the end of a resource's path.
pub(crate) fn id_of(resource: &str) -> &str {
    resource.rsplit('/').next().unwrap_or_default()
}

fn word_of(method: &http::Method, path: &str, body: &[u8]) -> Option<String> {
    let (_, rest) = split_at_id(path)?;
    let body = || serde_json::from_slice::<Value>(body).ok();
    match (method.as_str(), rest) {
        ("POST", "/action") => body()?["action"].as_str().map(str::to_owned),
        ("PATCH", "") if path.contains("/ips/") => {
            body()?.as_object()?.get("server")?.is_null().then(|| "detach".to_owned())
        }
        _ => None,
    }
}

/// All calls that change something or read a resource by its id, in order.
#[derive(Debug)]
pub(crate) struct Ledger {
    origin: Instant,
    sent: Mutex<Vec<Sent>>,
}

impl Ledger {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, sent: Mutex::default() }
    }

    pub(crate) fn all(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }

    fn note(&self, by: Sender, request: &http::Request<Bytes>) -> Option<usize> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if method == http::Method::GET && split_at_id(&path).is_none() {
            return None;
        }
        let word = word_of(&method, &path, request.body());
        let mut sent = self.sent.lock();
        sent.push(Sent { by, at: self.origin.elapsed(), answered: None, method, path, word });
        Some(sent.len() - 1)
    }

    fn answered(&self, index: Option<usize>, status: http::StatusCode) {
        let Some(index) = index else { return };
        if let Some(sent) = self.sent.lock().get_mut(index) {
            sent.answered = Some((self.origin.elapsed(), status.as_u16()));
        }
    }
}

/// What stands between all processes and Scaleway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Between {
    /// Endpoints for which a gateway answers.
    pub(crate) outages: Vec<(Endpoint, OutageKind)>,
    /// Whether servers show volumes of Block Storage under a type that nobody knows yet.
    pub(crate) new_volume_type: bool,
}

impl Between {
    fn answer(&self, request: &http::Request<Bytes>) -> Option<http::Response<Bytes>> {
        let meets = |endpoint: Endpoint| endpoint.is(request.method().as_str(), request.uri().path());
        let (_, kind) = self.outages.iter().find(|(endpoint, _)| meets(*endpoint))?;
        let (status, body) = kind.answer();
        let mut answer = http::Response::new(Bytes::from_static(body.as_bytes()));
        *answer.status_mut() = status;
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Some(answer)
    }

    fn shown(&self, path: &str, answer: http::Response<Bytes>) -> http::Response<Bytes> {
        let is_server = path.starts_with("/instance/") && path.contains("/servers");
        if !self.new_volume_type || !is_server {
            return answer;
        }
        let (mut parts, body) = answer.into_parts();
        let Ok(text) = std::str::from_utf8(&body) else { return http::Response::from_parts(parts, body) };
        parts.headers.remove(http::header::CONTENT_LENGTH);
        http::Response::from_parts(parts, text.replace("\"sbs_volume\"", "\"sbs_of_tomorrow\"").into())
    }
}

/// The network of a process: nothing leaves it, and nothing arrives, once its disk has lost power. What has left it
/// arrives at Scaleway although its caller is gone, or does not: the seed decides for each call.
pub(crate) struct Wire {
    pub(crate) inner: Arc<dyn Transport>,
    pub(crate) by: Sender,
    pub(crate) disk: Arc<Disk>,
    pub(crate) random: Mutex<ChaCha8Rng>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) between: Arc<Mutex<Between>>,
}

impl Transport for Wire {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        if self.disk.is_lost() {
            return futures::future::pending().boxed();
        }
        let ledger = Arc::clone(&self.ledger);
        let noted = ledger.note(self.by, &request);
        if let Some(answer) = self.between.lock().answer(&request) {
            return async move {
                tokio::time::sleep(GATEWAY).await;
                ledger.answered(noted, answer.status());
                Ok(answer)
            }
            .boxed();
        }
        let path = request.uri().path().to_owned();
        let between = Arc::clone(&self.between);
        let (sent, disk) = (self.inner.send(request), Arc::clone(&self.disk));
        let outlives = self.random.lock().random_bool(0.5);
        async move {
            let answer = if outlives {
                // It ends only with the world.
                tokio::spawn(sent).await.unwrap_or_else(|error| Err(TransportError::Lost(error.into())))
            } else {
                sent.await
            };
            if disk.is_lost() {
                return futures::future::pending().await;
            }
            let answer = answer?;
            ledger.answered(noted, answer.status());
            Ok(between.lock().shown(&path, answer))
        }
        .boxed()
    }
}
