//! The page of the keys: what each means stands here, what it holds is read from the messages about a wrong value.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_console::MIN_TOKEN_CHARACTERS;
use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_test_reference::{cell, hold, wrapped};

use super::read::{MAPPING_DEADLINE_MS, MAPPING_MARGIN_MS, MAX_EXTRA_VOLUMES, MAX_WATCHED_TAG_LEN};
use super::reader::ASKED;
use super::zones::MAX_PLACES;
use super::{
    AppleSiliconConfiguration, Configuration, ConfigurationErrors, GroupConfiguration, ProcessEnvironment, console,
    reader,
};
use crate::group::gitlab_keys;

const INSTANCE: &str = "instance";
const APPLE_SILICON: &str = "apple-silicon";
/// Variables that come before keys.
const VARIABLES: [&str; 7] = [
    "SCW_SECRET_KEY",
    "SCW_ACCESS_KEY",
    "SCW_PROJECT_ID",
    "SCW_ORGANIZATION_ID",
    "SCW_API_URL",
    "SCW_DEFAULT_ZONE",
    "WINDLASS_STATE",
];
/// The default of a key without which nothing is read.
const REQUIRED: &str = "required";
/// The end of the range of a number without a limit of its own.
const NO_LIMIT: &str = " to 4294967295";

/// A row of a table.
struct Key {
    /// Names that mean the same.
    names: &'static [&'static str],
    meaning: String,
    /// Empty: `false`, or nothing.
    default: String,
}

fn key(names: &'static [&'static str], meaning: impl Into<String>, default: impl Into<String>) -> Key {
    Key { names, meaning: meaning.into(), default: default.into() }
}

fn read(configuration: &Value, variables: &[(&str, &str)]) -> Result<GroupConfiguration, ConfigurationErrors> {
    // An empty folder for Scaleway's own configuration, so that nothing of the machine is read.
    let home = tempfile::tempdir().unwrap();
    let all = [("HOME", home.path().to_str().unwrap())].into_iter().chain(variables.iter().copied());
    GroupConfiguration::read(configuration.to_string().as_bytes(), &all.collect::<ProcessEnvironment>())
}

fn problems(configuration: &Value, variables: &[(&str, &str)]) -> Vec<String> {
    match read(configuration, variables) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.problems().iter().map(ToString::to_string).collect(),
    }
}

/// As little as a group of this kind needs.
fn least(kind: &str) -> Value {
    let mut least = json!({
        "kind": kind,
        "name": "ci",
        "secret_key": "11111111-2222-4333-8444-555555555555",
        "project": "22222222-2222-4333-8444-555555555555",
    });
    let more = match kind {
        INSTANCE => json!({"zone": "fr-par-1", "server_type": "DEV1-S", "image": "ubuntu_noble"}),
        _ => json!({"server_type": "M4-S"}),
    };
    least.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    least
}

/// The least configurations of the two kinds, as they are read.
fn defaults() -> (Configuration, AppleSiliconConfiguration) {
    match (read(&least(INSTANCE), &[]), read(&least(APPLE_SILICON), &[])) {
        (Ok(GroupConfiguration::Instances(instances)), Ok(GroupConfiguration::AppleSilicon(macs))) => {
            (*instances, *macs)
        }
        other => panic!("{other:?}"),
    }
}

/// The keys of `plugin_config`, in their order on the page.
fn keys() -> Vec<Key> {
    let (instances, macs) = defaults();
    let common = &instances.common;
    let (calls, brake) = (common.settings.limits().calls_per_second, common.brake);
    assert!((brake.share - 1.0 / 3.0).abs() < f64::EPSILON);
    assert!(common.metrics.is_none() && common.console.is_none() && macs.order);
    let minutes = |milliseconds: u64| milliseconds / 60_000;
    let of_file = "then Scaleway's configuration file";
    vec![
        key(
            &["kind"],
            "What the group consists of: Instances, or [Macs](gitlab-runner-apple-silicon.md)",
            "`instance`",
        ),
        key(
            &["name"],
            "The group's name, part of each instance's id. Each `[[runners]]` entry needs its own",
            REQUIRED,
        ),
        key(
            &["zone", "location"],
            "One zone. Instances: also [several](gitlab-runner-networks.md#several-zones), \
            `[\"fr-par-1\", \"fr-par-2\"]`, which the variable does not override",
            format!("{of_file}; Macs: then `{}`", macs.common.zones[0]),
        ),
        key(
            &["server_type"],
            format!(
                "Instances: one type, or several in order of preference, all of one architecture. Zones times types: \
                at most {MAX_PLACES}. Macs: one type, `M4-S`"
            ),
            REQUIRED,
        ),
        key(&["secret_key"], "As in Scaleway's own tools", of_file),
        key(&["access_key"], "As in Scaleway's own tools", of_file),
        key(
            &["project", "project_id"],
            "As in Scaleway's own tools",
            format!("then `SCW_DEFAULT_PROJECT_ID`, {of_file}"),
        ),
        key(
            &["organization", "organization_id"],
            "As in Scaleway's own tools",
            format!("then `SCW_DEFAULT_ORGANIZATION_ID`, {of_file}"),
        ),
        key(&["endpoint"], "The address of Scaleway's API", of_file),
        key(&["profile"], "The profile of Scaleway's configuration file", "the active one"),
        key(
            &["max_size"],
            "**Limits costs**: the most instances at any time, in all zones together, including those that cannot be \
            removed or used. Set it above the runner's `max_instances`. With `reserved_ips`, at most their number. Macs \
            with `order`: the most of the group and the pool together",
            format!("{}, or the number of `reserved_ips`; Macs: {}", common.max_size, macs.common.max_size),
        ),
        key(
            &["max_leftovers"],
            "How many instances may fail to be removed before the plugin stops creating new ones. An instance counts \
            if its removal failed or takes longer than two minutes; while removals fail, each instance that is being \
            removed counts too",
            common.max_leftovers.to_string(),
        ),
        key(
            &["max_reaps"],
            "[The brake](decisions.md#the-brake): an answer of the `state-mapping` policy fails if the running \
            instances (Macs: hosts in use) that it would remove at one look exceed both this number and \
            `max_reap_share`. Each of several zones has an equal part of the number, at least 1",
            brake.servers.to_string(),
        ),
        key(
            &["max_reap_share"],
            "The share of the running instances, in each of several zones by itself. 1 switches the brake off",
            "a third",
        ),
        key(
            &["calls_per_second"],
            "The most calls to Scaleway that this group makes in a second, to all zones together. Groups of one \
            project add up",
            calls.to_string(),
        ),
        key(&["delete_on_shutdown"], "Remove all instances when the runner shuts down", ""),
        key(
            &["state_dir"],
            "The folder of the journal, the group's keys and the decision log. It must survive a restart",
            "`$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`",
        ),
        key(
            &["state"],
            "The URL of a PostgreSQL database for the journal, so that [another machine can take the group \
            over](shared-state.md#let-another-machine-take-over-a-runner-group)",
            "else a file in `state_dir`",
        ),
        key(&["owner"], "Set it only if you cannot keep `state_dir`", "a random name, kept in `state_dir`"),
        key(
            &["adopt"],
            "What happens to servers of this group and project that the `state_dir` does not know, because it was lost \
            or another runner uses the same `name`. `true` takes them over: use it only if no other runner works on \
            them. `false` leaves them alone. `fleeting-plugin-scaleway adopt` takes them over once",
            "the group does not start beside them",
        ),
        key(
            &["metrics"],
            "For [Prometheus](gitlab-runner-metrics.md), which cannot read a socket. Port 9252 is by custom the \
            runner's own",
            "off",
        ),
        key(
            &["console"],
            "The group's state as [web pages](console.md). An address is enough for everybody on this machine; others \
            need [the table](#the-table-console)",
            "off",
        ),
        key(&["policies"], "[Your own policies](gitlab-runner.md#4-use-your-own-policies)", "the built-in defaults"),
        key(
            &["policy_folder"],
            "The folder in which a relative `path` of a policy begins",
            "`.`, the runner's working directory",
        ),
        key(
            &["image"],
            "A marketplace label (`ubuntu_noble`), an image's id, or `{ name = \"ci-image\" }` or `{ tag = \"ci\" }`: \
            the newest available image of the project with that name or tag, looked up every five minutes. Windows \
            only as an image of your own that has an SSH server, with `use_static_credentials`: Scaleway encrypts the \
            password of a Windows server for an RSA key of the account, which the plugin has no right to add",
            REQUIRED,
        ),
        key(&["cloud_init", "user_data"], "What cloud-init runs at the first boot", ""),
        key(&["cloud_init_file", "user_data_file"], "The same, from this file", ""),
        key(&["volume_size"], "The root volume's size", "as large as the image"),
        key(&["volume_type"], "The root volume's kind: Block Storage or local", "`sbs_volume`"),
        key(&["volume_iops"], "The root volume's operations per second, with Block Storage only", "5000"),
        key(
            &["extra_volumes"],
            format!(
                "Additional volumes without a file system, removed with the instance: \
                `[{{ size = \"50GB\", type = \"sbs_volume\", iops = 5000 }}]`, at most {MAX_EXTRA_VOLUMES}. `type` may \
                be `scratch` for server types that have scratch storage"
            ),
            "",
        ),
        key(
            &["reserved_ips"],
            "IPv4 addresses that you have reserved, by id or address: [a \
            pool](gitlab-runner-networks.md#share-reserved-addresses) from which each instance takes a free one",
            "each instance has its own address",
        ),
        key(&["reserved_ip_tag"], "The same: all reserved addresses that carry this tag", ""),
        key(
            &["public_ipv4_disabled"],
            "[No public](gitlab-runner-networks.md#use-instances-without-a-public-address) IPv4 address",
            "",
        ),
        key(&["public_ipv6_disabled"], "No public IPv6 address", ""),
        key(
            &["private_networks"],
            "Ids of private networks to join; with several regions a table: \
            `{ fr-par = [\"ID\"], nl-ams = [\"ID\"] }`",
            "",
        ),
        key(
            &["security_group"],
            "An id; with several zones a table: `{ fr-par-1 = \"ID\", fr-par-2 = \"ID\" }`",
            "the default group",
        ),
        key(&["placement_group"], "The same", ""),
        key(&["tags"], "Tags in addition to Windlass's own", ""),
        key(
            &["watched_tags"],
            format!(
                "Tags that the `state-mapping` policy may ask about. At most {MAX_WATCHED_TAGS}, each at most \
                {MAX_WATCHED_TAG_LEN} bytes. The default policy ignores them"
            ),
            "",
        ),
        key(
            &["max_parallel_creates"],
            "The most creations in progress at a time",
            instances.max_parallel_creates.to_string(),
        ),
        key(
            &["create_timeout"],
            format!(
                "How long a server may take until it runs. No step is retried after it. The default `state-mapping` \
                policy waits {} minutes longer, and at least {}. Its setting `deadline-ms` may change that, but must \
                not be below `create_timeout`",
                minutes(MAPPING_MARGIN_MS),
                minutes(MAPPING_DEADLINE_MS)
            ),
            format!("`\"{}m\"`", minutes(instances.server.deadline_milliseconds)),
        ),
        key(
            &["suspend"],
            "Offer suspend and resume by `stop_in_place`. **A server stopped in place is still billed**",
            "",
        ),
        key(
            &["pool_prefix"],
            "The prefix of the names of the [pool's](machines.md#names) hosts; ends with a dash. The group's own hosts \
            must not begin with it",
            "no pool",
        ),
        key(
            &["order"],
            "Whether the plugin orders hosts: with a pool, only if none of its hosts is eligible. **Each costs a day \
            at least**",
            "`true` without a pool, `false` with one",
        ),
        key(
            &["operating_system"],
            "A system (`macos-sequoia-15.6`) or family (`Sequoia`) of the hosts that the plugin claims and orders",
            "any; for an order the type's default",
        ),
        key(&["os_id"], "The same, by Scaleway's id", ""),
        key(&["release_requested"], "The request that the [`release` policy](machines.md#release-a-host) gets", ""),
    ]
}

/// The keys of the table `console`.
fn console_keys() -> Vec<Key> {
    vec![
        key(&["listen"], "Address and port, one for each `[[runners]]`: each has its own process", REQUIRED),
        key(
            &["token_file"],
            format!(
                "The file with the token that [gives access](console.md#control-access), of at least \
                {MIN_TOKEN_CHARACTERS} characters. Unless `listen` is local to this machine, this key or \
                `client_ca_file` is required"
            ),
            "",
        ),
        key(
            &["client_ca_file"],
            "The authorities whose client certificates give access. With a token as well, either is enough. Needs TLS",
            "",
        ),
        key(&["certificate_file"], "The certificate for TLS, with `key_file`", ""),
        key(&["key_file"], "Its key", ""),
        key(&["allow_hosts"], "Accepted host names, in addition to `localhost` and the address", ""),
    ]
}

/// Where a key is read.
#[derive(Clone, Copy)]
enum Place {
    /// `plugin_config` of a group of this kind.
    Group(&'static str),
    Console,
}

impl Place {
    /// A configuration with this value.
    fn with(self, key: &str, value: Value) -> Value {
        match self {
            Self::Group(kind) => {
                let mut configuration = least(kind);
                configuration[key] = value;
                configuration
            }
            Self::Console => {
                let mut configuration = least(INSTANCE);
                configuration["console"] = json!({"listen": "127.0.0.1:7474"});
                configuration["console"][key] = value;
                configuration
            }
        }
    }

    /// What is said about this value.
    fn refusal(self, key: &str, value: Value) -> Option<String> {
        let place = match self {
            Self::Group(_) => format!("{key}: "),
            Self::Console => format!("console.{key}: "),
        };
        let said = problems(&self.with(key, value), &[]);
        said.iter().find_map(|problem| problem.strip_prefix(&place)).map(str::to_owned)
    }

    /// What a key holds, in the words with which something else is refused.
    fn holds(self, key: &str) -> String {
        // No key takes a negative number.
        let said = self.refusal(key, json!(-0.5)).unwrap_or_else(|| panic!("{key} is not read"));
        let expected = said.strip_prefix("expected ").and_then(|rest| rest.split_once(", found "));
        let mut holds = expected.unwrap_or_else(|| panic!("{key}: {said}")).0.to_owned();
        if holds == "a text"
            && let Some(said) = self.refusal(key, json!("x"))
        {
            if let Some((_, choice)) = said.split_once("; it is ") {
                holds = choice.to_owned();
            } else if let Some((_, right)) = said.split_once("; write ") {
                holds = if right.starts_with('"') { format!("a text like {right}") } else { right.to_owned() };
            }
        }
        let about_a_table = problems(&self.with(key, json!({"a": -0.5})), &[]);
        let takes_a_table = !about_a_table.iter().any(|problem| problem.ends_with("found a table"));
        let or_a_table = if takes_a_table && !holds.contains("a table") { " or a table" } else { "" };
        format!("{}{or_a_table}", holds.replace(NO_LIMIT, ""))
    }
}

/// The kinds of groups that have a key.
fn kinds(key: &str) -> Vec<&'static str> {
    let refused = |kind| {
        let said = Place::Group(kind).refusal(key, json!(-0.5)).unwrap_or_default();
        said.starts_with("only groups of instances") || said.starts_with("belongs to groups of kind")
    };
    [INSTANCE, APPLE_SILICON].into_iter().filter(|kind| !refused(kind)).collect()
}

/// The variable that comes before a key: both it and its file are complained of there.
fn variable(key: &str) -> Option<&'static str> {
    let is_read = |variable: &&&str| {
        let (variable, file) = (**variable, format!("{variable}_FILE"));
        let said = problems(&least(INSTANCE), &[(variable, "x"), (&file, "/x")]);
        said.contains(&format!("{key}: {variable} and {file} are both set; set one of them"))
    };
    VARIABLES.iter().find(is_read).copied()
}

/// Rows, each key with what it holds. The default stands in the sentence: a column of its own leaves the meaning no
/// room.
fn table(keys: &[&Key], place: Place) -> String {
    let mut table = "| key | holds | meaning |\n|---|---|---|\n".to_owned();
    for Key { names, meaning, default } in keys {
        let holds: BTreeSet<String> = names.iter().map(|name| place.holds(name)).collect();
        assert_eq!(holds.len(), 1, "{names:?} do not hold the same: {holds:?}");
        let holds: String = holds.into_iter().collect();
        let variable = names.iter().find_map(|name| variable(name)).map(|variable| format!("`{variable}`, "));
        let default = match (default.as_str(), holds.as_str()) {
            (REQUIRED, _) => ". Required".to_owned(),
            ("", "true or false") => ". Default: `false`".to_owned(),
            ("", _) => String::new(),
            (default, _) => format!(". Default: {}{default}", variable.unwrap_or_default()),
        };
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(table, "| {} | {} | {}{default} |", names.join(" or "), cell(&holds), cell(meaning));
    }
    table
}

fn names(keys: &[Key]) -> BTreeSet<String> {
    keys.iter().flat_map(|key| key.names).map(|name| (*name).to_owned()).collect()
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// The keys that are asked for while this is read.
fn asked(configuration: &Value) -> BTreeSet<String> {
    ASKED.with_borrow_mut(BTreeSet::clear);
    let _ = read(configuration, &[]);
    ASKED.with_borrow(Clone::clone)
}

#[test]
fn the_keys_that_are_described_are_those_that_are_read() {
    let described = names(&keys());
    assert_eq!(described, set(reader::KEYS));
    let mut asked_for: BTreeSet<String> = [INSTANCE, APPLE_SILICON].map(least).iter().flat_map(asked).collect();
    // It is read to say why it does not exist.
    assert!(asked_for.remove("max_age"));
    let unknown: Vec<_> = asked_for.difference(&described).collect();
    assert!(unknown.is_empty(), "read, and not in the list of keys: {unknown:?}");

    let described = names(&console_keys());
    assert_eq!(described, set(console::KEYS));
    let with_console = asked(&Place::Console.with("allow_hosts", json!([])));
    let of_console: BTreeSet<_> = with_console.difference(&asked_for).cloned().collect();
    assert_eq!(of_console, &described | &set(&["max_age"]));
}

#[test]
fn names_that_mean_the_same_are_refused_beside_each_other() {
    for Key { names, .. } in keys().iter().filter(|key| key.names.len() > 1) {
        let mut configuration = least(INSTANCE);
        for name in *names {
            configuration[*name] = json!(format!("/{name}"));
        }
        let problems = problems(&configuration, &[]);
        let first = names[0];
        let same = [format!("differs from {first}, which means the same"), format!("cannot be combined with {first};")];
        assert!(problems.iter().any(|problem| same.iter().any(|words| problem.contains(words))), "{problems:#?}");
    }
}

#[test]
fn what_is_required_is_missed_in_an_empty_table() {
    let required = |keys: &[Key], kind: &str| -> BTreeSet<String> {
        let required = keys.iter().filter(|key| key.default == REQUIRED).map(|key| key.names[0]);
        required.filter(|name| kind.is_empty() || kinds(name).contains(&kind)).map(str::to_owned).collect()
    };
    let variables = ["SCW_SECRET_KEY", "SCW_DEFAULT_PROJECT_ID"];
    let variables = variables.map(|variable| (variable, "11111111-2222-4333-8444-555555555555"));
    let variables = [variables.as_slice(), &[("SCW_DEFAULT_ZONE", "fr-par-1")]].concat();
    let missed = |configuration: Value| -> BTreeSet<String> {
        let problems = problems(&configuration, &variables);
        problems.iter().filter_map(|problem| problem.split_once(": ")).map(|(place, _)| place.to_owned()).collect()
    };
    for kind in [INSTANCE, APPLE_SILICON] {
        assert_eq!(missed(json!({ "kind": kind })), required(&keys(), kind), "{kind}");
    }
    let mut with_console = least(INSTANCE);
    with_console["console"] = json!({});
    let required = required(&console_keys(), "").into_iter().map(|name| format!("console.{name}"));
    assert_eq!(missed(with_console), required.collect::<BTreeSet<_>>());
}

#[test]
fn the_page_of_the_keys_is_made_of_the_code() {
    let mut page = "# Keys of the runner plugin\n\n<!-- Generated from the code: just reference -->\n\n".to_owned();
    let introduction = "The keys of `plugin_config`, and GitLab's own keys that matter for the plugin. To set up a \
        runner, start with [GitLab Runner on Scaleway](gitlab-runner.md). The plugin refuses an unknown key, \
        and names the nearest valid one. It reports all mistakes at once.";
    let variables = "Variables override the configuration; `SCW_DEFAULT_PROJECT_ID` and `SCW_DEFAULT_ORGANIZATION_ID` \
        do not. Each of the others also exists with `_FILE`, and then names a file.";
    let no_age = "**There is no `max_age`**, because the plugin does not know when jobs start and end. The runner \
        replaces instances after `max_use_count` jobs, and after they have been idle for `idle_time`. A \
        [policy](ready-made-policies.md#maximum-age) can remove those that were not used for long.";
    let _ = write!(
        page,
        "{}\n\n## `plugin_config`\n\n{}\n\n{}\n",
        wrapped(introduction),
        wrapped(variables),
        wrapped(no_age)
    );
    let keys = keys();
    let groups: [(&str, &[&'static str]); 3] = [
        ("Every group", &[INSTANCE, APPLE_SILICON]),
        ("Groups of instances", &[INSTANCE]),
        ("Groups of Macs", &[APPLE_SILICON]),
    ];
    for (title, of) in groups {
        let own: Vec<&Key> = keys.iter().filter(|key| key.names.iter().all(|name| kinds(name) == of)).collect();
        let _ = write!(page, "\n### {title}\n\n{}", table(&own, Place::Group(of[0])));
    }
    let console: Vec<Key> = console_keys();
    let unusable = "If a file cannot be used at the start, or the address is taken, the group does not start. The same \
        applies to `metrics`. [An example](console.md#control-access).";
    let _ = write!(
        page,
        "\n### The table `console`\n\n{}\n{}\n\n## GitLab's own keys\n\n{}",
        table(&console.iter().collect::<Vec<_>>(), Place::Console),
        wrapped(unusable),
        gitlab_keys::section()
    );
    for key in &keys {
        assert!(page.contains(&format!("\n| `{}`", key.names[0])), "{:?} is for no kind of group", key.names);
    }
    for variable in VARIABLES {
        assert!(page.contains(&format!("Default: `{variable}`, ")), "{variable} comes before no key");
    }
    hold("docs/gitlab-runner-keys.md", &page);
}
