//! Operations that somebody lets go, and whether somebody works on the others.

use serde_json::Value;

use crate::detached::{CREATE, detached, until_ended};
use crate::support::{IMPATIENT, Running, World};

/// Kills a creation while its server starts, and gives its operation.
pub fn killed(world: &World) -> Value {
    let create = Running::start(&mut world.command(&CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("KILL");
    create.end();
    world.json(&["operation", "list"])["operations"][0].clone()
}

#[test]
fn an_abandoned_operation_is_listed_and_left_alone_until_deleted() {
    let world = World::new("0");
    let operation = killed(&world);
    let id = operation["id"].as_str().unwrap();
    let here = world.resources();
    world.run(&["operation", "abandon", id]).expect(2).says("--dry-run");
    let planned = world.json(&["operation", "abandon", id, "--dry-run"]);
    assert_eq!(planned["planned"].as_array().unwrap().len(), here);
    let why = ["--yes", "--reason", "kept for a look"];
    for _ in 0..2 {
        let abandoned = world.json(&[&["operation", "abandon", id], &why[..]].concat());
        let operation = &abandoned["operations"][0];
        assert_eq!(operation["state"], "abandoned");
        assert_eq!(operation["report"]["abandoned"].as_array().unwrap().len(), here);
        assert!(operation["reasons"][0].as_str().unwrap().ends_with(": kept for a look"), "{operation}");
    }
    let shown = world.run(&["operation", "show", id]).expect(0).stdout;
    assert!(shown.contains("abandoned") && shown.contains("kept for a look"), "{shown}");
    world.run(&["operation", "resume"]).expect(0);
    let swept = world.json(&["sweep", "--yes", "--older-than", "0s", "--running-too"]);
    assert_eq!((swept["abandoned"].as_array().unwrap().len(), &swept["unexplained"]), (here, &serde_json::json!([])));
    assert_eq!(world.resources(), here);
    let listed = world.run(&["server", "list"]).expect(0).stdout;
    assert!(listed.contains("abandoned"), "{listed}");
    let delete = Running::start(&mut world.command(&["server", "delete", id, "--yes"]));
    until_ended(&world, delete).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn an_operation_says_whether_somebody_works_on_it() {
    let world = World::new("0");
    let operation = killed(&world);
    assert_eq!((operation["state"].as_str(), operation["worker"].as_str()), (Some("open"), Some("dead")));
    let shown = world.run(&["operation", "show", operation["id"].as_str().unwrap()]).expect(0).stdout;
    assert!(shown.contains("dead: the next start"), "{shown}");
    let world = World::new("0");
    let id = detached(&world);
    assert_eq!(world.json(&["operation", "show", &id])["operation"]["worker"], "alive");
    world
        .run(&["operation", "abandon", &id, "--yes"])
        .expect(2)
        .says("is in progress")
        .says("windlass operation cancel");
    let ended = until_ended(&world, Running::start(&mut world.command(&["operation", "watch", &id]))).expect(0);
    assert!(!ended.stdout.contains("worker"), "{}", ended.stdout);
    assert_eq!(world.json(&["operation", "show", &id])["operation"].get("worker"), None);
}

#[test]
fn an_operation_that_left_something_says_why() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    let name = ["--name", "namesake"];
    let create = [&CREATE_SERVER[..], &name].concat();
    world.run(&create).expect(0);
    world.run(&["server", "delete", "namesake", "--yes"]).expect(0);
    world.run(&create).expect(0);
    world.fault("DELETE", "/instance/v1/zones/*/ips/*", "internal-server-error");
    let ran = world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(3);
    assert!(!ran.stderr.contains("LEFT: "), "what is left stands in its own lines: {}", ran.stderr);
    for list in [vec!["operation", "list"], vec!["operation", "list", "--open"]] {
        let listed = world.run(&list).expect(0).stdout;
        let left = listed.lines().find(|line| line.contains(" left ")).unwrap_or_else(|| panic!("{listed}"));
        assert!(left.contains("ip ") && left.contains("Internal error"), "{left}");
    }
    let doctor = world.run(&["doctor"]).expect(0).stdout;
    assert!(doctor.contains("left something behind: 1"), "{doctor}");
    let shown = world.run(&["server", "show", "namesake"]).expect(0).stdout;
    let (first, older) = shown.split_once("\n\n").unwrap_or_else(|| panic!("{shown}"));
    assert!(first.contains("which has left something") && first.contains("LEFT"), "{shown}");
    assert!(!older.contains("LEFT"), "{shown}");

    world.control("DELETE", "faults", "");
    world.run(&["operation", "resume"]).expect(0);
    let id = world.json(&["operation", "list"])["operations"][0]["id"].as_str().unwrap().to_owned();
    world.run(&["operation", "cancel", &id]).expect(0).says("had ended: done");
}

const CREATE_SERVER: [&str; 8] = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

#[test]
fn the_nodes_of_an_abandoned_cluster_are_left_alone_until_its_end() {
    let world = World::new("0");
    let farm = world.write("farm.toml", FARM.as_bytes());
    let create = Running::start(&mut world.command(&["cluster", "create", farm.to_str().unwrap()]));
    world.until(|resources| resources["servers"].as_array().unwrap().iter().any(|it| it["state"] == "starting"));
    world.run(&["cluster", "abandon", "farm", "--yes"]).expect(2).says("is busy");
    create.signal("KILL");
    create.end();
    let here = world.resources();
    world.run(&["cluster", "abandon", "farm"]).expect(2).says("--dry-run");
    for _ in 0..2 {
        let abandoned = world.json(&["cluster", "abandon", "farm", "--yes", "--reason", "kept for a look"]);
        assert_eq!(abandoned["cluster"]["state"], "abandoned");
        let reason = abandoned["cluster"]["reasons"][0].as_str().unwrap();
        assert!(reason.ends_with(": kept for a look"), "{reason}");
    }
    world.run(&["cluster", "resume"]).expect(0);
    world.run(&["operation", "resume"]).expect(0);
    let swept = world.json(&["sweep", "--yes", "--older-than", "0s", "--running-too"]);
    assert_eq!(swept["unexplained"], serde_json::json!([]));
    assert_eq!(world.resources(), here);
    world.run(&["cluster", "scale", "farm", "web=3", "--yes"]).expect(2).says("abandoned").says("cluster terminate");
    let terminate = Running::start(&mut world.command(&["cluster", "terminate", "farm", "--yes"]));
    until_ended(&world, terminate).expect(0);
    assert_eq!(world.resources(), 0);
}
