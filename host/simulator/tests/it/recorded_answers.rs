//! Refusals and single answers that were recorded from the real Scaleway, provoked here and compared: refusals by
//! status and every word of their bodies, answers by their keys, types and nulls. (Whole dialogues:
//! `conversations.rs`.)

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_simulator::{Availability, FaultKind, FaultRule, Options, RefusalStatus};

use crate::caller::{BLOCK, Caller, INSTANCE, Reply};
use crate::conversations::facts;

const UNKNOWN: &str = "5c1a0d5e-0000-4000-8000-000000000000";
const APPLE: &str = "/apple-silicon/v1alpha1/zones/fr-par-1";

/// Ids, addresses and dates become `#`: whatever is long, has a digit, and consists of what those consist of.
fn general(text: &str) -> String {
    let is_part = |character: char| character.is_ascii_hexdigit() || matches!(character, '.' | ':' | '-');
    let mut words = String::new();
    let mut run = String::new();
    for character in text.chars().chain(std::iter::once('\0')) {
        if is_part(character) {
            run.push(character);
            continue;
        }
        let stands_for_something = run.len() >= 8 && run.chars().any(|part| part.is_ascii_digit());
        words.push_str(if stands_for_something { "#" } else { &run });
        run.clear();
        words.extend((character != '\0').then_some(character));
    }
    words
}

fn generalised(value: &Value) -> Value {
    match value {
        Value::String(text) => general(text).into(),
        Value::Array(items) => items.iter().map(generalised).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), generalised(value))).collect(),
        other => other.clone(),
    }
}

/// Provokes a recorded refusal, told by its method, the end of its path, its status and its date.
async fn provoke(recorded: &Value) -> Option<Reply> {
    let caller = Caller::still();
    let text = |key: &str| recorded[key].as_str().unwrap_or_default().to_owned();
    let (method, path, body) = (text("method"), text("path_template"), text("body"));
    let server = format!("{INSTANCE}/servers");
    let reply = match (method.as_str(), path.as_str(), recorded["status"].as_u64()?) {
        ("PATCH", p, 400) if p.ends_with("/ips/{id}") => {
            let ip = caller.ip(json!({})).await;
            let reverse = "tf-reverse-instance.scaleway-terraform.com";
            caller.patch(&format!("{INSTANCE}/ips/{ip}"), json!({"reverse": reverse})).await
        }
        ("POST", p, 400) if p.ends_with("/servers") => caller.post(&server, json!({})).await,
        ("PATCH", p, 400) if p.ends_with("/servers/{id}") => {
            let id = caller.server(json!({})).await;
            caller.patch(&format!("{server}/{id}"), json!({"placement_group": "invalid-pg-id"})).await
        }
        ("POST", p, status @ (400 | 412)) if p.ends_with("/action") && body.contains("should be stopped") => {
            let refusal_status =
                if status == 400 { RefusalStatus::BadRequest } else { RefusalStatus::PreconditionFailed };
            let caller = Caller::of(Options { time_scale: 0.0, refusal_status, ..Options::default() });
            let id = caller.running_server().await;
            caller.act(&id, "poweron").await
        }
        ("POST", p, 400) if p.ends_with("/detach-volume") => {
            let id = caller.server(json!({})).await;
            caller.post(&format!("{server}/{id}/detach-volume"), json!({"volume_id": UNKNOWN})).await
        }
        ("POST", p, 401) if p.starts_with("/apple-silicon") => {
            caller.with_token(None).post(&format!("{APPLE}/servers"), json!({})).await
        }
        ("GET", p, 403) if p.starts_with("/apple-silicon") => caller.get(&format!("{APPLE}/servers/{UNKNOWN}")).await,
        ("POST", p, 404) if p.ends_with("/servers") && body.contains("instance_image") => {
            caller.post(&server, json!({"commercial_type": "DEV1-S", "image": UNKNOWN})).await
        }
        ("POST", p, 404) if p.ends_with("/servers") && body.contains("instance_ip") => {
            let image = caller.image().await;
            let request = json!({"commercial_type": "DEV1-S", "image": image, "public_ips": [UNKNOWN]});
            caller.post(&server, request).await
        }
        (_, p, 404) if p.starts_with("/block/") => caller.delete(&format!("{BLOCK}/volumes/{UNKNOWN}")).await,
        (_, _, 404) if body.contains("unknown_resource") => return None,
        ("POST", p, 404) if p.ends_with("/action") => caller.act(UNKNOWN, "poweron").await,
        (verb, p, 404) if p.ends_with("/servers/{id}") || p.ends_with("/volumes/{id}") => {
            let method: Method = verb.parse().unwrap();
            let path = p.replace("{zone}", "fr-par-1").replace("{id}", UNKNOWN);
            caller.send(method, &path, Bytes::new()).await.unwrap()
        }
        ("GET", p, 404) if p.contains("/user_data/") => {
            let id = caller.server(json!({})).await;
            caller.get(&format!("{server}/{id}/user_data/happy")).await
        }
        ("DELETE", p, 412) if p.starts_with("/apple-silicon") => {
            let created = caller.post(&format!("{APPLE}/servers"), json!({"type": "M4-S"})).await.expect(200);
            caller.delete(&format!("{APPLE}/servers/{}", created["id"].as_str().unwrap())).await
        }
        ("DELETE", p, 412) if p.ends_with("/snapshots/{id}") => {
            let empty = json!({"name": "v", "from_empty": {"size": 1_000_000_000}});
            let volume = caller.post(&format!("{BLOCK}/volumes"), empty).await.expect(200)["id"].clone();
            let snapshot = caller.post(&format!("{BLOCK}/snapshots"), json!({"volume_id": volume})).await.expect(200);
            let copy = json!({"name": "c", "from_snapshot": {"snapshot_id": snapshot["id"]}});
            caller.post(&format!("{BLOCK}/volumes"), copy).await.expect(200);
            caller.delete(&format!("{BLOCK}/snapshots/{}", snapshot["id"].as_str().unwrap())).await
        }
        ("DELETE", p, 412) if p.ends_with("/private-networks/{id}") => {
            let networks = "/vpc/v2/regions/fr-par/private-networks";
            let network = caller.post(networks, json!({})).await.expect(200)["id"].clone();
            let id = caller.server(json!({})).await;
            let nic = json!({"private_network_id": network});
            caller.post(&format!("{server}/{id}/private_nics"), nic).await.expect(201);
            caller.delete(&format!("{networks}/{}", network.as_str().unwrap())).await
        }
        ("GET", p, 429) if p.starts_with("/block/") => faulty(&caller, FaultKind::RateLimited).await,
        (_, _, 500) if body.contains("internal_server_error") => faulty(&caller, FaultKind::InternalServerError).await,
        (_, _, 503) if body.contains("connect error") => faulty(&caller, FaultKind::GatewayUnavailable).await,
        ("POST", p, 503) if p.starts_with("/apple-silicon") => {
            caller.simulator.set_stock("M1-M", Availability::Shortage);
            caller.post(&format!("{APPLE}/servers"), json!({"type": "M1-M"})).await
        }
        _ => return None,
    };
    Some(reply)
}

async fn faulty(caller: &Caller, kind: FaultKind) -> Reply {
    caller.simulator.add_fault(FaultRule::new("GET", "/**", kind)).unwrap();
    caller.get(&format!("{BLOCK}/volumes")).await
}

#[tokio::test]
async fn recorded_refusals_are_answered_word_for_word() {
    let Some(folder) = facts() else {
        eprintln!("recorded refusals: SKIPPED, no recordings here; set WINDLASS_FACTS to the folder that holds them");
        return;
    };
    let text = std::fs::read(folder.join("scaleway-real-errors.json")).unwrap();
    let errors: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let mut same = 0;
    for recorded in &errors {
        let Some(reply) = provoke(recorded).await else { continue };
        let body = recorded["body"].as_str().unwrap();
        let expected = serde_json::from_str::<Value>(body).map_or(Value::Null, |body| generalised(&body));
        let place = format!("{} {}", recorded["method"], recorded["path_template"]);
        assert_eq!(u64::from(reply.status.as_u16()), recorded["status"].as_u64().unwrap(), "{place}");
        assert_eq!(generalised(&reply.json), expected, "{place}");
        assert_eq!(reply.body.is_empty(), body.is_empty(), "{place}");
        assert_eq!(reply.header("content-type"), recorded["content_type"].as_str(), "{place}");
        same += 1;
    }
    // The others are shapes of the past, of other products, or could not be provoked: see `provoke`.
    println!("recorded refusals: {same} of {} are answered word for word", errors.len());
    assert!(same >= 24, "only {same} of {} refusals were compared", errors.len());
}

/// Where two answers differ in keys, types or nulls. Lists are compared by their first entry.
fn difference(recorded: &Value, actual: &Value, at: &str) -> Option<String> {
    match (recorded, actual) {
        (Value::Object(recorded), Value::Object(actual)) => {
            // One of two recorded versions of the API leaves this key out.
            let optional = |key: &String| key == "admin_password_encryption_ssh_key_id";
            if let Some(key) = actual.keys().find(|key| !recorded.contains_key(*key) && !optional(key)) {
                return Some(format!("{at}.{key} was not recorded"));
            }
            recorded.iter().find_map(|(key, value)| match actual.get(key) {
                None => Some(format!("{at}.{key} is missing")),
                Some(inner) => difference(value, inner, &format!("{at}.{key}")),
            })
        }
        (Value::Array(recorded), Value::Array(actual)) => {
            recorded.first().zip(actual.first()).and_then(|(recorded, actual)| difference(recorded, actual, at))
        }
        (recorded, actual) if std::mem::discriminant(recorded) == std::mem::discriminant(actual) => None,
        (recorded, actual) => Some(format!("{at} was {recorded}, is {actual}")),
    }
}

#[tokio::test]
async fn recorded_answers_have_the_same_keys_types_and_nulls() {
    let Some(folder) = facts() else {
        eprintln!("recorded answers: SKIPPED, no recordings here; set WINDLASS_FACTS to the folder that holds them");
        return;
    };
    let text = std::fs::read(folder.join("scaleway-real-samples.json")).unwrap();
    let samples: Value = serde_json::from_slice(&text).unwrap();
    let caller = Caller::still();
    let networks = "/vpc/v2/regions/fr-par/private-networks";
    let network = caller.post(networks, json!({})).await.expect(200)["id"].clone();
    caller.server(json!({"tags": ["stopped"]})).await;
    let dynamic = caller.server(json!({"dynamic_ip_required": true})).await;
    caller.act(&dynamic, "poweron").await.expect(202);
    let detail = format!("{INSTANCE}/servers/{dynamic}");
    caller.simulator.advance(Duration::from_secs(10));
    let size = 10_000_000_000_u64;
    let group = json!({"name": "g", "stateful": true, "inbound_default_policy": "drop"});
    let volume = json!({"name": "v", "volume_type": "l_ssd", "size": size});
    let block = json!({"name": "v", "from_empty": {"size": size}, "tags": ["test-tag"]});
    let nic = json!({"private_network_id": network});
    let answers = [
        ("get_server_dynamic_ip", caller.get(&detail).await),
        ("create_private_nic_v1", caller.post(&format!("{detail}/private_nics"), nic).await),
        ("list_private_nics", caller.get(&format!("{detail}/private_nics")).await),
        ("action_backup", caller.act(&dynamic, "backup").await),
        ("create_ip", caller.post(&format!("{INSTANCE}/ips"), json!({})).await),
        ("create_ip_v6", caller.post(&format!("{INSTANCE}/ips"), json!({"type": "routed_ipv6"})).await),
        ("create_volume", caller.post(&format!("{INSTANCE}/volumes"), volume).await),
        ("security_group_create", caller.post(&format!("{INSTANCE}/security_groups"), group).await),
        ("block_volume_create", caller.post(&format!("{BLOCK}/volumes"), block).await),
        ("block_volume_list", caller.get(&format!("{BLOCK}/volumes?tags=test-tag")).await),
        ("list_user_data", caller.get(&format!("{detail}/user_data")).await),
        ("apple_list_os", caller.get(&format!("{APPLE}/os?page=1")).await),
        ("list_servers_by_tags", caller.get(&format!("{INSTANCE}/servers?tags=stopped")).await),
    ];
    for (name, reply) in answers {
        let recorded = &samples[name];
        assert_eq!(u64::from(reply.status.as_u16()), recorded["status"].as_u64().unwrap(), "{name}");
        let body: Value = serde_json::from_str(recorded["response_body"].as_str().unwrap()).unwrap();
        assert_eq!(difference(&body, &reply.json, ""), None, "{name}");
    }
}
