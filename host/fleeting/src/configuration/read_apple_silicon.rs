//! What is special about groups of Macs.

use windlass_lifecycle::PoolPrefix;
use windlass_policy::slots::release::Requested;

use super::apple_silicon::{AppleSiliconConfiguration, OperatingSystem};
use super::read::CommonKeys;
use super::reader::Reader;

/// Where the existing Apple silicon plugin looks by default.
pub(super) const DEFAULT_ZONE: &str = "fr-par-3";
/// The most hosts, unless configured: as the existing plugin has it.
pub(super) const DEFAULT_MAX_SIZE: u32 = 10;
/// Keys that only these groups have.
pub(super) const KEYS: &[&str] = &["operating_system", "order", "os_id", "pool_prefix", "release_requested"];
/// Keys that only groups of instances have.
const KEYS_OF_INSTANCES: &[&str] = &[
    "cloud_init",
    "cloud_init_file",
    "create_timeout",
    "extra_volumes",
    "image",
    "max_parallel_creates",
    "placement_group",
    "private_networks",
    "public_ipv4_disabled",
    "public_ipv6_disabled",
    "reserved_ip_tag",
    "reserved_ips",
    "security_group",
    "suspend",
    "tags",
    "user_data",
    "user_data_file",
    "volume_iops",
    "volume_size",
    "volume_type",
    "watched_tags",
];

pub(super) fn hosts(reader: &mut Reader<'_>, common: CommonKeys) -> Option<AppleSiliconConfiguration> {
    for key in KEYS_OF_INSTANCES {
        if reader.take(key).is_some() {
            reader.wrong(*key, "only groups of instances have this key; remove it");
        }
    }
    let mut types = reader.texts("server_type").into_iter().map(|name| name.to_ascii_uppercase());
    let server_type = types.next();
    if server_type.is_none() {
        reader.wrong("server_type", "say which Mac, for example \"M4-S\"");
    }
    if types.next().is_some() {
        reader.wrong("server_type", "a group of Macs has one type; make a group for each");
    }
    if common.zones.len() > 1 {
        reader.wrong("zone", "a group of Macs is in one zone; make a group for each");
    }
    let operating_system = operating_system(reader);
    let pool = reader.text("pool_prefix").and_then(|prefix| reader.parsed::<PoolPrefix>("pool_prefix", &prefix));
    let order = order(reader, pool.is_some());
    let release_requested = reader.text("release_requested").and_then(|word| match word.as_str() {
        "pool" => Some(Requested::ReturnToPool),
        "terminate" => Some(Requested::Terminate),
        "keep" => Some(Requested::Keep),
        other => {
            reader
                .wrong("release_requested", format!("{other:?} is unknown; it is \"pool\", \"terminate\" or \"keep\""));
            None
        }
    });
    if release_requested == Some(Requested::ReturnToPool) && pool.is_none() {
        reader.wrong("release_requested", "there is no pool to return to; say which with pool_prefix = \"ci-pool-\"");
    }
    if let (Some(group), Some(pool)) = (&common.group, &pool)
        && format!("{group}-").starts_with(pool.as_str())
    {
        reader.wrong(
            "pool_prefix",
            format!("the hosts of the group are called {group}-..., so the pool would hold them while they work"),
        );
    }
    Some(AppleSiliconConfiguration {
        common: common.all?,
        server_type: server_type?,
        operating_system,
        pool,
        order,
        release_requested,
    })
}

fn operating_system(reader: &mut Reader<'_>) -> OperatingSystem {
    let (name, id) = (reader.text("operating_system"), reader.text("os_id"));
    match (name, id) {
        (Some(_), Some(_)) => {
            reader.wrong("os_id", "cannot be combined with operating_system; keep one of them");
            OperatingSystem::Any
        }
        (Some(name), None) => OperatingSystem::Named(name),
        (None, Some(id)) => {
            reader.uuid("os_id", &id);
            OperatingSystem::Id(id)
        }
        (None, None) => OperatingSystem::Any,
    }
}

/// Without a pool there is nothing else to do than to order. With one, money is spent only when that is said.
fn order(reader: &mut Reader<'_>, has_pool: bool) -> bool {
    let said = reader.object.get("order").is_some_and(|value| !value.is_null());
    let order = reader.flag("order");
    if said && !order && !has_pool {
        reader.wrong("order", "without it and without pool_prefix the group could never get a host");
    }
    if said { order } else { !has_pool }
}
