//! `fleeting-plugin-scaleway simulate`, as an operator runs it before there is a runner, an account or a network.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use windlass_test_reference::{Documents, check_document, hold, repository};

const PAGE: &str = "docs/gitlab-runner-simulate.md";

struct Simulated {
    code: Option<i32>,
    said: String,
    warned: String,
}

/// Simulates this configuration, with nothing in the environment.
fn simulate(config: &str, arguments: &[&str]) -> Simulated {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"));
    command.arg("simulate").args(arguments).current_dir(folder.path()).env_clear();
    command.env("HOME", folder.path()).env("TMPDIR", folder.path()).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config.toml"], "nothing is left, and nothing else is touched");
    let [said, warned] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Simulated { code: status.code(), said, warned }
}

/// The same, which has to go well, as JSON.
fn outcome(config: &str, arguments: &[&str]) -> Value {
    let all = [&["--config", "config.toml", "--output", "json"], arguments].concat();
    let Simulated { code, said, warned } = simulate(config, &all);
    assert_eq!(code, Some(0), "{said}{warned}");
    let outcome = serde_json::from_str(&said).unwrap();
    check_document(&outcome);
    outcome
}

/// A configuration with this in its autoscaler and its plugin_config.
fn config(autoscaler: &str, plugin_config: &str, policy: &str) -> String {
    format!(
        "concurrent = 100\n[[runners]]\n[runners.autoscaler]\nplugin = 'fleeting-plugin-scaleway'\n{autoscaler}\n\
         [runners.autoscaler.plugin_config]\nname = 'ci'\nzone = 'fr-par-1'\nserver_type = 'DEV1-S'\n\
         image = 'ubuntu_noble'\n{plugin_config}\n[[runners.autoscaler.policy]]\n{policy}\n"
    )
}

/// The configuration that the documentation begins with.
fn documented() -> String {
    let page = std::fs::read_to_string(repository().join("docs/gitlab-runner.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// A page, in which what each of these commands says stands below it.
fn with_output(page: &str, command: &str, said: &str) -> String {
    let prompt = format!("$ {command}\n");
    let (before, rest) = page.split_once(&prompt).unwrap_or_else(|| panic!("{PAGE} has no {prompt}"));
    let (_, after) = rest.split_once("```").unwrap();
    format!("{before}{prompt}{said}```{after}")
}

#[test]
fn the_page_of_the_simulation_shows_what_it_says_of_the_documented_runner() {
    let mut page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    for arguments in ["--config config.toml", "--help"] {
        let written: Vec<&str> = arguments.split(' ').collect();
        let Simulated { code, said, warned } = simulate(&documented(), &written);
        assert_eq!((code, warned.as_str()), (Some(0), ""), "{said}");
        page = with_output(&page, &format!("fleeting-plugin-scaleway simulate {arguments}"), &said);
    }
    hold(PAGE, &page);
}

#[test]
fn the_published_schema_is_that_of_what_is_printed() {
    let mut documents = Documents::default();
    for arguments in [&["--hours", "1"][..], &["--hours", "2", "--pattern", "burst"]] {
        documents.add(&outcome(&documented(), arguments));
    }
    documents.hold("docs/gitlab-runner-simulate.schema.json", "What `fleeting-plugin-scaleway simulate` prints");
}

#[test]
fn a_seed_says_everything_that_happens_and_nothing_is_left_in_the_end() {
    let config = config("max_instances = 10\nmax_use_count = 1", "", "idle_count = 1\nidle_time = '10m'");
    let steady = ["--pattern", "steady", "--hours", "2", "--jobs-per-hour", "30", "--seed", "7"];
    let first = outcome(&config, &steady);
    assert_eq!(first, outcome(&config, &steady));
    assert_ne!(first["hours"], outcome(&config, &[&steady[..7], &["8"][..]].concat())["hours"]);
    let totals = &first["totals"];
    assert!(totals["jobs"].as_u64().unwrap() > 40, "{totals}");
    assert_eq!(totals["finished"], totals["jobs"], "{totals}");
    assert!(totals["creations"].as_u64() > totals["jobs"].as_u64(), "each job has its own, and one is idle: {totals}");
    for nothing in ["timed_out", "lost", "unfinished", "failures"] {
        assert_eq!(totals[nothing], 0, "{nothing}: {totals}");
    }
    assert_eq!(first["left"], Value::Array(Vec::new()));
    let cost = totals["cost"].as_f64().unwrap();
    let hours = totals["server_hours"].as_f64().unwrap();
    assert!((cost - hours * 0.008_976).abs() < 1e-6 && hours > 2.0, "{totals}");
    assert_eq!(first["hours"].as_array().unwrap().len(), 2);
    let at = |hour: usize| first["hours"][hour]["at"].as_str().unwrap().to_owned();
    assert_eq!((at(0), &first["starts_at"]), ("2026-08-03T00:00:00.000Z".to_owned(), &first["hours"][0]["at"]));
    assert_eq!(at(1), "2026-08-03T01:00:00.000Z");
}

#[test]
fn more_idle_instances_make_jobs_wait_less_and_cost_more() {
    let with = |idle: &str| {
        let config = config("max_instances = 20\nmax_use_count = 1", "", idle);
        outcome(&config, &["--pattern", "steady", "--hours", "3", "--ready-seconds", "60"])["totals"].clone()
    };
    let none = with("idle_count = 0\nidle_time = '0s'");
    let some = with("idle_count = 4\nidle_time = '20m'");
    let number = |totals: &Value, key: &str| totals[key].as_f64().unwrap();
    assert!(none["waited"]["p50_ms"].as_u64().unwrap() > 60_000, "a server has to start, and to be ready: {none}");
    assert!(some["waited"]["p50_ms"].as_u64().unwrap() < 3_000, "{some}");
    assert!(number(&some, "cost") > number(&none, "cost"), "{none} {some}");
    assert!(number(&some, "idle_share") > number(&none, "idle_share"), "{none} {some}");
}

#[test]
fn a_burst_above_max_instances_waits_at_gitlab_until_there_is_room() {
    let config = config("max_instances = 2\ncapacity_per_instance = 2", "", "idle_count = 0\nidle_time = '5m'");
    let burst = ["--pattern", "burst", "--hours", "1", "--jobs-per-hour", "40", "--job-minutes", "10"];
    let burst = outcome(&config, &burst);
    let totals = &burst["totals"];
    assert_eq!((&totals["jobs"], &totals["finished"], &totals["timed_out"]), (&40.into(), &40.into(), &0.into()));
    assert_eq!(totals["creations"], 2, "{totals}");
    assert!(totals["waited"]["worst_ms"].as_u64().unwrap() > 60 * 60_000, "{totals}");
    assert_eq!((&burst["hours"][0]["running"], &burst["hours"][0]["instances"]), (&4.into(), &2.into()));
}

#[test]
fn a_group_of_macs_has_a_pool_of_as_many_hosts_as_it_may_have_instances() {
    let macs = "concurrent = 9\n[[runners]]\n[runners.autoscaler]\nplugin = 'fleeting-plugin-scaleway'\n\
        max_instances = 2\n[runners.autoscaler.plugin_config]\nkind = 'apple-silicon'\nname = 'macs'\n\
        zone = 'fr-par-1'\nserver_type = 'M4-S'\npool_prefix = 'pool-'\n";
    let steady = ["--pattern", "steady", "--hours", "1", "--jobs-per-hour", "3", "--hourly-price", "0.1"];
    let outcome = outcome(macs, &steady);
    let totals = &outcome["totals"];
    assert_eq!((&totals["finished"], &outcome["left"]), (&totals["jobs"], &Value::Array(Vec::new())), "{outcome}");
    assert!((0.19..0.21).contains(&totals["cost"].as_f64().unwrap()), "two hosts for an hour: {totals}");
    assert!(outcome["notes"].to_string().contains("so there are 2 hosts"), "{outcome}");
}

#[test]
fn what_only_the_users_account_has_is_replaced_and_said() {
    let own = "image = { name = 'ci-image' }\nprofile = 'ci'\nsecret_key = 'x'\n\
               security_group = '00000000-0000-4000-8000-000000000001'\n\
               private_networks = ['00000000-0000-4000-8000-000000000002']\npublic_ipv4_disabled = true\n\
               public_ipv6_disabled = true\nmetrics = '127.0.0.1:1'\nstate_dir = '/nonexistent'\n\
               cloud_init = 'packages: []'";
    let config = config("max_instances = 3", own, "idle_count = 1").replace("image = 'ubuntu_noble'\n", "");
    let outcome = outcome(&config, &["--hours", "1", "--pattern", "steady"]);
    assert_eq!(outcome["totals"]["finished"], outcome["totals"]["jobs"], "{outcome}");
    let notes = format!("{} {}", outcome["notes"], outcome["warnings"]);
    for words in [
        "no image called",
        "ci-image",
        "security_group: of your account, and left out",
        "private_networks: the simulator does not have your account's, so it uses new ones",
        "warning (2 times): cloud_init: its first line is not",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert!(!notes.contains("decision was not recorded"), "no log is kept: {notes}");
}

#[test]
fn all_mistakes_of_the_file_are_told_at_once_and_nothing_is_simulated() {
    let wrong =
        config("max_instances = 31", "max_size = 30\nserver_typ = 'X'", "idle_time = '20 min'\nperiods = ['*']");
    let Simulated { code, said, warned } = simulate(&wrong, &["--config", "config.toml"]);
    assert_eq!((code, said.as_str()), (Some(1), ""), "{warned}");
    for words in
        ["group ci: 3 mistakes", "policy[0].idle_time: expected", "policy[0].periods: \"*\" has 1", "server_typ"]
    {
        assert!(warned.contains(words), "{words}: {warned}");
    }
    let policies = "[runners.autoscaler.plugin_config.policies.retry]\npath = 'missing.wasm'";
    let wrong = config("max_instances = 31", &format!("max_size = 30\n{policies}"), "idle_count = 1")
        .replace("DEV1-S", "DEV1-SS")
        .replace("[[runners]]\n", "[[runners]]\nexecutor = 'docker'\n");
    let Simulated { code, warned, .. } = simulate(&wrong, &["--config", "config.toml"]);
    assert_eq!(code, Some(1));
    let executor = "executor = \"docker\" starts no plugin";
    for words in ["did you mean DEV1-S?", "max_instances = 31 is above max_size = 30", "missing.wasm", executor] {
        assert!(warned.contains(words), "{words}: {warned}");
    }
    let Simulated { code, warned, .. } = simulate(&wrong, &["other", "--config", "config.toml"]);
    assert_eq!(code, Some(1));
    assert!(warned.contains("the groups of this plugin in the runner's configuration are: ci"), "{warned}");
}

#[test]
fn wrong_usage_is_told_at_once_and_ends_with_2() {
    let Simulated { code, said, warned } = simulate("", &["--hour", "3", "--pattern", "weekly", "--seed"]);
    assert_eq!((code, said.as_str()), (Some(2), ""));
    for words in ["there is no option --hour; did you mean --hours?", "--pattern is one of", "--seed needs a value"] {
        assert!(warned.contains(words), "{words}: {warned}");
    }
    assert!(warned.ends_with("`fleeting-plugin-scaleway simulate --help` shows the usage\n"), "{warned}");
}
