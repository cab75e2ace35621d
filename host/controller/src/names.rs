//! Names that are made here: claims of hosts, groups of instances, provider ids.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use windlass_lifecycle::{ClaimName, GroupName, OwnerName};
use windlass_scaleway::Zone;

/// The longest claim, in bytes (a rule of the lifecycle, checked there again).
pub(crate) const MAX_CLAIM_LEN: usize = 63;
/// The longest name of a group (a rule of the lifecycle, checked there again).
const MAX_GROUP_LEN: usize = 48;
/// An owner's name within a claim is cut to this.
const MAX_OWNER_PART_LEN: usize = 20;
/// Hexadecimal digits that tell two names apart: 32 bits.
const MARK: usize = 8;

/// What tells two names, or two lives of one name, apart.
pub(crate) fn mark(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..MARK / 2])
}

pub(crate) fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].trim_end_matches(['-', '.'])
}

/// What all claims of an owner begin with.
pub(crate) fn claim_prefix(owner: &OwnerName) -> String {
    let owner = owner.as_str();
    if owner.len() <= MAX_OWNER_PART_LEN {
        format!("{owner}-")
    } else {
        format!("{}-{}-", cut(owner, MAX_OWNER_PART_LEN - MARK - 1), mark(owner))
    }
}

/// The claim of an object: `<owner>-<object's name>-<mark of its UID>`, so that an object that comes again under an old
/// name does not inherit its host.
pub(crate) fn claim(owner: &OwnerName, name: &str, uid: &str) -> Result<ClaimName, windlass_lifecycle::Error> {
    let prefix = claim_prefix(owner);
    let room = MAX_CLAIM_LEN - prefix.len() - MARK - 1;
    format!("{prefix}{}-{}", cut(name, room), mark(uid)).parse()
}

/// The group of an object's instances: its cluster's name where it has one, else its namespace.
pub(crate) fn group(namespace: &str, cluster: Option<&str>) -> GroupName {
    let text = cluster.map_or_else(|| namespace.to_owned(), |cluster| format!("{namespace}-{cluster}"));
    let plain: String =
        text.chars().map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' { c } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    let name = if plain.len() <= MAX_GROUP_LEN {
        plain.to_owned()
    } else {
        format!("{}-{}", cut(plain, MAX_GROUP_LEN - MARK - 1), mark(&text))
    };
    name.parse().unwrap_or_else(|_| "machines".parse().expect("the constant is a name"))
}

/// An owner that is the same for every controller of one cluster, and of the same objects in it, now and after a
/// restart.
pub(crate) fn owner_of_cluster(uid: &str, watch_filter: Option<&str>) -> OwnerName {
    let of = watch_filter.map_or_else(|| uid.to_owned(), |filter| format!("{uid}/{filter}"));
    format!("k8s-{}", mark(&of)).parse().expect("hexadecimal digits are allowed in names")
}

/// What a provider id means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProviderId {
    /// `scaleway-apple-silicon://<zone>/<id>`: our own form, since Scaleway's cloud controller manager knows no Mac.
    AppleSilicon { zone: Zone, id: String },
    /// `scaleway://instance/<zone>/<id>`: what Scaleway's cloud controller manager writes into the Nodes.
    Instance { zone: Zone, id: String },
}

impl ProviderId {
    pub(crate) fn zone(&self) -> &Zone {
        match self {
            Self::AppleSilicon { zone, .. } | Self::Instance { zone, .. } => zone,
        }
    }

    /// Scaleway's id.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::AppleSilicon { id, .. } | Self::Instance { id, .. } => id,
        }
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AppleSilicon { zone, id } => write!(formatter, "scaleway-apple-silicon://{zone}/{id}"),
            Self::Instance { zone, id } => write!(formatter, "scaleway://instance/{zone}/{id}"),
        }
    }
}

impl FromStr for ProviderId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem =
            || format!("{text:?} is neither scaleway-apple-silicon://<zone>/<id> nor scaleway://instance/<zone>/<id>");
        let (apple, rest) = if let Some(rest) = text.strip_prefix("scaleway-apple-silicon://") {
            (true, rest)
        } else {
            (false, text.strip_prefix("scaleway://instance/").ok_or_else(problem)?)
        };
        let (zone, id) = rest.split_once('/').ok_or_else(problem)?;
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(problem());
        }
        let zone = zone.parse().map_err(|_| problem())?;
        let id = id.to_owned();
        Ok(if apple { Self::AppleSilicon { zone, id } } else { Self::Instance { zone, id } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_fit_and_differ_between_two_lives_of_one_name() {
        let long = "a".repeat(48).parse().unwrap();
        let short: OwnerName = "team".parse().unwrap();
        for owner in [&long, &short] {
            for name in ["m", "a-b.c", &"x-".repeat(31), &"y".repeat(63)] {
                let first = claim(owner, name, "uid-1").unwrap();
                let second = claim(owner, name, "uid-2").unwrap();
                assert_ne!(first, second);
                assert!(first.as_str().len() <= MAX_CLAIM_LEN, "{first}");
                assert!(first.as_str().starts_with(&claim_prefix(owner)));
                assert_eq!(claim(owner, name, "uid-1").unwrap(), first, "the same after a restart");
            }
        }
        assert!(claim(&short, "mini", "uid-1").unwrap().as_str().starts_with("team-mini-"));
    }

    #[test]
    fn provider_ids_are_read_as_they_are_written() {
        for text in ["scaleway-apple-silicon://fr-par-1/1-2-a", "scaleway://instance/nl-ams-1/0-b"] {
            assert_eq!(text.parse::<ProviderId>().unwrap().to_string(), text);
        }
        for text in
            ["", "scaleway://fr-par-1/a", "scaleway-apple-silicon://fr-par-1/", "scaleway://instance/x/a/b", "aws:///a"]
        {
            assert!(text.parse::<ProviderId>().is_err(), "{text}");
        }
    }

    #[test]
    fn groups_are_names_whatever_the_cluster_is_called() {
        assert_eq!(group("default", Some("prod")).as_str(), "default-prod");
        assert_eq!(group("default", None).as_str(), "default");
        assert_eq!(group("default", Some("a.b")).as_str(), "default-a-b");
        let long = group(&"n".repeat(63), Some(&"c".repeat(63)));
        assert!(long.as_str().len() <= MAX_GROUP_LEN);
        assert_ne!(long, group(&"n".repeat(63), Some(&"c".repeat(62))));
    }

    #[test]
    fn names_are_the_same_for_ever_and_use_their_whole_room() {
        // Hosts carry them: another version of the controller has to know its own again.
        let owner = |length: usize| "a".repeat(length).parse::<OwnerName>().unwrap();
        assert_eq!(mark("uid-1"), "4a49acf8");
        assert_eq!(claim_prefix(&owner(20)), format!("{}-", "a".repeat(20)));
        assert_eq!(claim_prefix(&owner(21)), format!("{}-{}-", "a".repeat(11), mark(&"a".repeat(21))));
        let longest = claim(&owner(20), &"m".repeat(99), "uid-1").unwrap();
        assert_eq!(longest.as_str(), format!("{}-{}-4a49acf8", "a".repeat(20), "m".repeat(33)));
        assert_eq!(owner_of_cluster("uid-1", None).as_str(), "k8s-4a49acf8");
        assert_eq!(owner_of_cluster("uid-1", Some("blue")).as_str(), format!("k8s-{}", mark("uid-1/blue")));
        assert_eq!(group(&"n".repeat(48), None).as_str(), "n".repeat(48));
        assert_eq!(group(&"n".repeat(49), None).as_str(), format!("{}-{}", "n".repeat(39), mark(&"n".repeat(49))));
        assert_eq!(group("a1-B.c", None).as_str(), "a1---c");
        assert_eq!(group("--", None).as_str(), "machines");
    }

    #[test]
    fn a_name_is_cut_between_characters_and_ends_with_none_that_divides() {
        for (text, longest, cut_to) in
            [("abc", 3, "abc"), ("abc", 9, "abc"), ("abc", 2, "ab"), ("aä", 2, "a"), ("a-.b", 3, "a")]
        {
            assert_eq!(cut(text, longest), cut_to, "{text} {longest}");
        }
    }

    #[test]
    fn a_provider_id_names_a_zone_and_a_server() {
        let id: ProviderId = "scaleway://instance/nl-ams-1/0-b".parse().unwrap();
        assert_eq!((id.zone().to_string().as_str(), id.id()), ("nl-ams-1", "0-b"));
        for wrong in
            ["scaleway://instance/nl-ams-1/a_b", "scaleway://instance/nl-ams-1/a/b", "scaleway://instance/nl-ams-1"]
        {
            assert!(wrong.parse::<ProviderId>().is_err(), "{wrong}");
        }
    }
}
