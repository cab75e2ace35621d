//! The controls over HTTP: the same as in Rust, free of faults and keys, and clear about bad input.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use windlass_simulator::{FaultKind, FaultRule, Options};

use crate::caller::{Caller, INSTANCE};

#[tokio::test]
async fn resources_stand_under_their_kinds_and_are_whole() {
    let caller = Caller::still();
    let ip = caller.ip(json!({"tags": ["t"]})).await;
    caller.server(json!({"public_ips": [ip]})).await;
    let resources = caller.get("/_simulator/resources").await.expect(200);
    let counts: Vec<(&String, usize)> =
        resources.as_object().unwrap().iter().map(|(kind, list)| (kind, list.as_array().unwrap().len())).collect();
    let expected = [
        ("apple_silicon_servers", 0),
        ("gone_apple_silicon_servers", 0),
        ("ips", 1),
        ("private_nics", 0),
        ("servers", 1),
        ("ssh_keys", 0),
        ("volumes", 1),
    ];
    assert!(counts.iter().map(|(kind, count)| (kind.as_str(), *count)).eq(expected), "{counts:?}");
    let shown = caller.get(&format!("{INSTANCE}/ips/{ip}")).await.expect(200);
    assert_eq!(resources["ips"][0], shown["ip"]);
    assert_eq!(json!(caller.simulator.resources()), resources);
    // Those two, the volume, and the security group that the server was given.
    assert_eq!(caller.get("/_simulator/changes").await.expect(200).as_object().unwrap().len(), 4);
    assert_eq!(caller.simulator.resources().tagged("t").count(), 1);
}

#[tokio::test]
async fn the_log_holds_api_calls_in_order_and_no_controls() {
    let caller = Caller::still();
    caller.get(&format!("{INSTANCE}/ips?page=1")).await.expect(200);
    caller.advance(2);
    caller.get("/nowhere").await.expect(404);
    let log = caller.get("/_simulator/requests").await.expect(200);
    // By whose key, in a way that does not tell the key.
    let key = log[0]["key"].clone();
    assert_eq!(key.as_str().map(str::len), Some(16), "{log}");
    assert_eq!(
        log,
        json!([
            {"sequence": 1, "key": key, "at_ms": 0, "method": "GET", "path": format!("{INSTANCE}/ips"),
                "query": "page=1", "status": 200, "fault": null},
            {"sequence": 2, "key": key, "at_ms": 2000, "method": "GET", "path": "/nowhere", "query": "", "status": 404,
                "fault": null},
        ])
    );
    caller.delete("/_simulator/requests").await.expect(204);
    caller.get("/nowhere").await.expect(404);
    let log = caller.get("/_simulator/requests").await.expect(200);
    assert_eq!((log.as_array().unwrap().len(), &log[0]["sequence"]), (1, &json!(3)));
}

#[tokio::test]
async fn faults_are_added_shown_and_removed_and_do_not_touch_the_controls() {
    let caller = Caller::still();
    let rule = json!({"method": "GET", "path": "/**", "kind": "locked", "effect": "after"});
    caller.post("/_simulator/faults", rule).await.expect(201);
    caller.post("/_simulator/faults", json!([{"path": "/x", "nth": 2, "kind": "delay:5"}])).await.expect(201);
    let faults = caller.get("/_simulator/faults").await.expect(200);
    assert_eq!(
        faults[0],
        json!({"method": "GET", "path": "/**", "kind": "locked", "effect": "after", "matched": 0, "applied": 0})
    );
    assert_eq!(
        faults[1],
        json!({"path": "/x", "nth": 2, "kind": "delay:5", "effect": "before", "matched": 0, "applied": 0})
    );
    caller.get(&format!("{INSTANCE}/ips")).await.expect(423);
    caller.delete("/_simulator/faults").await.expect(204);
    caller.get(&format!("{INSTANCE}/ips")).await.expect(200);
}

#[tokio::test]
async fn a_server_is_changed_behind_our_back() {
    let caller = Caller::still();
    let id = caller.running_server().await;
    let path = format!("/_simulator/servers/{id}/state");
    caller.post(&path, json!({"state": "stopped"})).await.expect(200);
    assert_eq!(caller.shown(&id).await["state"], "stopped");
    assert!(caller.shown(&id).await["location"].is_null());
    caller.post(&path, json!({"state": "deleted"})).await.expect(200);
    caller.get(&format!("{INSTANCE}/servers/{id}")).await.expect(404);
    caller.post(&path, json!({"state": "running"})).await.expect(404);
}

#[tokio::test]
async fn the_clock_moves_what_is_due() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    caller.act(&id, "poweron").await.expect(202);
    let now = caller.post("/_simulator/clock", json!({"advance_ms": 4_000})).await.expect(200);
    assert_eq!(now, json!({"now_ms": 4_000}));
    assert_eq!(caller.shown(&id).await["state"], "running");
}

#[tokio::test]
async fn bad_input_is_refused_with_what_would_be_valid() {
    let caller = Caller::still();
    let id = caller.server(json!({})).await;
    let state = format!("/_simulator/servers/{id}/state");
    for (path, body, hint) in [
        ("/_simulator/faults", r#"{"path": "/x", "kind": "explode"}"#, "out-of-stock"),
        ("/_simulator/faults", r#"{"path": "/x", "kind": "omit:0"}"#, "count from 1"),
        ("/_simulator/faults", r#"{"path": "/x", "kind": "late:86400001"}"#, "86400000"),
        ("/_simulator/faults", r#"{"path": "/x", "kind": "locked", "efect": "after"}"#, "`effect`"),
        ("/_simulator/faults", r#"{"path": "/x", "kind": "locked", "effect": "during"}"#, "`before`"),
        ("/_simulator/faults", r#"{"kind": "locked"}"#, "path"),
        ("/_simulator/faults", r#"{"path": "x", "kind": "locked"}"#, "begin with"),
        ("/_simulator/faults", r#"{"path": "/x", "kind": "locked", "nth": 0}"#, "counts from 1"),
        ("/_simulator/faults", "{", "EOF"),
        ("/_simulator/clock", r#"{"advance_ms": -1}"#, "u64"),
        ("/_simulator/clock", r#"{}"#, "advance_ms"),
        (state.as_str(), r#"{"state": "sleeping"}"#, "stopped in place"),
        (state.as_str(), r#"{"state": "ready"}"#, "running"),
    ] {
        let reply = caller.send(Method::POST, path, Bytes::copy_from_slice(body.as_bytes())).await.unwrap();
        let message = reply.expect(400);
        let message = message["message"].as_str().unwrap();
        assert!(message.contains(hint), "{body} on {path}: {message:?} does not say {hint:?}");
    }
    let unknown = caller.get("/_simulator/nonsense").await.expect(404);
    assert!(unknown["message"].as_str().unwrap().contains("/_simulator/resources"), "{unknown}");
    assert_eq!(caller.simulator.faults(), Vec::new());
    let Value::Array(log) = json!(caller.simulator.requests()) else { unreachable!() };
    assert!(log.iter().all(|record| !record["path"].as_str().unwrap().starts_with("/_simulator")));
}

/// The request that last changed a resource, as the simulator tells, and the last request that there was.
fn last_change(caller: &Caller, id: &str) -> (Option<u64>, u64) {
    let last = caller.simulator.requests().last().unwrap().sequence;
    (caller.simulator.resources().changes.get(id).copied(), last)
}

#[tokio::test]
async fn each_change_tells_by_which_request_also_when_it_came_later_and_when_something_is_gone() {
    let caller = Caller::still();
    let ip = caller.ip(json!({})).await;
    let other = caller.ip(json!({})).await;
    assert_eq!(last_change(&caller, &other), (Some(2), 2));
    let server = caller.server(json!({})).await;
    let (created, last) = last_change(&caller, &server);
    assert_eq!(created, Some(last));
    // Looking changes nothing, and what is refused neither.
    caller.shown(&server).await;
    caller.patch(&format!("{INSTANCE}/servers/{server}"), json!({"security_group": "none"})).await.expect(400);
    assert_eq!(last_change(&caller, &server).0, created);
    // A tie changes both of its ends.
    caller.patch(&format!("{INSTANCE}/ips/{ip}"), json!({"server": server})).await.expect(200);
    let last = caller.simulator.requests().last().unwrap().sequence;
    assert_eq!([&ip, &server].map(|id| last_change(&caller, id).0), [Some(last); 2]);
    caller.act(&server, "poweron").await.expect(202);
    caller.advance(10);
    caller.act(&server, "terminate").await.expect(202);
    let ended = caller.simulator.requests().last().unwrap().sequence;
    caller.shown(&server).await;
    caller.advance(10);
    assert!(caller.simulator.resources().servers.is_empty());
    assert_eq!([&ip, &server].map(|id| last_change(&caller, id).0), [Some(ended); 2], "the end of what it began");
    assert_eq!(last_change(&caller, &other).0, Some(2), "nothing of it was touched");
    // A control is no request.
    let server = caller.server(json!({})).await;
    caller.post(&format!("/_simulator/servers/{server}/state"), json!({"state": "deleted"})).await.expect(200);
    assert_eq!(last_change(&caller, &server).0, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_late_change_is_that_of_the_request_that_asked_for_it() {
    let caller = Caller::of(Options::default());
    let ip = caller.ip(json!({})).await;
    let late = FaultKind::Late(Duration::from_secs(30));
    caller.simulator.add_fault(FaultRule::new("PATCH", "/**", late).nth(1)).unwrap();
    let path = format!("{INSTANCE}/ips/{ip}");
    assert!(caller.send(Method::PATCH, &path, Bytes::from_static(br#"{"tags": ["late"]}"#)).await.is_err());
    caller.patch(&path, json!({"tags": ["soon"]})).await.expect(200);
    assert_eq!(last_change(&caller, &ip).0, Some(3));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(caller.simulator.resources().ips[0]["tags"], json!(["late"]));
    // It was asked for before the other: the later request is the last one that counts.
    assert_eq!(last_change(&caller, &ip).0, Some(3));
}

#[tokio::test]
async fn what_carries_no_owner_tag_is_shown_apart() {
    let caller = Caller::still();
    let ours = caller.ip(json!({"tags": ["owner=ci", "x"]})).await;
    let theirs = caller.ip(json!({"tags": ["owner=others"]})).await;
    let others = caller.get("/_simulator/resources?others=owner%3Dci").await.expect(200);
    assert_eq!(others["ips"].as_array().unwrap().len(), 1);
    assert_eq!(others["ips"][0]["id"], theirs);
    let changes = caller.get("/_simulator/changes?others=owner%3Dci").await.expect(200);
    assert_eq!(changes, json!({theirs.clone(): 2}));
    assert_eq!(json!(caller.simulator.resources().others("owner=ci")), others);
    assert_eq!(caller.simulator.resources().tagged("owner=ci").changes, [(ours, 1)].into());
    caller.get("/_simulator/resources?other=x").await.expect(400);
}
