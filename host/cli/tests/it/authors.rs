//! What a policy's author does: begin, build, test.

use std::path::{Path, PathBuf};

use windlass_test_guests::{GRACE_FOR_STOPPED, HOSTILE, STOCK_AWARE_RETRY};

use crate::support::{Ran, World, cargo_environment};

/// A folder with a policy and these fixtures.
fn policy(world: &World, component: &[u8], fixtures: &[(&str, &str)]) -> PathBuf {
    let folder = world.home.path().join("policy");
    std::fs::create_dir_all(folder.join("fixtures")).unwrap();
    std::fs::write(folder.join("policy.wasm"), component).unwrap();
    for (name, text) in fixtures {
        std::fs::write(folder.join("fixtures").join(format!("{name}.json")), text).unwrap();
    }
    folder
}

fn test(world: &World, folder: &Path, more: &[&str]) -> Ran {
    world.run(&[&["policy", "test", folder.to_str().unwrap()], more].concat())
}

const STOCK: &str = r#"{"slot": "retry", "question": {"failure": {"class": "out-of-stock"}},
    "host-calls": [{"function": "server-types", "arguments": ["fr-par-1", ["DEV1-S"]],
        "answer": {"ok": {"complete": true, "server-types": [{"name": "DEV1-S", "stock": "available",
            "architecture": "x86_64", "processors": 2, "memory": 2147483648,
            "hourly-price": {"currency": "EUR", "micros": 9000}}]}}}],
    "expect": {"holds": "verdict == 'wait' && answer.wait >= 5000", "reason": "available again"}}"#;

#[test]
fn fixtures_are_put_to_the_component_and_its_look_ups_are_answered_by_them() {
    let world = World::new("50");
    let gateway = r#"{"slot": "retry", "question": {"failure": {"class": "gateway"}}, "expect": {"verdict": "defer"}}"#;
    let folder = policy(&world, STOCK_AWARE_RETRY.bytes, &[("stock", STOCK), ("gateway", gateway)]);
    let results = test(&world, &folder, &["--output", "json"]).expect(0).json();
    assert_eq!((&results["passed"], &results["failed"]), (&2.into(), &0.into()), "{results}");
    assert!(results["cases"][0]["fuel"].as_u64().unwrap() > 0);
    let cells: Vec<_> = results["coverage"][0]["cells"].as_array().unwrap().iter().map(|cell| &cell[0]).collect();
    assert_eq!(cells.len(), 2);
    assert_eq!((&cells[1]["verdict"], &cells[1]["value"]), (&"wait".into(), &"out-of-stock".into()));
    assert!(results["coverage"][0]["verdicts_missed"].as_array().unwrap().contains(&"give-up".into()));
    assert_eq!(world.control("GET", "requests", "").as_array().map_or(0, Vec::len), 0, "nobody is asked");
    let text = test(&world, &folder, &[]).expect(0).stdout;
    assert!(text.contains("2 passed, 0 failed") && text.contains("no case is answered: give-up"), "{text}");
}

#[test]
fn a_case_that_is_not_as_expected_fails_and_says_what_it_was_answered() {
    let world = World::new("50");
    let settings = r#"{"slot": "retry", "settings": {"wait-ms": 7}, "expect": {"verdict": {"wait": 7}}}"#;
    let unanswered = r#"{"slot": "retry", "question": {"failure": {"class": "out-of-stock"}}, "expect": {}}"#;
    let refused = r#"{"slot": "retry", "settings": {"wait": 7}, "expect": {}}"#;
    let fixtures = [("a-setting", settings), ("b-unanswered", unanswered), ("c-refused", refused), ("d-good", STOCK)];
    let folder = policy(&world, STOCK_AWARE_RETRY.bytes, &fixtures);
    let report = world.home.path().join("reports/junit.xml");
    let ran = test(&world, &folder, &["--output", "json", "--junit", report.to_str().unwrap()]).expect(1);
    let results = ran.json();
    assert_eq!((&results["passed"], &results["failed"]), (&1.into(), &3.into()), "{results}");
    let problem = |case: usize| results["cases"][case]["problems"][0].as_str().unwrap().to_owned();
    assert!(problem(0).contains("expected the verdict {\"wait\":7}, answered \"defer\""), "{}", problem(0));
    assert!(problem(1).contains("`server-types`") && problem(1).contains("DEV1-S"), "{}", problem(1));
    assert!(problem(2).contains("wait-ms"), "{}", problem(2));
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains("tests=\"4\" failures=\"3\"") && report.contains("name=\"d-good\""), "{report}");
    test(&world, &folder, &[]).expect(1).says("3 of 4 cases failed");
}

#[test]
fn a_policy_that_fails_fails_its_case_and_says_how() {
    let world = World::new("50");
    // It traps in odd decisions only, so that it can be loaded.
    let odd = r#"{"slot": "retry", "settings": {"behaviour": "trap", "during": "odd-decisions"},
        "question": {"random": 7}, "expect": {}}"#;
    let folder = policy(&world, HOSTILE.bytes, &[("odd", odd)]);
    let results = test(&world, &folder, &["--output", "json"]).expect(1).json();
    let problem = results["cases"][0]["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("the policy failed: "), "{problem}");
}

#[test]
fn what_is_no_fixture_is_wrong_usage_and_nothing_is_tested() {
    let world = World::new("50");
    let folder = policy(&world, GRACE_FOR_STOPPED.bytes, &[]);
    test(&world, &folder, &[]).expect(2).says("there are no fixtures");
    let misspelt = r#"{"slot": "state-mapping", "question": {"servers": [{"stat": "stopped"}]}, "expect": {}}"#;
    std::fs::write(folder.join("fixtures/misspelt.json"), misspelt).unwrap();
    test(&world, &folder, &[]).expect(2).says("misspelt.json").says("stat");
    let key = "{\n\"slot\": \"release\",\n\"expcet\": {}}";
    std::fs::write(folder.join("fixtures/misspelt.json"), key).unwrap();
    test(&world, &folder, &[]).expect(2).says("line 3: there is no key `expcet` here; did you mean `expect`?");
    let other = r#"{"slot": "release", "expect": {}}"#;
    std::fs::write(folder.join("fixtures/misspelt.json"), other).unwrap();
    test(&world, &folder, &[]).expect(2).says("misspelt.json: `slot` is release, and the policy decides state-mapping");
    std::fs::write(folder.join("second.wasm"), GRACE_FOR_STOPPED.bytes).unwrap();
    test(&world, &folder, &[]).expect(2).says("several components");
    world.run(&["policy", "test", "missing.wasm"]).expect(2).says("missing.wasm");
}

#[test]
fn fuel_is_locked_and_a_decision_that_needs_more_fails() {
    let world = World::new("50");
    let servers = |count: usize| {
        let servers = vec![r#"{"state": "running"}"#; count].join(", ");
        format!(r#"{{"slot": "state-mapping", "question": {{"servers": [{servers}]}}, "expect": {{}}}}"#)
    };
    let folder = policy(&world, GRACE_FOR_STOPPED.bytes, &[("many", &servers(2))]);
    test(&world, &folder, &["--lock-fuel"]).expect(0);
    let lock = std::fs::read_to_string(folder.join("fixtures/fuel.lock")).unwrap();
    assert!(lock.contains("\"many\": "), "{lock}");
    test(&world, &folder, &[]).expect(0);
    // The same case of more work stands for a policy that has become slower.
    std::fs::write(folder.join("fixtures/many.json"), servers(200)).unwrap();
    let results = test(&world, &folder, &["--output", "json"]).expect(1).json();
    assert!(results["cases"][0]["problems"][0].as_str().unwrap().contains("fuel"), "{results}");
    assert_eq!(std::fs::read_to_string(folder.join("fixtures/fuel.lock")).unwrap(), lock);
}

#[test]
fn recorded_decisions_become_fixtures_one_for_each_combination() {
    let world = World::new("50");
    world.create("2").expect(0);
    world.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let folder = policy(&world, windlass_test_guests::ROLLBACK.bytes, &[]);
    let recorded = test(&world, &folder, &["--record", "--output", "json"]).expect(0).json();
    let fixtures = recorded["fixtures"].as_array().unwrap();
    assert!(recorded["decisions"].as_u64().unwrap() >= 2, "{recorded}");
    // Both were ordinary deletions: a second fixture would say the same.
    assert_eq!(fixtures.len(), 1, "{recorded}");
    assert_eq!(fixtures[0]["decided_then"], true, "the default decided then, and is tested now");
    let file = folder.join("fixtures/rollback-plan-none.json");
    assert_eq!(fixtures[0]["file"], file.to_str().unwrap());
    test(&world, &folder, &[]).expect(0);
    let again = test(&world, &folder, &["--record", "--output", "json"]).expect(0).json();
    assert_eq!(again["fixtures"].as_array().unwrap().len(), 0, "{again}");
}

#[test]
fn schemas_are_told_or_written() {
    let world = World::new("50");
    let schema = |more: &[&str]| {
        let line = ["policy", "schema", "--slot", "retry", "--output", "json"];
        world.run(&[&line[..], more].concat()).expect(0).file()
    };
    let all = schema(&[]);
    for of in ["question", "answer", "fixture", "rules"] {
        let one = schema(&["--of", of]);
        assert_eq!(one["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(one, all[of]);
    }
    let folder = world.home.path().join("schemas");
    world.run(&["policy", "schema", "--slot", "retry", "--folder", folder.to_str().unwrap()]).expect(0);
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("answer.json")).unwrap()).unwrap();
    assert_eq!(written, all["answer"]);
}

#[test]
fn rules_of_each_slot_are_begun_and_tested_without_a_compiler() {
    let world = World::new("50");
    for slot in ["state-mapping", "retry", "rollback", "release", "provisioning", "placement"] {
        let folder = world.home.path().join(slot);
        let folder = folder.to_str().unwrap();
        let name = format!("new-{slot}");
        world.run(&["policy", "new", &name, "--slot", slot, "--language", "rules", "--folder", folder]).expect(0);
        let results = world.json(&["policy", "test", folder]);
        assert_eq!((&results["passed"], &results["failed"]), (&2.into(), &0.into()), "{results}");
        world.run(&["policy", "build", folder]).expect(2).says("rules (.rules.toml) are used as they are");
    }
    let folder = world.home.path().join("retry");
    let rules = folder.join("new-retry.rules.toml");
    let text = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, text.replace("60000", "61000")).unwrap();
    let results = test(&world, &folder, &["--output", "json"]).expect(1).json();
    assert_eq!(results["failed"], 1, "{results}");
    std::fs::write(&rules, text.replace("out-of-stock", "out-of-stok")).unwrap();
    test(&world, &folder, &[]).expect(2).says("did you mean `out-of-stock`?");
}

#[test]
fn a_case_is_held_to_the_brake_of_the_host() {
    let world = World::new("50");
    let folder = world.home.path().join("policy");
    std::fs::create_dir_all(folder.join("fixtures")).unwrap();
    let rules = "slot = \"state-mapping\"\n[[rules]]\nwhen = \"server.age > 5\"\n\
                 answer = { mapped = { report = \"deleting\", action = \"reap\" } }\n";
    std::fs::write(folder.join("rash.rules.toml"), rules).unwrap();
    let servers = vec![r#"{"state": "running", "in-flight": "none"}"#; 20].join(", ");
    let many = format!(r#"{{"slot": "state-mapping", "question": {{"servers": [{servers}]}}, "expect": {{}}}}"#);
    std::fs::write(folder.join("fixtures/many.json"), many).unwrap();
    let results = test(&world, &folder, &["--output", "json"]).expect(1).json();
    let problem = results["cases"][0]["problems"][0].as_str().unwrap();
    assert!(problem.contains("the brake refused the answer: with it, 20 of 20"), "{problem}");
}

#[test]
fn a_new_policy_is_named_as_a_policy_can_be_and_gets_a_folder_of_its_own() {
    let world = World::new("50");
    let new = |name: &str, folder: &Path| {
        world.run(&[
            "policy",
            "new",
            name,
            "--slot",
            "retry",
            "--language",
            "rust",
            "--folder",
            folder.to_str().unwrap(),
        ])
    };
    let folder = world.home.path().join("mine");
    new("Patience", &folder).expect(2).says("lower-case");
    assert!(!folder.exists());
    new("patience", &folder).expect(0);
    let before = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    assert!(before.contains("PatiencePolicy"), "{before}");
    new("other", &folder).expect(2).says("is not empty");
    assert_eq!(std::fs::read_to_string(folder.join("src/lib.rs")).unwrap(), before);
    world.run(&["policy", "build", world.home.path().to_str().unwrap()]).expect(2).says("there is no Cargo.toml");
}

#[test]
fn a_missing_target_is_added_by_rustup_and_without_rustup_told() {
    let world = World::new("50");
    let home = world.home.path().to_owned();
    let folder = home.join("patience");
    let new =
        ["policy", "new", "patience", "--slot", "retry", "--language", "rust", "--folder", folder.to_str().unwrap()];
    world.run(&new).expect(0);
    // What follows the target is soon over: nothing is compiled before this.
    std::fs::write(folder.join("src/lib.rs"), "no Rust").unwrap();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    std::fs::write(folder.join("Cargo.toml"), manifest.replace("windlass-guest-sdk = { path = \"sdk\" }", "")).unwrap();
    let libraries = home.join("libraries");
    std::fs::create_dir(home.join("programs")).unwrap();
    let program =
        |name: &str, script: String| world.program(&format!("programs/{name}"), &format!("#!/bin/sh\n{script}\n"));
    let compiler = program("compiler-without-target", format!("echo {}", libraries.display()));
    let toolchain = Path::new(env!("CARGO")).parent().unwrap().display();
    let build = |path: String| {
        let mut command = world.command(&["policy", "build", folder.to_str().unwrap()]);
        command.envs(cargo_environment()).env("PATH", path).env("CARGO", env!("CARGO")).env("RUSTC", &compiler);
        Ran::of(&mut command)
    };
    build(format!("{toolchain}:/usr/bin:/bin")).expect(2).says("rustup target add wasm32-unknown-unknown");
    let asked = home.join("asked");
    let script = format!("echo \"$@\" > {}; mkdir {}", asked.display(), libraries.display());
    let rustup = program("rustup", script);
    let path = format!("{}:{toolchain}:/usr/bin:/bin", rustup.parent().unwrap().display());
    build(path).expect(1).says("the policy does not compile");
    assert_eq!(std::fs::read_to_string(asked).unwrap().trim(), "target add wasm32-unknown-unknown");
}
