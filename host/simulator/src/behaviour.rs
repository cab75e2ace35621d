//! What is different about a Scaleway as a whole: properties of the world, for as long as they stand, where a fault
//! rule is about single requests. Each breaks one belief that callers hold without proof.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::clock::{Micros, micros};

/// A way in which this Scaleway differs from what is believed of the real one. Written as text: `total-off`,
/// `late-listing:5000`, `unlisted:<id>`. Times are simulated time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// A filter by tags does nothing: the list holds what it would hold without it.
    ///
    /// Breaks (assumption: tag-filter-addresses), as the three that follow do.
    TagFilterIgnored,
    /// A list that is filtered by tags is always empty.
    TagFilterEmpty,
    /// A tag with `=` in it is never found by a filter.
    TagFilterWithoutEquals,
    /// A filter by tags finds nothing unless a project is named, too.
    TagFilterNeedsProject,
    /// Something new appears in lists this much later; by its id it is there at once.
    ///
    /// Breaks (assumption: listed-within-settle).
    LateListing(Duration),
    /// A key that IAM narrows may not see this: lists leave it out, and by its id it is as if it were gone (404, for
    /// Apple silicon 403).
    ///
    /// Breaks (assumption: mac-listing-complete), as the next one does.
    Unlisted(String),
    /// A key that IAM narrows may not see this: lists leave it out, and by its id the answer is 403.
    Forbidden(String),
    /// The total of a filtered list is that of the unfiltered one.
    ///
    /// Breaks (assumption: filtered-totals), as the next one does.
    UnfilteredTotal,
    /// The total of a list is one too many.
    TotalOff,
    /// A flexible IP that is gone is answered 403 instead of 404, as older recordings have it.
    ///
    /// Breaks (assumption: gone-address-answers).
    GoneForbidden,
    /// Another name of an Apple silicon server is answered at once and read this much later; the last one counts.
    ///
    /// Breaks (assumption: mac-rename-within-claim-settle).
    LateRename(Duration),
    /// A reinstall of an Apple silicon server is answered at once and begins this much later; until then it is `ready`.
    ///
    /// Breaks (assumption: mac-reinstall-shows).
    LateReinstall(Duration),
    /// Writing user data is answered with 200 and a body instead of 204.
    ///
    /// Breaks (assumption: user-data-answers).
    UserDataBody,
    /// This server type has no price: wherever one would stand, there is 0.
    Unpriced(String),
}

/// How each is written.
const WRITTEN: [&str; 14] = [
    "tag-filter-ignored",
    "tag-filter-empty",
    "tag-filter-without-equals",
    "tag-filter-needs-project",
    "late-listing:<ms>",
    "unlisted:<id>",
    "forbidden:<id>",
    "unfiltered-total",
    "total-off",
    "gone-forbidden",
    "late-rename:<ms>",
    "late-reinstall:<ms>",
    "user-data-body",
    "unpriced:<type>",
];

/// The longest that anything can be late: a day.
const LATEST_MS: u64 = 24 * 60 * 60 * 1_000;

/// A text that names no behaviour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a behaviour of the API; valid behaviours are {} (at most {LATEST_MS} ms; an id is a UUID)",
    WRITTEN.join(", ")
)]
pub struct UnknownBehaviour {
    text: String,
}

impl fmt::Display for Behaviour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Behaviour::TagFilterIgnored => formatter.write_str("tag-filter-ignored"),
            Behaviour::TagFilterEmpty => formatter.write_str("tag-filter-empty"),
            Behaviour::TagFilterWithoutEquals => formatter.write_str("tag-filter-without-equals"),
            Behaviour::TagFilterNeedsProject => formatter.write_str("tag-filter-needs-project"),
            Behaviour::LateListing(by) => write!(formatter, "late-listing:{}", by.as_millis()),
            Behaviour::Unlisted(id) => write!(formatter, "unlisted:{id}"),
            Behaviour::Forbidden(id) => write!(formatter, "forbidden:{id}"),
            Behaviour::UnfilteredTotal => formatter.write_str("unfiltered-total"),
            Behaviour::TotalOff => formatter.write_str("total-off"),
            Behaviour::GoneForbidden => formatter.write_str("gone-forbidden"),
            Behaviour::LateRename(by) => write!(formatter, "late-rename:{}", by.as_millis()),
            Behaviour::LateReinstall(by) => write!(formatter, "late-reinstall:{}", by.as_millis()),
            Behaviour::UserDataBody => formatter.write_str("user-data-body"),
            Behaviour::Unpriced(server_type) => write!(formatter, "unpriced:{server_type}"),
        }
    }
}

impl FromStr for Behaviour {
    type Err = UnknownBehaviour;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownBehaviour { text: text.to_owned() };
        let time = |ms: &str| match ms.parse::<u64>() {
            Ok(ms) if ms <= LATEST_MS => Ok(Duration::from_millis(ms)),
            _ => Err(unknown()),
        };
        let id = |id: &str| uuid::Uuid::parse_str(id).map(|id| id.to_string()).map_err(|_| unknown());
        Ok(match text.split_once(':') {
            Some(("late-listing", ms)) => Behaviour::LateListing(time(ms)?),
            Some(("late-rename", ms)) => Behaviour::LateRename(time(ms)?),
            Some(("late-reinstall", ms)) => Behaviour::LateReinstall(time(ms)?),
            Some(("unlisted", text)) => Behaviour::Unlisted(id(text)?),
            Some(("forbidden", text)) => Behaviour::Forbidden(id(text)?),
            Some(("unpriced", server_type)) if !server_type.is_empty() => Behaviour::Unpriced(server_type.to_owned()),
            Some(_) => return Err(unknown()),
            None => match text {
                "tag-filter-ignored" => Behaviour::TagFilterIgnored,
                "tag-filter-empty" => Behaviour::TagFilterEmpty,
                "tag-filter-without-equals" => Behaviour::TagFilterWithoutEquals,
                "tag-filter-needs-project" => Behaviour::TagFilterNeedsProject,
                "unfiltered-total" => Behaviour::UnfilteredTotal,
                "total-off" => Behaviour::TotalOff,
                "gone-forbidden" => Behaviour::GoneForbidden,
                "user-data-body" => Behaviour::UserDataBody,
                _ => return Err(unknown()),
            },
        })
    }
}

impl Serialize for Behaviour {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Behaviour {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Behaviour {
    fn hidden(&self) -> Option<&str> {
        match self {
            Behaviour::Unlisted(id) | Behaviour::Forbidden(id) => Some(id),
            _ => None,
        }
    }

    /// The single thing that it is about.
    fn subject(&self) -> Option<&str> {
        match self {
            Behaviour::Unpriced(server_type) => Some(server_type),
            other => other.hidden(),
        }
    }

    /// Whether `other` says something else about the same thing.
    fn is_about_the_same_as(&self, other: &Behaviour) -> bool {
        match (self.subject(), other.subject()) {
            (None, None) => std::mem::discriminant(self) == std::mem::discriminant(other),
            (one, another) => one == another,
        }
    }
}

/// What stands now, in the order in which it was set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviours(Vec<Behaviour>);

impl Behaviours {
    /// How many can be set from outside.
    pub(crate) const MAX: usize = 1_000;

    /// Sets one, in the place of what was set about the same thing before.
    pub(crate) fn set(&mut self, behaviour: Behaviour) {
        self.0.retain(|old| !old.is_about_the_same_as(&behaviour));
        self.0.push(behaviour);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn all(&self) -> &[Behaviour] {
        &self.0
    }

    pub(crate) fn stands(&self, behaviour: &Behaviour) -> bool {
        self.0.contains(behaviour)
    }

    /// What the key may not see.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (&str, &Behaviour)> {
        self.0.iter().filter_map(|behaviour| behaviour.hidden().map(|id| (id, behaviour)))
    }

    /// Whether a list may show at `now` what has this id and was made then.
    pub(crate) fn lists(&self, now: Micros, id: &str, created: Micros) -> bool {
        self.0.iter().all(|behaviour| match behaviour {
            Behaviour::LateListing(by) => created.saturating_add(micros(*by)) <= now,
            hiding => hiding.hidden() != Some(id),
        })
    }

    /// Whether this server type has a price.
    pub(crate) fn prices(&self, server_type: &str) -> bool {
        !self.0.iter().any(|behaviour| matches!(behaviour, Behaviour::Unpriced(unpriced) if unpriced == server_type))
    }

    pub(crate) fn late_rename(&self) -> Option<Duration> {
        self.0.iter().find_map(|behaviour| match behaviour {
            Behaviour::LateRename(by) => Some(*by),
            _ => None,
        })
    }

    pub(crate) fn late_reinstall(&self) -> Option<Duration> {
        self.0.iter().find_map(|behaviour| match behaviour {
            Behaviour::LateReinstall(by) => Some(*by),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5c1a0d5e-0000-4000-8000-000000000000";

    #[test]
    fn every_behaviour_reads_back_as_it_was_written() {
        for written in WRITTEN {
            let text = written.replace("<ms>", "5000").replace("<id>", ID).replace("<type>", "DEV1-S");
            let behaviour: Behaviour = text.parse().unwrap();
            assert_eq!(behaviour.to_string(), text);
            assert_eq!(serde_json::from_value::<Behaviour>(serde_json::json!(behaviour)).unwrap(), behaviour);
        }
    }

    #[test]
    fn an_unknown_behaviour_names_all_valid_ones() {
        for text in [
            "",
            "tag-filter",
            "late-listing",
            "late-listing:x",
            "late-rename:86400001",
            "unlisted:1",
            "total-off:1",
            "unpriced:",
        ] {
            let message = text.parse::<Behaviour>().expect_err(text).to_string();
            assert!(WRITTEN.iter().all(|written| message.contains(written)), "{message}");
        }
    }

    #[test]
    fn what_is_set_about_the_same_thing_again_takes_the_place_of_what_was() {
        let other = ID.replace("5c1a", "6c1a");
        let mut behaviours = Behaviours::default();
        for text in ["late-listing:1", &format!("unlisted:{ID}"), &format!("unlisted:{other}"), "total-off"] {
            behaviours.set(text.parse().unwrap());
        }
        for text in ["late-listing:2", &format!("forbidden:{ID}"), "total-off"] {
            behaviours.set(text.parse().unwrap());
        }
        let texts: Vec<String> = behaviours.all().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [format!("unlisted:{other}"), "late-listing:2".into(), format!("forbidden:{ID}"), "total-off".into()]
        );
    }
}
