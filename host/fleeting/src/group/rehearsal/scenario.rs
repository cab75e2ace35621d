//! A scenario: which jobs come when, what Scaleway has, and what goes wrong. A file of people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_policy::{Mistake, read_toml};
use windlass_scaleway::Zone;
use windlass_simulator::{Availability, Offer as SimulatedOffer, Span};

use super::jobs::Pattern;
use crate::configuration::parse_duration;
use crate::group::places::Place;
use crate::group::start::problem;

/// The longest scenario: a month.
const MAX_HOURS: u32 = 31 * 24;
/// The most jobs of a pattern in an hour.
const MAX_JOBS_PER_HOUR: u32 = 10_000;
/// The most jobs that a file lists.
const MAX_LISTED: usize = 200_000;
/// The most hosts of a pool.
const MAX_HOSTS: u32 = 1_000;
/// The longest job, in minutes: a day.
const MAX_MINUTES: u32 = 24 * 60;
/// The shortest time between two looks at a cluster.
const MIN_REPAIR: Time = Time(Duration::from_secs(10));
const WRONG_SHARE: &str = "must be a share from 0 to 1";
const WRONG_SPAN: &str = "must be the shortest and the longest time, as in [20, 60]";

/// What happens, over time. Read from TOML with [`Scenario::parse`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is about, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// For how many hours jobs come, or the cluster is wanted.
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_HOURS)))]
    pub hours: u32,
    /// The full hour at which it begins, in its time zone, like `2026-08-03T08:00:00`. Default: midnight of a Monday.
    #[serde(default, deserialize_with = "starts_at", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub starts_at: Option<DateTime>,
    /// The name of the time zone, like `Europe/Paris`. Default: that of the runner's first policy that names one, or
    /// UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Seconds from `running` until an instance takes jobs. Default: 30 with an `instance_ready_command`, otherwise 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_seconds: Option<u32>,
    /// Jobs, drawn by a pattern or listed. Several tables add up. Only for runners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub demand: Vec<Demand>,
    /// How many nodes the operator of a cluster wants. The cluster is created at the beginning and terminated at the
    /// end. Only for clusters.
    #[serde(default, rename = "scale", skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<Scale>,
    /// How the cluster is operated. Only for clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterConduct>,
    /// What servers cost and how they boot. Default: as in the simulator. The last table about a server decides each
    /// key.
    #[serde(default, rename = "offer", skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Offer>,
    /// The hosts of a group of Macs, under names with its `pool_prefix`. Several tables add up. Default: as many hosts as
    /// the group may have instances, the smaller one of `max_instances` and `max_size`.
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// What goes wrong for a while. What means nothing to a kind of group is refused.
    #[serde(default, rename = "incident", skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<Incident>,
    /// What was measured when it really happened, by the names of figures, as in `wait_p95 = 93.0`. The report shows it
    /// beside the first arm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub observed: BTreeMap<String, f64>,
}

/// Jobs: drawn by a pattern, or listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// When jobs come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// How many jobs come in an hour of the pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_JOBS_PER_HOUR)))]
    pub jobs_per_hour: Option<u32>,
    /// How many minutes a job runs on average: each runs from half of it to one and a half times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_MINUTES)))]
    pub job_minutes: Option<u32>,
    /// Instead of a pattern, each job: `[[when it comes, how long it runs], ...]`, in seconds. The same for every seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<(u64, u64)>,
}

/// A scaling of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// When, like `1h30m` since the start. If another operation is in progress, the operator waits for it. At `0s`: the
    /// nodes with which the cluster is created.
    pub at: Time,
    /// How many nodes these groups have from then on, as in `{ web = 5 }`.
    pub groups: BTreeMap<String, u32>,
}

/// How a cluster is operated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterConduct {
    /// How often the operator runs `windlass cluster refresh`, and repairs nodes that do not serve with `cluster apply`.
    /// Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_every: Option<Time>,
    /// `true`: the cluster is there before the scenario begins. Then `ready_p50`, `ready_p95` and `ready_worst` are those
    /// of the scalings alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exists: bool,
    /// The shortest and the longest time that a hook runs. Default: no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_seconds: Option<(u32, u32)>,
    /// The share of runs of hooks, from 0 to 1, that fail. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub failed_hooks: Option<f64>,
    /// `hook_seconds` and `failed_hooks` for the hook of this stage alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decommission: Option<HookConduct>,
    /// `hook_seconds` and `failed_hooks` for the hook of this stage alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<HookConduct>,
    /// `hook_seconds` and `failed_hooks` for the hook of this stage alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<HookConduct>,
}

/// How the hook of a stage runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HookConduct {
    /// The shortest and the longest time that it runs. Default: that of all hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_seconds: Option<(u32, u32)>,
    /// The share of its runs, from 0 to 1, that fail. Default: that of all hooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub failed_hooks: Option<f64>,
}

/// What is particular about servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Default: every zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Default: every type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// In euros. Default: the simulator's price, which a note calls invented if it was never recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hourly_price: Option<f64>,
    /// What is left of a server type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock: Option<Stock>,
    /// The shortest and the longest time from power-on until `running`, as in `[20, 60]`. Of an ordered Mac: until
    /// `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_seconds: Option<(u32, u32)>,
    /// Of Macs: the shortest and the longest time from `reinstall` until `ready`, which is that of a wipe. Default:
    /// `[300, 1200]`, an assumption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reinstall_seconds: Option<(u32, u32)>,
    /// The share of servers, from 0 to 1, that stop instead of running. Of Macs: that are broken (`error`) after a wipe,
    /// a restart or an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub failed_boots: Option<f64>,
}

/// Hosts of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Default: the group's zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Default: the group's type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// How many hosts.
    #[cfg_attr(test, schemars(range(min = 1, max = MAX_HOSTS)))]
    pub hosts: u32,
    /// How long ago they were delivered. Default: `24h`, so that they can be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Time>,
}

/// What is left of a server type, in Scaleway's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Stock {
    /// Enough.
    Available,
    /// Little; servers are still created.
    Scarce,
    /// None.
    Shortage,
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// What goes wrong.
    pub kind: IncidentKind,
    /// When it begins, like `1h30m` since the start.
    pub at: Time,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Time>,
    /// Default: every zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Default: every type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// Of `slow-boots`: how many times as long a boot takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Of `failing-boots`, `servers-stopped` and `spot-reclaim`: the share of servers, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 0, max = 1)))]
    pub share: Option<f64>,
    /// Of `rate-limited`: how many calls pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_second: Option<u32>,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// A creation is answered `out_of_stock`. Of Macs an order, so only with `order = true`.
    ZoneOutOfStock,
    /// Every call is answered 503.
    ApiDown,
    /// Calls above `calls_per_second` are answered 429.
    RateLimited,
    /// Boots take `factor` times as long. Of Macs: wipes, restarts and orders.
    SlowBoots,
    /// A `share` of servers stops instead of running. Of Macs: it is broken after a wipe.
    FailingBoots,
    /// A `share` of the running servers is stopped, once; `lasts` is not used. Macs break (`error`), in the pool as well.
    ServersStopped,
    /// In each hour, a `share` of the running servers is deleted behind Windlass's back. Not of Macs.
    SpotReclaim,
}

impl IncidentKind {
    /// The word of scenarios and outcomes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ZoneOutOfStock => "zone-out-of-stock",
            Self::ApiDown => "api-down",
            Self::RateLimited => "rate-limited",
            Self::SlowBoots => "slow-boots",
            Self::FailingBoots => "failing-boots",
            Self::ServersStopped => "servers-stopped",
            Self::SpotReclaim => "spot-reclaim",
        }
    }
}

/// A time since the start of a scenario, or a duration: `"9h30m"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let mut is_empty = true;
        for (number, unit) in [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")] {
            if number > 0 || (unit == "s" && is_empty) {
                write!(formatter, "{number}{unit}")?;
                is_empty = false;
            }
        }
        Ok(())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let words = || serde::de::Error::custom(format!("{text:?} is not a duration like \"9h30m\" or \"90s\""));
        parse_duration(&text).map(Time).ok_or_else(words)
    }
}

fn starts_at<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let words = |_| serde::de::Error::custom(format!("{text:?} is not a time like \"2026-08-03T08:00:00\""));
    text.parse().map(Some).map_err(words)
}

/// Why a scenario cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ScenarioError(Vec<String>);

impl ScenarioError {
    /// Each problem, with its place.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl Scenario {
    /// Reads a scenario for runners' groups from TOML.
    ///
    /// # Errors
    /// It is not TOML, has other keys, or its values contradict each other.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_for(text, false)
    }

    /// Reads a scenario for clusters from TOML.
    ///
    /// # Errors
    /// As those of [`Self::parse`].
    pub fn parse_for_clusters(text: &str) -> Result<Self, ScenarioError> {
        Self::parse_for(text, true)
    }

    fn parse_for(text: &str, of_clusters: bool) -> Result<Self, ScenarioError> {
        let checked = |read: Self| match read.problems(of_clusters) {
            problems if problems.is_empty() => Ok(read),
            problems => Err(problems),
        };
        read_toml(text, checked).map_err(|mistakes| ScenarioError(mistakes.iter().map(ToString::to_string).collect()))
    }

    /// The scenario as a file.
    ///
    /// # Errors
    /// A value has no form in TOML.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// The JSON Schema of a scenario's file. What keys have to do with each other is not in it.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        serde_json::from_str(include_str!("scenario.schema.json")).expect("a test makes the file from this type")
    }

    /// How long jobs come.
    #[must_use]
    pub fn length(&self) -> Duration {
        Duration::from_secs(3_600 * u64::from(self.hours))
    }

    /// The zones that it names.
    #[must_use]
    pub fn zones(&self) -> BTreeSet<&str> {
        let of_offers = self.offers.iter().map(|offer| &offer.zone);
        let of_pools = self.pools.iter().map(|pool| &pool.zone);
        let zones = of_offers.chain(of_pools).chain(self.incidents.iter().map(|incident| &incident.zone));
        zones.filter_map(Option::as_deref).collect()
    }

    fn problems(&self, of_clusters: bool) -> Vec<Mistake> {
        let mut problems = Vec::new();
        let mut wrong = |place: String, words: String| problems.push(problem(&place, words));
        if !(1..=MAX_HOURS).contains(&self.hours) {
            wrong("hours".into(), format!("must be from 1 to {MAX_HOURS}"));
        }
        if let Some(zone) = self.time_zone.as_deref().filter(|zone| TimeZone::get(zone).is_err()) {
            wrong(
                "time_zone".into(),
                format!("{zone:?} is not a time zone that this machine knows, like \"Europe/Paris\""),
            );
        }
        if let Some(at) =
            self.starts_at.filter(|at| at.minute() != 0 || at.second() != 0 || at.subsec_nanosecond() != 0)
        {
            wrong("starts_at".into(), format!("must be a full hour, as 08:00:00, and is {}", at.time()));
        }
        if self.demand.is_empty() && !of_clusters {
            wrong("demand".into(), "there are no jobs: write a table [[demand]]".into());
        }
        for (key, is_set, belongs) in [
            ("demand", !self.demand.is_empty(), !of_clusters),
            ("ready_seconds", self.ready_seconds.is_some(), !of_clusters),
            ("scale", !self.scales.is_empty(), of_clusters),
            ("cluster", self.cluster.is_some(), of_clusters),
        ] {
            if is_set && !belongs {
                let arms = if of_clusters { "clusters, which have no jobs" } else { "runners" };
                wrong(key.into(), format!("remove it: the arms are {arms}"));
            }
        }
        for (index, scale) in self.scales.iter().enumerate() {
            if self.hours > 0 && scale.at.0 >= self.length() {
                wrong(format!("scale[{index}].at"), format!("{} is after the end of the scenario", scale.at));
            }
            if scale.groups.is_empty() {
                wrong(format!("scale[{index}].groups"), "name a group with its nodes, as in { web = 5 }".into());
            }
        }
        for (index, demand) in self.demand.iter().enumerate() {
            let place = |key: &str| format!("demand[{index}].{key}");
            match (demand.pattern, demand.jobs.is_empty()) {
                (Some(_), false) => wrong(place("jobs"), "a pattern draws its own jobs: give one of the two".into()),
                (None, true) => wrong(place("pattern"), "give a pattern, or jobs".into()),
                (Some(_), true) => {
                    for (key, number, most) in [
                        ("jobs_per_hour", demand.jobs_per_hour, MAX_JOBS_PER_HOUR),
                        ("job_minutes", demand.job_minutes, MAX_MINUTES),
                    ] {
                        match number {
                            None => wrong(place(key), format!("is missing: a pattern needs it, from 1 to {most}")),
                            Some(number) if !(1..=most).contains(&number) => {
                                wrong(place(key), format!("must be from 1 to {most}"));
                            }
                            Some(_) => {}
                        }
                    }
                }
                (None, false) => {
                    if demand.jobs_per_hour.is_some() || demand.job_minutes.is_some() {
                        wrong(place("jobs"), "jobs_per_hour and job_minutes belong to a pattern".into());
                    }
                    if demand.jobs.len() > MAX_LISTED {
                        wrong(place("jobs"), format!("there are more than {MAX_LISTED}"));
                    }
                    let length = self.length().as_secs();
                    if let Some((at, _)) = demand.jobs.iter().find(|(at, _)| self.hours > 0 && *at >= length) {
                        wrong(place("jobs"), format!("one comes after {at} s, when the scenario is over"));
                    }
                    if demand.jobs.iter().any(|(_, length)| *length > 60 * u64::from(MAX_MINUTES)) {
                        wrong(place("jobs"), "one runs for longer than a day".into());
                    }
                }
            }
        }
        let is_zone = |zone: &Option<String>| zone.as_deref().is_none_or(|zone| zone.parse::<Zone>().is_ok());
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let is_span = |(shortest, longest): (u32, u32)| shortest <= longest && longest <= 86_400;
        if let Some(conduct) = &self.cluster {
            if conduct.repair_every.is_some_and(|every| every < MIN_REPAIR) {
                wrong("cluster.repair_every".into(), format!("must be at least {MIN_REPAIR}"));
            }
            let all = HookConduct { hook_seconds: conduct.hook_seconds, failed_hooks: conduct.failed_hooks };
            let of_stages = [
                ("", Some(&all)),
                ("decommission.", conduct.decommission.as_ref()),
                ("configure.", conduct.configure.as_ref()),
                ("start.", conduct.start.as_ref()),
            ];
            for (stage, hook) in of_stages.into_iter().filter_map(|(stage, hook)| Some((stage, hook?))) {
                if hook.hook_seconds.is_some_and(|span| !is_span(span)) {
                    wrong(format!("cluster.{stage}hook_seconds"), WRONG_SPAN.into());
                }
                if hook.failed_hooks.is_some_and(|share| !is_share(share)) {
                    wrong(format!("cluster.{stage}failed_hooks"), WRONG_SHARE.into());
                }
            }
        }
        for (index, offer) in self.offers.iter().enumerate() {
            let place = |key: &str| format!("offer[{index}].{key}");
            if !is_zone(&offer.zone) {
                wrong(place("zone"), "is no zone like \"fr-par-1\"".into());
            }
            if offer.hourly_price.is_some_and(|price| !(0.0..1_000.0).contains(&price)) {
                wrong(place("hourly_price"), "must be euros, as in 0.0428".into());
            }
            for (key, span) in [("boot_seconds", offer.boot_seconds), ("reinstall_seconds", offer.reinstall_seconds)] {
                if span.is_some_and(|span| !is_span(span)) {
                    wrong(place(key), WRONG_SPAN.into());
                }
            }
            if offer.failed_boots.is_some_and(|share| !is_share(share)) {
                wrong(place("failed_boots"), WRONG_SHARE.into());
            }
        }
        for (index, pool) in self.pools.iter().enumerate() {
            if !is_zone(&pool.zone) {
                wrong(format!("pool[{index}].zone"), "is no zone like \"fr-par-1\"".into());
            }
            if !(1..=MAX_HOSTS).contains(&pool.hosts) {
                wrong(format!("pool[{index}].hosts"), format!("must be from 1 to {MAX_HOSTS}"));
            }
        }
        for (index, incident) in self.incidents.iter().enumerate() {
            let place = |key: &str| format!("incident[{index}].{key}");
            let kind = incident.kind;
            // Without a length every time is after the end.
            if self.hours > 0 && incident.at.0 >= self.length() {
                wrong(place("at"), format!("{} is after the end of the scenario", incident.at));
            }
            if !is_zone(&incident.zone) {
                wrong(place("zone"), "is no zone like \"fr-par-1\"".into());
            }
            use IncidentKind::{
                ApiDown, FailingBoots, RateLimited, ServersStopped, SlowBoots, SpotReclaim, ZoneOutOfStock,
            };
            let is_about_types = matches!(kind, ZoneOutOfStock | SlowBoots | FailingBoots | SpotReclaim);
            let has_share = matches!(kind, FailingBoots | ServersStopped | SpotReclaim);
            let is_about_zones = kind != RateLimited;
            for (key, is_set, belongs, is_needed) in [
                ("lasts", incident.lasts.is_some(), kind != ServersStopped, true),
                ("zone", incident.zone.is_some(), is_about_zones, false),
                ("type", incident.server_type.is_some(), is_about_types, false),
                ("factor", incident.factor.is_some(), kind == SlowBoots, true),
                ("share", incident.share.is_some(), has_share, true),
                ("calls_per_second", incident.calls_per_second.is_some(), kind == RateLimited, true),
            ] {
                if is_set && !belongs {
                    wrong(place(key), format!("does not belong to the kind {}", kind.as_str()));
                } else if !is_set && belongs && is_needed {
                    wrong(place(key), format!("is missing: the kind {} needs it", kind.as_str()));
                }
            }
            if incident.factor.is_some_and(|factor| !(0.01..=1_000.0).contains(&factor)) {
                wrong(place("factor"), "must be from 0.01 to 1000".into());
            }
            if incident.share.is_some_and(|share| !is_share(share)) {
                wrong(place("share"), WRONG_SHARE.into());
            }
            if incident.calls_per_second == Some(0) {
                wrong(place("calls_per_second"), format!("must be at least 1; for none, use {}", ApiDown.as_str()));
            }
        }
        problems
    }
}

/// Whether something about this zone and type, or about all, is about a place.
pub(super) fn is_about(zone: &Option<String>, server_type: &Option<String>, place: &Place) -> bool {
    zone.as_deref().is_none_or(|zone| zone == place.zone.as_str())
        && server_type.as_deref().is_none_or(|name| name == place.server_type)
}

impl Offer {
    pub(super) fn simulated(&self) -> SimulatedOffer {
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let span = |(shortest, longest)| Span { shortest: seconds(shortest), longest: seconds(longest) };
        SimulatedOffer {
            zone: self.zone.clone(),
            server_type: self.server_type.clone(),
            hourly_price: self.hourly_price,
            availability: self.stock.map(Into::into),
            boot: self.boot_seconds.map(span),
            reinstall: self.reinstall_seconds.map(span),
            failed_boots: self.failed_boots,
            ..SimulatedOffer::default()
        }
    }
}

impl From<Stock> for Availability {
    fn from(stock: Stock) -> Self {
        match stock {
            Stock::Available => Self::Available,
            Stock::Scarce => Self::Scarce,
            Stock::Shortage => Self::Shortage,
        }
    }
}

impl Incident {
    /// Whether it lasts at this time.
    pub(super) fn lasts_at(&self, age: Duration) -> bool {
        self.at.0 <= age && age < self.ends()
    }

    /// When it is over.
    pub(super) fn ends(&self) -> Duration {
        self.at.0.saturating_add(self.lasts.unwrap_or_default().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: &str = "hours = 24\n[[demand]]\npattern = 'office-hours'\njobs_per_hour = 20\njob_minutes = 5\n";

    fn problems(text: &str) -> Vec<String> {
        Scenario::parse(text).unwrap_err().problems().to_vec()
    }

    #[test]
    fn a_scenario_reads_back_as_it_was_written() {
        let text = format!(
            "title = 'a day'\nstarts_at = '2026-08-03T00:00:00'\ntime_zone = 'Europe/Paris'\n{DAY}\
             [[offer]]\nzone = 'fr-par-1'\ntype = 'DEV1-S'\nhourly_price = 0.01\nboot_seconds = [20, 60]\n\
             failed_boots = 0.1\nstock = 'scarce'\nreinstall_seconds = [300, 900]\n\
             [[pool]]\nzone = 'fr-par-1'\ntype = 'M4-S'\nhosts = 4\nage = '48h'\n\
             [[incident]]\nkind = 'zone-out-of-stock'\nat = '9h30m'\nlasts = '45m'\nzone = 'fr-par-1'\n\
             [[incident]]\nkind = 'rate-limited'\nat = '0s'\nlasts = '1h'\ncalls_per_second = 3\n"
        );
        let read = Scenario::parse(&text).unwrap();
        assert_eq!(read.incidents[0].at, Time(Duration::from_secs(34_200)));
        assert_eq!(Scenario::parse(&read.to_toml().unwrap()).unwrap(), read);
        assert!(read.to_toml().unwrap().contains("at = \"9h30m\""), "{:?}", read.to_toml());
    }

    #[test]
    fn all_mistakes_of_a_scenario_are_found_at_once_with_their_places() {
        const WRONG: &str = "starts_at = '2026-08-03T08:30:00'\ntime_zone = 'Europe/Pari'\n[[demand]]\npattern = 'steady'\njobs_per_hour = 0\n\
             [[demand]]\njob_minutes = 5\n[[demand]]\njobs = [[0, 60], [3600, 1]]\n\
             [[offer]]\nzone = 'paris'\nboot_seconds = [60, 20]\nreinstall_seconds = [2, 1]\nfailed_boots = 2.0\nhourly_price = -1.0\n\
             [[pool]]\nzone = 'paris'\nhosts = 0\n\
             [[incident]]\nkind = 'slow-boots'\nat = '1h'\nshare = 0.5\n\
             [[incident]]\nkind = 'rate-limited'\nat = '0s'\nlasts = '1m'\nzone = 'fr-par-1'\ncalls_per_second = 0\n";
        let found_in = |hours: u32| problems(&format!("hours = {hours}\n{WRONG}"));
        let found = found_in(1);
        for place in [
            "time_zone: ",
            "starts_at: must be a full hour",
            "demand[0].jobs_per_hour: must be from 1 to 10000",
            "demand[0].job_minutes: is missing: a pattern needs it, from 1 to 1440",
            "demand[1].pattern: ",
            "demand[2].jobs: one comes after 3600 s",
            "offer[0].zone: ",
            "offer[0].hourly_price: ",
            "offer[0].boot_seconds: ",
            "offer[0].reinstall_seconds: ",
            "offer[0].failed_boots: ",
            "pool[0].zone: ",
            "pool[0].hosts: must be from 1 to 1000",
            "incident[0].at: ",
            "incident[0].lasts: is missing",
            "incident[0].factor: is missing",
            "incident[0].share: does not belong",
            "incident[1].zone: does not belong",
            "incident[1].calls_per_second: must be at least 1; for none, use api-down",
        ] {
            assert!(found.iter().any(|said| said.starts_with(place)), "{place}: {found:#?}");
        }
        // Without a length nothing is said to be after the end.
        let found = found_in(0);
        assert!(found.iter().any(|said| said.starts_with("hours: ")), "{found:#?}");
        assert!(!found.iter().any(|said| said.contains("after")), "{found:#?}");
    }

    #[test]
    fn keys_and_values_that_are_wrong_are_told_in_one_pass() {
        let found = problems(
            "titel = 'x'\nhours = 'one'\ntime_zone = 'Europe/Pari'\nstarts_at = 8\n[[demand]]\npattern = 'weekly'\n\
             jobs_per_hour = 0\n[[offer]]\nzone = 'paris'\nboot_seconds = 5\nfailed_boots = 2.0\n\
             [[incident]]\nkind = 'api-down'\nat = 'soon'\nlasts = '1m'\n",
        );
        for said in [
            "line 1: there is no key `titel` here; did you mean `title`?",
            "line 2: `hours`: ",
            "line 4: `starts_at`: ",
            "line 6: `pattern`: there is no value `weekly`",
            "line 10: `boot_seconds`: ",
            "line 14: `at`: ",
            "time_zone: ",
            "offer[0].zone: ",
            "offer[0].failed_boots: ",
        ] {
            assert!(found.iter().any(|found| found.starts_with(said)), "{said}: {found:#?}");
        }
    }

    #[test]
    fn what_is_about_clusters_is_refused_for_runners_and_the_other_way_round() {
        let of_clusters = "ready_seconds = 5\n[[scale]]\nat = '30h'\ngroups = {}\n[cluster]\nrepair_every = '1s'\n\
             hook_seconds = [60, 20]\nfailed_hooks = 2.0\n[cluster.start]\nfailed_hooks = 3.0\n";
        let text = DAY.replace("[[demand]]", &format!("{of_clusters}[[demand]]"));
        let as_clusters = Scenario::parse_for_clusters(&text).unwrap_err().problems().to_vec();
        for place in [
            "demand: remove it: the arms are clusters",
            "ready_seconds: remove it: ",
            "scale[0].at: 30h is after",
            "scale[0].groups: ",
            "cluster.repair_every: must be at least 10s",
            "cluster.hook_seconds: ",
            "cluster.failed_hooks: ",
            "cluster.start.failed_hooks: ",
        ] {
            assert!(as_clusters.iter().any(|said| said.starts_with(place)), "{place}: {as_clusters:#?}");
        }
        assert_eq!(as_clusters.len(), 8, "{as_clusters:#?}");
        let as_runners = problems(&text);
        for place in ["scale: remove it: the arms are runners", "cluster: remove it: "] {
            assert!(as_runners.iter().any(|said| said.starts_with(place)), "{place}: {as_runners:#?}");
        }
        Scenario::parse_for_clusters("hours = 1\n").unwrap();
    }

    #[test]
    fn a_file_that_is_no_scenario_is_refused_with_its_line() {
        for (text, words) in [
            (&format!("{DAY}minutes = 3\n")[..], "line 6: there is no key `minutes` here"),
            (&format!("{DAY}[[pool]]\nhosts = 3\nprefix = 'ci-'\n"), "line 8: there is no key `prefix` here"),
            ("hours = 1\n", "demand: there are no jobs: write a table [[demand]]"),
            (
                &format!("{DAY}[[incident]]\nkind = 'strike'\nat = '1h'\n"),
                "line 7: `kind`: there is no value `strike` here",
            ),
            (&format!("{DAY}[[incident]]\nkind = 'api-down'\nat = '9:30'\n"), "\"9:30\" is not a duration like"),
            (
                &format!("starts_at = 'monday'\n{DAY}"),
                "line 1: `starts_at`: \"monday\" is not a time like \"2026-08-03T08:00:00\"",
            ),
        ] {
            let found = problems(text);
            assert!(found.iter().any(|said| said.contains(words)), "{words}: {found:?}");
        }
        let found = problems("hours = 'a day'\n[[demand]]\npattern = 'ofice-hours'\njob_minutes = 'long'\n");
        assert_eq!(found.len(), 3, "{found:#?}");
    }
}
