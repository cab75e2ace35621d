use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Scaleway region: `fr-par`. Two lower-case letters, a dash, three lower-case letters.
///
/// The shape is checked, membership in a list is not: a region that Scaleway opens tomorrow works today.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Region(String);

/// A Scaleway zone: `fr-par-1`. A region, a dash and a number from 1 to 99.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone(String);

/// A text that is not the name of a zone or a region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of a {kind}; {instead}")]
pub struct InvalidLocation {
    text: String,
    kind: &'static str,
    /// What to write instead.
    instead: String,
}

/// An id of another zone or region than the one where it is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is in {found}, and this is {wanted}")]
pub struct IdElsewhere {
    text: String,
    found: String,
    wanted: String,
}

/// The id in a text that Terraform printed (`fr-par-1/UUID`, `fr-par/UUID`), with what stands before it.
fn split_id(text: &str) -> (Option<&str>, &str) {
    match text.split_once('/') {
        Some((location, id)) if location.parse::<Zone>().is_ok() || is_region(location) => (Some(location), id),
        _ => (None, text),
    }
}

impl Region {
    /// The regions whose zones are known to serve Instances (SDK).
    pub const KNOWN: [&'static str; 4] = ["fr-par", "nl-ams", "pl-waw", "it-mil"];

    /// The region's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Zone {
    /// The zones in which the SDK offers Instances. Used to sweep everywhere, never to refuse another zone.
    pub const KNOWN: [&'static str; 10] = [
        "fr-par-1", "fr-par-2", "fr-par-3", "nl-ams-1", "nl-ams-2", "nl-ams-3", "pl-waw-1", "pl-waw-2", "pl-waw-3",
        "it-mil-1",
    ];

    /// The zone's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a text that may hold this zone, or its region, before the id: `fr-par-1/UUID`, as Terraform prints ids.
    ///
    /// # Errors
    /// [`IdElsewhere`] where another zone or region stands there.
    pub fn local_id<'t>(&self, text: &'t str) -> Result<&'t str, IdElsewhere> {
        match split_id(text) {
            (None, id) => Ok(id),
            (Some(location), id) if location == self.0 || location == self.region().0 => Ok(id),
            (Some(other), _) => {
                Err(IdElsewhere { text: quoted(text), found: other.to_owned(), wanted: self.to_string() })
            }
        }
    }

    /// The region the zone lies in: `fr-par` for `fr-par-1`.
    pub fn region(&self) -> Region {
        let (region, _number) =
            self.0.rsplit_once('-').expect("a zone is made only by from_str, which checked the dash");
        Region(region.to_owned())
    }
}

fn is_region(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 6
        && bytes[2] == b'-'
        && bytes.iter().enumerate().all(|(index, byte)| index == 2 || byte.is_ascii_lowercase())
}

fn is_zone(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(region, number)| {
        is_region(region)
            && matches!(number.len(), 1 | 2)
            && !number.starts_with('0')
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Quotes at most 64 characters of what somebody typed, without control characters.
fn quoted(text: &str) -> String {
    text.chars().take(64).map(|character| if character.is_control() { '?' } else { character }).collect()
}

impl FromStr for Region {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_region(text) {
            Ok(Region(text.to_owned()))
        } else {
            let instead = format!("the regions are {}", Region::KNOWN.join(", "));
            Err(InvalidLocation { text: quoted(text), kind: "region", instead })
        }
    }
}

impl FromStr for Zone {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_zone(text) {
            return Ok(Zone(text.to_owned()));
        }
        let plain = text.trim().to_ascii_lowercase();
        let of_region =
            Zone::KNOWN.into_iter().filter(|zone| zone.strip_prefix(&plain).is_some_and(|it| it.len() == 2));
        let of_region: Vec<&str> = of_region.collect();
        let instead = match () {
            () if is_zone(&plain) => format!("write `{plain}`"),
            () if !of_region.is_empty() => format!("the zones of that region are {}", of_region.join(", ")),
            () => format!("the zones are {}", Zone::KNOWN.join(", ")),
        };
        Err(InvalidLocation { text: quoted(text), kind: "zone", instead })
    }
}

macro_rules! location_traits {
    ($($name:ident),+) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidLocation;

            fn try_from(text: &str) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )+ };
}

location_traits!(Region, Zone);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_zone_lies_in_a_known_region() {
        for name in Zone::KNOWN {
            let zone: Zone = name.parse().unwrap();
            assert!(Region::KNOWN.contains(&zone.region().as_str()), "{name}");
        }
    }

    #[test]
    fn an_id_may_stand_behind_its_own_zone_or_region_only() {
        const ID: &str = "11111111-1111-4111-8111-111111111111";
        let zone: Zone = "fr-par-1".parse().unwrap();
        let text = |location: &str| format!("{location}/{ID}");
        for accepted in [ID.to_owned(), text("fr-par-1"), text("fr-par")] {
            assert_eq!(zone.local_id(&accepted), Ok(ID), "{accepted}");
        }
        for location in ["fr-par-2", "nl-ams", "nl-ams-1"] {
            let words = zone.local_id(&text(location)).unwrap_err().to_string();
            assert!(words.ends_with(&format!("is in {location}, and this is fr-par-1")), "{words}");
        }
        // No location, so it is left to whoever reads ids.
        assert_eq!(zone.local_id("farm/web"), Ok("farm/web"));
    }

    #[test]
    fn what_is_no_zone_is_told_with_what_to_write_instead() {
        for (text, instead) in [
            ("FR-PAR-1", "write `fr-par-1`"),
            (" fr-par-1\n", "write `fr-par-1`"),
            ("nl-ams", "the zones of that region are nl-ams-1, nl-ams-2, nl-ams-3"),
            ("eu-west-1", "the zones are fr-par-1, fr-par-2"),
            ("", "the zones are fr-par-1, fr-par-2"),
        ] {
            let words = text.parse::<Zone>().unwrap_err().to_string();
            assert!(words.contains(instead), "{words}");
        }
    }

    #[test]
    fn a_zone_of_tomorrow_is_accepted() {
        assert_eq!("de-fra-12".parse::<Zone>().unwrap().region().as_str(), "de-fra");
    }

    #[test]
    fn what_could_change_a_path_is_no_zone() {
        for text in [
            "",
            "fr-par",
            "fr-par-",
            "fr-par-0",
            "fr-par-001",
            "fr-par-1/..",
            "FR-PAR-1",
            "fr-par-1 ",
            "fr-pär-1",
            "../..-1",
        ] {
            assert!(text.parse::<Zone>().is_err(), "{text:?}");
        }
        for text in ["", "fr", "fr-par-1", "fr_par", "fr-p/r"] {
            assert!(text.parse::<Region>().is_err(), "{text:?}");
        }
    }
}
