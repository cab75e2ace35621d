use crate::support::{Ran, Running, World, bare};

#[test]
fn the_questions_are_listed_without_credentials_or_calls() {
    let home = tempfile::tempdir().unwrap();
    let listed = Ran::of(bare(home.path()).args(["conformance", "--list", "--output", "json"])).expect(0).json();
    let probes = listed["probes"].as_array().unwrap();
    assert!(probes.iter().any(|probe| probe["id"] == "tag-filter-addresses" && probe["needs"][0] == "address"));
    let table = Ran::of(bare(home.path()).args(["conformance", "--list", "--only", "user-data-size"])).expect(0);
    assert_eq!(table.stdout.lines().count(), 2, "{}", table.stdout);
    Ran::of(bare(home.path()).args(["conformance", "--only", "tag-filter"])).expect(2).says("tag-filter-servers");
}

#[test]
fn without_a_terminal_and_without_yes_it_calls_nobody() {
    let world = World::new("50");
    let ran = world.run(&["conformance"]).expect(2).says("--yes").says("--list");
    assert_eq!(ran.stdout, "");
    assert_eq!(world.control("GET", "requests", ""), serde_json::json!([]));
}

#[test]
fn every_assumption_holds_on_the_simulator_and_nothing_is_left() {
    let world = World::without_state("50");
    let report = world.json(&["conformance", "--yes"]);
    let probes = report["probes"].as_array().unwrap();
    assert!(probes.len() >= 19 && probes.iter().all(|probe| probe["verdict"] == "holds"), "{report}");
    assert_eq!(report["left"], serde_json::json!([]));
    assert_eq!(world.resources(), 0);
    // It needs no state directory, and leaves none.
    assert!(!world.home.path().join(".local").exists());
}

#[test]
fn a_broken_assumption_is_exit_code_1_with_what_was_seen_and_what_it_means() {
    let world = World::new("50");
    world.control("POST", "behaviours", "\"gone-forbidden\"");
    let arguments = ["conformance", "--yes", "--only", "gone-address-answers,tag-filter-addresses"];
    let ran = world.run(&arguments).expect(1).says("BROKEN").says("403 permissions_denied");
    assert!(ran.stdout.contains("1 hold, 1 broken, 0 unknown") && ran.stdout.contains("0 left"), "{}", ran.stdout);
    let meaning = "\n\nbroken     gone-address-answers\n\
        relied on  the look at the end of an undo or a cleanup\n\
        if wrong   each undo and each cleanup ends in \"something is left\"\n\n1 hold, ";
    assert!(ran.stdout.contains(meaning) && !ran.stdout.contains("look-ups"), "{}", ran.stdout);
    let document = world.run(&[&arguments[..], &["--output", "json"]].concat()).expect(1).json();
    assert_eq!(document["error"]["exit_code"], 1);
    let (holds, broken) = (&document["probes"][0], &document["probes"][1]);
    assert_eq!(broken["verdict"], "broken");
    assert_eq!(broken["relied_on"], "the look at the end of an undo or a cleanup");
    assert_eq!(broken["if_wrong"], "each undo and each cleanup ends in \"something is left\"");
    assert!(holds["relied_on"].is_null() && holds["if_wrong"].is_null(), "{holds}");
    assert_eq!(world.resources(), 0);
}

#[test]
fn what_is_left_is_exit_code_3_and_is_listed() {
    let world = World::new("50");
    world.fault("DELETE", "/instance/**/ips/*", "permission-denied");
    let ran = world.run(&["conformance", "--yes", "--only", "tag-filter-addresses"]).expect(3).says("LEFT");
    let resources = world.control("GET", "resources", "");
    ran.says(resources["ips"][0]["id"].as_str().unwrap());
}

#[test]
fn an_interrupt_removes_what_was_made() {
    let world = World::new("1");
    let run = Running::start(&mut world.command(&["conformance", "--yes"]));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    run.signal("INT");
    run.end().expect(130).says("interrupted: removing what was made");
    assert_eq!(world.resources(), 0);
}
