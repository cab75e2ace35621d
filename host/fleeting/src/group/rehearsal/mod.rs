//! A rehearsal: the real plugin and GitLab Runner's loop over a simulated Scaleway, in simulated time.
//! - `scenario` is what happens, `jobs` are the jobs of it, and `conditions` puts the rest into the simulator.
//! - `arm` is the runner's file, and `setting` changes it. `autoscaling` and `period` read how it scales, and `account`
//!   creates what it names.
//! - `day` is the loop: `scaler` assigns jobs to instances and `provisioner` requests instances from the plugin, as
//!   GitLab's runner does.
//! - `course` runs something else than a runner's group through a scenario.
//! - `meter` counts hours and costs, `story` is what the journal says, `warnings` are what the plugin warned of, and
//!   `outcome` is the result.

mod account;
mod arm;
mod autoscaling;
mod conditions;
mod course;
mod day;
mod jobs;
mod meter;
mod outcome;
mod period;
mod provisioner;
mod scaler;
mod scenario;
#[cfg(test)]
mod schema;
mod setting;
mod story;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, date};
use jiff::tz::TimeZone;
use tokio::time::Instant;
use windlass_lifecycle::{Clock, Durability, Journal, Runtime, RuntimeOptions, StateDirectory};
use windlass_policy::{Asker, Compiler, DecisionLogOptions, Host};
use windlass_scaleway::Client;
use windlass_simulator::Simulator;

use super::check::{CheckedGroup, Scratch, size};
use super::error::StartError;
use super::instances::Instances;
use super::kind::MachineKind as _;
use super::places::Place;
use super::runner_file::{Autoscaler, RunnerFileError};
use super::start::{problem, refuse_protocol};
use super::{Dependencies, ScalewayGroup};
use crate::configuration::{Common, Configuration, GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectorConfig, Failure, InstanceGroup as _};
pub use arm::Arm;
pub(super) use autoscaling::Autoscaling;
use conditions::Conditions;
pub use course::Course;
use day::Day;
pub use jobs::Pattern;
use meter::Meter;
pub use outcome::{Counted, Event, Hour, Leftover, Limits, Outcome, PricedPlace, Totals, WaitTimes};
pub use provisioner::Provisioner;
use scaler::Scaler;
pub use scenario::{
    ClusterConduct, Demand, Incident, IncidentKind, Offer, Scale, Scenario, ScenarioError, Stock, Time,
};
pub use setting::{SettingError, SettingKey};
use story::{PolicyFailures, Story};
use warnings::Warnings;

/// The first Monday after the simulator's epoch.
const MONDAY: Date = date(2026, 8, 3);
/// How long the plugin may take to end.
const LEAVE: Duration = Duration::from_secs(2);
/// The least latency of an API call, in milliseconds. Up to the same again is added at random.
const LATENCY: u64 = 100;

/// Why a rehearsal could not run.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The runner's configuration cannot be read, or it is not clear which group is meant.
    #[error(transparent)]
    RunnerFile(#[from] RunnerFileError),
    /// Something configured is wrong.
    #[error("{0}")]
    Wrong(Box<CheckedGroup>),
    /// The group did not start.
    #[error(transparent)]
    Start(Box<StartError>),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] windlass_lifecycle::Error),
    /// The simulator could not be prepared.
    #[error("the rehearsal cannot be set up: {0}")]
    SetUp(#[from] Failure),
    /// The asynchronous runtime could not be created.
    #[error("the rehearsal cannot be set up")]
    Runtime(#[from] std::io::Error),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl From<StartError> for RehearsalError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl From<CheckedGroup> for RehearsalError {
    fn from(found: CheckedGroup) -> Self {
        Self::Wrong(Box::new(found))
    }
}

/// Rehearses scenarios. Writes only to temporary folders, which it removes at the end.
pub struct Rehearser {
    process_environment: ProcessEnvironment,
    compiler: Option<Compiler>,
    /// Holds what was compiled, for the next rehearsal.
    compiled: Scratch,
    /// A state folder that holds what was compiled before.
    lending_dir: Option<Dir>,
}

impl Rehearser {
    /// Reads variables from this environment, and has components compiled by this compiler.
    ///
    /// # Errors
    /// When no temporary folder can be created.
    pub fn new(process_environment: ProcessEnvironment, compiler: Option<Compiler>) -> Result<Self, RehearsalError> {
        Ok(Self { process_environment, compiler, compiled: Scratch::new()?, lending_dir: None })
    }

    /// The same, which compiles nothing that is compiled in this state folder. It only reads there.
    #[must_use]
    pub fn borrowing(self, state: Dir) -> Self {
        Self { lending_dir: Some(state), ..self }
    }

    /// Rehearses a scenario with one arm. The seed decides everything that is drawn: the same seed, the same outcome.
    /// Blocks this thread; several threads can rehearse at the same time.
    ///
    /// # Errors
    /// When the arm has no such group, or something in it is wrong; and when it was interrupted.
    pub fn rehearse(&self, scenario: &Scenario, arm: &Arm, seed: u64) -> Result<Outcome, RehearsalError> {
        self.rehearse_and_read(scenario, arm, seed, |_| ()).map(|(outcome, ())| outcome)
    }

    /// The same, and what is read from the group's journal at its end.
    ///
    /// # Errors
    /// As those of [`Self::rehearse`].
    pub fn rehearse_and_read<T>(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        read: impl FnOnce(&Journal) -> T,
    ) -> Result<(Outcome, T), RehearsalError> {
        let failures = PolicyFailures::default();
        self.in_simulated_time(&failures, self.run(scenario, arm, seed, &failures, read))
    }

    /// Runs one rehearsal to its end, under a clock of its own.
    fn in_simulated_time<T>(
        &self,
        failures: &PolicyFailures,
        run: impl Future<Output = Result<(Outcome, T), RehearsalError>>,
    ) -> Result<(Outcome, T), RehearsalError> {
        let warnings = Warnings::default();
        let log = warnings.subscriber();
        let of_threads = log.clone();
        // The clock stops while a task can run, and then jumps to the next timer.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            // Threads of blocking calls belong to this rehearsal until they end.
            .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&of_threads)))
            .build()?;
        let rehearsal = async {
            tokio::select! {
                outcome = run => outcome,
                _ = tokio::signal::ctrl_c() => Err(RehearsalError::Interrupted),
            }
        };
        // What a simulated host logs and counts is not this process's.
        let mut outcome = tracing::dispatcher::with_default(&log, || {
            metrics::with_local_recorder(failures, || runtime.block_on(rehearsal))
        });
        match &mut outcome {
            Ok((outcome, _)) => outcome.warnings = warnings.notes(),
            Err(RehearsalError::Wrong(found)) => found.notes.extend(warnings.notes()),
            Err(_) => {}
        }
        outcome
    }

    async fn run<T>(
        &self,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        policy_failures: &PolicyFailures,
        read: impl FnOnce(&Journal) -> T,
    ) -> Result<(Outcome, T), RehearsalError> {
        let group = arm.group()?;
        let mut found = CheckedGroup::of(group.name());
        let mut problems = Vec::new();
        let ready_after = scenario.ready_seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        let rules = Autoscaling::read(arm.file(), group, ready_after, &mut problems);
        found.problems.extend(problems.iter().map(ToString::to_string));
        let time_zone = scenario.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok());
        let time_zone = time_zone.unwrap_or_else(|| rules.zone().clone());
        let (local_start, starts_at) = start_of(scenario, &time_zone);
        let simulator = simulator(seed, starts_at);
        let conditions = Conditions::new(scenario, seed, &simulator);
        let scratch = Scratch::new()?;
        let Ready { configuration, connector, client, policies, places, max_instances, mut found } =
            self.prepare(group, found, &simulator, &scratch).await?;
        let at_once = rules.capacity().saturating_mul(max_instances as usize);
        if rules.most_jobs < at_once {
            found.notes.push(format!(
                "concurrent and limit let the runner have {} jobs at once, fewer than the {at_once} of a full group",
                rules.most_jobs
            ));
        }
        let priced: BTreeMap<Place, f64> =
            places.into_iter().map(|(place, price)| (place, price.unwrap_or_default())).collect();
        found.notes.extend(invented(&priced, scenario));
        let limits = Limits {
            max_instances,
            capacity_per_instance: rules.capacity_per_instance,
            max_use_count: rules.max_use_count,
            ready_seconds: rules.ready_after.as_secs(),
        };
        let folder = configuration.common.folder();
        let dependencies = Dependencies {
            client,
            policies,
            clock: Clock::simulated(milliseconds(starts_at)),
            durability: Durability::Process,
            seed: Some(seed),
            host: None,
        };
        let configuration = GroupConfiguration::Instances(Box::new(configuration));
        let group = ScalewayGroup::start_on(configuration, connector, dependencies).await?;
        let mut day = Day {
            origin: Instant::now(),
            starts_at,
            jobs: jobs::of(scenario, local_start, seed).into(),
            simulator,
            conditions,
            scaler: Scaler::new(rules),
            provisioner: Provisioner::new(max_instances as usize),
            meter: Meter::new(priced.clone(), scenario.hours),
            unfinished: 0,
            counted: 0,
        };
        day.live(&group).await;
        let _ = group.shutdown().await;
        group.leave(LEAVE).await;
        group.stop().await;
        let journal = Journal::read_only(&StateDirectory::open(&folder)?)?;
        let reported = OutcomeParts { seed, time_zone, priced, limits, found, story: Story::read(&journal)? };
        Ok((reported.outcome(day, policy_failures), read(&journal)))
    }

    /// Finds all mistakes of the group, as `check` does, against a simulated Scaleway.
    async fn prepare(
        &self,
        group: Autoscaler<'_>,
        mut found: CheckedGroup,
        simulator: &Simulator,
        scratch: &Scratch,
    ) -> Result<Ready, RehearsalError> {
        if let Some(words) = group.without_plugin_config() {
            found.problems.push(words);
            return Err(found.into());
        }
        found.problems.extend(group.contradictions());
        let mut plugin_config = group.plugin_config();
        account::without_account(&mut plugin_config, &scratch.state().path().to_string_lossy());
        let environment = account::environment(&self.process_environment);
        let mut configuration = match GroupConfiguration::read(plugin_config.to_string().as_bytes(), &environment) {
            Ok(GroupConfiguration::Instances(configuration)) => *configuration,
            Ok(GroupConfiguration::AppleSilicon(_)) => {
                found
                    .problems
                    .push("kind: only groups of instances can be simulated, and this one is of Macs".to_owned());
                return Err(found.into());
            }
            Err(errors) => {
                found.problems.extend(errors.problems().iter().map(ToString::to_string));
                return Err(found.into());
            }
        };
        let settings = configuration.common.settings.clone();
        let client = Client::with_transport(settings, simulator.transport()).map_err(StartError::from)?;
        found.notes.extend(account::furnish(&client, &mut configuration).await?);
        let connector = group.connector();
        found.problems.extend(refuse_protocol(&connector).err().map(|error| error.to_string()));
        let max_instances = size(group, &configuration.common, &mut found);
        let checked = Instances::check(&client, &configuration, &connector).await;
        let places = checked.map(|learned| learned.places).unwrap_or_else(|errors| {
            found.problems.extend(errors.problems().iter().map(ToString::to_string));
            Vec::new()
        });
        match self.load_policies(&configuration.common, &client).await {
            Ok(policies) if found.problems.is_empty() => {
                Ok(Ready { configuration, connector, client, policies, places, max_instances, found })
            }
            Ok(_) => Err(found.into()),
            Err(words) => {
                found.problems.push(problem("policies", words).to_string());
                Err(found.into())
            }
        }
    }

    /// Loads the policies as Init would, in a temporary folder.
    async fn load_policies(&self, common: &Common, client: &Client) -> Result<Arc<Host>, String> {
        let mut options = RuntimeOptions::new(client.clone(), self.compiled.state().clone(), Asker::Instances);
        (options.policies, options.policy_folder) = (common.policies.clone(), common.policy_folder.clone());
        options.brake = common.brake_of_each_zone();
        self.load(options).await
    }

    /// Loads policies. The decision log is off, because nobody reads it.
    async fn load(&self, mut options: RuntimeOptions) -> Result<Arc<Host>, String> {
        options.compiler = self.compiler.clone();
        let mut decision_log = DecisionLogOptions::default();
        decision_log.queue_records = 0;
        options.decision_log = decision_log;
        options.lending_dir = self.lending_dir.as_ref().and_then(|state| state.try_clone().ok());
        match tokio::task::spawn_blocking(move || Runtime::build(options)).await {
            Ok(Ok(runtime)) => Ok(runtime.policies),
            Ok(Err(error)) => Err(Failure::from_error(&error).0),
            Err(error) => Err(Failure::from_error(&error).0),
        }
    }
}

/// A simulated Scaleway whose clock shows this time.
fn simulator(seed: u64, at: Timestamp) -> Simulator {
    let simulator = Simulator::new(windlass_simulator::Options {
        seed,
        latency: windlass_simulator::Latency { base_ms: LATENCY, jitter_ms: LATENCY },
        logged_requests: 1,
        ..windlass_simulator::Options::default()
    });
    let epoch = Timestamp::from_second(windlass_simulator::EPOCH_SECONDS).unwrap_or_default();
    simulator.advance(Duration::try_from(at.duration_since(epoch)).unwrap_or_default());
    simulator
}

/// When a scenario begins: by the clocks of its time zone, and anywhere.
fn start_of(scenario: &Scenario, time_zone: &TimeZone) -> (DateTime, Timestamp) {
    let local_start = scenario.starts_at.unwrap_or_else(|| MONDAY.at(0, 0, 0, 0));
    (local_start, time_zone.to_ambiguous_timestamp(local_start).compatible().unwrap_or_default())
}

/// Milliseconds since 1970.
fn milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or_default()
}

/// A group whose configuration has no mistakes.
struct Ready {
    configuration: Configuration,
    connector: ConnectorConfig,
    client: Client,
    policies: Arc<Host>,
    places: Vec<(Place, Option<f64>)>,
    max_instances: u32,
    found: CheckedGroup,
}

/// A note about the types whose price the simulator invents.
fn invented(prices: &BTreeMap<Place, f64>, scenario: &Scenario) -> Option<String> {
    let is_said = |place: &&Place| {
        let fits = |of: &Option<String>, name: &str| of.as_deref().is_none_or(|of| of == name);
        scenario.offers.iter().any(|offer| {
            offer.hourly_price.is_some()
                && fits(&offer.zone, place.zone.as_str())
                && fits(&offer.server_type, &place.server_type)
        })
    };
    let types = prices.keys().filter(|place| !is_said(place)).map(|place| place.server_type.as_str());
    let types: BTreeSet<&str> = types.filter(|name| windlass_simulator::recorded_price(name).is_none()).collect();
    (!types.is_empty()).then(|| {
        let types = Vec::from_iter(types).join(", ");
        format!(
            "the price of {types} is invented: say the real one, with --hourly-price or an [[offer]] of a scenario \
             (`check` asks Scaleway)"
        )
    })
}

/// What an outcome is made of, beside the day.
struct OutcomeParts {
    seed: u64,
    time_zone: TimeZone,
    priced: BTreeMap<Place, f64>,
    limits: Limits,
    found: CheckedGroup,
    story: Story,
}

impl OutcomeParts {
    fn outcome(self, day: Day, policy_failures: &PolicyFailures) -> Outcome {
        let Self { seed, time_zone, priced, limits, mut found, story } = self;
        let starts_at = milliseconds(day.starts_at);
        let counts = day.scaler.counts;
        for (call, (count, last)) in &counts.failed_calls {
            found.notes.push(format!("failed calls of {call}: {count}; the last error: {last}"));
        }
        let (server_hours, idle_share) = (day.meter.server_hours(), day.meter.idle_share());
        let Meter { places, mut hours, .. } = day.meter;
        for (hour, at) in hours.iter_mut().zip((starts_at..).step_by(3_600_000)) {
            hour.at = at;
        }
        let totals = Totals {
            jobs: hours.iter().map(|hour| hour.jobs).sum(),
            finished: counts.finished,
            timed_out: counts.timed_out,
            lost: counts.lost,
            unfinished: day.unfinished,
            waited: WaitTimes::of(counts.waited),
            server_hours,
            idle_share,
            cost: hours.iter().map(|hour| hour.cost).sum(),
            creations: counts.created,
            failures: counts.failed,
            api_calls: day.simulator.last_sequence(),
            policy_failures: policy_failures.failures(),
            brakes: policy_failures.brakes(),
        };
        let place = |(place, used): (Place, meter::Used)| PricedPlace {
            zone: place.zone.to_string(),
            hourly_price: priced.get(&place).copied().unwrap_or_default(),
            server_type: place.server_type,
            server_hours: used.hours,
            cost: used.cost,
        };
        Outcome {
            group: found.name,
            seed,
            starts_at,
            time_zone: time_zone.iana_name().unwrap_or("UTC").to_owned(),
            autoscaler: limits,
            places: places.into_iter().map(place).collect(),
            after: hours.pop().unwrap_or_default(),
            hours,
            totals,
            failures: story.failures,
            removals: story.removals,
            left: left(&day.simulator),
            notes: found.notes,
            warnings: Vec::new(),
            simplified: outcome::SIMPLIFIED.map(str::to_owned).into(),
            events: story.events,
        }
    }
}

/// What still exists at Scaleway.
fn left(simulator: &Simulator) -> Vec<Leftover> {
    let resources = simulator.resources();
    let lists = [
        ("server", resources.servers),
        ("ip", resources.ips),
        ("volume", resources.volumes),
        ("private-nic", resources.private_nics),
    ];
    let ids = |(kind, list): (&'static str, Vec<serde_json::Value>)| {
        list.into_iter().map(move |value| Leftover { kind, id: value["id"].as_str().unwrap_or_default().to_owned() })
    };
    lists.into_iter().flat_map(ids).collect()
}
