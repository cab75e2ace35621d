//! The names of hosts: what a pool's begins with, what a claim is called, and the name in between.
//!
//! Apple silicon has no tags that could be set, so a host's name is the only mark of whose it is. Anybody with a key
//! may change it at any time, and the last writer wins.

use uuid::Uuid;
use windlass_policy::Digest;

use crate::Error;
use crate::name::name;

/// What a host is called between two phases of its adoption.
pub(crate) const PENDING: &str = "windlass-claim-pending-";
/// What a host is called while it is on its way into its pool.
pub(crate) const RETURNING: &str = "windlass-returning-";
/// The longest prefix, in bytes: with a UUID behind it, a name stays within the 63 bytes of a host name.
const MAX_PREFIX_LEN: usize = 63 - 36;
/// The longest claim, in bytes.
const MAX_CLAIM_LEN: usize = 63;

fn refuse(what: &'static str, name: &str, problem: impl Into<String>) -> Error {
    Error::MachineName { what, name: windlass_policy::cut(name, 2 * MAX_CLAIM_LEN), problem: problem.into() }
}

fn check_letters(what: &'static str, name: &str, longest: usize) -> Result<(), Error> {
    if name.is_empty() {
        return Err(refuse(what, name, "it is empty"));
    }
    if name.len() > longest {
        return Err(refuse(what, name, format!("it has {} bytes, more than {longest}", name.len())));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if let Some(wrong) = name.chars().find(|c| !allowed(*c)) {
        return Err(refuse(
            what,
            name,
            format!("it holds {wrong:?}; lower-case letters, digits, dashes and dots are good"),
        ));
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
        return Err(refuse(what, name, "it does not begin with a letter or a digit"));
    }
    Ok(())
}

name! {
    /// What the names of a pool's hosts begin with, for example `ci-pool-`: at most 27 bytes, ending with a dash.
    ///
    /// No pool's prefix may be the beginning of another's: `ci-` takes the hosts of `ci-pool-` for its own. Nor may a
    /// claim begin with it.
    PoolPrefix, Error, check_prefix
}

name! {
    /// The name that a host carries while it is claimed: at most 63 bytes, lower-case letters, digits, dashes and dots.
    ///
    /// It has to be the claimant's own for ever: two claimants of one name share a host, and one that comes back under
    /// the name of a dead one inherits its host. Put something unique into it (of a Kubernetes object, a part of its
    /// UID).
    ClaimName, Error, check_claim
}

fn check_prefix(name: &str) -> Result<(), Error> {
    let what = "pool prefix";
    check_letters(what, name, MAX_PREFIX_LEN)?;
    if !name.ends_with('-') {
        return Err(refuse(
            what,
            name,
            "it does not end with a dash, so it would also match names that only begin alike",
        ));
    }
    check_between(what, name)
}

fn check_claim(name: &str) -> Result<(), Error> {
    let what = "claim";
    check_letters(what, name, MAX_CLAIM_LEN)?;
    check_between(what, name)
}

fn check_between(what: &'static str, name: &str) -> Result<(), Error> {
    for (mark, state) in [(PENDING, "being claimed"), (RETURNING, "on their way into a pool")] {
        if mark.starts_with(name) || name.starts_with(mark) {
            return Err(refuse(what, name, format!("it would match hosts that are {state} ({mark}...)")));
        }
    }
    Ok(())
}

impl PoolPrefix {
    /// Whether a host of this name stands in the pool.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        name.starts_with(&self.0)
    }

    /// The name under which a host comes into the pool when this claim releases it.
    ///
    /// Worked out, not drawn: who asks again after a crash, and even after the loss of the journal, knows his own work
    /// by it.
    pub(crate) fn name(&self, claim: &ClaimName, host: &str) -> String {
        format!("{}{}", self.0, unique("pool", claim, host))
    }
}

impl ClaimName {
    /// The name of a host that this claim has released, on its way into the pool.
    pub(crate) fn returning(&self, host: &str) -> String {
        format!("{RETURNING}{}", unique("returning", self, host))
    }

    /// A host that carries this claim must not stand in the pool at the same time.
    pub(crate) fn check_against(&self, prefix: &PoolPrefix) -> Result<(), Error> {
        if prefix.holds(&self.0) {
            return Err(refuse("claim", &self.0, format!("it begins with the pool's prefix {prefix}")));
        }
        Ok(())
    }
}

/// A name for the time of one adoption.
pub(crate) fn pending(unique: Uuid) -> String {
    format!("{PENDING}{unique}")
}

/// A UUID that only this claim and this host have.
fn unique(what: &str, claim: &ClaimName, host: &str) -> Uuid {
    let digest = Digest::of(format!("{what}\n{claim}\n{host}").as_bytes()).to_string();
    let word = digest.get(..32).and_then(|digits| u128::from_str_radix(digits, 16).ok()).unwrap_or_default();
    uuid::Builder::from_random_bytes(word.to_be_bytes()).into_uuid()
}

/// Whether a host of this name is between a pool and a claim, on either way.
pub(crate) fn is_between(name: &str) -> bool {
    is_pending(name) || is_returning(name)
}

pub(crate) fn is_returning(name: &str) -> bool {
    name.starts_with(RETURNING)
}

pub(crate) fn is_pending(name: &str) -> bool {
    name.starts_with(PENDING)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_prefix_is_refused_with_its_fault() {
        for (name, part) in [
            ("", "empty"),
            ("Pool-", "'P'"),
            ("pool", "dash"),
            ("-pool-", "begin"),
            ("windlass-", "being claimed"),
            ("windlass-claim-pending-", "being claimed"),
            ("a-very-long-prefix-indeed-xx-", "27"),
        ] {
            let error = name.parse::<PoolPrefix>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        let longest = format!("{}-", "a".repeat(26));
        for good in ["ci-pool-", "windlass-pool-", "tuist-pool-", "p-", "1.b-", longest.as_str()] {
            good.parse::<PoolPrefix>().unwrap();
        }
        assert!(format!("a{longest}").parse::<PoolPrefix>().unwrap_err().to_string().contains("28 bytes"));
    }

    #[test]
    fn a_wrong_claim_is_refused_with_its_fault() {
        let long = "a".repeat(64);
        for (name, part) in
            [("", "empty"), ("a b", "' '"), (long.as_str(), "64 bytes"), ("windlass-claim-pending-1", "being claimed")]
        {
            let error = name.parse::<ClaimName>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        assert!("windlass-returning-1".parse::<ClaimName>().unwrap_err().to_string().contains("into a pool"));
        for good in ["a", "1", "a.b-c", "windlass-claim", &"a".repeat(63)] {
            let read = good.parse::<ClaimName>().map(|claim| claim.to_string());
            assert!(
                matches!(&read, Ok(name) if name == good) || "windlass-claim-pending-".starts_with(good),
                "{read:?}"
            );
        }
        // An error quotes 126 bytes of a wrong name and no more.
        for (length, whole) in [(126, true), (127, false)] {
            let name = "a".repeat(length);
            assert_eq!(name.parse::<ClaimName>().unwrap_err().to_string().contains(&name), whole);
        }
        let claim: ClaimName = "ci-pool-7".parse().unwrap();
        let error = claim.check_against(&"ci-pool-".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("ci-pool-7"), "{error}");
        claim.check_against(&"ci-pool-7-".parse().unwrap()).unwrap();
    }

    #[test]
    fn the_names_of_a_release_are_the_same_for_ever() {
        // Other versions must know hosts by them; worked out with another SHA-256.
        let claim: ClaimName = "ci-mac-a".parse().unwrap();
        let prefix: PoolPrefix = "ci-pool-".parse().unwrap();
        assert_eq!(prefix.name(&claim, "h"), "ci-pool-683b0b01-e55e-4fbd-b635-dda2ed89b623");
        assert_eq!(claim.returning("h"), "windlass-returning-0689fdd9-38dd-4479-9609-4033f11d1941");
    }

    #[test]
    fn a_host_between_pool_and_claim_is_known_by_its_name() {
        let pending = pending(Uuid::from_u128(1));
        assert_eq!(pending, "windlass-claim-pending-00000000-0000-0000-0000-000000000001");
        let returning = "a-claim".parse::<ClaimName>().unwrap().returning("h");
        assert!(is_pending(&pending) && !is_returning(&pending) && is_between(&pending));
        assert!(is_returning(&returning) && !is_pending(&returning) && is_between(&returning));
        assert!(!is_between("ci-pool-1"));
        let prefix: PoolPrefix = "ci-pool-".parse().unwrap();
        assert!(prefix.holds("ci-pool-1") && !prefix.holds("ci-1") && !prefix.holds("a-ci-pool-1"));
    }

    proptest! {
        #[test]
        fn a_name_in_the_pool_is_held_by_it_and_is_no_claim_in_progress(prefix in "[a-z][a-z-]{0,20}-",
            word in any::<u128>()) {
            let Ok(prefix) = prefix.parse::<PoolPrefix>() else { return Ok(()) };
            let claim: ClaimName = "a-claim".parse().unwrap();
            let name = prefix.name(&claim, &word.to_string());
            prop_assert!(prefix.holds(&name) && !is_between(&name));
            prop_assert_eq!(&name, &prefix.name(&claim, &word.to_string()));
            prop_assert_ne!(&name, &prefix.name(&"b-claim".parse().unwrap(), &word.to_string()));
            prop_assert_ne!(&name, &prefix.name(&claim, "another host"));
            prop_assert!(name.len() <= 63);
            prop_assert!(!prefix.holds(&pending(Uuid::from_u128(word))));
        }
    }
}
