use std::collections::HashMap;

use parking_lot::Mutex;
use windlass_scaleway::types::apple_silicon;
use windlass_scaleway::types::instance;

use super::listing::Listings;

/// What the machines of a process share.
#[derive(Default)]
pub(crate) struct Machines {
    /// The part of the lock that holds within this process.
    pub(super) lock: tokio::sync::Mutex<Option<tokio::time::Instant>>,
    pub(crate) hosts: Listings<apple_silicon::Server>,
    pub(crate) servers: Listings<instance::Server>,
    /// When hosts were listed as busy for the last time, in milliseconds since 1970, by their ids.
    pub(super) busy: Mutex<HashMap<String, u64>>,
}
