//! Shards: parts of all objects, each of which one process works on at a time.
//!
//! What has one journal is in one shard: an account, and so a namespace, whose accounts are its own; the controller's
//! own account is in the first one. So an account has one writer, one search for orphans and one budget of calls, with
//! no further word between processes. In which shard an object is follows from its namespace and from what cannot
//! change in it, so no two processes ever answer that differently.

use std::collections::BTreeSet;
use std::fmt;

use kube::ResourceExt;
use metrics::Label;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::account_of::OfAccount as _;
use crate::kinds::{
    AppleSiliconMachine, AppleSiliconMachineTemplate, ExternalCluster, InstanceMachine, InstanceMachineTemplate,
    MachineRemediation, ServerCluster,
};

/// One of so many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shard {
    /// How many there are.
    count: u32,
    index: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-of-{}", self.index, self.count)
    }
}

impl Shard {
    /// The only one.
    pub(crate) const WHOLE: Self = Self { count: 1, index: 0 };

    /// All of so many.
    pub(crate) fn all(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { count, index })
    }

    /// Reads what [`fmt::Display`] writes, and gives what follows.
    pub(crate) fn parse(text: &str) -> Option<(Self, &str)> {
        let (index, rest) = text.split_once("-of-")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, rest) = rest.split_at(digits);
        let shard = Self { count: count.parse().ok()?, index: index.parse().ok()? };
        (shard.index < shard.count).then_some((shard, rest))
    }

    pub(crate) fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether there may be objects in both. Of one number, each object is in one.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.count != other.count || self.index == other.index
    }

    /// Whether the accounts of a namespace are in it.
    pub(crate) fn has(self, namespace: &str) -> bool {
        let mut first = [0; 8];
        first.copy_from_slice(&Sha256::digest(namespace.as_bytes())[..8]);
        u64::from_be_bytes(first) % u64::from(self.count) == u64::from(self.index)
    }

    /// Whether the controller's own account is in it.
    pub(crate) fn has_own(self) -> bool {
        self.index == 0
    }

    /// The labels of a metric that each shard has for itself: with the shard where there are several.
    pub(crate) fn labels<const N: usize>(self, labels: [(&'static str, String); N]) -> Vec<Label> {
        let shard = (!self.is_whole()).then(|| ("shard", self.index.to_string()));
        labels.into_iter().chain(shard).map(|(name, value)| Label::new(name, value)).collect()
    }
}

/// What can be in a shard.
pub(crate) trait InShard: ResourceExt {
    /// Whether it is worked on with credentials of its namespace, whatever the operator lets others do.
    fn names_credentials(&self) -> bool {
        true
    }
}

// They stand beside the objects of their namespace, and need no account.
impl InShard for AppleSiliconMachineTemplate {}
impl InShard for InstanceMachineTemplate {}
impl InShard for MachineRemediation {}
impl InShard for ExternalCluster {}

macro_rules! of_an_account {
    ($kind:ty) => {
        impl InShard for $kind {
            fn names_credentials(&self) -> bool {
                self.credentials().is_some()
            }
        }
    };
}

of_an_account!(AppleSiliconMachine);
of_an_account!(InstanceMachine);
of_an_account!(ServerCluster);

/// The shards that this process holds.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<BTreeSet<Shard>>);

impl Held {
    pub(crate) fn add(&self, shard: Shard) {
        self.0.lock().insert(shard);
    }

    pub(crate) fn remove(&self, shard: Shard) {
        self.0.lock().remove(&shard);
    }

    /// Whether the accounts of this namespace, or the controller's own, are in one of them.
    pub(crate) fn has(&self, namespace: Option<&str>) -> bool {
        let has = |shard: &Shard| namespace.map_or_else(|| shard.has_own(), |namespace| shard.has(namespace));
        self.0.lock().iter().any(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_is_in_one_shard_and_in_the_same_for_ever() {
        let shard_of = |namespace: &str, count: u32| {
            let shards: Vec<u32> =
                Shard::all(count).filter(|shard| shard.has(namespace)).map(|shard| shard.index).collect();
            assert_eq!(shards.len(), 1, "{namespace} is in {shards:?} of {count}");
            shards[0]
        };
        let mut counts = [0; 8];
        for number in 0..800 {
            counts[shard_of(&format!("team-{number}"), 8) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
        // A process of another version must not answer otherwise.
        assert_eq!(["ci", "dev", "team-a", ""].map(|namespace| shard_of(namespace, 16)), [14, 15, 4, 4]);
        assert!(Shard::WHOLE.has("ci") && Shard::WHOLE.has_own());
    }

    #[test]
    fn a_shard_is_read_as_it_is_written() {
        for shard in Shard::all(12) {
            assert_eq!(Shard::parse(&format!("{shard}-ns.label")), Some((shard, "-ns.label")));
            assert_eq!(Shard::parse(&shard.to_string()), Some((shard, "")));
        }
        for wrong in ["", "1-of-", "4-of-4", "a-of-4", "1", "-of-4"] {
            assert_eq!(Shard::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn shards_of_one_number_have_nothing_in_common_and_those_of_two_may() {
        let shards: Vec<Shard> = Shard::all(1).chain(Shard::all(4)).chain(Shard::all(8)).collect();
        for (one, other) in shards.iter().flat_map(|one| shards.iter().map(move |other| (*one, *other))) {
            assert_eq!(one.overlaps(other), one == other || one.count != other.count, "{one} {other}");
        }
    }

    #[test]
    fn a_process_has_what_is_in_its_shards() {
        let held = Held::default();
        assert!(!held.has(None) && !held.has(Some("ci")));
        for shard in Shard::all(2) {
            held.add(shard);
        }
        assert!(held.has(None) && held.has(Some("ci")));
        for shard in Shard::all(2).filter(|shard| shard.has("ci") || shard.has_own()) {
            held.remove(shard);
        }
        assert!(!held.has(None) && !held.has(Some("ci")));
    }
}
