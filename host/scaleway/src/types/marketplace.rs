//! Marketplace API v2: from an image's label to its id in a zone.

use super::instance::Architecture;
use super::tolerant::answers;
use super::word::words;

words! {
    /// Where the root volume made from an image lives.
    pub enum ImageStorage {
        /// On Block Storage (`sbs_volume`): what current images are made for.
        BlockStorage = "instance_sbs",
        /// On the hypervisor's disk (`l_ssd`).
        Local = "instance_local",
    }
}

answers! {
    /// An image of the marketplace, with a release for each zone, architecture and kind of storage.
    pub struct MarketplaceImage {
        /// UUID of the image, with which no server can be created.
        pub id: String,
        /// What people read: `Ubuntu 24.04 Noble Numbat`.
        pub name: String,
        /// By which servers are created of it: `ubuntu_noble`.
        pub label: String,
    }

    /// One release of an image for one zone, architecture and kind of storage.
    pub struct LocalImage {
        /// UUID to create servers with. Changes with every release.
        pub id: String,
        pub arch: Architecture,
        pub zone: String,
        /// Server types it can be used with.
        pub compatible_commercial_types: Vec<String>,
        /// The label: `ubuntu_noble`.
        pub label: String,
        /// Where its root volume lives.
        #[serde(rename = "type")]
        pub storage: ImageStorage,
    }
}

impl LocalImage {
    /// Whether servers of this type can be made from it. The SDK compares the type in capitals; so do we.
    pub fn is_compatible_with(&self, commercial_type: &str) -> bool {
        self.compatible_commercial_types.iter().any(|compatible| compatible.eq_ignore_ascii_case(commercial_type))
    }
}
