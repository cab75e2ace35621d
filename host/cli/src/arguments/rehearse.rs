//! What `windlass rehearse` takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use windlass_cluster::ClusterName;
use windlass_rehearsal::{ArmKind, Figure};

use crate::completion;
use crate::units::parse_duration;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Rehearse {
    #[command(subcommand)]
    pub(crate) command: Option<RehearseCommand>,
    /// The scenario (TOML): which jobs come or how a cluster is scaled, and what goes wrong; - reads stdin
    #[arg(value_name = "SCENARIO", required = true)]
    pub(crate) scenario: Option<PathBuf>,
    /// A configuration to rehearse: GitLab Runner's config.toml, or the plugin's configuration alone; or a cluster's
    /// specification (repeatable; all others are compared with the first)
    #[arg(long = "arm", value_name = "NAME=FILE", required = true, value_parser = parse_arm)]
    pub(crate) arms: Vec<(String, String)>,
    /// The policies of a cluster, from this configuration file instead of that of --config (repeatable)
    #[arg(long, value_name = "ARM=FILE", value_parser = parse_arm)]
    pub(crate) policies: Vec<(String, String)>,
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
    /// Save the rehearsal in the state directory, for `windlass console`
    #[arg(long)]
    pub(crate) save: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RehearseCommand {
    /// Write a scenario of what a group or a cluster did, from the journal of its state directory
    Record(RecordScenario),
    /// Write a scenario of the jobs that GitLab ran, from its API, a table, or Prometheus
    Import(ImportScenario),
    /// Print the JSON Schema of a scenario's file
    Schema,
    /// Search the settings with the lowest cost, or another figure, within laws
    Tune(Box<TuneScenarios>),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("laws").args(["never", "always"]).required(true).multiple(true))]
pub(crate) struct TuneScenarios {
    /// Scenarios (TOML); all settings are rehearsed in each of them
    #[arg(value_name = "SCENARIO", required = true)]
    pub(crate) scenarios: Vec<PathBuf>,
    /// The configuration whose settings are searched, as for `windlass rehearse`
    #[arg(long, value_name = "NAME=FILE", value_parser = parse_arm)]
    pub(crate) arm: (String, String),
    /// The `name` in plugin_config, if the configuration has several groups
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// The settings to search, each with its values (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) search: PathBuf,
    /// The figure that is to be as low as possible
    #[arg(long, value_name = "FIGURE", default_value = "cost", value_parser = PossibleValuesParser::new(Figure::all_of(ArmKind::Group).map(|figure| figure.name)))]
    pub(crate) goal: String,
    /// A condition that must never hold, such as 'wait_p95 > 60' (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) never: Vec<String>,
    /// A condition that must always hold (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) always: Vec<String>,
    /// The most combinations to try, with the configuration as it is; if there are more, the seed draws them
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = parse_candidates)]
    pub(crate) candidates: usize,
    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds for the best settings; as many more are held out, for the comparison at the end
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = parse_seeds)]
    pub(crate) seeds: usize,
    /// Write a page with the front of cost and waiting to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the configuration with the chosen settings to this file, and why as comments
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Replace the file of --write if it exists
    #[arg(long, requires = "write")]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecordScenario {
    /// How far to look back, for example 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Duration,
    /// Only this group
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<String>,
    /// This cluster; without it and without --group, the only one if no group did anything
    #[arg(long, value_name = "NAME", conflicts_with_all = ["group", "jobs"],
        add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) cluster: Option<ClusterName>,
    /// The jobs that GitLab ran in that time, as for `rehearse import`; without it, each server is a job
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// How many minutes a job runs, which Prometheus' counter does not say
    #[arg(long, value_name = "NUMBER", requires = "jobs", value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub(crate) job_minutes: Option<u32>,
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

fn parse_candidates(text: &str) -> Result<usize, String> {
    within(text, 2, 10_000)
}

fn parse_seeds(text: &str) -> Result<usize, String> {
    within(text, 1, 1_000)
}

fn within(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("must be a number from {least} to {most}"))
}
