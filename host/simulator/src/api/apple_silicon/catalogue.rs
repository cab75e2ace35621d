//! Operating systems and server types.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::api::endpoint::Outcome;
use crate::call::Call;
use crate::catalogue::apple_silicon::{Kind, SYSTEMS, TYPES, default_os, os_id, os_of_server, show_os};
use crate::options::Availability;
use crate::paging;
use crate::refusal::Refusal;
use crate::world::World;

/// Assumption: what Scaleway calls a low stock was not recorded.
const FEW: u32 = 3;

pub(super) fn list_os(world: &World, call: &Call) -> Outcome {
    let seed = world.options.seed;
    // `name` matches the beginning of the version, "11.1" finds "11.1.2" [SDK], or part of the name.
    let systems = SYSTEMS
        .iter()
        .filter(|os| call.parameter("server_type").is_none_or(|name| os.types.contains(&name)))
        .filter(|os| call.parameter("name").is_none_or(|name| os.version.starts_with(name) || os.name.contains(name)));
    paging::newer_list(call, "os", systems.map(|os| show_os(seed, os, true)).collect())
}

pub(super) fn get_os(world: &World, id: &str) -> Outcome {
    let seed = world.options.seed;
    let os = SYSTEMS.iter().find(|os| os_id(seed, os) == id).ok_or_else(|| Refusal::not_found("os", id))?;
    Ok(Answer::ok(&show_os(seed, os, true)))
}

fn show_type(world: &World, kind: &Kind) -> Value {
    let seed = world.options.seed;
    let stock = match (world.stock.get(kind.name), world.apple_stock.get(kind.name)) {
        (Some(Availability::Shortage), _) | (_, Some(0)) => "no_stock",
        (Some(Availability::Scarce), _) | (_, Some(1..=FEW)) => "low_stock",
        _ => "high_stock",
    };
    // A type tells its lease to an exempt organization, too (recorded).
    let lease = match world.options.apple_silicon_commitment.as_secs() {
        0 => 24 * 60 * 60,
        seconds => seconds,
    };
    json!({
        "name": kind.name,
        "cpu": {"name": kind.cpu, "core_count": kind.cores, "frequency": kind.hertz},
        "disk": {"capacity": kind.disk_gb * 1_000_000_000, "type": "SSD"},
        "memory": {"capacity": kind.memory_gb * 1_000_000_000, "type": kind.memory_type},
        "stock": stock,
        "minimum_lease_duration": format!("{lease}s"),
        "default_os": os_of_server(seed, &default_os(seed, kind.name)),
        "gpu": {"count": kind.gpu_cores},
        "network": {"public_bandwidth_bps": kind.bandwidths[0], "supported_bandwidth": kind.bandwidths},
    })
}

pub(super) fn list_types(world: &World) -> Outcome {
    let types: Vec<Value> = TYPES.iter().map(|kind| show_type(world, kind)).collect();
    Ok(Answer::ok(&json!({"server_types": types})))
}

pub(super) fn get_type(world: &World, name: &str) -> Outcome {
    let kind = TYPES.iter().find(|kind| kind.name == name).ok_or_else(|| Refusal::not_found("server_type", name))?;
    Ok(Answer::ok(&show_type(world, kind)))
}
