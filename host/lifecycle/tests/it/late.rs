//! A way to the simulator on which chosen requests fare as they can with a slow service behind a gateway.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use windlass_scaleway::{Transport, TransportError};

type Response = http::Response<Bytes>;

/// What becomes of one request.
#[derive(Clone)]
pub(crate) enum Fate {
    /// It takes effect so much later, whoever still waits; the caller never hears of it.
    Hangs(Duration),
    /// The same, and the caller's connection is lost at once.
    Lost(Duration),
    /// The same, and the caller is told at once that it was done: the answer is what the service shows now, with the
    /// fields that were asked for.
    Promised(Duration),
    /// It is carried out, and the answer is this one.
    Answered(Value),
}

struct Rule {
    method: &'static str,
    ending: &'static str,
    fate: Fate,
    left: usize,
}

/// The way. Requests of no rule go through as they are.
#[derive(Clone)]
pub(crate) struct Late {
    inner: Arc<dyn Transport>,
    rules: Arc<Mutex<Vec<Rule>>>,
}

impl Late {
    pub(crate) fn over(inner: Arc<dyn Transport>) -> Self {
        Self { inner, rules: Arc::default() }
    }

    /// The next `count` requests of this method whose path ends so.
    pub(crate) fn next(&self, count: usize, method: &'static str, ending: &'static str, fate: Fate) {
        self.rules.lock().push(Rule { method, ending, fate, left: count });
    }

    /// Whether all that was to fare so has been sent.
    pub(crate) fn is_spent(&self) -> bool {
        self.rules.lock().iter().all(|rule| rule.left == 0)
    }

    fn fate(&self, request: &http::Request<Bytes>) -> Option<Fate> {
        let mut rules = self.rules.lock();
        let rule = rules.iter_mut().find(|rule| {
            rule.left > 0 && request.method() == rule.method && request.uri().path().ends_with(rule.ending)
        })?;
        rule.left -= 1;
        Some(rule.fate.clone())
    }
}

impl Transport for Late {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<Response, TransportError>> {
        let inner = Arc::clone(&self.inner);
        let later = {
            let inner = Arc::clone(&inner);
            move |request, after| {
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    inner.send(request).await
                });
            }
        };
        match self.fate(&request) {
            None => inner.send(request),
            Some(Fate::Hangs(after)) => {
                later(request, after);
                futures::future::pending().boxed()
            }
            Some(Fate::Lost(after)) => {
                later(request, after);
                async { Err(TransportError::Lost("the way was cut".into())) }.boxed()
            }
            Some(Fate::Promised(after)) => {
                // Read without the rest of the path that names what is to be done.
                let path = request.uri().path().trim_end_matches("/reinstall");
                let mut read = http::Request::get(path).body(Bytes::new()).unwrap();
                *read.headers_mut() = request.headers().clone();
                let asked: Value = serde_json::from_slice(request.body()).unwrap();
                later(request, after);
                async move {
                    let mut shown: Value = serde_json::from_slice(inner.send(read).await?.body()).unwrap();
                    shown.as_object_mut().unwrap().extend(asked.as_object().unwrap().clone());
                    Ok(answer(&shown))
                }
                .boxed()
            }
            Some(Fate::Answered(body)) => async move { inner.send(request).await.map(|_| answer(&body)) }.boxed(),
        }
    }
}

fn answer(body: &Value) -> Response {
    let response = http::Response::builder().header("content-type", "application/json");
    response.body(Bytes::from(body.to_string())).unwrap()
}
