//! `windlass cluster` with real hooks, against a simulator.

use std::path::PathBuf;

use serde_json::Value;
use windlass_test_guests::KEEP_NEW_NODES_FOR_INSPECTION;

use crate::support::{IMPATIENT, Ran, Running, World, bare, eventually};

const SPECIFICATION: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'

[groups.db]
count = 1
types = ['DEV1-M']
image = 'ubuntu_noble'
";

/// Each hook adds a line to `hooks.log`: its stage and the names of its nodes.
const HOOK: &str = "#!/bin/sh
names=$(tr ',' '\\n' | sed -n '/\"others\"/q; s/.*\"name\":\"\\([^\"]*\\)\".*/\\1/p' | tr '\\n' ' ')
echo \"$WINDLASS_STAGE $names\" >> hooks.log
echo \"did $WINDLASS_STAGE\"
";

struct Farm {
    world: World,
    file: PathBuf,
}

impl Farm {
    fn new() -> Farm {
        Farm::with_hooks(&[("decommission", HOOK), ("configure", HOOK), ("start", HOOK)])
    }

    fn with_hooks(hooks: &[(&str, &str)]) -> Farm {
        let world = World::new("100");
        world.configure(IMPATIENT);
        let mut text = SPECIFICATION.to_owned();
        for (stage, script) in hooks {
            world.program(&format!("{stage}.sh"), script);
            text.push_str(&format!("[hooks.{stage}.program]\ncommand = './{stage}.sh'\n"));
        }
        let file = world.write("farm.toml", text.as_bytes());
        Farm { world, file }
    }

    fn replace_hook(&self, stage: &str, script: &str) {
        self.world.program(&format!("{stage}.sh"), script);
    }

    fn cluster(&self, arguments: &[&str]) -> Ran {
        self.world.run(&[&["cluster"], arguments].concat())
    }

    fn create(&self) -> Ran {
        self.cluster(&["create", self.file.to_str().unwrap()])
    }

    fn start_creation(&self) -> Running {
        Running::start(&mut self.world.command(&["cluster", "create", self.file.to_str().unwrap()]))
    }

    fn status(&self) -> Value {
        self.world.json(&["cluster", "status", "farm"])
    }

    /// The lines that the hooks wrote, in order.
    fn hooks(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.world.home.path().join("hooks.log")).unwrap_or_default();
        log.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn servers(&self) -> Vec<String> {
        let resources = self.world.control("GET", "resources", "");
        let servers = resources["servers"].as_array().unwrap();
        let mut names: Vec<_> = servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

fn names(status: &Value) -> Vec<&str> {
    status["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect()
}

#[test]
fn a_cluster_whose_nodes_would_be_called_as_another_clusters_is_refused() {
    let world = World::new("100");
    let write = |cluster: &str, group: &str, types: &str| {
        let text = format!(
            "name = '{cluster}'\nzone = 'fr-par-1'\n[groups.{group}]\ncount = 1\ntypes = ['{types}']\n\
             image = 'ubuntu_noble'\n"
        );
        world.write(&format!("{cluster}_{group}.toml"), text.as_bytes()).to_str().unwrap().to_owned()
    };
    let first = write("a-b", "c", "dev1-s");
    world.run(&["cluster", "create", &first]).expect(0);
    let servers = || world.control("GET", "resources", "")["servers"].as_array().unwrap().len();
    let same = write("a", "b-c", "DEV1-S");
    for command in ["create", "validate", "apply", "diff"] {
        let ran = world.run(&["cluster", command, &same]).expect(2);
        ran.says("its nodes would be called a-b-c-1 and so on, as those of group c of cluster a-b");
    }
    assert_eq!(servers(), 1);
    // Another group of the same cluster may have any name, and what a cluster has stays.
    world.run(&["cluster", "create", &write("a", "b", "DEV1-S")]).expect(0);
    world.run(&["cluster", "apply", &same, "--yes"]).expect(2);
    world.run(&["cluster", "apply", &first, "--yes"]).expect(0);
    assert_eq!(servers(), 2);
}

#[test]
fn a_cluster_is_created_scaled_both_ways_at_once_and_terminated_with_its_hooks_in_order() {
    let farm = Farm::new();
    let created =
        farm.create().expect(0).says("create farm: db 0 → 1, web 0 → 2").says("| did configure").says("farm is active");
    assert!(created.stdout.contains("farm-web-2") && created.stdout.contains("active"), "{}", created.stdout);
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1", "farm-web-2"]);

    let scaled = farm
        .cluster(&["scale", "farm", "web=1", "db=2", "--remove", "farm-web-1", "--yes", "--output", "json"])
        .expect(0)
        .says("scale farm: db 1 → 2, web 2 → 1");
    assert_eq!(scaled.json()["state"], "done");
    assert_eq!(farm.servers(), ["farm-db-1", "farm-db-2", "farm-web-2"]);
    let status = farm.status();
    assert_eq!(status["cluster"]["state"], "active");
    assert_eq!(names(&status), ["farm-db-1", "farm-db-2", "farm-web-2"]);

    let history = farm.world.json(&["cluster", "history", "farm"]);
    let kinds: Vec<_> = history["history"].as_array().unwrap().iter().map(|one| &one["operation"]["kind"]).collect();
    assert_eq!(kinds, ["scale", "create"]);
    let reported = farm.cluster(&["history", "farm", "--operation", "1"]).expect(0).stdout;
    assert!(reported.contains("run the configure hook 3/3") && reported.contains("did start"), "{reported}");

    let ended = farm.cluster(&["terminate", "farm", "--yes"]).expect(0);
    assert!(ended.stdout.contains("is gone"), "{}", ended.stdout);
    assert_eq!(farm.world.resources(), 0);
    assert_eq!(
        farm.hooks(),
        [
            "configure farm-db-1 farm-web-1 farm-web-2",
            "start farm-db-1 farm-web-1 farm-web-2",
            "decommission farm-web-1",
            "configure farm-db-2",
            "start farm-db-2",
            "decommission farm-db-1 farm-db-2 farm-web-2",
        ]
    );
    // Its history outlives it; the cluster itself is unknown.
    farm.cluster(&["history", "farm"]).expect(0);
    farm.cluster(&["status", "farm"]).expect(1).says("there is no cluster farm").says("windlass cluster list");
}

#[test]
fn a_hook_that_fails_in_a_creation_undoes_it_with_exit_code_1_and_its_last_words() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho 'no disk left' >&2\nexit 4\n")]);
    let ran = farm.create().expect(1).says("create of cluster farm failed at the stage configure");
    let ran = ran.says("ended with exit code 4; it said: no disk left").says("the cluster is now error");
    assert!(!ran.stderr.contains("LEFT"), "{}", ran.stderr);
    assert_eq!(farm.world.resources(), 0);
    assert_eq!(farm.status()["cluster"]["state"], "error");
    // What left nothing is in nobody's way; what has nodes is.
    farm.replace_hook("configure", HOOK);
    farm.create().expect(0);
    farm.create().expect(2).says("there is a cluster farm already, in the state active");
}

#[test]
fn what_is_left_of_a_node_without_a_server_is_listed_by_its_id() {
    let farm = Farm::with_hooks(&[]);
    farm.world.fault("POST", "/instance/v1/zones/*/servers", "quota-exceeded");
    farm.world.fault("DELETE", "/instance/v1/zones/*/ips/*", "internal-server-error");
    let document = farm.cluster(&["create", farm.file.to_str().unwrap(), "--output", "json"]).expect(3).json();
    let left = document["error"]["left"].as_array().unwrap();
    let addresses = farm.world.control("GET", "resources", "")["ips"].as_array().unwrap().clone();
    assert_eq!(left.len(), addresses.len(), "{document}");
    for address in addresses {
        let id = format!("({})", address["id"].as_str().unwrap());
        let is_listed = |one: &Value| one["kind"] == "ip" && one["id"].as_str().unwrap().ends_with(&id);
        assert!(left.iter().any(is_listed), "{id}: {document}");
    }
}

#[test]
fn a_hook_that_fails_in_a_scaling_deletes_nothing_and_what_does_not_serve_is_listed_with_exit_code_3() {
    let farm = Farm::new();
    farm.create().expect(0);
    farm.replace_hook("configure", "#!/bin/sh\nexit 1\n");
    let ran = farm.cluster(&["scale", "farm", "web=3", "--output", "json"]).expect(3).says("LEFT");
    let ran = ran.says("windlass cluster scale farm GROUP=COUNT ..., which runs the configure hook again");
    let document = ran.json();
    assert_eq!((&document["stage"], &document["error"]["exit_code"]), (&"configure".into(), &3.into()));
    let left = document["error"]["left"].as_array().unwrap();
    assert_eq!(left.len(), 1, "{document}");
    assert!(left[0]["id"].as_str().unwrap().starts_with("farm-web-3 ("), "{document}");
    assert_eq!(left[0]["reason"], "it runs and is not configured");
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1", "farm-web-2", "farm-web-3"]);
    // Scaling it to what it has repairs it, once the cause is removed.
    farm.replace_hook("configure", HOOK);
    farm.cluster(&["scale", "farm", "web=3"]).expect(0);
    assert_eq!(farm.status()["cluster"]["state"], "active");
    assert_eq!(farm.hooks().last().unwrap(), "start farm-web-3");
}

#[test]
fn a_scaling_that_cannot_make_its_servers_is_taken_back_with_exit_code_1() {
    let farm = Farm::new();
    farm.create().expect(0);
    farm.world.fault("POST", "/instance/v1/zones/*/servers", "quota-exceeded");
    let ran = farm.cluster(&["scale", "farm", "web=1", "db=2", "--yes"]).expect(1).says("failed at the stage resize");
    assert!(ran.stderr.contains("the cluster is now active"), "{}", ran.stderr);
    // The way down is finished, the way up is taken back.
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1"]);
    assert_eq!(farm.status()["cluster"]["state"], "active");
}

#[test]
fn a_policy_keeps_new_nodes_for_inspection_where_the_default_deletes_them() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\nexit 1\n")]);
    let policy = KEEP_NEW_NODES_FOR_INSPECTION.write_to(farm.world.home.path()).unwrap();
    farm.world.configure(&format!("{IMPATIENT}[policies.provisioning]\npath = '{}'\n", policy.display()));
    let ran = farm
        .create()
        .expect(3)
        .says("kept for inspection: farm-db-1, farm-web-1")
        .says("keep-new-nodes-for-inspection");
    assert!(ran.stderr.contains("LEFT"), "{}", ran.stderr);
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1"]);
    farm.cluster(&["terminate", "farm", "--force", "--yes"]).expect(0);
    assert_eq!(farm.world.resources(), 0);
}

/// Neither gone nor a zombie that nobody has waited for.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// What a hook wrote last into a file of its folder.
fn written(farm: &Farm, name: &str) -> String {
    let file = farm.world.home.path().join(name);
    eventually(&format!("a hook writes {name}"), || {
        let text = std::fs::read_to_string(&file).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
}

#[test]
fn ctrl_c_during_a_creation_undoes_it_and_ends_the_hook_with_exit_code_130() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho $$ > pid\nsleep 3600\n")]);
    let create = farm.start_creation();
    let pid = written(&farm, "pid");
    create.signal("INT");
    create.end().expect(130).says("interrupted: rolling back");
    assert_eq!(farm.world.resources(), 0);
    // Its end was asked for before windlass ended; the system takes a moment.
    eventually("the hook has ended", || (!is_alive(&pid)).then_some(()));
}

#[test]
fn the_end_of_the_terminal_undoes_nothing() {
    let farm =
        Farm::with_hooks(&[("configure", "#!/bin/sh\necho here > begun\nuntil test -e go; do sleep 0.05; done\n")]);
    let create = farm.start_creation();
    written(&farm, "begun");
    create.signal("HUP");
    farm.world.write("go", b"");
    create.end().expect(0);
    assert_eq!((farm.servers().len(), &farm.status()["cluster"]["state"]), (3, &"active".into()));
}

/// Starts a detached command of this cluster, and gives the number of its operation.
fn detach(farm: &Farm, arguments: &[&str]) -> u64 {
    let mut command = farm.world.command(&[&["cluster"], arguments, &["--detach", "--output", "json"]].concat());
    // What still runs in the test's folder is ended with it.
    let reported = Ran::of(command.current_dir(farm.world.home.path())).expect(0).json();
    assert_eq!(reported["detached"]["cluster"], "farm");
    reported["detached"]["operation"].as_u64().expect("a number")
}

#[test]
fn every_work_on_a_cluster_goes_on_by_itself_and_can_be_attached_to() {
    let farm =
        Farm::with_hooks(&[("configure", "#!/bin/sh\necho here > begun\nuntil test -e go; do sleep 0.05; done\n")]);
    let file = farm.file.to_str().unwrap();
    assert_eq!(detach(&farm, &["create", file]), 1);
    written(&farm, "begun");
    assert_eq!(farm.status()["operation_lives"], true);
    let attached = Running::start(&mut farm.world.command(&["cluster", "attach", "farm"]));
    attached.until_it_says("attached to operation 1 of cluster farm");
    farm.world.write("go", b"");
    let ended = attached.end().expect(0).says("farm is active");
    assert_eq!(ended.json()["state"], "done");
    let attach = || farm.cluster(&["attach", "farm"]);
    assert_eq!(attach().expect(0).json()["operation"], 1, "also after its end");

    assert_eq!(detach(&farm, &["scale", "farm", "web=1", "--yes"]), 2);
    attach().expect(0).says("scale farm");
    assert_eq!(detach(&farm, &["apply", file, "--yes"]), 3);
    attach().expect(0).says("farm is active");
    assert_eq!(detach(&farm, &["replace", "farm", "farm-db-1", "--yes"]), 4);
    attach().expect(0);
    farm.replace_hook("configure", "#!/bin/sh\nexit 1\n");
    assert_eq!(detach(&farm, &["scale", "farm", "db=2", "--yes"]), 5);
    attach().expect(3).says("failed at the stage");
    assert_eq!(detach(&farm, &["terminate", "farm", "--yes"]), 6);
    attach().expect(0);
    assert!(farm.servers().is_empty());
    farm.create().expect(1);
    farm.cluster(&["attach", "farm"]).expect(0).says("was not detached");
}

#[test]
fn a_specification_that_was_wrong_is_applied_anew_and_repairs_its_cluster() {
    let farm = Farm::new();
    farm.create().expect(0);
    let right = std::fs::read_to_string(&farm.file).unwrap();
    let file = |text: &str| farm.world.write("farm.toml", text.as_bytes()).to_str().unwrap().to_owned();
    let wrong = file(&right.replace("./configure.sh", "./configure.py").replace("count = 2", "count = 3"));
    farm.cluster(&["apply", &wrong]).expect(2).says("hooks.configure").says("configure.py");
    farm.replace_hook("configure", "#!/bin/sh\nexit 1\n");
    let more = file(&right.replace("count = 2", "count = 3"));
    farm.cluster(&["apply", &more]).expect(3).says("it runs and is not configured");
    farm.world.program("mended.sh", HOOK);
    let more = file(&right.replace("count = 2", "count = 3").replace("./configure.sh", "./mended.sh"));
    let difference = farm.world.json(&["cluster", "diff", &more]);
    let places: Vec<_> =
        difference["difference"]["changes"].as_array().unwrap().iter().map(|change| &change["place"]).collect();
    assert_eq!(places, ["hooks.configure.program.command"]);
    farm.cluster(&["apply", &more]).expect(0).says("farm is active");
    assert_eq!(names(&farm.status()), ["farm-db-1", "farm-web-1", "farm-web-2", "farm-web-3"]);
    farm.cluster(&["apply", &more]).expect(0).says("is as the specification says");
    // What cannot be changed is refused, and nodes leave only after a yes.
    farm.cluster(&["apply", &file(&right.replace("fr-par-1", "fr-par-2"))]).expect(2).says("from fr-par-1 to fr-par-2");
    let fewer = file(&right.replace("count = 2", "count = 1"));
    farm.cluster(&["apply", &fewer]).expect(2).says("there is no terminal to ask on");
    farm.cluster(&["apply", &fewer, "--yes"]).expect(0);
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1"]);
    // A group that the file lacks goes.
    let without = right[..right.find("[groups.db]").unwrap()].to_owned().replace("count = 2", "count = 1");
    farm.cluster(&["apply", &file(&without), "--yes"]).expect(0);
    assert_eq!(farm.servers(), ["farm-web-1"]);
    let exported = farm.cluster(&["export", "farm"]).expect(0).stdout;
    assert!(exported.contains("name = \"farm\"") && exported.contains("[groups.web]"), "{exported}");
}

#[test]
fn nodes_that_an_apply_left_as_they_were_are_replaced_by_a_later_one() {
    let farm = Farm::new();
    farm.create().expect(0);
    let text = std::fs::read_to_string(&farm.file).unwrap();
    let newer = farm.world.write("farm.toml", text.replace("ubuntu_noble", "ubuntu_jammy").as_bytes());
    let newer = newer.to_str().unwrap();
    farm.cluster(&["apply", newer]).expect(0).says("farm-web-1 stays as it was made");
    // The cluster's specification is the newer one from now on.
    let difference = farm.world.json(&["cluster", "diff", newer]);
    assert_eq!(difference["difference"]["changes"], serde_json::json!([]));
    assert_eq!(difference["difference"]["outdated"], serde_json::json!(["farm-db-1", "farm-web-1", "farm-web-2"]));
    farm.cluster(&["replace", "farm", "farm-web-1", "--yes"]).expect(0);
    farm.cluster(&["apply", newer, "--replace", "--yes"]).expect(0);
    assert_eq!(farm.servers(), ["farm-db-2", "farm-web-3", "farm-web-4"]);
    farm.cluster(&["apply", newer, "--replace", "--yes"]).expect(0).says("is as the specification says");
    assert_eq!(farm.servers(), ["farm-db-2", "farm-web-3", "farm-web-4"]);
}

#[test]
fn a_replacement_stops_at_the_first_failure_and_names_what_serves_on() {
    let farm = Farm::new();
    farm.create().expect(0);
    farm.replace_hook("configure", "#!/bin/sh\nexit 1\n");
    let ran = farm.cluster(&["replace", "farm", "--group", "web", "--yes"]).expect(3);
    assert!(ran.stderr.contains("not replaced, and serving as before: farm-web-2"), "{}", ran.stderr);
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-2", "farm-web-3"]);
    farm.replace_hook("configure", HOOK);
    farm.cluster(&["replace", "farm", "farm-web-2", "--yes", "--output", "json"]).expect(0).json();
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-3", "farm-web-4"]);
    assert_eq!(farm.status()["cluster"]["state"], "active");
    farm.cluster(&["replace", "farm", "farm-web-9", "--yes"]).expect(1).says("has no node farm-web-9");
    farm.cluster(&["scale", "farm", "--remove", "farm-web-9", "--yes"]).expect(1).says("has no node farm-web-9");
    farm.cluster(&["scale", "farm", "wbe=1", "--yes"]).expect(1).says("it has: db, web");
    let ran = farm.cluster(&["replace", "farm", "--group", "wbe", "--group", "bd", "--yes"]).expect(1);
    ran.says("cluster farm has no node group wbe, bd; it has: db, web");
}

#[test]
fn status_says_how_scaleway_differs_and_how_old_its_knowledge_is() {
    let farm = Farm::new();
    farm.create().expect(0);
    assert!(farm.cluster(&["status", "farm"]).expect(0).stdout.contains("Scaleway was asked, and agrees"));
    let status = farm.status();
    assert_eq!(status["seen"]["nodes"].as_array().unwrap().len(), 3);
    let id = status["nodes"][0]["server"].as_str().unwrap();
    farm.world.control("POST", &format!("servers/{id}/state"), r#"{"state":"stopped"}"#);
    let differs = farm.cluster(&["status", "farm"]).expect(0).stdout;
    assert!(differs.contains("farm-db-1: its server is stopped"), "{differs}");
    let offline = farm.cluster(&["status", "farm", "--offline"]).expect(0).stdout;
    assert!(offline.contains("ago), when an operation last wrote it") && !offline.contains("stopped"), "{offline}");
}

#[test]
fn a_refresh_notes_how_the_servers_are_and_says_what_changed() {
    let farm = Farm::new();
    farm.create().expect(0);
    let same = farm.cluster(&["refresh", "farm"]).expect(0).stdout;
    assert_eq!(same, "cluster farm is active; its 3 nodes are as they were known\n");
    let status = farm.status();
    let id = status["nodes"][0]["server"].as_str().unwrap();
    let set = |state: &str| farm.world.control("POST", &format!("servers/{id}/state"), state);
    set(r#"{"state":"stopped"}"#);
    let refreshed = farm.cluster(&["refresh", "farm"]).expect(0).stdout;
    assert_eq!(refreshed, "farm-db-1: its server is stopped\ncluster farm is error, and was active\n");
    let known = farm.cluster(&["status", "farm", "--offline", "--output", "json"]).expect(0).json();
    assert_eq!(known["cluster"]["state"], "error");
    assert_eq!(known["cluster"]["reasons"][0], format!("farm-db-1: server {id} is stopped"));
    set(r#"{"state":"running"}"#);
    let refreshed = farm.cluster(&["refresh", "farm"]).expect(0).stdout;
    assert_eq!(refreshed, "cluster farm is active, and was error\n");
}

#[test]
fn the_help_of_scale_has_its_arguments_in_their_order() {
    let farm = Farm::new();
    let help = farm.cluster(&["scale", "--help"]).expect(0).stdout;
    assert!(help.contains("scale <NAME> <GROUP=COUNT>"), "{help}");
}

#[test]
fn what_a_killed_process_left_is_undone_by_resume() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho $$ > pid\nexec sleep 3600\n")]);
    let create = farm.start_creation();
    let hook = written(&farm, "pid");
    create.signal("KILL");
    create.end().expect(-1);
    // As documented: nobody was left to end the hook.
    assert!(is_alive(&hook));
    assert!(std::process::Command::new("kill").arg(&hook).status().unwrap().success());
    assert_eq!(farm.servers().len(), 3);
    let status = farm.status();
    assert_eq!((&status["operation"]["kind"], &status["operation_lives"]), (&"create".into(), &false.into()));
    let resumed = farm.cluster(&["resume"]).expect(0).stdout;
    assert!(resumed.contains("recovered") && resumed.contains("the cluster is error now"), "{resumed}");
    assert_eq!(farm.world.resources(), 0);
    assert_eq!(farm.cluster(&["resume"]).expect(0).stdout, "nothing was left open\n");
    assert_eq!(farm.status()["cluster"]["state"], "error");
}

#[test]
fn cancelling_the_operation_of_a_killed_process_undoes_it() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho $$ > pid\nexec sleep 3600\n")]);
    let create = farm.start_creation();
    let hook = written(&farm, "pid");
    create.signal("KILL");
    create.end().expect(-1);
    assert!(std::process::Command::new("kill").arg(&hook).status().unwrap().success());
    assert!(farm.cluster(&["list"]).expect(0).stdout.contains("create at configure, its process has ended"));
    for look in [["watch", "farm"].as_slice(), &["status", "farm", "--watch"], &["attach", "farm"]] {
        farm.cluster(look).expect(3).says("has ended before it").says("LEFT    node farm-db-1 (");
    }
    assert!(
        farm.cluster(&["cancel", "farm"])
            .expect(0)
            .stdout
            .contains("operation 1 of cluster farm is cancelled and undone")
    );
    assert_eq!(farm.world.resources(), 0);
    assert!(farm.cluster(&["history", "farm"]).expect(0).stdout.contains("the operation was cancelled"));
}

#[test]
fn a_creation_that_is_interrupted_twice_lists_what_it_leaves() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho here > begun\nexec sleep 3600\n")]);
    let create = farm.start_creation();
    written(&farm, "begun");
    farm.world.fault("GET", "/instance/v1/zones/*/servers/*", "delay:600000");
    create.signal("INT");
    create.until_it_says("interrupted: rolling back");
    create.signal("INT");
    let ended = create.end().expect(130).says("is left open").says("LEFT");
    let servers = farm.world.control("GET", "resources", "")["servers"].as_array().unwrap().clone();
    assert_eq!(servers.len(), 3);
    for server in servers {
        assert!(ended.stderr.contains(server["id"].as_str().unwrap()), "{server}: {}", ended.stderr);
    }
}

#[test]
fn a_node_that_is_no_longer_ours_stays_and_is_named_with_exit_code_3() {
    let farm = Farm::new();
    farm.create().expect(0);
    let servers = farm.world.control("GET", "resources", "")["servers"].as_array().unwrap().clone();
    let theirs = servers.iter().find(|server| server["name"] == "farm-web-1").unwrap()["id"].as_str().unwrap();
    farm.world.call("PATCH", &format!("/instance/v1/zones/fr-par-1/servers/{theirs}"), r#"{"tags":["mine"]}"#);
    assert!(farm.cluster(&["status", "farm"]).expect(0).stdout.contains("farm-web-1: its server is no longer ours"));
    let ran = farm.cluster(&["scale", "farm", "--remove", "farm-web-1", "--yes", "--output", "json"]).expect(3);
    let document =
        ran.says(&format!("LEFT    server farm-web-1 ({theirs}) in fr-par-1: it exists and no longer")).json();
    assert_eq!(document["kept"][0]["not_ours"].as_array().unwrap().len(), 3, "{document}");
    assert_eq!(document["cluster"]["state"], "active");
    assert!(!farm.hooks().iter().any(|line| line.starts_with("decommission")), "{:?}", farm.hooks());
    assert_eq!(farm.servers(), ["farm-db-1", "farm-web-1", "farm-web-2"]);
    // A node that does not serve makes no operation a success.
    let off = servers.iter().find(|server| server["name"] == "farm-web-2").unwrap()["id"].as_str().unwrap();
    farm.world.control("POST", &format!("servers/{off}/state"), r#"{"state":"stopped"}"#);
    farm.cluster(&["scale", "farm", "db=1"]).expect(3).says("not all of its nodes serve").says(off);
}

#[test]
fn cancelling_the_ended_creation_of_a_node_names_the_clusters_own_command() {
    let farm = Farm::new();
    farm.create().expect(0);
    let status = farm.status();
    let node = status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "farm-web-1").unwrap();
    let ran = farm.world.run(&["operation", "cancel", node["creation"].as_str().unwrap()]).expect(3);
    ran.says("windlass cluster scale farm --remove farm-web-1");
}

#[test]
fn a_termination_that_is_interrupted_in_its_hook_deletes_nothing_and_cannot_be_cancelled() {
    let farm = Farm::with_hooks(&[("decommission", "#!/bin/sh\necho here > begun\nexec sleep 3600\n")]);
    farm.create().expect(0);
    let terminate = Running::start(&mut farm.world.command(&["cluster", "terminate", "farm", "--yes"]));
    written(&farm, "begun");
    farm.cluster(&["cancel", "farm"]).expect(2).says("operation 2 of cluster farm cannot be cancelled");
    terminate.signal("TERM");
    let ended = terminate.end().expect(3).says("a decommission hook that runs is stopped, and then nothing is deleted");
    ended.says("its decommission hook began").says("with --force");
    assert_eq!(farm.servers().len(), 3);
}

#[test]
fn a_termination_from_elsewhere_stops_a_creation_quietly() {
    let farm = Farm::with_hooks(&[("configure", "#!/bin/sh\necho here > begun\nsleep 3600\n")]);
    let create = farm.start_creation();
    written(&farm, "begun");
    farm.cluster(&["scale", "farm", "web=3"]).expect(2).says("is busy: operation 1 (create) is at the stage configure");
    farm.cluster(&["terminate", "farm", "--yes"]).expect(0);
    let stopped = create.end().expect(1).says("was deleted meanwhile; nothing of it is left");
    assert!(stopped.stderr.contains("stopping quietly"), "{}", stopped.stderr);
    assert_eq!(farm.world.resources(), 0);
    assert!(farm.cluster(&["list"]).expect(0).stdout.contains("no clusters"));
}

#[test]
fn a_watch_follows_another_processs_operation_to_its_end() {
    let farm =
        Farm::with_hooks(&[("configure", "#!/bin/sh\necho here > begun\nuntil test -e go; do sleep 0.05; done\n")]);
    let create = farm.start_creation();
    written(&farm, "begun");
    let watch = Running::start(&mut farm.world.command(&["cluster", "status", "farm", "--watch"]));
    farm.world.write("go", b"");
    create.end().expect(0);
    let watched = watch.end().expect(0);
    assert!(watched.stdout.contains("active") && watched.stdout.contains("farm-web-2"), "{}", watched.stdout);
}

#[test]
fn a_dry_run_tells_nodes_hooks_and_input_and_touches_nothing() {
    let farm = Farm::new();
    let file = farm.file.to_str().unwrap();
    let reported = farm.cluster(&["create", file, "--dry-run"]).expect(0).stdout;
    for words in ["farm-web-2", "configure hook", "configure.sh", "WINDLASS_STAGE", "\"operation\": \"create\""] {
        assert!(reported.contains(words), "{words}: {reported}");
    }
    assert_eq!((farm.world.resources(), farm.hooks().len()), (0, 0));
    farm.create().expect(0);
    let ran = farm.hooks().len();
    let plan = farm.world.json(&["cluster", "scale", "farm", "web=1", "db=2", "--dry-run"]);
    assert_eq!(plan["plan"]["make"], serde_json::json!(["farm-db-2"]));
    assert_eq!(plan["plan"]["remove"], serde_json::json!(["farm-web-2"]));
    let stages: Vec<_> = plan["plan"]["hooks"].as_array().unwrap().iter().map(|hook| &hook["stage"]).collect();
    assert_eq!(stages, ["decommission", "configure", "start"]);
    let input = &plan["plan"]["hooks"][0]["plan"]["input"];
    assert_eq!((&input["operation_id"], &input["nodes"][0]["name"]), (&"farm-2".into(), &"farm-web-2".into()));
    farm.cluster(&["terminate", "farm", "--dry-run"]).expect(0);
    assert_eq!((farm.servers().len(), farm.hooks().len()), (3, ran));
}

#[test]
fn a_wrong_specification_is_refused_with_its_place_before_anything_is_touched() {
    let farm = Farm::new();
    let refused = |name: &str, text: &str| {
        let file = farm.world.write(name, text.as_bytes());
        farm.cluster(&["create", file.to_str().unwrap()]).expect(2)
    };
    refused("typo.toml", &SPECIFICATION.replacen("image", "imgae", 1))
        .says("typo.toml, line 8")
        .says("did you mean `image`");
    refused("hook.toml", &format!("{SPECIFICATION}[hooks.start]\ntime_limit = '1m'\n")).says("needs one of the tables");
    refused("name.yaml", "name: Farm\nzone: fr-par-1\ngroups: {}\n").says("lower-case");
    refused("farm.txt", SPECIFICATION).says(".toml, .yaml");
    farm.cluster(&["create", "/no/such/farm.toml"]).expect(2).says("No such file");
    farm.cluster(&["scale", "farm"]).expect(2).says("GROUP=COUNT");
    farm.cluster(&["scale", "frm", "web=1"]).expect(1).says("there is no cluster frm");
    assert_eq!(farm.world.resources(), 0);
}

#[test]
fn what_cannot_be_had_is_found_before_anything_is_spent() {
    let farm = Farm::new();
    let file = farm.file.to_str().unwrap();
    let said = farm.cluster(&["validate", file]).expect(0).stdout;
    assert!(said.contains("ok: cluster farm of 3 nodes in 2 groups"), "{said}");
    // Without credentials the file alone can be looked at.
    Ran::of(bare(farm.world.home.path()).args(["cluster", "validate", file, "--offline"])).expect(0);
    std::fs::remove_file(farm.world.home.path().join("start.sh")).unwrap();
    farm.cluster(&["validate", file]).expect(2).says("hooks.start").says("start.sh");
    let none = SPECIFICATION.replace("DEV1-M", "DEV9-M");
    let none = farm.world.write("none.toml", none.as_bytes());
    farm.cluster(&["validate", none.to_str().unwrap()]).expect(2).says("groups.db").says("DEV9-M");
    farm.create().expect(2).says("hooks.start").says("start.sh");
    let unknown = SPECIFICATION.replace("DEV1-M", "DEV9-M").replace("ubuntu_noble", "ubuntu-noble");
    let unknown = farm.world.write("unknown.toml", unknown.as_bytes());
    for command in ["create", "apply"] {
        let refused = farm.cluster(&[command, unknown.to_str().unwrap()]).expect(2);
        refused.says("groups.db.types: fr-par-1 has no server type DEV9-M").says("did you mean ubuntu_noble?");
    }
    let list = farm.cluster(&["list"]).expect(0);
    assert!(list.stdout.contains("no clusters"), "{}", list.stdout);
    assert_eq!((farm.world.resources(), farm.hooks().len()), (0, 0));
}

#[test]
fn looking_needs_no_credentials() {
    let farm = Farm::new();
    farm.create().expect(0);
    let look = |arguments: &[&str]| Ran::of(bare(farm.world.home.path()).args(arguments)).expect(0);
    assert!(look(&["cluster", "list"]).stdout.contains("db=1 web=2"));
    assert!(look(&["cluster", "status", "farm"]).stdout.contains("farm-db-1"));
    look(&["cluster", "history", "farm"]);
    Ran::of(bare(farm.world.home.path()).args(["cluster", "terminate", "farm", "--yes"])).expect(2);
    assert_eq!(farm.servers().len(), 3);
}
