//! `windlass doctor`: what it finds, that it changes nothing, and that it tells no secret.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Ran, Running, World, bare, new_home};

const KEY: &str = "11111111-1111-1111-1111-111111111111";

const CHECKS: [&str; 18] = [
    "configuration",
    "policies",
    "state-directory",
    "free-space",
    "journal",
    "credentials",
    "zone",
    "reachability",
    "clock",
    "rights-instance",
    "rights-block",
    "rights-marketplace",
    "rights-ipam",
    "rights-apple-silicon",
    "rights-iam",
    "rights-to-change",
    "owners",
    "history",
];

/// Something that gives every request the same answer.
struct Canned {
    url: String,
}

impl Canned {
    /// `head` is the status line and the headers, without those about length and connection.
    fn answering(head: &str, body: impl Fn(&str) -> String + Send + 'static) -> Canned {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let head = head.to_owned();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                // Whoever asked may have gone.
                let _ = answer(connection, &head, &body);
            }
        });
        Canned { url }
    }
}

fn answer(mut connection: TcpStream, head: &str, body: &impl Fn(&str) -> String) -> std::io::Result<()> {
    let mut asked = Vec::new();
    let mut part = [0; 1024];
    while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
        match connection.read(&mut part)? {
            0 => break,
            count => asked.extend_from_slice(&part[..count]),
        }
    }
    let body = body(&String::from_utf8_lossy(&asked));
    write!(connection, "{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// `doctor` with credentials, against this address.
fn doctor_at(home: &Path, url: &str) -> Command {
    let mut command = bare(home);
    command
        .args(["doctor", "--output", "json"])
        .env("SCW_API_URL", url)
        .env("SCW_SECRET_KEY", KEY)
        .env("SCW_DEFAULT_ZONE", "fr-par-1");
    command
}

fn check<'d>(document: &'d Value, name: &str) -> &'d Value {
    let checks = document["checks"].as_array().unwrap_or_else(|| panic!("no checks: {document}"));
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("no {name}: {document}"))
}

#[track_caller]
fn found(document: &Value, name: &str, outcome: &str, words: &str) {
    let check = check(document, name);
    assert_eq!(check["outcome"], outcome, "{check}");
    assert!(check.to_string().contains(words), "no {words:?} in {check}");
}

/// Every path below a folder.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        found.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn where_all_is_well_it_says_so_changes_nothing_and_leaves_nothing() {
    let world = World::without_state("50");
    let temporary = world.home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let before = files(world.home.path());
    let ran = Ran::of(world.command(&["doctor", "--output", "json"]).env("TMPDIR", &temporary)).expect(0);
    let document = ran.json();
    let names: Vec<&str> =
        document["checks"].as_array().unwrap().iter().map(|check| check["check"].as_str().unwrap()).collect();
    assert_eq!(names, CHECKS);
    for name in CHECKS {
        let outcome = match name {
            "rights-iam" | "rights-to-change" | "journal" => "skipped",
            // The simulator's clock is its own.
            "clock" => "warning",
            _ => "ok",
        };
        found(&document, name, outcome, "");
    }
    found(&document, "credentials", "ok", "SCW_SECRET_KEY");
    let requests = world.control("GET", "requests", "");
    let requests = requests.as_array().unwrap();
    assert!(requests.iter().all(|request| request["method"] == "GET") && requests.len() <= 12, "{requests:?}");
    assert_eq!(files(world.home.path()), before);
    // Where there is a state directory, nothing is added to it either.
    world.create("1").expect(0);
    let before = files(world.home.path());
    let reported = Ran::of(world.command(&["doctor"]).env("TMPDIR", &temporary)).expect(0);
    assert_eq!(files(world.home.path()), before);
    assert_eq!(reported.stdout.lines().count(), CHECKS.len(), "{}", reported.stdout);
    assert!(reported.stdout.contains("ok       journal "), "{}", reported.stdout);
    for said in [&ran.stdout, &ran.stderr, &reported.stdout, &reported.stderr] {
        assert!(!said.contains(KEY), "the key is told: {said}");
    }
}

#[test]
fn a_right_that_is_always_needed_is_a_failure_and_another_a_warning() {
    let world = World::new("50");
    world.fault("GET", "/apple-silicon/**", "permission-denied");
    let document = world.run(&["doctor", "--output", "json"]).expect(0).json();
    found(&document, "rights-apple-silicon", "warning", "needed only for Macs");
    world.fault("GET", "/block/**", "permission-denied");
    let ran = world.run(&["doctor", "--output", "json"]).expect(1).says("a check failed: rights-block");
    let document = ran.json();
    found(&document, "rights-block", "failed", "may not read Block Storage volumes");
    found(&document, "rights-instance", "ok", "");
    assert_eq!(document["error"]["exit_code"], 1);
    // People get the same lines, and the reason on stderr.
    let reported = world.run(&["doctor"]).expect(1).says("a check failed: rights-block");
    assert!(reported.stdout.contains("failed   rights-block "), "{}", reported.stdout);
}

#[test]
fn quotas_are_asked_where_an_organization_is_known() {
    let world = World::new("50");
    let mut command = world.command(&["doctor", "--output", "json"]);
    command.env("SCW_DEFAULT_ORGANIZATION_ID", "33333333-3333-3333-3333-333333333333");
    found(&Ran::of(&mut command).expect(0).json(), "rights-iam", "ok", "");
}

#[test]
fn a_key_that_is_not_accepted_is_told_with_its_source_and_never_shown() {
    let home = new_home();
    // As recorded; and a proxy that repeats the request with its key.
    let refusal = |asked: &str| {
        let body = serde_json::json!({ "type": "denied_authentication", "method": "api_key", "message": asked });
        body.to_string()
    };
    let head = "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json";
    let api = Canned::answering(head, refusal);
    let ran = Ran::of(&mut doctor_at(home.path(), &api.url)).expect(1).says("credentials");
    let document = ran.json();
    found(&document, "credentials", "failed", "SCW_SECRET_KEY, and it is not accepted (401)");
    found(&document, "reachability", "ok", "");
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn a_clock_that_is_off_is_told_with_how_far() {
    let home = new_home();
    for (date, outcome, words) in [
        ("Thu, 01 Jan 2015 00:00:00 GMT", "warning", "ahead of the API's"),
        ("Fri, 01 Jan 2100 00:00:00 GMT", "warning", "behind the API's, which is on this machine"),
        ("soon", "skipped", "does not say what time it is"),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: {date}");
        let api = Canned::answering(&head, |_| r#"{"servers": []}"#.to_owned());
        let document = Ran::of(&mut doctor_at(home.path(), &api.url)).json();
        found(&document, "clock", outcome, words);
    }
}

#[test]
fn what_answers_and_is_no_api_of_scaleway_is_reported_as_such() {
    let home = new_home();
    let portal = "HTTP/1.1 200 OK\r\nContent-Type: text/html";
    let api = Canned::answering(portal, |_| "<h1>Welcome to our network</h1>".to_owned());
    let document = Ran::of(&mut doctor_at(home.path(), &api.url)).expect(1).json();
    found(&document, "reachability", "failed", "is not Scaleway's API: 200, text/html");
    found(&document, "credentials", "skipped", "whether it is accepted is not known");
    found(&document, "rights-instance", "skipped", "not reached");
}

#[test]
fn an_api_that_cannot_be_reached_is_told_with_what_is_in_the_way() {
    let home = new_home();
    let document = Ran::of(&mut doctor_at(home.path(), "http://127.0.0.1:1")).expect(1).json();
    found(&document, "reachability", "failed", "127.0.0.1 resolves, and no answer comes");
    found(&document, "clock", "skipped", "");
    // A name that no name server may ever know (RFC 2606).
    let document = Ran::of(&mut doctor_at(home.path(), "http://windlass.invalid")).expect(1).json();
    found(&document, "reachability", "failed", "windlass.invalid does not resolve");
}

#[test]
fn missing_credentials_and_a_missing_zone_are_told_and_what_is_here_is_looked_at_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let document = Ran::of(bare(home.path()).args(["doctor", "--output", "json"])).expect(1).json();
    found(&document, "credentials", "failed", "SCW_SECRET_KEY");
    found(&document, "rights-to-change", "skipped", "no credentials");
    found(&document, "policies", "ok", "");
    found(&document, "state-directory", "ok", "can be made");
    let document = Ran::of(bare(home.path()).args(["doctor", "--zone", "xx", "--output", "json"])).expect(1).json();
    found(&document, "zone", "failed", "xx");
    found(&document, "credentials", "skipped", "not tried");
    let mut command = bare(home.path());
    command.args(["doctor", "--output", "json"]).env("SCW_SECRET_KEY", KEY);
    let document = Ran::of(&mut command).expect(1).json();
    found(&document, "zone", "failed", "SCW_DEFAULT_ZONE");
    found(&document, "credentials", "skipped", "SCW_SECRET_KEY");
}

#[test]
fn a_configuration_that_cannot_be_read_comes_first() {
    let world = World::new("50");
    world.configure("onwer = 'x'\n");
    let document = world.run(&["doctor", "--output", "json"]).expect(1).json();
    found(&document, "configuration", "failed", "line 1: 'onwer' is no known key; did you mean 'owner'?");
    let checks = document["checks"].as_array().unwrap();
    assert_eq!(checks.len(), CHECKS.len());
    assert!(checks[1..].iter().all(|check| check["outcome"] == "skipped"), "{document}");
    assert_eq!(world.control("GET", "requests", ""), serde_json::json!([]));
    // Words that are none of the command's are wrong usage, as everywhere.
    world.run(&["doctor", "everything"]).expect(2);
}

#[test]
fn a_policy_that_does_not_load_is_told_with_its_line() {
    let world = World::new("50");
    let file = world.write("broken.wasm", b"not a policy");
    world.configure(&format!("owner = 'ci'\n\n[policies.rollback]\npath = '{}'\n", file.display()));
    let document = world.run(&["doctor", "--output", "json"]).expect(1).json();
    found(&document, "policies", "failed", "config.toml, line 3");
    found(&document, "policies", "failed", "windlass policy check");
    found(&document, "rights-instance", "ok", "");
}

#[test]
fn the_state_directory_is_looked_at_for_privacy_and_for_what_is_in_its_way() {
    let world = World::new("50");
    let state = world.home.path().join("state");
    let doctor = || world.run(&["doctor", "--output", "json", "--state-dir", state.to_str().unwrap()]);
    std::fs::write(&state, b"").unwrap();
    found(&doctor().expect(1).json(), "state-directory", "failed", "is no directory");
    std::fs::remove_file(&state).unwrap();
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    let document = doctor().expect(0).json();
    found(&document, "state-directory", "warning", "chmod 700");
    found(&document, "free-space", "ok", "MB are free");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    found(&doctor().expect(0).json(), "state-directory", "ok", "by its user alone");
}

#[test]
fn the_journal_is_looked_at_for_what_waits_in_it_and_who_works_with_it() {
    // Time stands still, so the creation waits for its server for as long as it is looked at.
    let world = World::new("0");
    let arguments = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    let create = Running::start(&mut world.command(&arguments));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    let document = world.json(&["doctor"]);
    found(&document, "journal", "ok", "open operations: 1, left by processes that ended: 0");
    found(&document, "journal", "ok", "other processes at work: 1");
    create.signal("KILL");
    create.end().expect(-1);
    let document = world.json(&["doctor"]);
    found(&document, "journal", "warning", "open operations: 1, left by processes that ended: 1");
    found(&document, "journal", "warning", "windlass operation resume");
}

#[test]
fn a_journal_of_a_newer_version_is_told_and_left_untouched() {
    let world = World::new("50");
    world.create("1").expect(0);
    let journal = world.home.path().join(".local/state/windlass/journal.sqlite");
    // The header of an SQLite file holds the user version at byte 60.
    std::fs::OpenOptions::new().write(true).open(&journal).unwrap().write_at(&99u32.to_be_bytes(), 60).unwrap();
    let before = std::fs::read(&journal).unwrap();
    let document = world.run(&["doctor", "--output", "json"]).expect(1).json();
    found(&document, "journal", "failed", "version 99");
    assert_eq!(std::fs::read(&journal).unwrap(), before);
}

/// The check of the policies, by a process whose address space is limited.
fn policies_with_address_space(kib: u64) -> Value {
    let home = new_home();
    let windlass = bare(home.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]).arg(windlass.get_program());
    limited.args(["--output", "json", "doctor"]).env_clear();
    limited.envs(windlass.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::of(&mut limited);
    let words = format!("{}\n{}", ran.stdout, ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {words}"));
    let checks = document["checks"].as_array().unwrap_or_else(|| panic!("{document}"));
    checks.iter().find(|check| check["check"] == "policies").unwrap().clone()
}

#[test]
fn policies_load_where_address_space_is_limited() {
    // One that has no room for a pool, one that a pool of small memories would fill, and one that it would not.
    for kib in [3_000_000, 18_000_000, 40_000_000] {
        let check = policies_with_address_space(kib);
        assert_eq!(check["outcome"], "warning", "{kib} KiB: {check}");
        assert!(check["finding"].as_str().unwrap().contains("load, the built-in defaults included"), "{kib}: {check}");
        assert!(check["remedy"].as_str().unwrap().contains("ulimit -v unlimited"), "{kib}: {check}");
    }
}
