//! An API that behaves otherwise than assumed, in one way: a transport that changes requests and answers on their way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_scaleway::{Transport, TransportError};

/// What is otherwise than assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Tag filters are ignored.
    FilterIgnored,
    /// A listing by tags is empty.
    FilterEmpty,
    /// Tags with `=` match nothing.
    FilterWithoutEquals,
    /// Tag filters match nothing unless a project is named.
    FilterNeedsProject,
    /// A filter by several tags matches only what carries exactly these.
    FilterExactSet,
    /// What is new is listed after so many milliseconds.
    LateListing(u64),
    /// Totals ignore filters.
    UnfilteredTotal,
    /// Totals count one too many.
    TotalOff,
    /// A deleted address is answered 403.
    GoneForbidden,
    /// An address in use cannot be deleted.
    AttachedAddressRefused,
    /// Cloud-init is answered 200 with a body.
    UserDataBody,
    /// Cloud-init may have 64 KiB.
    UserDataSmall,
    /// Tags of a block volume don't change.
    VolumeTagsKept,
    /// Deleting an attached block volume is answered 204.
    AttachedVolumeAccepted,
    /// A deletion takes the server's block volumes along.
    DeleteTakesVolumes,
    /// A power-on is answered 200.
    ActionAnswersOk,
    /// Deleting a running server is answered 204, and terminates it.
    RunningDeleteAccepted,
    /// Detaching is refused.
    DetachRefused,
}

use Misbehaviour as M;

pub struct Misbehaving {
    inner: Arc<dyn Transport>,
    how: Misbehaviour,
    /// What was made through here, and when.
    made: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Misbehaving {
    pub fn new(inner: Arc<dyn Transport>, how: Misbehaviour) -> Self {
        Self { inner, how, made: Arc::default() }
    }
}

/// One call, taken apart.
#[derive(Clone)]
struct Asked {
    method: Method,
    path: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Asked {
    fn of(request: &Request<Bytes>) -> Self {
        let parameters = url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        Self {
            method: request.method().clone(),
            path: request.uri().path().split('/').skip(1).map(str::to_owned).collect(),
            parameters: parameters.into_owned().collect(),
        }
    }

    fn ends_in(&self, end: &[&str]) -> bool {
        // `/instance/v1/zones/{zone}/...`
        self.path.get(4..).is_some_and(|rest| {
            rest.len() == end.len() && rest.iter().zip(end).all(|(segment, wanted)| *wanted == "*" || segment == wanted)
        })
    }

    fn is_block(&self) -> bool {
        self.path[0] == "block"
    }

    /// A listing of what has tags.
    fn is_listing(&self) -> bool {
        self.method == Method::GET && ["servers", "ips", "volumes"].iter().any(|kind| self.ends_in(&[kind]))
    }

    fn tags(&self) -> Vec<&str> {
        let given = self.parameters.iter().filter(|(name, _)| name == "tags");
        given.flat_map(|(_, value)| value.split(',')).collect()
    }

    fn names_a_project(&self) -> bool {
        self.parameters.iter().any(|(name, _)| name == "project" || name == "project_id")
    }

    fn key(&self) -> &str {
        &self.path[4]
    }
}

fn without_tags(request: &mut Request<Bytes>, asked: &Asked) {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(asked.parameters.iter().filter(|(name, _)| name != "tags"));
    let uri = format!("http://simulator{}?{}", request.uri().path(), query.finish());
    *request.uri_mut() = uri.parse::<Uri>().unwrap();
}

fn answer(status: u16, body: &Value) -> Response<Bytes> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let builder = Response::builder().status(status).header("content-type", "application/json");
    builder.body(body).unwrap()
}

fn refusal() -> Response<Bytes> {
    answer(
        400,
        &json!({"type": "precondition_failed", "message": "precondition is not respected", "precondition": "unknown"}),
    )
}

fn forbidden() -> Response<Bytes> {
    answer(403, &json!({"type": "permissions_denied", "message": "insufficient permissions", "details": []}))
}

/// Keeps the items of a listing that fit, and tells their number as its total.
fn keep(response: &mut Response<Bytes>, key: &str, fits: impl Fn(&Value) -> bool) {
    let mut body: Value = serde_json::from_slice(response.body()).unwrap();
    let items = body[key].as_array_mut().unwrap();
    let before = items.len() as i64;
    items.retain(fits);
    let fewer = before - items.len() as i64;
    change_total(response, &mut body, |total| total - fewer);
    *response.body_mut() = body.to_string().into();
}

fn change_total(response: &mut Response<Bytes>, body: &mut Value, change: impl Fn(i64) -> i64) {
    let header = response.headers().get("x-total-count").and_then(|total| total.to_str().ok()?.parse().ok());
    if let Some(total) = header {
        response.headers_mut().insert("x-total-count", change(total).to_string().parse().unwrap());
    }
    if let Some(total) = body["total_count"].as_i64() {
        body["total_count"] = change(total).into();
    }
}

fn total_of(response: &Response<Bytes>) -> i64 {
    let header = response.headers().get("x-total-count").and_then(|total| total.to_str().ok()?.parse().ok());
    header.unwrap_or_else(|| {
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        body["total_count"].as_i64().unwrap()
    })
}

impl Transport for Misbehaving {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        let (inner, how, made) = (Arc::clone(&self.inner), self.how, Arc::clone(&self.made));
        let asked = Asked::of(&request);
        async move {
            let filtered = asked.is_listing() && !asked.tags().is_empty();
            if filtered && how == M::FilterIgnored {
                without_tags(&mut request, &asked);
            }
            if asked.method == Method::DELETE {
                if let Some(answered) = instead_of_deleting(&inner, how, &asked, &request).await? {
                    return Ok(answered);
                }
            }
            if let Some(answered) = instead_of_changing(how, &asked, &request) {
                return Ok(answered);
            }
            if how == M::VolumeTagsKept && asked.method == Method::PATCH && asked.is_block() {
                *request.body_mut() = Bytes::from_static(b"{}");
            }
            let whole = match filtered && how == M::UnfilteredTotal {
                true => {
                    let mut all = request.clone();
                    without_tags(&mut all, &asked);
                    Some(total_of(&inner.send(all).await?))
                }
                false => None,
            };
            let mut response = inner.send(request).await?;
            note_made(&made, &asked, &response);
            let key = asked.key().to_owned();
            match how {
                M::FilterEmpty if filtered => keep(&mut response, &key, |_| false),
                M::FilterWithoutEquals if filtered && asked.tags().iter().any(|tag| tag.contains('=')) => {
                    keep(&mut response, &key, |_| false);
                }
                M::FilterNeedsProject if filtered && !asked.names_a_project() => {
                    keep(&mut response, &key, |_| false);
                }
                M::FilterExactSet if filtered && asked.tags().len() > 1 => {
                    let count = asked.tags().len();
                    keep(&mut response, &key, |item| item["tags"].as_array().unwrap().len() == count);
                }
                M::LateListing(milliseconds) if asked.is_listing() => {
                    let made = made.lock().unwrap();
                    let late = Duration::from_millis(milliseconds);
                    let shown =
                        |item: &Value| made.get(item["id"].as_str().unwrap()).is_none_or(|at| at.elapsed() >= late);
                    keep(&mut response, &key, shown);
                }
                M::TotalOff if asked.is_listing() => {
                    let mut body: Value = serde_json::from_slice(response.body()).unwrap();
                    change_total(&mut response, &mut body, |total| total + 1);
                    *response.body_mut() = body.to_string().into();
                }
                M::UnfilteredTotal => {
                    if let Some(whole) = whole {
                        let mut body: Value = serde_json::from_slice(response.body()).unwrap();
                        change_total(&mut response, &mut body, |_| whole);
                        *response.body_mut() = body.to_string().into();
                    }
                }
                M::GoneForbidden if asked.ends_in(&["ips", "*"]) && response.status() == StatusCode::NOT_FOUND => {
                    response = forbidden();
                }
                M::UserDataBody if asked.method == Method::PATCH && asked.path.contains(&"user_data".to_owned()) => {
                    response = answer(200, &json!({}));
                }
                M::ActionAnswersOk if asked.ends_in(&["servers", "*", "action"]) => {
                    *response.status_mut() = StatusCode::OK;
                }
                _ => {}
            }
            Ok(response)
        }
        .boxed()
    }
}

fn note_made(made: &Mutex<HashMap<String, Instant>>, asked: &Asked, response: &Response<Bytes>) {
    if asked.method != Method::POST || !response.status().is_success() || asked.path.len() != 5 {
        return;
    }
    let body: Value = serde_json::from_slice(response.body()).unwrap();
    let object = if asked.is_block() { &body } else { body.as_object().unwrap().values().next().unwrap() };
    made.lock().unwrap().insert(object["id"].as_str().unwrap().to_owned(), Instant::now());
}

fn instead_of_changing(how: Misbehaviour, asked: &Asked, request: &Request<Bytes>) -> Option<Response<Bytes>> {
    let small = asked.path.contains(&"user_data".to_owned()) && request.body().len() > 64 * 1024;
    let detaching = asked.ends_in(&["servers", "*", "detach-volume"]);
    match how {
        M::UserDataSmall if small => Some(refusal()),
        M::DetachRefused if detaching => Some(refusal()),
        _ => None,
    }
}

async fn instead_of_deleting(
    inner: &Arc<dyn Transport>,
    how: Misbehaviour,
    asked: &Asked,
    request: &Request<Bytes>,
) -> Result<Option<Response<Bytes>>, TransportError> {
    let call = |method: Method, path: String, body: Value| {
        let mut call = request.clone();
        *call.method_mut() = method;
        *call.uri_mut() = format!("http://simulator{path}").parse().unwrap();
        *call.body_mut() = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        inner.send(call)
    };
    let path = request.uri().path().to_owned();
    let relevant = match how {
        M::AttachedAddressRefused => asked.ends_in(&["ips", "*"]),
        M::AttachedVolumeAccepted => asked.is_block(),
        M::DeleteTakesVolumes | M::RunningDeleteAccepted => asked.ends_in(&["servers", "*"]),
        _ => false,
    };
    if !relevant {
        return Ok(None);
    }
    let body: Value = serde_json::from_slice(call(Method::GET, path.clone(), Value::Null).await?.body()).unwrap();
    Ok(match how {
        M::AttachedAddressRefused if body["ip"]["server"].is_object() => Some(refusal()),
        M::AttachedVolumeAccepted if body["references"].as_array().is_some_and(|all| !all.is_empty()) => {
            Some(answer(204, &Value::Null))
        }
        M::RunningDeleteAccepted if body["server"]["state"] == "running" => {
            call(Method::POST, format!("{path}/action"), json!({"action": "terminate"})).await?;
            Some(answer(204, &Value::Null))
        }
        M::DeleteTakesVolumes if body["server"]["state"] == "stopped" => {
            let deleted = call(Method::DELETE, path.clone(), Value::Null).await?;
            tokio::time::sleep(Duration::from_secs(10)).await;
            for volume in body["server"]["volumes"].as_object().unwrap().values() {
                let id = volume["id"].as_str().unwrap();
                call(Method::DELETE, format!("/block/v1/zones/{}/volumes/{id}", asked.path[3]), Value::Null).await?;
            }
            Some(deleted)
        }
        _ => None,
    })
}
