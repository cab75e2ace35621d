//! State in a database, which several machines share: a state directory of its own stands for each machine.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use windlass_process::host_name;
use windlass_test_postgres::Server;

use crate::support::{Ran, Running, STATE, World, eventually};

/// A world with a database, and two machines.
struct Shared {
    world: World,
    server: Server,
}

const FARM: &str = r#"
name = "farm"
zone = "fr-par-1"

[groups.web]
count = 1
types = ["DEV1-S"]
image = "ubuntu_noble"
"#;

impl Shared {
    fn new() -> Option<Self> {
        let server = Server::start()?;
        Some(Self { world: World::new("1000"), server })
    }

    fn folder(&self, machine: &str) -> PathBuf {
        let folder = self.world.home.path().join(machine);
        if !folder.exists() {
            // The default policies are compiled.
            let copied = Command::new("cp").arg("-a").arg(self.world.home.path().join(STATE)).arg(&folder).status();
            assert!(copied.expect("ran").success());
        }
        folder
    }

    fn command(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = self.world.command(arguments);
        command.current_dir(self.world.home.path());
        command.env("WINDLASS_STATE", self.server.url("state")).env("WINDLASS_STATE_DIR", self.folder(machine));
        command
    }

    fn run(&self, machine: &str, arguments: &[&str]) -> Ran {
        Ran::of(&mut self.command(machine, arguments))
    }
}

const CREATE: [&str; 8] = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];

/// A lock file with this tag.
fn lock_file(tag: &str, digest: &str) -> String {
    format!("version = 1\n\n[[artifact]]\nreference = \"{tag}\"\ndigest = \"{digest}\"\n")
}

#[test]
fn two_machines_share_servers_clusters_and_their_owner() {
    let Some(shared) = Shared::new() else { return };
    shared.world.write("farm.toml", FARM.as_bytes());
    shared.run("one", &CREATE).expect(0);
    let listed = shared.run("two", &["server", "list"]).expect(0).stdout;
    let server = listed.split_whitespace().find(|word| word.starts_with("ci-")).unwrap().to_owned();
    shared.run("one", &["cluster", "create", "farm.toml"]).expect(0);
    shared.run("two", &["cluster", "scale", "farm", "web=2", "--yes"]).expect(0);
    let shown = shared.run("one", &["cluster", "show", "farm", "--output", "json"]).expect(0).json();
    assert_eq!(shown["nodes"].as_array().map(Vec::len), Some(2), "{shown}");
    shared.run("two", &["server", "delete", &server, "--yes"]).expect(0);
    let operations = shared.run("one", &["operation", "list"]).expect(0).stdout;
    assert!(operations.contains("cleanup-server"), "{operations}");
    let states = ["one", "two"].map(|machine| shared.run(machine, &["state", "show", "--output", "json"]).json());
    assert_eq!(states[0]["owner"], states[1]["owner"]);
    assert_eq!(states[0]["history"], states[1]["history"]);
    shared.run("two", &["cluster", "terminate", "farm", "--yes"]).expect(0);
    assert_eq!(shared.world.resources(), 0);
    assert!(!shared.folder("one").join("journal.sqlite").exists());
    let checked = shared.run("one", &["doctor"]).stdout;
    assert!(checked.contains("open operations: 0"), "{checked}");
}

#[test]
fn what_a_dead_machine_began_is_ended_by_another_once_its_lease_is_over() {
    let Some(shared) = Shared::new() else { return };
    // Its server never runs, so the creation waits.
    shared.world.fault("GET", "/instance/v1/zones/*/servers/*", "internal-server-error");
    let mut creation = shared.command("one", &CREATE).spawn().expect("spawned");
    eventually("a server is created", || (shared.world.resources() > 1).then_some(()));
    let hosts = shared.run("two", &["state", "hosts", "--output", "json"]).expect(0).json();
    assert_eq!(hosts["hosts"][0]["lives"], true, "{hosts}");
    shared.run("two", &["operation", "resume"]).expect(0);
    creation.kill().expect("killed");
    creation.wait().expect("waited");
    shared.world.control("DELETE", "faults", "");
    let open = || {
        let listed = shared.run("two", &["operation", "list", "--open", "--output", "json"]).expect(0).json();
        listed["operations"].as_array().expect("a list").len()
    };
    shared.run("two", &["operation", "resume"]).expect(0);
    assert_eq!(open(), 1, "its lease is not over");
    shared.server.expire("state");
    shared.run("two", &["operation", "resume"]).expect(0);
    assert_eq!(open(), 0);
    shared.run("two", &["server", "delete", "--group", "ci", "--yes"]).expect(0);
    assert_eq!(shared.world.resources(), 0);
}

#[test]
fn the_policies_of_all_hosts_that_share_the_state_are_seen_from_each() {
    let Some(shared) = Shared::new() else { return };
    let rules = b"slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n";
    let file = shared.world.write("keep.rules.toml", rules);
    shared.world.configure(&format!("[policies.release]\npath = '{}'\n", file.display()));
    let hosts = |machine: &str, more: &[&str]| -> Vec<Value> {
        let asked = [&["policy", "status", "--output", "json"], more].concat();
        shared.run(machine, &asked).expect(0).json()["hosts"].as_array().expect("a list").clone()
    };
    let keeps = |host: &Value| {
        let links = host["policies"].as_array().expect("a list");
        links.iter().any(|link| link["policy"]["name"] == "keep.rules.toml")
    };
    // Its server never runs, so the creation waits.
    shared.world.fault("GET", "/instance/v1/zones/*/servers/*", "internal-server-error");
    let mut creation = shared.command("one", &CREATE).spawn().expect("spawned");
    let all = || hosts("two", &["--all"]);
    let seen = eventually("the other machine sees the policies", || all().into_iter().find(keeps));
    assert_eq!(seen["process"], creation.id());
    assert_eq!(seen["host"].as_str(), host_name().as_deref());
    assert!(seen["said_at"].is_string(), "{seen}");
    assert_eq!(hosts("two", &[]), Vec::<Value>::new(), "without --all it sees its own directory");

    let serving = Running::start(&mut shared.command("two", &["policy", "serve", "--listen", "unix:policy.sock"]));
    serving.first_line();
    eventually("the policy server is seen as well", || (hosts("one", &["--all"]).len() == 2).then_some(()));
    let text = shared.run("one", &["policy", "status", "--all"]).expect(0).stdout;
    assert_eq!((text.matches("; said ").count(), text.matches("  keep.rules.toml").count()), (2, 2), "{text}");
    serving.signal("TERM");
    serving.end().expect(0);
    assert_eq!(all().len(), 1, "it has ended");

    let worker = || {
        let open = shared.run("two", &["operation", "list", "--open", "--output", "json"]).expect(0).json();
        open["operations"][0]["worker"].clone()
    };
    assert_eq!(worker(), "alive");
    creation.kill().expect("killed");
    creation.wait().expect("waited");
    assert_eq!((all().len(), worker()), (1, "alive".into()), "its lease is not over");
    shared.server.expire("state");
    assert_eq!((all().len(), worker()), (0, "dead".into()));
    let said = || shared.server.execute("select count(*) from state.streams where family = 'host'");
    assert_eq!(said(), "2");
    shared.world.control("DELETE", "faults", "");
    eventually("whoever comes next removes what they have left", || {
        shared.run("two", &["operation", "resume"]);
        (said() == "1").then_some(())
    });
}

#[test]
fn each_host_tells_which_policy_removed_which_machine_on_which_host() {
    let Some(shared) = Shared::new() else { return };
    let removals = |more: &[&str]| -> Vec<Value> {
        let asked = [&["operation", "list", "--removals", "--output", "json"], more].concat();
        shared.run("one", &asked).expect(0).json()["operations"].as_array().expect("a list").clone()
    };
    assert_eq!(removals(&[]), Vec::<Value>::new());
    let created = shared.run("one", &[&CREATE[..], &["--output", "json"]].concat()).expect(0).json();
    shared.run("two", &["server", "delete", "--group", "ci", "--yes"]).expect(0);
    let found = removals(&["--since", "7d"]);
    let [removal] = found.as_slice() else { panic!("{found:?}") };
    let removed = &removal["removed"][0];
    assert_eq!((&removal["kind"], &removed["step"]), (&"cleanup-server".into(), &"delete-server".into()));
    assert_eq!(removal["host"].as_str(), host_name().as_deref());
    assert_eq!(removed["name"], created["servers"][0]["name"]);
    assert_eq!(removed["machine"]["id"], created["servers"][0]["id"]);
    let policy = removed["decided_by"].as_str().unwrap_or_default();
    assert!(policy.starts_with("windlass-guest-release"), "{removed}");
    let text = shared.run("one", &["operation", "list", "--removals"]).expect(0).stdout;
    for words in [policy, "`windlass server delete`", "fr-par-1", host_name().as_deref().unwrap_or_default()] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(removals(&["--group", "web"]), Vec::<Value>::new());
    shared.run("one", &["decision", "list", "--removals"]).expect(0).says("windlass operation list --removals");

    shared.run("two", &CREATE).expect(0);
    shared.run("one", &["server", "delete", "--group", "ci", "--force", "--yes"]).expect(0);
    let found = removals(&[]);
    assert!(found.len() == 2 && found[0]["removed"][0]["decided_by"].is_null(), "nobody was asked: {found:?}");
}

#[test]
fn the_console_says_in_which_database_the_state_is_without_its_password() {
    let Some(shared) = Shared::new() else { return };
    shared.run("one", &CREATE).expect(0);
    let console = Running::start(&mut shared.command("one", &["console", "--listen", "127.0.0.1:0"]));
    let page = crate::console::page(&console.first_line(), "/", "host: localhost\r\n");
    let place = page.split("<p class=\"state\"").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap();
    assert!(place.contains("postgres://") && !place.contains(shared.folder("one").to_str().unwrap()), "{place}");
    console.signal("TERM");
    console.end().expect(0).says("showing postgres://");
}

#[test]
fn the_console_shows_the_hosts_of_all_machines_and_filters_by_them() {
    let Some(shared) = Shared::new() else { return };
    shared.run("one", &CREATE).expect(0);
    let serving = Running::start(&mut shared.command("one", &["policy", "serve", "--listen", "unix:policy.sock"]));
    serving.first_line();
    let console = Running::start(&mut shared.command("two", &["console", "--listen", "127.0.0.1:0"]));
    let (url, host) = (console.first_line(), host_name().expect("this machine has a name"));
    let get = |path: &str| crate::console::page(&url, path, "host: localhost\r\n");
    let page = get(&format!("/operations?host={host}&group=ci&tenant="));
    assert!(page.contains("href=\"/operations/ci-") && page.contains(&format!("value=\"{host}\"")), "{page}");
    for query in ["host=nowhere", "host=nowhere&state=done", "tenant=team"] {
        let page = get(&format!("/operations?{query}"));
        assert!(page.contains("None of these here."), "{query}: {page}");
    }
    let link = format!("href=\"/policies?host={host}\"");
    eventually("the policy server is shown", || get("/policies").contains(&link).then_some(()));
    assert!(get(&format!("/policies?host={host}")).contains("In force in windlass"));
    let page = get("/policies?host=nowhere");
    assert!(page.contains("No host runs on nowhere") && !page.contains("In force in windlass"), "{page}");
    for running in [serving, console] {
        running.signal("TERM");
        running.end().expect(0);
    }
}

#[test]
fn state_moves_to_a_database_and_back_and_its_old_places_refuse() {
    let Some(shared) = Shared::new() else { return };
    let world = &shared.world;
    world.create("1").expect(0);
    let before = world.json(&["state", "show"]);
    let (old, url) = (before["state_directory"].as_str().unwrap(), shared.server.url("state"));
    let (tag, digest) = ("oci://registry.example/team/policy:main", format!("sha256:{}", "1".repeat(64)));
    std::fs::write(format!("{old}/policies.lock"), lock_file(tag, &digest)).unwrap();
    assert_eq!(world.json(&["state", "migrate", "--from", old, "--to", &url])["tags"], 1);
    assert_eq!(shared.server.execute("select id from state.streams where family = 'policy-tag'"), tag);
    world.create("1").expect(2).says("was moved to another place");
    let listed = shared.run("one", &["server", "list", "--output", "json"]).expect(0).json();
    assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1), "{listed}");
    let there = shared.run("one", &["state", "show", "--output", "json"]).json();
    assert_eq!((&there["owner"], &there["history"]), (&before["owner"], &before["history"]));
    world.run(&["state", "migrate", "--from", &url, "--to", old]).expect(2).says("has a journal");
    world.run(&["state", "migrate", "--from", &url, "--to", &url]).expect(2).says("name the same place");
    world.run(&["state", "migrate", "--from", "/nowhere", "--to", &url]).expect(2).says("no state directory /nowhere");
    let taken = world.run(&["--state-dir", old, "state", "take-over", "--yes"]).expect(2);
    taken.says("was moved to another place").says("take-over --force");
    let new = world.home.path().join("new").display().to_string();
    world.run(&["state", "migrate", "--from", &url, "--to", &new]).expect(0);
    let locked = std::fs::read_to_string(format!("{new}/policies.lock")).unwrap();
    assert!(locked.contains(tag) && locked.contains(&digest), "{locked}");
    shared.run("one", &CREATE).expect(2).says("was moved to another place");
    world.run(&["server", "delete", "--group", "ci", "--yes", "--state-dir", &new]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_tag_that_one_machine_has_locked_is_locked_for_all() {
    let Some(shared) = Shared::new() else { return };
    // Nobody listens there: what a tag is locked to is known before anybody is asked.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tag = format!("oci://{address}/team/patience:1.0.0");
    shared.world.configure(&format!("[policies.retry]\npath = '{tag}'\n"));
    let file = shared.world.home.path().join(".config/windlass/config.lock");
    let digests = ["1", "2", "3"].map(|digit| format!("sha256:{}", digit.repeat(64)));
    let use_it = |machine: &str| assert_ne!(shared.run(machine, &["policy", "list"]).code, 0);
    let locked = || shared.server.execute("select document->>'digest' from state.streams where family = 'policy-tag'");
    let in_file = |digest: &str| std::fs::read_to_string(&file).unwrap().contains(digest);
    // What this machine used before there was a database.
    std::fs::write(&file, lock_file(&tag, &digests[0])).unwrap();
    use_it("one");
    assert_eq!(locked(), digests[0]);
    std::fs::write(&file, lock_file(&tag, &digests[1])).unwrap();
    use_it("two");
    assert_eq!(locked(), digests[0]);
    assert!(in_file(&digests[0]) && !in_file(&digests[1]));
    // As `policy lock --update` on another machine.
    let update = format!("update state.streams set document = document || '{{\"digest\": \"{}\"}}'", digests[2]);
    shared.server.execute(&format!("{update} where family = 'policy-tag'"));
    use_it("one");
    assert!(in_file(&digests[2]));
}

#[test]
fn a_database_is_downgraded_while_nobody_uses_it_after_a_yes() {
    let Some(shared) = Shared::new() else { return };
    let back = |more: &[&str]| shared.run("one", &[&["state", "downgrade", "--to", "0"], more].concat());
    back(&["--yes"]).expect(2).says("there is no journal at postgres://");
    shared.run("one", &CREATE).expect(0);
    let planned = back(&["--dry-run", "--output", "json"]).expect(0).json();
    assert!(planned["loses"][0].as_str().is_some_and(|lost| lost.contains("all operations")), "{planned}");
    back(&[]).expect(2).says("asks first");
    let another = "insert into state.holders (id, host, process, expires_at) \
                   values ('1', 'laptop-a', 41807, now() + interval '1 hour')";
    shared.server.execute(another);
    back(&["--yes"]).expect(2).says("in use by laptop-a (process 41807)");
    let listed = shared.run("two", &["server", "list", "--output", "json"]).expect(0).json();
    assert_eq!(listed["servers"].as_array().map(Vec::len), Some(1), "{listed}");
    shared.server.execute("delete from state.holders");
    let version = planned["from"].to_string();
    let same = shared.run("one", &["state", "downgrade", "--to", &version, "--yes"]).expect(0).stdout;
    assert!(same.contains("nothing was changed"), "{same}");
    assert_eq!(back(&["--yes", "--output", "json"]).expect(0).json()["to"], 0);
    let tables = "select count(*) from pg_class where relnamespace = 'state'::regnamespace";
    assert_eq!(shared.server.execute(tables), "0");
    shared.run("two", &CREATE).expect(0);
    shared.world.run(&["state", "downgrade", "--to", "0", "--yes"]).expect(2).says("no way back to an older version");
}

#[test]
fn lost_commits_and_copies_of_a_database_are_noticed_before_anything_is_removed() {
    let Some(shared) = Shared::new() else { return };
    shared.run("one", &CREATE).expect(0);
    shared.server.execute("create database copy template postgres");
    let of_copy = |arguments: &[&str]| {
        let url = shared.server.url("state").replace("/postgres?", "/copy?");
        Ran::of(shared.command("one", arguments).env("WINDLASS_STATE", url))
    };
    of_copy(&["server", "delete", "--group", "ci", "--yes"]).expect(2).says("it is a copy");
    of_copy(&["operation", "list"]).expect(0);
    // As a standby that lacks the last commits, and a backup that is restored in its place.
    shared.run("one", &CREATE).expect(0);
    let last = "(select id from state.streams where family = 'operation' order by number desc limit 1)";
    shared.server.execute(&format!("delete from state.entries where family = 'operation' and id = {last}"));
    shared.server.execute(&format!("delete from state.streams where family = 'operation' and id = {last}"));
    shared.run("two", &["server", "delete", "--group", "ci", "--yes"]).expect(2).says("set back to an earlier state");
    assert_eq!(shared.world.resources(), 6);
    of_copy(&["state", "take-over", "--yes"]).expect(0);
    shared.run("two", &["state", "take-over", "--yes"]).expect(0);
    shared.run("two", &["server", "delete", "--group", "ci", "--yes"]).expect(0);
}

#[test]
fn a_database_that_cannot_be_used_is_named_without_its_password() {
    let world = World::new("1000");
    let run = |url: &str| {
        let ran = Ran::of(world.command(&["operation", "list"]).env("WINDLASS_STATE", url));
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("s3cret"), "{}", ran.stderr);
        ran.expect(2)
    };
    run("postgres://ops:s3cret@/state?host=/nowhere").says("postgres://ops@/state?host=/nowhere");
    run("postgres://ops:s3cret@localhost/state?pool=1").says("`pool`");
    run("mysql://ops:s3cret@localhost/state").says("postgres://user@host/database");
    world.configure("state = \"/var/lib/windlass\"\n");
    world.run(&["operation", "list"]).expect(2).says("line 1").says("state_dir");
    world.configure("state = \"postgres://ops:s3cret@/state?host=/nowhere\"\n");
    let shown = world.run(&["config", "show"]).expect(0).stdout;
    assert!(shown.contains("postgres://ops@/state?host=/nowhere") && !shown.contains("s3cret"), "{shown}");
    world.run(&["state", "hosts"]).expect(2).says("/nowhere");
    world.configure("");
    assert!(world.run(&["state", "hosts"]).expect(0).stdout.contains("a directory of this machine"));
}
