//! From JSON to a [`Configuration`], collecting everything that is wrong on the way.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use windlass_lifecycle::log::SharedLog;
use windlass_lifecycle::{
    AddressKind, AddressPool, CloudInit, ExtraVolume, GroupName, ImageChoice, OwnerName, RootVolume,
    ServerSpecification, SpecificationProblem, VolumeKind,
};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::{Brake, Mistake, Policies, Source};
use windlass_scaleway::{ExplicitSettings, Limits, SecretKey, Settings, Zone};

use super::common::Common;
use super::console::console;
use super::problem::ConfigurationErrors;
use super::reader::{Reader, duration, kind, shown};
use super::state_directory::default_state_directory;
use super::zones::{self, MAX_PLACES};
use super::{Configuration, GroupConfiguration, MetricsAddress, ProcessEnvironment, ZonalIds, read_apple_silicon};

/// How many creations run at the same time, unless configured.
const DEFAULT_MAX_PARALLEL_CREATES: u32 = 20;
/// How many may be left before creations pause, unless configured.
const DEFAULT_MAX_LEFTOVERS: u32 = 10;
/// The most instances of a group, unless configured. The runner refuses a group that holds fewer than its
/// `max_instances`, and the message names this key.
const DEFAULT_MAX_SIZE: u32 = 1_000;
/// How long a server may take until it runs, unless configured: ten times the longest recorded boot, rounded up.
const DEFAULT_CREATE_TIMEOUT: Duration = Duration::from_secs(600);
/// The smallest volume that the existing plugins accept, in gigabytes.
const MIN_VOLUME_GB: u64 = 10;
/// The largest, in gigabytes: Block Storage's own limit by Scaleway's documentation
/// (assumption: block-volume-size).
const MAX_VOLUME_GB: u64 = 10_000;
/// The smallest volume beside it, in gigabytes.
const MIN_EXTRA_VOLUME_GB: u64 = 1;
/// Volumes beside the root volume at most (Scaleway: 16 volumes; what it takes of a type, it says itself).
pub(super) const MAX_EXTRA_VOLUMES: usize = 15;
/// What Block Storage offers, in operations per second (SDK).
const VOLUME_IOPS: [u64; 2] = [5_000, 15_000];
/// The longest watched tag, in bytes: all of them go into each question to the policy, and into its record.
pub(super) const MAX_WATCHED_TAG_LEN: usize = 256;
/// The longest group name that leaves room for the mark of a changed one.
const MAX_GROUP_LEN: usize = 40;

/// The most calls a second that can be configured: far above what Scaleway takes (assumption: rate-limit).
const MAX_CALLS_PER_SECOND: u64 = 1_000;
/// How long the default state-mapping policy gives a server until it runs, in milliseconds (its README).
pub(super) const MAPPING_DEADLINE_MS: u64 = 900_000;
/// How much longer than `create_timeout` that is at least: its default is as much longer than ours.
pub(super) const MAPPING_MARGIN_MS: u64 = 300_000;

/// Why there is no maximum age. Of what runs on an instance fleeting's protocol says nothing: no call of
/// `provider.InstanceGroup` tells that a job began or ended, and no state that an Update can tell means "when it is
/// idle".
const NO_AGE: &str = "there is no such key: the runner does not tell a plugin which instances are idle, so an old one \
    could only be removed under its jobs. Have the runner replace them: max_use_count in [runners.autoscaler], and \
    idle_time in its policy";

/// What a group consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Instance,
    AppleSilicon,
}

impl GroupConfiguration {
    /// Reads `plugin_config` as the host sends it (a JSON object).
    ///
    /// The environment wins over the configuration where a key has a variable (`SCW_SECRET_KEY`, ...), each variable
    /// also as `..._FILE`; what neither says is looked for where Scaleway's own tools have it.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn read(json: &[u8], process_environment: &ProcessEnvironment) -> Result<Self, ConfigurationErrors> {
        let one = |words: String| ConfigurationErrors(vec![Mistake { place: "plugin_config".to_owned(), words }]);
        let object = match serde_json::from_slice(json) {
            Ok(Value::Object(object)) => object,
            // A runner without [runners.autoscaler.plugin_config] sends null.
            Ok(Value::Null) => Map::new(),
            Ok(other) => return Err(one(format!("expected a table, found {}", kind(&other)))),
            Err(error) => return Err(one(format!("it is not valid JSON: {error}"))),
        };
        let mut reader = Reader { object, problems: Vec::new(), process_environment };
        let kind = read_kind(&mut reader);
        let common = common(&mut reader, kind);
        let read = match kind {
            Kind::Instance => instances(&mut reader, common).map(|read| GroupConfiguration::Instances(Box::new(read))),
            Kind::AppleSilicon => read_apple_silicon::hosts(&mut reader, common)
                .map(|read| GroupConfiguration::AppleSilicon(Box::new(read))),
        };
        reader.refuse_the_rest();
        match read {
            Some(read) if reader.problems.is_empty() => Ok(read),
            _ => Err(ConfigurationErrors(reader.problems)),
        }
    }
}

/// The keys of groups of both kinds, as far as they could be read.
pub(super) struct CommonKeys {
    pub(super) group: Option<GroupName>,
    /// Empty where none could be read.
    pub(super) zones: Vec<Zone>,
    max_size: Option<u32>,
    policies: Policies,
    /// Absent where a key is missing.
    pub(super) all: Option<Common>,
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

fn common(reader: &mut Reader<'_>, kind: Kind) -> CommonKeys {
    let written_name = reader.text("name");
    let group = match &written_name {
        Some(name) => group_name(name),
        None => {
            reader.wrong("name", "the group needs a name, for example name = \"ci-runners\"");
            None
        }
    };
    if written_name.is_some() && group.is_none() {
        reader.wrong("name", "it must contain a letter or a digit");
    }
    let owner = reader.text("owner").and_then(|owner| reader.parsed::<OwnerName>("owner", &owner));
    let (default_zone, default_max_size) = match kind {
        Kind::Instance => (None, DEFAULT_MAX_SIZE),
        Kind::AppleSilicon => (Some(read_apple_silicon::DEFAULT_ZONE), read_apple_silicon::DEFAULT_MAX_SIZE),
    };
    let adopt = reader.object.contains_key("adopt").then(|| reader.flag("adopt"));
    let (settings, zones) = settings(reader, default_zone);
    let max_size = reader.number("max_size", 1, u64::from(u32::MAX)).and_then(|size| u32::try_from(size).ok());
    let max_leftovers = reader.number("max_leftovers", 0, u64::from(u32::MAX)).and_then(|it| u32::try_from(it).ok());
    let delete_on_shutdown = reader.flag("delete_on_shutdown");
    let state_directory = state_directory(reader);
    let shared_state = shared_state(reader, group.as_ref());
    let policies = match reader.object.remove("policies") {
        None | Some(Value::Null) => Policies::built_in(),
        Some(value) => match Policies::from_value(value) {
            Ok(policies) => policies,
            // The words begin with the place.
            Err(all) => {
                all.into_iter().for_each(|words| reader.wrong("", words));
                Policies::built_in()
            }
        },
    };
    let policy_folder = reader.text("policy_folder").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let brake = brake(reader);
    let metrics = reader.text("metrics").and_then(|text| metrics_address(reader, &text));
    let console = console(reader);
    if reader.take("max_age").is_some() {
        reader.wrong("max_age", NO_AGE);
    }
    let all = || {
        Some(Common {
            group: group.clone()?,
            written_name: written_name?,
            owner,
            adopt,
            settings: settings?,
            zones: zones.clone(),
            max_size: max_size.unwrap_or(default_max_size),
            max_leftovers: max_leftovers.unwrap_or(DEFAULT_MAX_LEFTOVERS),
            delete_on_shutdown,
            state_directory: state_directory?,
            shared_state,
            policies: policies.clone(),
            policy_folder,
            brake,
            metrics,
            console,
        })
    };
    let all = all().filter(|_| !zones.is_empty());
    CommonKeys { group, zones, max_size, policies, all }
}

fn brake(reader: &mut Reader<'_>) -> Brake {
    let servers = reader.number("max_reaps", 0, u64::from(u32::MAX)).and_then(|count| u32::try_from(count).ok());
    let default = Brake::default();
    Brake {
        servers: servers.unwrap_or(default.servers),
        share: reader.share("max_reap_share").unwrap_or(default.share),
    }
}

fn instances(reader: &mut Reader<'_>, common: CommonKeys) -> Option<Configuration> {
    for key in read_apple_silicon::KEYS {
        if reader.take(key).is_some() {
            reader.wrong(*key, "belongs to groups of kind = \"apple-silicon\"; this one is of instances");
        }
    }
    refuse_early_reaps(reader, &common.policies);
    let (server, zonal) = server(reader, common.group.as_ref(), &common.zones).unzip();
    let watched_tags = watched_tags(reader);
    let max_parallel_creates = reader.number("max_parallel_creates", 1, 1_000);
    let suspend = reader.flag("suspend");
    let server = server?;
    let max_size = max_size(reader, common.max_size, &server);
    let policies = with_deadline(common.policies, server.deadline_milliseconds);
    Some(Configuration {
        common: Common { max_size, policies, ..common.all? },
        server,
        zonal: zonal?,
        watched_tags,
        max_parallel_creates: max_parallel_creates
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(DEFAULT_MAX_PARALLEL_CREATES),
        suspend,
    })
}

/// A group with a list of addresses has no more instances than these.
fn max_size(reader: &mut Reader<'_>, configured: Option<u32>, server: &ServerSpecification) -> u32 {
    let Some(AddressPool::Ips(ips)) = &server.address_pool else { return configured.unwrap_or(DEFAULT_MAX_SIZE) };
    let most = u32::try_from(ips.len()).unwrap_or(u32::MAX);
    if configured.is_some_and(|size| size > most) {
        let words = format!("each instance takes one of the {most} reserved_ips; name more, or make it {most} at most");
        reader.wrong("max_size", words);
    }
    configured.unwrap_or(most)
}

/// A server that the state-mapping policy reaps before its creation gives it up would never have its `create_timeout`.
fn refuse_early_reaps(reader: &mut Reader<'_>, policies: &Policies) {
    let default = policies.chain(SlotName::StateMapping).last().filter(|link| link.source == Source::BuiltIn);
    let deadline = default.and_then(|link| link.settings.get("deadline-ms")).and_then(Value::as_u64);
    let (Some(deadline), Some(written)) = (deadline, reader.object.get("create_timeout")) else { return };
    let Some(timeout) = duration(written) else { return };
    if u128::from(deadline) < timeout.as_millis() {
        let words = format!(
            "policies.state-mapping removes a server after {deadline} ms (deadline-ms), before create_timeout is over: \
             set deadline-ms to {} ms or more, or remove it",
            timeout.as_millis()
        );
        reader.wrong("create_timeout", words);
    }
}

/// The default state-mapping policy reaps what does not run in time: not before its creation has given it up.
fn with_deadline(policies: Policies, create_timeout: u64) -> Policies {
    let deadline = create_timeout.saturating_add(MAPPING_MARGIN_MS);
    if deadline <= MAPPING_DEADLINE_MS {
        return policies;
    }
    policies.with_default_setting(SlotName::StateMapping, "deadline-ms", deadline.into())
}

/// A name that Scaleway, tags and people can use. One that needs changes gets a mark made of the original, so that two
/// different names never become one group.
fn group_name(written: &str) -> Option<GroupName> {
    if written.len() <= MAX_GROUP_LEN
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
    name.truncate(MAX_GROUP_LEN - mark.len() - 1);
    let name = name.trim_matches('-');
    if name.is_empty() {
        return None;
    }
    format!("{name}-{mark}").parse().ok()
}

/// Credentials and place. `default_zone` is the one where neither configuration nor environment nor Scaleway's own
/// configuration says any.
fn settings(reader: &mut Reader<'_>, default_zone: Option<&str>) -> (Option<Settings>, Vec<Zone>) {
    let zones = zones::zones(reader);
    let zone_is_wrong = zones.is_none();
    let zones = zones.unwrap_or_default();
    let secret_key = reader.text_or_variable(&["secret_key"], "SCW_SECRET_KEY");
    let secret_key = secret_key.map(|key| key.trim().parse::<SecretKey>()).transpose();
    let mut explicit = ExplicitSettings::default();
    explicit.profile = reader.text("profile");
    explicit.access_key = reader.text_or_variable(&["access_key"], "SCW_ACCESS_KEY");
    explicit.organization_id = reader.text_or_variable(&["organization", "organization_id"], "SCW_ORGANIZATION_ID");
    explicit.project_id = reader.text_or_variable(&["project", "project_id"], "SCW_PROJECT_ID");
    // What is wrong with a zone is told already, also where it is the variable's.
    let any_zone = || zone_is_wrong.then(|| Zone::KNOWN[0].parse().ok()).flatten();
    explicit.zone = zones.first().cloned().or_else(any_zone);
    explicit.api_url = reader.text_or_variable(&["endpoint"], "SCW_API_URL");
    explicit.limits = calls_per_second(reader);
    explicit.user_agent = Some(format!("fleeting-plugin-scaleway/{}", crate::version::VERSION));
    explicit.secret_key = match secret_key {
        Ok(key) => key,
        Err(error) => {
            reader.wrong("secret_key", error.to_string());
            return (None, zones);
        }
    };
    match Settings::load(&explicit, reader.process_environment) {
        Ok(settings) => {
            let mut zones = zones;
            if zones.is_empty() && !zone_is_wrong {
                let default = || default_zone.and_then(|zone| zone.parse().ok());
                zones.extend(settings.zone().cloned().or_else(default));
            }
            if zones.is_empty() && !zone_is_wrong {
                reader.wrong("zone", "say where, for example zone = \"fr-par-1\" (or the variable SCW_DEFAULT_ZONE)");
            }
            (Some(settings), zones)
        }
        Err(error) => {
            reader.wrong("credentials", crate::protocol::Failure::from_error(&error).0);
            if zones.is_empty() && !zone_is_wrong {
                reader.wrong("zone", "say where, for example zone = \"fr-par-1\" (or the variable SCW_DEFAULT_ZONE)");
            }
            (None, zones)
        }
    }
}

/// The client's own limit: what is made at once after a pause, and in the long run.
fn calls_per_second(reader: &mut Reader<'_>) -> Option<Limits> {
    let calls = reader.number("calls_per_second", 1, MAX_CALLS_PER_SECOND)?;
    let calls = NonZeroU32::new(u32::try_from(calls).ok()?)?;
    let mut limits = Limits::default();
    (limits.calls_per_second, limits.burst) = (calls, calls);
    Some(limits)
}

fn server(
    reader: &mut Reader<'_>,
    group: Option<&GroupName>,
    zones: &[Zone],
) -> Option<(ServerSpecification, ZonalIds)> {
    let types: Vec<String> =
        reader.texts("server_type").into_iter().map(|name| name.trim().to_ascii_uppercase()).collect();
    if types.is_empty() {
        reader.wrong(
            "server_type",
            "at least one is needed, for example [\"DEV1-S\", \"DEV1-M\"] in order of preference",
        );
    }
    let doubled: BTreeSet<&String> =
        types.iter().filter(|name| types.iter().filter(|other| other == name).count() > 1).collect();
    for name in &doubled {
        reader.wrong("server_type", format!("{name} is listed twice"));
    }
    if types.len() * zones.len() > MAX_PLACES {
        let words = format!(
            "{} zones with {} types are more than the {MAX_PLACES} places of which one can be chosen",
            zones.len(),
            types.len()
        );
        reader.wrong("zone", words);
    }
    let image = image(reader);
    let cloud_init = reader.text_or_file([("cloud_init", "cloud_init_file"), ("user_data", "user_data_file")]);
    let size = reader.size("volume_size", MIN_VOLUME_GB, MAX_VOLUME_GB);
    let (kind, operations) = volume(reader, "volume_type", "volume_iops");
    let volumes = extra_volumes(reader);
    let (private_networks, networks_of_regions) = zones::private_networks(reader, zones);
    let (security_group, security_groups) = zones::zonal_id(reader, "security_group", zones);
    let (placement_group, placement_groups) = zones::zonal_id(reader, "placement_group", zones);
    let zonal = ZonalIds { security_groups, placement_groups, private_networks: networks_of_regions };
    let address_pool = address_pool(reader, zones);
    let mut addresses = Vec::new();
    let no_ipv4 = reader.flag("public_ipv4_disabled");
    if no_ipv4 && address_pool.is_some() {
        reader.wrong(
            "public_ipv4_disabled",
            "reserved IPs are public IPv4 addresses; remove this key, or the reserved IPs",
        );
    }
    if !no_ipv4 && address_pool.is_none() {
        addresses.push(AddressKind::Ipv4);
    }
    if !reader.flag("public_ipv6_disabled") {
        addresses.push(AddressKind::Ipv6);
    }
    let without_network = match zonal.private_networks.is_empty() {
        true => private_networks.is_empty(),
        false => zonal.private_networks.values().any(Vec::is_empty),
    };
    if addresses.is_empty() && address_pool.is_none() && without_network {
        reader.wrong(
            "public_ipv4_disabled",
            "with public_ipv6_disabled and without private_networks nobody could reach an instance; allow one of them",
        );
    }
    let tags = reader.texts("tags");
    let deadline = reader.duration("create_timeout").unwrap_or(DEFAULT_CREATE_TIMEOUT);

    let (group, zone, image) = (group?, zones.first()?, image?);
    let mut server = ServerSpecification::new(group.clone(), zone.clone(), types.first()?, image);
    server.types = types;
    server.addresses = addresses;
    server.address_pool = address_pool;
    server.volumes = volumes;
    server.root_volume = RootVolume { kind, size, operations_per_second: operations };
    server.private_networks = private_networks;
    server.security_group = security_group;
    server.placement_group = placement_group;
    server.tags = tags;
    server.cloud_init = cloud_init.map(CloudInit::new);
    server.deadline_milliseconds = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    server.normalize();
    let mut problems = server.problems(1);
    for ids in zonal.private_networks.values() {
        let mut of_region = server.clone();
        of_region.private_networks.clone_from(ids);
        let new = of_region.problems(1).into_iter().filter(|problem| !problems.contains(problem));
        problems.extend(new.collect::<Vec<_>>());
    }
    for SpecificationProblem { field, problem } in &problems {
        let key = match *field {
            "deadline_milliseconds" => "create_timeout",
            "address_pool" => "reserved_ip_tag",
            "types" => "server_type",
            "volumes" => "extra_volumes",
            "root_volume" => "volume_type",
            field => field,
        };
        // What a key's own rule has refused is not refused once more.
        if !reader.problems.iter().any(|known| known.place.split(['[', '.']).next() == Some(key)) {
            reader.wrong(key, problem.clone());
        }
    }
    problems.is_empty().then_some((server, zonal))
}

/// A label, an id, or a table that says which of the project's own images.
fn image(reader: &mut Reader<'_>) -> Option<ImageChoice> {
    match reader.take("image") {
        Some(Value::String(text)) => Some(ImageChoice::parse(&text)),
        Some(Value::Object(table)) => {
            reader.table("image", table, &["name", "tag"], |table| match (table.text("name"), table.text("tag")) {
                (Some(name), None) => Some(ImageChoice::Name(name)),
                (None, Some(tag)) => Some(ImageChoice::Tag(tag)),
                (Some(_), Some(_)) => {
                    table.wrong("tag", "cannot be combined with name; keep one of them");
                    None
                }
                (None, None) => {
                    table.wrong("name", "say which: { name = \"ci-image\" } or { tag = \"ci\" }");
                    None
                }
            })
        }
        Some(other) => {
            reader.wrong("image", format!("expected a text or a table, found {}", kind(&other)));
            None
        }
        None => {
            let words = "say what boots: a label like \"ubuntu_noble\", an image's id, or your own newest by \
                         { name = \"ci-image\" } or { tag = \"ci\" }";
            reader.wrong("image", words);
            None
        }
    }
}

/// Where a volume lives and how fast it is.
fn volume(reader: &mut Reader<'_>, type_key: &str, iops_key: &str) -> (VolumeKind, Option<u32>) {
    let kind = match reader.text(type_key).as_deref() {
        None | Some("sbs" | "sbs_volume" | "block") => VolumeKind::Block,
        Some("l_ssd" | "local") => VolumeKind::Local,
        Some("scratch") => VolumeKind::Scratch,
        Some(other) => {
            let words = "it is \"sbs_volume\" (the default), \"l_ssd\", or, for an extra volume, \"scratch\"";
            reader.wrong(type_key, format!("{other:?} is unknown; {words}"));
            VolumeKind::Block
        }
    };
    let operations = reader.take(iops_key).and_then(|value| {
        let number = value.as_u64().filter(|number| VOLUME_IOPS.contains(number));
        if number.is_none() {
            reader.wrong(iops_key, format!("expected 5000 or 15000, found {}", shown(&value)));
        }
        number.and_then(|number| u32::try_from(number).ok())
    });
    if kind != VolumeKind::Block && operations.is_some() {
        reader.wrong(iops_key, format!("can only be chosen for {type_key} = \"sbs_volume\""));
    }
    // What was refused here is not refused once more by the specification.
    (kind, operations.filter(|_| kind == VolumeKind::Block))
}

fn extra_volumes(reader: &mut Reader<'_>) -> Vec<ExtraVolume> {
    let key = "extra_volumes";
    let items = match reader.take(key) {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => {
            reader.wrong(key, format!("expected a list like [{{ size = 50 }}], found {}", kind(&other)));
            return Vec::new();
        }
    };
    if items.len() > MAX_EXTRA_VOLUMES {
        reader.wrong(key, format!("{} are more than {MAX_EXTRA_VOLUMES}", items.len()));
        return Vec::new();
    }
    let mut volumes = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("{key}[{index}]");
        let Value::Object(table) = item else {
            reader.wrong(place, format!("expected a table like {{ size = 50 }}, found {}", kind(&item)));
            continue;
        };
        volumes.extend(reader.table(&place, table, &["iops", "size", "type"], |table| {
            let (kind, operations_per_second) = volume(table, "type", "iops");
            if !table.object.contains_key("size") {
                table.wrong("size", "say how large it is, as in \"50GB\"");
            }
            let size = table.size("size", MIN_EXTRA_VOLUME_GB, MAX_VOLUME_GB)?;
            Some(ExtraVolume::New { kind, size, operations_per_second })
        }));
    }
    volumes
}

/// Addresses that are handed round.
fn address_pool(reader: &mut Reader<'_>, zones: &[Zone]) -> Option<AddressPool> {
    let (mut ips, tag) = (reader.texts("reserved_ips"), reader.text("reserved_ip_tag"));
    // Each is in one of the zones; which, Init asks.
    for ip in &mut ips {
        if let Some(id) = zones.iter().find_map(|zone| zone.local_id(ip).ok()) {
            *ip = id.to_owned();
        }
    }
    for (index, ip) in ips.iter().enumerate() {
        let place = format!("reserved_ips[{index}]");
        if uuid::Uuid::parse_str(ip).is_err() && ip.parse::<Ipv4Addr>().is_err() {
            reader.wrong(place, format!("{ip:?} is neither an address's id (a UUID) nor an IPv4 address"));
        } else if let Some(first) = ips[..index].iter().position(|earlier| earlier == ip) {
            reader.wrong(place, format!("it is the same as reserved_ips[{first}]"));
        }
    }
    match tag {
        None if ips.is_empty() => None,
        None => Some(AddressPool::Ips(ips)),
        Some(tag) => {
            if !ips.is_empty() {
                reader.wrong("reserved_ip_tag", "cannot be combined with reserved_ips; keep one of them");
            }
            Some(AddressPool::Tag(tag))
        }
    }
}

/// What the state-mapping policy watches. The messages name a tag's number: its text may be long.
fn watched_tags(reader: &mut Reader<'_>) -> Vec<String> {
    let tags = reader.texts("watched_tags");
    if tags.len() > MAX_WATCHED_TAGS {
        reader.wrong("watched_tags", format!("{} are more than {MAX_WATCHED_TAGS}", tags.len()));
    }
    for (index, tag) in tags.iter().enumerate().take(MAX_WATCHED_TAGS) {
        if tag.len() > MAX_WATCHED_TAG_LEN {
            reader.wrong(format!("watched_tags[{index}]"), format!("it is longer than {MAX_WATCHED_TAG_LEN} bytes"));
        }
        if let Some(first) = tags[..index].iter().position(|earlier| earlier == tag) {
            reader.wrong(format!("watched_tags[{index}]"), format!("it is the same as watched_tags[{first}]"));
        }
    }
    tags
}

fn state_directory(reader: &mut Reader<'_>) -> Option<PathBuf> {
    match reader.text("state_dir") {
        Some(url) if url.contains("://") => {
            reader.wrong("state_dir", "it is a URL; write the path of a folder. A database is named with `state`");
            None
        }
        Some(path) if Path::new(&path).is_absolute() => Some(PathBuf::from(path)),
        Some(path) => {
            // The runner decides what the working directory is, so a relative path means a different place each time.
            reader.wrong("state_dir", format!("{path:?} is not absolute; write the whole path"));
            None
        }
        None => {
            let found = default_state_directory(reader.process_environment);
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

fn shared_state(reader: &mut Reader<'_>, group: Option<&GroupName>) -> Option<Arc<dyn SharedLog>> {
    let url = reader.text_or_variable(&["state"], "WINDLASS_STATE")?;
    match database(&url, reader.process_environment, group?) {
        Ok(state) => Some(state),
        Err(words) => {
            reader.wrong("state", words);
            None
        }
    }
}

#[cfg(feature = "postgres")]
fn database(url: &str, environment: &ProcessEnvironment, group: &GroupName) -> Result<Arc<dyn SharedLog>, String> {
    let host = windlass_process::host_name_or_unknown();
    match windlass_postgres::PostgresState::of_group(url, environment.variables(), group, host) {
        Ok(state) => Ok(Arc::new(state)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "postgres"))]
fn database(_: &str, _: &ProcessEnvironment, _: &GroupName) -> Result<Arc<dyn SharedLog>, String> {
    Err("this plugin was built without PostgreSQL".to_owned())
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
                format!("{text:?} is not an address; write \"127.0.0.1:9253\" or \"unix:/run/windlass/ci.sock\""),
            );
            None
        }
    }
}
