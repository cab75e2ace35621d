//! From JSON to a [`Configuration`], collecting everything that is wrong on the way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_lifecycle::{
    AddressKind, CloudInit, GroupName, ImageChoice, OwnerName, RootVolume, ServerSpecification, VolumeKind,
};
use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{ExplicitSettings, SecretKey, Settings, Zone};

use super::problem::{ConfigurationErrors, Problem};
use super::reader::{Reader, kind, shown};
use super::state_directory::default_state_directory;
use super::{
    Configuration, DEFAULT_CREATE_TIMEOUT, DEFAULT_MAX_PARALLEL_CREATES, DEFAULT_MAX_SIZE, GroupConfiguration,
    MetricsAddress, Surroundings, read_apple_silicon,
};

/// Bytes in one of Scaleway's gigabytes.
const GIGABYTE: u64 = 1_000_000_000;
/// The smallest volume that the existing plugins accept, in gigabytes.
const SMALLEST_VOLUME_GB: u64 = 10;
/// The largest, in gigabytes: Block Storage's own limit by Scaleway's documentation
/// (assumption: block-volume-size).
const LARGEST_VOLUME_GB: u64 = 10_000;
/// What Block Storage offers, in operations per second (SDK).
const VOLUME_IOPS: [u64; 2] = [5_000, 15_000];
/// The longest watched tag, in bytes: all of them go into each question to the policy, and into its record.
const LONGEST_WATCHED_TAG: usize = 256;
/// The longest group name that leaves room for the mark of a changed one.
const LONGEST_GROUP: usize = 40;

/// What a group consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instance,
    AppleSilicon,
}

/// What groups of both kinds have, as far as it could be read.
pub(super) struct Common {
    pub(super) group: Option<GroupName>,
    pub(super) written_name: Option<String>,
    pub(super) owner: Option<OwnerName>,
    pub(super) settings: Option<Settings>,
    pub(super) zone: Option<Zone>,
    pub(super) max_size: Option<u32>,
    pub(super) delete_on_shutdown: bool,
    pub(super) state_directory: Option<PathBuf>,
    pub(super) policies: Policies,
    pub(super) policy_folder: PathBuf,
    pub(super) brake: Brake,
    pub(super) metrics: Option<MetricsAddress>,
}

/// See [`GroupConfiguration::read`].
pub(super) fn read(json: &[u8], surroundings: &Surroundings) -> Result<GroupConfiguration, ConfigurationErrors> {
    let one = |words: String| ConfigurationErrors(vec![Problem { place: "the whole".to_owned(), words }]);
    let object = match serde_json::from_slice(json) {
        Ok(Value::Object(object)) => object,
        // A runner without [runners.autoscaler.plugin_config] sends null.
        Ok(Value::Null) => Map::new(),
        Ok(other) => return Err(one(format!("expected a table, found {}", kind(&other)))),
        Err(error) => return Err(one(format!("it is no JSON: {error}"))),
    };
    let mut reader = Reader { object, problems: Vec::new(), surroundings };
    let kind = read_kind(&mut reader);
    let common = common(&mut reader, kind);
    let read = match kind {
        Kind::Instance => instances(&mut reader, common).map(|read| GroupConfiguration::Instances(Box::new(read))),
        Kind::AppleSilicon => {
            read_apple_silicon::hosts(&mut reader, common).map(|read| GroupConfiguration::AppleSilicon(Box::new(read)))
        }
    };
    reader.refuse_the_rest();
    match read {
        Some(read) if reader.problems.is_empty() => Ok(read),
        _ => Err(ConfigurationErrors(reader.problems)),
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Kind {
    match reader.text("kind").as_deref() {
        None | Some("instance") => Kind::Instance,
        Some("apple-silicon") => Kind::AppleSilicon,
        Some(other) => {
            reader
                .wrong("kind", format!("{other:?} is unknown; it is \"instance\" (the default) or \"apple-silicon\""));
            Kind::Instance
        }
    }
}

fn common(reader: &mut Reader<'_>, kind: Kind) -> Common {
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
    let default_zone = match kind {
        Kind::Instance => None,
        Kind::AppleSilicon => Some(read_apple_silicon::DEFAULT_ZONE),
    };
    let (settings, zone) = settings(reader, default_zone);
    let max_size = reader.number("max_size", 1, u64::from(u32::MAX)).and_then(|size| u32::try_from(size).ok());
    let delete_on_shutdown = reader.flag("delete_on_shutdown");
    let state_directory = state_directory(reader);
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
    let brake = brake(reader);
    let metrics = reader.text("metrics").and_then(|text| metrics_address(reader, &text));
    Common {
        group,
        written_name,
        owner,
        settings,
        zone,
        max_size,
        delete_on_shutdown,
        state_directory,
        policies,
        policy_folder,
        brake,
        metrics,
    }
}

fn brake(reader: &mut Reader<'_>) -> Brake {
    let servers = reader.number("max_reaps", 0, u64::from(u32::MAX)).and_then(|count| u32::try_from(count).ok());
    let default = Brake::default();
    Brake {
        servers: servers.unwrap_or(default.servers),
        share: reader.share("max_reap_share").unwrap_or(default.share),
    }
}

fn instances(reader: &mut Reader<'_>, common: Common) -> Option<Configuration> {
    for key in read_apple_silicon::KEYS {
        if reader.take(key).is_some() {
            reader.wrong(*key, "belongs to groups of kind = \"apple-silicon\"; this one is of instances");
        }
    }
    let server = server(reader, common.group.as_ref(), common.zone.as_ref());
    let watched_tags = watched_tags(reader);
    let max_parallel_creates = reader.number("max_parallel_creates", 1, 1_000);
    let suspend = reader.flag("suspend");
    Some(Configuration {
        group: common.group?,
        written_name: common.written_name?,
        owner: common.owner,
        settings: common.settings?,
        zone: common.zone?,
        server: server?,
        watched_tags,
        max_size: common.max_size.unwrap_or(DEFAULT_MAX_SIZE),
        max_parallel_creates: max_parallel_creates
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(DEFAULT_MAX_PARALLEL_CREATES),
        suspend,
        delete_on_shutdown: common.delete_on_shutdown,
        state_directory: common.state_directory?,
        policies: common.policies,
        policy_folder: common.policy_folder,
        brake: common.brake,
        metrics: common.metrics,
    })
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

/// Credentials and place. `default_zone` is the one where neither configuration nor environment nor Scaleway's own
/// configuration says any.
fn settings(reader: &mut Reader<'_>, default_zone: Option<&str>) -> (Option<Settings>, Option<Zone>) {
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
    let mut explicit = ExplicitSettings::default();
    explicit.profile = reader.text("profile");
    explicit.access_key = reader.text_or_variable(&["access_key"], "SCW_ACCESS_KEY");
    explicit.secret_key = secret_key;
    explicit.organization_id = reader.text_or_variable(&["organization", "organization_id"], "SCW_ORGANIZATION_ID");
    explicit.project_id = reader.text_or_variable(&["project", "project_id"], "SCW_PROJECT_ID");
    explicit.zone = zone.clone();
    explicit.api_url = reader.text_or_variable(&["endpoint"], "SCW_API_URL");
    explicit.user_agent = Some(format!("fleeting-plugin-scaleway/{}", crate::version::VERSION));
    match Settings::load(&explicit, &reader.surroundings.for_client()) {
        Ok(settings) => {
            let zone = zone.or_else(|| settings.zone().cloned().filter(|_| !zone_is_wrong));
            let default = default_zone.filter(|_| !zone_is_wrong).and_then(|zone| zone.parse().ok());
            let zone = zone.or(default);
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

/// What the state-mapping policy watches. The messages name a tag's number: its text may be long.
fn watched_tags(reader: &mut Reader<'_>) -> Vec<String> {
    let tags = reader.texts("watched_tags");
    if tags.len() > MAX_WATCHED_TAGS {
        reader.wrong("watched_tags", format!("{} are more than {MAX_WATCHED_TAGS}", tags.len()));
    }
    for (index, tag) in tags.iter().enumerate().take(MAX_WATCHED_TAGS) {
        if tag.len() > LONGEST_WATCHED_TAG {
            reader.wrong(format!("watched_tags[{index}]"), format!("it is longer than {LONGEST_WATCHED_TAG} bytes"));
        }
        if let Some(first) = tags[..index].iter().position(|earlier| earlier == tag) {
            reader.wrong(format!("watched_tags[{index}]"), format!("it is the same as watched_tags[{first}]"));
        }
    }
    tags
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
