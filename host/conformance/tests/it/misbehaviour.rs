//! An API that behaves otherwise than assumed, in a way that the simulator's own behaviours don't have: a transport
//! that changes requests and answers on their way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use windlass_scaleway::{Transport, TransportError};

/// What is otherwise than assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    /// A filter by several tags finds only what carries exactly these.
    FilterExactSet,
    /// An address in use cannot be deleted.
    AttachedAddressRefused,
    /// Cloud-init may have 64 KiB.
    UserDataSmall,
    /// Tags of a block volume don't change.
    VolumeTagsKept,
    /// Deleting an attached block volume is answered 204.
    AttachedVolumeAccepted,
    /// A stopped server takes its block volumes along when it is deleted.
    DeleteTakesVolumes,
    /// A terminated server takes its block volumes along.
    TerminateTakesVolumes,
    /// A power-on is answered 200.
    ActionAnswersOk,
    /// Deleting a running server is answered 204, and terminates it.
    RunningDeleteAccepted,
    /// Detaching is refused.
    DetachRefused,
    /// A protected server cannot be deleted.
    ProtectedDeleteRefused,
}

use Misbehaviour as M;

pub struct Misbehaving {
    inner: Arc<dyn Transport>,
    how: Misbehaviour,
}

impl Misbehaving {
    pub fn new(inner: Arc<dyn Transport>, how: Misbehaviour) -> Self {
        Self { inner, how }
    }
}

type Answered = Result<Option<Response<Bytes>>, TransportError>;

/// One call, taken apart.
struct Asked {
    method: Method,
    path: String,
    /// The segments behind the zone: `/instance/v1/zones/{zone}/...`
    rest: Vec<String>,
    tags: usize,
}

impl Asked {
    fn of(request: &Request<Bytes>) -> Self {
        let parameters = url::form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
        let tags = parameters.filter(|(name, _)| name == "tags").map(|(_, value)| value.split(',').count()).sum();
        let path = request.uri().path().to_owned();
        let rest = path.split('/').skip(5).map(str::to_owned).collect();
        Self { method: request.method().clone(), path, rest, tags }
    }

    fn is(&self, method: Method, wanted: &[&str]) -> bool {
        let fits = |(segment, wanted): (&String, &&str)| *wanted == "*" || segment == wanted;
        self.method == method && self.rest.len() == wanted.len() && self.rest.iter().zip(wanted).all(fits)
    }

    fn is_block(&self) -> bool {
        self.path.starts_with("/block/")
    }
}

fn answer(status: u16, body: &Value) -> Response<Bytes> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

fn refusal() -> Response<Bytes> {
    answer(400, &json!({"type": "precondition_failed", "message": "precondition is not respected"}))
}

impl Transport for Misbehaving {
    fn send(&self, mut request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, TransportError>> {
        let (inner, how) = (Arc::clone(&self.inner), self.how);
        async move {
            let asked = Asked::of(&request);
            if let Some(answered) = instead(&inner, how, &asked, &request).await? {
                return Ok(answered);
            }
            if how == M::VolumeTagsKept && asked.is_block() && asked.is(Method::PATCH, &["volumes", "*"]) {
                *request.body_mut() = Bytes::from_static(b"{}");
            }
            let mut response = inner.send(request).await?;
            if how == M::ActionAnswersOk && asked.is(Method::POST, &["servers", "*", "action"]) {
                *response.status_mut() = StatusCode::OK;
            }
            if how == M::FilterExactSet && asked.tags > 1 && asked.method == Method::GET {
                keep_exact(&mut response, &asked);
            }
            Ok(response)
        }
        .boxed()
    }
}

fn keep_exact(response: &mut Response<Bytes>, asked: &Asked) {
    let mut body: Value = serde_json::from_slice(response.body()).unwrap();
    let items = body[&asked.rest[0]].as_array_mut().unwrap();
    items.retain(|item| item["tags"].as_array().unwrap().len() == asked.tags);
    let count = items.len().to_string();
    response.headers_mut().insert("x-total-count", count.parse().unwrap());
    *response.body_mut() = body.to_string().into();
}

/// The answer to a call that is not let through, or not as it is.
async fn instead(inner: &Arc<dyn Transport>, how: Misbehaviour, asked: &Asked, request: &Request<Bytes>) -> Answered {
    let body = || serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
    let concerned = match how {
        M::UserDataSmall => {
            let large = request.body().len() > 64 * 1024;
            return Ok((large && asked.is(Method::PATCH, &["servers", "*", "user_data", "*"])).then(refusal));
        }
        M::DetachRefused => return Ok(asked.is(Method::POST, &["servers", "*", "detach-volume"]).then(refusal)),
        M::AttachedAddressRefused => asked.is(Method::DELETE, &["ips", "*"]),
        M::AttachedVolumeAccepted => asked.is_block() && asked.is(Method::DELETE, &["volumes", "*"]),
        M::DeleteTakesVolumes | M::RunningDeleteAccepted | M::ProtectedDeleteRefused => {
            asked.is(Method::DELETE, &["servers", "*"])
        }
        M::TerminateTakesVolumes => {
            asked.is(Method::POST, &["servers", "*", "action"]) && body()["action"] == "terminate"
        }
        _ => false,
    };
    if !concerned {
        return Ok(None);
    }
    let call = |method: Method, path: String, body: Value| {
        let mut call = request.clone();
        *call.method_mut() = method;
        *call.uri_mut() = format!("http://simulator{path}").parse().unwrap();
        *call.body_mut() = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        inner.send(call)
    };
    let path = asked.path.trim_end_matches("/action").to_owned();
    let read: Value = serde_json::from_slice(call(Method::GET, path.clone(), Value::Null).await?.body()).unwrap();
    let server = &read["server"];
    let is_attached = read["references"].as_array().is_some_and(|all| !all.is_empty());
    Ok(match how {
        M::AttachedAddressRefused if read["ip"]["server"].is_object() => Some(refusal()),
        M::AttachedVolumeAccepted if is_attached => Some(answer(204, &Value::Null)),
        M::ProtectedDeleteRefused if server["protected"] == true => Some(refusal()),
        M::RunningDeleteAccepted if server["state"] == "running" => {
            call(Method::POST, format!("{path}/action"), json!({"action": "terminate"})).await?;
            Some(answer(204, &Value::Null))
        }
        M::DeleteTakesVolumes | M::TerminateTakesVolumes if server["state"] != "stopping" => {
            let done = inner.send(request.clone()).await?;
            tokio::time::sleep(Duration::from_secs(20)).await;
            for volume in server["volumes"].as_object().unwrap().values() {
                let id = volume["id"].as_str().unwrap();
                call(Method::DELETE, format!("/block/v1/zones/fr-par-1/volumes/{id}"), Value::Null).await?;
            }
            Some(done)
        }
        _ => None,
    })
}
