//! What can still be read where the state directory cannot be written any more.

use std::process::Command;

use crate::console::page;
use crate::support::{BINARY, IMPATIENT, Ran, Running, STATE, World, eventually, skipped};

/// The files that are read, on a disk of their own. What runs after it sees it in place of the state directory.
const DISK: &str = "mkdir \"$HOME/copy\"
    cp -a \"$S\"/*.sqlite* \"$S/owner\" \"$HOME/copy\"
    mount -t tmpfs -o size=4m tmpfs \"$S\"
    cp -a \"$HOME/copy/.\" \"$S\"";
const READ_ONLY: &str = "mount -o remount,ro \"$S\"";
const FULL: &str = "dd if=/dev/zero of=\"$S/full\" bs=1k 2>/dev/null || true; test -s \"$S/full\"";
/// As after a backup that took the database and the WAL.
const WITHOUT_INDEX: &str = "rm -f \"$S\"/*-shm";

/// Runs a command after these lines of shell, with mounts of its own.
fn after(world: &World, lines: &[&str], arguments: &[&str]) -> Ran {
    let ran = Ran::of(&mut command_after(world, lines, arguments));
    let _ = std::fs::remove_dir_all(world.home.path().join("copy"));
    ran
}

fn command_after(world: &World, lines: &[&str], arguments: &[&str]) -> Command {
    let ours = world.command(arguments);
    let script = format!("{}\nexec \"$@\"", lines.join("\n"));
    let mut command = Command::new("unshare");
    command.env_clear().args(["-rm", "sh", "-euc", &script, "sh", BINARY]).args(ours.get_args());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("HOME", world.home.path()).env("S", world.home.path().join(STATE));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

fn can_mount() -> bool {
    let mounts = "mount -t tmpfs tmpfs /mnt";
    let tried = Command::new("unshare").args(["-rm", "sh", "-c", mounts]).output();
    let can = tried.is_ok_and(|tried| tried.status.success());
    if !can {
        skipped("nothing can be mounted here");
    }
    can
}

/// Asks for everything that stands in the state directory.
#[track_caller]
fn everything_is_shown(world: &World, case: &str, lines: &[&str], creation: &str, server: &str) {
    for (arguments, shown) in [
        (vec!["operation", "list"], creation),
        (vec!["operation", "show", creation], creation),
        (vec!["server", "show", server], server),
        (vec!["server", "list"], server),
        (vec!["state", "show"], "owner"),
        (vec!["decision", "list"], "no decisions"),
        (vec!["report", "--operation", creation, "--format", "markdown"], creation),
    ] {
        let ran = after(world, lines, &arguments);
        assert_eq!(ran.code, 0, "{case}: {arguments:?}: {}", ran.stderr);
        assert!(ran.stdout.contains(shown), "{case}: {arguments:?}: {}", ran.stdout);
    }
}

#[test]
fn a_journal_is_read_on_a_disk_that_is_full_or_read_only() {
    if !can_mount() {
        return;
    }
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let (server, creation) = (&created["servers"][0]["id"], &created["servers"][0]["operation"]);
    let (server, creation) = (server.as_str().unwrap(), creation.as_str().unwrap());
    for (case, lines) in [("read-only", [DISK, READ_ONLY]), ("full", [DISK, FULL])] {
        everything_is_shown(&world, case, &lines, creation, server);
    }
    world.run(&["server", "delete", "--yes", server]).expect(0);
    for (case, lines) in [("read-only", [DISK, READ_ONLY]), ("full", [DISK, FULL])] {
        let ran = after(&world, &lines, &["server", "show", server]);
        assert!(ran.code == 0 && ran.stdout.contains("gone"), "{case}: {} {}", ran.stdout, ran.stderr);
    }
}

/// A cluster whose creation was killed while its hook ran, so that what was written last is in the WAL alone.
const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 1
types = ['DEV1-S']
image = 'ubuntu_noble'

[hooks.configure.program]
command = './wait.sh'
";

#[test]
fn clusters_and_the_console_are_shown_there_as_well() {
    if !can_mount() {
        return;
    }
    let world = World::new("50");
    world.configure(IMPATIENT);
    // What the command says of the hook may come when it has ended.
    let began = world.home.path().join("began");
    let script = format!("#!/bin/sh\ntouch '{}'\nexec sleep 60\n", began.display());
    world.program("wait.sh", &script);
    let file = world.write("farm.toml", FARM.as_bytes());
    let create = ["cluster", "create", file.to_str().unwrap()];
    let running = Running::start(&mut world.command(&create));
    eventually("the hook has begun", || began.exists().then_some(()));
    running.signal("KILL");
    drop(running);
    for (case, lines) in [
        ("read-only", &[DISK, READ_ONLY][..]),
        ("full", &[DISK, FULL]),
        ("full, without an index", &[DISK, WITHOUT_INDEX, FULL]),
    ] {
        for arguments in [
            &["cluster", "list"][..],
            &["cluster", "status", "farm"],
            &["cluster", "status", "farm", "--offline"],
            &["cluster", "history", "farm"],
        ] {
            let ran = after(&world, lines, arguments);
            assert_eq!(ran.code, 0, "{case}: {arguments:?}: {}", ran.stderr);
            assert!(ran.stdout.contains("create"), "{case}: {arguments:?}: {}", ran.stdout);
        }
        let console = Running::start(&mut command_after(&world, lines, &["console", "--listen", "127.0.0.1:0"]));
        let url = console.first_line();
        for (path, shown) in
            [("/", "/clusters/farm"), ("/operations", "create-server"), ("/clusters/farm", "configure")]
        {
            let page = page(&url, path, "host: localhost\r\n");
            assert!(page.starts_with("HTTP/1.1 200") && page.contains(shown), "{case}: {path}: {page}");
        }
        console.signal("TERM");
        console.end().expect(0);
        std::fs::remove_dir_all(world.home.path().join("copy")).unwrap();
    }
}

#[test]
fn what_a_killed_process_wrote_last_is_read_there_as_well() {
    if !can_mount() {
        return;
    }
    let world = World::new("50");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "delay:600000");
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    let running = Running::start(&mut world.command(&create));
    world.until(|resources| resources["servers"].as_array().is_some_and(|servers| servers.len() == 1));
    let listed = eventually("its server is being started", || {
        let listed = world.json(&["operation", "list"]);
        let id = listed["operations"][0]["id"].as_str()?.to_owned();
        world.run(&["operation", "show", &id]).stdout.contains("power-on").then_some(id)
    });
    running.signal("KILL");
    drop(running);
    for (case, lines) in [
        ("read-only", &[DISK, READ_ONLY][..]),
        ("full", &[DISK, FULL]),
        ("full, without an index", &[DISK, WITHOUT_INDEX, FULL]),
    ] {
        let ran = after(&world, lines, &["operation", "show", &listed]);
        assert_eq!(ran.code, 0, "{case}: {}", ran.stderr);
        assert!(ran.stdout.contains("power-on"), "{case}: {}", ran.stdout);
    }
}
