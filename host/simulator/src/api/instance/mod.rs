//! Instance API v1, and of v2alpha1 what current clients use beside it.

mod action;
mod checks;
mod filesystem;
mod image;
mod ip;
mod placement_group;
mod private_nic;
mod product;
mod security_group;
mod server;
mod server_volume;
mod user_data;
mod volume;

use serde_json::json;

use super::endpoint::{Outcome, method};
use crate::answer::Answer;
use crate::call::Call;
use crate::refusal::Refusal;
use crate::world::World;

pub(super) fn v1(world: &mut World, call: &Call, zone: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["products", "servers"]) => product::servers(world, call, zone),
        ("GET", ["products", "servers", "availability"]) => product::availability(world, call, zone),
        ("GET", ["products", "volumes"]) => product::volumes(),
        ("GET", ["dashboard"]) => Ok(Answer::ok(&json!({"dashboard": dashboard(world, call, zone)}))),

        ("GET", ["servers"]) => server::list(world, call, zone),
        ("POST", ["servers"]) => server::create(world, call, zone),
        ("GET", ["servers", id]) => server::get(world, zone, id),
        ("PATCH" | "PUT", ["servers", id]) => server::update(world, call, zone, id),
        ("DELETE", ["servers", id]) => server::delete(world, zone, id),
        ("GET", ["servers", id, "action"]) => action::list(world, zone, id),
        ("POST", ["servers", id, "action"]) => action::perform(world, call, zone, id),
        ("GET", ["servers", id, "compatible-types"]) => server::compatible_types(world, zone, id),
        ("POST", ["servers", id, "attach-volume"]) => server_volume::attach(world, call, zone, id),
        ("POST", ["servers", id, "detach-volume"]) => server_volume::detach(world, call, zone, id),
        ("POST", ["servers", id, "attach-filesystem"]) => filesystem::attach(world, call, zone, id),
        ("POST", ["servers", id, "detach-filesystem"]) => filesystem::detach(world, call, zone, id),
        ("GET", ["servers", id, "user_data"]) => user_data::list(world, zone, id),
        ("GET", ["servers", id, "user_data", key]) => user_data::get(world, zone, id, key),
        ("PATCH", ["servers", id, "user_data", key]) => user_data::set(world, call, zone, id, key),
        ("DELETE", ["servers", id, "user_data", key]) => user_data::delete(world, zone, id, key),
        ("GET", ["servers", id, "private_nics"]) => private_nic::list(world, call, zone, id),
        ("POST", ["servers", id, "private_nics"]) => private_nic::create(world, call, zone, id),
        ("GET", ["servers", id, "private_nics", nic]) => private_nic::get(world, zone, id, nic),
        ("PATCH", ["servers", id, "private_nics", nic]) => private_nic::update(world, call, zone, id, nic),
        ("DELETE", ["servers", id, "private_nics", nic]) => private_nic::delete(world, zone, id, nic),

        ("GET", ["ips"]) => ip::list(world, call, zone),
        ("POST", ["ips"]) => ip::create(world, call, zone),
        ("GET", ["ips", id]) => ip::get(world, zone, id),
        ("PATCH", ["ips", id]) => ip::update(world, call, zone, id),
        ("DELETE", ["ips", id]) => ip::delete(world, zone, id),

        ("GET", ["volumes"]) => volume::list(world, call, zone),
        ("POST", ["volumes"]) => volume::create(world, call, zone),
        ("GET", ["volumes", id]) => volume::get(world, zone, id),
        ("PATCH", ["volumes", id]) => volume::update(world, call, zone, id),
        ("DELETE", ["volumes", id]) => volume::delete(world, zone, id),
        ("GET", ["snapshots"]) => volume::list_snapshots(world, call, zone),
        ("POST", ["snapshots"]) => volume::create_snapshot(world, call, zone),
        ("GET", ["snapshots", id]) => volume::get_snapshot(world, zone, id),
        ("DELETE", ["snapshots", id]) => volume::delete_snapshot(world, zone, id),

        ("GET", ["images"]) => image::list(world, call, zone),
        ("GET", ["images", id]) => image::get(world, zone, id),
        ("PATCH", ["images", id]) => image::update(world, call, zone, id),
        ("DELETE", ["images", id]) => image::delete(world, zone, id),

        ("GET", ["security_groups"]) => security_group::list(world, call, zone),
        ("POST", ["security_groups"]) => security_group::create(world, call, zone),
        ("GET", ["security_groups", id]) => security_group::get(world, zone, id),
        ("PATCH" | "PUT", ["security_groups", id]) => security_group::update(world, call, zone, id),
        ("DELETE", ["security_groups", id]) => security_group::delete(world, zone, id),
        ("GET", ["security_groups", id, "rules"]) => security_group::list_rules(world, call, zone, id),
        ("POST", ["security_groups", id, "rules"]) => security_group::create_rule(world, call, zone, id),
        ("GET", ["security_groups", id, "rules", rule]) => security_group::get_rule(world, zone, id, rule),
        ("DELETE", ["security_groups", id, "rules", rule]) => security_group::delete_rule(world, zone, id, rule),

        ("GET", ["placement_groups"]) => placement_group::list(world, call, zone),
        ("POST", ["placement_groups"]) => placement_group::create(world, call, zone),
        ("GET", ["placement_groups", id]) => placement_group::get(world, zone, id),
        ("PATCH" | "PUT", ["placement_groups", id]) => placement_group::update(world, call, zone, id),
        ("DELETE", ["placement_groups", id]) => placement_group::delete(world, zone, id),
        ("GET", ["placement_groups", id, "servers"]) => placement_group::servers(world, zone, id),
        _ => Err(Refusal::unknown_path()),
    }
}

pub(super) fn v2alpha1(world: &mut World, call: &Call, zone: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["private-network-interfaces"]) => private_nic::list_v2(world, call, zone),
        ("POST", ["private-network-interfaces"]) => private_nic::create_v2(world, call, zone),
        ("GET", ["private-network-interfaces", id]) => private_nic::get_v2(world, zone, id),
        ("PATCH", ["private-network-interfaces", id]) => private_nic::update_v2(world, call, zone, id),
        ("DELETE", ["private-network-interfaces", id]) => private_nic::delete_v2(world, zone, id),
        ("GET", ["placement-groups"]) => placement_group::list_v2(world, call, zone),
        ("POST", ["placement-groups"]) => placement_group::create_v2(world, call, zone),
        ("GET", ["placement-groups", id]) => placement_group::get_v2(world, zone, id),
        ("PATCH", ["placement-groups", id]) => placement_group::update_v2(world, call, zone, id),
        ("DELETE", ["placement-groups", id]) => placement_group::delete(world, zone, id),
        _ => Err(Refusal::unknown_path()),
    }
}

/// The counts of the dashboard. The set of keys is the SDK's; no recording exists.
fn dashboard(world: &World, call: &Call, zone: &str) -> serde_json::Value {
    let project = call.parameter("project");
    let here = |resource_zone: &str, owner: &str| resource_zone == zone && crate::api::endpoint::fits(project, owner);
    let servers: Vec<_> = world.servers.values().filter(|server| here(&server.zone, &server.project)).collect();
    let mut by_type = serde_json::Map::new();
    for server in &servers {
        let count = by_type.get(&server.commercial_type).and_then(serde_json::Value::as_u64).unwrap_or(0);
        by_type.insert(server.commercial_type.clone(), (count + 1).into());
    }
    let ips: Vec<_> = world.ips.values().filter(|ip| here(&ip.zone, &ip.project)).collect();
    let volumes: Vec<_> = world.volumes.values().filter(|volume| here(&volume.zone, &volume.project)).collect();
    let local: Vec<u64> =
        volumes.iter().filter(|volume| volume.volume_type == "l_ssd").map(|volume| volume.size).collect();
    let running = servers.iter().filter(|server| server.state == crate::world::ServerState::Running).count();
    json!({
        "volumes_count": volumes.len(),
        "running_servers_count": running,
        "servers_by_types": by_type,
        "images_count": world.images.values().filter(|image| here(&image.zone, &image.project)).count(),
        "snapshots_count": world.snapshots.values().filter(|snapshot| here(&snapshot.zone, &snapshot.project)).count(),
        "servers_count": servers.len(),
        "ips_count": ips.len(),
        "security_groups_count": world.security_groups.values().filter(|group| here(&group.zone,
        &group.project)).count(),
        "ips_unused": ips.iter().filter(|ip| ip.server.is_none()).count(),
        "volumes_l_ssd_count": local.len(),
        "volumes_b_ssd_count": 0,
        "volumes_l_ssd_total_size": local.iter().sum::<u64>(),
        "volumes_b_ssd_total_size": 0,
        "private_nics_count": world
            .private_nics
            .values()
            .filter(|nic| here(&nic.zone, &nic.project))
            .count(),
        "placement_groups_count": world.placement_groups.values().filter(|group| here(&group.zone,
        &group.project)).count(),
    })
}
