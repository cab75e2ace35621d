//! `fleeting-plugin-scaleway check`, as an operator runs it before the runner does.

use std::process::{Command, Output, Stdio};

use windlass_simulator::{AppleSiliconPool, Options, Simulator};

use crate::plugin::KEY;

struct Operator {
    simulator: Simulator,
    url: String,
    folder: tempfile::TempDir,
}

impl Operator {
    async fn new() -> Self {
        let simulator = Simulator::new(Options::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = simulator.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Self { simulator, url, folder: tempfile::tempdir().unwrap() }
    }

    /// Checks this configuration; answers whether it is good, and what was said.
    async fn check(&self, config: &str, arguments: &[&str]) -> (bool, String) {
        let file = self.folder.path().join("config.toml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"));
        command.arg("check").args(arguments).arg("--config").arg(&file).env_clear();
        command.envs([("SCW_SECRET_KEY", KEY), ("SCW_API_URL", &self.url)]).stdin(Stdio::null());
        command.env("SCW_PROJECT_ID", "7d0e3a4c-0000-4000-8000-000000000001");
        command.env("HOME", self.folder.path()).env("TMPDIR", self.folder.path());
        let Output { status, stdout, stderr } =
            tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (status.success(), said)
    }
}

fn group(name: &str, max_instances: u32, more: &str) -> String {
    format!(
        "[[runners]]\n[runners.autoscaler]\nplugin = 'fleeting-plugin-scaleway'\nmax_instances = {max_instances}\n\
         [runners.autoscaler.plugin_config]\nname = '{name}'\n{more}\n"
    )
}

const SERVERS: &str = "server_type = 'DEV1-S'\nimage = 'ubuntu_noble'\nzone = ['fr-par-1', 'nl-ams-1']\nmax_size = 30";

#[tokio::test(flavor = "multi_thread")]
async fn a_good_configuration_is_told_with_its_places_and_what_it_costs_when_full() {
    let operator = Operator::new().await;
    operator.simulator.add_apple_silicon_pool(&AppleSiliconPool::new("ci-pool-", 1, "M4-S").unwrap());
    let macs = "kind = 'apple-silicon'\nserver_type = 'M4-S'\nzone = 'fr-par-1'\npool_prefix = 'ci-pool-'";
    let config = ["concurrent = 21\n", &group("ci", 20, SERVERS), &group("macs", 2, macs)].concat();
    let (is_good, said) = operator.check(&config, &[]).await;
    assert!(is_good, "{said}");
    for words in [
        "group ci: ok",
        "DEV1-S in fr-par-1: EUR 0.0",
        "DEV1-S in nl-ams-1: EUR 0.0",
        "with 20 instances: up to EUR 0.",
        "group macs: ok",
        "M4-S in fr-par-1: price not known",
        "up to 2 machines",
        "concurrent = 21 at the top of the file is less than the 22 jobs",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(operator.simulator.requests().iter().all(|request| request.method == "GET"), "nothing is changed");
    let (is_good, said) = operator.check(&config, &["macs"]).await;
    assert!(is_good && !said.contains("group ci"), "{said}");
    let left: Vec<_> =
        std::fs::read_dir(operator.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["config.toml"], "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_all_groups_are_told_at_once() {
    let operator = Operator::new().await;
    let policy = "[runners.autoscaler.plugin_config.policies.retry]\npath = 'missing.wasm'";
    let types = SERVERS.replace("DEV1-S", "DEV1-SS").replace("noble", "nobel");
    let config = [
        group("ci", 31, &format!("{SERVERS}\n{policy}")),
        group("types", 0, &types),
        group("keys", 1, "server_typ = 'DEV1-S'\nimag = 'ubuntu_noble'"),
        group("doubts", 1, &format!("{SERVERS}\ncloud_init = 'packages: []'\ncreate_timeout = 10")),
    ]
    .concat();
    let (is_good, said) = operator.check(&config, &[]).await;
    assert!(!is_good, "{said}");
    let path = operator.folder.path().join("config.toml");
    assert_eq!(operator.check(&config, &[path.to_str().unwrap()]).await, (false, said.clone()), "a path is the file");
    for words in [
        "group ci: 2 mistakes",
        "max_instances = 31 is above max_size = 30",
        "missing.wasm",
        "DEV1-SS does not exist in fr-par-1; did you mean DEV1-S?",
        "there is no image with the label ubuntu_nobel; did you mean ubuntu_noble?",
        "note: max_instances is not set",
        "server_typ",
        "imag",
        "cloud_init: its first line is not `#cloud-config`",
        "create_timeout: servers take longer than 10 s to boot",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn wrong_usage_is_told_with_the_nearest_word_and_without_the_whole_help() {
    let plugin = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"));
        let Output { status, stderr, .. } = command.args(arguments).env_clear().output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    };
    for (arguments, words) in [
        (&["chekc"][..], "there is no command \"chekc\"; did you mean check?"),
        (&["check", "--confg", "a.toml"], "check has no option --confg; did you mean --config?"),
        (&["check", "--config"], "--config needs a file"),
    ] {
        let (code, said) = plugin(arguments);
        assert!(code == Some(2) && said.starts_with(words) && said.lines().count() < 5, "{said}");
    }
}

#[test]
fn help_that_nobody_reads_to_its_end_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"));
    let mut child = command.arg("--help").env_clear().stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_does_not_exist_and_keys_of_the_command_line_are_told_with_what_was_meant() {
    let operator = Operator::new().await;
    let zone = SERVERS.replace("['fr-par-1', 'nl-ams-1']", "'fr-par-9'");
    let keys = format!("{SERVERS}\nipv4 = 1\nwait = 60\npatience = 5");
    let (_, said) = operator.check(&[group("zone", 1, &zone), group("keys", 1, &keys)].concat(), &[]).await;
    assert!(said.contains("no servers in a zone fr-par-9; did you mean fr-par-1?"), "{said}");
    assert!(said.contains("ipv4: there is no such key; did you mean `public_ipv4_disabled`?"), "{said}");
    assert_eq!(said.matches("the keys are ").count(), 1, "{said}");
}
