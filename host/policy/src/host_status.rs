use serde::{Deserialize, Serialize};

use crate::configuration::Mode;
use crate::decision::PolicyIdentity;
use crate::slots::SlotName;

/// How one link of a chain is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkStatus {
    pub slot: SlotName,
    /// Its place in the chain, from 0, shadows counted.
    pub position: usize,
    /// Whether it decides.
    #[serde(default)]
    pub mode: Mode,
    /// The policy in use.
    pub policy: PolicyIdentity,
    /// One sentence of the policy about itself.
    pub summary: String,
    /// Where it came from.
    pub source: String,
    /// When it was put in place, in milliseconds since 1970-01-01T00:00:00Z.
    pub loaded_at_ms: u64,
    /// Whether it is no longer asked, since it failed too often in a row.
    pub suspended: bool,
    /// Its failures in a row.
    pub failures_in_a_row: u32,
    /// Its last failure, which may be followed by successes.
    pub last_failure: Option<String>,
    /// Why the file that is there now isn't in use. The last good one stays.
    pub error: Option<String>,
    /// When that file was refused, in milliseconds since 1970-01-01T00:00:00Z.
    #[serde(default)]
    pub refused_at_ms: Option<u64>,
}

/// How a host is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostStatus {
    /// Every link of every chain, in the order in which they are asked.
    pub links: Vec<LinkStatus>,
    /// Records of decisions that were never written, because more was decided than the disk took.
    pub lost_records: u64,
    /// Records of decisions that this host has removed to make room for newer ones.
    #[serde(default)]
    pub dropped_records: u64,
}
