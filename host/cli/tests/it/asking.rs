//! Nothing is destroyed unasked: what is shown, who is asked, and that a no touches nothing.

use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Keyboard, Ran, Running, World};

const CLUSTER: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

fn with_cluster() -> World {
    let world = World::new("100");
    let file = world.write("farm.toml", CLUSTER.as_bytes());
    world.run(&["cluster", "create", file.to_str().unwrap()]).expect(0);
    world
}

fn at_terminal(world: &World, arguments: &[&str]) -> (Running, Keyboard) {
    let (running, keyboard) = Running::at_terminal(world.command(arguments));
    running.until_it_says("[y/N]");
    (running, keyboard)
}

/// Starts it at a terminal, answers its question, and waits for its end.
#[track_caller]
fn answered(world: &World, arguments: &[&str], answer: &str) -> Ran {
    let (running, mut keyboard) = at_terminal(world, arguments);
    keyboard.types(answer);
    running.end()
}

/// What Scaleway was asked since the last time.
fn requests(world: &World) -> Vec<String> {
    let requests = world.control("GET", "requests", "");
    world.control("DELETE", "requests", "");
    let method = |request: &Value| request["method"].as_str().unwrap().to_owned();
    requests.as_array().unwrap().iter().map(method).collect()
}

fn ids(world: &World, kind: &str) -> Vec<String> {
    let resources = world.control("GET", "resources", "");
    resources[kind].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn without_a_terminal_a_destructive_command_wants_yes_and_asks_nobody_not_even_scaleway() {
    let world = with_cluster();
    world.create("1").expect(0);
    requests(&world);
    // The last one looks at the nodes first: only then it is known whether one leaves.
    let all: [&[&str]; 4] = [
        &["sweep"],
        &["server", "delete", "--group", "ci"],
        &["cluster", "terminate", "farm"],
        &["cluster", "scale", "farm", "web=1"],
    ];
    for arguments in all {
        world.run(arguments).expect(2).says("no terminal to ask on; nothing was touched").says("--yes");
        let document = world.run(&[arguments, &["--output", "json"]].concat()).expect(2).json();
        assert_eq!(document["error"]["exit_code"], 2, "{document}");
        // A yes that nobody typed is none.
        let yes = File::open(world.write("yes", b"y\n")).unwrap();
        Ran::of(world.command(arguments).stdin(Stdio::from(yes))).expect(2).says("--yes");
        let looks = arguments.contains(&"scale");
        assert!(requests(&world).iter().all(|method| looks && method == "GET"), "{arguments:?}");
    }
    assert_eq!(ids(&world, "servers").len(), 3);
    // With it, and for what removes nothing, nobody needs to be asked.
    world.run(&["cluster", "scale", "farm", "web=3"]).expect(0);
    world.run(&["sweep", "--dry-run"]).expect(0);
    world.run(&["server", "delete", "--group", "ci", "--dry-run"]).expect(0);
    world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(0);
    world.run(&["cluster", "terminate", "farm", "--yes"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn at_a_terminal_everything_but_a_clear_yes_touches_nothing() {
    let world = World::new("50");
    let created = world.create("1").expect(0).json();
    let id = created["servers"][0]["id"].as_str().unwrap();
    requests(&world);
    let end_of_input = "\u{4}";
    for answer in ["n\n", "\n", "yep\n", "no, thank you\n", end_of_input] {
        let ran =
            answered(&world, &["server", "delete", id], answer).expect(2).says("not confirmed; nothing was touched");
        assert_eq!(ran.stdout, "", "{answer:?}");
    }
    assert!(requests(&world).iter().all(|method| method == "GET"));
    assert_eq!(world.resources(), 3);
}

#[test]
fn ctrl_c_at_the_question_touches_nothing_with_exit_code_130() {
    let world = World::new("50");
    world.create("1").expect(0);
    requests(&world);
    for signal in ["INT", "TERM"] {
        let (running, _keyboard) = at_terminal(&world, &["server", "delete", "--group", "ci"]);
        running.signal(signal);
        running.end().expect(130).says("nothing was touched");
    }
    assert!(requests(&world).iter().all(|method| method == "GET"));
    assert_eq!(world.resources(), 3);
}

#[test]
fn what_would_go_is_shown_before_a_yes_and_stdout_is_the_document_alone() {
    let world = World::new("50");
    let created = world.create("2").expect(0).json();
    let all = [ids(&world, "servers"), ids(&world, "ips"), ids(&world, "volumes")].concat();
    assert_eq!(all.len(), 6);
    let ran = answered(&world, &["server", "delete", "--group", "ci", "--output", "json"], "n\n").expect(2);
    for id in &all {
        assert!(ran.stderr.contains(id.as_str()), "{id}: {}", ran.stderr);
    }
    let planned = ran.json()["planned"].as_array().unwrap().clone();
    assert_eq!(planned.len(), 6);
    assert_eq!(planned[0]["why"], "of group ci");
    assert_eq!(world.resources(), 6);

    let one = created["servers"][0]["id"].as_str().unwrap();
    let ran = answered(&world, &["server", "delete", one, "--output", "json"], "y\n").expect(0);
    assert_eq!(ran.json()["servers"][0]["id"], one);
    assert_eq!(world.resources(), 3);
    // A word in capitals is as good.
    answered(&world, &["server", "delete", "--group", "ci"], "YES\n").expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_sweep_removes_what_was_confirmed_and_not_what_came_to_light_since() {
    let world = World::new("50");
    world.configure("owner = 'ci-team'\n");
    world.create("1").expect(0);
    let shown = ids(&world, "servers");
    let other = world.home.path().join("other");
    let sweep = ["sweep", "--running-too", "--older-than", "0s", "--state-dir", other.to_str().unwrap()];
    let (running, mut keyboard) = at_terminal(&world, &sweep);
    running.until_it_says(&shown[0]);
    running.until_it_says("Remove 3 resources?");
    world.create("1").expect(0);
    keyboard.types("y\n");
    let swept = running.end().expect(0);
    assert!(swept.stdout.contains("not among those confirmed"), "{}", swept.stdout);
    let left = ids(&world, "servers");
    assert_eq!((left.len(), world.resources()), (1, 3));
    assert_ne!(left, shown);
    // Where there is nothing to remove, there is nothing to ask.
    let (running, _keyboard) = Running::at_terminal(world.command(&["sweep"]));
    running.end().expect(0);
}

#[test]
fn a_name_that_several_servers_have_is_refused_with_their_ids() {
    let world = World::new("50");
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble", "--name", "web"];
    world.run(&create).expect(0);
    world.run(&create).expect(0);
    let servers = ids(&world, "servers");
    for arguments in [&["server", "delete", "web", "--yes"][..], &["server", "show", "web"]] {
        let refused = world.run(arguments).expect(2).says("2 servers are called 'web'").says("by its id");
        for id in &servers {
            assert!(refused.stderr.contains(id.as_str()), "{id}: {}", refused.stderr);
        }
    }
    assert_eq!(world.resources(), 6);
    world.run(&["server", "delete", &servers[0], "--yes"]).expect(0);
    assert_eq!(ids(&world, "servers"), servers[1..]);
    // One alone has its name to itself.
    world.run(&["server", "delete", "web", "--yes"]).expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn an_id_names_its_server_even_where_another_one_is_called_so() {
    let world = World::new("50");
    world.create("1").expect(0);
    let first = ids(&world, "servers").remove(0);
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble", "--name", &first];
    world.run(&create).expect(0);
    world.run(&["server", "delete", &first, "--yes"]).expect(0);
    let left = ids(&world, "servers");
    assert!(left.len() == 1 && left[0] != first, "{left:?}");
}

#[test]
fn a_clusters_servers_are_refused_by_server_delete_with_the_command_to_use() {
    let world = with_cluster();
    world.create("1").expect(0);
    let status = world.json(&["cluster", "status", "farm"]);
    let text = |field: &str| status["nodes"][0][field].as_str().unwrap();
    let by_itself = "windlass cluster scale farm --remove farm-web-1, or windlass cluster terminate farm";
    for named in [text("server"), text("name"), text("creation")] {
        world.run(&["server", "delete", named, "--yes"]).expect(2).says("hooks would not be run").says(by_itself);
    }
    let whole = world.run(&["server", "delete", "--group", "farm", "--yes"]).expect(2);
    assert!(whole.stderr.contains("try     windlass cluster terminate farm\n"), "{}", whole.stderr);
    // One of them is reason enough to leave the others alone, too.
    let other = world.json(&["server", "list", "--group", "ci"])["servers"][0]["id"].as_str().unwrap().to_owned();
    world
        .run(&["server", "delete", &other, text("server"), "--yes"])
        .expect(2)
        .says("1 of 2 servers belongs to a cluster");
    assert_eq!(ids(&world, "servers").len(), 3);
    world.run(&["server", "delete", &other, "--yes"]).expect(0);
    assert_eq!(world.json(&["cluster", "status", "farm"])["cluster"]["state"], "active");
}

#[test]
fn a_cluster_is_terminated_and_its_nodes_leave_only_after_a_yes() {
    let world = with_cluster();
    let scale = answered(&world, &["cluster", "scale", "farm", "web=1"], "n\n").expect(2);
    let shown = scale.says("farm-web-2").says("Scale cluster farm and remove 1 server?");
    assert!(!shown.stderr.contains("farm-web-1"), "{}", shown.stderr);
    answered(&world, &["cluster", "terminate", "farm"], "n\n").expect(2).says("remove 2 servers?").says("farm-web-1");
    assert_eq!(ids(&world, "servers").len(), 2);
    answered(&world, &["cluster", "scale", "farm", "web=1"], "y\n").expect(0);
    assert_eq!(ids(&world, "servers").len(), 1);
    answered(&world, &["cluster", "terminate", "farm"], "y\n").expect(0);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_cluster_that_grew_behind_the_question_is_not_scaled() {
    let world = with_cluster();
    let (running, mut keyboard) = at_terminal(&world, &["cluster", "scale", "farm", "web=1"]);
    running.until_it_says("remove 1 server?");
    world.run(&["cluster", "scale", "farm", "web=3"]).expect(0);
    keyboard.types("y\n");
    running.end().expect(2).says("has changed meanwhile: farm-web-3 would be removed, too");
    assert_eq!(ids(&world, "servers").len(), 3);
}
