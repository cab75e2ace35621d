//! The command line of `simulate`.

use std::time::Duration;

use windlass_policy::nearest;

use crate::group::rehearsal::Pattern;

const OPTIONS: [&str; 10] = [
    "--config",
    "--pattern",
    "--hours",
    "--jobs-per-hour",
    "--job-minutes",
    "--ready-seconds",
    "--hourly-price",
    "--seed",
    "--output",
    "--help",
];
/// The largest `--hours`: a month.
const MAX_HOURS: u64 = 31 * 24;
/// The largest `--jobs-per-hour`.
const MAX_JOBS: u64 = 10_000;
/// The largest `--job-minutes`: a day.
const MAX_MINUTES: u64 = 24 * 60;
/// The largest `--ready-seconds`: an hour.
const MAX_READY: u64 = 3_600;

/// What is to be simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulateOptions {
    /// The group's `name`. Required if the file has several groups.
    pub group: Option<String>,
    /// The runner's configuration.
    pub config: String,
    /// When jobs come.
    pub pattern: Pattern,
    /// For how many hours jobs come.
    pub hours: u32,
    /// How many jobs come in an hour of the pattern.
    pub jobs_per_hour: u32,
    /// How many minutes they run on average.
    pub job_minutes: u32,
    /// Time from `running` until an instance is ready. Absent: 30 seconds with an `instance_ready_command`, else none.
    pub ready_after: Option<Duration>,
    /// What an hour of each server costs, in euros. Absent: the simulator's prices.
    pub hourly_price: Option<f64>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Whether the result is written as JSON.
    pub json: bool,
}

/// The parsed command line.
#[derive(Clone, Debug, PartialEq)]
pub enum SimulateCommand {
    /// Simulate.
    Run(SimulateOptions),
    /// Print the usage.
    Help,
}

impl SimulateOptions {
    /// The defaults.
    #[must_use]
    pub fn of(config: &str) -> Self {
        Self {
            group: None,
            config: config.to_owned(),
            pattern: Pattern::default(),
            hours: 24,
            jobs_per_hour: 20,
            job_minutes: 5,
            ready_after: None,
            hourly_price: None,
            seed: 1,
            json: false,
        }
    }

    /// Parses the arguments after `simulate`. `config` is the default file.
    ///
    /// # Errors
    /// Everything that is wrong, in words.
    pub fn parse(arguments: &[&str], config: &str) -> Result<SimulateCommand, Vec<String>> {
        let (mut options, mut wrong) = (Self::of(config), Vec::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, joined) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value)),
                _ => (*argument, None),
            };
            match name {
                "--help" | "-h" => return Ok(SimulateCommand::Help),
                name if OPTIONS.contains(&name) => match joined.or_else(|| rest.next().copied()) {
                    Some(value) => {
                        if let Err(words) = options.set(name, value) {
                            wrong.push(format!("{name} {words}"));
                        }
                    }
                    None => wrong.push(format!("{name} needs a value")),
                },
                name if name.starts_with('-') => wrong.push(match nearest(name, OPTIONS) {
                    Some(near) => format!("there is no option {name}; did you mean {near}?"),
                    None => format!("there is no option {name}; the options are {}", OPTIONS.join(", ")),
                }),
                // A path is the file, as for `check` and `adopt`.
                path if path.ends_with(".toml") || path.contains('/') => path.clone_into(&mut options.config),
                name if options.group.is_none() => options.group = Some(name.to_owned()),
                name => wrong.push(format!("one group is simulated at a time, and {name:?} is a second one")),
            }
        }
        if wrong.is_empty() { Ok(SimulateCommand::Run(options)) } else { Err(wrong) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |from: u64, to: u64| {
            let number = value.parse::<u64>().ok().filter(|number| (from..=to).contains(number));
            number.ok_or_else(|| format!("needs a whole number from {from} to {to}, not {value:?}"))
        };
        let small = |from, to| number(from, to).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        match name {
            "--config" => value.clone_into(&mut self.config),
            "--pattern" => {
                let found = Pattern::ALL.iter().find(|(word, _)| *word == value);
                let words = || {
                    let all: Vec<&str> = Pattern::ALL.iter().map(|(word, _)| *word).collect();
                    format!("is one of {}, not {value:?}", all.join(", "))
                };
                self.pattern = found.map(|(_, pattern)| *pattern).ok_or_else(words)?;
            }
            "--hours" => self.hours = small(1, MAX_HOURS)?,
            "--jobs-per-hour" => self.jobs_per_hour = small(1, MAX_JOBS)?,
            "--job-minutes" => self.job_minutes = small(1, MAX_MINUTES)?,
            "--ready-seconds" => self.ready_after = Some(Duration::from_secs(number(0, MAX_READY)?)),
            "--hourly-price" => {
                let price = value.parse().ok().filter(|price: &f64| (0.0..1_000.0).contains(price));
                let words = || format!("needs euros, as in 0.0428, not {value:?}");
                self.hourly_price = Some(price.ok_or_else(words)?);
            }
            "--seed" => self.seed = number(0, u64::MAX)?,
            _ => {
                self.json = match value {
                    "text" => false,
                    "json" => true,
                    other => return Err(format!("is text or json, not {other:?}")),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<SimulateCommand, Vec<String>> {
        SimulateOptions::parse(arguments, "config.toml")
    }

    #[test]
    fn what_is_not_said_is_an_office_day_of_twenty_jobs_an_hour() {
        let Ok(SimulateCommand::Run(day)) = parse(&[]) else { panic!("nothing is needed") };
        assert_eq!((day.config.as_str(), day.pattern, day.group), ("config.toml", Pattern::OfficeHours, None));
        assert_eq!((day.hours, day.jobs_per_hour, day.job_minutes, day.seed, day.json), (24, 20, 5, 1, false));
        let Ok(SimulateCommand::Run(read)) = parse(&["ci", "--config", "x", "--hours=168", "--pattern", "burst"])
        else {
            panic!("it is well written");
        };
        assert_eq!((read.group.as_deref(), read.config.as_str(), read.hours), (Some("ci"), "x", 168));
        assert_eq!(read.pattern, Pattern::Burst);
        let Ok(SimulateCommand::Run(path)) = parse(&["/etc/runner/other.toml", "ci"]) else {
            panic!("a path is the file")
        };
        assert_eq!((path.group.as_deref(), path.config.as_str()), (Some("ci"), "/etc/runner/other.toml"));
        assert_eq!(parse(&["--hours", "x", "-h"]), Ok(SimulateCommand::Help));
    }

    #[test]
    fn all_that_is_wrong_on_the_command_line_is_said_at_once_with_what_would_be_right() {
        let wrong = parse(&[
            "ci",
            "more",
            "--hour",
            "24",
            "--pattern",
            "night",
            "--hours",
            "0",
            "--hourly-price",
            "x",
            "--output",
            "yaml",
            "--seed",
            "-1",
            "--job-minutes",
        ])
        .unwrap_err();
        for words in [
            "\"more\" is a second one",
            "there is no option --hour; did you mean --hours?",
            "--pattern is one of office-hours, burst, steady, nightly, not \"night\"",
            "--hours needs a whole number from 1 to 744, not \"0\"",
            "--hourly-price needs euros, as in 0.0428, not \"x\"",
            "--output is text or json, not \"yaml\"",
            "--seed needs a whole number",
            "--job-minutes needs a value",
        ] {
            assert!(wrong.iter().any(|said| said.contains(words)), "{words}: {wrong:#?}");
        }
    }
}
