use crate::support::{IMPATIENT, Ran, Running, STATE, World, eventually};
use windlass_test_guests::{GRACE_FOR_STOPPED, HOSTILE, KEEP_VOLUMES_FOR_INSPECTION, RETRY, STOCK_AWARE_RETRY};

#[test]
fn inspect_tells_what_a_policy_is_and_needs() {
    let world = World::new("50");
    let file = world.write("stock.wasm", STOCK_AWARE_RETRY.bytes);
    let file = file.to_str().unwrap();
    let inspected = world.json(&["policy", "inspect", file]);
    assert_eq!(inspected["name"], "stock-aware-retry");
    assert_eq!(inspected["slots"], serde_json::json!(["retry"]));
    assert_eq!(inspected["contract"], serde_json::json!(["0.1.0"]));
    assert_eq!(inspected["grants_needed"], serde_json::json!(["windlass:scaleway/look-ups"]));
    assert_eq!(inspected["bytes"], STOCK_AWARE_RETRY.bytes.len());
    assert!(inspected["settings_schema"].is_object());
    let text = world.run(&["policy", "inspect", file]).expect(0).stdout;
    assert!(text.contains("windlass:scaleway/look-ups"), "{text}");
}

#[test]
fn check_refuses_an_ungranted_import_with_the_line_to_add_and_takes_a_granted_one() {
    let world = World::new("50");
    let file = world.write("stock.wasm", STOCK_AWARE_RETRY.bytes);
    let file = file.to_str().unwrap();
    world
        .run(&["policy", "check", file])
        .expect(2)
        .says("windlass:scaleway/look-ups")
        .says("grants = [\"windlass:scaleway/look-ups\"]");
    let checked = world.json(&["policy", "check", file, "--grant", "windlass:scaleway/look-ups"]);
    assert_eq!(checked["policies"][0]["slot"], "retry");
    // Where the configuration has the file, its grants count.
    world.configure(&format!("[policies.retry]\npath = '{file}'\ngrants = ['windlass:scaleway/look-ups']\n"));
    world.run(&["policy", "check", file]).expect(0);
}

#[test]
fn check_refuses_wrong_settings_in_the_policys_words() {
    let world = World::new("50");
    let file = world.write("grace.wasm", GRACE_FOR_STOPPED.bytes);
    let file = file.to_str().unwrap();
    world.run(&["policy", "check", file, "--settings", r#"{"grace-m": 1}"#]).expect(2).says("grace-ms");
    world.run(&["policy", "check", file, "--settings", "{"]).expect(2).says("the settings: this is not valid JSON");
    world.run(&["policy", "check", file, "--settings", r#"{"grace-ms": 1}"#]).expect(0);
}

#[test]
fn files_that_are_no_policies_are_refused_with_what_they_are() {
    let world = World::new("50");
    let text = world.write("text.wasm", b"hello, world");
    world.run(&["policy", "check", text.to_str().unwrap()]).expect(2).says("it is text");
    let module = world.write("module.wasm", b"\0asm\x01\0\0\0");
    world.run(&["policy", "inspect", module.to_str().unwrap()]).expect(2).says("a core WebAssembly module");
    let grace = world.write("grace.wasm", GRACE_FOR_STOPPED.bytes);
    world
        .run(&["policy", "check", grace.to_str().unwrap(), "--slot", "retry"])
        .expect(2)
        .says("does not export `windlass:policy/retry");
    world.run(&["policy", "check", "missing.wasm"]).expect(2).says("missing.wasm");
}

#[test]
fn run_puts_a_question_from_a_file_from_stdin_or_the_example() {
    let world = World::new("50");
    let file = world.write("retry.wasm", RETRY.bytes);
    let file = file.to_str().unwrap();
    let ran = world.json(&["policy", "run", file, "--slot", "retry", "--example"]);
    assert!(ran["answer"]["verdict"].is_object() || ran["answer"]["verdict"].is_string(), "{ran}");
    assert_eq!(ran["asked"][0]["outcome"], "decided");

    let question = r#"{"now": 0, "random": 7, "operation": "create-server", "step": "power-on", "undoing": false,
        "attempt": 1, "elapsed": 0,
        "failure": {"class": "out-of-stock", "message": "none left", "method": "POST", "path": "/", "status": 503,
                    "error-type": "out_of_stock", "resource": null, "ambiguous": false},
        "zone": "fr-par-1", "server-type": "DEV1-S",
        "subject": {"program": "command-line", "owner": "team", "labels": []}}"#;
    let path = world.write("question.json", question.as_bytes());
    let from_file = world.json(&["policy", "run", file, "--slot", "retry", "--input-file", path.to_str().unwrap()]);
    assert_eq!(from_file["answer"]["verdict"], "give-up");
    let at_file = world.json(&["policy", "run", file, "--slot", "retry", "--input", &format!("@{}", path.display())]);
    assert_eq!(at_file["answer"], from_file["answer"]);
    let mut from_stdin = world.command(&["policy", "run", file, "--slot", "retry", "--input", "-", "--output", "json"]);
    let from_stdin = Ran::of(from_stdin.stdin(std::fs::File::open(&path).unwrap())).expect(0).json();
    assert_eq!(from_stdin["answer"], from_file["answer"]);

    // What a fixture says, `run` takes, too: what is other than in the example. The same words are refused in both.
    let changes = r#"{"failure": {"class": "out-of-stock"}}"#;
    let changed = world.json(&["policy", "run", file, "--slot", "retry", "--input", changes]);
    assert_eq!(changed["answer"]["verdict"], "give-up");
    world
        .run(&["policy", "run", file, "--slot", "retry", "--input", r#"{"atempt": 1, "elapsed": "1s"}"#])
        .expect(2)
        .says("`atempt`: there is no such field; did you mean `attempt`?; `elapsed`: \"1s\" is not a whole number")
        .says("only what differs from the slot's example question");
    let fixture =
        r#"{"slot": "retry", "question": {"failure": {"class": "out-of-stock"}}, "expect": {"verdict": "give-up"}}"#;
    std::fs::create_dir(world.home.path().join("fixtures")).unwrap();
    world.write("fixtures/stock.json", fixture.as_bytes());
    world.run(&["policy", "test", file]).expect(0);
}

#[test]
fn a_policy_that_traps_is_caught_before_it_decides_anything() {
    let world = World::new("50");
    let file = world.write("hostile.wasm", HOSTILE.bytes);
    let settings = r#"{"behaviour": "trap", "during": "decide"}"#;
    let file = file.to_str().unwrap();
    world.run(&["policy", "check", file, "--slot", "retry", "--settings", settings]).expect(2).says("dry run");
}

#[test]
fn list_shows_each_chain_as_the_configuration_has_it() {
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    world.configure(&format!("[policies.rollback]\npath = '{}'\n", file.display()));
    let listed = world.json(&["policy", "list"]);
    let rollback: Vec<&str> = listed["policies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|link| link["slot"] == "rollback")
        .map(|link| link["policy"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(rollback.first(), Some(&"keep-volumes-for-inspection"));
}

#[test]
fn a_configured_policy_that_cannot_be_used_stops_before_anything_is_touched() {
    let world = World::new("50");
    let file = world.write("broken.wasm", b"not a policy");
    world.configure(&format!("owner = 'ci'\n\n[policies.rollback]\npath = '{}'\n", file.display()));
    world.create("1").expect(2).says("config.toml, line 3").says("it is text").says("nothing was done");
    assert_eq!(world.control("GET", "requests", "").as_array().map(Vec::len).unwrap_or(0), 0);
}

#[test]
fn decisions_are_listed_shown_and_replayed() {
    let world = World::new("50");
    world.create("1").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let listed = world.json(&["decision", "list", "--slot", "rollback"]);
    let id = listed["decisions"][0]["id"].as_str().unwrap();
    let shown = world.json(&["decision", "show", id]);
    assert_eq!(shown["slot"], "rollback");
    assert!(shown["question"]["resources"].is_array());
    assert!(!shown.to_string().contains("11111111-1111-1111-1111-111111111111"), "the key is in a record");
    let text = world.run(&["decision", "show", id]).expect(0).stdout;
    assert!(text.contains("asked, in order") && text.contains("decided"), "{text}");
    assert_eq!(world.json(&["decision", "replay", id])["same"], true);

    // Against another policy the answer may differ, and that is told and no failure.
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    world.run(&["decision", "replay", id, "--policy", file.to_str().unwrap()]).expect(0);
    world.run(&["decision", "show", "ffff"]).expect(1).says("windlass decision list");
    assert_eq!(world.json(&["decision", "list", "--fallbacks"])["decisions"].as_array().unwrap().len(), 0);
}

#[test]
fn removals_are_listed_and_what_a_policy_kept_is_not_among_them() {
    let world = World::new("50");
    world.create("1").expect(0);
    let keep = "slot = 'release'\n[[rules]]\nname = 'keep'\nwhen = 'true'\nanswer = 'keep'\n";
    let file = world.write("keep.rules.toml", keep.as_bytes());
    world.configure(&format!("[policies.release]\npath = '{}'\n", file.display()));
    let slots = || {
        let listed = world.json(&["decision", "list", "--removals", "--since", "7d"]);
        let slots = listed["decisions"].as_array().unwrap().iter().map(|decision| decision["slot"].as_str().unwrap());
        slots.map(str::to_owned).collect::<Vec<_>>()
    };
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(3);
    assert!(slots().is_empty());
    world.configure("");
    world.run(&["server", "delete", "--yes", "--force", "--group", "ci"]).expect(0);
    assert_eq!(slots(), ["rollback"], "--force does not ask what becomes of the server");
    world.create("1").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    assert_eq!(slots(), ["rollback", "release", "rollback"]);
}

#[test]
fn prove_ends_with_1_and_a_fixture_when_a_law_is_violated_and_with_0_when_all_hold() {
    let world = World::new("50");
    let folder = world.home.path().join("found");
    let folder = folder.to_str().unwrap();
    let prove = |law: &str| {
        let common = ["policy", "prove", "default", "--slot", "retry", "--questions", "500", "--random", "0"];
        world.run(&[&common[..], &["--save", folder, "--output", "json", "--never", law]].concat())
    };
    let proof: serde_json::Value = serde_json::from_str(&prove("verdict == 'defer'").expect(0).stdout).unwrap();
    assert_eq!((&proof["holds"], &proof["saved"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(proof["laws"].as_array().unwrap().len(), 4);
    let violated = prove("verdict == 'wait'").expect(1);
    let saved = std::fs::read_to_string(format!("{folder}/never-verdict-wait.json")).unwrap();
    let fixture: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(fixture["expect"]["holds"], "!(verdict == 'wait')");
    assert!(violated.stdout.contains("\"holds\":false"), "{}", violated.stdout);
    prove("verdict == 'wiat'").expect(2).says("did you mean `wait`?");
    let two = ["policy", "prove", "default", "--slot", "retry", "--never", "", "--always", "verdict == 'wiat'"];
    world.run(&two).expect(2).says("--never: ").says("it ends where more is expected").says("did you mean `wait`?");
    let wrong = ["policy", "prove", "default", "--slot", "retry", "--bound", "atempt=1"];
    world.run(&wrong).expect(2).says("no `atempt`; did you mean `attempt`?");
    let with_laws = |laws: &[u8]| {
        let laws = world.write("laws.toml", laws);
        world.run(&["policy", "prove", "default", "--slot", "retry", "--laws", laws.to_str().unwrap()])
    };
    with_laws(b"slot = \"release\"\n[[law]]\nname = \"a\"\nalways = \"true\"").expect(2).says("about the slot release");
    with_laws(b"slot = \"retry\"").expect(2).says("it has no law");
    let empty = ["policy", "prove", "default", "--slot", "state-mapping", "--bound", "servers=[]", "--random", "0"];
    let unknown = world.run(&[&empty[..], &["--never", "server.age < 0"]].concat()).expect(1);
    let unknown = unknown.says("was tested on no answer");
    assert!(unknown.stdout.contains("unknown   never server.age < 0"), "{}", unknown.stdout);
}

#[test]
fn a_check_refuses_what_a_host_would_and_a_test_tells_every_bad_fixture() {
    let world = World::new("50");
    let file = world.write("own.wasm", GRACE_FOR_STOPPED.bytes);
    let folder = world.home.path().join("policies");
    std::fs::create_dir(&folder).unwrap();
    let link = folder.join("linked.wasm");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    world.run(&["policy", "check", link.to_str().unwrap()]).expect(2).says("linked.wasm");
    std::fs::rename(&file, folder.join("own.wasm")).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("own.wasm", &link).unwrap();
    world.run(&["policy", "check", link.to_str().unwrap()]).expect(0);
    for (name, fixture) in [("one", "{"), ("two", r#"{"slot": "retries", "expect": {}}"#)] {
        std::fs::write(folder.join(format!("{name}.json")), fixture).unwrap();
    }
    std::fs::write(folder.join("three.json"), [0xff]).unwrap();
    let (link, folder) = (link.to_str().unwrap(), folder.to_str().unwrap());
    world
        .run(&["policy", "test", link, "--fixtures", folder])
        .expect(2)
        .says("one.json")
        .says("two.json")
        .says("three.json");
}

#[test]
fn a_counterexample_of_rules_is_a_fixture_that_tests_them() {
    let world = World::new("50");
    let rules = |when: &str| {
        let text = format!("slot = \"retry\"\n[[rules]]\nwhen = \"{when}\"\nanswer = {{ wait = 90000 }}\n");
        world.write("own.rules.toml", text.as_bytes())
    };
    let file = rules("attempt == 4");
    let (file, folder) = (file.to_str().unwrap(), world.home.path().join("found"));
    let folder = folder.to_str().unwrap();
    let law = ["--always", "!has(answer.wait) || answer.wait <= 30000", "--random", "0", "--questions", "5000"];
    world.run(&[&["policy", "prove", file, "--save", folder][..], &law].concat()).expect(1);
    world.run(&["policy", "test", file, "--fixtures", folder]).expect(1);
    rules("attempt == 4 && undoing");
    world.run(&["policy", "test", file, "--fixtures", folder]).expect(0);
}

#[test]
fn diff_and_bulk_replay_tell_what_changes_and_fail_when_they_are_asked_to() {
    let world = World::new("50");
    world.create("1").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let replayed = world.json(&["decision", "replay", "--since", "1h"]);
    assert!(replayed["replayed"].as_u64().unwrap() > 0, "{replayed}");
    assert_eq!(replayed["same"], replayed["replayed"]);
    // Volumes are kept only after a failure worth looking into; this was an ordinary deletion.
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let file = file.to_str().unwrap();
    let now = world.json(&["decision", "replay", "--since", "1h", "--policy", file, "--fail-on-change"]);
    assert_eq!(now["groups"], serde_json::json!([]), "{now}");
    let diff = |options: &[&str], new: &str| {
        let common = ["policy", "diff", "default", new, "--slot", "rollback", "--questions", "300", "--random", "0"];
        world.run(&[&common[..], options].concat())
    };
    let keeps = "slot = 'rollback'\n[[rules]]\nwhen = \"operation == 'create-server'\"\nanswer = 'keep'\n";
    let keeps = world.write("keeps.rules.toml", keeps.as_bytes());
    let found = diff(&["--output", "json"], keeps.to_str().unwrap()).expect(0).json();
    assert!(!found["groups"].as_array().unwrap().is_empty() && found["recorded"].as_u64().unwrap() > 0, "{found}");
    diff(&["--fail-on-change"], keeps.to_str().unwrap()).expect(1).says("verdicts change");
    // It defers everything, so that the default decides as before.
    let hostile = world.write("hostile.wasm", HOSTILE.bytes);
    let defers = diff(&["--fail-on-change"], hostile.to_str().unwrap()).expect(0).stdout;
    assert!(
        defers.contains("answers are left to the next policy; they are compared as if that were the built-in default")
            && defers.contains("no verdict changes"),
        "{defers}"
    );
    world.run(&["decision", "replay"]).expect(2).says("--since");
    let waits = "slot = 'retry'\n[[rules]]\nwhen = \"failure.class == 'out-of-stock'\"\nanswer = { wait = 60000 }\n";
    let waits = world.write("waits.rules.toml", waits.as_bytes());
    let ran = world.run(&["policy", "diff", keeps.to_str().unwrap(), waits.to_str().unwrap()]).expect(2);
    let ran = ran.says("decide different slots").says("keeps.rules.toml decides rollback");
    ran.says("waits.rules.toml decides retry");
    world.run(&["policy", "check", "default"]).expect(2).says("default is the built-in policy");
    let none = world.run(&["decision", "list", "--policy", "nope"]).expect(0).stdout;
    assert!(none.contains("no such decision asked a policy nope"), "{none}");
}

#[test]
fn prove_and_diff_show_on_a_terminal_how_far_they_are() {
    let world = World::new("50");
    for command in [&["policy", "prove", "default"][..], &["policy", "diff", "default", "default"]] {
        let amount = ["--slot", "release", "--questions", "2000", "--random", "0"];
        let mut command = world.command(&[command, &amount].concat());
        command.env("TERM", "xterm");
        let (running, _keyboard) = Running::at_terminal(command);
        running.until_it_says(" of 2000 questions (");
        running.end().expect(0);
    }
}

#[test]
fn bench_measures_a_policy_beside_the_default() {
    let world = World::new("50");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let benched = world.json(&["policy", "bench", file.to_str().unwrap(), "--decisions", "100"]);
    assert_eq!(benched["slot"], "rollback");
    assert!(benched["policy"]["p50_ns"].as_u64().unwrap() > 0 && benched["default"]["fuel_p50"].as_u64().unwrap() > 0);
}

/// A configuration whose rollback policy leaves a resource out of its plans.
pub fn forgetful(world: &World) -> String {
    let file = world.write("hostile.wasm", HOSTILE.bytes);
    let settings = "settings = { behaviour = 'forget', during = 'decide' }";
    format!("[policies.rollback]\npath = '{}'\n{settings}\n", file.display())
}

#[test]
fn a_plan_that_forgets_a_resource_is_replaced_by_the_default_and_the_log_says_why() {
    let world = World::new("50");
    world.configure(&forgetful(&world));
    world.create("1").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    assert_eq!(world.resources(), 0);
    let fallbacks = world.json(&["decision", "list", "--fallbacks"]);
    let first = &fallbacks["decisions"][0];
    assert_eq!(first["slot"], "rollback");
    assert!(first["asked"][0]["outcome"]["fallback"]["reason"].as_str().unwrap().contains("forgets"), "{first}");
    let id = first["id"].as_str().unwrap();
    let text = world.run(&["decision", "show", id]).expect(0).stdout;
    assert!(text.contains("1. windlass-hostile-guest") && text.contains("2. windlass-guest-rollback"), "{text}");
}

#[test]
fn status_shows_what_a_running_host_says_of_its_policies_and_forgets_one_that_died() {
    // Time stands still, so that no server ever runs, and whoever waits for one waits on.
    let world = World::new("0");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    world.configure(&format!("[policies.rollback]\npath = '{}'\n", file.display()));
    let statuses = || world.json(&["policy", "status"])["hosts"].as_array().unwrap().clone();
    assert_eq!(statuses(), Vec::<serde_json::Value>::new());
    let text = world.run(&["policy", "status"]).expect(0).stdout;
    assert_eq!(text, "no host runs on this state directory\n");
    let all = world.run(&["policy", "status", "--all"]).expect(0).says("the state is not shared");
    assert_eq!(all.stdout, text);

    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    let running = Running::start(&mut world.command(&create));
    let link = |hosts: &[serde_json::Value]| {
        let links = hosts.first()?["policies"].as_array()?;
        links.iter().find(|link| link["policy"]["name"] == "keep-volumes-for-inspection").cloned()
    };
    let seen = eventually("the host says what it has", || link(&statuses()));
    assert_eq!((&seen["slot"], &seen["suspended"], &seen["error"]), (&"rollback".into(), &false.into(), &().into()));
    let hosts = statuses();
    let host = &hosts[0];
    assert_eq!((&host["program"], &host["lost_records"]), (&"windlass".into(), &0.into()));
    assert_eq!(world.json(&["policy", "status", "--all"])["hosts"].as_array(), Some(&hosts));

    world.write("keep.wasm", b"no policy");
    let refused = eventually("the host says what it refused", || {
        link(&statuses()).filter(|link| link["error"].as_str().is_some_and(|error| error.contains("it is text")))
    });
    assert!(refused["refused_at"].as_str() >= refused["loaded_at"].as_str(), "{refused}");
    let text = world.run(&["policy", "status"]).expect(0).stdout;
    assert!(
        text.contains("windlass (process ") && text.contains("not replaced") && text.contains("it is text"),
        "{text}"
    );

    running.signal("KILL");
    drop(running);
    assert_eq!(statuses(), Vec::<serde_json::Value>::new());
    let left = std::fs::read_dir(world.home.path().join(STATE).join("hosts")).unwrap().count();
    assert_eq!(left, 0, "what the dead host left is removed");
}

#[test]
fn a_shadow_is_compared_with_what_was_decided_and_a_difference_can_fail_the_command() {
    let world = World::new("50");
    let none = world.run(&["policy", "shadow"]).expect(0).stdout;
    assert_eq!(none, "no shadow was asked\n");
    world.run(&["policy", "shadow", "--fail-on-difference"]).expect(1).says("so nothing is known");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    world.configure(&format!(
        "{IMPATIENT}\n[[policies.rollback]]\npath = '{}'\nmode = 'shadow'\nsettings = {{ classes = ['server-error'] \
         }}\n",
        file.display()
    ));
    let listed = world.run(&["policy", "list"]).expect(0).stdout;
    assert!(listed.contains("1 (shadow)"), "{listed}");
    // What fails is undone by the default, and the shadow would have kept the volumes.
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.create("1").expect(1);
    assert_eq!(world.resources(), 0, "the default decided");

    let report = world.json(&["policy", "shadow", "--since", "1h"]);
    let shadow = &report["shadows"][0];
    assert_eq!((&shadow["policy"]["name"], &shadow["failed"]), (&"keep-volumes-for-inspection".into(), &0.into()));
    assert!(shadow["differed"].as_u64() >= Some(1), "{report}");
    let difference = &shadow["differences"][0];
    assert_eq!((&difference["decided"], &difference["shadow"]), (&"plan".into(), &"plan".into()));
    let example = difference["example"].as_str().unwrap();
    let shown = world.run(&["decision", "show", example]).expect(0).stdout;
    assert!(shown.contains("shadows, asked afterwards") && shown.contains("differed: decided"), "{shown}");
    let text = world.run(&["policy", "shadow"]).expect(0).stdout;
    assert!(text.contains("plan, another one") && text.contains(example), "{text}");

    world.run(&["policy", "shadow", "--fail-on-difference"]).expect(1).says("would not have decided the same");
    let elsewhere = ["policy", "shadow", "--fail-on-difference", "--slot", "retry"];
    let nothing = world.run(&elsewhere).expect(1).says("so nothing is known");
    assert_eq!(nothing.stdout, "no shadow was asked\n");
    assert_eq!(world.json(&["policy", "shadow", "--policy", "other"])["shadows"].as_array().unwrap().len(), 0);
}

/// Two rules about `retry`, the second of which never answers.
const SHADOWED: &str = "slot = \"retry\"\n\n[[rules]]\nname = \"patience\"\nwhen = \"attempt < 9\"\nanswer = { wait = 5 }\n\n\
    [[rules]]\nname = \"haste\"\nwhen = \"attempt < 3\"\nanswer = { wait = 1 }\n";

#[test]
fn check_tells_rules_that_never_answer_and_all_mistakes_of_a_file_at_once() {
    let world = World::new("50");
    let check = |rules: &str| {
        let file = world.write("the.rules.toml", rules.as_bytes());
        world.run(&["policy", "check", file.to_str().unwrap(), "-o", "json"])
    };
    let shadowed = check(SHADOWED).expect(1).json();
    let remark = shadowed["never_answer"][0].as_str().unwrap_or_default();
    assert!(remark.starts_with("line 10, rule 2 (`haste`): `when`: rule 1 (`patience`) answers first"), "{shadowed}");

    let wrong = SHADOWED.replace("attempt < 9", "atempt < 9 and undoing").replace("wait = 1 }", "wiat = 1 }");
    let wrong = check(&wrong.replace("haste", "patience")).expect(2).json();
    let causes: Vec<&str> = wrong["error"]["causes"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    let expected = ["line 5, rule 1", "line 9: rule 2: rule 1 (line 4) is called `patience`, too", "line 11, rule 2"];
    assert!(
        causes.len() == 3 && causes.iter().zip(expected).all(|(reported, it)| reported.starts_with(it)),
        "{causes:?}"
    );

    let divides = SHADOWED.replace("attempt < 9", "10 / (attempt - 1) > 1").replace("attempt < 3", "undoing");
    let divides = check(&divides).expect(0).json();
    assert!(divides["failed_examples"][0].as_str().unwrap().contains("Division by zero"), "{divides}");
}

#[test]
fn the_rule_that_decided_is_named_wherever_a_decision_is_shown() {
    let world = World::new("50");
    let file = world.write("the.rules.toml", SHADOWED.as_bytes());
    let file = file.to_str().unwrap();
    let run = world.json(&["policy", "run", file, "--example"]);
    assert_eq!(run["asked"][0]["rules"], serde_json::json!([{ "rule": "patience" }]));
    world.run(&["policy", "run", file, "--example"]).expect(0).says("by patience");
    let later = r#"{"attempt": 9}"#;
    let deferred = world.run(&["policy", "run", file, "--input", later]).expect(0);
    deferred.says("the policy deferred: this is the answer of windlass-guest-retry");

    let fixture = r#"{"slot": "retry", "question": {}, "expect": {"verdict": {"wait": 5}}}"#;
    let fixture = world.write("waits.json", fixture.as_bytes());
    let tested = world.run(&["policy", "test", file, "--fixtures", fixture.to_str().unwrap()]).expect(0).stdout;
    assert!(tested.contains("waits  by patience"), "{tested}");

    let rules = "slot = \"rollback\"\n\n[[rules]]\nname = \"goes\"\nwhen = \"resource.kind == 'server'\"\n\
        answer = \"delete\"\n";
    let file = world.write("goes.rules.toml", rules.as_bytes());
    world.configure(&format!("[policies.rollback]\npath = '{}'\n", file.display()));
    world.create("1").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let listed = world.json(&["decision", "list", "--slot", "rollback"]);
    let decision = &listed["decisions"][0];
    assert!(decision["deciders"][0].as_str().unwrap().ends_with(": goes"), "{decision}");
    assert_eq!(decision["asked"][0]["rules"], serde_json::json!([{ "rule": "goes", "items": [0] }]));
    let shown = world.run(&["decision", "show", decision["id"].as_str().unwrap()]).expect(0).stdout;
    assert!(shown.contains("decided, by goes") && shown.contains("goes: resource 0"), "{shown}");
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_no_trial_of_a_policy() {
    let world = World::new("50");
    let file = world.write("the.rules.toml", SHADOWED.replace("attempt < 3", "undoing").as_bytes());
    let file = file.to_str().unwrap();
    // Not even the superuser makes a folder there.
    let read_only = ["/proc/windlass", "/proc/self"];
    for state in read_only {
        let trial = |command: &[&str]| world.run(&[&["--state-dir", state, "policy"], command].concat()).expect(0);
        trial(&["check", file]);
        trial(&["run", file, "--example"]);
        trial(&["prove", file, "--questions", "20", "--random", "0"]);
    }
}
