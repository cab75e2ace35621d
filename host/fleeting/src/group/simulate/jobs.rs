//! The jobs of a simulation, drawn from a seed.

use std::fmt;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

const HOUR: Duration = Duration::from_secs(3_600);
/// Share of `jobs_per_hour` in each hour from 8:00. The ten shares add up to 10.
const WORKING_HOURS: [f64; 10] = [0.8, 1.2, 1.3, 1.1, 0.6, 0.9, 1.2, 1.2, 1.0, 0.7];
/// Share of `jobs_per_hour` in every other hour.
const QUIET: f64 = 0.05;

/// When jobs come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    pub(super) const ALL: [(&str, Self); 4] = [
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

/// Draws the jobs of some hours, in the order in which they come. A job runs between half and one and a half times
/// `length`.
pub(super) fn draw(pattern: Pattern, hours: u32, per_hour: u32, length: Duration, seed: u64) -> Vec<Job> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut comings = Vec::new();
    for hour in 0..hours {
        let begin = HOUR * hour;
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
    use super::*;

    fn week(pattern: Pattern, seed: u64) -> Vec<Job> {
        draw(pattern, 7 * 24, 100, Duration::from_secs(600), seed)
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
        assert_eq!(week(Pattern::Steady, 1), steady);
        assert_ne!(week(Pattern::Steady, 2), steady);
    }
}
