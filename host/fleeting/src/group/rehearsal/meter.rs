//! What there was over time, and what it cost.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_lifecycle::PoolPrefix;
use windlass_simulator::Simulator;

use super::outcome::Hour;
use crate::group::places::Place;

const HOUR: Duration = Duration::from_secs(3_600);

/// Server hours and costs of a place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) hours: f64,
    pub(super) cost: f64,
}

/// Costs and use over time.
pub(super) struct Meter {
    prices: BTreeMap<Place, f64>,
    /// One entry for each hour in which jobs come, and a last one for the time after.
    pub(super) hours: Vec<Hour>,
    /// By place, those without servers as well.
    pub(super) places: BTreeMap<Place, Used>,
    /// The end of the time that is summed up.
    until: Duration,
    /// The servers that there are since then, and on how many instances a job runs.
    servers: BTreeMap<Place, usize>,
    used: usize,
    used_seconds: f64,
}

impl Meter {
    pub(super) fn new(prices: BTreeMap<Place, f64>, hours: u32) -> Self {
        Self {
            places: prices.keys().map(|place| (place.clone(), Used::default())).collect(),
            prices,
            hours: vec![Hour::default(); hours as usize + 1],
            until: Duration::ZERO,
            servers: BTreeMap::new(),
            used: 0,
            used_seconds: 0.0,
        }
    }

    /// The time when the last job may come.
    pub(super) fn over(&self) -> Duration {
        HOUR * u32::try_from(self.hours.len() - 1).unwrap_or_default()
    }

    /// The entry of this time.
    pub(super) fn hour(&mut self, age: Duration) -> &mut Hour {
        let last = self.hours.len() - 1;
        let index = usize::try_from(age.as_secs() / HOUR.as_secs()).unwrap_or(last);
        &mut self.hours[index.min(last)]
    }

    /// Adds the time since the last call, with the servers of that time.
    pub(super) fn pass(&mut self, age: Duration, used: usize) {
        let seconds = age.saturating_sub(self.until).as_secs_f64();
        let mut cost = 0.0;
        for (place, count) in &self.servers {
            let hours = *count as f64 * seconds / 3_600.0;
            let of_place = hours * self.prices.get(place).copied().unwrap_or_default();
            let sum = self.places.entry(place.clone()).or_default();
            sum.hours += hours;
            sum.cost += of_place;
            cost += of_place;
        }
        self.used_seconds += self.used as f64 * seconds;
        self.hour(self.until).cost += cost;
        (self.until, self.used) = (age, used);
    }

    /// Counts the servers that exist. When no more jobs come, hosts of this pool are no cost of the group.
    pub(super) fn count(&mut self, simulator: &Simulator, pool: Option<&PoolPrefix>) {
        let is_over = self.until >= self.over();
        let is_counted = |name: &str| !is_over || pool.is_none_or(|pool| !pool.holds(name));
        let known = |((zone, server_type), count): ((String, String), usize)| {
            Some((Place { zone: zone.parse().ok()?, server_type }, count))
        };
        self.servers = simulator.server_counts(is_counted).into_iter().filter_map(known).collect();
    }

    /// How many servers there were when they were counted.
    pub(super) fn servers(&self) -> usize {
        self.servers.values().sum()
    }

    /// Server hours of all places.
    pub(super) fn server_hours(&self) -> f64 {
        self.places.values().map(|used| used.hours).sum()
    }

    /// The share of server hours without a running job.
    pub(super) fn idle_share(&self) -> f64 {
        let hours = self.server_hours();
        if hours > 0.0 { (1.0 - self.used_seconds / 3_600.0 / hours).max(0.0) } else { 0.0 }
    }
}
