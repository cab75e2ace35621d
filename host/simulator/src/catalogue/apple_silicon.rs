//! Operating systems and server types of Apple silicon.

use serde_json::{Value, json};

use crate::random::Random;

pub(crate) struct Os {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) family: &'static str,
    pub(crate) version: &'static str,
    pub(crate) xcode: &'static str,
    pub(crate) types: &'static [&'static str],
    pub(crate) tags: &'static [&'static str],
}

pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) cpu: &'static str,
    pub(crate) cores: u64,
    pub(crate) hertz: u64,
    pub(crate) memory_gb: u64,
    pub(crate) memory_type: &'static str,
    pub(crate) disk_gb: u64,
    pub(crate) gpu_cores: u64,
    pub(crate) bandwidths: &'static [u64],
}

const ALL: &[&str] = &["M2-M", "M2-L", "M4-S", "M4-M", "M4-L", "M4-XL", "M1-M"];
const BEFORE_M4: &[&str] = &["M1-M", "M2-M", "M2-L"];
const GBPS: u64 = 1_000_000_000;

/// The last one is the default of every type that it runs on. Names and labels as recorded; the list is shorter.
pub(crate) const SYSTEMS: &[Os] = &[
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

pub(crate) const TYPES: &[Kind] = &[
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

pub(crate) fn os_id(seed: u64, os: &Os) -> String {
    Random::named_id(seed, os.name)
}

/// An operating system; `listed` adds the delivery table, which a server's own `os` leaves empty (recorded).
pub(crate) fn show_os(seed: u64, os: &Os, listed: bool) -> Value {
    let supported: Vec<Value> = os
        .types
        .iter()
        .filter(|_| listed)
        .map(|name| json!({"server_type": name, "fast_delivery_available": *name != "M1-M"}))
        .collect();
    json!({
        "id": os_id(seed, os),
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

/// An operating system as a server shows its own.
pub(crate) fn os_of_server(seed: u64, id: &str) -> Value {
    SYSTEMS.iter().find(|os| os_id(seed, os) == id).map(|os| show_os(seed, os, false)).into()
}

pub(crate) fn runs_on(seed: u64, id: &str, kind: &str) -> Option<bool> {
    SYSTEMS.iter().find(|os| os_id(seed, os) == id).map(|os| os.types.contains(&kind))
}

/// The id of a system that exists by this name; of any other, one that nothing has.
pub(crate) fn os_named(seed: u64, name: &str) -> String {
    Random::named_id(seed, name)
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

pub(crate) fn default_os(seed: u64, kind: &str) -> String {
    let os = SYSTEMS.iter().rev().find(|os| os.types.contains(&kind)).unwrap_or(&SYSTEMS[0]);
    os_id(seed, os)
}

pub(crate) fn default_bandwidth(kind: &str) -> Option<u64> {
    TYPES.iter().find(|known| known.name == kind).map(|known| known.bandwidths[0])
}

pub(crate) fn has_bandwidth(kind: &str, bandwidth: u64) -> bool {
    TYPES.iter().any(|known| known.name == kind && known.bandwidths.contains(&bandwidth))
}
