//! Apple silicon: hosts that cost a day at least, cannot be told apart but by name, and take minutes for everything.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_scaleway::types::apple_silicon::{
    CreateServer, ListOperatingSystems, ListServers, ReinstallServer, ServerStatus, Stock, UpdateServer,
};
use windlass_scaleway::{Client, ErrorClass, Settings};
use windlass_simulator::{
    AppleSilicon, AppleSiliconPool, Durations, FaultKind, FaultRule, FloorRefusal, ForcedState, Options, RequestRecord,
    Span,
};

use crate::caller::{Caller, TOKEN};

const APPLE: &str = "/apple-silicon/v1alpha1/zones/fr-par-1";
const DAY: u64 = 24 * 60 * 60;
const HOUR: Duration = Duration::from_secs(60 * 60);

fn with(apple_silicon: AppleSilicon) -> Caller {
    Caller::of(Options { time_scale: 0.0, apple_silicon, ..Options::default() })
}

fn pool(text: &str) -> AppleSiliconPool {
    text.parse().unwrap()
}

async fn create(caller: &Caller, request: Value) -> Value {
    caller.post(&format!("{APPLE}/servers"), request).await.expect(200)
}

fn path_of(server: &Value) -> String {
    format!("{APPLE}/servers/{}", server["id"].as_str().unwrap())
}

/// A host that was ordered and is ready.
async fn ready(caller: &Caller, request: Value) -> String {
    let path = path_of(&create(caller, request).await);
    caller.advance(162);
    assert_eq!(caller.get(&path).await.expect(200)["status"], "ready");
    path
}

fn known(caller: &Caller, id: &str) -> Value {
    let hosts = caller.simulator.resources().apple_silicon_servers;
    hosts.into_iter().find(|host| host["id"] == id).unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_host_cannot_be_deleted_before_its_day_is_over_and_is_403_when_gone() {
    let caller = Caller::still();
    let created = create(&caller, json!({"name": "mac", "type": "M4-S"})).await;
    assert_eq!((&created["status"], &created["sudo_password"]), (&json!("starting"), &json!("<sealed>")));
    assert_eq!(created["deletable_at"], "2026-08-02T00:00:00.000001Z");
    assert_eq!(created["commitment"]["type"], "duration_24h");
    let path = path_of(&created);
    caller.advance(200);
    let ready = caller.get(&path).await.expect(200);
    assert_eq!((&ready["status"], &ready["delivered"]), (&json!("ready"), &json!(true)));
    assert_ne!(ready["sudo_password"], "<sealed>");
    assert!(ready["vnc_url"].as_str().unwrap().contains(ready["sudo_password"].as_str().unwrap()));
    let refusal = caller.delete(&path).await.expect(412);
    assert_eq!(refusal["precondition"], "unknown_precondition");
    let words = refusal["help_message"].as_str().unwrap();
    assert!(words.starts_with("this server cannot be deleted before 2026-08-02 00:00:00"), "{words}");
    caller.advance(DAY);
    caller.delete(&path).await.expect(204);
    for gone in [caller.get(&path).await, caller.delete(&path).await, caller.patch(&path, json!({})).await] {
        assert_eq!(gone.expect(403)["type"], "permissions_denied");
    }
    let gone = &caller.simulator.resources().gone_apple_silicon_servers;
    assert_eq!((&gone[0]["name"], &gone[0]["deleted_by"]), (&json!("mac"), &json!("delete")));
    assert!(caller.simulator.resources().is_empty(), "what is gone counts for nothing");
}

#[tokio::test]
async fn the_floor_is_refused_in_each_of_its_shapes() {
    for (floor_refusal, keys) in [
        (FloorRefusal::InWords, vec!["help_message", "message", "precondition", "type"]),
        (FloorRefusal::WithoutDetails, vec!["message", "type"]),
        (FloorRefusal::StatusAlone, vec!["message"]),
    ] {
        let caller = with(AppleSilicon { floor_refusal, ..AppleSilicon::default() });
        let path = ready(&caller, json!({"type": "M4-S"})).await;
        let refusal = caller.delete(&path).await.expect(412);
        let found: Vec<&str> = refusal.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, keys);
        caller.get(&path).await.expect(200);
    }
}

#[tokio::test]
async fn faults_have_the_floors_shapes_as_well() {
    let caller = Caller::still();
    let path = ready(&caller, json!({"type": "M4-S"})).await;
    for (kind, has_type) in [(FaultKind::PreconditionFailed, true), (FaultKind::PreconditionFailedBare, false)] {
        caller.simulator.add_fault(FaultRule::new("DELETE", "/apple-silicon/**", kind)).unwrap();
        let refusal = caller.delete(&path).await.expect(412);
        assert_eq!(refusal.get("type").is_some(), has_type, "{refusal}");
        let in_words = refusal["help_message"].as_str().is_some_and(|words| words.contains("cannot be deleted before"));
        assert_eq!(in_words, has_type, "{refusal}");
        caller.simulator.clear_faults();
    }
}

#[tokio::test]
async fn an_exempt_host_and_one_under_the_floor_stand_side_by_side() {
    let caller = with(AppleSilicon {
        exempt_types: BTreeSet::from(["M1-M".to_owned()]),
        exempt_projects: BTreeSet::from(["free".to_owned()]),
        ..AppleSilicon::default()
    });
    let bound = create(&caller, json!({"type": "M4-S"})).await;
    let by_type = create(&caller, json!({"type": "M1-M", "commitment_type": "duration_24h"})).await;
    let by_project = create(&caller, json!({"type": "M4-S", "project_id": "free"})).await;
    for exempt in [&by_type, &by_project] {
        assert_eq!(exempt["deletable_at"], exempt["created_at"], "recorded of an exempt organization");
        assert_eq!(exempt["commitment"]["type"], "none", "recorded, although 24 hours were asked for");
        caller.delete(&path_of(exempt)).await.expect(204);
    }
    caller.delete(&path_of(&bound)).await.expect(412);
    let types = caller.get(&format!("{APPLE}/server-types")).await.expect(200);
    assert_eq!(types["server_types"][0]["minimum_lease_duration"], "86400s", "told to the exempt, too");
}

#[tokio::test]
async fn a_scheduled_deletion_happens_by_itself_at_the_floor_unless_called_off() {
    let caller = Caller::still();
    let mut paths = Vec::new();
    for _ in 0..2 {
        let path = path_of(&create(&caller, json!({"type": "M4-S"})).await);
        assert_eq!(
            caller.patch(&path, json!({"schedule_deletion": true})).await.expect(200)["deletion_scheduled"],
            true
        );
        paths.push(path);
    }
    caller.patch(&paths[1], json!({"schedule_deletion": false})).await.expect(200);
    caller.advance(DAY - 1);
    assert_eq!(caller.get(&paths[0]).await.expect(200)["deletion_scheduled"], true);
    caller.advance(2);
    caller.get(&paths[0]).await.expect(403);
    assert_eq!(caller.get(&paths[1]).await.expect(200)["deletion_scheduled"], false);
    assert_eq!(caller.simulator.resources().gone_apple_silicon_servers[0]["deleted_by"], "schedule");
    // Past its floor a host goes at once.
    caller.patch(&paths[1], json!({"schedule_deletion": true})).await.expect(200);
    caller.get(&paths[1]).await.expect(403);
}

#[tokio::test]
async fn a_longer_commitment_moves_a_deletion_that_was_scheduled() {
    let caller = Caller::still();
    let path = path_of(&create(&caller, json!({"type": "M4-S"})).await);
    caller.patch(&path, json!({"schedule_deletion": true})).await.expect(200);
    let month = json!({"commitment_type": {"commitment_type": "renewed_monthly"}});
    caller.patch(&path, month).await.expect(200);
    caller.advance(2 * DAY);
    caller.get(&path).await.expect(200);
    caller.advance(30 * DAY);
    caller.get(&path).await.expect(403);
}

#[tokio::test]
async fn each_thing_takes_its_minutes() {
    let caller = Caller::still();
    for (kind, shortest, longest) in [("M1-M", 30, 46), ("M2-M", 119, 162), ("M4-XL", 119, 162)] {
        let path = path_of(&create(&caller, json!({"type": kind})).await);
        caller.advance(shortest - 1);
        assert_eq!(caller.get(&path).await.expect(200)["status"], "starting", "{kind}");
        caller.advance(longest - shortest + 2);
        let host = caller.get(&path).await.expect(200);
        assert_eq!((&host["status"], &host["delivered"]), (&json!("ready"), &json!(true)), "{kind}");
    }
    let path = ready(&caller, json!({"type": "M4-S"})).await;
    for (action, status, shortest, longest) in
        [("reboot", "rebooting", 106, 136), ("reinstall", "reinstalling", 300, 1_200)]
    {
        assert_eq!(caller.post(&format!("{path}/{action}"), json!({})).await.expect(200)["status"], status);
        caller.advance(shortest - 1);
        let host = caller.get(&path).await.expect(200);
        assert_eq!((&host["status"], &host["delivered"]), (&json!(status), &json!(true)), "delivered stays");
        caller.advance(longest - shortest + 2);
        assert_eq!(caller.get(&path).await.expect(200)["status"], "ready");
    }
}

#[tokio::test]
async fn durations_are_spread_by_the_seed_and_can_be_set() {
    let caller = Caller::still();
    let mut seconds = BTreeSet::new();
    for _ in 0..20 {
        let path = path_of(&create(&caller, json!({"type": "M4-S"})).await);
        let mut passed = 0;
        while caller.get(&path).await.expect(200)["status"] == "starting" {
            caller.advance(1);
            passed += 1;
            assert!(passed < 24 * 3_600, "it never starts");
        }
        seconds.insert(passed);
    }
    assert!(seconds.len() > 5, "{seconds:?}");
    let durations = Durations { apple_silicon_create: Span::from(Duration::from_secs(7)), ..Durations::default() };
    let caller = Caller::of(Options { time_scale: 0.0, durations, ..Options::default() });
    let path = path_of(&create(&caller, json!({"type": "M4-S"})).await);
    caller.advance(7);
    assert_eq!(caller.get(&path).await.expect(200)["status"], "ready");
}

#[tokio::test]
async fn a_busy_host_refuses_what_would_disturb_it_and_a_broken_one_is_helped() {
    let caller = Caller::still();
    let created = create(&caller, json!({"type": "M4-S"})).await;
    let (path, id) = (path_of(&created), created["id"].as_str().unwrap());
    let busy = caller.post(&format!("{path}/reinstall"), json!({})).await.expect(409);
    assert_eq!((&busy["type"], &busy["current_state"]), (&json!("transient_state"), &json!("starting")));
    caller.advance(162);
    caller.post(&format!("{path}/reinstall"), json!({})).await.expect(200);
    for action in ["reinstall", "reboot"] {
        let busy = caller.post(&format!("{path}/{action}"), json!({})).await.expect(409);
        assert_eq!((&busy["type"], &busy["current_state"]), (&json!("transient_state"), &json!("reinstalling")));
    }
    for (state, status) in [(ForcedState::Updating, 409), (ForcedState::Busy, 409), (ForcedState::Locked, 423)] {
        caller.simulator.set_server_state(id, state).unwrap();
        caller.post(&format!("{path}/reboot"), json!({})).await.expect(status);
        caller.advance(DAY);
        assert_eq!(caller.get(&path).await.expect(200)["status"], state.to_string(), "it stays at it");
    }
    caller.delete(&path).await.expect(423);
    caller.simulator.set_server_state(id, ForcedState::Error).unwrap();
    caller.post(&format!("{path}/reboot"), json!({})).await.expect(200);
    caller.advance(136);
    assert_eq!(caller.get(&path).await.expect(200)["status"], "ready");
}

#[tokio::test]
async fn a_reinstall_makes_a_new_password_and_is_remembered_with_the_name_it_hit() {
    let caller = Caller::still();
    let path = ready(&caller, json!({"type": "M4-S", "name": "claimed"})).await;
    let before = caller.get(&path).await.expect(200);
    let id = before["id"].as_str().unwrap();
    assert_eq!(known(&caller, id)["simulator"]["reinstalls"], 0);
    caller.patch(&path, json!({"name": "pool-1"})).await.expect(200);
    caller.post(&format!("{path}/reinstall"), json!({})).await.expect(200);
    caller.patch(&path, json!({"name": "claimed-again"})).await.expect(200);
    let after = caller.get(&path).await.expect(200);
    assert_ne!(after["sudo_password"], before["sudo_password"]);
    assert!(after.get("simulator").is_none(), "no API tells");
    let reported = &known(&caller, id)["simulator"];
    assert_eq!((&reported["reinstalls"], &reported["reboots"]), (&json!(1), &json!(0)));
    assert_eq!(reported["wiped"], json!([{"at_ms": 162_000, "name": "pool-1"}]));
    assert_eq!(reported["reinstalled_at"], "2026-08-01T00:02:42.000000Z");
    let names: Vec<&Value> = reported["names"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["claimed", "pool-1", "claimed-again"]);
    // A refused one wiped nothing.
    caller.post(&format!("{path}/reinstall"), json!({})).await.expect(409);
    assert_eq!(known(&caller, id)["simulator"]["reinstalls"], 1);
}

#[tokio::test]
async fn a_reinstall_without_a_system_takes_the_types_default_one() {
    let caller = with(AppleSilicon {
        pools: vec![pool("prefix=p-,count=1,type=M4-S,os=macos-tahoe-26.0")],
        ..AppleSilicon::default()
    });
    let host = caller.simulator.resources().apple_silicon_servers[0].clone();
    assert_eq!(host["os"]["name"], "macos-tahoe-26.0");
    let path = path_of(&host);
    let keep = json!({"os_id": host["os"]["id"]});
    assert_eq!(caller.post(&format!("{path}/reinstall"), keep).await.expect(200)["os"]["name"], "macos-tahoe-26.0");
    caller.advance(1_200);
    let other = caller.post(&format!("{path}/reinstall"), json!({})).await.expect(200);
    assert_eq!(other["os"]["name"], "macos-sequoia-15.6");
}

#[tokio::test]
async fn the_last_writer_of_a_name_wins_and_two_hosts_may_have_the_same() {
    let caller = Caller::still();
    let one = ready(&caller, json!({"type": "M4-S", "name": "same"})).await;
    let two = ready(&caller, json!({"type": "M4-S", "name": "same"})).await;
    caller.patch(&one, json!({"name": "first"})).await.expect(200);
    caller.patch(&one, json!({"name": "second"})).await.expect(200);
    assert_eq!(caller.get(&one).await.expect(200)["name"], "second");
    assert_eq!(caller.get(&two).await.expect(200)["name"], "same");
    let id = caller.get(&one).await.expect(200)["id"].as_str().unwrap().to_owned();
    caller.simulator.rename_server(&id, "behind our back").unwrap();
    assert_eq!(caller.get(&one).await.expect(200)["name"], "behind our back");
    caller.simulator.rename_server("nobody", "x").unwrap_err();
}

#[tokio::test]
async fn stock_goes_down_with_each_order_and_then_is_out() {
    let caller = with(AppleSilicon { stock: [("M4-S".to_owned(), 2)].into(), ..AppleSilicon::default() });
    let stock = async || caller.get(&format!("{APPLE}/server-type/M4-S")).await.expect(200)["stock"].clone();
    assert_eq!(stock().await, "low_stock");
    let first = create(&caller, json!({"type": "M4-S"})).await;
    create(&caller, json!({"type": "M4-S"})).await;
    assert_eq!(stock().await, "no_stock");
    let refusal = caller.post(&format!("{APPLE}/servers"), json!({"type": "M4-S"})).await.expect(503);
    assert_eq!((&refusal["type"], &refusal["resource"]), (&json!("out_of_stock"), &json!("server")));
    create(&caller, json!({"type": "M4-M"})).await;
    caller.advance(2 * DAY);
    caller.delete(&path_of(&first)).await.expect(204);
    assert_eq!(stock().await, "no_stock", "a deleted host is wiped first");
    caller.simulator.set_apple_silicon_stock("M4-S", Some(1));
    create(&caller, json!({"type": "M4-S"})).await;
    caller.post(&format!("{APPLE}/servers"), json!({"type": "M4-S"})).await.expect(503);
    caller.simulator.set_apple_silicon_stock("M4-S", None);
    assert_eq!(stock().await, "high_stock");
}

#[tokio::test]
async fn a_pool_is_there_from_the_start_ready_and_of_its_ages() {
    let hosts = pool("prefix=ci-,count=4,type=M4-S,age=1h+26h");
    let caller = with(AppleSilicon {
        pools: vec![hosts, pool("prefix=x-,count=1,type=M1-M,zone=nl-ams-1")],
        ..AppleSilicon::default()
    });
    let list = caller.get(&format!("{APPLE}/servers")).await.expect(200);
    assert_eq!(list["total_count"], 4);
    let servers = list["servers"].as_array().unwrap();
    assert_eq!(servers[0]["created_at"], "2026-07-30T22:00:00.000002Z", "oldest first, older than the simulation");
    for server in servers {
        assert_eq!((&server["status"], &server["delivered"]), (&json!("ready"), &json!(true)));
        assert!(server["name"].as_str().unwrap().starts_with("ci-"));
    }
    let mut deleted = Vec::new();
    for server in servers {
        deleted.push(caller.delete(&path_of(server)).await.status.as_u16());
    }
    assert_eq!(deleted, [204, 204, 412, 412], "the old ones are past their floor");
}

#[tokio::test]
async fn the_controls_over_http_make_pools_rename_and_set_stock() {
    let caller = Caller::still();
    let made = json!({"prefix": "ci-", "count": 2, "type": "M4-S", "ages": ["26h"]});
    let made = caller.post("/_simulator/apple-silicon", made).await.expect(201);
    let id = made["ids"][0].as_str().unwrap();
    assert_eq!(made["ids"].as_array().unwrap().len(), 2);
    caller.post(&format!("/_simulator/servers/{id}/name"), json!({"name": "stolen"})).await.expect(200);
    assert_eq!(known(&caller, id)["name"], "stolen");
    caller.post("/_simulator/servers/nobody/name", json!({"name": "stolen"})).await.expect(404);
    caller.post(&format!("/_simulator/servers/{id}/state"), json!({"state": "error"})).await.expect(200);
    assert_eq!(known(&caller, id)["status"], "error");
    caller.post(&format!("/_simulator/servers/{id}/state"), json!({"state": "deleted"})).await.expect(200);
    let resources = caller.get("/_simulator/resources").await.expect(200);
    assert_eq!(resources["gone_apple_silicon_servers"][0]["deleted_by"], "control");
    caller.post("/_simulator/stock", json!({"server_type": "M4-S", "left": 0})).await.expect(204);
    caller.post(&format!("{APPLE}/servers"), json!({"type": "M4-S"})).await.expect(503);
    caller.post("/_simulator/stock", json!({"server_type": "M4-S", "left": 5})).await.expect(204);
    caller.post("/_simulator/stock", json!({"server_type": "M4-S", "availability": "shortage"})).await.expect(204);
    caller.post(&format!("{APPLE}/servers"), json!({"type": "M4-S"})).await.expect(503);
    for (path, body, hint) in [
        ("/_simulator/apple-silicon", json!({"prefix": "ci-", "count": 2, "type": "M9"}), "M4-S"),
        ("/_simulator/apple-silicon", json!({"prefix": "ci-", "count": 2, "kind": "M4-S"}), "`type`"),
        ("/_simulator/stock", json!({"server_type": "M4-S"}), "shortage"),
        ("/_simulator/stock", json!({"server_type": "M4-S", "availability": "none"}), "shortage"),
        ("/_simulator/servers/x/name", json!({"nom": "x"}), "`name`"),
        (
            &format!("/_simulator/servers/{}/state", made["ids"][1].as_str().unwrap()),
            json!({"state": "running"}),
            "busy",
        ),
    ] {
        let message = caller.post(path, body).await.expect(400);
        assert!(message["message"].as_str().unwrap().contains(hint), "{path}: {message}");
    }
}

#[tokio::test]
async fn our_own_client_follows_a_host_through_its_life() {
    let caller = with(AppleSilicon { pools: vec![pool("prefix=ci-,count=150,type=M2-M")], ..AppleSilicon::default() });
    let settings = Settings::new(TOKEN.parse().unwrap());
    let client = Client::with_transport(settings, caller.simulator.transport()).unwrap();
    let apple = client.apple_silicon(&"fr-par-1".parse().unwrap());
    assert_eq!(apple.list_servers(&ListServers::default()).await.unwrap().len(), 150, "two pages");
    let types = apple.list_server_types().await.unwrap();
    assert!(types.iter().all(|kind| kind.stock == Stock::High && kind.minimum_lease() == Some(24 * HOUR)));
    assert_eq!(apple.get_server_type("M4-S").await.unwrap().name, "M4-S");
    let filter = ListOperatingSystems { name: Some("macos-tahoe-26.0".to_owned()), ..ListOperatingSystems::default() };
    let system = apple.list_os(&filter).await.unwrap().remove(0);
    assert_eq!(apple.get_os(&system.id).await.unwrap().name, "macos-tahoe-26.0");

    let order = CreateServer {
        name: "mac".to_owned(),
        server_type: "M4-S".to_owned(),
        os_id: Some(system.id.clone()),
        ..CreateServer::default()
    };
    let host = apple.create_server(&order).await.unwrap();
    assert_eq!((host.status, host.sudo_password.reveal()), (ServerStatus::Starting, None));
    caller.advance(162);
    let host = apple.get_server(&host.id).await.unwrap();
    assert_eq!((&host.status, host.delivered, host.ssh_username.as_str()), (&ServerStatus::Ready, true, "m1"));
    assert!(host.sudo_password.reveal().is_some() && host.vnc_url.reveal().is_some());
    assert_eq!(host.os.as_ref().unwrap().id, system.id);
    assert_eq!(apple.update_server(&host.id, &UpdateServer::rename("ci-mac")).await.unwrap().name, "ci-mac");
    assert_eq!(apple.reboot_server(&host.id).await.unwrap().status, ServerStatus::Rebooting);
    caller.advance(136);
    let wipe = ReinstallServer { os_id: Some(system.id), ..ReinstallServer::default() };
    assert_eq!(apple.reinstall_server(&host.id, &wipe).await.unwrap().status, ServerStatus::Reinstalling);
    let again = apple.reinstall_server(&host.id, &wipe).await.unwrap_err();
    assert_eq!(again.class(), ErrorClass::TransientState);
    let early = apple.delete_server(&host.id).await.unwrap_err();
    assert_eq!(early.class(), ErrorClass::PreconditionFailed);
    assert_eq!(early.not_before(), host.deletable_at(), "the words and the field agree");
    assert!(apple.update_server(&host.id, &UpdateServer::schedule_deletion(true)).await.unwrap().deletion_scheduled);
    caller.advance(DAY);
    assert!(apple.get_server(&host.id).await.unwrap_err().is_gone_or_not_ours());
    assert_eq!(apple.list_servers(&ListServers::default()).await.unwrap().len(), 150);
}

/// One call or turn of time, by numbers.
async fn take(caller: &Caller, (what, pick, variation): (u8, u8, u8)) {
    let hosts = caller.simulator.resources().apple_silicon_servers;
    let nobody = "5c1a0d5e-0000-4000-8000-000000000000".to_owned();
    let id =
        hosts.get(usize::from(pick) % (hosts.len() + 1)).map_or(nobody, |host| host["id"].as_str().unwrap().to_owned());
    let path = format!("{APPLE}/servers/{id}");
    let states = [ForcedState::Ready, ForcedState::Error, ForcedState::Locked, ForcedState::Deleted, ForcedState::Busy];
    let reply = match what % 8 {
        0 => {
            caller
                .post(&format!("{APPLE}/servers"), json!({"type": if variation % 2 == 0 { "M1-M" } else { "M4-S" }}))
                .await
        }
        1 => caller.delete(&path).await,
        2 => caller.post(&format!("{path}/reinstall"), json!({})).await,
        3 => caller.post(&format!("{path}/reboot"), json!({})).await,
        4 => caller.patch(&path, json!({"name": format!("n{variation}")})).await,
        5 => caller.patch(&path, json!({"schedule_deletion": variation % 2 == 0})).await,
        6 => {
            let _ = caller.simulator.set_server_state(&id, states[usize::from(variation) % states.len()]);
            caller.get(&path).await
        }
        _ => {
            caller.advance(u64::from(variation) * 1_000);
            caller.get(&format!("{APPLE}/servers")).await
        }
    };
    // 503 is the stock's.
    assert!(reply.status.as_u16() < 500 || reply.status == 503, "{path}: {} {}", reply.status, reply.json);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_done_every_host_is_there_or_gone_and_nothing_was_wiped_unasked(
        steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..60)
    ) {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
            let stock = [("M4-S".to_owned(), 4)].into();
            let pools = vec![pool("prefix=ci-,count=3,type=M4-S,age=0s+26h")];
            let caller = with(AppleSilicon { stock, pools, ..AppleSilicon::default() });
            for step in steps {
                take(&caller, step).await;
            }
            let now = caller.simulator.resources();
            let log = caller.simulator.requests();
            let sent = |method: &str, end: &str| {
                let is_meant = |call: &&RequestRecord| {
                    call.method == method && call.status == Some(200) && call.path.ends_with(end)
                };
                log.iter().filter(is_meant).count()
            };
            let hosts: Vec<&Value> = now.apple_silicon_servers.iter().chain(&now.gone_apple_silicon_servers).collect();
            assert_eq!(hosts.len(), 3 + sent("POST", "/servers"), "none is lost");
            let ids: BTreeSet<&str> = hosts.iter().map(|host| host["id"].as_str().unwrap()).collect();
            assert_eq!(ids.len(), hosts.len(), "none is there twice");
            let wiped: u64 = hosts.iter().map(|host| host["simulator"]["reinstalls"].as_u64().unwrap()).sum();
            assert_eq!(wiped as usize, sent("POST", "/reinstall"));
            let fresh = now.apple_silicon_servers.iter().filter(|host| host["type"] == "M4-S").count();
            assert!(fresh <= 3 + 4, "the stock was {fresh}");
        });
    }
}
