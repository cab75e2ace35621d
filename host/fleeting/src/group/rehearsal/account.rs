//! The simulated account of a group. It has what the configuration names, or a substitute.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_lifecycle::{AddressKind, ImageChoice};
use windlass_scaleway::types::apple_silicon::ListOperatingSystems;
use windlass_scaleway::{Client, Region};
use windlass_simulator::{AppleSiliconPool, Simulator};

use super::scenario::{Pool, Time, is_about};
use crate::configuration::{
    AppleSiliconConfiguration, Configuration, GroupConfiguration, OperatingSystem, ProcessEnvironment,
};
use crate::group::check::CheckedGroup;
use crate::group::start::problem;
use crate::protocol::Failure;

/// A key that only the simulator accepts.
pub(super) const KEY: &str = "00000000-0000-4000-8000-000000000000";
/// The image that replaces images of the user's own account.
const IMAGE: &str = "ubuntu_noble";
/// Keys that identify the user, to Scaleway and to a database. The simulator needs none of them.
const CREDENTIALS: [&str; 9] = [
    "access_key",
    "endpoint",
    "organization",
    "organization_id",
    "profile",
    "project",
    "project_id",
    "secret_key",
    "state",
];

/// Removes credentials from a configuration, and gives it a temporary state directory.
pub(super) fn without_account(plugin_config: &mut Value, state_directory: &str) {
    if let Value::Object(keys) = plugin_config {
        for key in CREDENTIALS {
            keys.remove(key);
        }
        keys.insert("state_dir".to_owned(), state_directory.into());
    }
}

/// The environment for reading the configuration: without credentials. The zone counts only if the file has none, since
/// arms may differ by their zones.
pub(super) fn environment(process_environment: &ProcessEnvironment, plugin_config: &Value) -> ProcessEnvironment {
    let has_zone = ["zone", "location"].into_iter().any(|key| plugin_config.get(key).is_some_and(|it| !it.is_null()));
    let zone = ["SCW_DEFAULT_ZONE", "SCW_DEFAULT_ZONE_FILE"].into_iter().filter(|_| !has_zone);
    let kept = zone.filter_map(|name| Some((name, process_environment.get(name)?)));
    kept.chain([("SCW_SECRET_KEY", KEY)]).collect()
}

/// The age of hosts whose pool has none: they can be deleted.
const DAY: Time = Time(Duration::from_secs(86_400));

/// Creates or replaces what only the user's account has. Returns a note for each.
pub(super) async fn furnish(
    client: &Client,
    simulator: &Simulator,
    configuration: &mut GroupConfiguration,
    pools: &[Pool],
    max_instances: u32,
    found: &mut CheckedGroup,
) -> Result<(), Failure> {
    let common = match configuration {
        GroupConfiguration::Instances(it) => &mut it.common,
        GroupConfiguration::AppleSilicon(it) => &mut it.common,
    };
    // No metrics or console are served, and there is nothing to adopt.
    (common.metrics, common.console, common.adopt) = (None, None, None);
    match configuration {
        GroupConfiguration::Instances(it) => found.notes.extend(furnish_instances(client, it).await?),
        GroupConfiguration::AppleSilicon(it) => {
            furnish_macs(client, simulator, it, pools, max_instances, found).await?
        }
    }
    Ok(())
}

/// Fills the pool.
async fn furnish_macs(
    client: &Client,
    simulator: &Simulator,
    configuration: &mut AppleSiliconConfiguration,
    pools: &[Pool],
    max_instances: u32,
    found: &mut CheckedGroup,
) -> Result<(), Failure> {
    let place = configuration.place();
    let of_type =
        ListOperatingSystems { server_type: Some(place.server_type.clone()), ..ListOperatingSystems::default() };
    // Where that fails, the check says why.
    let systems = client.apple_silicon(&place.zone).list_os(&of_type).await.unwrap_or_default();
    let system = match &configuration.operating_system {
        OperatingSystem::Named(wanted) => {
            let is = |text: &str| text.eq_ignore_ascii_case(wanted);
            systems.into_iter().find(|system| is(&system.name) || is(&system.family)).map(|system| system.name)
        }
        OperatingSystem::Any | OperatingSystem::Id(_) => None,
    };
    if system.is_none() && configuration.operating_system != OperatingSystem::Any {
        configuration.operating_system = OperatingSystem::Any;
        let words = "operating_system: the simulator has no such system, so its hosts have another one";
        found.notes.push(words.to_owned());
    }
    let own: Vec<&Pool> = pools.iter().filter(|pool| is_about(&pool.zone, &pool.server_type, &place)).collect();
    let Some(prefix) = &configuration.pool else {
        if !own.is_empty() {
            let words = "remove it, or set pool_prefix in plugin_config: the group takes no hosts from a pool";
            found.problems.push(problem("pool", words).to_string());
        }
        return Ok(());
    };
    if own.is_empty() && !pools.is_empty() {
        let words = format!("add one of {place}, where the group takes its hosts: the scenario has only others");
        found.problems.push(problem("pool", words).to_string());
    }
    let usual = Pool { hosts: max_instances, ..Pool::default() };
    let own = if pools.is_empty() { vec![&usual] } else { own };
    if pools.is_empty() {
        found.notes.push(format!(
            "the scenario has no [[pool]], so there are {max_instances} hosts: as many as the group may have instances"
        ));
    }
    for Pool { hosts, age, .. } in own {
        // Without such a type there are no hosts of it, which the check says.
        let Ok(mut pool) = AppleSiliconPool::new(prefix.as_str(), *hosts as usize, &place.server_type) else {
            continue;
        };
        if let Some(system) = &system {
            pool = pool.with_operating_system(system).map_err(|error| Failure::from_error(&error))?;
        }
        simulator.add_apple_silicon_pool(&pool.in_zone(&place.zone).with_ages([age.unwrap_or(DAY).0]));
    }
    Ok(())
}

/// Replaces what only the user's account has. Returns a note for each.
async fn furnish_instances(client: &Client, configuration: &mut Configuration) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    let common = &configuration.common;
    let server = &mut configuration.server;
    let image = match &server.image {
        ImageChoice::Label(label) if windlass_simulator::IMAGE_LABELS.contains(&label.as_str()) => None,
        other => Some(other.described()),
    };
    if let Some(image) = image {
        notes.push(format!(
            "image: the simulator has no image {image}, so it uses {IMAGE}; `check` says whether Scaleway has it"
        ));
        server.image = ImageChoice::Label(IMAGE.to_owned());
    }
    let zonal = &mut configuration.zonal;
    let groups = [
        ("security_group", server.security_group.take().is_some() | !zonal.security_groups.is_empty()),
        ("placement_group", server.placement_group.take().is_some() | !zonal.placement_groups.is_empty()),
        ("reserved_ips", server.address_pool.take().is_some()),
    ];
    zonal.security_groups.clear();
    zonal.placement_groups.clear();
    let left_out: Vec<&str> = groups.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key).collect();
    if left_out.contains(&"reserved_ips") && !server.addresses.contains(&AddressKind::Ipv4) {
        server.addresses.push(AddressKind::Ipv4);
    }
    if !left_out.is_empty() {
        notes.push(format!("{}: of your account, and left out", left_out.join(", ")));
    }
    let regions: std::collections::BTreeSet<Region> = common.zones.iter().map(|zone| zone.region()).collect();
    for region in regions {
        let named = zonal.private_networks.get(&region).map_or(server.private_networks.len(), Vec::len);
        let mut networks = Vec::new();
        for _ in 0..named {
            networks.push(network(client, &region).await?);
        }
        zonal.private_networks.insert(region, networks);
    }
    server.private_networks.clear();
    if zonal.private_networks.values().any(|networks| !networks.is_empty()) {
        notes.push("private_networks: the simulator does not have your account's, so it uses new ones".to_owned());
    }
    Ok(notes)
}

/// A new private network.
async fn network(client: &Client, region: &Region) -> Result<String, Failure> {
    let body = Bytes::from(json!({"name": "simulated", "tags": [], "subnets": []}).to_string());
    let path = format!("/vpc/v2/regions/{region}/private-networks");
    let answer = client.send_raw("POST", &path, Some(body)).await.map_err(|error| Failure::from_error(&error))?;
    let network: Value = serde_json::from_slice(&answer.body).map_err(|error| Failure::from_error(&error))?;
    network["id"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure(format!("the simulator makes no network: {network}")))
}
