//! GitLab Runner's own keys, as far as they matter for the plugin: a part of the page of keys.

use std::fmt::Write as _;
use std::time::Duration;

use windlass_test_reference::{cell, wrapped};

use super::rehearsal::{Autoscaling, KEYS, POLICY_KEYS};
use super::runner_file::{CONNECTOR_KEYS, OTHER_KEYS, RunnerFile};
use crate::connect::family;

/// Tables of the runner's file.
#[derive(Clone, Copy)]
enum Table {
    Global,
    Autoscaler,
    Policy,
    Connector,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Autoscaler => "autoscaler",
            Self::Policy => "policy",
            Self::Connector => "connector",
        }
    }

    /// Whether the plugin knows the key there.
    fn has(self, key: &str) -> bool {
        match self {
            Self::Global => key == "concurrent" && RunnerFile::parse("concurrent = 'x'").unwrap().concurrent().is_err(),
            Self::Autoscaler => KEYS.contains(&key) || OTHER_KEYS.contains(&key),
            Self::Policy => POLICY_KEYS.contains(&key),
            Self::Connector => CONNECTOR_KEYS.contains(&key),
        }
    }
}

/// `"15m"`, `"2s"`.
fn written(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

struct Row {
    table: Table,
    keys: &'static [&'static str],
    default: String,
    /// What they mean with this plugin.
    meaning: &'static str,
}

fn row(table: Table, keys: &'static [&'static str], default: impl Into<String>, meaning: &'static str) -> Row {
    Row { table, keys, default: default.into(), meaning }
}

fn rows() -> Vec<Row> {
    let file = RunnerFile::parse("[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\n").unwrap();
    let mut problems = Vec::new();
    let read = Autoscaling::read(&file, file.group(None).unwrap(), None, &mut problems);
    assert!(problems.is_empty() && read.max_instances == 0, "{problems:?}");
    let intervals = format!("{}, {}", written(read.update_interval), written(read.update_interval_when_expecting));
    vec![
        row(
            Table::Global,
            &["concurrent"],
            "",
            "Jobs at once, of all `[[runners]]`. If it is less than `max_instances` × `capacity_per_instance`, you pay \
            for instances that wait",
        ),
        row(
            Table::Autoscaler,
            &["max_instances"],
            "0: no limit",
            "Instances in any state; at most the plugin's `max_size`. Leftover or locked instances count in `max_size` \
            only",
        ),
        row(
            Table::Autoscaler,
            &["capacity_per_instance", "max_use_count"],
            "",
            "Jobs at once on an instance, and in its life. With 1 and 1 each job has a fresh server, and waits for \
            one, except for the `idle_count`",
        ),
        row(
            Table::Policy,
            &["idle_count", "idle_time"],
            "",
            "`idle_count` counts jobs, not instances. \
            [Fewer at night](gitlab-runner-production.md#keep-fewer-idle-instances-at-night)",
        ),
        row(
            Table::Policy,
            &["periods", "timezone"],
            "",
            "When the policy applies: five cron fields. The last policy that applies counts",
        ),
        row(
            Table::Autoscaler,
            &["instance_ready_command"],
            "none",
            "Runs on each instance once the instance runs. If it fails, the instance is removed. Without it, \
            installing Docker by cloud-init races the first jobs. `cloud-init status --wait` exits with \
            [2](https://cloudinit.readthedocs.io/en/latest/explanation/failure_states.html#error-codes) if it is done \
            with a warning",
        ),
        row(
            Table::Autoscaler,
            &["instance_acquire_timeout"],
            written(read.instance_acquire_timeout),
            "Set it higher than `create_timeout` and cloud-init together",
        ),
        row(
            Table::Autoscaler,
            &["update_interval", "update_interval_when_expecting"],
            intervals,
            "Each update lists each zone. The longer the first, the later a lost server is replaced",
        ),
        row(
            Table::Connector,
            &["use_external_addr"],
            "`false`",
            "Set it to `true`, unless the runner is in a private network with the instances",
        ),
        row(
            Table::Connector,
            &["username"],
            format!("`{}`", family("ubuntu_noble").user),
            "Macs: the default is the user that Scaleway reports",
        ),
        row(
            Table::Connector,
            &["key_path", "use_static_credentials"],
            "",
            "With both, the runner uses your own key. If that is an unencrypted OpenSSH key, the plugin gives its \
            public part to the servers. Otherwise the key must be among the project's SSH keys. Without these settings \
            the group creates its own key pair once",
        ),
        row(
            Table::Autoscaler,
            &["state_storage.enabled", "state_storage.dir"],
            "`false`, `.taskscaler` beside `config.toml`",
            "`false`: **at its start, the runner removes every instance that it finds**. `true`: it keeps and reuses \
            those that it knows from before; if they had jobs, only with `keep_instance_with_acquisitions`. The folder \
            is not `state_dir`. It holds keys, and must survive a restart",
        ),
        row(
            Table::Autoscaler,
            &["delete_instances_on_shutdown"],
            "`false`",
            "All instances are removed when the runner ends. `shutdown_timeout` (global, 30 s) limits that: set it to \
            120. The next start removes what is not gone by then. If there is no next start, [stop \
            everything](gitlab-runner-troubleshooting.md#stop-everything). The plugin's `delete_on_shutdown` does the \
            same, and includes instances that the runner has forgotten",
        ),
    ]
}

/// Everything below the heading.
pub(crate) fn section() -> String {
    const GITLAB: &str = "https://docs.gitlab.com/runner/configuration/advanced-configuration/";
    let introduction = format!(
        "From GitLab's documentation of 19.4 ([autoscaler]({GITLAB}#the-runnersautoscaler-section), \
        [global]({GITLAB}#the-global-section)). Only the autoscaler's `policy` takes effect without a restart."
    );
    let mut section = format!("{}\n\n| key | table | with this plugin |\n|---|---|---|\n", wrapped(&introduction));
    for Row { table, keys, default, meaning } in rows() {
        for key in keys {
            let first = key.split('.').next().unwrap();
            assert!(table.has(first), "the plugin knows no {first} in the table {}", table.name());
        }
        let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let default = if default.is_empty() { String::new() } else { format!(". Default: {default}") };
        let _ = writeln!(section, "| {} | {} | {}{default} |", keys.join(", "), table.name(), cell(meaning));
    }
    section
}
