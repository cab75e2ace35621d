//! `windlass:policy/placement`, made of the contract in wit/ by `just bindings`.
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::types::{Failure, Money, Subject, Timestamp};

/// A server type in a zone.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Place {
    pub zone: String,
    /// Scaleway's commercial type: `DEV1-S`.
    #[component(name = "server-type")]
    pub server_type: String,
    /// How many servers of this type the group has in this zone, with those that are being created.
    pub servers: u32,
    /// How many of them are being created.
    pub creating: u32,
    /// How many creations failed here in a row, since the last one that succeeded.
    pub failures: u32,
    /// Why the last of those failed. Absent where none did.
    #[component(name = "last-failure")]
    pub last_failure: Option<Failure>,
    /// When it failed.
    #[component(name = "failed-at")]
    pub failed_at: Option<Timestamp>,
    /// The slot `retry` wants nothing tried here before this instant. Absent, or past, where it may be tried now.
    #[component(name = "backoff-until")]
    pub backoff_until: Option<Timestamp>,
    /// What an hour of it costs by Scaleway's catalogue. Absent where that is not known.
    #[component(name = "price-per-hour")]
    pub price_per_hour: Option<Money>,
}

/// Servers that are wanted, and where they can be created.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    pub now: Timestamp,
    pub random: u64,
    /// The operation that creates them: `create-server`, ...
    pub operation: String,
    /// Whom the servers are for.
    pub subject: Subject,
    /// How many are wanted now.
    pub wanted: u32,
    /// The places that the operator allows, in the operator's order: zone by zone, and in each zone type by type.
    /// At most 64; no two have the same zone and type.
    pub places: Vec<Place>,
}

/// Servers that are created in one zone.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Assignment {
    /// How many. At least one.
    pub count: u32,
    /// Positions in `places`, each once, all of one zone: the types that each of these creations tries, in this
    /// order, going on to the next where Scaleway has none of the one before. At least one.
    pub places: Vec<u32>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    #[component(name = "defer")]
    Defer,
    /// Create these: together at most as many as are wanted; no two assignments begin with the same place. Where the
    /// list is empty, nothing is created now.
    #[component(name = "place")]
    Place(Vec<Assignment>),
}

/// The verdict and why.
pub type Answer = crate::slots::Answer<Verdict>;
