//! `simulate`: shows what a runner would do with its configuration, in simulated time. It runs the real plugin against
//! the simulator, with random jobs.
//! - `options` reads the command line, `autoscaling` and `period` read the runner's file, and `account` creates what the
//!   file names.
//! - `jobs` draws the jobs. `scaler` assigns them to instances and `provisioner` requests instances from the plugin, as
//!   GitLab's runner does. `outcome` is the result.

mod account;
mod autoscaling;
mod jobs;
mod options;
mod outcome;
mod period;
mod provisioner;
mod scaler;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, date};
use tokio::time::Instant;
use windlass_lifecycle::{Clock, Durability, Runtime, RuntimeOptions};
use windlass_policy::{Asker, Compiler, DecisionLogOptions, Host};
use windlass_scaleway::Client;
use windlass_simulator::Simulator;

use super::check::{CheckedGroup, Scratch, size};
use super::error::StartError;
use super::instances::Instances;
use super::kind::MachineKind as _;
use super::places::Place;
use super::runner_file::{Autoscaler, RunnerFile, RunnerFileError};
use super::start::{problem, refuse_protocol};
use super::{Dependencies, ScalewayGroup};
use crate::configuration::{Common, Configuration, GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectorConfig, Failure, InstanceGroup as _, State};
use autoscaling::Autoscaling;
use jobs::Job;
pub use jobs::Pattern;
pub use options::{SimulateCommand, SimulateOptions};
pub use outcome::{Hour, Left, Limits, Outcome, PricedPlace, Totals, Waited};
pub use provisioner::Provisioner;
use scaler::Scaler;
use warnings::Warnings;

/// The first Monday after the simulator's epoch.
const MONDAY: Date = date(2026, 8, 3);
/// How often the runner checks whether there is work.
const TICK: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// How long jobs may run on after the last one has come.
const UNFINISHED: Duration = Duration::from_secs(24 * 3_600);
/// How long the removal of the last resources may take. The second look after a call without an answer comes later than
/// removals.
const REST: Duration = Duration::from_secs(2 * 3_600);
/// How long the plugin may take to end.
const LEAVE: Duration = Duration::from_secs(2);
/// The least latency of an API call, in milliseconds. Up to the same again is added at random.
const LATENCY: u64 = 100;

/// Why a simulation could not run.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The runner's configuration cannot be read, or it is not clear which group is meant.
    #[error(transparent)]
    RunnerFile(#[from] RunnerFileError),
    /// Something configured is wrong.
    #[error("{0}")]
    Wrong(Box<CheckedGroup>),
    /// The group did not start.
    #[error(transparent)]
    Start(Box<StartError>),
    /// The simulator could not be prepared.
    #[error("the simulation cannot be set up: {0}")]
    SetUp(#[from] Failure),
    /// The asynchronous runtime could not be created.
    #[error("the simulation cannot be set up")]
    Runtime(#[from] std::io::Error),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl From<StartError> for SimulateError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl From<CheckedGroup> for SimulateError {
    fn from(found: CheckedGroup) -> Self {
        Self::Wrong(Box::new(found))
    }
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
) -> Result<Outcome, SimulateError> {
    let file = RunnerFile::read(&options.config)?;
    let warnings = Warnings::collect();
    // The clock stops while a task can run, and then jumps to the next timer.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    let mut outcome = runtime.block_on(async {
        tokio::select! {
            outcome = run(options, &file, process_environment, compiler) => outcome,
            _ = tokio::signal::ctrl_c() => Err(SimulateError::Interrupted),
        }
    });
    match &mut outcome {
        Ok(outcome) => outcome.notes.extend(warnings.notes()),
        Err(SimulateError::Wrong(found)) => found.notes.extend(warnings.notes()),
        Err(_) => {}
    }
    outcome
}

async fn run(
    options: &SimulateOptions,
    file: &RunnerFile,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Outcome, SimulateError> {
    let group = file.group(options.group.as_deref())?;
    let mut found = CheckedGroup::of(group.name());
    let mut problems = Vec::new();
    let rules = Autoscaling::read(file, group, options.ready_after, &mut problems);
    found.problems.extend(problems.iter().map(ToString::to_string));
    let starts_at = rules.zone().to_ambiguous_timestamp(MONDAY.at(0, 0, 0, 0)).compatible().unwrap_or_default();
    let simulator = simulator(options.seed, starts_at);
    let scratch = Scratch::new()?;
    let Ready { configuration, connector, client, policies, places, max_instances, mut found } =
        prepare(group, found, &simulator, &scratch, process_environment, compiler).await?;
    let at_once = rules.capacity().saturating_mul(max_instances as usize);
    if rules.most_jobs < at_once {
        found.notes.push(format!(
            "concurrent and limit let the runner have {} jobs at once, fewer than the {at_once} of a full group",
            rules.most_jobs
        ));
    }
    let prices: BTreeMap<Place, f64> =
        places.into_iter().map(|(place, price)| (place, options.hourly_price.or(price).unwrap_or_default())).collect();
    if options.hourly_price.is_none() {
        found.notes.extend(invented(&prices));
    }
    let limits = Limits {
        max_instances,
        capacity_per_instance: rules.capacity_per_instance,
        max_use_count: rules.max_use_count,
        ready_seconds: rules.ready_after.as_secs(),
    };
    let dependencies = Dependencies {
        client,
        policies,
        clock: Clock::simulated(milliseconds(starts_at)),
        durability: Durability::Process,
        seed: Some(options.seed),
        host: None,
    };
    let configuration = GroupConfiguration::Instances(Box::new(configuration));
    let group = ScalewayGroup::start_on(configuration, connector, dependencies).await?;
    let length = Duration::from_secs(60 * u64::from(options.job_minutes));
    let jobs = jobs::draw(options.pattern, options.hours, options.jobs_per_hour, length, options.seed);
    let mut day = Day {
        origin: Instant::now(),
        starts_at,
        jobs: jobs.into(),
        simulator,
        scaler: Scaler::new(rules),
        provisioner: Provisioner::new(max_instances as usize),
        meter: Meter::new(prices, options.hours),
        unfinished: 0,
        counted: 0,
    };
    day.live(&group).await;
    let _ = group.shutdown().await;
    group.leave(LEAVE).await;
    group.stop().await;
    Ok(day.told(options, found, limits))
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

/// Finds all mistakes of the group, as `check` does, against a simulated Scaleway.
async fn prepare(
    group: Autoscaler<'_>,
    mut found: CheckedGroup,
    simulator: &Simulator,
    scratch: &Scratch,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Ready, SimulateError> {
    if let Some(words) = group.without_plugin_config() {
        found.problems.push(words);
        return Err(found.into());
    }
    found.problems.extend(group.contradictions());
    let mut plugin_config = group.plugin_config();
    account::without_account(&mut plugin_config, &scratch.state().path().to_string_lossy());
    let environment = account::environment(process_environment);
    let mut configuration = match GroupConfiguration::read(plugin_config.to_string().as_bytes(), &environment) {
        Ok(GroupConfiguration::Instances(configuration)) => *configuration,
        Ok(GroupConfiguration::AppleSilicon(_)) => {
            found.problems.push("kind: only groups of instances can be simulated, and this one is of Macs".to_owned());
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
    match load_policies(&configuration.common, &client, scratch, compiler).await {
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

/// Loads the policies as Init would, in a temporary folder. The decision log is off, because nobody reads it.
async fn load_policies(
    common: &Common,
    client: &Client,
    scratch: &Scratch,
    compiler: Option<Compiler>,
) -> Result<Arc<Host>, String> {
    let mut options = RuntimeOptions::new(client.clone(), scratch.state().clone(), Asker::Instances);
    (options.policies, options.policy_folder) = (common.policies.clone(), common.policy_folder.clone());
    (options.brake, options.compiler) = (common.brake_of_each_zone(), compiler);
    let mut decision_log = DecisionLogOptions::default();
    decision_log.queue_records = 0;
    options.decision_log = decision_log;
    match tokio::task::spawn_blocking(move || Runtime::build(options)).await {
        Ok(Ok(runtime)) => Ok(runtime.policies),
        Ok(Err(error)) => Err(Failure::from_error(&error).0),
        Err(error) => Err(Failure::from_error(&error).0),
    }
}

/// A note about the types whose price the simulator invents.
fn invented(prices: &BTreeMap<Place, f64>) -> Option<String> {
    let types = prices.keys().map(|place| place.server_type.as_str());
    let types: BTreeSet<&str> = types.filter(|name| windlass_simulator::recorded_price(name).is_none()).collect();
    (!types.is_empty()).then(|| {
        let types = Vec::from_iter(types).join(", ");
        format!("the price of {types} is invented: say the real one with --hourly-price (`check` asks Scaleway)")
    })
}

/// Costs and use over time.
struct Meter {
    prices: BTreeMap<Place, f64>,
    /// One entry for each hour in which jobs come, and a last one for the time after.
    hours: Vec<Hour>,
    /// The end of the time that is summed up.
    until: Duration,
    /// The servers that there are since then, and on how many instances a job runs.
    servers: BTreeMap<Place, usize>,
    used: usize,
    server_seconds: f64,
    used_seconds: f64,
}

/// A runner with its group and its jobs.
struct Day {
    origin: Instant,
    starts_at: Timestamp,
    jobs: VecDeque<Job>,
    simulator: Simulator,
    scaler: Scaler,
    provisioner: Provisioner,
    meter: Meter,
    /// Jobs that had not ended when the runner stopped.
    unfinished: usize,
    /// The number of the last call to Scaleway whose servers are counted.
    counted: u64,
}

impl Day {
    /// Runs until all jobs have ended and everything is removed.
    async fn live(&mut self, group: &ScalewayGroup) {
        let over = self.meter.over();
        let mut looked: Option<Instant> = None;
        let mut stopped: Option<Duration> = None;
        let mut tick = self.origin;
        loop {
            let (now, age) = (Instant::now(), self.origin.elapsed());
            self.meter.pass(age, self.scaler.used());
            while let Some(job) = self.jobs.pop_front_if(|job| job.comes <= age) {
                self.scaler.come(self.origin + job.comes, job.length);
                self.meter.hour(job.comes).jobs += 1;
            }
            if stopped.is_none() {
                let idle = self.scaler.rules.idle_at(self.starts_at + age);
                self.scaler.tick(now, idle, &mut self.provisioner, group).await;
                let under_way = self.scaler.waiting() + self.scaler.running();
                if age >= over && (under_way == 0 || age >= over + UNFINISHED) {
                    (stopped, self.unfinished) = (Some(age), under_way);
                }
            }
            if stopped.is_some() {
                self.provisioner.delete_all();
            }
            let rules = &self.scaler.rules;
            let interval = match self.provisioner.expects() {
                true => rules.update_interval_when_expecting,
                false => rules.update_interval,
            };
            if looked.is_none_or(|looked| now.duration_since(looked) >= interval) {
                looked = Some(now);
                self.round(group).await;
            }
            // Servers come and go only through calls.
            let last_call = self.simulator.last_sequence();
            if std::mem::replace(&mut self.counted, last_call) != last_call {
                self.meter.count(&self.simulator);
            }
            self.note(age);
            if let Some(stopped) = stopped {
                let is_gone = self.provisioner.instances().len() == 0 && self.provisioner.pending() == 0;
                if is_gone && self.simulator.resources().is_empty() || age >= stopped + REST {
                    return;
                }
            }
            // If a round took longer than a tick, skip the ticks that are over.
            while tick <= Instant::now() {
                tick += TICK;
            }
            tokio::time::sleep_until(tick).await;
        }
    }

    /// One round of GitLab's provisioner.
    async fn round(&mut self, group: &ScalewayGroup) {
        let removals = self.provisioner.removals(Instant::now(), self.scaler.rules.deletion_retry_interval);
        if !removals.is_empty() {
            match group.decrease(removals).await {
                Ok(accepted) => self.provisioner.removal_accepted(&accepted, Instant::now()),
                Err(failure) => self.scaler.counts.call_failed("decrease", &failure),
            }
        }
        let update = match group.update().await {
            Ok(update) => update,
            // A runner requests nothing then.
            Err(failure) => return self.scaler.counts.call_failed("update", &failure),
        };
        self.provisioner.take(&update.reports);
        if let Some(delivered) = update.delivered {
            delivered();
        }
        let demand = self.provisioner.demand();
        if demand > 0 {
            match group.increase(u32::try_from(demand).unwrap_or(u32::MAX)).await {
                Ok(accepted) => self.provisioner.increased(accepted as usize),
                Err(failure) => self.scaler.counts.call_failed("increase", &failure),
            }
        }
    }

    /// Records the maxima of this hour.
    fn note(&mut self, age: Duration) {
        let (mut running, mut creating) = (0, self.provisioner.awaited());
        for (_, state, _) in self.provisioner.instances() {
            running += usize::from(state == State::Running);
            creating += usize::from(state == State::Creating);
        }
        let (waiting, jobs) = (self.scaler.waiting(), self.scaler.running());
        let hour = self.meter.hour(age);
        hour.waiting = hour.waiting.max(waiting);
        hour.running = hour.running.max(jobs);
        hour.instances = hour.instances.max(running);
        hour.creating = hour.creating.max(creating);
    }

    fn told(self, options: &SimulateOptions, mut found: CheckedGroup, autoscaler: Limits) -> Outcome {
        let starts_at = milliseconds(self.starts_at);
        let time_zone = self.scaler.rules.zone().iana_name().unwrap_or("UTC").to_owned();
        let counts = self.scaler.counts;
        for (call, (count, last)) in &counts.failed_calls {
            found.notes.push(format!("failed calls of {call}: {count}; the last error: {last}"));
        }
        let Meter { prices, server_seconds, used_seconds, mut hours, .. } = self.meter;
        for (hour, at) in hours.iter_mut().zip((starts_at..).step_by(3_600_000)) {
            hour.at = at;
        }
        let totals = Totals {
            jobs: hours.iter().map(|hour| hour.jobs).sum(),
            finished: counts.finished,
            timed_out: counts.timed_out,
            lost: counts.lost,
            unfinished: self.unfinished,
            waited: Waited::of(counts.waited),
            server_hours: server_seconds / 3_600.0,
            idle_share: if server_seconds > 0.0 { (1.0 - used_seconds / server_seconds).max(0.0) } else { 0.0 },
            cost: hours.iter().map(|hour| hour.cost).sum(),
            creations: counts.created,
            failures: counts.failed,
        };
        let place = |(place, hourly_price): (Place, f64)| PricedPlace {
            zone: place.zone.to_string(),
            server_type: place.server_type,
            hourly_price,
        };
        Outcome {
            group: found.name,
            pattern: options.pattern,
            jobs_per_hour: options.jobs_per_hour,
            job_minutes: options.job_minutes,
            seed: options.seed,
            starts_at,
            time_zone,
            autoscaler,
            places: prices.into_iter().map(place).collect(),
            after: hours.pop().unwrap_or_default(),
            hours,
            totals,
            left: left(&self.simulator),
            notes: found.notes,
            simplified: outcome::SIMPLIFIED.map(str::to_owned).into(),
        }
    }
}

impl Meter {
    fn new(prices: BTreeMap<Place, f64>, hours: u32) -> Self {
        Self {
            prices,
            hours: vec![Hour::default(); hours as usize + 1],
            until: Duration::ZERO,
            servers: BTreeMap::new(),
            used: 0,
            server_seconds: 0.0,
            used_seconds: 0.0,
        }
    }

    /// The time when the last job may come.
    fn over(&self) -> Duration {
        HOUR * u32::try_from(self.hours.len() - 1).unwrap_or_default()
    }

    /// The entry of this time.
    fn hour(&mut self, age: Duration) -> &mut Hour {
        let last = self.hours.len() - 1;
        let index = usize::try_from(age.as_secs() / HOUR.as_secs()).unwrap_or(last);
        &mut self.hours[index.min(last)]
    }

    /// Adds the time since the last call, with the servers of that time.
    fn pass(&mut self, age: Duration, used: usize) {
        let seconds = age.saturating_sub(self.until).as_secs_f64();
        let mut cost = 0.0;
        for (place, count) in &self.servers {
            let seconds = *count as f64 * seconds;
            self.server_seconds += seconds;
            cost += seconds / 3_600.0 * self.prices.get(place).copied().unwrap_or_default();
        }
        self.used_seconds += self.used as f64 * seconds;
        self.hour(self.until).cost += cost;
        (self.until, self.used) = (age, used);
    }

    /// Counts the servers that exist.
    fn count(&mut self, simulator: &Simulator) {
        self.servers.clear();
        for server in simulator.resources().servers {
            let (zone, server_type) = (server["zone"].as_str(), server["commercial_type"].as_str());
            if let (Some(Ok(zone)), Some(server_type)) = (zone.map(str::parse), server_type) {
                *self.servers.entry(Place { zone, server_type: server_type.to_owned() }).or_default() += 1;
            }
        }
    }
}

/// What still exists at Scaleway.
fn left(simulator: &Simulator) -> Vec<Left> {
    let resources = simulator.resources();
    let lists = [
        ("server", resources.servers),
        ("ip", resources.ips),
        ("volume", resources.volumes),
        ("private-nic", resources.private_nics),
    ];
    let ids = |(kind, list): (&'static str, Vec<serde_json::Value>)| {
        list.into_iter().map(move |value| Left { kind, id: value["id"].as_str().unwrap_or_default().to_owned() })
    };
    lists.into_iter().flat_map(ids).collect()
}
