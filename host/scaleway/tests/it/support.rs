//! A transport that answers by script and remembers what it was sent.

use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use serde_json::Value;
use windlass_scaleway::{Client, Settings, Transport, TransportError, Zone};

/// Own, made-up key.
pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
pub(crate) const PROJECT: &str = "00000000-0000-4000-8000-0000000000bb";
pub(crate) const SERVER: &str = "00000000-0000-4000-8000-000000000001";

pub(crate) type Outcome = Result<Response<Bytes>, TransportError>;

type Answer = dyn Fn(&Request<Bytes>) -> BoxFuture<'static, Outcome> + Send + Sync;

/// Answers each request by a function.
pub(crate) struct Scripted {
    answer: Box<Answer>,
    sent: Arc<Mutex<Vec<Request<Bytes>>>>,
}

impl Transport for Scripted {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Outcome> {
        let answer = (self.answer)(&request);
        self.sent.lock().unwrap().push(request);
        answer
    }
}

/// What was sent so far.
#[derive(Clone)]
pub(crate) struct Sent(Arc<Mutex<Vec<Request<Bytes>>>>);

impl Sent {
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn last(&self) -> Request<Bytes> {
        self.0.lock().unwrap().last().expect("a request was sent").clone()
    }
}

pub(crate) fn settings() -> Settings {
    Settings::new(KEY.parse().unwrap()).with_project_id(PROJECT)
}

/// A client whose requests are answered by this function.
pub(crate) fn client_with<F, A>(settings: Settings, answer: F) -> (Client, Sent)
where
    F: Fn(&Request<Bytes>) -> A + Send + Sync + 'static,
    A: Future<Output = Outcome> + Send + 'static,
{
    let sent = Arc::new(Mutex::new(Vec::new()));
    let transport = Scripted { answer: Box::new(move |request| Box::pin(answer(request))), sent: sent.clone() };
    (Client::with_transport(settings, Arc::new(transport)).unwrap(), Sent(sent))
}

/// A client all of whose requests get this answer.
pub(crate) fn client_answered(status: u16, body: impl Into<Bytes>) -> (Client, Sent) {
    let body = body.into();
    client_with(settings(), move |_| {
        let body = body.clone();
        async move { Ok(response(status, body)) }
    })
}

/// An answer. A list of the Instance API tells its total, as Scaleway's do.
pub(crate) fn response(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    let body = body.into();
    let mut response = Response::builder().status(status).header("x-request-id", "request-1");
    if let Some(total) = serde_json::from_slice::<Value>(&body).ok().and_then(|body| total(&body)) {
        response = response.header("x-total-count", total);
    }
    response.body(body).unwrap()
}

fn total(body: &Value) -> Option<usize> {
    let lists = ["servers", "ips", "volumes", "private_nics"];
    let items = lists.iter().find_map(|key| body.get(key))?;
    items.as_array().map(Vec::len).or_else(|| items.as_object().map(|items| items.len()))
}

pub(crate) fn zone() -> Zone {
    "fr-par-1".parse().unwrap()
}

/// One of our own answers, by name.
pub(crate) fn fixture(name: &str) -> String {
    let all: Value = serde_json::from_str(include_str!("../fixtures/answers.json")).unwrap();
    assert!(!all[name].is_null(), "there is no fixture {name}");
    all[name].to_string()
}

/// Past the test harness, which swallows what a passing test prints.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The folder of recordings is not part of the project: `../shared/facts` beside it, or `WINDLASS_FACTS`.
pub(crate) fn facts(file: &str) -> Option<Value> {
    let folder = std::env::var_os("WINDLASS_FACTS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts"), PathBuf::from);
    match std::fs::read_to_string(folder.join(file)) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(_) => {
            say(&format!(
                "RECORDINGS ABSENT: {file} is not in {}; only our own fixtures were tested",
                folder.display()
            ));
            None
        }
    }
}
