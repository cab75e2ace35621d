//! What the command has policies decide: every slot that it asks, and that no command does what a policy forbids.

use serde_json::Value;
use windlass_policy::Asker;

use crate::support::{IMPATIENT, World};

const CREATE: [&str; 8] = ["server", "create", "--group", "ci", "--image", "ubuntu_noble", "--output", "json"];

/// A cluster `farm` with so many nodes of one type, and no hooks.
fn farm(world: &World, count: u32) -> String {
    let text = format!(
        "name = 'farm'\nzone = 'fr-par-1'\n[groups.web]\ncount = {count}\ntypes = ['DEV1-S']\nimage = 'ubuntu_noble'\n"
    );
    world.write("farm.toml", text.as_bytes()).to_str().unwrap().to_owned()
}

/// Puts rules before the default of a slot that answer so whatever is asked.
fn rules(world: &World, slot: &str, answer: &str) -> String {
    let text = format!("slot = \"{slot}\"\n[[rules]]\nwhen = \"true\"\nanswer = \"{answer}\"\nreason = \"as told\"\n");
    let file = world.write(&format!("{slot}.rules.toml"), text.as_bytes());
    format!("[[policies.{slot}]]\npath = {file:?}\n")
}

#[test]
fn every_slot_that_the_command_asks_is_asked() {
    let world = World::new("100");
    let slots = Asker::CommandLine.slots();
    let deferring: String = slots.iter().map(|slot| rules(&world, slot.as_str(), "defer")).collect();
    world.configure(&format!("{deferring}{}", IMPATIENT.replace("[policies.retry]", "[[policies.retry]]")));
    let create = || world.run(&[&CREATE[..], &["--type", "DEV1-S,DEV1-M"]].concat());
    let once = r#"{"method": "POST", "path": "/instance/v1/zones/*/servers/*/action", "nth": 1,
        "kind": "internal-server-error"}"#;
    world.control("POST", "faults", once);
    create().expect(0);
    world.fault("POST", "/instance/v1/zones/*/servers", "quota-exceeded");
    create().expect(1);
    world.run(&["cluster", "create", &farm(&world, 1)]).expect(1);
    world.control("DELETE", "faults", "");
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    assert_eq!(world.resources(), 0);
    for slot in slots {
        let rules = format!("{slot}.rules.toml");
        let list = ["decision", "list", "--slot", slot.as_str(), "--policy", rules.as_str()];
        let asked = world.json(&list);
        assert!(asked["decisions"].as_array().is_some_and(|all| !all.is_empty()), "{slot} was never asked: {asked}");
    }
}

/// Neither the next start nor a sweep takes anything.
#[track_caller]
fn assert_stays(world: &World, resources: usize) {
    for arguments in [
        &["operation", "resume"][..],
        &["cluster", "resume"],
        &["sweep", "--yes", "--running-too", "--older-than", "0s"],
    ] {
        world.run(arguments).expect(0);
    }
    assert_eq!(world.resources(), resources);
}

/// `server delete` of one is in `servers.rs`.
#[test]
fn a_policy_that_keeps_everything_keeps_by_every_command() {
    let world = World::new("100");
    world.configure(&format!("owner = 'team'\n{}", rules(&world, "release", "keep")));
    let created = world.create("2").expect(0).json();
    let kept = world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(3).says("as told");
    for server in created["servers"].as_array().unwrap() {
        let named = format!("server {} in fr-par-1: ", server["id"].as_str().unwrap());
        assert!(kept.stderr.contains(&named), "no {named} in {}", kept.stderr);
    }
    assert_stays(&world, 6);

    world.run(&["cluster", "create", &farm(&world, 3)]).expect(0);
    let nodes = || -> Vec<String> {
        let status = world.json(&["cluster", "status", "farm"]);
        status["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    let leaves = |arguments: &[&str], node: &str| {
        let kept = world.run(&[&["cluster"], arguments, &["--yes"]].concat()).expect(3).says("as told");
        kept.says(&format!("LEFT    server {node} ("));
    };
    leaves(&["scale", "farm", "web=2"], "farm-web-3");
    assert_eq!(nodes(), ["farm-web-1", "farm-web-2"]);
    assert_stays(&world, 15);
    leaves(&["apply", &farm(&world, 1)], "farm-web-2");
    assert_eq!(nodes(), ["farm-web-1"]);
    assert_stays(&world, 15);
    leaves(&["replace", "farm", "farm-web-1"], "farm-web-1");
    assert_eq!(nodes(), ["farm-web-4"]);
    assert_stays(&world, 18);
    leaves(&["terminate", "farm"], "farm-web-4");
    world.run(&["cluster", "status", "farm"]).expect(1).says("there is no cluster farm");
    assert_stays(&world, 18);

    // Whoever has another journal sees the marks.
    let other = world.home.path().join("other");
    let sweep = ["sweep", "--yes", "--running-too", "--older-than", "0s", "--state-dir", other.to_str().unwrap()];
    world.run(&sweep).expect(0);
    assert_eq!(world.resources(), 18);
    let listed = world.json(&["server", "list"]);
    let marks: Vec<&Value> = listed["servers"].as_array().unwrap().iter().map(|server| &server["kept"]).collect();
    assert_eq!(marks, [true; 6], "{listed}");
}

/// With several types, `server create` is in `servers.rs`.
#[test]
fn a_placement_policy_that_skips_all_lets_no_command_create() {
    let world = World::new("100");
    world.configure(&rules(&world, "placement", "skip"));
    let one_type = world.run(&[&CREATE[..], &["--type", "DEV1-S"]].concat()).expect(1);
    one_type.says("not created, as the placement policy decided: as told");
    let cluster = world.run(&["cluster", "create", &farm(&world, 2)]).expect(1);
    cluster.says("the placement policy creates 0 of 2 servers of group web: as told");
    let requests = world.control("GET", "requests", "");
    let changes: Vec<&Value> = requests.as_array().unwrap().iter().filter(|call| call["method"] != "GET").collect();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_failed_server_that_the_rollback_policy_keeps_is_named_as_left() {
    let world = World::new("100");
    let patience = IMPATIENT.replace("[policies.retry]", "[[policies.retry]]");
    world.configure(&format!("{}{patience}", rules(&world, "rollback", "keep")));
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    let failed = world.run(&[&CREATE[..], &["--type", "DEV1-S"]].concat()).expect(3);
    world.control("DELETE", "faults", "");
    let listed = world.json(&["server", "list"]);
    let id = listed["servers"][0]["id"].as_str().unwrap().to_owned();
    let left = failed.json()["error"]["left"].clone();
    let is_named = |one: &Value| one["kind"] == "server" && one["id"] == *id;
    assert!(left.as_array().unwrap().iter().any(is_named), "{left}");
    failed.says("a policy keeps it").says(&format!("windlass server delete --force {id}"));
    world.run(&["server", "delete", "--yes", "--force", &id]).expect(0);
}

#[test]
fn a_release_that_waits_stays_one_operation_however_often_it_is_asked_for() {
    let world = World::new("100");
    let waits = "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = { retry-after = 3600000 }\n";
    let waits = world.write("waits.rules.toml", waits.as_bytes());
    world.configure(&format!("[[policies.release]]\npath = {waits:?}\n"));
    let server = world.create("1").expect(0).json()["servers"][0]["id"].as_str().unwrap().to_owned();
    let unfinished = || {
        let operations = world.json(&["operation", "list", "--open"]);
        let ids = operations["operations"].as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        world
            .run(&["server", "delete", "--yes", &server])
            .expect(3)
            .says("the release policy is asked again at")
            .says(&format!("windlass operation resume; to delete without it: windlass server delete --force {server}"));
        assert_eq!(unfinished().len(), 1);
    }
    let asked = world.json(&["decision", "list", "--slot", "release"]);
    assert_eq!(asked["decisions"].as_array().unwrap().len(), 1, "before the time came: {asked}");
    assert_eq!(world.resources(), 3);
    world.configure("");
    world.run(&["server", "delete", "--yes", &server]).expect(0);
    assert_eq!((world.resources(), unfinished().len()), (0, 0));
}

#[test]
fn a_rollback_policy_that_keeps_is_told_by_every_command_that_removes() {
    let world = World::new("100");
    world.configure(&format!("owner = 'team'\n{}", rules(&world, "rollback", "keep")));
    let server = world.create("1").expect(0).json()["servers"][0]["id"].as_str().unwrap().to_owned();
    let deleted = world.run(&["server", "delete", "--yes", &server, "--output", "json"]).expect(3);
    deleted.says(&server);
    world.run(&["server", "delete", "--yes", &server, "--force"]).expect(0);
    assert_eq!(world.resources(), 0);

    world.run(&["cluster", "create", &farm(&world, 2)]).expect(0);
    world.run(&["cluster", "scale", "farm", "web=1", "--yes"]).expect(3).says("LEFT    server farm-web-2 (");
    world.run(&["cluster", "terminate", "farm", "--yes"]).expect(3).says("LEFT    server farm-web-1 (");
    assert_eq!(world.resources(), 6);

    let volumes = "slot = \"rollback\"\n[[rules]]\nwhen = \"resource.kind == 'block-volume'\"\nanswer = \"keep\"\n";
    let volumes = world.write("volumes.rules.toml", volumes.as_bytes());
    world.configure(&format!("owner = 'team'\n[[policies.rollback]]\npath = {volumes:?}\n"));
    world.run(&["cluster", "create", &farm(&world, 1)]).expect(0);
    world.run(&["cluster", "terminate", "farm", "--yes"]).expect(3).says("LEFT    block-volume farm-web-1 (");
    assert_eq!(world.resources(), 7);
}

#[test]
fn a_rule_about_a_label_that_no_question_has_is_warned_of() {
    let world = World::new("100");
    let rule = "when = \"subject.labels.exists(l, l.name == 'team' && l.value == 'build')\"\nanswer = \"keep\"";
    let file = world.write("team.rules.toml", format!("slot = \"release\"\n[[rules]]\n{rule}\n").as_bytes());
    let release = format!("[[policies.release]]\npath = {file:?}\n");
    world.configure(&format!("[policies]\nlabels = ['Team']\n{release}"));
    world.run(&["policy", "list"]).expect(0).says("its rules ask for the label `team`, which no question has");
    world.configure(&format!("[policies]\nlabels = ['team']\n{release}"));
    let listed = world.run(&["policy", "list"]).expect(0);
    assert!(!listed.stderr.contains("which no question has"), "{}", listed.stderr);
}

#[test]
fn who_looks_at_a_deletion_first_hears_that_a_policy_may_keep_it() {
    let world = World::new("100");
    world.configure(&rules(&world, "release", "keep"));
    let server = world.create("1").expect(0).json()["servers"][0]["id"].as_str().unwrap().to_owned();
    let words = "the release policy is asked about each server, and may keep it";
    let planned = world.json(&["server", "delete", "--dry-run", &server]);
    assert_eq!(planned["notes"][0], words, "{planned}");
    let forced = world.json(&["server", "delete", "--dry-run", "--force", &server]);
    assert!(forced["notes"].is_null(), "{forced}");
    let none = world.run(&["server", "list", "--group", "nosuch"]).expect(0).stdout;
    assert!(none.contains(" in group nosuch in fr-par-1"), "{none}");
}
