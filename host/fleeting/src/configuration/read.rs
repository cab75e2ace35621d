//! From JSON to a [`Configuration`], collecting everything that is wrong on the way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_lifecycle::{
    AddressKind, CloudInit, GroupName, ImageChoice, OwnerName, RootVolume, ServerSpecification, VolumeKind,
};
use windlass_policy::Policies;
use windlass_scaleway::{ExplicitSettings, SecretKey, Settings, Zone};

use super::environment::read_file;
use super::problem::{ConfigurationErrors, Problem};
use super::state_directory::default_state_directory;
use super::{
    Configuration, DEFAULT_CREATE_TIMEOUT, DEFAULT_MAX_PARALLEL_CREATES, DEFAULT_MAX_SIZE, MetricsAddress,
    Surroundings, duration,
};

/// Every key, for the message about one that does not exist.
const KEYS: &[&str] = &[
    "access_key",
    "cloud_init",
    "cloud_init_file",
    "create_timeout",
    "delete_on_shutdown",
    "endpoint",
    "image",
    "kind",
    "location",
    "max_parallel_creates",
    "max_size",
    "metrics",
    "name",
    "organization",
    "organization_id",
    "os_id",
    "owner",
    "placement_group",
    "policies",
    "policy_folder",
    "private_networks",
    "profile",
    "project",
    "project_id",
    "public_ipv4_disabled",
    "public_ipv6_disabled",
    "secret_key",
    "security_group",
    "server_type",
    "state_dir",
    "suspend",
    "tags",
    "user_data",
    "user_data_file",
    "volume_iops",
    "volume_size",
    "volume_type",
    "zone",
];

/// Bytes in one of Scaleway's gigabytes.
const GIGABYTE: u64 = 1_000_000_000;
/// The smallest volume that the existing plugins accept, in gigabytes.
const SMALLEST_VOLUME_GB: u64 = 10;
/// The largest, in gigabytes: Block Storage's own limit (assumption: Scaleway's documentation, no recording).
const LARGEST_VOLUME_GB: u64 = 10_000;
/// What Block Storage offers, in operations per second (SDK).
const VOLUME_IOPS: [u64; 2] = [5_000, 15_000];
/// The longest group name that leaves room for the mark of a changed one.
const LONGEST_GROUP: usize = 40;

/// Takes keys out of the object one by one; what is left at the end is unknown.
struct Reader<'a> {
    object: Map<String, Value>,
    problems: Vec<Problem>,
    surroundings: &'a Surroundings,
}

impl Reader<'_> {
    fn wrong(&mut self, place: impl Into<String>, words: impl Into<String>) {
        self.problems.push(Problem { place: place.into(), words: words.into() });
    }

    /// A value that is there. Null and the empty text count as absent, as they do in the other plugins.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.object.remove(key).filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(key, format!("expected a text, found {}", kind(&other)));
                None
            }
        }
    }

    /// One text under any of several names, of which one may be given.
    fn text_of(&mut self, keys: &[&str]) -> Option<String> {
        let mut found: Option<(&str, String)> = None;
        for key in keys {
            let Some(text) = self.text(key) else { continue };
            match &found {
                Some((first, value)) if *value != text => {
                    self.wrong(
                        *key,
                        format!("says something else than {first}, which means the same; keep one of them"),
                    );
                }
                Some(_) => {}
                None => found = Some((key, text)),
            }
        }
        found.map(|(_, text)| text)
    }

    /// The variable (or its file) before the key: so it is in the other plugins.
    fn text_or_variable(&mut self, keys: &[&str], variable: &str) -> Option<String> {
        let configured = self.text_of(keys);
        match self.surroundings.get_with_file(variable) {
            Ok(value) => value.or(configured),
            Err(words) => {
                self.wrong(keys[0], words);
                configured
            }
        }
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.take(key) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(other) => {
                self.wrong(key, format!("expected true or false, found {}", kind(&other)));
                false
            }
        }
    }

    fn number(&mut self, key: &str, from: u64, to: u64) -> Option<u64> {
        match self.take(key)? {
            Value::Number(number) if number.as_u64().is_some_and(|number| (from..=to).contains(&number)) => {
                number.as_u64()
            }
            other => {
                self.wrong(key, format!("expected a whole number from {from} to {to}, found {}", shown(&other)));
                None
            }
        }
    }

    /// A text or a list of texts.
    fn texts(&mut self, key: &str) -> Vec<String> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => {
                let mut texts = Vec::new();
                for (index, item) in items.into_iter().enumerate() {
                    match item {
                        Value::String(text) if !text.is_empty() => texts.push(text),
                        other => {
                            self.wrong(format!("{key}[{index}]"), format!("expected a text, found {}", kind(&other)))
                        }
                    }
                }
                texts
            }
            Some(other) => {
                self.wrong(key, format!("expected a text or a list of texts, found {}", kind(&other)));
                Vec::new()
            }
        }
    }

    fn duration(&mut self, key: &str) -> Option<Duration> {
        let value = self.take(key)?;
        let read = match &value {
            Value::String(text) => duration::parse(text),
            Value::Number(seconds) => seconds.as_u64().map(Duration::from_secs),
            _ => None,
        };
        if read.is_none() {
            self.wrong(key, format!("expected a duration like \"10m\" or \"90s\", found {}", shown(&value)));
        }
        read
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, key: &str, text: &str) -> Option<T> {
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(key, format!("{error}"));
                None
            }
        }
    }

    fn uuid(&mut self, key: &str, text: &str) {
        if uuid::Uuid::parse_str(text).is_err() {
            self.wrong(key, format!("{text:?} is no id (a UUID) of Scaleway"));
        }
    }

    /// A text, or the content of a file: one of the two.
    fn text_or_file(&mut self, names: [(&str, &str); 2]) -> Option<String> {
        let given: Vec<&str> = names
            .iter()
            .flat_map(|(key, file)| [*key, *file])
            .filter(|key| self.object.get(*key).is_some_and(|value| !value.is_null() && value != ""))
            .collect();
        if given.len() > 1 {
            self.wrong(given[1], format!("cannot stand beside {}; keep one of them", given[0]));
        }
        let mut content = None;
        for (key, file) in names {
            content = content.or(self.text(key));
            if let Some(path) = self.text(file) {
                match read_file(&path) {
                    Ok(text) => content = content.or(Some(text)),
                    Err(words) => self.wrong(file, words),
                }
            }
        }
        content
    }

    /// Every key that nobody took.
    fn refuse_the_rest(&mut self) {
        for key in std::mem::take(&mut self.object).into_iter().map(|(key, _)| key) {
            let near = KEYS
                .iter()
                .map(|candidate| (strsim::damerau_levenshtein(&key, candidate), *candidate))
                .min()
                .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4);
            let words = match near {
                Some((_, candidate)) => format!("there is no such key; did you mean `{candidate}`?"),
                None => format!("there is no such key; the keys are {}", KEYS.join(", ")),
            };
            self.wrong(key.chars().take(64).collect::<String>(), words);
        }
    }
}

/// See [`Configuration::read`].
pub(super) fn read(json: &[u8], surroundings: &Surroundings) -> Result<Configuration, ConfigurationErrors> {
    let one = |words: String| ConfigurationErrors(vec![Problem { place: "the whole".to_owned(), words }]);
    let object = match serde_json::from_slice(json) {
        Ok(Value::Object(object)) => object,
        // A runner without [runners.autoscaler.plugin_config] sends null.
        Ok(Value::Null) => Map::new(),
        Ok(other) => return Err(one(format!("expected a table, found {}", kind(&other)))),
        Err(error) => return Err(one(format!("it is no JSON: {error}"))),
    };
    let mut reader = Reader { object, problems: Vec::new(), surroundings };

    check_kind(&mut reader);
    let written_name = reader.text("name");
    let group = match &written_name {
        Some(name) => group_name(name),
        None => {
            reader.wrong("name", "the group needs a name, for example name = \"ci-runners\"");
            None
        }
    };
    if written_name.is_some() && group.is_none() {
        reader.wrong("name", "it holds no letter and no digit");
    }
    let owner = reader.text("owner").and_then(|owner| reader.parsed::<OwnerName>("owner", &owner));
    let (settings, zone) = settings(&mut reader);
    let server = server(&mut reader, group.as_ref(), zone.as_ref());
    let max_size = reader.number("max_size", 1, u64::from(u32::MAX));
    let max_parallel_creates = reader.number("max_parallel_creates", 1, 1_000);
    let suspend = reader.flag("suspend");
    let delete_on_shutdown = reader.flag("delete_on_shutdown");
    let state_directory = state_directory(&mut reader);
    let policies = match reader.object.remove("policies") {
        None | Some(Value::Null) => Policies::built_in(),
        Some(value) => match Policies::from_value(value) {
            Ok(policies) => policies,
            Err(words) => {
                // The words begin with the place.
                let (place, words) = words.split_once(": ").unwrap_or(("policies", words.as_str()));
                reader.wrong(place, words);
                Policies::built_in()
            }
        },
    };
    let policy_folder = reader.text("policy_folder").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let metrics = reader.text("metrics").and_then(|text| metrics_address(&mut reader, &text));
    reader.refuse_the_rest();

    match (group, written_name, settings, zone, server, state_directory) {
        (Some(group), Some(written_name), Some(settings), Some(zone), Some(server), Some(state_directory))
            if reader.problems.is_empty() =>
        {
            Ok(Configuration {
                group,
                written_name,
                owner,
                settings,
                zone,
                server,
                max_size: max_size.and_then(|size| u32::try_from(size).ok()).unwrap_or(DEFAULT_MAX_SIZE),
                max_parallel_creates: max_parallel_creates
                    .and_then(|count| u32::try_from(count).ok())
                    .unwrap_or(DEFAULT_MAX_PARALLEL_CREATES),
                suspend,
                delete_on_shutdown,
                state_directory,
                policies,
                policy_folder,
                metrics,
            })
        }
        _ => Err(ConfigurationErrors(reader.problems)),
    }
}

fn check_kind(reader: &mut Reader<'_>) {
    match reader.text("kind").as_deref() {
        None | Some("instance") => {}
        Some("apple-silicon") => reader.wrong("kind", "this version does not scale Apple silicon; leave it out"),
        Some(other) => reader.wrong("kind", format!("{other:?} is unknown; the only kind is \"instance\"")),
    }
    if reader.take("os_id").is_some() {
        reader.wrong("os_id", "belongs to Apple silicon, which this version does not scale; instances have `image`");
    }
}

/// A name that Scaleway, tags and people can use. One that needs changes gets a mark made of the original, so that two
/// different names never become one group.
fn group_name(written: &str) -> Option<GroupName> {
    if written.len() <= LONGEST_GROUP
        && let Ok(name) = written.parse()
    {
        return Some(name);
    }
    let mut name = String::new();
    for character in written.chars() {
        let character = character.to_ascii_lowercase();
        if character.is_ascii_lowercase() || character.is_ascii_digit() {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let mark = hex::encode(&Sha256::digest(written.as_bytes())[..3]);
    name.truncate(LONGEST_GROUP - mark.len() - 1);
    let name = name.trim_matches('-');
    if name.is_empty() {
        return None;
    }
    format!("{name}-{mark}").parse().ok()
}

fn settings(reader: &mut Reader<'_>) -> (Option<Settings>, Option<Zone>) {
    let zone = reader
        .text_or_variable(&["zone", "location"], "SCW_DEFAULT_ZONE")
        .map(|zone| reader.parsed::<Zone>("zone", &zone));
    let zone_is_wrong = matches!(zone, Some(None));
    let zone = zone.flatten();
    let secret_key = reader.text_or_variable(&["secret_key"], "SCW_SECRET_KEY");
    let secret_key = match secret_key {
        None => None,
        Some(key) => match key.trim().parse::<SecretKey>() {
            Ok(key) => Some(key),
            Err(error) => {
                reader.wrong("secret_key", error.to_string());
                return (None, zone);
            }
        },
    };
    let explicit = ExplicitSettings {
        profile: reader.text("profile"),
        access_key: reader.text_or_variable(&["access_key"], "SCW_ACCESS_KEY"),
        secret_key,
        organization_id: reader.text_or_variable(&["organization", "organization_id"], "SCW_ORGANIZATION_ID"),
        project_id: reader.text_or_variable(&["project", "project_id"], "SCW_PROJECT_ID"),
        zone: zone.clone(),
        api_url: reader.text_or_variable(&["endpoint"], "SCW_API_URL"),
        user_agent: Some(format!("fleeting-plugin-scaleway/{}", crate::version::VERSION)),
        ..ExplicitSettings::default()
    };
    match Settings::load(&explicit, &reader.surroundings.for_client()) {
        Ok(settings) => {
            let zone = zone.or_else(|| settings.zone().cloned().filter(|_| !zone_is_wrong));
            if zone.is_none() && !zone_is_wrong {
                reader.wrong("zone", "say where, for example zone = \"fr-par-1\" (or the variable SCW_DEFAULT_ZONE)");
            }
            (Some(settings), zone)
        }
        Err(error) => {
            reader.wrong("credentials", crate::protocol::Failure::from_error(&error).0);
            if zone.is_none() && !zone_is_wrong {
                reader.wrong("zone", "say where, for example zone = \"fr-par-1\" (or the variable SCW_DEFAULT_ZONE)");
            }
            (None, zone)
        }
    }
}

fn server(reader: &mut Reader<'_>, group: Option<&GroupName>, zone: Option<&Zone>) -> Option<ServerSpecification> {
    let types: Vec<String> = reader.texts("server_type").into_iter().map(|name| name.to_ascii_uppercase()).collect();
    if types.is_empty() {
        reader.wrong(
            "server_type",
            "at least one is needed, for example [\"DEV1-S\", \"DEV1-M\"] in order of preference",
        );
    }
    let doubled: BTreeSet<&String> =
        types.iter().filter(|name| types.iter().filter(|other| other == name).count() > 1).collect();
    for name in &doubled {
        reader.wrong("server_type", format!("{name} stands there twice"));
    }
    let image = reader.text("image");
    if image.is_none() {
        reader.wrong("image", "say what boots: a label like \"ubuntu_noble\" or an image's id");
    }
    let cloud_init = reader.text_or_file([("cloud_init", "cloud_init_file"), ("user_data", "user_data_file")]);
    let size = reader.number("volume_size", SMALLEST_VOLUME_GB, LARGEST_VOLUME_GB).map(|size| size * GIGABYTE);
    let kind = match reader.text("volume_type").as_deref() {
        None | Some("sbs" | "sbs_volume" | "block") => VolumeKind::Block,
        Some("l_ssd" | "local") => VolumeKind::Local,
        Some(other) => {
            reader
                .wrong("volume_type", format!("{other:?} is unknown; it is \"sbs_volume\" (the default) or \"l_ssd\""));
            VolumeKind::Block
        }
    };
    let operations = reader.take("volume_iops").and_then(|value| {
        let number = value.as_u64().filter(|number| VOLUME_IOPS.contains(number));
        if number.is_none() {
            reader.wrong("volume_iops", format!("expected 5000 or 15000, found {}", shown(&value)));
        }
        number.and_then(|number| u32::try_from(number).ok())
    });
    if kind == VolumeKind::Local && operations.is_some() {
        reader.wrong("volume_iops", "can only be chosen for volume_type = \"sbs_volume\"");
    }
    let private_networks = reader.texts("private_networks");
    for (index, id) in private_networks.iter().enumerate() {
        reader.uuid(&format!("private_networks[{index}]"), id);
    }
    let security_group = reader.text("security_group");
    let placement_group = reader.text("placement_group");
    for (key, id) in [("security_group", &security_group), ("placement_group", &placement_group)] {
        if let Some(id) = id {
            reader.uuid(key, id);
        }
    }
    let mut addresses = Vec::new();
    if !reader.flag("public_ipv4_disabled") {
        addresses.push(AddressKind::Ipv4);
    }
    if !reader.flag("public_ipv6_disabled") {
        addresses.push(AddressKind::Ipv6);
    }
    if addresses.is_empty() && private_networks.is_empty() {
        reader.wrong(
            "public_ipv4_disabled",
            "with public_ipv6_disabled and without private_networks nobody could reach an instance; allow one of them",
        );
    }
    let tags = reader.texts("tags");
    let deadline = reader.duration("create_timeout").unwrap_or(DEFAULT_CREATE_TIMEOUT);

    let (group, zone, image) = (group?, zone?, image?);
    let mut server = ServerSpecification::new(group.clone(), zone.clone(), types.first()?, ImageChoice::parse(&image));
    server.types = types;
    server.addresses = addresses;
    server.root_volume = RootVolume { kind, size, operations_per_second: operations };
    server.private_networks = private_networks;
    server.security_group = security_group;
    server.placement_group = placement_group;
    server.tags = tags;
    server.cloud_init = cloud_init.map(CloudInit::new);
    server.deadline_milliseconds = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    if let Err(error) = server.check() {
        let words = error.to_string();
        let (field, words) = words.split_once(": ").unwrap_or(("server", &words));
        let key = if field == "deadline_milliseconds" { "create_timeout" } else { field };
        reader.wrong(key, words);
        return None;
    }
    Some(server)
}

fn state_directory(reader: &mut Reader<'_>) -> Option<PathBuf> {
    match reader.text("state_dir") {
        Some(path) if Path::new(&path).is_absolute() => Some(PathBuf::from(path)),
        Some(path) => {
            // The runner decides what the working directory is, so a relative path means a different place each time.
            reader.wrong("state_dir", format!("{path:?} is not absolute; write the whole path"));
            None
        }
        None => {
            let found = default_state_directory(reader.surroundings);
            if found.is_none() {
                reader.wrong(
                    "state_dir",
                    "neither XDG_STATE_HOME nor HOME is set; say where, for example \"/var/lib/windlass\"",
                );
            }
            found
        }
    }
}

fn metrics_address(reader: &mut Reader<'_>, text: &str) -> Option<MetricsAddress> {
    if let Some(path) = text.strip_prefix("unix:") {
        if Path::new(path).is_absolute() {
            return Some(MetricsAddress::Unix(PathBuf::from(path)));
        }
        reader.wrong("metrics", format!("{path:?} is not absolute; write the socket's whole path"));
        return None;
    }
    match text.parse() {
        Ok(address) => Some(MetricsAddress::Tcp(address)),
        Err(_) => {
            reader.wrong(
                "metrics",
                format!("{text:?} is no address; write \"127.0.0.1:9252\" or \"unix:/run/windlass/ci.sock\""),
            );
            None
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// A value in a message: numbers and truth values as they are, texts short, and never a whole table.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => kind(other).to_owned(),
    }
}
