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

use super::check::{CheckedGroup, Scratch, asker_of, places_of, policy_mistakes, size};
use super::error::StartError;
use super::places::Place;
use super::runner_file::{Autoscaler, RunnerFileError};
use super::start::refuse_protocol;
use super::{Dependencies, ScalewayGroup};
use crate::configuration::{Common, GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectorConfig, Failure, InstanceGroup as _};
pub use arm::Arm;
pub(super) use autoscaling::{Autoscaling, KEYS, POLICY_KEYS};
use conditions::Conditions;
pub use course::Course;
use day::Day;
pub use jobs::Pattern;
use meter::Meter;
pub use outcome::{Counted, Event, Hour, Leftover, Limits, Outcome, PricedPlace, Totals, WaitTimes};
pub use provisioner::Provisioner;
use scaler::Scaler;
use scenario::is_about;
pub use scenario::{
    ClusterConduct, Demand, HookConduct, Incident, IncidentKind, Offer, Pool, Scale, Scenario, ScenarioError, Stock,
    Time,
};
pub use setting::{SettingError, SettingKey};
use story::{Counters, Story};
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
        let counters = Counters::default();
        self.in_simulated_time(&counters, self.run(scenario, arm, seed, &counters, read))
    }

    /// Runs one rehearsal to its end, under a clock of its own.
    fn in_simulated_time<T>(
        &self,
        counters: &Counters,
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
            metrics::with_local_recorder(counters, || runtime.block_on(rehearsal))
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
        counters: &Counters,
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
            self.prepare(scenario, group, found, &simulator, &scratch).await?;
        let at_once = rules.capacity().saturating_mul(max_instances as usize);
        if rules.most_jobs < at_once {
            found.notes.push(format!(
                "concurrent and limit let the runner have {} jobs at once, fewer than the {at_once} of a full group",
                rules.most_jobs
            ));
        }
        found.notes.extend(conditions::elsewhere(scenario, &places));
        found.notes.extend(doubtful_prices(&places, scenario));
        let price = |(place, price): (Place, Option<f64>)| {
            let price = said_price(scenario, &place).or(price).unwrap_or_default();
            (place, price)
        };
        let priced: BTreeMap<Place, f64> = places.into_iter().map(price).collect();
        let limits = Limits {
            max_instances,
            capacity_per_instance: rules.capacity_per_instance,
            max_use_count: rules.max_use_count,
            ready_seconds: rules.ready_after.as_secs(),
        };
        let common: &Common = configuration.as_ref();
        let folder = common.folder();
        let (mut simplified, mut pool) = (outcome::SIMPLIFIED.to_vec(), None);
        let is_of_macs = match &configuration {
            GroupConfiguration::Instances(_) => false,
            GroupConfiguration::AppleSilicon(macs) => {
                simplified.extend(outcome::SIMPLIFIED_MACS);
                pool.clone_from(&macs.pool);
                true
            }
        };
        let dependencies = Dependencies {
            client,
            policies,
            clock: Clock::simulated(milliseconds(starts_at)),
            durability: Durability::Process,
            seed: Some(seed),
            host: None,
        };
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
            pool,
        };
        day.live(&group).await;
        let _ = group.shutdown().await;
        group.leave(LEAVE).await;
        group.stop().await;
        day.bill_scheduled().await;
        let journal = Journal::read_only(&StateDirectory::open(&folder)?)?;
        let mut story = Story::read(&journal)?;
        if is_of_macs {
            story.add_failed_claims(counters.failed_creations());
        }
        let (left, idle_share, counts) = (day.left(), day.meter.idle_share(), day.scaler.counts);
        for (call, (count, last)) in &counts.failed_calls {
            found.notes.push(format!("failed calls of {call}: {count}; the last error: {last}"));
        }
        let totals = Totals {
            finished: counts.finished,
            timed_out: counts.timed_out,
            lost: counts.lost,
            unfinished: day.unfinished,
            waited: WaitTimes::of(counts.waited),
            idle_share,
            creations: counts.created,
            failures: counts.failed,
            api_calls: day.simulator.last_sequence(),
            ..Totals::default()
        };
        let parts = OutcomeParts {
            name: found.name,
            seed,
            starts_at: milliseconds(starts_at),
            time_zone,
            prices: priced,
            limits,
            meter: day.meter,
            story,
            left,
            notes: found.notes,
            simplified,
            totals,
        };
        Ok((parts.outcome(counters), read(&journal)))
    }

    /// Finds all mistakes of the group, as `check` does, against a simulated Scaleway.
    async fn prepare(
        &self,
        scenario: &Scenario,
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
        let environment = account::environment(&self.process_environment, &plugin_config);
        let mut configuration = match GroupConfiguration::read(plugin_config.to_string().as_bytes(), &environment) {
            Ok(configuration) => configuration,
            Err(errors) => {
                found.problems.extend(errors.problems().iter().map(ToString::to_string));
                return Err(found.into());
            }
        };
        let common: &Common = configuration.as_ref();
        let client =
            Client::with_transport(common.settings.clone(), simulator.transport()).map_err(StartError::from)?;
        let max_instances = size(group, common, &mut found);
        let meaningless = conditions::meaningless(scenario, &configuration);
        found.problems.extend(meaningless.iter().map(ToString::to_string));
        let pools = &scenario.pools;
        account::furnish(&client, simulator, &mut configuration, pools, max_instances, &mut found).await?;
        let connector = group.connector();
        found.problems.extend(refuse_protocol(&connector).err().map(|error| error.to_string()));
        let places = places_of(&client, &configuration, &connector).await.unwrap_or_else(|errors| {
            found.problems.extend(errors.problems().iter().map(ToString::to_string));
            Vec::new()
        });
        match self.load_policies(configuration.as_ref(), &client, asker_of(&configuration)).await {
            Ok(policies) if found.problems.is_empty() => {
                Ok(Ready { configuration, connector, client, policies, places, max_instances, found })
            }
            Ok(_) => Err(found.into()),
            Err(mistakes) => {
                found.problems.extend(mistakes);
                Err(found.into())
            }
        }
    }

    /// Loads the policies as Init would, in a temporary folder.
    async fn load_policies(&self, common: &Common, client: &Client, asker: Asker) -> Result<Arc<Host>, Vec<String>> {
        let mut options = RuntimeOptions::new(client.clone(), self.compiled.state().clone(), asker);
        (options.policies, options.policy_folder) = (common.policies.clone(), common.policy_folder.clone());
        options.brake = common.brake_of_each_zone();
        self.load(options).await
    }

    /// Loads policies. The decision log is off, because nobody reads it.
    async fn load(&self, mut options: RuntimeOptions) -> Result<Arc<Host>, Vec<String>> {
        options.compiler = self.compiler.clone();
        let mut decision_log = DecisionLogOptions::default();
        decision_log.queue_records = 0;
        (options.decision_log, options.is_trial) = (decision_log, true);
        options.lending_dir = self.lending_dir.as_ref().and_then(|state| state.try_clone().ok());
        match tokio::task::spawn_blocking(move || Runtime::build(options)).await {
            Ok(Ok(runtime)) => Ok(runtime.policies),
            Ok(Err(error)) => Err(policy_mistakes(&error.into())),
            Err(error) => Err(policy_mistakes(&error.into())),
        }
    }
}

/// A simulated Scaleway whose clock shows this time.
fn simulator(seed: u64, at: Timestamp) -> Simulator {
    let simulator = Simulator::new(windlass_simulator::Options {
        seed,
        latency: windlass_simulator::Latency { base_ms: LATENCY, jitter_ms: LATENCY },
        logged_requests: 0,
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
    configuration: GroupConfiguration,
    connector: ConnectorConfig,
    client: Client,
    policies: Arc<Host>,
    places: Vec<(Place, Option<f64>)>,
    max_instances: u32,
    found: CheckedGroup,
}

/// What the scenario says an hour at a place costs.
fn said_price(scenario: &Scenario, place: &Place) -> Option<f64> {
    let is_meant = |offer: &&Offer| is_about(&offer.zone, &offer.server_type, place);
    scenario.offers.iter().rev().filter(is_meant).find_map(|offer| offer.hourly_price)
}

/// Notes about the types whose price the simulator invents, or does not know.
fn doubtful_prices(places: &[(Place, Option<f64>)], scenario: &Scenario) -> Vec<String> {
    let (mut invented, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    for (place, price) in places.iter().filter(|(place, _)| said_price(scenario, place).is_none()) {
        let name = place.server_type.as_str();
        match price {
            None => drop(unknown.insert(name)),
            Some(_) if windlass_simulator::recorded_price(name).is_none() => drop(invented.insert(name)),
            Some(_) => {}
        }
    }
    let note = |(types, what): (BTreeSet<&str>, &str)| {
        let types = Vec::from_iter(types).join(", ");
        (!types.is_empty()).then(|| {
            format!(
                "the price of {types} is {what}: say the real one, with --hourly-price or an [[offer]] of a scenario"
            )
        })
    };
    let notes = [(invented, "invented"), (unknown, "not known, and counts as 0")];
    let [invented, unknown] = notes.map(note);
    invented.map(|note| note + " (`check` asks Scaleway)").into_iter().chain(unknown).collect()
}

/// What an outcome is made of.
struct OutcomeParts {
    name: String,
    seed: u64,
    /// Milliseconds since 1970.
    starts_at: u64,
    time_zone: TimeZone,
    prices: BTreeMap<Place, f64>,
    limits: Limits,
    meter: Meter,
    story: Story,
    left: Vec<Leftover>,
    notes: Vec<String>,
    simplified: Vec<&'static str>,
    /// What none of the others knows.
    totals: Totals,
}

impl OutcomeParts {
    fn outcome(self, counters: &Counters) -> Outcome {
        let server_hours = self.meter.server_hours();
        let Meter { places, mut hours, .. } = self.meter;
        for (hour, at) in hours.iter_mut().zip((self.starts_at..).step_by(3_600_000)) {
            hour.at = at;
        }
        let totals = Totals {
            jobs: hours.iter().map(|hour| hour.jobs).sum(),
            server_hours,
            cost: hours.iter().map(|hour| hour.cost).sum(),
            policy_failures: counters.policy_failures(),
            brakes: counters.brakes(),
            ..self.totals
        };
        let place = |(place, used): (Place, meter::Used)| PricedPlace {
            zone: place.zone.to_string(),
            hourly_price: self.prices.get(&place).copied().unwrap_or_default(),
            server_type: place.server_type,
            server_hours: used.hours,
            cost: used.cost,
        };
        Outcome {
            group: self.name,
            seed: self.seed,
            starts_at: self.starts_at,
            time_zone: self.time_zone.iana_name().unwrap_or("UTC").to_owned(),
            autoscaler: self.limits,
            places: places.into_iter().map(place).collect(),
            after: hours.pop().unwrap_or_default(),
            hours,
            totals,
            failures: self.story.failures,
            removals: self.story.removals,
            left: self.left,
            notes: self.notes,
            warnings: Vec::new(),
            simplified: self.simplified.into_iter().map(str::to_owned).collect(),
            events: self.story.events,
        }
    }
}
