//! `[runners.autoscaler]` and its policies, as far as GitLab Runner scales by them.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::period::Period;
use windlass_policy::Mistake;

use crate::configuration::parse_duration;
use crate::group::runner_file::{Autoscaler, RunnerFile};
use crate::group::start::problem;

/// Default of `--ready-seconds` with an `instance_ready_command`.
const READY: Duration = Duration::from_secs(30);

/// The keys by which the runner scales, beside its policies.
pub(in crate::group) const KEYS: [&str; 8] = [
    "capacity_per_instance",
    "max_use_count",
    "max_instances",
    "update_interval",
    "update_interval_when_expecting",
    "deletion_retry_interval",
    "instance_acquire_timeout",
    "failure_threshold",
];
/// The keys of a policy.
pub(in crate::group) const POLICY_KEYS: [&str; 7] =
    ["periods", "timezone", "idle_count", "idle_time", "scale_factor", "scale_factor_limit", "preemptive_mode"];

/// How the runner scales the group.
#[derive(Clone, Debug)]
pub(in crate::group) struct Autoscaling {
    pub(super) capacity_per_instance: usize,
    /// Absent: no limit.
    pub(super) max_use_count: Option<u32>,
    /// 0: the plugin's own limit.
    pub(in crate::group) max_instances: u32,
    /// The most jobs at once, by `concurrent` and `limit`.
    pub(super) most_jobs: usize,
    pub(in crate::group) update_interval: Duration,
    pub(in crate::group) update_interval_when_expecting: Duration,
    pub(super) deletion_retry_interval: Duration,
    pub(in crate::group) instance_acquire_timeout: Duration,
    pub(super) failure_threshold: u32,
    /// From `running` until an instance takes its first job.
    pub(super) ready_after: Duration,
    policies: Vec<Policy>,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
struct Policy {
    periods: Vec<Period>,
    zone: TimeZone,
    idle: Idle,
}

/// The idle capacity that a policy asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Idle {
    /// Jobs, not instances.
    count: usize,
    pub(super) time: Duration,
    factor: f64,
    /// 0: no limit.
    limit: usize,
    /// Whether the runner requests a job only if an instance is free.
    pub(super) preemptive: bool,
}

impl Idle {
    /// How many further jobs there must be room for. With a factor, `idle_count` is the minimum and
    /// `scale_factor_limit` the maximum.
    pub(super) fn target(&self, running: usize) -> usize {
        if self.factor <= 0.0 {
            return self.count;
        }
        let scaled = (running as f64 * self.factor).ceil() as usize;
        let most = if self.limit > 0 { self.limit } else { usize::MAX };
        scaled.min(most).max(self.count)
    }
}

/// Reads values from a table, and collects problems.
struct Reader<'v> {
    table: &'v Value,
    place: String,
    problems: &'v mut Vec<Mistake>,
}

impl Reader<'_> {
    fn wrong(&mut self, key: &str, expected: &str) {
        let words = format!("expected {expected}, found {}", self.table[key]);
        self.problems.push(problem(&format!("{}{key}", self.place), words));
    }

    fn number(&mut self, key: &str, otherwise: u32) -> u32 {
        match &self.table[key] {
            Value::Null => otherwise,
            value => value.as_u64().and_then(|value| u32::try_from(value).ok()).unwrap_or_else(|| {
                self.wrong(key, "a whole number from 0");
                otherwise
            }),
        }
    }

    fn factor(&mut self, key: &str) -> f64 {
        match &self.table[key] {
            Value::Null => 0.0,
            value => value.as_f64().filter(|value| *value >= 0.0).unwrap_or_else(|| {
                self.wrong(key, "a number from 0");
                0.0
            }),
        }
    }

    fn duration(&mut self, key: &str, otherwise: Duration) -> Duration {
        let read = match &self.table[key] {
            Value::Null => Some(otherwise),
            // Go reads a number as nanoseconds. Only 0 is meant.
            Value::Number(number) if number.as_u64() == Some(0) => Some(Duration::ZERO),
            Value::String(text) => parse_duration(text),
            _ => None,
        };
        read.unwrap_or_else(|| {
            self.wrong(key, "a duration as text, like \"20m\" or \"90s\"");
            otherwise
        })
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        match &self.table[key] {
            Value::Null => Vec::new(),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => {
                self.wrong(key, "a list of texts");
                Vec::new()
            }
        }
    }

    fn zone(&mut self, key: &str) -> Option<TimeZone> {
        let name = match &self.table[key] {
            Value::Null => return None,
            Value::String(name) if name.is_empty() => return None,
            Value::String(name) => name,
            _ => {
                self.wrong(key, "the name of a time zone, like \"Europe/Paris\"");
                return None;
            }
        };
        let zone = TimeZone::get(name);
        if zone.is_err() {
            let words = format!(
                "{name:?} is no time zone that this machine knows; write it as \"Europe/Paris\", and see that tzdata is \
                 installed"
            );
            self.problems.push(problem(&format!("{}{key}", self.place), words));
        }
        zone.ok()
    }
}

impl Autoscaling {
    /// Reads the tables, and adds mistakes to `problems`. A policy without a time zone gets the first one that any
    /// policy names, else UTC, so that the result does not depend on the machine.
    pub(in crate::group) fn read(
        file: &RunnerFile,
        group: Autoscaler<'_>,
        ready_after: Option<Duration>,
        problems: &mut Vec<Mistake>,
    ) -> Self {
        let mut reader = Reader { table: group.table(), place: String::new(), problems: &mut *problems };
        let capacity = reader.number("capacity_per_instance", 1);
        let (uses, max_instances) = (reader.number("max_use_count", 0), reader.number("max_instances", 0));
        let update_interval = reader.duration("update_interval", Duration::from_secs(60));
        let update_interval_when_expecting = reader.duration("update_interval_when_expecting", Duration::from_secs(2));
        let deletion_retry_interval = reader.duration("deletion_retry_interval", Duration::from_secs(60));
        let instance_acquire_timeout = reader.duration("instance_acquire_timeout", Duration::from_secs(15 * 60));
        let failure_threshold = reader.number("failure_threshold", 3);
        let tables = group.policies().unwrap_or_else(|words| {
            problems.push(problem("policy", words));
            &[]
        });
        let zones: Vec<Option<TimeZone>> = tables
            .iter()
            .enumerate()
            .map(|(index, table)| {
                Reader { table, place: format!("policy[{index}]."), problems: &mut *problems }.zone("timezone")
            })
            .collect();
        let zone = zones.iter().flatten().next().cloned().unwrap_or(TimeZone::UTC);
        let policies = tables
            .iter()
            .zip(zones)
            .enumerate()
            .map(|(index, (table, its))| {
                let place = format!("policy[{index}].");
                Policy::read(
                    &mut Reader { table, place, problems: &mut *problems },
                    its.unwrap_or_else(|| zone.clone()),
                )
            })
            .collect();
        let limit = group.limit().unwrap_or_else(|words| {
            problems.push(problem("limit", words));
            0
        });
        let limit = if limit > 0 { limit } else { u64::MAX };
        let concurrent = file.concurrent().unwrap_or_else(|words| {
            problems.push(problem("concurrent", words));
            u64::MAX
        });
        let ready = if group.table()["instance_ready_command"].is_string() { READY } else { Duration::ZERO };
        Self {
            capacity_per_instance: capacity.max(1) as usize,
            max_use_count: (uses > 0).then_some(uses),
            max_instances,
            most_jobs: usize::try_from(concurrent.min(limit)).unwrap_or(usize::MAX),
            update_interval: or(update_interval, Duration::from_secs(60)),
            update_interval_when_expecting: or(update_interval_when_expecting, Duration::from_secs(2)),
            deletion_retry_interval,
            instance_acquire_timeout: or(instance_acquire_timeout, Duration::from_secs(15 * 60)),
            failure_threshold: if failure_threshold == 0 { 3 } else { failure_threshold },
            ready_after: ready_after.unwrap_or(ready),
            policies,
            zone,
        }
    }

    /// The time zone of the hours in the output.
    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The idle capacity at a time, by the last policy that applies. None if no policy applies.
    pub(super) fn idle_at(&self, at: Timestamp) -> Idle {
        let holds = |policy: &&Policy| {
            let local: DateTime = policy.zone.to_datetime(at);
            policy.periods.iter().any(|period| period.holds(local))
        };
        self.policies.iter().rev().find(holds).map(|policy| policy.idle).unwrap_or_default()
    }

    /// Whether an instance has reached `max_use_count`.
    pub(super) fn is_worn(&self, uses: u32) -> bool {
        self.max_use_count.is_some_and(|most| uses >= most)
    }

    /// How many further jobs an instance has room for.
    pub(super) fn free(&self, running: usize, uses: u32) -> usize {
        let left = self.max_use_count.map_or(usize::MAX, |most| most.saturating_sub(uses) as usize);
        self.capacity_per_instance.saturating_sub(running).min(left)
    }

    /// How many jobs a new instance takes at once.
    pub(in crate::group) fn capacity(&self) -> usize {
        self.free(0, 0)
    }
}

/// The runner uses the default for a duration of zero.
fn or(duration: Duration, otherwise: Duration) -> Duration {
    if duration.is_zero() { otherwise } else { duration }
}

impl Policy {
    fn read(reader: &mut Reader<'_>, zone: TimeZone) -> Self {
        let mut periods = Vec::new();
        let texts = reader.texts("periods");
        let always = [Period::ALWAYS.to_owned()];
        for text in if texts.is_empty() { always.as_slice() } else { &texts } {
            match Period::parse(text) {
                Ok(period) => periods.push(period),
                Err(words) => reader.problems.push(problem(&format!("{}periods", reader.place), words)),
            }
        }
        let count = reader.number("idle_count", 0) as usize;
        let preemptive = match &reader.table["preemptive_mode"] {
            // The default before this key existed.
            Value::Null => count > 0,
            Value::Bool(preemptive) => *preemptive,
            _ => {
                reader.wrong("preemptive_mode", "true or false");
                false
            }
        };
        let idle = Idle {
            count,
            time: reader.duration("idle_time", Duration::ZERO),
            factor: reader.factor("scale_factor"),
            limit: reader.number("scale_factor_limit", 0) as usize,
            preemptive,
        };
        Self { periods, zone, idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(autoscaler: &str) -> (Autoscaling, Vec<String>) {
        let text =
            format!("concurrent = 7\n[[runners]]\nlimit = 5\n[runners.autoscaler]\nplugin = 'scaleway'\n{autoscaler}");
        let file = RunnerFile::parse(&text).unwrap();
        let mut problems = Vec::new();
        let read = Autoscaling::read(&file, file.group(None).unwrap(), None, &mut problems);
        (read, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_last_policy_that_holds_says_what_is_idle_in_its_own_time_zone() {
        let (read, problems) = read(
            "capacity_per_instance = 2\nmax_use_count = 3\ninstance_ready_command = 'true'\n\
             [[runners.autoscaler.policy]]\nidle_time = '50m'\n\
             [[runners.autoscaler.policy]]\nperiods = ['* 8-17 * * mon-fri']\ntimezone = 'Europe/Paris'\n\
             idle_count = 4\nidle_time = '1h'\nscale_factor = 0.5\nscale_factor_limit = 6\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        let at = |text: &str| read.idle_at(text.parse().unwrap());
        let night = at("2026-08-03T05:59:00Z");
        assert_eq!((night.target(10), night.time.as_secs(), night.preemptive), (0, 3_000, false));
        let office = at("2026-08-03T06:00:00Z");
        assert!(office.preemptive, "it is eight o'clock in Paris");
        let targets: Vec<usize> = [0, 9, 11, 40].map(|running| office.target(running)).into();
        assert_eq!(targets, [4, 5, 6, 6]);
        assert_eq!((read.most_jobs, read.ready_after), (5, READY));
        assert_eq!((read.free(0, 0), read.free(1, 1), read.free(1, 2), read.free(0, 3)), (2, 1, 1, 0));
    }

    #[test]
    fn without_a_policy_nothing_is_idle_and_without_limits_there_is_none() {
        let (read, problems) = read("");
        assert!(problems.is_empty(), "{problems:?}");
        let idle = read.idle_at("2026-08-03T12:00:00Z".parse().unwrap());
        assert_eq!(idle, Idle::default());
        assert!(!read.is_worn(1_000) && read.free(0, 1_000) == 1);
        assert_eq!(read.update_interval_when_expecting.as_secs(), 2);
    }

    #[test]
    fn a_limit_in_quotes_and_a_policy_in_single_brackets_are_mistakes() {
        let text = "[[runners]]\nlimit = '5'\n[runners.autoscaler]\nplugin = 'scaleway'\n\
                    [runners.autoscaler.policy]\nidle_count = 1\n";
        let file = RunnerFile::parse(text).unwrap();
        let mut problems = Vec::new();
        Autoscaling::read(&file, file.group(None).unwrap(), None, &mut problems);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:#?}");
        assert!(problems[0].ends_with("double brackets: [[runners.autoscaler.policy]]"), "{problems:#?}");
        assert!(problems[1].starts_with("limit: \"5\" must be a whole number"), "{problems:#?}");
    }

    #[test]
    fn every_key_that_can_be_set_is_read() {
        let wrong = |keys: &[&str]| keys.iter().map(|key| format!("{key} = {{ a = 1 }}\n")).collect::<String>();
        let (_, problems) = read(&format!("{}[[runners.autoscaler.policy]]\n{}", wrong(&KEYS), wrong(&POLICY_KEYS)));
        let of_policy = POLICY_KEYS.map(|key| format!("policy[0].{key}"));
        for place in KEYS.map(str::to_owned).iter().chain(&of_policy) {
            assert!(
                problems.iter().any(|problem| problem.starts_with(&format!("{place}: "))),
                "{place}: {problems:#?}"
            );
        }
    }

    #[test]
    fn all_mistakes_of_the_autoscaler_are_found_at_once() {
        let (_, problems) = read(
            "capacity_per_instance = 'two'\nupdate_interval = 60\n\
             [[runners.autoscaler.policy]]\nidle_time = '20 minutes'\nidle_count = -1\ntimezone = 'Europe/Pari'\n\
             [[runners.autoscaler.policy]]\nperiods = ['* 8-25 * * *', '* * *']\npreemptive_mode = 'on'\n",
        );
        for (place, words) in [
            ("capacity_per_instance: ", "found \"two\""),
            ("update_interval: ", "a duration as text"),
            ("policy[0].idle_time: ", "found \"20 minutes\""),
            ("policy[0].idle_count: ", "a whole number from 0"),
            ("policy[0].timezone: ", "tzdata"),
            ("policy[1].periods: ", "hour \"8-25\""),
            ("policy[1].periods: ", "has 3 fields"),
            ("policy[1].preemptive_mode: ", "true or false"),
        ] {
            let found = problems.iter().any(|problem| problem.starts_with(place) && problem.contains(words));
            assert!(found, "{place} {words}: {problems:#?}");
        }
        assert_eq!(problems.len(), 8, "{problems:#?}");
    }
}
