//! Examples at the end of each command's help: command lines to copy, each of which a test reads.

use clap::Command;

/// A command's path, and lines that show it at work.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("demo", &["windlass demo", "windlass demo --console"]),
    (
        "server create",
        &[
            "windlass server create --group ci --count 3 --type DEV1-S,PLAY2-PICO --image ubuntu_noble",
            "windlass server create --group db --type DEV1-M --image ubuntu_noble --extra-volume block:20GB",
            "windlass server create --group ci --type DEV1-S --image ubuntu_noble --detach",
        ],
    ),
    (
        "server list",
        &[
            "windlass server list --group ci",
            "windlass server list -o wide",
            "windlass server list -o name",
            "windlass server list -o json",
        ],
    ),
    ("server show", &["windlass server show web-1"]),
    ("type list", &["windlass type list --in-stock", "windlass type list --zone nl-ams-1 --arch arm64 -o json"]),
    ("image list", &["windlass image list", "windlass image list --own -o name"]),
    ("zone list", &["windlass zone list"]),
    ("version", &["windlass version"]),
    ("example", &["windlass example", "windlass example farm.toml", "windlass example config.toml --out example.toml"]),
    ("server delete", &["windlass server delete web-1", "windlass server delete --group ci --yes"]),
    ("cluster create", &["windlass cluster create farm.toml --dry-run", "windlass cluster create farm.toml"]),
    (
        "cluster apply",
        &["windlass cluster apply farm.toml --dry-run", "windlass cluster apply farm.toml --replace --at-a-time 2"],
    ),
    ("cluster diff", &["windlass cluster diff farm.toml"]),
    ("cluster export", &["windlass cluster export farm"]),
    (
        "cluster scale",
        &["windlass cluster scale farm workers=5 cache=1", "windlass cluster scale farm --remove farm-workers-2"],
    ),
    (
        "cluster replace",
        &[
            "windlass cluster replace farm farm-workers-2",
            "windlass cluster replace farm --group workers --at-a-time 2",
        ],
    ),
    ("cluster terminate", &["windlass cluster terminate farm", "windlass cluster terminate farm --force --yes"]),
    ("cluster cancel", &["windlass cluster cancel farm"]),
    ("cluster abandon", &["windlass cluster abandon farm --reason closed"]),
    ("cluster resume", &["windlass cluster resume"]),
    ("cluster status", &["windlass cluster status farm", "windlass cluster status farm --offline -o json"]),
    ("cluster attach", &["windlass cluster attach farm"]),
    ("cluster watch", &["windlass cluster watch farm", "windlass cluster watch farm -o json-lines"]),
    ("cluster refresh", &["windlass cluster refresh farm"]),
    ("cluster list", &["windlass cluster list"]),
    ("cluster history", &["windlass cluster history farm", "windlass cluster history farm --operation 3"]),
    ("cluster validate", &["windlass cluster validate farm.toml", "windlass cluster validate farm.toml --offline"]),
    (
        "console",
        &["windlass console", "windlass console --listen 0.0.0.0:7474 --token-file token --allow-host ops.example"],
    ),
    (
        "report",
        &[
            "windlass report --operation ci-0nqrsxtrgyns --out failure.html",
            "windlass report --since 24h --format markdown",
        ],
    ),
    ("operation list", &["windlass operation list --open", "windlass operation list --removals --since 7d"]),
    ("operation show", &["windlass operation show ci-0nqrsxtrgyns"]),
    (
        "operation watch",
        &[
            "windlass operation watch",
            "windlass operation watch ci-0nqrsxtrgyns",
            "windlass operation watch -o json-lines",
        ],
    ),
    ("operation attach", &["windlass operation attach ci-0nqrsxtrgyns"]),
    ("operation resume", &["windlass operation resume", "windlass operation resume --detach"]),
    ("operation cancel", &["windlass operation cancel ci-0nqrsxtrgyns"]),
    ("operation abandon", &["windlass operation abandon ci-0nqrsxtrgyns --reason closed"]),
    ("state show", &["windlass state show"]),
    ("state take-over", &["windlass state take-over --yes"]),
    ("state hosts", &["windlass state hosts"]),
    (
        "state migrate",
        &["windlass state migrate --from ~/.local/state/windlass --to postgres://ops@db.example.com/windlass"],
    ),
    ("state downgrade", &["windlass state downgrade --to 1"]),
    ("sweep", &["windlass sweep --dry-run", "windlass sweep --yes"]),
    ("doctor", &["windlass doctor"]),
    ("init", &["windlass init", "windlass init --yes --zone fr-par-1 --group ci"]),
    ("config show", &["windlass config show", "windlass config show -o json"]),
    ("policy new", &["windlass policy new gentle-retry --slot retry --language rules"]),
    ("policy build", &["windlass policy build gentle-retry --out gentle-retry.wasm"]),
    ("policy schema", &["windlass policy schema --slot retry"]),
    ("policy test", &["windlass policy test gentle-retry"]),
    ("policy inspect", &["windlass policy inspect gentle-retry.wasm"]),
    ("policy check", &["windlass policy check gentle-retry.wasm"]),
    ("policy run", &["windlass policy run gentle-retry.wasm --slot retry --example"]),
    ("policy prove", &["windlass policy prove gentle-retry.wasm --slot retry"]),
    ("policy diff", &["windlass policy diff old.wasm new.wasm --slot retry"]),
    (
        "policy audit",
        &[
            "windlass policy audit keep-all.rules.toml",
            "windlass policy audit keep-all.rules.toml --fail-on-destructive",
        ],
    ),
    ("policy bench", &["windlass policy bench gentle-retry.wasm"]),
    ("policy list", &["windlass policy list"]),
    ("policy status", &["windlass policy status", "windlass policy status --all"]),
    ("policy shadow", &["windlass policy shadow --slot rollback"]),
    (
        "policy serve",
        &[
            "windlass policy serve --listen unix:/run/windlass/policy.sock",
            "windlass policy serve --listen unix:policy.sock --allow-uid 998",
        ],
    ),
    ("policy sign", &["windlass policy sign gentle-retry.wasm --key release.key"]),
    ("policy verify", &["windlass policy verify gentle-retry.wasm --key release.pub"]),
    ("policy push", &["windlass policy push gentle-retry.wasm oci://registry.example/team/gentle-retry:1.0.0"]),
    ("policy pull", &["windlass policy pull oci://registry.example/team/gentle-retry:1.0.0 --out gentle-retry.wasm"]),
    ("policy lock", &["windlass policy lock", "windlass policy lock --update"]),
    ("decision list", &["windlass decision list", "windlass decision list --removals --since 7d"]),
    (
        "decision show",
        &[
            "windlass decision show 01JD0000000000000000000000",
            "windlass decision show 01JD0000000000000000000000 --raw",
        ],
    ),
    ("decision replay", &["windlass decision replay 01JD0000000000000000000000"]),
    (
        "rehearse",
        &[
            "windlass rehearse monday.toml --arm today=config.toml",
            "windlass rehearse monday.toml --arm today=config.toml --arm two-zones=next.toml --seeds 5",
            "windlass rehearse monday.toml --arm next=next.toml --never 'wait_p95>300'",
            "windlass rehearse evening.toml --arm one=farm.toml --arm both=both.toml --never 'ready_p95>600'",
        ],
    ),
    (
        "rehearse record",
        &[
            "windlass rehearse record --since 7d --group ci",
            "windlass rehearse record --since 7d --group ci --jobs jobs.json",
            "windlass rehearse record --since 7d --cluster farm",
        ],
    ),
    (
        "rehearse import",
        &["windlass rehearse import jobs.json", "windlass rehearse import answer.json --job-minutes 8"],
    ),
    ("rehearse schema", &["windlass rehearse schema"]),
    (
        "rehearse tune",
        &[
            "windlass rehearse tune monday.toml --arm today=config.toml --search search.toml --never 'wait_p95>60'",
            "windlass rehearse tune monday.toml --arm today=config.toml --search search.toml --never 'wait_p95>60' \
             --write tuned.toml",
        ],
    ),
    ("conformance", &["windlass conformance --help"]),
    ("simulator", &["windlass simulator --listen 127.0.0.1:8080 --time-scale 20"]),
    ("completions", &["windlass completions bash", "windlass completions zsh --names"]),
    ("man", &["windlass man --out man1"]),
];

/// The command with its examples.
pub(super) fn add(command: Command) -> Command {
    let mut command = command;
    for (path, lines) in EXAMPLES {
        let words: Vec<&str> = path.split(' ').collect();
        command = with(command, &words, lines);
    }
    command
}

fn with(command: Command, path: &[&str], lines: &[&str]) -> Command {
    match path.split_first() {
        None => command.after_help(format!("Examples:\n  {}", lines.join("\n  "))),
        Some((first, rest)) => {
            let rest = rest.to_vec();
            command.mut_subcommand(*first, |of| with(of, &rest, lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::super::Arguments;
    use super::*;

    #[test]
    fn each_command_has_examples_and_each_of_them_is_read() {
        let command = Arguments::documented();
        let mut leaves = Vec::new();
        collect(&command, String::new(), &mut leaves);
        for leaf in &leaves {
            assert!(EXAMPLES.iter().any(|(path, _)| path == leaf), "{leaf} has no example");
        }
        for (path, lines) in EXAMPLES {
            assert!(leaves.iter().any(|leaf| leaf == path), "there is no command {path}");
            for line in *lines {
                assert!(line.starts_with(&format!("windlass {path}")), "{line}");
                match Arguments::documented().try_get_matches_from(line.split_whitespace()) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::DisplayHelp => {}
                    Err(error) => panic!("{line}: {error}"),
                }
            }
        }
    }

    fn collect(command: &Command, path: String, leaves: &mut Vec<String>) {
        let mut below = command.get_subcommands().filter(|below| below.get_name() != "help").peekable();
        // One that needs no command below it, such as `rehearse`, is a command itself.
        if below.peek().is_none() || (!path.is_empty() && command.is_args_conflicts_with_subcommands_set()) {
            leaves.push(path.clone());
        }
        for below in below {
            let path = if path.is_empty() { String::new() } else { format!("{path} ") };
            collect(below, path + below.get_name(), leaves);
        }
    }

    #[test]
    fn the_help_of_a_command_ends_with_its_examples() {
        let asked = Arguments::documented().try_get_matches_from(["windlass", "cluster", "scale", "--help"]);
        let Err(help) = asked else { panic!("help is reported as an error") };
        let help = help.to_string();
        assert!(help.trim_end().ends_with("windlass cluster scale farm --remove farm-workers-2"), "{help}");
    }
}
