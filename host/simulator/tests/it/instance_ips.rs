//! Flexible and dynamic IPs.

use serde_json::json;

use crate::caller::{Caller, INSTANCE};

#[tokio::test]
async fn without_a_type_an_ip_is_a_detached_routed_ipv4() {
    let caller = Caller::still();
    let ip = caller.post(&format!("{INSTANCE}/ips"), json!({"tags": ["t"]})).await.expect(201)["ip"].clone();
    assert_eq!((&ip["type"], &ip["state"]), (&json!("routed_ipv4"), &json!("detached")));
    assert!(ip["server"].is_null() && ip["prefix"].is_null());
    let by_address = caller.get(&format!("{INSTANCE}/ips/{}", ip["address"].as_str().unwrap())).await.expect(200);
    assert_eq!(by_address["ip"], ip);
}

#[tokio::test]
async fn an_ipv6_has_a_prefix_and_its_server_shows_an_address_within() {
    let caller = Caller::still();
    let ip = caller.post(&format!("{INSTANCE}/ips"), json!({"type": "routed_ipv6"})).await.expect(201)["ip"].clone();
    assert!(ip["address"].is_null());
    let prefix = ip["prefix"].as_str().unwrap().strip_suffix("::/64").unwrap().to_owned();
    let id = caller.server(json!({"public_ips": [ip["id"]]})).await;
    let shown = caller.shown(&id).await["public_ips"][0].clone();
    assert_eq!((&shown["family"], &shown["netmask"]), (&json!("inet6"), &json!("64")));
    assert!(shown["address"].as_str().unwrap().starts_with(&prefix), "{shown} not in {prefix}");
}

#[tokio::test]
async fn attaching_and_detaching_show_on_both_sides() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let ip = caller.ip(json!({})).await;
    let path = format!("{INSTANCE}/ips/{ip}");
    let attached = caller.patch(&path, json!({"server": id})).await.expect(200)["ip"].clone();
    assert_eq!((&attached["state"], &attached["server"]["id"]), (&json!("attached"), &json!(id)));
    assert_eq!(caller.shown(&id).await["public_ip"]["id"], ip.as_str());
    let detached = caller.patch(&path, json!({"server": null})).await.expect(200)["ip"].clone();
    assert_eq!(detached["state"], "detached");
    assert_eq!(caller.shown(&id).await["public_ips"], json!([]));
}

#[tokio::test]
async fn an_ip_of_one_server_is_not_given_to_another() {
    let caller = Caller::still();
    let ip = caller.ip(json!({})).await;
    let first = caller.server(json!({"public_ips": [ip]})).await;
    let second = caller.server(json!({})).await;
    caller.patch(&format!("{INSTANCE}/ips/{ip}"), json!({"server": second})).await.expect(400);
    assert_eq!(caller.shown(&first).await["public_ip"]["id"], ip.as_str());
}

#[tokio::test]
async fn a_dynamic_ip_lives_from_power_on_to_stop_and_gives_way_to_a_flexible_one() {
    let caller = Caller::still();
    let id = caller.server(json!({"dynamic_ip_required": true})).await;
    assert_eq!(caller.shown(&id).await["public_ips"], json!([]));
    caller.act(&id, "poweron").await.expect(202);
    caller.advance(10);
    let dynamic = caller.shown(&id).await["public_ips"][0].clone();
    assert_eq!((&dynamic["dynamic"], &dynamic["state"]), (&json!(true), &json!("attached")));
    assert_eq!(caller.get(&format!("{INSTANCE}/ips")).await.expect(200), json!({"ips": []}));
    caller.delete(&format!("{INSTANCE}/ips/{}", dynamic["id"].as_str().unwrap())).await.expect(404);
    caller.act(&id, "poweroff").await.expect(202);
    caller.advance(60);
    assert_eq!(caller.shown(&id).await["public_ips"], json!([]));

    caller.act(&id, "poweron").await.expect(202);
    caller.advance(10);
    let ip = caller.ip(json!({"server": id})).await;
    let ips = caller.shown(&id).await["public_ips"].clone();
    assert_eq!((ips.as_array().unwrap().len(), &ips[0]["id"]), (1, &json!(ip)));
}

#[tokio::test]
async fn flexible_ips_outlive_termination_and_say_attached_until_it_is_over() {
    let caller = Caller::still();
    let ip = caller.ip(json!({})).await;
    let id = caller.server(json!({"public_ips": [ip]})).await;
    caller.act(&id, "poweron").await.expect(202);
    caller.advance(10);
    caller.act(&id, "terminate").await.expect(202);
    assert_eq!(caller.shown(&id).await["public_ips"], json!([]));
    let path = format!("{INSTANCE}/ips/{ip}");
    assert_eq!(caller.get(&path).await.expect(200)["ip"]["state"], "attached");
    caller.advance(10);
    assert_eq!(caller.get(&path).await.expect(200)["ip"]["state"], "detached");
    caller.delete(&path).await.expect(204);
    assert_eq!(caller.delete(&path).await.expect(404)["resource"], "instance_ip");
}

#[tokio::test]
async fn a_reverse_that_cannot_resolve_is_refused_with_the_recorded_words() {
    let caller = Caller::still();
    let ip = caller.ip(json!({})).await;
    let refusal =
        caller.patch(&format!("{INSTANCE}/ips/{ip}"), json!({"reverse": "web.example.com"})).await.expect(400);
    assert_eq!(refusal["details"][0]["argument_name"], "reverse");
    assert!(refusal["details"][0]["help_message"].as_str().unwrap().starts_with("Your reverse must resolve."));
}
