//! Where state is kept: what is said of a copy, and how it is taken over.

use std::process::Command;

use crate::support::World;

#[test]
fn a_copied_state_directory_is_only_read_until_it_is_taken_over() {
    let world = World::new("1000");
    let fresh = world.json(&["state", "show"]);
    assert_eq!((&fresh["moved"], &fresh["operations"]), (&serde_json::Value::Null, &serde_json::json!({})));
    world.create("1").expect(0);
    let shown = world.json(&["state", "show"]);
    assert_eq!((shown["operations"]["done"].as_u64(), &shown["moved"]), (Some(1), &serde_json::Value::Null));
    let original = shown["state_directory"].as_str().unwrap();
    let copy = format!("{original}-copy");
    assert!(Command::new("cp").args(["-a", original, &copy]).status().unwrap().success());
    let there = ["--state-dir", copy.as_str()];
    let run = |arguments: &[&str]| world.run(&[arguments, &there[..]].concat());
    let copied = run(&["state", "show"]).expect(0).stdout;
    assert!(copied.contains("it is a copy"), "{copied}");
    let listed = run(&["server", "list"]).expect(0).stdout;
    let server = listed.split_whitespace().find(|word| word.starts_with("ci-")).unwrap();
    run(&["server", "delete", server, "--yes"]).expect(2).says("windlass state take-over");
    let checked = run(&["doctor"]).expect(1).stdout;
    assert!(checked.contains("it is a copy") && checked.contains("windlass state take-over"), "{checked}");
    run(&["state", "take-over"]).expect(2).says("windlass state show");
    run(&["state", "take-over", "--yes"]).expect(0);
    let taken = world.json(&[&["state", "show"], &there[..]].concat());
    assert!(taken["moved"].is_null() && taken["history"] != shown["history"], "{taken}");
    assert_eq!(taken["owner"], shown["owner"]);
    run(&["server", "delete", server, "--yes"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_url_is_no_state_directory_and_its_password_is_not_told() {
    let world = World::new("1000");
    let url = "postgres://ops:hunter2@db.example/windlass";
    let refused = world.run(&["--state-dir", url, "server", "list"]).expect(2);
    let refused = refused.says("a postgres:// URL").says("WINDLASS_STATE");
    assert!(!refused.stderr.contains("hunter2"), "{}", refused.stderr);
}

#[test]
fn a_directory_that_is_in_its_place_is_not_taken_over_by_mistake() {
    let world = World::new("1000");
    world.create("1").expect(0);
    let before = world.json(&["state", "show"]);
    let reported = world.run(&["state", "take-over", "--yes"]).expect(0).stdout;
    assert!(reported.contains("nothing was changed"), "{reported}");
    assert_eq!(world.json(&["state", "show"])["history"], before["history"]);
    world.run(&["state", "take-over", "--yes", "--force"]).expect(0);
    assert_ne!(world.json(&["state", "show"])["history"], before["history"]);
    let absent = format!("{}-absent", before["state_directory"].as_str().unwrap());
    world.run(&["state", "take-over", "--yes", "--state-dir", &absent]).expect(2).says("there is no state directory");
    assert!(!std::path::Path::new(&absent).exists());
}

#[test]
fn state_moves_into_an_empty_folder_and_never_among_other_files() {
    let world = World::new("1000");
    world.create("1").expect(0);
    let from = world.json(&["state", "show"])["state_directory"].as_str().unwrap().to_owned();
    let (documents, new) = (world.home.path().join("documents"), world.home.path().join("new"));
    std::fs::create_dir(&documents).unwrap();
    world.write("documents/letter.txt", b"x");
    let migrate =
        |to: &std::path::Path| world.run(&["state", "migrate", "--from", &from, "--to", to.to_str().unwrap()]);
    migrate(&documents).expect(2).says("holds other files; name an empty folder or a new one");
    assert_eq!(std::fs::read_dir(&documents).unwrap().count(), 1);
    assert!(migrate(&new).expect(0).stdout.starts_with("moved 1 record with "));
    let again = migrate(&world.home.path().join("third")).expect(2);
    assert_eq!(again.stderr.matches("moved").count(), 2, "the reason once: {}", again.stderr);
}
