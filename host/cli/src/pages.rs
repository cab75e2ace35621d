//! The pages of the documentation that are made of the command line, the exit codes and the configuration.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use windlass_inspect::failure::Exit;
use windlass_test_reference::{cell, commands, hold, wrapped};

use crate::arguments::Arguments;
use crate::configuration;
use crate::toml_reader::ASKED;

#[test]
fn the_page_of_the_commands_is_made_of_the_command_line() {
    let introduction = "Every command and option, as `windlass help` has them. The examples are run by a test. \
        [How it is used](operating.md), [what it writes as JSON](json-output.md), [its exit codes](exit-codes.md).";
    let page = format!(
        "# Commands of `windlass`\n\n<!-- Generated from the command line: just reference -->\n\n{}\n{}",
        wrapped(introduction),
        commands(Arguments::documented())
    );
    hold("docs/commands.md", &page);
}

#[test]
fn the_page_of_the_exit_codes_is_made_of_the_codes_and_so_is_the_help() {
    let mut page = "# Exit codes\n\n<!-- Generated from the code: just reference -->\n\n\
        | `windlass` ends with | |\n|---|---|\n| 0 | done |\n"
        .to_owned();
    let mut help = "Exit codes: 0 done".to_owned();
    for exit in Exit::ALL {
        let _ = writeln!(page, "| {} | {} |", exit as u8, exit.meaning());
        let _ = write!(help, " · {} {}", exit as u8, exit.meaning());
    }
    let after = Arguments::documented().get_after_help().map(ToString::to_string).unwrap_or_default();
    assert!(after.starts_with(&format!("{help}.\n")), "{after}");
    let more = "3 also means that only some of several servers were created, that [a policy kept \
        one](decisions.md#who-asks-which-slot), or that a [cancellation](operations.md#cancel-an-operation) came too \
        late. To see unfinished operations, run [`windlass operation list \
        --open`](operations.md#resume-open-operations). The next `server create`, `server delete` or `sweep` finishes \
        or undoes operations on servers.";
    let checks = "| command | exits with 1 if |\n|---|---|\n\
        | `doctor`, `conformance` | a check finds a problem |\n\
        | `policy check` | a rule can never answer |\n\
        | `policy test`, `policy prove` | a fixture fails, a law is violated |\n\
        | `policy verify` | a policy is not trusted |\n\
        | `rehearse` | a law is violated, or something is left |\n\
        | any with an option `--fail-on-...` | that happens |\n";
    let unusable = "They exit with 2 if their input is unusable.";
    let others = "`windlass-controller` and `fleeting-plugin-scaleway` exit with 0 after a requested stop, with 1 \
        after a failure, with 2 on wrong usage, and with 4 if the result of one of their commands could not be written \
        to stdout. The controller also exits with 2 if its configuration or credentials are unusable. The next start \
        continues from the journal.";
    let _ = write!(page, "\n{}\n\n{checks}\n{unusable}\n\n{}\n", wrapped(more), wrapped(others));
    hold("docs/exit-codes.md", &page);
}

/// What the configuration may hold: a key's table, the key, and what it means.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "",
        &[
            (
                "owner",
                "The owner of new resources: the value of the owner tag, of lower-case letters, digits and dashes. \
                Absent: created once and kept in the state directory",
            ),
            (
                "state_dir",
                "Journal, decision log and caches. Absent: `$XDG_STATE_HOME/windlass`, else \
                `~/.local/state/windlass`. `--state-dir` and `WINDLASS_STATE_DIR` come first",
            ),
            (
                "state",
                "The URL of a database that has the journal and clusters, [shared with other machines](shared-state.md). \
                `WINDLASS_STATE` comes first",
            ),
            ("api_url", "The address of Scaleway's API. `--api-url` and `SCW_API_URL` come first"),
            ("profile", "The profile of Scaleway's own configuration file. `--profile` and `SCW_PROFILE` come first"),
            ("zone", "The availability zone. `--zone` and `SCW_DEFAULT_ZONE` come first"),
            ("project", "The project that new resources belong to. `SCW_DEFAULT_PROJECT_ID` comes first"),
        ],
    ),
    (
        "server",
        &[
            ("group", "The group of new servers"),
            ("type", "Server types, in order of preference"),
            ("image", "A marketplace label or an image's id"),
            ("ipv4", "How many public IPv4 addresses"),
            ("ipv6", "How many public IPv6 addresses"),
            ("volume_size", "The root volume's size, for example `\"20GB\"`"),
            ("volume_type", "The root volume's kind: `\"block\"` or `\"local\"`"),
            ("private_networks", "Ids of private networks to join"),
            ("security_group", "A security group's id"),
            ("placement_group", "A placement group's id"),
            ("tags", "Tags in addition to Windlass's own"),
            ("wait", "How long a server may take until it runs, for example `\"10m\"`"),
        ],
    ),
    (
        "limits",
        &[
            ("parallel", "Servers worked on at the same time"),
            ("concurrent_requests", "Calls in flight at the same time to each of Scaleway's products"),
            ("requests_per_second", "Calls to Scaleway in a second"),
        ],
    ),
    (
        "policies.SLOT",
        &[
            (
                "path",
                "A component (`.wasm`), rules (`.rules.toml`) or a reference (`oci://`). Absent: the built-in default",
            ),
            ("settings", "The policy's settings: `windlass policy inspect FILE` lists them"),
            ("grants", "Imports that the policy may use, for example `\"windlass:scaleway/look-ups\"`"),
            ("on_failure", "What decides if this policy fails: `\"default\"` or `\"keep\"`"),
            ("mode", "`\"decide\"`, or `\"shadow\"`: asked and recorded, and never decides"),
            ("limits", "Limits that replace the slot's: [the list](writing-policies.md#limits)"),
        ],
    ),
    (
        "policies",
        &[
            (
                "trust",
                "Trusted keys; without a signature of one nothing is loaded: \
                [use and trust](distributing-policies.md#use-and-trust)",
            ),
            (
                "registries",
                "Credentials, mirrors and certificates: \
                [reach a registry](distributing-policies.md#reach-a-registry)",
            ),
            (
                "labels",
                "Names of labels, annotations and tags that policies may see: \
                [whose machine it is](decisions.md#whose-machine-it-is-and-who-asks)",
            ),
        ],
    ),
];

/// What a key may hold, in the words with which something else is refused.
fn holds(table: &str, key: &str) -> String {
    let table = table.replace("SLOT", "retry");
    let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    // No key takes a date.
    let text = format!("{head}{key} = 1979-05-27\n");
    let failure = configuration::parse(&text, Path::new("config.toml")).expect_err("no key is a date");
    let cause = failure.causes.first().expect("a cause");
    match cause.split_once("must be ").and_then(|(_, rest)| rest.rsplit_once(", not ")) {
        Some((words, _)) => words.to_owned(),
        None if cause.contains("a list of names") => "a list of texts in quotes".to_owned(),
        None => "a table".to_owned(),
    }
}

#[test]
fn the_page_of_the_configuration_has_every_key_that_is_read() {
    ASKED.with_borrow_mut(BTreeSet::clear);
    let all = "[server]\n[limits]\n[policies.retry]\n";
    configuration::parse(all, Path::new("config.toml")).expect("valid");
    let slot = |key: String| key.replace("policies.retry", "policies.SLOT");
    let is_slot = |key: &String| {
        key.matches('.').count() == 1
            && key.starts_with("policies.")
            && !KEYS[4].1.iter().any(|(own, _)| key.ends_with(own))
    };
    let tables = ["server", "limits", "policies"];
    let read: BTreeSet<String> = ASKED.with_borrow(|asked| {
        asked.iter().filter(|key| !is_slot(key) && !tables.contains(&key.as_str())).cloned().map(slot).collect()
    });
    let named = |table: &str, key: &str| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
    let described: BTreeSet<String> =
        KEYS.iter().flat_map(|(table, keys)| keys.iter().map(|(key, _)| named(table, key))).collect();
    assert_eq!(read, described);

    let mut page = "# Configuration\n\n<!-- Generated from the code: just reference -->\n\n".to_owned();
    let introduction = "`windlass` reads the first of these files: `--config FILE`, `WINDLASS_CONFIG`,\n\
        `$XDG_CONFIG_HOME/windlass/config.toml`, `~/.config/windlass/config.toml`. The file and every key are \
        optional.\nPaths in the file are relative to its folder. An unknown key is refused, with the nearest \
        valid one.\n\
        [An example](operating.md#configuration). `windlass config show` lists every value in force and its source.";
    let _ = writeln!(page, "{}", wrapped(introduction));
    for (table, keys) in KEYS {
        let title = match *table {
            "" => "Keys outside of any table".to_owned(),
            "policies.SLOT" => "`[policies.SLOT]`, or `[[policies.SLOT]]` for a chain in its order".to_owned(),
            table => format!("`[{table}]`"),
        };
        let _ = write!(page, "\n## {title}\n\n| key | holds | meaning |\n|---|---|---|\n");
        for (key, meaning) in *keys {
            let _ = writeln!(page, "| `{key}` | {} | {} |", holds(table, key), cell(meaning));
        }
        if *table == "server" {
            page += "\nDefaults of `server create`.\n";
        }
    }
    let more = "The runner plugin has [its own keys](gitlab-runner-keys.md) in `plugin_config`. Its `policies` are \
        the\nsame, as TOML or JSON. The controller takes [options](controller-commands.md), and `policies` and\n\
        [`limits`](kubernetes-tenants.md#limit-what-namespaces-spend) as YAML or JSON from the file that `--config` \
        names.\nIts Helm chart has [values](kubernetes-chart.md). Traces, logs and metrics use OpenTelemetry's own \
        [variables](telemetry.md).";
    let _ = write!(page, "\n## The other programs\n\n{}\n", wrapped(more));
    hold("docs/configuration.md", &page);
}
