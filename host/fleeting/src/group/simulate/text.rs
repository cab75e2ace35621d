//! The result of a simulation, for people.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use windlass_inspect::words::human_duration;

use super::Simulated;
use crate::group::rehearsal::{Hour, Leftover, Limits, PricedPlace, Totals, WaitTimes};

impl fmt::Display for Simulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = &self.outcome;
        let zone = TimeZone::get(&outcome.time_zone).unwrap_or(TimeZone::UTC);
        let local = |at: u64, format: &str| {
            let at = Timestamp::from_millisecond(i64::try_from(at).unwrap_or(i64::MAX)).unwrap_or_default();
            at.to_zoned(zone.clone()).strftime(format).to_string()
        };
        let Limits { max_instances, capacity_per_instance, max_use_count, ready_seconds } = outcome.autoscaler;
        writeln!(
            formatter,
            "group {}: {}, {} jobs an hour, {} min each, seed {}",
            outcome.group, self.pattern, self.jobs_per_hour, self.job_minutes, outcome.seed
        )?;
        writeln!(
            formatter,
            "  {} in {}, from {} on",
            count(outcome.hours.len(), "hour"),
            outcome.time_zone,
            local(outcome.starts_at, "%A %-d %B %Y, %H:%M")
        )?;
        let uses = max_use_count.map_or("any number".to_owned(), |most| most.to_string());
        writeln!(
            formatter,
            "  up to {}; each runs {} at a time and {uses} in all, and is ready {ready_seconds} s after its start",
            count(max_instances as usize, "instance"),
            count(capacity_per_instance, "job")
        )?;
        for PricedPlace { zone, server_type, hourly_price, .. } in &outcome.places {
            writeln!(formatter, "  {server_type} in {zone}: EUR {hourly_price:.4} an hour")?;
        }
        writeln!(formatter, "\nmost at once    jobs  waiting  running  instances  creating       EUR")?;
        let mut row = |name: &str, hour: &Hour| {
            let Hour { jobs, waiting, running, instances, creating, cost, .. } = hour;
            let line = format!("{name:<14}{jobs:>6}{waiting:>9}{running:>9}{instances:>11}{creating:>10}{cost:>10.2}");
            writeln!(formatter, "{line}")
        };
        outcome.hours.iter().try_for_each(|hour| row(&local(hour.at, "%a %H:%M"), hour))?;
        row("until all ends", &outcome.after)?;
        let Totals { jobs, finished, timed_out, lost, unfinished, waited, .. } = &outcome.totals;
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
        let WaitTimes { p50_ms, p95_ms, worst_ms } = *waited;
        writeln!(
            formatter,
            "\nwaiting   p50 {}, p95 {}, worst {}",
            waited_words(p50_ms),
            waited_words(p95_ms),
            waited_words(worst_ms)
        )?;
        let Totals { server_hours, idle_share, cost, creations, failures, .. } = &outcome.totals;
        writeln!(
            formatter,
            "servers   {} created, {failures} failed; {server_hours:.1} hours, {:.0} % of them idle",
            creations,
            idle_share * 100.0
        )?;
        writeln!(formatter, "cost      EUR {cost:.2}, without volumes, addresses and traffic")?;
        match outcome.left.as_slice() {
            [] => writeln!(formatter, "left      nothing")?,
            left => {
                writeln!(formatter, "left      {}", count(left.len(), "resource"))?;
                left.iter().try_for_each(|Leftover { kind, id }| writeln!(formatter, "  {kind} {id}"))?;
            }
        }
        outcome.notes.iter().chain(&outcome.warnings).try_for_each(|words| writeln!(formatter, "note: {words}"))?;
        writeln!(formatter, "\nWhat the simulation simplifies:")?;
        outcome.simplified.iter().try_for_each(|words| writeln!(formatter, "- {words}"))
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
    fn a_wait_of_hours_is_said_to_the_minute_and_shorter_ones_to_the_second() {
        let words: Vec<String> = [900, 119_000, 121_000, 7_380_000].map(waited_words).into();
        assert_eq!(words, ["1.0 s", "1 min 59 s", "2 min 1 s", "2 h 3 min"]);
    }
}
