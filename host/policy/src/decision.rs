//! The outcome of asking a chain.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;
use crate::failure_kind::FailureKind;
use crate::rules::RulesFile;
use crate::slots::{OnFailure, Slot, SlotName};
use crate::text::short;

/// What identifies a policy: the same digests mean the same decisions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyIdentity {
    /// The slot that it decides.
    pub slot: SlotName,
    /// What it calls itself; rules, the name of their file.
    pub name: Arc<str>,
    /// Its own; of rules, that of what evaluates them.
    pub version: Arc<str>,
    /// The digest of its component, as it was before it was configured; of rules, that of what evaluates them.
    pub component: Digest,
    /// The digest of its settings, or of its rules.
    pub settings: Digest,
    /// The digest of its grants, limits and `on_failure`. Absent: it is configured with none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Digest>,
    /// The object that brought it. Absent: it is configured, or built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<PolicyOrigin>,
}

impl PolicyIdentity {
    /// Whether it is a file of rules.
    pub fn are_rules(&self) -> bool {
        RulesFile::has_named(&self.name)
    }

    /// What tells it from others of its slot in short: the digest of its component, or of its rules.
    pub fn digest(&self) -> Digest {
        if self.are_rules() { self.settings } else { self.component }
    }

    /// Whether a tenant brought it: then it decides nothing about what tenants share.
    pub fn is_from_tenant(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.tenant.is_some())
    }
}

impl fmt::Display for PolicyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.are_rules() {
            true => write!(f, "{} ({})", self.name, self.digest().short())?,
            false => write!(f, "{} {} ({})", self.name, self.version, self.digest().short())?,
        }
        match &self.origin {
            Some(origin) => write!(f, " of {origin}"),
            None => Ok(()),
        }
    }
}

/// The object that brought a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PolicyOrigin {
    /// The tenant that owns it. Absent for the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Arc<str>>,
    /// The object's name.
    pub name: Arc<str>,
    /// What decides if it fails, or cannot be loaded. Absent: as the slot says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
}

impl fmt::Display for PolicyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tenant {
            Some(tenant) => write!(f, "{tenant}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecidedBy {
    /// A policy of the chain. In a batch of which several policies decided items: the last one asked.
    Policy(Arc<PolicyIdentity>),
    /// The native last resort, because no policy could be asked or because the failed one is configured so.
    Keep,
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecidedBy::Policy(identity) => identity.fmt(f),
            DecidedBy::Keep => f.write_str("the host's last resort: keep"),
        }
    }
}

/// A policy that was to decide and did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Fallback {
    pub policy: Arc<PolicyIdentity>,
    /// How it failed.
    pub kind: FailureKind,
    /// In words for people.
    pub reason: String,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.policy, self.reason)
    }
}

/// The outcome of asking a chain. There always is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S: Slot> {
    /// Under which it is in the decision log.
    pub id: DecisionId,
    /// The answer. It passed [`Slot::check`], unless the last resort decided, and defers
    /// nothing.
    pub answer: S::Answer,
    /// The deciding policy's reason, for people.
    pub reason: Option<String>,
    pub decided_by: DecidedBy,
    /// Policies that failed before, in the order in which they were asked.
    pub fallbacks: Vec<Fallback>,
    /// What each policy decided, in the order in which they were asked.
    pub(crate) parts: Vec<DecidedPart>,
}

/// What one policy decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecidedPart {
    pub(crate) policy: Arc<PolicyIdentity>,
    /// The items of a batch that it deferred.
    pub(crate) deferred: Vec<usize>,
    /// Whether its answer removes machines.
    pub(crate) removes: bool,
}

impl<S: Slot> Decision<S> {
    /// Who decided this item of a batch.
    pub fn decider(&self, item: usize) -> DecidedBy {
        match self.parts.iter().find(|part| !part.deferred.contains(&item)) {
            Some(part) => DecidedBy::Policy(Arc::clone(&part.policy)),
            None => self.decided_by.clone(),
        }
    }
}

/// Names a decision: unique across processes, sorted by time. Written as `019b2f3c4d5e-9f8a7b6c-0000002a`:
/// milliseconds since 1970, a random word of the process, a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DecisionId {
    at_ms: u64,
    process: u32,
    sequence: u32,
}

impl DecisionId {
    /// When the decision was made, in milliseconds since 1970-01-01T00:00:00Z.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    #[cfg(test)]
    pub(crate) fn of(at_ms: u64, process: u32, sequence: u32) -> DecisionId {
        DecisionId { at_ms, process, sequence }
    }

    /// What is before all decisions of this instant, and behind those that were made earlier.
    pub(crate) fn first_of(at_ms: u64) -> DecisionId {
        DecisionId { at_ms, process: 0, sequence: 0 }
    }

    /// Which process made it.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}-{:08x}-{:08x}", self.at_ms, self.process, self.sequence)
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecisionId({self})")
    }
}

impl FromStr for DecisionId {
    type Err = String;

    fn from_str(text: &str) -> Result<DecisionId, String> {
        let wrong = || format!("`{}` is no decision id; one looks like 019b2f3c4d5e-9f8a7b6c-0000002a", short(text));
        let mut parts = text.split('-');
        let mut part = || parts.next().and_then(|part| u64::from_str_radix(part, 16).ok()).ok_or_else(wrong);
        let (at_ms, process, sequence) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(wrong());
        }
        let small = |word: u64| u32::try_from(word).map_err(|_| wrong());
        Ok(DecisionId { at_ms, process: small(process)?, sequence: small(sequence)? })
    }
}

impl Serialize for DecisionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DecisionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DecisionId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Hands out the ids of one host.
pub(crate) struct DecisionIds {
    process: u32,
    next: AtomicU32,
}

impl DecisionIds {
    /// `process` tells apart the processes (and hosts) that share a state folder.
    pub(crate) fn new(process: u32) -> DecisionIds {
        DecisionIds { process, next: AtomicU32::new(0) }
    }

    pub(crate) fn next(&self) -> DecisionId {
        DecisionId { at_ms: now_ms(), process: self.process, sequence: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z; 0 before that.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_id_reads_back_and_sorts_by_time() {
        let ids = DecisionIds::new(0xdead_beef);
        let (first, second) = (ids.next(), ids.next());
        assert!(first < second);
        assert!(first.to_string() < second.to_string());
        assert_eq!(first.to_string().parse::<DecisionId>().unwrap(), first);
        for wrong in ["", "1-2", "1-2-3-4", "x-y-z", "1-100000000-1"] {
            assert!(wrong.parse::<DecisionId>().is_err(), "{wrong}");
        }
    }
}
