use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::catalogue::apple_silicon as catalogue;

/// How Apple silicon behaves for whom, and what is there from the start. `AppleSilicon::default()`: every host has its
/// floor, nothing runs out, nothing is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppleSilicon {
    /// Server types whose hosts can be deleted at any time.
    pub exempt_types: BTreeSet<String>,
    /// Projects whose hosts can be deleted at any time, as those of the recorded organization could.
    pub exempt_projects: BTreeSet<String>,
    /// How a deletion before [`deletable_at`] is refused.
    ///
    /// [`deletable_at`]: crate::Options::apple_silicon_commitment
    pub floor_refusal: FloorRefusal,
    /// How many hosts of a type are left; of one that is not named, any number. Each creation takes one.
    // Assumption: a deleted host does not come back at once, because Scaleway wipes it first.
    pub stock: BTreeMap<String, u32>,
    /// Hosts that are there from the start, delivered and ready.
    pub pools: Vec<AppleSiliconPool>,
}

/// How an Apple silicon server refuses to be deleted before its time; always 412.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FloorRefusal {
    /// With its type, and with the date in words (recorded).
    #[default]
    InWords,
    /// With its type and without details: no date (Scaleway's SDK, issue 2604).
    WithoutDetails,
    /// With nothing but a message: only the status tells (Scaleway's SDK calls such an answer a `ResponseError`).
    StatusAlone,
}

impl FloorRefusal {
    /// Every one, with its word on command lines.
    pub const ALL: [(&'static str, FloorRefusal); 3] = [
        ("in-words", FloorRefusal::InWords),
        ("without-details", FloorRefusal::WithoutDetails),
        ("status-alone", FloorRefusal::StatusAlone),
    ];
}

impl FromStr for FloorRefusal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(word, _)| *word == text).map(|(_, refusal)| *refusal);
        found.ok_or_else(|| format!("must be {}", Self::ALL.map(|(word, _)| word).join(", ")))
    }
}

/// Longest pool that is made at once.
const HOSTS: usize = 10_000;

/// Hosts of one kind, delivered and ready, under names that begin alike: `<prefix><uuid>`.
///
/// As text, for command lines: `prefix=ci-,count=3,type=M4-S,os=macos-sequoia-15.6,age=1h+26h,zone=fr-par-1`; all but
/// prefix, count and type may be left out. As JSON the same keys, with `ages` as a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct AppleSiliconPool {
    pub(crate) prefix: String,
    pub(crate) count: usize,
    pub(crate) server_type: String,
    pub(crate) operating_system: Option<String>,
    pub(crate) ages: Vec<Duration>,
    pub(crate) zone: String,
    pub(crate) project: Option<String>,
}

/// What is wrong with the description of a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPool {
    /// A key that a pool does not have.
    #[error("`{0}` is not a key of a pool of hosts; valid keys are prefix, count, type, os, age, zone and project")]
    UnknownKey(String),
    /// A key that a pool must have.
    #[error("a pool of hosts needs `{0}`")]
    Missing(&'static str),
    /// A number of hosts that is none.
    #[error("`{0}` is not a number of hosts from 1 to {HOSTS}")]
    Count(String),
    /// A server type that the simulator does not have.
    #[error("`{0}` is not a type of Apple silicon; valid types are {types}", types = catalogue::type_names().join(", "))]
    ServerType(String),
    /// An operating system that the simulator does not have, or not on this type.
    #[error("`{0}` is not an operating system of this type; valid systems are \
        {systems}", systems = catalogue::os_names().join(", "))]
    OperatingSystem(String),
    /// An age that is none.
    #[error("`{0}` is not an age; write 90s, 20m, 26h or 3d, and several as 1h+26h")]
    Age(String),
    /// A zone that is none.
    #[error(transparent)]
    Zone(#[from] windlass_scaleway::InvalidLocation),
}

impl AppleSiliconPool {
    /// `count` hosts of a type, made just now, in fr-par-1, with the type's default system.
    ///
    /// # Errors
    /// For a type that there is not, and for no hosts or more than 10,000.
    pub fn new(prefix: &str, count: usize, server_type: &str) -> Result<Self, InvalidPool> {
        if count == 0 || count > HOSTS {
            return Err(InvalidPool::Count(count.to_string()));
        }
        if !catalogue::type_names().contains(&server_type) {
            return Err(InvalidPool::ServerType(server_type.to_owned()));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
            count,
            server_type: server_type.to_owned(),
            operating_system: None,
            ages: Vec::new(),
            zone: "fr-par-1".to_owned(),
            project: None,
        })
    }

    /// With this operating system, by its name: `macos-sequoia-15.6`.
    ///
    /// # Errors
    /// When the simulator does not have it for this type.
    pub fn with_operating_system(mut self, name: &str) -> Result<Self, InvalidPool> {
        if !catalogue::os_named_runs_on(name, &self.server_type) {
            return Err(InvalidPool::OperatingSystem(name.to_owned()));
        }
        self.operating_system = Some(name.to_owned());
        Ok(self)
    }

    /// Made this long ago, one after the other and again from the first: with `[0, 26 h]` every second one is past its
    /// floor.
    #[must_use]
    pub fn with_ages(mut self, ages: impl IntoIterator<Item = Duration>) -> Self {
        self.ages = ages.into_iter().collect();
        self
    }

    #[must_use]
    pub fn in_zone(mut self, zone: &windlass_scaleway::Zone) -> Self {
        self.zone = zone.as_str().to_owned();
        self
    }

    /// Owned by this project instead of the default one.
    #[must_use]
    pub fn in_project(mut self, project: &str) -> Self {
        self.project = Some(project.to_owned());
        self
    }

    /// How long ago the host at this place was made.
    pub(crate) fn age(&self, place: usize) -> Duration {
        match self.ages.len() {
            0 => Duration::ZERO,
            ages => self.ages[place % ages],
        }
    }
}

/// A pool as it is written down.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Unchecked {
    prefix: Option<String>,
    count: Option<usize>,
    #[serde(rename = "type")]
    server_type: Option<String>,
    os: Option<String>,
    ages: Vec<String>,
    zone: Option<String>,
    project: Option<String>,
}

impl TryFrom<Unchecked> for AppleSiliconPool {
    type Error = InvalidPool;

    fn try_from(text: Unchecked) -> Result<Self, Self::Error> {
        let mut pool = Self::new(
            &text.prefix.ok_or(InvalidPool::Missing("prefix"))?,
            text.count.ok_or(InvalidPool::Missing("count"))?,
            &text.server_type.ok_or(InvalidPool::Missing("type"))?,
        )?;
        if let Some(name) = text.os {
            pool = pool.with_operating_system(&name)?;
        }
        if let Some(zone) = text.zone {
            pool = pool.in_zone(&zone.parse()?);
        }
        if let Some(project) = text.project {
            pool = pool.in_project(&project);
        }
        let ages: Vec<Duration> = text.ages.iter().map(|age| parse_age(age)).collect::<Result<_, _>>()?;
        Ok(pool.with_ages(ages))
    }
}

impl FromStr for AppleSiliconPool {
    type Err = InvalidPool;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut unchecked = Unchecked::default();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| InvalidPool::UnknownKey(pair.trim().to_owned()))?;
            let value = value.trim().to_owned();
            match key.trim() {
                "prefix" => unchecked.prefix = Some(value),
                "count" => unchecked.count = Some(value.parse().map_err(|_| InvalidPool::Count(value))?),
                "type" => unchecked.server_type = Some(value),
                "os" => unchecked.os = Some(value),
                "age" => unchecked.ages = value.split('+').map(str::to_owned).collect(),
                "zone" => unchecked.zone = Some(value),
                "project" => unchecked.project = Some(value),
                other => return Err(InvalidPool::UnknownKey(other.to_owned())),
            }
        }
        unchecked.try_into()
    }
}

/// `90s`, `20m`, `26h`, `3d`.
fn parse_age(text: &str) -> Result<Duration, InvalidPool> {
    let refused = || InvalidPool::Age(text.to_owned());
    let unit = text.chars().last().ok_or_else(refused)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(refused()),
    };
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| refused())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pool_is_read_from_text_and_from_json_alike() {
        let text: AppleSiliconPool =
            "prefix=ci-, count=3,type=M4-S,os=macos-sequoia-15.6,age=90s+26h,zone=nl-ams-1,project=p".parse().unwrap();
        let json = r#"{"prefix": "ci-", "count": 3, "type": "M4-S", "os": "macos-sequoia-15.6", "ages": ["90s", "26h"],
                       "zone": "nl-ams-1", "project": "p"}"#;
        assert_eq!(text, serde_json::from_str(json).unwrap());
        assert_eq!((text.age(0).as_secs(), text.age(1).as_secs(), text.age(2).as_secs()), (90, 93_600, 90));
        let least: AppleSiliconPool = "prefix=,count=1,type=M1-M".parse().unwrap();
        assert_eq!((least.age(7), least.zone.as_str()), (Duration::ZERO, "fr-par-1"));
    }

    #[test]
    fn what_is_wrong_with_a_pool_is_said_with_what_would_be_right() {
        for (text, hint) in [
            ("", "needs `prefix`"),
            ("prefix=ci-", "needs `count`"),
            ("prefix=ci-,count=1", "needs `type`"),
            ("prefix=ci-,count=0,type=M4-S", "from 1 to 10000"),
            ("prefix=ci-,count=many,type=M4-S", "from 1 to 10000"),
            ("prefix=ci-,count=1,type=M5", "M4-S"),
            ("prefix=ci-,count=1,type=M4-S,os=macos-sonoma-14.6", "macos-sequoia-15.6"),
            ("prefix=ci-,count=1,type=M4-S,age=1", "26h"),
            ("prefix=ci-,count=1,type=M4-S,age=1ü", "26h"),
            ("prefix=ci-,count=1,type=M4-S,age=", "26h"),
            ("prefix=ci-,count=1,type=M4-S,zone=mars", "fr-par-1"),
            ("prefix=ci-,count=1,type=M4-S,colour=red", "`colour` is not a key"),
            ("nonsense", "`nonsense` is not a key"),
        ] {
            let error = text.parse::<AppleSiliconPool>().expect_err(text).to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
        let error = serde_json::from_str::<AppleSiliconPool>(r#"{"prefix": "a", "size": 1}"#).unwrap_err().to_string();
        assert!(error.contains("`size`") && error.contains("`prefix`"), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "\\PC*", value in "\\PC*") {
            let _ = text.parse::<AppleSiliconPool>();
            let _ = format!("prefix=a,count=1,type=M4-S,age={value}").parse::<AppleSiliconPool>();
        }
    }
}
