//! What Scaleway offers everywhere and at any time: server types and images. Made by rule, so that it is as long as the
//! real one and paging is real.

pub(crate) mod apple_silicon;
mod images;
mod types;

pub use images::LABELS;
pub(crate) use images::{LocalImage, PublicImages};
pub use types::recorded_price;
pub(crate) use types::{ServerType, server_type, server_types};

/// The zones that exist [SDK].
pub(crate) const ZONES: [&str; 10] = [
    "fr-par-1", "fr-par-2", "fr-par-3", "nl-ams-1", "nl-ams-2", "nl-ams-3", "pl-waw-1", "pl-waw-2", "pl-waw-3",
    "it-mil-1",
];

/// The regions that exist [SDK].
pub(crate) const REGIONS: [&str; 4] = ["fr-par", "nl-ams", "pl-waw", "it-mil"];
