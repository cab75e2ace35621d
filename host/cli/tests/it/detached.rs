//! Operations that other processes work on: watched, detached, attached to; and the end of the terminal.

use std::os::unix::fs::OpenOptionsExt as _;

use crate::support::{Ran, Running, STATE, World, eventually};

pub(crate) const CREATE: [&str; 8] =
    ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];

fn advance(world: &World) {
    world.control("POST", "clock", r#"{"advance_ms": 1000}"#);
}

#[track_caller]
pub(crate) fn until_ended(world: &World, mut running: Running) -> Ran {
    eventually("it ends", || {
        advance(world);
        running.has_ended().then_some(())
    });
    running.end()
}

/// Starts a detached creation in a world whose time stands still, and gives its id.
pub(crate) fn detached(world: &World) -> String {
    let mut command = world.command(&[&CREATE[..], &["--detach", "--output", "json"]].concat());
    // What still runs in the test's folder is ended with it.
    let reported = Ran::of(command.current_dir(world.home.path())).expect(0).json();
    reported["detached"]["operations"][0].as_str().expect("an id").to_owned()
}

fn state(world: &World, id: &str) -> String {
    world.json(&["operation", "show", id])["operation"]["state"].as_str().expect("a state").to_owned()
}

#[test]
fn a_detached_creation_goes_on_without_its_terminal_and_can_be_attached_to() {
    let world = World::new("0");
    let id = detached(&world);
    assert_eq!(state(&world, &id), "open");
    let attached = Running::start(&mut world.command(&["operation", "attach", &id]));
    // A session of its own: what ends the terminal's processes does not reach it.
    let operation = world.json(&["operation", "show", &id]);
    let process = operation["operation"]["runner"].as_str().unwrap().split('-').next().unwrap().to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives");
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap();
    assert_eq!(session, process);
    let command_line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).expect("it lives");
    assert!(!command_line.contains("--detach") && !command_line.contains("1111-1111"), "{command_line:?}");

    let ran = until_ended(&world, attached).expect(0);
    assert!(ran.stderr.contains("the server runs"), "{}", ran.stderr);
    assert_eq!(ran.json()["servers"][0]["server_type"], "DEV1-S", "{}", ran.stdout);
    assert_eq!(state(&world, &id), "done");
}

#[test]
fn an_interrupted_attachment_leaves_the_operation_running() {
    let world = World::new("0");
    let id = detached(&world);
    let attached = Running::start(&mut world.command(&["operation", "attach", &id]));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    attached.until_it_says("Ctrl-C leaves it running");
    attached.signal("INT");
    attached.end().expect(130).says("detached again");
    assert_eq!(state(&world, &id), "open");
    let watched = Running::start(&mut world.command(&["operation", "watch", &id]));
    until_ended(&world, watched).expect(0).says("is done");
}

#[test]
fn a_detached_operation_that_fails_ends_its_attachment_with_its_exit_code() {
    let world = World::new("0");
    world.configure(crate::support::IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    let id = detached(&world);
    let attached = Running::start(&mut world.command(&["operation", "attach", &id]));
    until_ended(&world, attached).expect(1).says("nothing is left");
    assert_eq!(state(&world, &id), "undone");
}

#[test]
fn a_detached_command_that_cannot_begin_is_told_with_its_exit_code() {
    let world = World::new("50");
    let wrong = ["server", "create", "--group", "ci", "--image", "ubuntu_noble", "--detach", "--output", "json"];
    let ran = world.run(&wrong).expect(2).says("ended before it had begun an operation");
    assert!(ran.stderr.contains("--type"), "{}", ran.stderr);
    // One document, the process's own.
    assert_eq!(ran.json()["error"]["exit_code"], 2);
    assert!(ran.json()["error"]["remedy"].as_str().unwrap().contains("--type"), "{}", ran.stdout);
    world.run(&["server", "delete", "--group", "ci", "--detach"]).expect(2).says("--yes");
    world.run(&[&CREATE[..], &["--detach", "--cloud-init", "-"]].concat()).expect(2).says("has no stdin");
}

#[test]
fn a_detached_process_that_was_killed_ends_its_attachment_with_what_to_do() {
    let world = World::new("0");
    let id = detached(&world);
    let attached = Running::start(&mut world.command(&["operation", "attach", &id]));
    attached.until_it_says("Ctrl-C leaves it running");
    let operation = world.json(&["operation", "show", &id]);
    let process = operation["operation"]["runner"].as_str().unwrap().split('-').next().unwrap().to_owned();
    assert!(std::process::Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    attached.end().expect(3).says("was killed before it ended").says("operation resume");
}

#[test]
fn the_result_of_a_detached_command_is_had_by_attaching_also_after_its_end() {
    let world = World::new("100");
    world.run(&CREATE).expect(0);
    let delete = ["server", "delete", "--group", "ci", "--yes", "--detach", "--output", "json"];
    let reported = world.run(&delete).expect(0).json();
    let id = reported["detached"]["operations"][0].as_str().expect("an id");
    for _ in 0..2 {
        let attached = world.run(&["operation", "attach", id]).expect(0);
        assert_eq!(attached.json()["servers"][0]["operation"], id, "{}", attached.stdout);
    }
    assert_eq!(world.resources(), 0);
    // What has nothing to do ends before it has begun an operation, with its document where documents are.
    let resume = world.run(&["operation", "resume", "--detach", "--output", "json"]).expect(0);
    assert_eq!(resume.json()["operations"], serde_json::json!([]));
    world.run(&["operation", "list", "--output", "wide"]).expect(0);
}

#[test]
fn what_was_left_open_is_ended_by_a_detached_process() {
    let world = World::new("0");
    let create = Running::start(&mut world.command(&CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("KILL");
    create.end();
    let mut command = world.command(&["operation", "resume", "--detach"]);
    let reported = Ran::of(command.current_dir(world.home.path())).expect(0);
    let id = reported.stdout.split(' ').next().unwrap().to_owned();
    let attached = Running::start(&mut world.command(&["operation", "attach", &id]));
    until_ended(&world, attached).expect(0);
    assert_eq!(state(&world, &id), "done");
}

#[test]
fn an_interruption_before_it_has_begun_calls_the_detached_command_off() {
    for signal in ["INT", "TERM"] {
        let world = World::new("0");
        // The process waits for somebody who writes into it, so it begins nothing.
        let pipe = world.home.path().join("cloud-init");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("ran").success());
        let with_pipe = [&CREATE[..], &["--detach", "--cloud-init", pipe.to_str().unwrap()]].concat();
        let starting = Running::start(world.command(&with_pipe).current_dir(world.home.path()));
        let kept = world.home.path().join(STATE).join("detached");
        eventually("it starts", || kept.read_dir().is_ok_and(|entries| entries.count() > 0).then_some(()));
        starting.signal(signal);
        starting.end().expect(130).says("the detached command is cancelled");
        assert_eq!(world.resources(), 0);
        world.run(&["operation", "watch"]).expect(0);
    }
}

#[test]
fn an_interruption_ends_the_wait_for_a_pipe_that_nobody_writes_to() {
    let world = World::new("0");
    let pipe = world.home.path().join("cloud-init");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("ran").success());
    let with_pipe = [&CREATE[..], &["--cloud-init", pipe.to_str().unwrap()]].concat();
    let creating = Running::start(&mut world.command(&with_pipe));
    // Without waiting, a pipe is opened for writing only where somebody reads it.
    let mut writing = std::fs::OpenOptions::new();
    writing.write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let _writer = eventually("it reads the pipe", || writing.open(&pipe).ok());
    creating.signal("INT");
    creating.end();
    assert_eq!(world.resources(), 0);
}

#[test]
fn open_operations_are_watched_until_they_end_one_line_for_each_event() {
    let world = World::new("0");
    world.run(&["operation", "watch"]).expect(0);
    let create = Running::start(&mut world.command(&CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    let watched = Running::start(&mut world.command(&["operation", "watch", "-o", "json-lines"]));
    let ran = until_ended(&world, watched).expect(0);
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON in each line")).collect();
    let (last, events) = lines.split_last().expect("the result");
    assert_eq!(last["operations"][0]["state"], "done");
    let steps: Vec<_> = events.iter().map(|event| event["entry"]["step"].as_str().unwrap()).collect();
    assert!(steps.contains(&"create-server") && steps.contains(&"power-on"), "{steps:?}");
    let sequences: Vec<_> = events.iter().map(|event| event["entry"]["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>(), "each once, in order");
    create.end().expect(0);
}

#[test]
fn a_watch_says_when_the_process_of_an_operation_has_died() {
    let world = World::new("0");
    let create = Running::start(&mut world.command(&CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("KILL");
    create.end();
    world.run(&["operation", "watch"]).expect(3).says("its process ended before it did").says("operation resume");
}

#[test]
fn the_end_of_the_terminal_ends_and_undoes_nothing() {
    let world = World::new("0");
    let create = Running::start(&mut world.command(&CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    create.signal("HUP");
    let ran = until_ended(&world, create).expect(0);
    assert!(!ran.stderr.contains("interrupted"), "{}", ran.stderr);
    assert_eq!(world.control("GET", "resources", "")["servers"][0]["state"], "running");
}
