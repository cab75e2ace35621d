//! The result of a simulation, as text and as JSON.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use windlass_inspect::words::human_duration;

use super::jobs::Pattern;

/// How a simulation differs from a real day.
pub(super) const SIMPLIFIED: [&str; 5] = [
    "Scaleway is Windlass' simulator: servers start in the recorded median time, and stock never ends",
    "GitLab's taskscaler is rebuilt from the runner's documentation, its provisioner from its source",
    "the runner hears of a job within a second, and knows no request_concurrency, scale_throttle or \
     reservation_throttling",
    "instance_ready_command is a time (--ready-seconds), and each job runs as long as it was drawn",
    "costs are the servers' alone, by the second, without volumes, addresses and traffic",
];

/// What came of a simulation. Fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The group's name.
    pub group: String,
    /// When jobs came.
    pub pattern: Pattern,
    /// How many of them.
    pub jobs_per_hour: u32,
    /// How many minutes they run on average.
    pub job_minutes: u32,
    /// What decided them.
    pub seed: u64,
    /// The simulated begin, in milliseconds since 1970.
    pub starts_at: u64,
    /// The time zone in which a simulated day begins and ends.
    pub time_zone: String,
    /// How the runner scaled.
    pub autoscaler: Limits,
    /// Where servers were made, and for how much.
    pub places: Vec<PricedPlace>,
    /// Hour by hour.
    pub hours: Vec<Hour>,
    /// From the last hour on until nothing was left.
    pub after: Hour,
    /// All together.
    pub totals: Totals,
    /// What was left at Scaleway when the runner had removed everything. Empty unless something is wrong.
    pub left: Vec<Left>,
    /// What its reader should know.
    pub notes: Vec<String>,
    /// In what this differs from what will be.
    pub simplified: Vec<String>,
}

/// How the runner scaled.
#[derive(Clone, Copy, Debug, Serialize)]
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
#[derive(Clone, Debug, Serialize)]
pub struct PricedPlace {
    /// Its zone.
    pub zone: String,
    /// The server type.
    pub server_type: String,
    /// Euros.
    pub hourly_price: f64,
}

/// What happened in an hour. `jobs` and `cost` are sums, the others maxima.
#[derive(Clone, Copy, Debug, Default, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Waited {
    /// The median.
    pub p50_ms: u64,
    /// The 95th percentile.
    pub p95_ms: u64,
    /// The longest.
    pub worst_ms: u64,
}

impl Waited {
    pub(super) fn of(mut waited: Vec<Duration>) -> Self {
        waited.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (waited.len() * percent).div_ceil(100).max(1);
            waited.get(rank - 1).map_or(0, |waited| u64::try_from(waited.as_millis()).unwrap_or(u64::MAX))
        };
        Self { p50_ms: percentile(50), p95_ms: percentile(95), worst_ms: percentile(100) }
    }
}

/// All hours together.
#[derive(Clone, Debug, Default, Serialize)]
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
    pub waited: Waited,
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
}

/// Something that was left.
#[derive(Clone, Debug, Serialize)]
pub struct Left {
    /// `server`, `ip`, `volume` or `private-nic`.
    pub kind: &'static str,
    /// Scaleway's id.
    pub id: String,
}

impl Outcome {
    /// Whether everything that was created is gone, and every job has ended.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.left.is_empty() && self.totals.unfinished == 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC);
        let local = |at: u64, format: &str| {
            let at = Timestamp::from_millisecond(i64::try_from(at).unwrap_or(i64::MAX)).unwrap_or_default();
            at.to_zoned(zone.clone()).strftime(format).to_string()
        };
        let Limits { max_instances, capacity_per_instance, max_use_count, ready_seconds } = self.autoscaler;
        writeln!(
            formatter,
            "group {}: {}, {} jobs an hour, {} min each, seed {}",
            self.group, self.pattern, self.jobs_per_hour, self.job_minutes, self.seed
        )?;
        writeln!(
            formatter,
            "  {} in {}, from {} on",
            count(self.hours.len(), "hour"),
            self.time_zone,
            local(self.starts_at, "%A %-d %B %Y, %H:%M")
        )?;
        let uses = max_use_count.map_or("any number".to_owned(), |most| most.to_string());
        writeln!(
            formatter,
            "  up to {}; each runs {} at a time and {uses} in all, and is ready {ready_seconds} s after its start",
            count(max_instances as usize, "instance"),
            count(capacity_per_instance, "job")
        )?;
        for PricedPlace { zone, server_type, hourly_price } in &self.places {
            writeln!(formatter, "  {server_type} in {zone}: EUR {hourly_price:.4} an hour")?;
        }
        writeln!(formatter, "\nmost at once    jobs  waiting  running  instances  creating       EUR")?;
        let mut row = |name: &str, hour: &Hour| {
            let Hour { jobs, waiting, running, instances, creating, cost, .. } = hour;
            let line = format!("{name:<14}{jobs:>6}{waiting:>9}{running:>9}{instances:>11}{creating:>10}{cost:>10.2}");
            writeln!(formatter, "{line}")
        };
        self.hours.iter().try_for_each(|hour| row(&local(hour.at, "%a %H:%M"), hour))?;
        row("until all ends", &self.after)?;
        let Totals { jobs, finished, timed_out, lost, unfinished, waited, .. } = &self.totals;
        write!(formatter, "\njobs      {jobs} came, {finished} finished")?;
        for (number, words) in [
            (timed_out, "found no instance in time (instance_acquire_timeout)"),
            (lost, "lost their instance"),
            (unfinished, "had not ended a day later"),
        ] {
            if *number > 0 {
                write!(formatter, ", {number} {words}")?;
            }
        }
        let Waited { p50_ms, p95_ms, worst_ms } = *waited;
        writeln!(
            formatter,
            "\nwaiting   p50 {}, p95 {}, worst {}",
            waited_words(p50_ms),
            waited_words(p95_ms),
            waited_words(worst_ms)
        )?;
        let Totals { server_hours, idle_share, cost, creations, failures, .. } = &self.totals;
        writeln!(
            formatter,
            "servers   {} created, {failures} failed; {server_hours:.1} hours, {:.0} % of them idle",
            creations,
            idle_share * 100.0
        )?;
        writeln!(formatter, "cost      EUR {cost:.2}, without volumes, addresses and traffic")?;
        match self.left.as_slice() {
            [] => writeln!(formatter, "left      nothing")?,
            left => {
                writeln!(formatter, "left      {}", count(left.len(), "resource"))?;
                left.iter().try_for_each(|Left { kind, id }| writeln!(formatter, "  {kind} {id}"))?;
            }
        }
        self.notes.iter().try_for_each(|words| writeln!(formatter, "note: {words}"))?;
        writeln!(formatter, "\nThis is simpler than what will be:")?;
        self.simplified.iter().try_for_each(|words| writeln!(formatter, "- {words}"))
    }
}

/// So many of something.
fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A wait. Jobs start at whole seconds.
fn waited_words(milliseconds: u64) -> String {
    human_duration(Duration::from_secs(milliseconds.div_ceil(1_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_jobs_really_waited() {
        let waited = |seconds: std::ops::RangeInclusive<u64>| Waited::of(seconds.map(Duration::from_secs).collect());
        let Waited { p50_ms, p95_ms, worst_ms } = waited(1..=20);
        assert_eq!((p50_ms, p95_ms, worst_ms), (10_000, 19_000, 20_000));
        let Waited { p50_ms, p95_ms, worst_ms } = waited(7..=7);
        assert_eq!((p50_ms, p95_ms, worst_ms), (7_000, 7_000, 7_000));
        assert_eq!(Waited::of(Vec::new()).worst_ms, 0);
    }

    #[test]
    fn a_wait_of_hours_is_said_to_the_minute_and_shorter_ones_to_the_second() {
        let words: Vec<String> = [900, 119_000, 121_000, 7_380_000].map(waited_words).into();
        assert_eq!(words, ["1.0 s", "1 min 59 s", "2 min 1 s", "2 h 3 min"]);
    }
}
