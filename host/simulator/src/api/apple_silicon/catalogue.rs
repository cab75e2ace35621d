//! Operating systems and server types.

use serde_json::{Value, json};

use super::Outcome;
use crate::answer::Answer;
use crate::call::Call;
use crate::options::Availability;
use crate::paging;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::world::World;

struct Os {
    name: &'static str,
    label: &'static str,
    family: &'static str,
    version: &'static str,
    xcode: &'static str,
    types: &'static [&'static str],
    tags: &'static [&'static str],
}

struct Kind {
    name: &'static str,
    cpu: &'static str,
    cores: u64,
    hertz: u64,
    memory_gb: u64,
    memory_type: &'static str,
    disk_gb: u64,
    gpu_cores: u64,
    bandwidths: &'static [u64],
}

const ALL: &[&str] = &["M2-M", "M2-L", "M4-S", "M4-M", "M4-L", "M4-XL", "M1-M"];
const BEFORE_M4: &[&str] = &["M1-M", "M2-M", "M2-L"];
/// Assumption: what Scaleway calls a low stock was not recorded.
const FEW: u32 = 3;
const GBPS: u64 = 1_000_000_000;

/// The last one is the default of every type that it runs on. Names and labels as recorded; the list is shorter.
const SYSTEMS: &[Os] = &[
    Os {
        name: "macos-ventura-13.6",
        label: "macOS Ventura 13.6",
        family: "Ventura",
        version: "13.6",
        xcode: "14",
        types: BEFORE_M4,
        tags: &[],
    },
    Os {
        name: "macos-sonoma-14.6",
        label: "macOS Sonoma 14.6",
        family: "Sonoma",
        version: "14.6",
        xcode: "15",
        types: BEFORE_M4,
        tags: &[],
    },
    Os {
        name: "macos-tahoe-26.0",
        label: "macOS Tahoe 26.0",
        family: "Tahoe",
        version: "26.0",
        xcode: "26",
        types: ALL,
        tags: &[],
    },
    Os {
        name: "macos-sequoia-15.6",
        label: "macOS Sequoia 15.6",
        family: "Sequoia",
        version: "15.6.1",
        xcode: "16",
        types: ALL,
        tags: &["macos", "apple", "apple-license"],
    },
];

const TYPES: &[Kind] = &[
    Kind {
        name: "M1-M",
        cpu: "Apple M1",
        cores: 8,
        hertz: 3_200_000_000,
        memory_gb: 8,
        memory_type: "LPDDR4",
        disk_gb: 256,
        gpu_cores: 8,
        bandwidths: &[GBPS],
    },
    Kind {
        name: "M2-M",
        cpu: "Apple M2",
        cores: 8,
        hertz: 3_500_000_000,
        memory_gb: 16,
        memory_type: "LPDDR5",
        disk_gb: 256,
        gpu_cores: 10,
        bandwidths: &[GBPS],
    },
    Kind {
        name: "M2-L",
        cpu: "Apple M2 Pro",
        cores: 10,
        hertz: 3_500_000_000,
        memory_gb: 16,
        memory_type: "LPDDR5",
        disk_gb: 512,
        gpu_cores: 16,
        bandwidths: &[GBPS],
    },
    Kind {
        name: "M4-S",
        cpu: "Apple M4",
        cores: 10,
        hertz: 4_400_000_000,
        memory_gb: 16,
        memory_type: "LPDDR5X",
        disk_gb: 256,
        gpu_cores: 10,
        bandwidths: &[GBPS, 2 * GBPS],
    },
    Kind {
        name: "M4-M",
        cpu: "Apple M4",
        cores: 10,
        hertz: 4_400_000_000,
        memory_gb: 32,
        memory_type: "LPDDR5X",
        disk_gb: 512,
        gpu_cores: 10,
        bandwidths: &[GBPS, 2 * GBPS],
    },
    Kind {
        name: "M4-L",
        cpu: "Apple M4 Pro",
        cores: 12,
        hertz: 4_500_000_000,
        memory_gb: 24,
        memory_type: "LPDDR5X",
        disk_gb: 512,
        gpu_cores: 16,
        bandwidths: &[GBPS, 2 * GBPS],
    },
    Kind {
        name: "M4-XL",
        cpu: "Apple M4 Pro",
        cores: 14,
        hertz: 4_500_000_000,
        memory_gb: 64,
        memory_type: "LPDDR5X",
        disk_gb: 2_000,
        gpu_cores: 20,
        bandwidths: &[GBPS, 2 * GBPS],
    },
];

fn os_id(world: &World, os: &Os) -> String {
    Random::named_id(world.options.seed, os.name)
}

/// An operating system; `listed` adds the delivery table, which a server's own `os` leaves empty (recorded).
fn show_os(world: &World, os: &Os, listed: bool) -> Value {
    let supported: Vec<Value> = os
        .types
        .iter()
        .filter(|_| listed)
        .map(|name| json!({"server_type": name, "fast_delivery_available": *name != "M1-M"}))
        .collect();
    json!({
        "id": os_id(world, os),
        "name": os.name,
        "label": os.label,
        "image_url": format!("https://scw-apple-silicon.s3.fr-par.scw.cloud/scw-console/os/macos-{}.png",
        os.family.to_lowercase()),
        "family": os.family,
        "version": os.version,
        "xcode_version": os.xcode,
        "is_beta": false,
        "compatible_server_types": os.types,
        "description": "",
        "tags": os.tags,
        "release_notes_url": "",
        "supported_server_types": supported,
    })
}

pub(super) fn list_os(world: &World, call: &Call) -> Outcome {
    // `name` matches the beginning of the version, "11.1" finds "11.1.2" [SDK], or part of the name.
    let systems = SYSTEMS
        .iter()
        .filter(|os| call.parameter("server_type").is_none_or(|name| os.types.contains(&name)))
        .filter(|os| call.parameter("name").is_none_or(|name| os.version.starts_with(name) || os.name.contains(name)));
    paging::newer_list(call, "os", systems.map(|os| show_os(world, os, true)).collect())
}

pub(super) fn get_os(world: &World, id: &str) -> Outcome {
    let os = SYSTEMS.iter().find(|os| os_id(world, os) == id).ok_or_else(|| Refusal::not_found("os", id))?;
    Ok(Answer::ok(&show_os(world, os, true)))
}

/// An operating system as a server shows its own.
pub(super) fn os_of_server(world: &World, id: &str) -> Value {
    SYSTEMS.iter().find(|os| os_id(world, os) == id).map(|os| show_os(world, os, false)).into()
}

pub(super) fn runs_on(world: &World, id: &str, kind: &str) -> Option<bool> {
    SYSTEMS.iter().find(|os| os_id(world, os) == id).map(|os| os.types.contains(&kind))
}

/// The id of a system that exists by this name; of any other, one that nothing has.
pub(crate) fn os_named(world: &World, name: &str) -> String {
    Random::named_id(world.options.seed, name)
}

pub(crate) fn os_named_runs_on(name: &str, kind: &str) -> bool {
    SYSTEMS.iter().any(|os| os.name == name && os.types.contains(&kind))
}

pub(crate) fn os_names() -> Vec<&'static str> {
    SYSTEMS.iter().map(|os| os.name).collect()
}

pub(crate) fn type_names() -> Vec<&'static str> {
    TYPES.iter().map(|kind| kind.name).collect()
}

pub(crate) fn default_os(world: &World, kind: &str) -> String {
    let os = SYSTEMS.iter().rev().find(|os| os.types.contains(&kind)).unwrap_or(&SYSTEMS[0]);
    os_id(world, os)
}

pub(crate) fn default_bandwidth(kind: &str) -> Option<u64> {
    TYPES.iter().find(|known| known.name == kind).map(|known| known.bandwidths[0])
}

pub(super) fn has_bandwidth(kind: &str, bandwidth: u64) -> bool {
    TYPES.iter().any(|known| known.name == kind && known.bandwidths.contains(&bandwidth))
}

fn show_type(world: &World, kind: &Kind) -> Value {
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
        "default_os": os_of_server(world, &default_os(world, kind.name)),
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
