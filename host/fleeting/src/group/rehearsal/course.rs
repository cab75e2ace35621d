//! A scenario over a simulated Scaleway for something else than a runner's group, in simulated time.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::time::Instant;
use windlass_lifecycle::{Catalogue, Clock, Durability, Journal, Lifecycle, Options, RuntimeOptions};
use windlass_policy::{Asker, Host, Policies};
use windlass_scaleway::{Client, Settings, Zone};
use windlass_simulator::Simulator;

use super::conditions::Conditions;
use super::day::left;
use super::meter::Meter;
use super::outcome::{Limits, Outcome, SIMPLIFIED, Totals};
use super::story::{Counters, Story};
use super::{OutcomeParts, RehearsalError, Rehearser, Scenario, account, doubtful_prices, milliseconds, start_of};
use crate::group::check::{CheckedGroup, Scratch};
use crate::group::error::StartError;
use crate::group::places::Place;
use crate::protocol::Failure;

/// How often conditions change and servers are counted.
const TICK: Duration = Duration::from_secs(1);

/// A scenario under way: Scaleway with its offers and incidents, and what servers cost.
pub struct Course<'r> {
    rehearser: &'r Rehearser,
    scenario: &'r Scenario,
    seed: u64,
    counters: &'r Counters,
    simulator: Simulator,
    conditions: Conditions,
    meter: Meter,
    prices: BTreeMap<Place, f64>,
    time_zone: TimeZone,
    /// Milliseconds since 1970.
    starts_at: u64,
    origin: Instant,
    /// The numbers of the last call to Scaleway before the start, and of the last one whose servers are counted.
    before: u64,
    counted: u64,
    scratch: Scratch,
}

impl Rehearser {
    /// Rehearses something else than a runner's group, under a clock of its own. The seed decides everything that is
    /// drawn. Blocks this thread; several threads can rehearse at the same time.
    ///
    /// # Errors
    /// Those of `run`; and when it was interrupted.
    pub fn rehearse_with<T>(
        &self,
        scenario: &Scenario,
        seed: u64,
        run: impl AsyncFnOnce(Course<'_>) -> Result<(Outcome, T), RehearsalError>,
    ) -> Result<(Outcome, T), RehearsalError> {
        let counters = Counters::default();
        self.in_simulated_time(&counters, async { run(Course::new(self, scenario, seed, &counters)?).await })
    }
}

impl<'r> Course<'r> {
    fn new(
        rehearser: &'r Rehearser,
        scenario: &'r Scenario,
        seed: u64,
        counters: &'r Counters,
    ) -> Result<Self, RehearsalError> {
        let time_zone =
            scenario.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
        let (_, starts_at) = start_of(scenario, &time_zone);
        let simulator = super::simulator(seed, starts_at);
        Ok(Self {
            conditions: Conditions::new(scenario, seed, &simulator),
            meter: Meter::new(BTreeMap::new(), scenario.hours),
            prices: BTreeMap::new(),
            starts_at: milliseconds(starts_at),
            origin: Instant::now(),
            before: 0,
            counted: 0,
            scratch: Scratch::new()?,
            rehearser,
            scenario,
            seed,
            counters,
            simulator,
            time_zone,
        })
    }

    /// A lifecycle over the simulated Scaleway, with these policies.
    ///
    /// # Errors
    /// A policy cannot be used.
    pub async fn lifecycle(&self, policies: &Policies) -> Result<(Client, Arc<Host>, Lifecycle), RehearsalError> {
        let key = account::KEY.parse().expect("a UUID is a key");
        let client =
            Client::with_transport(Settings::new(key), self.simulator.transport()).map_err(StartError::from)?;
        let state = self.rehearser.compiled.state().clone();
        let mut options = RuntimeOptions::new(client.clone(), state, Asker::CommandLine);
        options.policies = policies.clone();
        let policies = self.rehearser.load(options).await;
        let policies = policies.map_err(|mistakes| RehearsalError::wrong("", mistakes))?;
        let mut options = Options::new(client.clone(), Arc::clone(&policies), self.scratch.state().clone());
        (options.clock, options.seed) = (Clock::simulated(self.starts_at), Some(self.seed));
        options.durability = Durability::Process;
        Ok((client, policies, Lifecycle::open(options)?))
    }

    /// Begins the scenario. Servers are of these types in this zone.
    ///
    /// # Errors
    /// The simulator does not say what they cost.
    pub async fn begin(&mut self, client: &Client, zone: &Zone, types: &[String]) -> Result<(), RehearsalError> {
        let catalogue = Catalogue::of(client, zone).await.map_err(|error| Failure::from_error(&error))?;
        let price = |name: &String| {
            let place = Place { zone: zone.clone(), server_type: name.clone() };
            Some((place, catalogue.types.get(name)?.hourly_price))
        };
        self.prices = types.iter().filter_map(price).collect();
        self.meter = Meter::new(self.prices.clone(), self.scenario.hours);
        self.before = self.simulator.last_sequence();
        self.origin = Instant::now();
        Ok(())
    }

    /// When the scenario began.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The beginning, in milliseconds since 1970.
    #[must_use]
    pub fn starts_at(&self) -> u64 {
        self.starts_at
    }

    /// Whether nothing is left at Scaleway.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.simulator.resources().is_empty()
    }

    /// Runs some work while what the scenario says happens.
    pub async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.pass();
            let next = Instant::now() + TICK;
            tokio::select! {
                biased;
                done = &mut work => {
                    self.pass();
                    return done;
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    fn pass(&mut self) {
        let age = self.origin.elapsed();
        let is_reclaimed = self.conditions.pass(age, &self.simulator);
        self.meter.pass(age, 0);
        let last_call = self.simulator.last_sequence();
        if std::mem::replace(&mut self.counted, last_call) != last_call || is_reclaimed {
            self.meter.count(&self.simulator, None);
        }
        let servers = self.meter.servers();
        let hour = self.meter.hour(age);
        hour.instances = hour.instances.max(servers);
    }

    /// What came of it, from the journal of what was done. There was no runner and there were no jobs.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn outcome(
        self,
        name: &str,
        journal: &Journal,
        mut notes: Vec<String>,
        simplified: &[&'static str],
    ) -> Result<Outcome, RehearsalError> {
        let [scaleway, .., costs] = SIMPLIFIED;
        let story = Story::read(journal)?;
        let places: Vec<_> = self.prices.iter().map(|(place, price)| (place.clone(), Some(*price))).collect();
        notes.extend(doubtful_prices(&places, self.scenario));
        let failures = story.failures.iter().map(|counted| counted.count).sum();
        let totals = Totals {
            creations: story.events.iter().filter(|event| event.what == "create").count() - failures,
            failures,
            api_calls: self.simulator.last_sequence() - self.before,
            ..Totals::default()
        };
        let parts = OutcomeParts {
            name: name.to_owned(),
            seed: self.seed,
            starts_at: self.starts_at,
            time_zone: self.time_zone,
            prices: self.prices,
            limits: Limits::default(),
            meter: self.meter,
            story,
            left: left(&self.simulator, None),
            notes,
            simplified: [&[scaleway][..], simplified, &[costs]].concat(),
            totals,
        };
        Ok(parts.outcome(self.counters))
    }
}

impl RehearsalError {
    /// What keeps an arm from being rehearsed, each with its place.
    #[must_use]
    pub fn wrong(name: &str, problems: Vec<String>) -> Self {
        CheckedGroup { problems, ..CheckedGroup::of(name) }.into()
    }
}
