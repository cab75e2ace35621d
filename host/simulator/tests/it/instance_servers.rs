//! The states of Instances: what moves them, what is refused, what stays behind.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_simulator::{Availability, ForcedState, Options, Quotas, RefusalStatus};

use crate::caller::{BLOCK, Caller, INSTANCE};

fn state(server: &Value) -> (&str, &str) {
    (server["state"].as_str().unwrap(), server["state_detail"].as_str().unwrap())
}

#[tokio::test]
async fn a_new_server_is_stopped_and_has_its_location_in_a_header() {
    let caller = Caller::still();
    let image = caller.image().await;
    let request = json!({"name": "web", "commercial_type": "DEV1-S", "image": image, "tags": ["a"]});
    let reply = caller.post(&format!("{INSTANCE}/servers"), request).await;
    let location = reply.header("location").unwrap().to_owned();
    let server = reply.expect(201)["server"].clone();
    assert_eq!(location, format!("https://api.scaleway.com{INSTANCE}/servers/{}", server["id"].as_str().unwrap()));
    assert_eq!(state(&server), ("stopped", ""));
    assert_eq!(server["allowed_actions"], json!(["poweron", "backup"]));
    assert_eq!(server["volumes"]["0"]["volume_type"], "sbs_volume");
    assert_eq!(server["dynamic_ip_required"], true);
}

#[tokio::test]
async fn power_on_passes_through_starting_and_takes_its_time() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let task = caller.act(&id, "poweron").await.expect(202);
    assert_eq!(task["task"]["id"], "00000000-0000-0000-0000-000000000000");
    assert_eq!(task["task"]["description"], "fake task");
    let starting = caller.shown(&id).await;
    assert_eq!(state(&starting), ("starting", "allocating node"));
    assert!(starting["location"].is_null());
    caller.advance(3);
    assert_eq!(state(&caller.shown(&id).await).0, "starting");
    caller.advance(1);
    let running = caller.shown(&id).await;
    assert_eq!(state(&running), ("running", "booting kernel"));
    assert_eq!(running["location"]["zone_id"], "fr-par-1");
}

#[tokio::test]
async fn every_action_ends_in_its_recorded_state() {
    for (action, passing, end) in [
        ("poweroff", ("stopping", "stopping"), Some(("stopped", ""))),
        ("stop_in_place", ("stopping", "stopping in place"), Some(("stopped in place", "stopped in place"))),
        ("reboot", ("stopping", "rebooting"), Some(("running", "booting kernel"))),
        ("terminate", ("stopping", "terminating"), None),
    ] {
        let caller = Caller::still();
        let id = caller.running_server().await;
        caller.act(&id, action).await.expect(202);
        assert_eq!(state(&caller.shown(&id).await), passing, "{action}");
        caller.advance(120);
        match end {
            Some(end) => assert_eq!(state(&caller.shown(&id).await), end, "{action}"),
            None => {
                let gone = caller.get(&format!("{INSTANCE}/servers/{id}")).await.expect(404);
                assert_eq!(gone["resource"], "instance_server");
                assert_eq!(gone["resource_id"], id.as_str());
            }
        }
    }
}

#[tokio::test]
async fn actions_from_the_wrong_state_are_refused_in_either_recorded_shape() {
    for (refusal_status, status) in [(RefusalStatus::BadRequest, 400), (RefusalStatus::PreconditionFailed, 412)] {
        let caller = Caller::of(Options { time_scale: 0.0, refusal_status, ..Options::default() });
        let stopped = caller.server(json!({})).await;
        for action in ["poweroff", "terminate", "reboot", "stop_in_place"] {
            let refusal = caller.act(&stopped, action).await.expect(status);
            assert_eq!(refusal["type"], "precondition_failed", "{action}");
            assert!(refusal.to_string().contains("server should be running"), "{action}: {refusal}");
        }
        let running = caller.running_server().await;
        let refusal = caller.act(&running, "poweron").await.expect(status);
        assert!(refusal.to_string().contains("server should be stopped"), "{refusal}");
        let refusal = caller.delete(&format!("{INSTANCE}/servers/{running}")).await.expect(status);
        assert!(refusal.to_string().contains("server should be stopped"), "{refusal}");
        assert_eq!(state(&caller.shown(&running).await).0, "running");
    }
}

#[tokio::test]
async fn an_unknown_action_and_an_unknown_server_are_told_apart() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    assert_eq!(caller.act(&id, "explode").await.expect(400)["type"], "invalid_arguments");
    let unknown = "5c1a0d5e-0000-4000-8000-000000000000";
    assert_eq!(caller.act(unknown, "poweron").await.expect(404)["resource_id"], unknown);
}

#[tokio::test]
async fn missing_keys_are_named_all_at_once() {
    let caller = Caller::still();
    let refusal = caller.post(&format!("{INSTANCE}/servers"), json!({})).await.expect(400);
    let names: Vec<&str> =
        refusal["details"].as_array().unwrap().iter().map(|detail| detail["argument_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["commercial_type", "image", "volumes"]);
    assert_eq!(refusal["details"][0]["help_message"], "required key not provided");
    assert!(caller.simulator.resources().is_empty());
}

#[tokio::test]
async fn what_a_creation_refers_to_must_exist() {
    let caller = Caller::still();
    let image = caller.image().await;
    let unknown = "5c1a0d5e-0000-4000-8000-000000000000";
    for (key, value, resource) in [
        ("image", json!(unknown), "instance_image"),
        ("public_ips", json!([unknown]), "instance_ip"),
        ("security_group", json!(unknown), "instance_security_group"),
        ("placement_group", json!(unknown), "instance_placement_group"),
        ("volumes", json!({"1": {"id": unknown}}), "instance_volume"),
    ] {
        let mut request = json!({"name": "web", "commercial_type": "DEV1-S", "image": image});
        request[key] = value;
        let refusal = caller.post(&format!("{INSTANCE}/servers"), request).await.expect(404);
        assert_eq!(refusal["resource"], resource, "{key}");
    }
    assert!(caller.simulator.resources().is_empty(), "a refused creation left something behind");
}

#[tokio::test]
async fn out_of_stock_and_quota_refuse_creation_and_leave_nothing() {
    let quotas = Quotas { servers: Some(1), ..Quotas::default() };
    let caller = Caller::of(Options { time_scale: 0.0, quotas, ..Options::default() });
    let image = caller.image().await;
    let request = json!({"name": "web", "commercial_type": "DEV1-S", "image": image});
    caller.simulator.set_stock("DEV1-S", Availability::Shortage);
    let refusal = caller.post(&format!("{INSTANCE}/servers"), request.clone()).await.expect(503);
    assert_eq!(refusal["type"], "out_of_stock");
    let stock = caller.get(&format!("{INSTANCE}/products/servers/availability")).await.expect(200);
    assert_eq!(stock["servers"]["DEV1-S"]["availability"], "shortage");
    assert!(caller.simulator.resources().is_empty());

    caller.simulator.set_stock("DEV1-S", Availability::Available);
    caller.post(&format!("{INSTANCE}/servers"), request.clone()).await.expect(201);
    let refusal = caller.post(&format!("{INSTANCE}/servers"), request).await.expect(403);
    assert_eq!(refusal["type"], "quotas_exceeded");
    assert_eq!(refusal["details"][0]["quota"], 1);
    assert_eq!(caller.simulator.resources().servers.len(), 1);
}

#[tokio::test]
async fn a_stopped_server_of_a_type_that_ran_out_cannot_be_powered_on() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    caller.simulator.set_stock("DEV1-S", Availability::Shortage);
    assert_eq!(caller.act(&id, "poweron").await.expect(503)["type"], "out_of_stock");
    assert_eq!(state(&caller.shown(&id).await).0, "stopped");
}

#[tokio::test]
async fn another_action_calls_off_what_the_last_one_had_begun() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    caller.act(&id, "poweron").await.expect(202);
    caller.advance(2);
    caller.act(&id, "stop_in_place").await.expect(202);
    caller.advance(10);
    // The first action would have made it running two seconds ago.
    assert_eq!(state(&caller.shown(&id).await), ("stopping", "stopping in place"));
}

#[tokio::test]
async fn a_rename_renames_the_host_too_and_a_patch_changes_only_what_it_names() {
    let caller = Caller::still();
    let id = caller.server(json!({"tags": ["a", "b"]})).await;
    let path = format!("{INSTANCE}/servers/{id}");
    let changed = caller.patch(&path, json!({"name": "db"})).await.expect(200)["server"].clone();
    assert_eq!((&changed["name"], &changed["hostname"]), (&json!("db"), &json!("db")));
    assert_eq!(changed["tags"], json!(["a", "b"]));
    let refusal = caller.patch(&path, json!({"placement_group": "no-uuid"})).await.expect(400);
    assert_eq!(refusal["details"][0]["help_message"], "not a valid value");
    caller.patch(&path, json!({"commercial_type": "DEV1-M"})).await.expect(200);
    assert_eq!(caller.shown(&id).await["commercial_type"], "DEV1-M");
}

#[tokio::test]
async fn a_protected_server_refuses_to_stop_and_is_deleted_when_it_stands_still() {
    let caller = Caller::still();
    let id = caller.server(json!({"protected": true})).await;
    caller.act(&id, "poweron").await.expect(202);
    caller.advance(10);
    for action in ["poweroff", "stop_in_place", "reboot", "terminate"] {
        assert_eq!(caller.act(&id, action).await.expect(400)["precondition"], "protected_resource", "{action}");
    }
    let stopped = caller.server(json!({"protected": true})).await;
    caller.delete(&format!("{INSTANCE}/servers/{stopped}")).await.expect(204);
    caller.get(&format!("{INSTANCE}/servers/{stopped}")).await.expect(404);
}

#[tokio::test]
async fn user_data_is_raw_text_and_a_missing_key_is_an_empty_404() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let path = format!("{INSTANCE}/servers/{id}/user_data");
    let text = Bytes::from_static(b"#cloud-config\nruncmd: [true]\n");
    let set = caller.send(Method::PATCH, &format!("{path}/cloud-init"), text.clone()).await.unwrap();
    assert_eq!((set.status.as_u16(), set.header("content-type")), (204, Some("text/plain")));
    assert_eq!(caller.get(&path).await.expect(200), json!({"user_data": ["cloud-init"]}));
    let read = caller.get(&format!("{path}/cloud-init")).await;
    assert_eq!((read.body.clone(), read.header("content-type")), (text, Some("text/plain")));
    let missing = caller.get(&format!("{path}/other")).await;
    assert_eq!(
        (missing.status.as_u16(), missing.body.len(), missing.header("content-type")),
        (404, 0, Some("text/plain"))
    );
    caller.delete(&format!("{path}/cloud-init")).await.expect(204);
    assert_eq!(caller.get(&path).await.expect(200), json!({"user_data": []}));
}

#[tokio::test]
async fn a_backup_becomes_an_image_that_servers_can_be_made_from() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let task = caller.act(&id, "backup").await.expect(202);
    let href = task["task"]["href_result"].as_str().unwrap().to_owned();
    let image = caller.get(&format!("{INSTANCE}{href}")).await.expect(200);
    assert_eq!(image["image"]["state"], "creating");
    caller.advance(20);
    assert_eq!(caller.get(&format!("{INSTANCE}{href}")).await.expect(200)["image"]["state"], "available");
    let copy = caller.server(json!({"image": image["image"]["id"]})).await;
    let root = caller.shown(&copy).await["volumes"]["0"]["id"].as_str().unwrap().to_owned();
    let root = caller.get(&format!("{BLOCK}/volumes/{root}")).await.expect(200);
    assert_eq!(root["parent_snapshot_id"], image["image"]["root_volume"]["id"]);
}

#[tokio::test]
async fn a_locked_server_refuses_actions_until_it_is_unlocked() {
    let caller = Caller::still();
    let id = caller.running_server().await;
    caller.simulator.set_server_state(&id, ForcedState::Locked).unwrap();
    assert_eq!(state(&caller.shown(&id).await).0, "locked");
    assert_eq!(caller.act(&id, "terminate").await.expect(423)["type"], "locked");
    caller.simulator.set_server_state(&id, ForcedState::Running).unwrap();
    caller.act(&id, "terminate").await.expect(202);
}

#[tokio::test]
async fn private_nics_take_addresses_and_go_with_their_server() {
    let caller = Caller::still();
    let network = caller.post("/vpc/v2/regions/fr-par/private-networks", json!({"name": "n"})).await.expect(200);
    let network = network["id"].as_str().unwrap().to_owned();
    let id = caller.running_server().await;
    let path = format!("{INSTANCE}/servers/{id}/private_nics");
    let listed = async || caller.get(&format!("{INSTANCE}/servers")).await.expect(200)["servers"][0].clone();
    let other = caller.post(&path, json!({"private_network_id": network})).await.expect(201)["private_nic"].clone();
    assert_eq!(listed().await, caller.shown(&id).await);
    caller.delete(&format!("{path}/{}", other["id"].as_str().unwrap())).await.expect(204);
    assert_eq!((listed().await["private_nics"].clone(), listed().await), (json!([]), caller.shown(&id).await));
    let nic = caller.post(&path, json!({"private_network_id": network, "tags": ["t"]})).await;
    assert_eq!(nic.header("location"), None);
    let nic = nic.expect(201)["private_nic"].clone();
    assert_eq!(nic["state"], "available");
    assert_eq!(nic["ipam_ip_ids"].as_array().unwrap().len(), 2);
    assert_eq!(caller.shown(&id).await["private_nics"][0]["id"], nic["id"]);
    let refusal = caller.delete(&format!("/vpc/v2/regions/fr-par/private-networks/{network}")).await.expect(412);
    assert_eq!(refusal["help_message"], "Private Network must be empty to be deleted");
    caller.act(&id, "terminate").await.expect(202);
    caller.advance(10);
    assert!(caller.simulator.resources().private_nics.is_empty());
    assert_eq!(caller.get("/ipam/v1/regions/fr-par/ips").await.expect(200)["total_count"], 0);
    caller.delete(&format!("/vpc/v2/regions/fr-par/private-networks/{network}")).await.expect(204);
}

#[tokio::test]
async fn a_file_system_is_attached_and_detached_after_a_while() {
    let caller = Caller::still();
    let id = caller.running_server().await;
    let filesystem = json!({"filesystem_id": "5c1a0d5e-0000-4000-8000-0000000000f5"});
    let act = async |action: &str| {
        let path = format!("{INSTANCE}/servers/{id}/{action}-filesystem");
        caller.post(&path, filesystem.clone()).await
    };
    act("detach").await.expect(400);
    for (action, during, after) in [("attach", "attaching", json!(["available"])), ("detach", "detaching", json!([]))] {
        let answer = act(action).await.expect(200);
        assert_eq!(answer["server"]["filesystems"][0]["state"], during);
        caller.advance(5);
        let shown = caller.shown(&id).await;
        let states: Value = shown["filesystems"].as_array().unwrap().iter().map(|one| one["state"].clone()).collect();
        assert_eq!(states, after);
    }
}
