use std::collections::BTreeMap;

use super::Architecture;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// How many servers of a type are available in a zone.
    pub enum Stock {
        /// Enough.
        Available = "available",
        /// Few.
        Scarce = "scarce",
        /// None.
        Shortage = "shortage",
    }
}

answers! {
    pub struct ServerType {
        /// Older names of the same type.
        pub alt_names: Vec<String>,
        pub arch: Architecture,
        /// Virtual processors.
        pub ncpus: u32,
        /// Memory in bytes.
        pub ram: u64,
        /// Graphics processors.
        pub gpu: u32,
        /// What these are.
        pub gpu_info: Option<ServerTypeGpuInfo>,
        /// Price in euro for an hour.
        pub hourly_price: f64,
        /// Price in euro for a month.
        pub monthly_price: f64,
        /// Limits on the sum of its local volumes.
        pub volumes_constraint: Option<SizeConstraint>,
        /// Limits on each of its volumes, by volume type.
        pub per_volume_constraint: BTreeMap<String, SizeConstraint>,
        /// Largest scratch disk in bytes.
        pub scratch_storage_max_size: u64,
        /// Most scratch disks.
        pub scratch_storage_max_volumes_count: u32,
        /// Bandwidths.
        pub network: Option<ServerTypeNetwork>,
        /// Bytes per second to Block Storage.
        pub block_bandwidth: u64,
        /// Whether Scaleway withdraws it.
        pub end_of_service: bool,
    }

    /// What the graphics processors of a server type are.
    pub struct ServerTypeGpuInfo {
        /// `NVIDIA`.
        pub gpu_manufacturer: String,
        /// `H100-PCIe`.
        pub gpu_name: String,
        /// Memory of each in bytes.
        pub gpu_memory: u64,
    }

    /// A range of sizes in bytes.
    pub struct SizeConstraint {
        /// Smallest.
        pub min_size: u64,
        /// Largest; 0 means that there may be none.
        pub max_size: u64,
    }

    /// Bandwidths of a server type in bits per second.
    pub struct ServerTypeNetwork {
        pub sum_internet_bandwidth: u64,
        /// To other servers.
        pub sum_internal_bandwidth: u64,
        /// Whether it can have IPv6.
        pub ipv6_support: bool,
    }
}
