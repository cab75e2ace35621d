//! Recorded traffic, where it is at hand: every answer of a call that this crate makes is understood, and what we send
//! equals what Scaleway's own tools sent.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_scaleway::types::apple_silicon;
use windlass_scaleway::types::block::{CreateBlockVolume, ListBlockVolumes, UpdateBlockVolume};
use windlass_scaleway::types::instance::*;
use windlass_scaleway::types::ipam::ListIpamIps;
use windlass_scaleway::{Client, Error, ErrorClass};

use crate::support::*;

/// What came of a recorded call.
enum Outcome {
    /// We make this call; its answer was understood so.
    Understood(Result<(), Error>),
    /// We don't make this call.
    NotOurs,
}

/// Makes the call that a method and a path stand for. `request` is the recorded body.
async fn call(client: &Client, method: &str, path: &str, request: &Value) -> Outcome {
    fn body<T: serde::de::DeserializeOwned>(request: &Value) -> T {
        serde_json::from_value(request.clone()).unwrap_or_else(|error| panic!("{error} in {request}"))
    }
    let path = path.split('?').next().unwrap();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (api, rest) = match segments[..] {
        ["instance", "v1", "zones", _, ref rest @ ..] => ("instance", rest),
        ["block", "v1" | "v1alpha1", "zones", _, ref rest @ ..] => ("block", rest),
        ["marketplace", "v2", ref rest @ ..] => ("marketplace", rest),
        ["ipam", "v1", "regions", _, ref rest @ ..] => ("ipam", rest),
        ["apple-silicon", "v1alpha1", "zones", _, ref rest @ ..] => ("apple-silicon", rest),
        _ => return Outcome::NotOurs,
    };
    let instance = client.instance(&zone());
    let block = client.block(&zone());
    let apple = client.apple_silicon(&zone());
    let done = match (api, method, rest) {
        ("instance", "GET", ["servers"]) => instance.list_servers(&ListServers::default()).await.map(drop),
        ("instance", "POST", ["servers"]) => instance.create_server(&body(request)).await.map(drop),
        ("instance", "GET", ["servers", id]) => instance.get_server(id).await.map(drop),
        ("instance", "PATCH", ["servers", id]) => instance.update_server(id, &body(request)).await.map(drop),
        ("instance", "DELETE", ["servers", id]) => instance.delete_server(id).await,
        ("instance", "POST", ["servers", id, "action"]) => {
            instance.server_action(id, body::<ServerActionRequest>(request)).await.map(drop)
        }
        ("instance", "POST", ["servers", id, "attach-volume"]) => {
            instance.attach_server_volume(id, &body(request)).await.map(drop)
        }
        ("instance", "POST", ["servers", id, "detach-volume"]) => {
            instance.detach_server_volume(id, &body::<AttachVolume>(request).volume_id).await.map(drop)
        }
        ("instance", "GET", ["servers", id, "user_data"]) => instance.list_server_user_data(id).await.map(drop),
        ("instance", "GET", ["servers", id, "user_data", key]) => {
            instance.get_server_user_data(id, key).await.map(drop)
        }
        ("instance", "PATCH", ["servers", id, "user_data", key]) => {
            instance.set_server_user_data(id, key, request.as_str().unwrap_or_default().to_owned()).await
        }
        ("instance", "DELETE", ["servers", id, "user_data", key]) => instance.delete_server_user_data(id, key).await,
        ("instance", "GET", ["servers", id, "private_nics"]) => {
            instance.list_private_nics(id, &ListPrivateNics::default()).await.map(drop)
        }
        ("instance", "POST", ["servers", id, "private_nics"]) => {
            instance.create_private_nic(id, &body(request)).await.map(drop)
        }
        ("instance", "GET", ["ips"]) => instance.list_ips(&ListIps::default()).await.map(drop),
        ("instance", "POST", ["ips"]) => instance.create_ip(&body(request)).await.map(drop),
        ("instance", "GET", ["ips", id]) => instance.get_ip(id).await.map(drop),
        ("instance", "PATCH", ["ips", id]) => instance.update_ip(id, &body(request)).await.map(drop),
        ("instance", "DELETE", ["ips", id]) => instance.delete_ip(id).await,
        ("instance", "GET", ["volumes"]) => instance.list_volumes(&ListVolumes::default()).await.map(drop),
        ("instance", "POST", ["volumes"]) => instance.create_volume(&body(request)).await.map(drop),
        ("instance", "GET", ["volumes", id]) => instance.get_volume(id).await.map(drop),
        ("instance", "PATCH", ["volumes", id]) => instance.update_volume(id, &body(request)).await.map(drop),
        ("instance", "DELETE", ["volumes", id]) => instance.delete_volume(id).await,
        ("instance", "GET", ["products", "servers"]) => instance.list_server_types().await.map(drop),
        ("instance", "GET", ["images", id]) => instance.get_image(id).await.map(drop),
        // The answer to creating one has the shape of the answer to reading one.
        ("instance", "GET", ["security_groups", id]) => instance.get_security_group(id).await.map(drop),
        ("instance", "POST", ["security_groups"]) => instance.get_security_group("new").await.map(drop),
        ("instance", "GET", ["placement_groups", id]) => instance.get_placement_group(id).await.map(drop),
        ("block", "GET", ["volumes"]) => block.list_volumes(&ListBlockVolumes::default()).await.map(drop),
        ("block", "POST", ["volumes"]) => block.create_volume(&body::<CreateBlockVolume>(request)).await.map(drop),
        ("block", "GET", ["volumes", id]) => block.get_volume(id).await.map(drop),
        ("block", "PATCH", ["volumes", id]) => {
            block.update_volume(id, &body::<UpdateBlockVolume>(request)).await.map(drop)
        }
        ("block", "DELETE", ["volumes", id]) => block.delete_volume(id).await,
        ("marketplace", "GET", ["local-images"]) => client.marketplace().local_images("x", None, None).await.map(drop),
        ("ipam", "GET", ["ips"]) => client.ipam(&zone().region()).list_ips(&ListIpamIps::default()).await.map(drop),
        ("apple-silicon", "GET", ["servers"]) => {
            apple.list_servers(&apple_silicon::ListServers::default()).await.map(drop)
        }
        ("apple-silicon", "POST", ["servers"]) => apple.create_server(&body(request)).await.map(drop),
        ("apple-silicon", "GET", ["servers", id]) => apple.get_server(id).await.map(drop),
        ("apple-silicon", "PATCH", ["servers", id]) => apple.update_server(id, &body(request)).await.map(drop),
        ("apple-silicon", "DELETE", ["servers", id]) => apple.delete_server(id).await,
        ("apple-silicon", "POST", ["servers", id, "reboot"]) => apple.reboot_server(id).await.map(drop),
        ("apple-silicon", "GET", ["os"]) => {
            apple.list_os(&apple_silicon::ListOperatingSystems::default()).await.map(drop)
        }
        ("apple-silicon", "GET", ["server-types"]) => apple.list_server_types().await.map(drop),
        _ => return Outcome::NotOurs,
    };
    Outcome::Understood(done)
}

/// One recorded exchange.
struct Step<'a> {
    method: &'a str,
    path: &'a str,
    request: Value,
    status: u16,
    response: String,
}

impl Step<'_> {
    /// Replays the answer to our own call and compares. False: the call is none of ours.
    async fn is_understood(&self, place: &str) -> bool {
        let (status, response_text) = (self.status, self.response.clone());
        // A recorded page is one of several; here it is the whole list, or it would be asked for more.
        let (client, sent) = client_with(settings(), move |_| {
            let body = as_a_whole_list(&response_text);
            async move { Ok(response(status, body)) }
        });
        let outcome = call(&client, self.method, self.path, &self.request).await;
        let Outcome::Understood(result) = outcome else { return false };
        match (self.status, result) {
            (200..=299, Ok(())) => {}
            (200..=299, Err(error)) => panic!("{place}: {error}\n{}", self.response),
            (404, Err(error)) => assert!(error.is_not_found(), "{place}: {error}"),
            (status, Err(error)) => {
                assert_eq!(error.status(), Some(status), "{place}");
                assert_ne!(error.class(), ErrorClass::Other, "{place}: {error}");
            }
            (status, Ok(())) => panic!("{place}: {status} was taken for a success"),
        }
        let ours = sent.last();
        let writes = matches!(self.method, "POST" | "PUT" | "PATCH");
        if self.request.is_object() && ours.method().as_str() == self.method && writes {
            let ours: Value = serde_json::from_slice(ours.body()).unwrap();
            assert_eq!(settled(&ours), settled(&self.request), "{place}: what we send differs from what was recorded");
        }
        true
    }
}

/// A recorded body as far as it matters: which project and empty lists are the caller's business.
fn settled(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        for owner in ["project", "project_id", "organization"] {
            fields.remove(owner);
        }
        fields.retain(|_, value| *value != Value::Array(Vec::new()));
    }
    body
}

/// The body with a total that says that this page is the whole list.
fn as_a_whole_list(body: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str::<Value>(body) else { return body.to_owned() };
    if fields.remove("total_count").is_none() {
        return body.to_owned();
    }
    Value::Object(fields).to_string()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_recorded_sample_of_ours_is_understood_and_sent_alike() {
    let Some(samples) = facts("scaleway-real-samples.json") else { return };
    let samples = samples.as_object().unwrap();
    let mut skipped = Vec::new();
    for (name, sample) in samples {
        let path = sample["url"].as_str().unwrap().trim_start_matches("https://api.scaleway.com");
        let request = text_of(&sample["request_body"]);
        let step = Step {
            method: sample["method"].as_str().unwrap(),
            path,
            request: serde_json::from_str(&request).unwrap_or(Value::String(request)),
            status: sample["status"].as_u64().unwrap() as u16,
            response: text_of(&sample["response_body"]),
        };
        if !step.is_understood(name).await {
            skipped.push(name.as_str());
        }
    }
    say(&format!(
        "{} of {} recorded samples understood; not our calls: {skipped:?}",
        samples.len() - skipped.len(),
        samples.len()
    ));
    assert!(skipped.iter().all(|name| name.contains("v2alpha1")), "{skipped:?}");
}

#[tokio::test(start_paused = true)]
async fn every_recorded_conversation_is_understood_as_far_as_it_is_ours() {
    let Some(conversations) = facts("scaleway-conversations.json") else { return };
    let (mut understood, mut skipped) = (0, BTreeMap::<String, usize>::new());
    for (name, steps) in conversations.as_object().unwrap() {
        for (number, step) in steps.as_array().unwrap().iter().enumerate() {
            let step = Step {
                method: step["method"].as_str().unwrap(),
                path: step["path"].as_str().unwrap(),
                request: step["request"].clone(),
                status: step["status"].as_u64().unwrap() as u16,
                response: text_of(&step["response"]),
            };
            if step.is_understood(&format!("{name} #{number}: {} {}", step.method, step.path)).await {
                understood += 1;
            } else {
                let kind: Vec<&str> = step.path.split(['/', '?']).skip(1).take(2).collect();
                *skipped.entry(format!("{} {}", step.method, kind.join("/"))).or_default() += 1;
            }
        }
    }
    say(&format!("{understood} recorded steps understood; not our calls: {skipped:?}"));
    assert!(understood >= 700, "{understood}");
}
