//! The jobs of a scenario: listed, or drawn from a seed.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use jiff::civil::DateTime;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::scenario::{Demand, Scenario};

const HOUR: Duration = Duration::from_secs(3_600);
/// Share of `jobs_per_hour` in each hour from 8:00. The ten shares add up to 10.
const WORKING_HOURS: [f64; 10] = [0.8, 1.2, 1.3, 1.1, 0.6, 0.9, 1.2, 1.2, 1.0, 0.7];
/// Share of `jobs_per_hour` in every other hour.
const QUIET: f64 = 0.05;

/// When jobs come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Monday to Friday from 8:00 to 18:00, with more jobs in the morning and the afternoon. 5 % at other times.
    #[default]
    OfficeHours,
    /// All jobs of an hour at once, at a random minute.
    Burst,
    /// At random times.
    Steady,
    /// From 1:00 to 5:00. 5 % at other times.
    Nightly,
}

impl Pattern {
    /// All of them, with their words.
    pub(crate) const ALL: [(&str, Self); 4] = [
        ("office-hours", Self::OfficeHours),
        ("burst", Self::Burst),
        ("steady", Self::Steady),
        ("nightly", Self::Nightly),
    ];

    /// The share of jobs in an hour of the week. Hour 0 is Monday's first.
    fn share(self, hour: u32) -> f64 {
        let (day, hour) = (hour / 24 % 7, hour as usize % 24);
        match self {
            Self::OfficeHours if day < 5 => {
                hour.checked_sub(8).and_then(|hour| WORKING_HOURS.get(hour)).copied().unwrap_or(QUIET)
            }
            Self::Nightly if (1..5).contains(&hour) => 1.0,
            Self::OfficeHours | Self::Nightly => QUIET,
            Self::Burst | Self::Steady => 1.0,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::ALL.iter().find(|(_, pattern)| pattern == self).map_or("", |(word, _)| word);
        formatter.write_str(word)
    }
}

/// A job to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Job {
    /// Time since the simulation's start.
    pub(super) comes: Duration,
    /// How long it runs.
    pub(super) length: Duration,
}

/// Which hour of the week it is, from Monday's first.
fn hour_of_week(at: DateTime) -> u32 {
    let day = u32::try_from(at.weekday().to_monday_zero_offset()).unwrap_or_default();
    24 * day + u32::try_from(at.hour()).unwrap_or_default()
}

/// The jobs of a scenario that begins at this local time, in the order in which they come.
pub(super) fn of(scenario: &Scenario, starts_at: DateTime, seed: u64) -> Vec<Job> {
    let first_hour = hour_of_week(starts_at);
    let mut jobs = Vec::new();
    for (index, demand) in (0..).zip(&scenario.demand) {
        let Demand { pattern, jobs_per_hour, job_minutes, jobs: listed } = demand;
        let seconds = |&(comes, length): &(u64, u64)| Job {
            comes: Duration::from_secs(comes),
            length: Duration::from_secs(length),
        };
        jobs.extend(listed.iter().map(seconds));
        if let Some(pattern) = pattern {
            let length = Duration::from_secs(60 * u64::from(job_minutes.unwrap_or_default()));
            // Each demand draws its own jobs.
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(index);
            let hours = first_hour..first_hour + scenario.hours;
            jobs.extend(draw(*pattern, hours, jobs_per_hour.unwrap_or_default(), length, &mut random));
        }
    }
    jobs.sort_by_key(|job| job.comes);
    jobs
}

/// Draws the jobs of some hours of the week. A job runs between half and one and a half times `length`.
fn draw(pattern: Pattern, hours: Range<u32>, per_hour: u32, length: Duration, random: &mut ChaCha8Rng) -> Vec<Job> {
    let mut comings = Vec::new();
    for (position, hour) in (0..).zip(hours) {
        let begin = HOUR * position;
        if pattern == Pattern::Burst {
            let at = begin + HOUR.mul_f64(random.random_range(0.0..1.0));
            comings.extend((0..per_hour).map(|_| at));
            continue;
        }
        let expected = f64::from(per_hour) * pattern.share(hour);
        // The time between two independent arrivals has an exponential distribution.
        let mut at = 0.0;
        loop {
            at -= (1.0 - random.random_range(0.0..1.0_f64)).ln() / expected;
            if at >= 1.0 {
                break;
            }
            comings.push(begin + HOUR.mul_f64(at));
        }
    }
    let job = |comes| Job { comes, length: length.mul_f64(random.random_range(0.5..1.5)) };
    comings.into_iter().map(job).collect()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    fn week(pattern: Pattern, seed: u64) -> Vec<Job> {
        draw(pattern, 0..7 * 24, 100, Duration::from_secs(600), &mut ChaCha8Rng::seed_from_u64(seed))
    }

    /// How many come in this hour of the week.
    fn at(jobs: &[Job], hour: u32) -> usize {
        jobs.iter().filter(|job| job.comes.as_secs() / 3_600 == u64::from(hour)).count()
    }

    #[test]
    fn each_pattern_has_its_jobs_at_its_times_and_a_seed_decides_them() {
        let steady = week(Pattern::Steady, 1);
        assert!(steady.is_sorted_by_key(|job| job.comes));
        assert!((16_000..17_600).contains(&steady.len()), "{}", steady.len());
        assert!(steady.iter().all(|job| (300..900).contains(&job.length.as_secs())));
        let office = week(Pattern::OfficeHours, 1);
        assert!((4_700..5_900).contains(&office.len()), "50 hours, and a twentieth at 118: {}", office.len());
        assert!(at(&office, 10) > 90 && at(&office, 3) < 20 && at(&office, 5 * 24 + 10) < 20);
        let nightly = week(Pattern::Nightly, 1);
        assert!(at(&nightly, 2) > 60 && at(&nightly, 6 * 24 + 4) > 60 && at(&nightly, 10) < 20);
        let burst = week(Pattern::Burst, 1);
        assert_eq!((burst.len(), at(&burst, 5)), (16_800, 100));
        assert_eq!(burst[500].comes, burst[599].comes);
        let friday = draw(Pattern::OfficeHours, 4 * 24 + 9..5 * 24 + 9, 100, HOUR, &mut ChaCha8Rng::seed_from_u64(1));
        assert!(at(&friday, 0) > 80 && at(&friday, 23) < 20, "it begins on a Friday at 9:00");
        assert_eq!(hour_of_week(date(2026, 8, 7).at(9, 0, 0, 0)), 4 * 24 + 9);
        assert_eq!(week(Pattern::Steady, 1), steady);
        assert_ne!(week(Pattern::Steady, 2), steady);
    }

    #[test]
    fn demands_add_up_and_listed_jobs_are_the_same_for_every_seed() {
        let steady = |count| Demand {
            pattern: Some(Pattern::Steady),
            jobs_per_hour: Some(count),
            job_minutes: Some(5),
            ..Demand::default()
        };
        let listed = Demand { jobs: vec![(1_800, 60), (10, 30)], ..Demand::default() };
        let scenario = |demand: Vec<Demand>| Scenario { hours: 1, demand, ..Scenario::default() };
        let of = |scenario: &Scenario, seed| super::of(scenario, date(2026, 8, 3).at(0, 0, 0, 0), seed);
        let seconds = |jobs: Vec<Job>| jobs.iter().map(|job| job.comes.as_secs()).collect::<Vec<_>>();
        let only = scenario(vec![listed.clone()]);
        assert_eq!((seconds(of(&only, 1)), seconds(of(&only, 2))), (vec![10, 1_800], vec![10, 1_800]));
        let both = of(&scenario(vec![steady(50), steady(50), listed]), 1);
        assert!(both.is_sorted_by_key(|job| job.comes) && both.len() > 70, "{}", both.len());
        let first = of(&scenario(vec![steady(50)]), 1);
        assert!(first.iter().all(|job| both.contains(job)), "a further demand changes none before it");
        let twice = of(&scenario(vec![steady(50), steady(50)]), 1);
        assert!(twice.windows(2).all(|pair| pair[0].comes != pair[1].comes), "each draws its own");
    }
}
