//! The result of a rehearsal, as data.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// How a rehearsal differs from a real day.
pub(super) const SIMPLIFIED: [&str; 5] = [
    "Scaleway is Windlass' simulator: unless a scenario says otherwise, servers start in the recorded median time, and \
     stock never ends",
    "GitLab's taskscaler is rebuilt from the runner's documentation, its provisioner from its source",
    "the runner hears of a job within a second, and knows no request_concurrency, scale_throttle or \
     reservation_throttling",
    "instance_ready_command takes a fixed time (--ready-seconds), and each job the time that was drawn for it",
    "costs are the servers' alone, by the second, without volumes, addresses and traffic",
];

/// How one of a group of Macs differs besides.
pub(super) const SIMPLIFIED_MACS: [&str; 2] = [
    "a Mac's reinstallation takes 5 to 20 minutes, unless a scenario says otherwise: an assumption, not a recording",
    "hosts of a pool cost for the hours of the scenario, and after them as long as the group has them",
];

/// What came of a rehearsal with one arm and one seed. Fields are only ever added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The group's name.
    pub group: String,
    /// What decided everything that was drawn.
    pub seed: u64,
    /// The simulated begin, in milliseconds since 1970.
    pub starts_at: u64,
    /// The time zone in which a simulated day begins and ends.
    pub time_zone: String,
    /// How the runner scaled.
    #[serde(default)]
    pub autoscaler: Limits,
    /// Where servers were made, and for how much.
    pub places: Vec<PricedPlace>,
    /// Hour by hour.
    pub hours: Vec<Hour>,
    /// From the last hour on until nothing was left.
    pub after: Hour,
    /// All together.
    pub totals: Totals,
    /// By the class of the first cause, how many creations failed; `called-off` where nothing did.
    pub failures: Vec<Counted>,
    /// By who asked for it, how many servers were removed: `runner`, `policy` (the slot `state-mapping`), `plugin` (a
    /// server that vanished, or whose creation was called off), `shutdown`.
    pub removals: Vec<Counted>,
    /// What was left at Scaleway when the runner had removed everything. Empty unless something is wrong.
    pub left: Vec<Leftover>,
    /// What its reader should know.
    pub notes: Vec<String>,
    /// What the plugin warned of.
    pub warnings: Vec<String>,
    /// In what this differs from what will be.
    pub simplified: Vec<String>,
    /// What the group did, in its order.
    #[serde(skip)]
    pub events: Vec<Event>,
}

/// Not borrowed from what is read, as serde would take it to be without this name.
type Word = &'static str;
/// The words of [`Event::what`] and [`Leftover::kind`].
const WORDS: [&str; 10] =
    ["create", "claim", "order", "remove", "release", "server", "ip", "volume", "private-nic", "apple-silicon-server"];

fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let read = String::deserialize(deserializer)?;
    let known = WORDS.into_iter().find(|word| *word == read);
    known.ok_or_else(|| serde::de::Error::custom(format!("{read:?} is not one of {}", WORDS.join(", "))))
}

/// How many there were of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Of what.
    pub name: String,
    /// How many.
    pub count: usize,
}

/// Something that the group began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub at: u64,
    /// `create` or `remove`; of Macs, `claim`, `order` or `release`.
    #[serde(deserialize_with = "known")]
    pub what: Word,
    pub zone: String,
    /// Of a creation, the server types in their order; of a claim or an order, the type.
    pub types: Vec<String>,
    /// The reason that was given, for people. Empty: none.
    pub why: String,
}

/// How the runner scaled.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The most instances: the smaller one of `max_instances` and `max_size`.
    pub max_instances: u32,
    /// Jobs at a time on an instance.
    pub capacity_per_instance: usize,
    /// Jobs in the life of an instance. Absent: no limit.
    pub max_use_count: Option<u32>,
    /// From `running` until an instance takes jobs.
    pub ready_seconds: u64,
}

/// A place with its price.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PricedPlace {
    /// Its zone.
    pub zone: String,
    /// The server type.
    pub server_type: String,
    /// Euros.
    pub hourly_price: f64,
    /// Server hours, from the creation on.
    pub server_hours: f64,
    /// Euros.
    pub cost: f64,
}

/// What happened in an hour. `jobs` and `cost` are sums, the others maxima.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Hour {
    /// Its begin, in milliseconds since 1970.
    pub at: u64,
    /// Jobs that came.
    pub jobs: usize,
    /// Jobs that waited.
    pub waiting: usize,
    /// Jobs that ran.
    pub running: usize,
    /// Instances that ran.
    pub instances: usize,
    /// Instances that were requested or being created.
    pub creating: usize,
    /// Euros.
    pub cost: f64,
}

/// How long jobs waited.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WaitTimes {
    /// The median.
    pub p50_ms: u64,
    /// The 95th percentile.
    pub p95_ms: u64,
    /// The longest.
    pub worst_ms: u64,
}

impl WaitTimes {
    /// Of all waits.
    #[must_use]
    pub fn of(mut waited: Vec<Duration>) -> Self {
        waited.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (waited.len() * percent).div_ceil(100).max(1);
            waited.get(rank - 1).map_or(0, |waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
        };
        Self { p50_ms: percentile(50), p95_ms: percentile(95), worst_ms: percentile(100) }
    }
}

/// All hours together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Jobs that came.
    pub jobs: usize,
    /// Jobs that finished.
    pub finished: usize,
    /// Jobs that found no instance within `instance_acquire_timeout`.
    pub timed_out: usize,
    /// Jobs whose instance went away.
    pub lost: usize,
    /// Jobs that had not finished a day after the last hour.
    pub unfinished: usize,
    /// How long jobs waited, from when they came until they began.
    pub waited: WaitTimes,
    /// Server hours, from the creation on.
    pub server_hours: f64,
    /// The share of server hours without a running job.
    pub idle_share: f64,
    /// Euros, without volumes, addresses and traffic.
    pub cost: f64,
    /// Instances that were created.
    pub creations: usize,
    /// Created instances that never ran.
    pub failures: usize,
    /// Calls of Scaleway's API.
    pub api_calls: u64,
    /// How often a policy failed, so that the next one decided.
    pub policy_failures: u64,
    /// How often the brake refused what a policy answered.
    pub brakes: u64,
}

/// Something that was left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leftover {
    /// `server`, `ip`, `volume`, `private-nic` or `apple-silicon-server`.
    #[serde(deserialize_with = "known")]
    pub kind: Word,
    /// Scaleway's id.
    pub id: String,
}

impl Event {
    /// The event for people, as what somebody does: `creates DEV1-S in fr-par-1 (the runner wants more instances)`.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { what, zone, types, why, .. } = self;
        let machine = if *what == "release" { "a host" } else { "a server" };
        let types = if types.is_empty() { machine.to_owned() } else { types.join(" or ") };
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        format!("{what}s {types} in {zone}{why}")
    }
}

impl Outcome {
    /// Whether everything that was created is gone, and every job has ended.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.left.is_empty() && self.totals.unfinished == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_jobs_really_waited() {
        let waited = |seconds: std::ops::RangeInclusive<u64>| WaitTimes::of(seconds.map(Duration::from_secs).collect());
        let WaitTimes { p50_ms, p95_ms, worst_ms } = waited(1..=20);
        assert_eq!((p50_ms, p95_ms, worst_ms), (10_000, 19_000, 20_000));
        let WaitTimes { p50_ms, p95_ms, worst_ms } = waited(7..=7);
        assert_eq!((p50_ms, p95_ms, worst_ms), (7_000, 7_000, 7_000));
        assert_eq!(WaitTimes::of(Vec::new()).worst_ms, 0);
    }
}
