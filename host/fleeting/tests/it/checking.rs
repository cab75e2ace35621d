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
        (&["version", "extra"], "version takes no argument"),
        (&["help", "check"], "help takes no argument"),
        (&["bootstrap"], "bootstrap needs the path of the plugin's repository, for example"),
        (&["bootstrap", "../plugin"], "\"../plugin\" is not a repository path: "),
        (&["bootstrap", "a", "b"], "bootstrap takes one repository, and \"b\" is a second one"),
    ] {
        let (code, said) = plugin(arguments);
        assert!(code == Some(2) && said.starts_with(words) && said.lines().count() < 5, "{said}");
    }
    // A machine with a runner may have the file.
    for command in ["check", "simulate", "adopt"] {
        if std::path::Path::new("/etc/gitlab-runner/config.toml").exists() {
            break;
        }
        let (code, said) = plugin(&[command]);
        assert!(code == Some(1) && said.starts_with("cannot read /etc/gitlab-runner/config.toml"), "{said}");
        assert!(said.ends_with("name the runner's configuration with --config <file>\n"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_written_is_told_and_the_plugin_ends_with_4() {
    let operator = Operator::new().await;
    let file = operator.folder.path().join("config.toml");
    std::fs::write(&file, group("ci", 1, SERVERS)).unwrap();
    let file = file.to_str().unwrap();
    for arguments in [&["version"][..], &["check", file], &["simulate", file, "--hours", "1"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleeting-plugin-scaleway"));
        command.args(arguments).env_clear().envs([("SCW_SECRET_KEY", KEY), ("SCW_API_URL", &operator.url)]);
        command.env("SCW_PROJECT_ID", "7d0e3a4c-0000-4000-8000-000000000001");
        command.env("HOME", operator.folder.path()).env("TMPDIR", operator.folder.path()).stdin(Stdio::null());
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let Output { status, stderr, .. } =
            tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(4), "{arguments:?}: {said}");
        assert!(said.contains("it is done, and its result could not be written on stdout: "), "{said}");
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
    let listed = SERVERS.replace("nl-ams-1", "fr-par-11");
    let (is_good, said) = operator.check(&group("listed", 1, &listed), &[]).await;
    assert!(!is_good && said.contains("no servers in a zone fr-par-11; did you mean fr-par-1?"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_of_one_name_are_a_mistake_unless_each_has_its_own_state() {
    let operator = Operator::new().await;
    let named = |more: &str| group("ci", 1, &format!("{SERVERS}\n{more}"));
    let (is_good, said) = operator.check(&[named(""), named("")].concat(), &[]).await;
    assert!(!is_good && said.matches("  - name: another group has the same name").count() == 2, "{said}");
    let state = |name: &str| named(&format!("state_dir = '{}'", operator.folder.path().join(name).display()));
    let (is_good, said) = operator.check(&[state("one"), state("two")].concat(), &[]).await;
    assert!(is_good && said.matches("  note: name: another group has the same name").count() == 2, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_in_rules_has_its_line_and_a_limit_that_is_wrong_is_not_said_to_be_missing() {
    let operator = Operator::new().await;
    let rules = operator.folder.path().join("retry.rules.toml");
    std::fs::write(&rules, "first = 1\nsecond = 2\n").unwrap();
    let policy = format!("[runners.autoscaler.plugin_config.policies.retry]\npath = '{}'", rules.display());
    let (_, said) = operator.check(&group("ci", 1, &format!("{SERVERS}\n{policy}")), &[]).await;
    assert!(said.lines().filter(|line| line.starts_with("  - policies.retry: ")).count() >= 2, "{said}");
    let limit = group("ci", 1, SERVERS).replace("max_instances = 1", "max_instances = 'ten'");
    let (_, said) = operator.check(&limit, &[]).await;
    assert!(said.contains("  - max_instances: ") && !said.contains("max_instances is not set"), "{said}");
}
