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
    let more = "What was begun and is not finished is told by [`windlass operation list \
        --open`](operating.md#when-something-fails); the next command goes on with it. A command that only \
        looks ends with 1 where it finds something wrong, as `doctor` and `conformance` do, and with 2 where \
        what it was given cannot be used, as `policy check` does.";
    let others = "`windlass-controller` and `fleeting-plugin-scaleway` end with 0 when they were told to end, with 1 \
        when they failed, and with 2 on wrong usage; so does the controller where its configuration or \
        credentials cannot be used. What they had begun is journalled for the next start.";
    let _ = write!(page, "\n{}\n\n{}\n", wrapped(more), wrapped(others));
    hold("docs/exit-codes.md", &page);
}

/// What the configuration may hold: a key's table, the key, and what it means.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "",
        &[
            (
                "owner",
                "Whose resources they are: the value of the owner tag, of lower-case letters, digits and dashes. \
                Absent: made once and kept in the state directory",
            ),
            (
                "state_dir",
                "Journal, decision log and caches. Absent: `$XDG_STATE_HOME/windlass`, else \
                `~/.local/state/windlass`. `--state-dir` and `WINDLASS_STATE_DIR` come first",
            ),
            ("api_url", "Where Scaleway's API is. `--api-url` and `SCW_API_URL` come first"),
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
            ("tags", "Tags beside ours"),
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
            ("settings", "What the policy's own settings are: `windlass policy inspect FILE` shows them"),
            ("grants", "Imports that the policy may use, for example `\"windlass:scaleway/look-ups\"`"),
            ("on_failure", "What decides where this policy fails: `\"default\"` or `\"keep\"`"),
            ("mode", "`\"decide\"`, or `\"shadow\"`: asked and recorded, and never decides"),
            ("limits", "Other limits than the slot's: [which there are](writing-policies.md#put-it-in-place)"),
        ],
    ),
    (
        "policies",
        &[
            (
                "trust",
                "Keys without whose signature nothing is loaded: \
                [use and trust](distributing-policies.md#use-and-trust)",
            ),
            (
                "registries",
                "Credentials, mirrors and certificates: \
                [reach a registry](distributing-policies.md#reach-a-registry)",
            ),
        ],
    ),
];

/// What a key may hold, in the words with which something else is refused.
fn holds(table: &str, key: &str) -> String {
    let table = table.replace("SLOT", "retry");
    let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
    // Of no type that any key takes.
    let text = format!("{head}{key} = 1979-05-27\n");
    let failure = configuration::parse(&text, Path::new("config.toml")).expect_err("no key is a date");
    let cause = failure.causes.first().expect("a cause");
    match cause.split_once("must be ").and_then(|(_, rest)| rest.split_once(", but")) {
        Some((words, _)) => words.to_owned(),
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
    let introduction = "`windlass` reads `--config FILE`, else `WINDLASS_CONFIG`, else \
        `$XDG_CONFIG_HOME/windlass/config.toml`, else `~/.config/windlass/config.toml`; all of it may be \
        left out. Paths in it are relative to its folder. A key that does not exist is refused with the \
        nearest that does. [An example](operating.md#configuration). `windlass config show` tells what is in \
        force, and where each value comes from.";
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
            page += "\nWhat `server create` uses where its options say nothing.\n";
        }
    }
    let more = "The runner plugin has [keys of its own](gitlab-runner-keys.md) in `plugin_config`; `policies` is the \
        same there, as TOML or JSON. The controller takes [options](controller-commands.md), and `policies` \
        as YAML or JSON from the file that `--config` names; its Helm chart has \
        [values](kubernetes-chart.md). Traces and metrics are configured by OpenTelemetry's own \
        [variables](telemetry.md).";
    let _ = write!(page, "\n## The other programs\n\n{}\n", wrapped(more));
    hold("docs/configuration.md", &page);
}
