//! A plain caller of the simulator: JSON in, JSON out, in process.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use windlass_scaleway::TransportError;
use windlass_simulator::{Options, Simulator};

pub(crate) const TOKEN: &str = "3f2b8d8e-2a8b-4c0e-9d0f-6a1f0a6a7b11";
pub(crate) const INSTANCE: &str = "/instance/v1/zones/fr-par-1";
pub(crate) const BLOCK: &str = "/block/v1/zones/fr-par-1";

/// An answer, taken apart. `json` is null where the body was no JSON.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) json: Value,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body of a reply that must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self.json
    }
}

#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) simulator: Simulator,
    token: Option<String>,
}

impl Caller {
    /// A caller of a simulator whose clock stands still but for the controls.
    pub(crate) fn still() -> Self {
        Self::of(Options { time_scale: 0.0, ..Options::default() })
    }

    pub(crate) fn of(options: Options) -> Self {
        Self { simulator: Simulator::new(options), token: Some(TOKEN.to_owned()) }
    }

    pub(crate) fn with_token(&self, token: Option<&str>) -> Self {
        Self { simulator: self.simulator.clone(), token: token.map(str::to_owned) }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Reply, TransportError> {
        let mut request = Request::builder().method(method).uri(format!("https://api.scaleway.com{path}"));
        if let Some(token) = &self.token {
            request = request.header("x-auth-token", token);
        }
        let response = self.simulator.transport().send(request.body(body).unwrap()).await?;
        let (parts, body) = response.into_parts();
        let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Ok(Reply { status: parts.status, headers: parts.headers, body, json })
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, Bytes::new()).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, body.to_string().into()).await.unwrap()
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PATCH, path, body.to_string().into()).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, Bytes::new()).await.unwrap()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.simulator.advance(Duration::from_secs(seconds));
    }

    /// The id of an image for block storage on x86_64, found as clients find it.
    pub(crate) async fn image(&self) -> String {
        self.image_of("instance_sbs").await
    }

    pub(crate) async fn image_of(&self, kind: &str) -> String {
        self.image_in("fr-par-1", kind).await
    }

    pub(crate) async fn image_in(&self, zone: &str, kind: &str) -> String {
        let path = format!("/marketplace/v2/local-images?image_label=ubuntu_jammy&zone={zone}&type={kind}");
        let list = self.get(&path).await.expect(200);
        let images = list["local_images"].as_array().unwrap();
        let image = images.iter().find(|image| image["arch"] == "x86_64").unwrap();
        image["id"].as_str().unwrap().to_owned()
    }

    /// Creates a DEV1-S with these fields besides, and gives its id.
    pub(crate) async fn server(&self, more: Value) -> String {
        let mut request = json!({
            "name": "web", "commercial_type": "DEV1-S", "image": self.image().await, "dynamic_ip_required": false,
            "volumes": {"0": {"boot": false}},
        });
        for (key, value) in more.as_object().unwrap() {
            request[key] = value.clone();
        }
        let created = self.post(&format!("{INSTANCE}/servers"), request).await.expect(201);
        created["server"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn running_server(&self) -> String {
        let id = self.server(json!({})).await;
        self.act(&id, "poweron").await.expect(202);
        self.advance(10);
        id
    }

    pub(crate) async fn act(&self, id: &str, action: &str) -> Reply {
        self.post(&format!("{INSTANCE}/servers/{id}/action"), json!({"action": action})).await
    }

    /// The server as GET shows it.
    pub(crate) async fn shown(&self, id: &str) -> Value {
        self.get(&format!("{INSTANCE}/servers/{id}")).await.expect(200)["server"].clone()
    }

    pub(crate) async fn ip(&self, more: Value) -> String {
        let created = self.post(&format!("{INSTANCE}/ips"), more).await.expect(201);
        created["ip"]["id"].as_str().unwrap().to_owned()
    }
}
