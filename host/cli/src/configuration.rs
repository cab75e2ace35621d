//! Windlass's configuration file: where it is found, what stands in it, and every problem of it at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_inspect::failure::Failure;

use windlass_distribution::Reference;
use windlass_lifecycle::{
    Error as NameError, GroupName, ImageChoice, OwnerName, ServerSpecification, SpecificationProblem, VolumeKind,
};
use windlass_policy::slots::SlotName;
use windlass_policy::{Policies, plain_toml_at};
use windlass_scaleway::{InvalidLocation, Zone, check_api_url, check_identifier};

use crate::files::read_text;
use crate::toml_reader::{Problem, Problems, TableReader, expected, only_in_a_shell, unknown, without_places};
use crate::units::Size;

/// A configuration larger than this is no configuration.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How many lines with TOML syntax errors are reported.
const MAX_SYNTAX_ERRORS: usize = 5;
/// How many problems of one file are reported.
const MAX_TOLD: usize = 32;

/// What the configuration file says. All of it is optional; an absent file is an empty one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configuration {
    /// The file it came from.
    pub(crate) file: Option<PathBuf>,
    /// Whose resources they are: the value of the owner tag. Absent: made once and kept in the state directory.
    pub(crate) owner: Option<OwnerName>,
    /// Journal, decision log, caches. Relative to the file's directory.
    pub(crate) state_dir: Option<PathBuf>,
    /// The database that has journal and clusters, if the state directory does not.
    pub(crate) state: Option<StateUrl>,
    /// Scaleway's API.
    pub(crate) api_url: Option<String>,
    /// The profile of Scaleway's own configuration file.
    pub(crate) profile: Option<String>,
    /// The availability zone.
    pub(crate) zone: Option<String>,
    /// The project new resources belong to.
    pub(crate) project: Option<String>,
    /// Defaults of `server create`.
    pub(crate) server: ServerDefaults,
    /// Bounds on the work done at the same time.
    pub(crate) limits: Limits,
    /// Which policies decide. Their paths are absolute.
    pub(crate) policies: Policies,
    /// Where each slot's links stand in the file, from line 1: for messages about policies that cannot be used.
    pub(crate) policy_lines: BTreeMap<SlotName, Vec<usize>>,
}

/// The URL of a database, which may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StateUrl(pub(crate) String);

impl std::fmt::Debug for StateUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StateUrl(not shown)")
    }
}

/// `[server]`: what `server create` uses where its options say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerDefaults {
    pub(crate) group: Option<GroupName>,
    pub(crate) server_types: Option<Vec<String>>,
    pub(crate) image: Option<String>,
    pub(crate) ipv4: Option<u32>,
    pub(crate) ipv6: Option<u32>,
    pub(crate) volume_size: Option<Size>,
    pub(crate) volume_type: Option<VolumeType>,
    pub(crate) private_networks: Option<Vec<String>>,
    pub(crate) security_group: Option<String>,
    pub(crate) placement_group: Option<String>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) wait: Option<Duration>,
}

/// The kinds of volumes, in the user's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum VolumeType {
    /// Block Storage (`sbs_volume`): network storage that can outlive a server.
    #[value(alias = "sbs_volume", alias = "sbs")]
    Block,
    /// Local storage (`l_ssd`): goes with the server.
    #[value(alias = "l_ssd")]
    Local,
    /// Scratch storage (`scratch`) of types with a GPU: goes with the server. Not for the root volume.
    #[value(hide = true)]
    Scratch,
}

impl ServerDefaults {
    /// What is wrong with the servers of these defaults, without asking Scaleway. Without a zone, ids that name one are
    /// not looked at.
    fn problems(&self, zone: Option<&Zone>) -> Vec<SpecificationProblem> {
        let is_checked = |id: &&String| zone.is_some() || !id.contains('/');
        let group = self.group.clone().unwrap_or_else(|| "none".parse().expect("a word of small letters is a name"));
        let in_zone = zone.cloned().unwrap_or_else(|| Zone::KNOWN[0].parse().expect("it is known"));
        let image = self.image.as_ref().filter(is_checked).map_or("ubuntu_noble", String::as_str);
        let mut server = ServerSpecification::new(group, in_zone, "DEV1-S", ImageChoice::parse(image));
        server.types.extend(self.server_types.iter().flatten().cloned());
        server.root_volume.size = self.volume_size.map(|size| size.0);
        if self.volume_type == Some(VolumeType::Local) {
            server.root_volume.kind = VolumeKind::Local;
        }
        server.private_networks = self.private_networks.iter().flatten().filter(is_checked).cloned().collect();
        server.security_group = self.security_group.clone().filter(|id| is_checked(&id));
        server.placement_group = self.placement_group.clone().filter(|id| is_checked(&id));
        server.tags = self.tags.clone().unwrap_or_default();
        if let Some(wait) = self.wait {
            server.deadline_milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        }
        server.problems(1)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Servers worked on at the same time.
    pub(crate) parallel: Option<u32>,
    /// Calls to Scaleway in flight at the same time.
    pub(crate) concurrent_requests: Option<u32>,
    /// Calls to Scaleway in a second.
    pub(crate) requests_per_second: Option<u32>,
}

/// The environment variables that matter here, so that tests need not change the process's own.
pub(crate) type Environment = BTreeMap<String, String>;

/// The variables of this process.
pub(crate) fn environment_of_process() -> Environment {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).collect()
}

/// Reads the configuration that applies: the one named, else the one at its usual place, else none.
pub(crate) fn load(named: Option<&Path>, environment: &Environment) -> Result<Configuration, Failure> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => match usual_place(environment).filter(|path| path.exists()) {
            Some(path) => path,
            None => return Ok(Configuration::default()),
        },
    };
    let text = read_text(&path, "the configuration", MAX_FILE_BYTES).map_err(|failure| {
        if named.is_some() {
            match path.is_file() {
                true => failure,
                false => failure.remedy("name an existing file with --config or WINDLASS_CONFIG, or leave it out"),
            }
        } else {
            failure
        }
    })?;
    parse(&text, &path)
}

impl Configuration {
    /// Where the state directory is: as an option or variable says, as the file says, the usual place.
    pub(crate) fn state_path(&self, named: Option<&Path>, environment: &Environment) -> Result<PathBuf, Failure> {
        if let Some((named, words)) = named.and_then(|path| Some((path, only_in_a_shell(path)?))) {
            return Err(Failure::usage(format!("the state directory begins with {words}"))
                .at(named.display().to_string())
                .remedy("write the whole path with --state-dir or WINDLASS_STATE_DIR"));
        }
        named
            .map(Path::to_owned)
            .or_else(|| self.state_dir.clone())
            .or_else(|| usual_state_dir(environment))
            .ok_or_else(|| {
                Failure::usage("there is no place for the state directory: neither XDG_STATE_HOME nor HOME is set")
                    .remedy("name one with --state-dir, WINDLASS_STATE_DIR or state_dir in the configuration")
            })
    }
}

/// `$XDG_CONFIG_HOME/windlass/config.toml`, else `~/.config/windlass/config.toml`.
pub(crate) fn usual_place(environment: &Environment) -> Option<PathBuf> {
    base_directory(environment, "XDG_CONFIG_HOME", ".config").map(|base| base.join("windlass/config.toml"))
}

/// `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`.
pub(crate) fn usual_state_dir(environment: &Environment) -> Option<PathBuf> {
    base_directory(environment, "XDG_STATE_HOME", ".local/state").map(|base| base.join("windlass"))
}

/// The XDG base directory specification: a relative path in the variable is to be ignored.
fn base_directory(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |path: &&String| Path::new(path.as_str()).is_absolute();
    environment
        .get(variable)
        .filter(absolute)
        .map(PathBuf::from)
        .or_else(|| environment.get("HOME").filter(absolute).map(|home| Path::new(home).join(below_home)))
}

/// Reads a configuration's text. Paths in it are relative to the directory of `file`.
pub(crate) fn parse(text: &str, file: &Path) -> Result<Configuration, Failure> {
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems::new(text);
    let mut lines = BTreeSet::new();
    for error in &syntax_errors {
        let place = error.span().map_or(0, |span| span.start);
        // The next ones of a line follow from its first; a file with many is no TOML at all.
        if lines.len() < MAX_SYNTAX_ERRORS && lines.insert(problems.line(place)) {
            problems.add(place, "", plain_toml_at(text, error.span(), error.message()));
        }
    }
    let base = std::path::absolute(file).ok().and_then(|path| path.parent().map(Path::to_path_buf)).unwrap_or_default();
    let mut configuration = Configuration { file: Some(file.to_path_buf()), ..Configuration::default() };
    // After a syntax error the table holds only part of the file, but unknown keys in that part are worth saying.
    let mut reader = TableReader::new(document.get_ref(), "");
    read(&mut configuration, &mut reader, &mut problems, &base);
    reader.finish(&mut problems);

    let mut problems = problems.into_sorted();
    // What was read of a line that is no TOML is not what is written there.
    problems.retain(|problem| problem.key.is_empty() || !lines.contains(&problem.line));
    if problems.is_empty() { Ok(configuration) } else { Err(failure(file, &problems)) }
}

/// Whether no line is written as TOML has it.
fn is_yaml(problems: &[Problem]) -> bool {
    problems.len() > 1 && problems.iter().all(|problem| problem.message == "a line is written as KEY = VALUE")
}

fn failure(file: &Path, problems: &[Problem]) -> Failure {
    let count = match problems.len() {
        1 => "a problem".to_owned(),
        more => format!("{more} problems"),
    };
    let mut failure = Failure::usage(format!("the configuration has {count}; nothing was done"))
        .at(file.display().to_string())
        .remedy(match file.extension().and_then(|ending| ending.to_str()) {
            Some("yaml" | "yml" | "json") => {
                "write the file as TOML, not YAML or JSON; docs/configuration.md lists every key"
            }
            _ if is_yaml(problems) => "write the file as TOML (`zone = \"fr-par-1\"`), not as YAML",
            _ => "correct the file; docs/configuration.md lists every key",
        });
    for problem in problems.iter().take(MAX_TOLD) {
        let key = if problem.key.is_empty() { String::new() } else { format!("'{}' ", problem.key) };
        failure = failure.because(format!("line {}: {key}{}", problem.line, problem.message));
    }
    match problems.len().saturating_sub(MAX_TOLD) {
        0 => failure,
        more => failure.because(format!("line {}: and {more} more", problems[MAX_TOLD].line)),
    }
}

fn read<'t>(configuration: &mut Configuration, reader: &mut TableReader<'_, 't>, problems: &mut Problems, base: &Path) {
    configuration.owner =
        reader.checked(problems, "owner", |text| text.parse().map_err(|error: NameError| error.to_string()));
    configuration.state_dir = reader.path(problems, "state_dir").map(|path| base.join(path));
    configuration.state =
        reader.checked(problems, "state", |text| match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(StateUrl(text.to_owned())),
            _ => Err("must be a database's URL, like postgres://user@host/database; for a directory, use state_dir"
                .to_owned()),
        });
    configuration.api_url = reader.checked(problems, "api_url", |text| check_api_url(text).map(|_| text.to_owned()));
    configuration.profile = reader.text(problems, "profile");
    let zone: Option<Zone> =
        reader.checked(problems, "zone", |text| text.parse().map_err(|error: InvalidLocation| error.to_string()));
    configuration.zone = zone.as_ref().map(ToString::to_string);
    configuration.project =
        reader.checked(problems, "project", |text| check_identifier(text).map(|()| text.to_owned()));
    configuration.server = reader
        .table(problems, "server", |reader, problems| {
            let defaults = ServerDefaults {
                group: reader
                    .checked(problems, "group", |text| text.parse().map_err(|error: NameError| error.to_string())),
                server_types: reader.texts(problems, "type"),
                image: reader.text(problems, "image"),
                ipv4: reader.number(problems, "ipv4", 0..=5),
                ipv6: reader.number(problems, "ipv6", 0..=5),
                volume_size: reader.size(problems, "volume_size"),
                volume_type: reader.checked(problems, "volume_type", |text| match text {
                    "block" => Ok(VolumeType::Block),
                    "local" => Ok(VolumeType::Local),
                    other => {
                        Err(format!("'{other}' {}", unknown("kind of volume", other, ["block", "local"].into_iter())))
                    }
                }),
                private_networks: reader.texts(problems, "private_networks"),
                security_group: reader.text(problems, "security_group"),
                placement_group: reader.text(problems, "placement_group"),
                tags: reader.texts(problems, "tags"),
                wait: reader.duration(problems, "wait"),
            };
            for SpecificationProblem { field, problem } in defaults.problems(zone.as_ref()) {
                let key = match field {
                    "types" => "type",
                    "root_volume" => "volume_size",
                    "deadline_milliseconds" => "wait",
                    other => other,
                };
                if let Some(offset) = reader.offset(key) {
                    problems.add(offset, format!("server.{key}"), problem);
                }
            }
            defaults
        })
        .unwrap_or_default();
    configuration.limits = reader
        .table(problems, "limits", |reader, problems| Limits {
            parallel: reader.number(problems, "parallel", 1..=100),
            concurrent_requests: reader.number(problems, "concurrent_requests", 1..=256),
            requests_per_second: reader.number(problems, "requests_per_second", 1..=1000),
        })
        .unwrap_or_default();
    reader.table(problems, "policies", |reader, problems| {
        for slot in SlotName::ALL {
            if let Some(value) = reader.value(slot.as_str()) {
                read_chain(configuration, slot, value, problems, base);
            }
        }
        for key in ["trust", "registries", "labels"] {
            if let Some(value) = reader.value(key) {
                read_common(configuration, key, value, problems);
            }
        }
    });
}

/// One table, or a list of tables in the order in which they are asked.
///
/// The keys are checked here, where each has its line; what they may hold is the policy host's to say.
fn read_chain(
    configuration: &mut Configuration,
    slot: SlotName,
    value: &Spanned<DeValue<'_>>,
    problems: &mut Problems,
    base: &Path,
) {
    let path = format!("policies.{slot}");
    let links: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
        DeValue::Array(links) => links.iter().collect(),
        _ => vec![value],
    };
    let mut lines = Vec::new();
    let mut values = Vec::new();
    let before_all = problems.count();
    let read = |value: &serde_json::Value| Policies::from_value(serde_json::json!({ slot.as_str(): value }));
    for (position, link) in links.iter().enumerate() {
        let place = link.span().start;
        lines.push(problems.line(place));
        let path = if links.len() > 1 { format!("{path}[{position}]") } else { path.clone() };
        let value = match link.get_ref() {
            DeValue::Table(table) => read_link(table, &path, problems, base),
            other => {
                let wanted = format!("a table [policies.{slot}] or a list of tables [[policies.{slot}]]");
                let message = expected(&wanted, other);
                problems.add(place, path, message);
                continue;
            }
        };
        // What is wrong in the link already is not in the value.
        match read(&value) {
            Ok(_) => values.push(value),
            Err(messages) => {
                messages.iter().for_each(|message| add_placed(problems, place, &path, slot.as_str(), message))
            }
        }
    }
    // Once more as a whole, for what no single link shows.
    if problems.count() == before_all {
        match read(&values.into()) {
            Ok(read) => {
                let policies = std::mem::take(&mut configuration.policies);
                configuration.policies =
                    read.chain(slot).iter().cloned().fold(policies, |all, link| all.with(slot, link));
            }
            Err(messages) => {
                let place = value.span().start;
                messages.iter().for_each(|message| add_placed(problems, place, &path, slot.as_str(), message));
            }
        }
    }
    configuration.policy_lines.insert(slot, lines);
}

/// Adds a problem that the policy host has found in one link, which its words place as the only one: the key is named
/// once, with the link's position.
fn add_placed(problems: &mut Problems, offset: usize, path: &str, key: &str, words: &str) {
    let placed = words.strip_prefix(&format!("policies.{key}")).and_then(|rest| rest.split_once(": "));
    match placed {
        Some((rest, message)) if rest.is_empty() || rest.starts_with(['.', '[']) => {
            problems.add(offset, format!("{path}{rest}"), message);
        }
        _ => problems.add(offset, path, words),
    }
}

/// What all policies share: `trust`, `registries` and `labels`.
fn read_common(configuration: &mut Configuration, key: &str, value: &Spanned<DeValue<'_>>, problems: &mut Problems) {
    let read = without_places(value.get_ref()).map_err(|words| vec![words]);
    match read.and_then(|value| Policies::from_value(serde_json::json!({ key: value }))) {
        Ok(read) => configuration.policies = std::mem::take(&mut configuration.policies).with_common_of(read),
        Err(messages) => {
            let (place, path) = (value.span().start, format!("policies.{key}"));
            messages.iter().for_each(|message| add_placed(problems, place, &path, key, message));
        }
    }
}

/// The table of one policy as the policy host reads it, with an absolute path.
fn read_link(table: &DeTable<'_>, path: &str, problems: &mut Problems, base: &Path) -> serde_json::Value {
    let mut reader = TableReader::new(table, path);
    let mut link = serde_json::Map::new();
    if let Some(file) = reader.path(problems, "path") {
        let path = if Reference::is_meant(&file) { file.into() } else { base.join(file).to_string_lossy().into() };
        link.insert("path".to_owned(), path);
    }
    if let Some(grants) = reader.texts(problems, "grants") {
        link.insert("grants".to_owned(), grants.into());
    }
    for (key, choices) in [("on_failure", ["default", "keep"]), ("mode", ["decide", "shadow"])] {
        if let Some(choice) = reader.checked(problems, key, |text| match text {
            known if choices.contains(&known) => Ok(known.to_owned()),
            other => Err(format!("'{other}' {}", unknown("choice", other, choices.into_iter()))),
        }) {
            link.insert(key.to_owned(), choice.into());
        }
    }
    for key in ["settings", "limits"] {
        let Some(value) = reader.value(key) else { continue };
        let converted = match value.get_ref() {
            DeValue::Table(_) => without_places(value.get_ref()),
            other => Err(expected("a table", other)),
        };
        match converted {
            Ok(converted) => {
                link.insert(key.to_owned(), converted);
            }
            Err(message) => problems.add(value.span().start, format!("{path}.{key}"), message),
        }
    }
    reader.finish(problems);
    link.into()
}

#[cfg(test)]
mod tests {
    use windlass_policy::slots::OnFailure;
    use windlass_policy::{Mode, Source};

    use super::*;

    const WHOLE: &str = r#"
owner = "ci-team"
state_dir = "state"
zone = "fr-par-2"
project = "11111111-1111-1111-1111-111111111111"

[server]
type = ["DEV1-S", "DEV1-M"]
image = "ubuntu_noble"
volume_size = "20GB"
volume_type = "block"
wait = "10m"

[limits]
parallel = 8

[policies.retry]
settings = { attempts = 3 }

[[policies.rollback]]
path = "policies/team.wasm"
grants = ["windlass:scaleway/look-ups"]
on_failure = "keep"

[[policies.rollback]]
mode = "shadow"

[[policies.rollback]]
"#;

    #[test]
    fn a_whole_configuration_is_read() {
        let configuration = parse(WHOLE, Path::new("/etc/windlass/config.toml")).expect("valid");
        assert_eq!(configuration.owner.as_ref().map(OwnerName::as_str), Some("ci-team"));
        assert_eq!(configuration.state_dir.as_deref(), Some(Path::new("/etc/windlass/state")));
        assert_eq!(configuration.server.server_types, Some(vec!["DEV1-S".to_owned(), "DEV1-M".to_owned()]));
        assert_eq!(configuration.server.volume_size, Some(Size(20_000_000_000)));
        assert_eq!(configuration.server.wait, Some(Duration::from_secs(600)));
        assert_eq!(configuration.limits.parallel, Some(8));
        let rollback = configuration.policies.chain(SlotName::Rollback);
        assert_eq!(rollback.len(), 3);
        let modes: Vec<Mode> = rollback.iter().map(|link| link.mode).collect();
        assert_eq!(modes, [Mode::Decide, Mode::Shadow, Mode::Decide]);
        assert_eq!(rollback[0].source, Source::File("/etc/windlass/policies/team.wasm".into()));
        assert_eq!(rollback[0].on_failure, Some(OnFailure::Keep));
        assert_eq!(rollback[1].source, Source::BuiltIn);
        assert_eq!(configuration.policies.chain(SlotName::Retry)[0].settings["attempts"], 3);
        assert_eq!(configuration.policy_lines[&SlotName::Rollback], [20, 25, 28]);
    }

    #[test]
    fn a_limit_that_does_not_exist_is_told_with_the_line_of_its_policy() {
        let failure = parse("\n[policies.retry]\nlimits = { tme_ms = 1 }", Path::new("c.toml")).expect_err("invalid");
        assert!(failure.causes[0].starts_with("line 2: 'policies.retry.limits' "), "{:?}", failure.causes);
        assert!(failure.causes[0].contains("`time_ms`"), "{:?}", failure.causes);
    }

    #[test]
    fn a_chain_that_is_too_long_or_goes_on_after_the_default_is_told_with_its_line() {
        for (text, key, wrong) in [
            ("\n[[policies.retry]]\npath = 'a.wasm'".repeat(9), "policies.retry", "9 links, and at most 8 are allowed"),
            ("\n[[policies.retry]]".repeat(2), "policies.retry[0]", "Put it last"),
        ] {
            let failure = parse(&text, Path::new("c.toml")).expect_err("invalid");
            assert_eq!(failure.causes.len(), 1, "{:?}", failure.causes);
            assert!(failure.causes[0].starts_with(&format!("line 2: '{key}' ")), "{:?}", failure.causes);
            assert!(failure.causes[0].contains(wrong), "{:?}", failure.causes);
        }
        let text = "[[policies.state-mapping]]\n[[policies.state-mapping]]\n[policies.retry]\n[policies.release]";
        let failure = parse(text, Path::new("c.toml")).expect_err("invalid");
        assert_eq!(failure.causes.len(), 1, "of one slot, and not of those after it: {:?}", failure.causes);
    }

    #[test]
    fn all_problems_are_told_at_once_each_with_its_line() {
        let text = "onwer = 'x'\n[policies.retri]\n[policies.retry]\nsetings = {}\non_failure = \
            'kep'\n[limits]\nparallel = 0\n";
        let failure = parse(text, Path::new("config.toml")).expect_err("invalid");
        assert_eq!(failure.exit, windlass_inspect::failure::Exit::Usage);
        assert_eq!(failure.message, "the configuration has 5 problems; nothing was done");
        assert_eq!(
            failure.causes,
            [
                "line 1: 'onwer' is no known key; did you mean 'owner'?",
                "line 2: 'policies.retri' is no known key; did you mean 'retry'?",
                "line 4: 'policies.retry.setings' is no known key; did you mean 'settings'?",
                "line 5: 'policies.retry.on_failure' 'kep' is no known choice; did you mean 'keep'?",
                "line 7: 'limits.parallel' is 0, but must be a whole number from 1 to 100",
            ]
        );
    }

    #[test]
    fn a_syntax_error_is_told_with_its_line() {
        let failure = parse("owner = 'x'\nzone = fr-par-1\n", Path::new("config.toml")).expect_err("invalid");
        assert!(failure.causes[0].starts_with("line 2: "), "{:?}", failure.causes);
        assert_eq!(failure.causes.len(), 1, "one mistake is reported once: {:?}", failure.causes);
    }

    #[test]
    fn all_mistakes_of_keys_values_and_policies_are_told_at_once() {
        let text = "zone = 'fr-par-x'\nproject = 'shop'\napi_url = 'scaleway'\n[server]\ntags = ['a,b']\n\
            private_networks = ['lan']\nsecurity_group = 'nl-ams-1/x'\nplacement_group = 'web'\nwait = '0s'\n\
            volume_size = '1GB'\nipv4 = 9\n[policies.retry]\nmode = 'watch'\nlimits = { time_ms = 0, memory = 1 }\n\
            grants = ['']\nsettings = 1\n[policies.trust.keys]\nold = 'x'\nnew = 'y'\n[policies.registries]\nhosts = 5\n";
        let failure = parse(text, Path::new("config.toml")).expect_err("invalid");
        for told in [
            "line 1: 'zone' ",
            "line 2: 'project' is not a UUID",
            "line 3: 'api_url' is not an address",
            "line 5: 'server.tags' ",
            "line 6: 'server.private_networks' ",
            "line 8: 'server.placement_group' ",
            "line 9: 'server.wait' ",
            "line 10: 'server.volume_size' ",
            "line 11: 'server.ipv4' ",
            "line 13: 'policies.retry.mode' ",
            "line 12: 'policies.retry.limits.time_ms' ",
            "line 12: 'policies.retry.limits' ",
            "line 12: 'policies.retry.grants[0]' ",
            "line 16: 'policies.retry.settings' ",
            "line 17: 'policies.trust' keys.new: ",
            "line 20: 'policies.registries' the number 5 must be a table",
        ] {
            assert!(failure.causes.iter().any(|cause| cause.starts_with(told)), "{told}: {:#?}", failure.causes);
        }
        assert_eq!(failure.causes.len(), 16, "{:#?}", failure.causes);
        assert!(failure.causes.iter().any(|cause| cause.contains("; keys.old: ")), "{:#?}", failure.causes);
    }

    #[test]
    fn what_the_policy_host_refuses_is_told_with_the_key_once() {
        let causes = |text: &str| parse(text, Path::new("config.toml")).expect_err("invalid").causes.clone();
        let zero = causes("[policies.retry]\npath = 'a.wasm'\nlimits = { time_ms = 0 }\n");
        assert!(zero[0].starts_with("line 1: 'policies.retry.limits.time_ms' expected"), "{zero:?}");
        let links = "[[policies.retry]]\npath = 'a.wasm'\n[[policies.retry]]\npath = 'oci://x'\n";
        let second = causes(links);
        assert!(second[0].starts_with("line 3: 'policies.retry[1].path' `oci://x`"), "{second:?}");
        for keys in ["trust = ['RWQ']", "[policies.trust]\nkeys = ['RWQ']", "[policies.trust]\nkeys = 'RWQ'"] {
            let text = if keys.starts_with('[') { keys.to_owned() } else { format!("[policies]\n{keys}") };
            let reported = causes(&text);
            assert!(reported[0].contains("Write [policies.trust.keys]"), "{keys}: {reported:?}");
        }
    }

    #[test]
    fn a_path_that_only_a_shell_understands_is_refused() {
        let text = "state_dir = '~/windlass'\n[policies.retry]\npath = '$HOME/a.wasm'\n";
        let failure = parse(text, Path::new("config.toml")).expect_err("invalid");
        assert!(failure.causes[0].starts_with("line 1: 'state_dir' begins with ~"), "{:?}", failure.causes);
        assert!(failure.causes[1].starts_with("line 3: 'policies.retry.path' begins with $"), "{:?}", failure.causes);
        assert_eq!(failure.causes.len(), 2, "{:?}", failure.causes);
        let named = Configuration::default().state_path(Some(Path::new("~/windlass")), &Environment::new());
        assert!(named.expect_err("refused").message.contains("begins with ~"));
        parse("state_dir = './~/windlass'", Path::new("config.toml")).expect("a folder of that name");
    }

    #[test]
    fn an_owner_that_would_break_tag_searches_is_refused() {
        for wrong in ["", "a,b", "a b", "é", "Team"] {
            let failure = parse(&format!("owner = '{wrong}'"), Path::new("c.toml")).expect_err("invalid");
            assert!(failure.causes[0].starts_with("line 1: 'owner' "), "{:?}", failure.causes);
        }
    }

    #[test]
    fn the_usual_places_follow_the_base_directory_specification() {
        let environment = |pairs: &[(&str, &str)]| -> Environment {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let home = environment(&[("HOME", "/home/u")]);
        assert_eq!(usual_place(&home), Some("/home/u/.config/windlass/config.toml".into()));
        assert_eq!(usual_state_dir(&home), Some("/home/u/.local/state/windlass".into()));
        let explicit = environment(&[("HOME", "/home/u"), ("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "relative")]);
        assert_eq!(usual_place(&explicit), Some("/c/windlass/config.toml".into()));
        assert_eq!(usual_state_dir(&explicit), Some("/home/u/.local/state/windlass".into()));
        assert_eq!(usual_state_dir(&environment(&[])), None);
    }

    /// An input is a configuration file.
    #[test]
    fn any_file_is_read_or_each_of_its_mistakes_told_in_few_words() {
        windlass_test_fuzz::check("cli-configuration", |input| {
            let Ok(text) = std::str::from_utf8(input) else { return };
            let lines = text.lines().count().max(1);
            match parse(text, Path::new("/etc/windlass/config.toml")) {
                Ok(configuration) => {
                    let reported = serde_json::to_value(&configuration.policies).expect("policies are plain data");
                    assert_eq!(Policies::from_value(reported), Ok(configuration.policies));
                }
                Err(failure) => {
                    assert!(!failure.causes.is_empty());
                    for cause in &failure.causes {
                        assert!(cause.len() <= 2 * 1024, "{} bytes: {cause}", cause.len());
                        let line = cause.strip_prefix("line ").and_then(|rest| rest.split(':').next());
                        let line = line.and_then(|line| line.parse().ok());
                        assert!(line.is_some_and(|line| (1..=lines + 1).contains(&line)), "{cause}");
                    }
                }
            }
        });
    }
}
