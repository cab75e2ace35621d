//! Names that we make: groups, owners, and operation ids.

use std::fmt;

use rand::RngExt;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::name::name;

/// The longest name of a group or an owner, in bytes. With the unique part behind it, a group's name stays within the
/// 63 bytes of a host name.
pub(crate) const MAX_NAME_LEN: usize = 48;

/// Digits in the order of their bytes, so that ids sort as their times do; without `i`, `l`, `o` and `u`, which people
/// misread.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 2024-01-01T00:00:00Z, in milliseconds: the operation ids count from here.
const EPOCH: u64 = 1_704_067_200_000;
/// One tick of the time part: 30 bits of it last until 2160.
const TICK_MILLISECONDS: u64 = 4_000;

fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    let problem = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > MAX_NAME_LEN {
        format!("it has {} bytes, more than {MAX_NAME_LEN}", name.len())
    } else if let Some(wrong) = name.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')) {
        format!("it holds {wrong:?}")
    } else if name.starts_with('-') || name.ends_with('-') {
        "it begins or ends with a dash".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::Name { what, name: windlass_policy::cut(name, 2 * MAX_NAME_LEN), problem })
}

name! {
    /// The name of a group of servers: lower-case letters, digits and dashes, at most 48 bytes.
    GroupName, Error, |name| check_name("group", name)
}

name! {
    /// Who the resources belong to: the value of the owner tag. The same rules as for [`GroupName`].
    OwnerName, Error, |name| check_name("owner", name)
}

impl OwnerName {
    /// A new random owner: 80 random bits behind `windlass-`.
    pub(crate) fn random(random: &mut StdRng) -> Self {
        let mut name = String::from("windlass-");
        push_digits(&mut name, random.random::<u64>(), 10);
        push_digits(&mut name, random.random::<u64>(), 6);
        Self(name)
    }
}

/// The id of an operation: `<group>-<six digits of time><six random digits>`, for example `ci-k3v9q20mfz7a`.
///
/// Readable (the group), sortable within a group (by 4-second ticks), and unique: 30 random bits in each tick, and the
/// journal refuses a second operation of the same id. It is the value of the operation tag and, unless the
/// specification says otherwise, the server's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct OperationId(String);

impl TryFrom<String> for OperationId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::parse(&text)
    }
}

impl OperationId {
    /// A new id. `now` is in milliseconds since 1970.
    pub(crate) fn new(group: &GroupName, now: u64, random: &mut impl RngExt) -> Self {
        let mut id = String::with_capacity(group.0.len() + 13);
        id.push_str(&group.0);
        id.push('-');
        push_digits(&mut id, now.saturating_sub(EPOCH) / TICK_MILLISECONDS, 6);
        push_digits(&mut id, random.random::<u64>(), 6);
        Self(id)
    }

    /// An id that was read somewhere: on a command line, in a tag.
    ///
    /// # Errors
    /// [`Error::Name`] when no id of ours can look like this.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let problem = || Error::Name {
            what: "operation",
            name: windlass_policy::cut(text, 2 * MAX_NAME_LEN),
            problem: "it is not of the form <group>-<12 digits and letters>".to_owned(),
        };
        let (group, unique) = text.rsplit_once('-').ok_or_else(problem)?;
        if unique.len() != 12 || !unique.bytes().all(|b| DIGITS.contains(&b)) {
            return Err(problem());
        }
        check_name("group", group)?;
        Ok(Self(text.to_owned()))
    }

    /// When it was made, to 4 seconds, in milliseconds since 1970.
    #[must_use]
    pub fn made_at(&self) -> u64 {
        let unique = &self.0.as_bytes()[self.0.len().saturating_sub(12)..];
        let ticks = unique.iter().take(6).fold(0_u64, |ticks, digit| {
            let value = DIGITS.iter().position(|known| known == digit).unwrap_or(0);
            (ticks << 5) | value as u64
        });
        EPOCH + ticks * TICK_MILLISECONDS
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Appends the lowest `count` digits of `value`, most significant first.
pub(crate) fn push_digits(text: &mut String, value: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = (value >> (5 * place)) & 31;
        text.push(char::from(DIGITS[digit as usize]));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const NOW: u64 = 1_790_000_000_000;

    #[test]
    fn ids_are_parsed_back_and_sort_by_time() {
        let group: GroupName = "ci".parse().unwrap();
        let mut random = StdRng::seed_from_u64(1);
        let first = OperationId::new(&group, NOW, &mut random);
        let second = OperationId::new(&group, NOW + 2 * TICK_MILLISECONDS, &mut random);
        assert!(first < second, "{first} {second}");
        assert_eq!(OperationId::parse(first.as_str()).unwrap(), first);
        assert_eq!(first.as_str().len(), "ci-".len() + 12);
        assert!(first.made_at() <= NOW && NOW < first.made_at() + TICK_MILLISECONDS);
    }

    #[test]
    fn a_thousand_ids_of_one_tick_differ() {
        let group: GroupName = "ci".parse().unwrap();
        let mut random = StdRng::seed_from_u64(2);
        let ids: std::collections::BTreeSet<_> =
            (0..1000).map(|_| OperationId::new(&group, NOW, &mut random)).collect();
        assert_eq!(ids.len(), 1000);
    }

    #[test]
    fn a_wrong_name_is_refused_with_its_fault() {
        for (name, part) in
            [("", "empty"), ("CI", "'C'"), ("a,b", "','"), ("-a", "dash"), ("a".repeat(49).as_str(), "49 bytes")]
        {
            let error = name.parse::<GroupName>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        for good in ["a", "1", "ci-2", "a".repeat(48).as_str()] {
            assert_eq!(good.parse::<GroupName>().unwrap().as_str(), good);
        }
        for id in ["ci", "ci-1", "ci-k3v9q20mfz7u", "-k3v9q20mfz7a", "a,b-k3v9q20mfz7a"] {
            assert!(OperationId::parse(id).is_err(), "{id}");
        }
    }

    #[test]
    fn an_error_quotes_ninety_six_bytes_of_a_wrong_name_and_no_more() {
        let quoted = |error: Error| match error {
            Error::Name { name, .. } => name,
            other => panic!("{other}"),
        };
        let (fits, too_long) = ("a".repeat(96), "a".repeat(97));
        assert_eq!(quoted(fits.parse::<GroupName>().unwrap_err()), fits);
        assert_eq!(quoted(OperationId::parse(&fits).unwrap_err()), fits);
        assert_ne!(quoted(too_long.parse::<GroupName>().unwrap_err()), too_long);
        assert_ne!(quoted(OperationId::parse(&too_long).unwrap_err()), too_long);
    }

    #[test]
    fn an_id_tells_its_time_to_the_bit() {
        let mut random = StdRng::seed_from_u64(1);
        let group: GroupName = "ci".parse().unwrap();
        for (ticks, time) in [(0_u64, "000000"), (1, "000001"), (32, "000010"), (0b10101_01010_11111, "000naz")] {
            let id = OperationId::new(&group, EPOCH + ticks * TICK_MILLISECONDS, &mut random);
            assert_eq!(id.as_str()[..9], format!("ci-{time}"));
            assert_eq!(id.made_at(), EPOCH + ticks * TICK_MILLISECONDS, "{id}");
        }
    }

    #[test]
    fn a_random_owner_has_eighty_random_bits_behind_its_mark() {
        let mut random = StdRng::seed_from_u64(3);
        let (one, other) = (OwnerName::random(&mut random), OwnerName::random(&mut random));
        assert_ne!(one, other);
        for owner in [one, other] {
            let digits = owner.as_str().strip_prefix("windlass-").unwrap();
            assert!(digits.len() == 16 && digits.bytes().all(|digit| DIGITS.contains(&digit)), "{owner}");
            assert_eq!(owner.tag(), format!("windlass-owner={owner}"));
        }
    }
}
