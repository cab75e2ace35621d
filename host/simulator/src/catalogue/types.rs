use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

/// A family of server types: `<prefix><size>`, where a size like `8C-32G` says what it is.
struct Family {
    prefix: &'static str,
    arch: &'static str,
    sizes: &'static [&'static str],
    /// Zones that have it; empty: all.
    zones: &'static [&'static str],
}

const X86: &str = "x86_64";
const ARM: &str = "arm64";
const SQUARE: &[&str] = &["2C-8G", "4C-16G", "8C-32G", "16C-64G", "32C-128G", "48C-192G", "64C-256G", "96C-384G"];
const HIGH_CPU: &[&str] = &["2C-4G", "4C-8G", "8C-16G", "16C-32G", "32C-64G", "48C-96G", "64C-128G"];
const HIGH_MEMORY: &[&str] = &["2C-16G", "4C-32G", "8C-64G", "16C-128G", "32C-256G", "48C-384G", "64C-512G"];
const PARIS: &[&str] = &["fr-par-1", "fr-par-2"];
const PARIS_1: &[&str] = &["fr-par-1"];
const PARIS_2: &[&str] = &["fr-par-2"];
const AMSTERDAM_1: &[&str] = &["nl-ams-1"];
const PARIS_AMSTERDAM_1: &[&str] = &["fr-par-1", "fr-par-2", "nl-ams-1"];
const PARIS_1_AMSTERDAM_1: &[&str] = &["fr-par-1", "nl-ams-1"];
const ALL_BUT_WARSAW_1: &[&str] =
    &["fr-par-1", "fr-par-2", "fr-par-3", "nl-ams-1", "nl-ams-2", "nl-ams-3", "pl-waw-2", "pl-waw-3", "it-mil-1"];

const fn family(
    prefix: &'static str,
    arch: &'static str,
    sizes: &'static [&'static str],
    zones: &'static [&'static str],
) -> Family {
    Family { prefix, arch, sizes, zones }
}

/// fr-par-1 and fr-par-2 have 135 types each, nl-ams-1 has 125, pl-waw-1 has 40, the others lie between, as recorded.
/// The families are chosen so that the recorded types lie on their recorded pages; sizes between them are filled up.
const FAMILIES: &[Family] = &[
    family("B300-SXM-", X86, &["2-288G", "4-288G", "8-288G"], PARIS_2),
    family(
        "BASIC2-A",
        ARM,
        &["2C-4G", "2C-8G", "4C-8G", "4C-16G", "8C-16G", "8C-32G", "12C-24G", "12C-48G", "16C-32G"],
        ALL_BUT_WARSAW_1,
    ),
    family("BASIC3-X", X86, &["2C-4G", "4C-8G", "8C-16G"], PARIS_AMSTERDAM_1),
    family(
        "COMPUTE3-X",
        X86,
        &["2C-4G", "4C-8G", "8C-16G", "16C-32G", "32C-64G", "48C-96G", "64C-128G", "96C-192G"],
        PARIS_AMSTERDAM_1,
    ),
    family("COPARM1-", ARM, &["2C-8G", "4C-16G", "8C-32G", "16C-64G", "32C-128G"], PARIS_1_AMSTERDAM_1),
    family("DEV1-", X86, &["S", "M", "L", "XL"], &[]),
    family("ENT1-", X86, &["XXS", "XS", "S", "M", "L", "XL", "2XL"], &[]),
    family("GENERAL3-X", X86, SQUARE, PARIS),
    family("GENERAL3-X", X86, &["2C-8G", "4C-16G", "8C-32G"], AMSTERDAM_1),
    family("GP1-", X86, &["XS", "S", "M", "L", "XL"], ALL_BUT_WARSAW_1),
    family("H100-", X86, &["1-80G", "2-80G"], PARIS_2),
    family("H100-SXM-", X86, &["2-80G", "4-80G", "8-80G"], PARIS_2),
    family("L4-", X86, &["1-24G", "2-24G", "4-24G", "8-24G"], PARIS_2),
    family("L40S-", X86, &["1-48G", "2-48G", "4-48G", "8-48G"], PARIS_2),
    family(
        "MEMORY3-X",
        X86,
        &["2C-16G", "4C-32G", "8C-64G", "16C-128G", "32C-256G", "48C-384G", "64C-512G", "96C-768G"],
        PARIS,
    ),
    family(
        "MEMORY3-X",
        X86,
        &["2C-16G", "4C-32G", "6C-48G", "8C-64G", "16C-128G", "32C-256G", "48C-384G", "64C-512G"],
        AMSTERDAM_1,
    ),
    family("MEMORY4-X", X86, &["2C-16G", "4C-32G", "8C-64G", "16C-128G", "32C-256G", "48C-384G"], PARIS),
    family("PLAY2-", X86, &["PICO", "NANO", "MICRO"], &[]),
    family("POP2-", X86, &["2C-8G", "4C-16G", "8C-32G", "16C-64G", "32C-128G", "48C-192G", "64C-256G"], &[]),
    family(
        "POP2-",
        X86,
        &["2C-8G-WIN", "4C-16G-WIN", "8C-32G-WIN", "16C-64G-WIN", "32C-128G-WIN", "48C-192G-WIN", "64C-256G-WIN"],
        PARIS_AMSTERDAM_1,
    ),
    family("POP2-", X86, &["96C-384G"], AMSTERDAM_1),
    family("POP2-HC-", X86, HIGH_CPU, &[]),
    family("POP2-HC-", X86, &["96C-192G"], AMSTERDAM_1),
    family("POP2-HM-", X86, HIGH_MEMORY, &[]),
    family("POP2-HM-", X86, &["96C-768G"], AMSTERDAM_1),
    family("POP2-HN-", X86, &["3", "5", "10"], PARIS_AMSTERDAM_1),
    family("PRO2-", X86, &["XXS", "XS", "S", "M", "L"], &[]),
    family("RENDER-", X86, &["S"], PARIS_AMSTERDAM_1),
    family("STANDARD2-A", ARM, SQUARE, PARIS_AMSTERDAM_1),
    family("STANDARD2-A", ARM, &["6C-24G"], AMSTERDAM_1),
    family("STANDARD3-X", X86, SQUARE, PARIS_AMSTERDAM_1),
    family("STANDARD4-X", X86, &["2C-8G", "4C-16G", "8C-32G", "16C-64G"], PARIS_1_AMSTERDAM_1),
    family("STARDUST1-", X86, &["S"], PARIS_AMSTERDAM_1),
    family("START1-", X86, &["XS", "S", "M", "L"], PARIS_AMSTERDAM_1),
    family("VC1", X86, &["S", "M", "L"], PARIS_1_AMSTERDAM_1),
    family("X64-", X86, &["15GB", "30GB", "60GB", "120GB"], PARIS_1),
    family("X64-", X86, &["15GB"], AMSTERDAM_1),
];

/// What an hour of these types costs, in euros: recorded in fr-par-1, fr-par-2 and nl-ams-1. All other prices are
/// invented.
const RECORDED_PRICES: &[(&str, f64)] = &[
    ("B300-SXM-2-288G", 18.96),
    ("B300-SXM-4-288G", 34.08),
    ("B300-SXM-8-288G", 60.0),
    ("BASIC2-A12C-24G", 0.1578),
    ("BASIC2-A12C-48G", 0.1807),
    ("BASIC2-A16C-32G", 0.2067),
    ("DEV1-L", 0.042_84),
    ("DEV1-M", 0.020_196),
    ("DEV1-S", 0.008_976),
    ("H100-SXM-4-80G", 12.771),
    ("H100-SXM-8-80G", 25.3308),
    ("L4-1-24G", 0.7875),
    ("MEMORY3-X2C-16G", 0.1133),
    ("MEMORY3-X32C-256G", 1.8128),
    ("MEMORY3-X48C-384G", 2.717),
    ("MEMORY3-X6C-48G", 0.3399),
    ("MEMORY3-X8C-64G", 0.4532),
    ("PLAY2-MICRO", 0.055_08),
    ("PLAY2-PICO", 0.014_28),
    ("POP2-HM-32C-256G", 1.648),
    ("POP2-HM-48C-384G", 2.47),
    ("POP2-HM-4C-32G", 0.206),
    ("PRO2-XS", 0.1122),
    ("PRO2-XXS", 0.0561),
    ("RENDER-S", 1.221),
    ("STANDARD2-A64C-256G", 2.0142),
    ("STANDARD2-A6C-24G", 0.1533),
    ("STANDARD2-A8C-32G", 0.2343),
];

/// What an hour of a server type costs at Scaleway, in euros, where that was recorded. The simulator invents the others.
#[must_use]
pub fn recorded_price(server_type: &str) -> Option<f64> {
    RECORDED_PRICES.iter().find(|(name, _)| *name == server_type).map(|(_, price)| *price)
}

/// Types whose size is a word: name, CPUs, GiB of memory, GB of local storage.
const NAMED: &[(&str, u64, u64, u64)] = &[
    ("DEV1-S", 2, 2, 20),
    ("DEV1-M", 3, 4, 40),
    ("DEV1-L", 4, 8, 80),
    ("DEV1-XL", 4, 12, 120),
    ("ENT1-XXS", 2, 8, 0),
    ("ENT1-XS", 4, 16, 0),
    ("ENT1-S", 8, 32, 0),
    ("ENT1-M", 16, 64, 0),
    ("ENT1-L", 32, 128, 0),
    ("ENT1-XL", 64, 256, 0),
    ("ENT1-2XL", 96, 384, 0),
    ("GP1-XS", 4, 16, 150),
    ("GP1-S", 8, 32, 300),
    ("GP1-M", 16, 64, 600),
    ("GP1-L", 32, 128, 600),
    ("GP1-XL", 48, 256, 600),
    ("PLAY2-PICO", 1, 2, 0),
    ("PLAY2-NANO", 2, 4, 0),
    ("PLAY2-MICRO", 4, 8, 0),
    ("POP2-HN-3", 2, 4, 0),
    ("POP2-HN-5", 2, 4, 0),
    ("POP2-HN-10", 4, 8, 0),
    ("PRO2-XXS", 2, 8, 0),
    ("PRO2-XS", 4, 16, 0),
    ("PRO2-S", 8, 32, 0),
    ("PRO2-M", 16, 64, 0),
    ("PRO2-L", 32, 128, 0),
    ("RENDER-S", 10, 42, 400),
    ("STARDUST1-S", 1, 1, 10),
    ("START1-XS", 1, 1, 25),
    ("START1-S", 2, 2, 50),
    ("START1-M", 4, 4, 100),
    ("START1-L", 8, 8, 200),
    ("VC1S", 2, 2, 50),
    ("VC1M", 4, 4, 100),
    ("VC1L", 6, 8, 200),
    ("X64-15GB", 6, 15, 200),
    ("X64-30GB", 8, 30, 300),
    ("X64-60GB", 10, 60, 600),
    ("X64-120GB", 12, 120, 800),
];

/// A type of Instance in one zone.
#[derive(Debug, Clone)]
pub(crate) struct ServerType {
    pub(crate) name: String,
    pub(crate) arch: &'static str,
    ncpus: u64,
    /// GiB.
    memory: u64,
    /// The graphics card's name, number and GiB.
    gpu: Option<(&'static str, u64, u64)>,
    /// Bytes of local volumes, at most; 0: none at all.
    pub(crate) local_storage: u64,
    /// Bytes of scratch storage, at most, and number of volumes.
    pub(crate) scratch: (u64, u64),
}

/// All types of a zone, in the API's alphabetical order. They are the same for every simulator and so made once.
pub(crate) fn server_types(zone: &str) -> &'static [ServerType] {
    static TYPES: OnceLock<BTreeMap<&'static str, Vec<ServerType>>> = OnceLock::new();
    let by_zone = TYPES.get_or_init(|| super::ZONES.into_iter().map(|zone| (zone, make(zone))).collect());
    by_zone.get(zone).map_or(&[], Vec::as_slice)
}

fn make(zone: &str) -> Vec<ServerType> {
    let mut types: Vec<ServerType> = FAMILIES
        .iter()
        .filter(|family| family.zones.is_empty() || family.zones.contains(&zone))
        .flat_map(|family| family.sizes.iter().map(|size| ServerType::new(family, size)))
        .collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types
}

pub(crate) fn server_type(zone: &str, name: &str) -> Option<&'static ServerType> {
    let types = server_types(zone);
    types.binary_search_by(|candidate| candidate.name.as_str().cmp(name)).ok().map(|index| &types[index])
}

/// What the marketplace says an image runs on, in its recorded order as far as it was recorded.
pub(super) fn compatible(arch: &str, gpu: bool, local_storage: bool) -> Vec<&'static str> {
    const GPU: &[&str] = &[
        "L4-1-24G",
        "L4-2-24G",
        "L4-4-24G",
        "L4-8-24G",
        "L40S-1-48G",
        "L40S-2-48G",
        "L40S-4-48G",
        "L40S-8-48G",
        "H100-1-80G",
        "H100-1-M",
        "H100-2-M",
        "H100-2-80G",
        "H100-SXM-2-80G",
        "H100-SXM-4-80G",
        "H100-SXM-8-80G",
        "B300-SXM-2-288G",
        "B300-SXM-4-288G",
        "B300-SXM-8-288G",
        "RENDER-S",
    ];
    const LOCAL: &[&str] = &[
        "DEV1-L",
        "DEV1-M",
        "DEV1-S",
        "DEV1-XL",
        "GP1-L",
        "GP1-M",
        "GP1-S",
        "GP1-XL",
        "GP1-XS",
        "START1-L",
        "START1-M",
        "START1-S",
        "START1-XS",
        "STARDUST1-S",
        "RENDER-S",
        "VC1L",
        "VC1M",
        "VC1S",
        "X64-120GB",
        "X64-15GB",
        "X64-30GB",
        "X64-60GB",
    ];
    const ARM64: &[&str] = &[
        "COPARM1-2C-8G",
        "COPARM1-4C-16G",
        "COPARM1-8C-32G",
        "COPARM1-16C-64G",
        "COPARM1-32C-128G",
        "BASIC2-A2C-4G",
        "BASIC2-A2C-8G",
        "BASIC2-A4C-8G",
        "BASIC2-A4C-16G",
        "BASIC2-A8C-16G",
        "BASIC2-A8C-32G",
        "BASIC2-A16C-32G",
        "BASIC2-A12C-24G",
        "BASIC2-A12C-48G",
        "STANDARD2-A2C-8G",
        "STANDARD2-A4C-16G",
        "STANDARD2-A8C-32G",
        "STANDARD2-A16C-64G",
        "STANDARD2-A32C-128G",
        "STANDARD2-A48C-192G",
        "STANDARD2-A64C-256G",
        "STANDARD2-A96C-384G",
    ];
    const BLOCK: &[&str] = &[
        "PLAY2-PICO",
        "PLAY2-NANO",
        "PLAY2-MICRO",
        "PRO2-XXS",
        "PRO2-XS",
        "PRO2-S",
        "PRO2-M",
        "PRO2-L",
        "ENT1-XXS",
        "ENT1-XS",
        "ENT1-S",
        "ENT1-M",
        "ENT1-L",
        "ENT1-XL",
        "ENT1-2XL",
        "POP2-HN-3",
        "POP2-HN-5",
        "POP2-HN-10",
        "POP2-2C-8G",
        "POP2-4C-16G",
        "POP2-8C-32G",
        "POP2-16C-64G",
        "POP2-32C-128G",
        "POP2-48C-192G",
        "POP2-64C-256G",
        "POP2-HC-2C-4G",
        "POP2-HC-4C-8G",
        "POP2-HC-8C-16G",
        "POP2-HC-16C-32G",
        "POP2-HC-32C-64G",
        "POP2-HC-48C-96G",
        "POP2-HC-64C-128G",
        "POP2-HM-2C-16G",
        "POP2-HM-4C-32G",
        "POP2-HM-8C-64G",
        "POP2-HM-16C-128G",
        "POP2-HM-32C-256G",
        "POP2-HM-48C-384G",
        "POP2-HM-64C-512G",
        "BASIC3-X2C-4G",
        "BASIC3-X4C-8G",
        "BASIC3-X8C-16G",
        "COMPUTE3-X2C-4G",
        "COMPUTE3-X4C-8G",
        "COMPUTE3-X8C-16G",
        "COMPUTE3-X16C-32G",
        "COMPUTE3-X32C-64G",
        "COMPUTE3-X48C-96G",
        "COMPUTE3-X64C-128G",
        "COMPUTE3-X96C-192G",
        "GENERAL3-X2C-8G",
        "GENERAL3-X4C-16G",
        "GENERAL3-X8C-32G",
        "GENERAL3-X16C-64G",
        "GENERAL3-X32C-128G",
        "GENERAL3-X48C-192G",
        "GENERAL3-X64C-256G",
        "GENERAL3-X96C-384G",
        "MEMORY3-X2C-16G",
        "MEMORY3-X4C-32G",
        "MEMORY3-X8C-64G",
        "MEMORY3-X16C-128G",
        "MEMORY3-X32C-256G",
        "MEMORY3-X48C-384G",
        "MEMORY3-X64C-512G",
        "MEMORY3-X96C-768G",
        "MEMORY4-X2C-16G",
        "MEMORY4-X4C-32G",
        "MEMORY4-X8C-64G",
        "MEMORY4-X16C-128G",
        "MEMORY4-X32C-256G",
        "MEMORY4-X48C-384G",
        "STANDARD3-X2C-8G",
        "STANDARD3-X4C-16G",
        "STANDARD3-X8C-32G",
        "STANDARD3-X16C-64G",
        "STANDARD3-X32C-128G",
        "STANDARD3-X48C-192G",
        "STANDARD3-X64C-256G",
        "STANDARD3-X96C-384G",
        "STANDARD4-X2C-8G",
        "STANDARD4-X4C-16G",
        "STANDARD4-X8C-32G",
        "STANDARD4-X16C-64G",
    ];
    match (gpu, arch, local_storage) {
        (true, _, _) => GPU.to_vec(),
        (false, ARM, _) => ARM64.to_vec(),
        (false, _, true) => LOCAL.to_vec(),
        (false, _, false) => [LOCAL, BLOCK, GPU].concat(),
    }
}

impl ServerType {
    fn new(family: &Family, size: &str) -> Self {
        let name = format!("{}{size}", family.prefix);
        let gpu = gpu(family.prefix, size);
        let named = NAMED.iter().find(|(candidate, ..)| *candidate == name);
        let (ncpus, memory, storage) = match (named, gpu) {
            (Some((_, ncpus, memory, storage)), _) => (*ncpus, *memory, *storage),
            (None, Some((_, count, _))) => (count * 16, count * 128, 0),
            (None, None) => {
                let mut numbers = size.split('-').map(|part| part.trim_end_matches(['C', 'G']).parse().unwrap_or(0));
                (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), 0)
            }
        };
        let scratch = match gpu {
            Some((card, count, _)) if card != "L4" && card != "P100" => (count * 1_600_000_000_000, 1),
            None if family.prefix.starts_with("MEMORY") => (ncpus * 20_000_000_000, 1 + ncpus / 12),
            _ => (0, 0),
        };
        Self { name, arch: family.arch, ncpus, memory, gpu, local_storage: storage * 1_000_000_000, scratch }
    }

    /// What a server type costs in an hour, in euros. Invented where it was not recorded.
    pub(crate) fn hourly_price(&self) -> f64 {
        if let Some(price) = recorded_price(&self.name) {
            return price;
        }
        let gpus = self.gpu.map_or(0, |(_, count, memory)| count * memory);
        // Tenths of a thousandth of a euro, so that sums stay exact.
        (self.ncpus * 55 + self.memory * 58 + gpus * 300) as f64 / 10_000.0
    }

    /// A server type as the Instance API shows it, at this price.
    pub(crate) fn view(&self, hourly: f64) -> Value {
        let gpu_info = self.gpu.map(
            |(card, _, memory)| json!({"gpu_manufacturer": "NVIDIA", "gpu_name": card, "gpu_memory": memory << 30}),
        );
        let local = self.local_storage > 0;
        let bandwidth = (self.ncpus * 100_000_000).clamp(100_000_000, 20_000_000_000);
        json!({
            "alt_names": [],
            "arch": self.arch,
            "ncpus": self.ncpus,
            "ram": self.memory << 30,
            "gpu": self.gpu.map_or(0, |(_, count, _)| count),
            "gpu_info": gpu_info,
            "mig_profile": null,
            "volumes_constraint": {"min_size": 0, "max_size": self.local_storage},
            "per_volume_constraint": {"l_ssd": {
                "min_size": if local { 1_000_000_000_u64 } else { 0 },
                "max_size": if local { 800_000_000_000_u64 } else { 0 },
            }},
            "scratch_storage_max_size": self.scratch.0,
            "scratch_storage_max_volumes_count": self.scratch.1,
            "monthly_price": (hourly * 730.0 * 10_000.0).round() / 10_000.0,
            "hourly_price": hourly,
            "capabilities": {
                "boot_types": ["local", "rescue"],
                "placement_groups": true,
                "block_storage": true,
                "hot_snapshots_local_volume": local,
                "private_network": 8,
                "max_file_systems": 0,
            },
            "network": {
                "ipv6_support": true,
                "sum_internal_bandwidth": bandwidth,
                "sum_internet_bandwidth": bandwidth,
                "interfaces": [{"internal_bandwidth": bandwidth, "internet_bandwidth": bandwidth}],
            },
            "block_bandwidth": self.ncpus * 52_428_800,
            "end_of_service": false,
        })
    }

    /// A server type as the product catalog shows it, at this price.
    pub(crate) fn product(&self, zone: &str, hourly: f64) -> Value {
        let word = self.name.to_lowercase();
        let range = self.name.split('-').next().unwrap_or(&self.name);
        // Money as the SDK writes it: whole euros and billionths of one.
        let billionths = (hourly * 1_000_000.0).round() as u64 * 1_000;
        let bandwidth = (self.ncpus * 100_000_000).clamp(100_000_000, 20_000_000_000);
        let gpu = self.gpu.map(|(card, count, _)| json!({"description": card, "count": count, "type": card}));
        json!({
            "sku": format!("/compute/{}/run_{zone}", word.replace('-', "_")),
            "service_category": "Compute",
            "product_category": "Instance",
            "product": self.name,
            "variant": format!("{} - {zone}", self.name),
            "description": "",
            "locality": {"zone": zone},
            "price": {"retail_price": {
                "currency_code": "EUR", "units": billionths / 1_000_000_000, "nanos": billionths % 1_000_000_000,
            }},
            "properties": {
                "hardware": {
                    "cpu": {
                        "description": format!("{} vCPUs", self.ncpus),
                        "arch": if self.arch == ARM { "arm64" } else { "x64" },
                        "type": "",
                        "virtual": {"count": self.ncpus},
                        "threads": self.ncpus,
                    },
                    "ram": {"description": format!("{} GiB", self.memory), "size": self.memory << 30, "type": ""},
                    "storage": {"description": "", "total": self.local_storage},
                    "network": {
                        "description": "", "internal_bandwidth": bandwidth, "public_bandwidth": bandwidth,
                        "max_public_bandwidth": bandwidth,
                    },
                    "gpu": gpu,
                },
                "instance": {"range": range, "offer_id": self.name, "recommended_replacement_offer_ids": []},
            },
            "environmental_impact_estimation": null,
            "unit_of_measure": {"unit": "hour", "size": 1},
            "status": "general_availability",
            "end_of_life_at": null,
        })
    }
}

fn gpu(prefix: &str, size: &str) -> Option<(&'static str, u64, u64)> {
    let (card, memory) = match prefix {
        "B300-SXM-" => ("B300-SXM", 288),
        "H100-" => ("H100", 80),
        "H100-SXM-" => ("H100-SXM", 80),
        "L4-" => ("L4", 24),
        "L40S-" => ("L40S", 48),
        "RENDER-" => return Some(("P100", 1, 16)),
        _ => return None,
    };
    let count = size.split('-').next().and_then(|count| count.parse().ok()).unwrap_or(1);
    Some((card, count, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_zones_have_as_many_types_as_recorded_and_all_zones_are_within_the_recorded_range() {
        for zone in super::super::ZONES {
            let count = server_types(zone).len();
            match zone {
                "fr-par-1" | "fr-par-2" => assert_eq!(count, 135, "{zone}"),
                "nl-ams-1" => assert_eq!(count, 125),
                "pl-waw-1" => assert_eq!(count, 40),
                _ => assert!((41..=112).contains(&count), "{zone} has {count}"),
            }
        }
    }

    #[test]
    fn the_recorded_pages_begin_with_the_recorded_types() {
        for (zone, place, names) in [
            ("fr-par-1", 0, ["BASIC2-A12C-24G", "BASIC2-A12C-48G", "BASIC2-A16C-32G"]),
            ("fr-par-1", 50, ["MEMORY3-X2C-16G", "MEMORY3-X32C-256G", "MEMORY3-X48C-384G"]),
            ("fr-par-1", 100, ["PRO2-XS", "PRO2-XXS", "RENDER-S"]),
            ("fr-par-2", 0, ["B300-SXM-2-288G", "B300-SXM-4-288G", "B300-SXM-8-288G"]),
            ("nl-ams-1", 0, ["BASIC2-A12C-24G", "BASIC2-A12C-48G", "BASIC2-A16C-32G"]),
            ("nl-ams-1", 50, ["MEMORY3-X6C-48G", "MEMORY3-X8C-64G", "PLAY2-MICRO"]),
            ("nl-ams-1", 100, ["STANDARD2-A64C-256G", "STANDARD2-A6C-24G", "STANDARD2-A8C-32G"]),
            ("pl-waw-1", 0, ["DEV1-L", "DEV1-M", "DEV1-S"]),
        ] {
            let found: Vec<&str> = server_types(zone)[place..][..3].iter().map(|kind| kind.name.as_str()).collect();
            assert_eq!(found, names, "{zone}");
        }
    }

    #[test]
    fn names_are_unique_and_every_type_has_processors_and_memory() {
        for zone in super::super::ZONES {
            let types = server_types(zone);
            for pair in types.windows(2) {
                assert!(pair[0].name < pair[1].name, "{} twice or out of order in {zone}", pair[1].name);
            }
            for kind in types {
                assert!(kind.ncpus > 0 && kind.memory > 0, "{} in {zone} is empty", kind.name);
            }
        }
    }
}
