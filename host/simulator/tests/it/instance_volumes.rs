//! Local volumes, and what becomes of volumes when their server goes.

use serde_json::json;
use windlass_simulator::ForcedState;

use crate::caller::{BLOCK, Caller, INSTANCE};

async fn server_with_both(caller: &Caller) -> (String, String, String) {
    let local = json!({"name": "scratchpad", "volume_type": "l_ssd", "size": 10_000_000_000_u64});
    let local = caller.post(&format!("{INSTANCE}/volumes"), local).await.expect(201);
    let local = local["volume"]["id"].as_str().unwrap().to_owned();
    let id = caller.server(json!({"volumes": {"0": {"boot": false}, "1": {"id": local, "name": "x"}}})).await;
    let block = caller.shown(&id).await["volumes"]["0"]["id"].as_str().unwrap().to_owned();
    (id, local, block)
}

#[tokio::test]
async fn terminate_takes_local_volumes_and_leaves_block_volumes() {
    let caller = Caller::still();
    let (id, local, block) = server_with_both(&caller).await;
    caller.act(&id, "poweron").await.expect(202);
    caller.advance(30);
    caller.act(&id, "terminate").await.expect(202);
    let terminating = caller.shown(&id).await;
    assert_eq!(terminating["allowed_actions"], json!([]));
    assert_eq!(terminating["volumes"]["1"]["state"], "deleting");
    caller.advance(10);
    assert_eq!(caller.get(&format!("{INSTANCE}/volumes/{local}")).await.expect(404)["resource"], "instance_volume");
    let block = caller.get(&format!("{BLOCK}/volumes/{block}")).await.expect(200);
    assert_eq!((&block["status"], &block["references"]), (&json!("available"), &json!([])));
    assert!(block["last_detached_at"].is_string());
}

#[tokio::test]
async fn delete_leaves_both_and_block_volumes_are_detaching_for_a_while() {
    let caller = Caller::still();
    let (id, local, block) = server_with_both(&caller).await;
    caller.delete(&format!("{INSTANCE}/servers/{id}")).await.expect(204);
    let kept = caller.get(&format!("{INSTANCE}/volumes/{local}")).await.expect(200);
    assert_eq!((&kept["volume"]["state"], &kept["volume"]["server"]), (&json!("available"), &json!(null)));
    let path = format!("{BLOCK}/volumes/{block}");
    let detaching = caller.get(&path).await.expect(200);
    assert_eq!((&detaching["status"], &detaching["references"][0]["status"]), (&json!("in_use"), &json!("detaching")));
    assert_eq!(caller.delete(&path).await.expect(412)["precondition"], "resource_still_in_use");
    caller.advance(3);
    assert_eq!(caller.get(&path).await.expect(200)["status"], "available");
    caller.delete(&path).await.expect(204);
    caller.delete(&format!("{INSTANCE}/volumes/{local}")).await.expect(204);
    assert!(caller.simulator.resources().is_empty());
}

#[tokio::test]
async fn a_server_deleted_behind_our_back_leaves_its_volumes() {
    let caller = Caller::still();
    let (id, _, _) = server_with_both(&caller).await;
    caller.simulator.set_server_state(&id, ForcedState::Deleted).unwrap();
    caller.get(&format!("{INSTANCE}/servers/{id}")).await.expect(404);
    assert_eq!(caller.simulator.resources().volumes.len(), 2);
}

#[tokio::test]
async fn block_volumes_are_invisible_to_the_instance_api() {
    let caller = Caller::still();
    let (_, local, block) = server_with_both(&caller).await;
    assert_eq!(caller.get(&format!("{INSTANCE}/volumes/{block}")).await.expect(404)["resource"], "instance_volume");
    assert_eq!(caller.get(&format!("{BLOCK}/volumes/{local}")).await.expect(404)["resource"], "volume");
    let listed = caller.get(&format!("{INSTANCE}/volumes")).await.expect(200);
    assert_eq!(listed["volumes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_attached_local_volume_cannot_be_deleted_until_it_is_detached() {
    let caller = Caller::still();
    let (id, local, _) = server_with_both(&caller).await;
    let path = format!("{INSTANCE}/volumes/{local}");
    assert_eq!(caller.delete(&path).await.expect(400)["precondition"], "resource_still_in_use");
    caller.post(&format!("{INSTANCE}/servers/{id}/detach-volume"), json!({"volume_id": local})).await.expect(200);
    caller.delete(&path).await.expect(204);
}

#[tokio::test]
async fn detaching_a_foreign_volume_is_refused_with_the_recorded_words() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let foreign = "11111111-1111-4111-8111-111111111111";
    let refusal =
        caller.post(&format!("{INSTANCE}/servers/{id}/detach-volume"), json!({"volume_id": foreign})).await.expect(400);
    assert_eq!(refusal["details"][0]["help_message"], format!("Volume {foreign} is not attached to this server"));
}

#[tokio::test]
async fn volumes_are_attached_under_the_next_number_and_only_once() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let volume = json!({"name": "data", "from_empty": {"size": 20_000_000_000_u64}});
    let volume = caller.post(&format!("{BLOCK}/volumes"), volume).await.expect(200)["id"].clone();
    let path = format!("{INSTANCE}/servers/{id}/attach-volume");
    let server = caller.post(&path, json!({"volume_id": volume, "volume_type": "sbs_volume"})).await.expect(200);
    assert_eq!(server["server"]["volumes"]["1"]["id"], volume);
    let other = caller.server(json!({})).await;
    let path = format!("{INSTANCE}/servers/{other}/attach-volume");
    caller.post(&path, json!({"volume_id": volume, "volume_type": "sbs_volume"})).await.expect(400);
}

#[tokio::test]
async fn local_storage_beyond_the_types_limit_is_refused() {
    let caller = Caller::still();
    let image = caller.image_of("instance_local").await;
    let request = |size: u64| {
        json!({"name": "web", "commercial_type": "DEV1-S", "image": image,
               "volumes": {"0": {"size": size, "volume_type": "l_ssd"}}})
    };
    let path = format!("{INSTANCE}/servers");
    assert_eq!(caller.post(&path, request(30_000_000_000)).await.expect(400)["type"], "invalid_arguments");
    assert_eq!(caller.post(&path, request(10_000_000_001)).await.expect(400)["type"], "invalid_arguments");
    assert!(caller.simulator.resources().is_empty());
    let server = caller.post(&path, request(20_000_000_000)).await.expect(201);
    assert_eq!(server["server"]["volumes"]["0"]["volume_type"], "l_ssd");
}

#[tokio::test]
async fn one_volume_under_two_numbers_is_refused() {
    let caller = Caller::still();
    let volume = json!({"name": "data", "from_empty": {"size": 20_000_000_000_u64}});
    let volume = caller.post(&format!("{BLOCK}/volumes"), volume).await.expect(200)["id"].clone();
    let twice = json!({"1": {"id": volume}, "2": {"id": volume}});
    let request = json!({"commercial_type": "DEV1-S", "image": caller.image().await, "volumes": twice});
    caller.post(&format!("{INSTANCE}/servers"), request).await.expect(400);
    let id = caller.server(json!({})).await;
    caller.patch(&format!("{INSTANCE}/servers/{id}"), json!({"volumes": twice})).await.expect(400);
    assert_eq!(caller.shown(&id).await["volumes"].as_object().unwrap().len(), 1);
}
