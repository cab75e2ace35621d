//! `simulate`: a day of drawn jobs with one group of the runner's file, from the command line.

mod options;
mod text;

use windlass_policy::Compiler;

use super::rehearsal::{Arm, Demand, Offer, Outcome, Pattern, RehearsalError, Rehearser, Scenario};
use crate::configuration::ProcessEnvironment;
use serde::Serialize;

pub use options::{SimulateCommand, SimulateOptions};

/// What came of a simulation. Fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// When jobs came.
    pub pattern: Pattern,
    /// How many of them.
    pub jobs_per_hour: u32,
    /// How many minutes they run on average.
    pub job_minutes: u32,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Simulates one group of the runner's `config.toml`. Blocks this thread. Writes only to a temporary folder, which it
/// removes at the end.
///
/// # Errors
/// When the file cannot be read, has no such group, or something in it is wrong; and when it was interrupted.
pub fn simulate(
    options: &SimulateOptions,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Simulated, RehearsalError> {
    let SimulateOptions { pattern, jobs_per_hour, job_minutes, .. } = *options;
    let arm = Arm::read(&options.config, options.group.as_deref())?;
    let demand = Demand {
        pattern: Some(pattern),
        jobs_per_hour: Some(jobs_per_hour),
        job_minutes: Some(job_minutes),
        ..Demand::default()
    };
    let price = |price| Offer { hourly_price: Some(price), ..Offer::default() };
    let scenario = Scenario {
        hours: options.hours,
        ready_seconds: options.ready_after.and_then(|after| u32::try_from(after.as_secs()).ok()),
        demand: vec![demand],
        offers: options.hourly_price.map(price).into_iter().collect(),
        ..Scenario::default()
    };
    let outcome = Rehearser::new(process_environment.clone(), compiler)?.rehearse(&scenario, &arm, options.seed)?;
    Ok(Simulated { pattern, jobs_per_hour, job_minutes, outcome })
}
