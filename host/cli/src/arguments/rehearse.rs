//! What `windlass rehearse` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::completion;
use crate::units::parse_duration;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Rehearse {
    #[command(subcommand)]
    pub(crate) command: Option<RehearseCommand>,
    /// The scenario (TOML): which jobs come, and what goes wrong; - reads stdin
    #[arg(value_name = "SCENARIO", required = true)]
    pub(crate) scenario: Option<PathBuf>,
    /// A configuration to rehearse: GitLab Runner's config.toml, or the plugin's configuration alone (repeatable; all
    /// others are compared with the first)
    #[arg(long = "arm", value_name = "NAME=FILE", required = true, value_parser = parse_arm)]
    pub(crate) arms: Vec<(String, String)>,
    /// The `name` in plugin_config, if a configuration has several groups
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// The first seed; a seed decides everything that is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds, one after the other; with several, differences have a confidence interval
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// A CEL condition over an outcome's figures that must never hold, such as 'wait_p95 > 300' (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) never: Vec<String>,
    /// A condition that must always hold (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) always: Vec<String>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write a JUnit report of the laws to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RehearseCommand {
    /// Write a scenario of what a group did, from the journal of its state directory
    Record(RecordScenario),
    /// Write a scenario of the jobs that GitLab ran, from its API, a table, or Prometheus
    Import(ImportScenario),
}

#[derive(Debug, Args)]
pub(crate) struct RecordScenario {
    /// How far to look back, for example 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Duration,
    /// Only this group
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportScenario {
    /// Jobs as GitLab's API has them (JSON, or CSV with the same columns), or the answer of Prometheus to a range query
    /// of gitlab_runner_jobs_total; - reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How many minutes a job runs, which Prometheus' counter does not say
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub(crate) job_minutes: Option<u32>,
}

fn parse_arm(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.to_owned())),
        _ => Err("an arm is written as NAME=FILE, as in today=config.toml".to_owned()),
    }
}
