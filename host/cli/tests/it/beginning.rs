//! `windlass init` and `windlass config show`: what is asked, what is written, and where each value comes from.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Ran, Running, World, bare, new_home};

const KEY: &str = "11111111-1111-1111-1111-111111111111";

fn file(world: &World) -> PathBuf {
    world.home.path().join(".config/windlass/config.toml")
}

/// A command of somebody who has credentials and nothing else.
fn newcomer(world: &World, arguments: &[&str]) -> Command {
    let mut command = bare(world.home.path());
    command.args(arguments).env("SCW_API_URL", &world.url).env("SCW_SECRET_KEY", KEY);
    command
}

#[test]
fn init_writes_a_configuration_that_later_commands_use_and_tries_a_policy() {
    let world = World::new("100");
    let arguments = ["init", "--yes", "--zone", "fr-par-2", "--group", "ci", "-o", "json"];
    let begun = Ran::of(&mut newcomer(&world, &arguments)).expect(0).json();
    assert_eq!(begun["file"], file(&world).to_str().unwrap());
    assert!(begun["checks"].as_array().unwrap().iter().any(|check| check["check"] == "credentials"), "{begun}");
    assert_eq!(begun["policy"]["answer"]["verdict"], json!({ "wait": 60_000 }));
    assert_eq!(begun["policy"]["reason"], "stock may come back");
    assert_eq!(begun["next"][0], "windlass server create --type DEV1-S --image ubuntu_noble");
    let text = std::fs::read_to_string(file(&world)).unwrap();
    assert!(text.ends_with("zone = \"fr-par-2\"\n\n[server]\ngroup = \"ci\"\n") && !text.contains(KEY), "{text}");
    assert_eq!(std::fs::metadata(file(&world)).unwrap().permissions().mode() & 0o777, 0o600);
    let create = begun["next"][0].as_str().unwrap();
    let words: Vec<&str> = create.split(' ').skip(1).chain(["-o", "json"]).collect();
    let created = Ran::of(&mut newcomer(&world, &words)).expect(0).json();
    assert_eq!(created["servers"][0]["zone"], "fr-par-2");
    let listed = Ran::of(&mut newcomer(&world, &["server", "list", "--group", "ci", "-o", "name"])).expect(0);
    assert_eq!(listed.stdout.trim(), created["servers"][0]["id"].as_str().unwrap());
}

#[test]
fn init_writes_nothing_for_a_zone_that_scaleway_does_not_have() {
    let world = World::new("100");
    let ran = Ran::of(&mut newcomer(&world, &["init", "--yes", "--zone", "fr-par-9"])).expect(2);
    ran.says("Scaleway offers no servers in a zone fr-par-9").says("nothing was written");
    assert!(!file(&world).exists());
}

#[test]
fn without_a_terminal_init_wants_yes_and_touches_nothing() {
    let world = World::without_state("100");
    let ran = Ran::of(&mut newcomer(&world, &["init", "--zone", "fr-par-1"])).expect(2);
    ran.says("there is no terminal to ask on; nothing was touched").says("windlass init --yes --zone fr-par-1");
    assert_eq!(std::fs::read_dir(world.home.path()).unwrap().count(), 0);
}

#[test]
fn a_configuration_that_exists_is_replaced_only_when_that_is_asked_for() {
    let world = World::new("100");
    world.configure("zone = \"nl-ams-1\"\n");
    let kept = || assert_eq!(std::fs::read_to_string(file(&world)).unwrap(), "zone = \"nl-ams-1\"\n");
    let arguments = ["init", "--yes", "--zone", "fr-par-1", "--try-policy", "false"];
    Ran::of(&mut newcomer(&world, &arguments)).expect(2).says("nothing was touched").says("--overwrite replaces it");
    kept();
    let (running, mut keyboard) = Running::at_terminal(newcomer(&world, &["init", "--zone", "fr-par-1"]));
    running.until_it_says("exists. Replace it?");
    keyboard.types("\n");
    running.end().expect(2).says("nothing was touched");
    kept();
    let overwriting = [&arguments[..], &["--overwrite"]].concat();
    let ran = Ran::of(&mut newcomer(&world, &overwriting)).expect(0);
    assert!(!ran.stdout.contains("tried a policy"), "{}", ran.stdout);
    assert!(std::fs::read_to_string(file(&world)).unwrap().contains("zone = \"fr-par-1\""));
}

#[test]
fn on_a_terminal_what_no_option_says_is_asked_and_a_wrong_answer_is_asked_for_again() {
    let world = World::new("100");
    let state = world.home.path().join("elsewhere");
    let (running, mut keyboard) = Running::at_terminal(newcomer(&world, &["init", "--group", "ci"]));
    for (question, answer) in [
        ("Profile of Scaleway's configuration file [the active one]", ""),
        ("Availability zone [fr-par-1]", "paris"),
        ("`paris` is not the name of a zone", "pl-waw-2"),
        ("Directory of journal and decision log", state.to_str().unwrap()),
        ("Try a policy on an example question? [Y/n]", "n"),
    ] {
        // Words may be bold.
        running.until_it_says(question.split(" [").next().unwrap());
        keyboard.types(&format!("{answer}\n"));
    }
    let ran = running.end().expect(0).says("known are fr-par-1, fr-par-2");
    assert!(!ran.stderr.contains("Group of servers") && !ran.stdout.contains("tried a policy"), "{}", ran.stderr);
    let text = std::fs::read_to_string(file(&world)).unwrap();
    let expected = format!("state_dir = \"{}\"\nzone = \"pl-waw-2\"\n\n[server]\ngroup = \"ci\"\n", state.display());
    assert!(text.ends_with(&expected), "{text}");
}

#[test]
fn what_cannot_do_is_refused_with_a_remedy_before_anything_is_written() {
    let world = World::without_state("100");
    let in_the_way = world.write("in-the-way", b"");
    let in_the_way = in_the_way.to_str().unwrap();
    let below = format!("{in_the_way}/config.toml");
    let cases: [(&[&str], &str); 5] = [
        (&["--zone", "paris"], "`paris` is not the name of a zone"),
        (&[], "no zone is known; nothing was written"),
        (&["--zone", "fr-par-1", "--profile", "absent"], "absent"),
        (&["--zone", "fr-par-1", "--state-dir", in_the_way], "the configuration would not work: state-directory"),
        (&["--zone", "fr-par-1", "--config", &below], "the configuration cannot be written"),
    ];
    for (options, words) in cases {
        let ran = Ran::of(&mut newcomer(&world, &[&["init", "--yes"], options].concat())).expect(2).says(words);
        assert!(!ran.stderr.contains(KEY) && !ran.stdout.contains(KEY), "{}", ran.stderr);
        assert!(!world.home.path().join(".config").exists(), "{options:?}");
    }
}

#[test]
fn credentials_may_come_after_the_configuration() {
    let home = new_home();
    let ran = Ran::of(bare(home.path()).args(["init", "--yes", "--zone", "fr-par-1"])).expect(0);
    ran.says("failed   credentials");
    assert!(home.path().join(".config/windlass/config.toml").exists());
}

fn shown(command: &mut Command) -> Value {
    Ran::of(command.args(["config", "show", "-o", "json"])).expect(0).json()
}

fn value<'v>(shown: &'v Value, key: &str) -> &'v Value {
    let values = shown["values"].as_array().unwrap();
    values.iter().find(|value| value["key"] == key).unwrap_or_else(|| panic!("no {key} in {shown}"))
}

#[test]
fn each_value_is_shown_with_the_place_that_it_comes_from() {
    let world = World::new("100");
    world.configure("zone = 'nl-ams-1'\nowner = 'team'\n[limits]\nparallel = 3\n[[policies.retry]]\nmode = 'shadow'\n");
    let scaleway = world.home.path().join(".config/scw");
    std::fs::create_dir_all(&scaleway).unwrap();
    let profiles = format!(
        "secret_key: {KEY}\nprofiles:\n  ci:\n    default_zone: pl-waw-1\n    \
         default_project_id: 22222222-2222-2222-2222-222222222222\n"
    );
    std::fs::write(scaleway.join("config.yaml"), profiles).unwrap();
    let plain = || {
        let mut command = bare(world.home.path());
        command.env("SCW_PROFILE", "ci");
        command
    };
    let all = shown(&mut plain());
    let expected = |key: &str, is: Value, from: &str, place: &str| {
        let found = value(&all, key);
        assert_eq!((&found["value"], &found["from"]), (&is, &json!(from)), "{found}");
        let shown = found["place"].as_str().unwrap_or_default();
        assert!(shown.starts_with(place) && (place.is_empty() == shown.is_empty()), "{found}");
    };
    expected("zone", json!("nl-ams-1"), "file", "`zone` in /");
    expected("profile", json!("ci"), "variable", "SCW_PROFILE");
    expected(
        "project",
        json!("22222222-2222-2222-2222-222222222222"),
        "scaleway-file",
        "`default_project_id` in profile ci",
    );
    expected("secret_key", Value::Null, "scaleway-file", "`secret_key` in profile ci");
    expected("api_url", json!("https://api.scaleway.com"), "default", "");
    expected("owner", json!("team"), "file", "`owner` in /");
    expected("limits.parallel", json!("3"), "file", "`limits.parallel` in /");
    expected("limits.requests_per_second", json!("30"), "default", "");
    expected("policies.retry", json!("built-in (shadow)"), "file", "`policies.retry` in /");
    expected("policies.rollback", json!("built-in"), "default", "");
    let mut command = plain();
    command.env("SCW_DEFAULT_ZONE", "fr-par-3").env("WINDLASS_STATE_DIR", "/of/variable");
    let all = shown(&mut command);
    assert_eq!(value(&all, "zone")["from"], "variable");
    assert_eq!(value(&all, "state_dir")["place"], "WINDLASS_STATE_DIR");
    let mut command = plain();
    let all =
        shown(command.env("SCW_DEFAULT_ZONE", "fr-par-3").args(["--zone", "fr-par-1", "--state-dir", "/of/option"]));
    assert_eq!(value(&all, "zone")["place"], "--zone");
    assert_eq!(value(&all, "state_dir")["place"], "--state-dir");
}

#[test]
fn no_secret_is_shown_in_any_format() {
    let world = World::new("100");
    for format in ["table", "wide", "json", "yaml", "name"] {
        let ran = Ran::of(&mut newcomer(&world, &["config", "show", "-vvv", "-o", format])).expect(0);
        assert!(ran.stdout.contains("secret_key"), "{}", ran.stdout);
        assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{format}: {}", ran.stdout);
    }
}

#[test]
fn showing_makes_nothing_and_needs_no_credentials() {
    let home = tempfile::tempdir().unwrap();
    let all = shown(&mut bare(home.path()));
    assert_eq!(value(&all, "secret_key")["from"], "none");
    assert_eq!(value(&all, "zone")["from"], "none");
    assert_eq!(all["problem"], Value::Null);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    let all = shown(bare(home.path()).args(["--profile", "absent"]));
    assert!(all["problem"].as_str().unwrap().contains("absent"), "{all}");
}
