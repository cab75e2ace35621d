//! Block Storage.

use serde_json::{Value, json};

use crate::caller::{BLOCK, Caller};

async fn volume(caller: &Caller, name: &str, tags: &[&str]) -> Value {
    let request = json!({"name": name, "from_empty": {"size": 10_000_000_000_u64}, "tags": tags});
    caller.post(&format!("{BLOCK}/volumes"), request).await.expect(200)
}

#[tokio::test]
async fn a_new_volume_is_creating_for_a_moment_and_answered_unwrapped() {
    let caller = Caller::still();
    let created = volume(&caller, "data", &[]).await;
    assert_eq!((&created["status"], &created["type"]), (&json!("creating"), &json!("sbs_5k")));
    caller.advance(1);
    let path = format!("{BLOCK}/volumes/{}", created["id"].as_str().unwrap());
    assert_eq!(caller.get(&path).await.expect(200)["status"], "available");
    caller.delete(&path).await.expect(204);
    let again = caller.delete(&path).await.expect(404);
    assert_eq!((&again["type"], &again["resource"]), (&json!("not_found"), &json!("volume")));
}

#[tokio::test]
async fn several_tags_find_volumes_with_any_of_them() {
    let caller = Caller::still();
    for (name, tags) in [("one", &["a"][..]), ("two", &["b"]), ("three", &["c"]), ("four", &["a", "b"])] {
        volume(&caller, name, tags).await;
    }
    let list = caller.get(&format!("{BLOCK}/volumes?tags=a&tags=b")).await.expect(200);
    let names: Vec<&str> =
        list["volumes"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    // Oldest first, the default order.
    assert_eq!(names, ["one", "two", "four"]);
    assert_eq!(list["total_count"], 3);
}

#[tokio::test]
async fn pages_carry_the_total_in_the_body() {
    let caller = Caller::still();
    for number in 0..5 {
        volume(&caller, &format!("v{number}"), &[]).await;
    }
    let mut seen = Vec::new();
    for page in 1..=3 {
        let list = caller.get(&format!("{BLOCK}/volumes?page={page}&page_size=2")).await.expect(200);
        assert_eq!(list["total_count"], 5);
        seen.extend(list["volumes"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, ["v0", "v1", "v2", "v3", "v4"]);
}

#[tokio::test]
async fn tags_are_set_afterwards_and_snapshots_hold_on_to_their_volumes() {
    let caller = Caller::still();
    let id = volume(&caller, "data", &[]).await["id"].as_str().unwrap().to_owned();
    let tagged = caller.patch(&format!("{BLOCK}/volumes/{id}"), json!({"tags": ["ours"]})).await.expect(200);
    assert_eq!((&tagged["tags"], &tagged["name"]), (&json!(["ours"]), &json!("data")));
    let snapshot = caller.post(&format!("{BLOCK}/snapshots"), json!({"volume_id": id, "name": "s"})).await.expect(200);
    let small = json!({"name": "c", "from_snapshot": {"snapshot_id": snapshot["id"], "size": 1_000_000_000_u64}});
    assert_eq!(
        caller.post(&format!("{BLOCK}/volumes"), small).await.expect(412)["precondition"],
        "resource_not_usable"
    );
    let copy = json!({"name": "c", "from_snapshot": {"snapshot_id": snapshot["id"]}});
    let copy = caller.post(&format!("{BLOCK}/volumes"), copy).await.expect(200);
    assert_eq!(copy["parent_snapshot_id"], snapshot["id"]);
    let path = format!("{BLOCK}/snapshots/{}", snapshot["id"].as_str().unwrap());
    assert_eq!(caller.delete(&path).await.expect(412)["precondition"], "protected_resource");
}

#[tokio::test]
async fn another_size_or_speed_comes_after_a_while_and_another_name_at_once() {
    let caller = Caller::still();
    let id = volume(&caller, "data", &[]).await["id"].as_str().unwrap().to_owned();
    caller.advance(1);
    let path = format!("{BLOCK}/volumes/{id}");
    let same = caller.patch(&path, json!({"perf_iops": 5_000})).await.expect(200);
    assert_eq!(same["status"], "available", "nothing to be done");
    let change = json!({"size": 20_000_000_000_u64, "perf_iops": 15_000, "name": "other", "tags": ["t"]});
    let parts = |volume: &Value| (volume["status"].clone(), volume["size"].clone(), volume["type"].clone());
    let before = (json!("updating"), json!(10_000_000_000_u64), json!("sbs_5k"));
    let answer = caller.patch(&path, change).await.expect(200);
    assert_eq!((parts(&answer), &answer["name"], &answer["tags"]), (before.clone(), &json!("other"), &json!(["t"])));
    assert_eq!(parts(&caller.get(&path).await.expect(200)), before);
    caller.patch(&path, json!({"size": 15_000_000_000_u64})).await.expect(400);
    caller.advance(1);
    let after = (json!("available"), json!(20_000_000_000_u64), json!("sbs_15k"));
    assert_eq!(parts(&caller.get(&path).await.expect(200)), after);
}
