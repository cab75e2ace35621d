//! What Scaleway is like at each time of a scenario: offers and incidents, put into the simulator.

use std::num::NonZeroU32;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use windlass_simulator::{Availability, FaultKind, FaultRule, ForcedState, Offer, RequestLimit, Simulator};

use super::scenario::{Incident, IncidentKind, Scenario};

/// The conditions of a scenario, as far as they were put in place.
pub(super) struct Conditions {
    offers: Vec<Offer>,
    incidents: Vec<Incident>,
    /// When something begins or ends, the next one last.
    changes: Vec<Duration>,
    /// Draws which servers are stopped.
    random: ChaCha8Rng,
}

impl Conditions {
    /// Those of the beginning are in place at once.
    pub(super) fn new(scenario: &Scenario, seed: u64, simulator: &Simulator) -> Self {
        let incidents = scenario.incidents.clone();
        let mut changes: Vec<Duration> = incidents.iter().flat_map(|of| [of.at.0, of.ends()]).collect();
        changes.sort_unstable_by(|one, other| other.cmp(one));
        changes.dedup();
        let offers: Vec<Offer> = scenario.offers.iter().map(super::scenario::Offer::simulated).collect();
        simulator.set_offers(offers.clone());
        Self { offers, incidents, changes, random: ChaCha8Rng::seed_from_u64(seed ^ 0x5c2e_7a10) }
    }

    /// Puts in place what has changed by now.
    pub(super) fn pass(&mut self, age: Duration, simulator: &Simulator) {
        while self.changes.last().is_some_and(|change| *change <= age) {
            let Some(change) = self.changes.pop() else { return };
            self.apply(change, simulator);
        }
    }

    fn apply(&mut self, age: Duration, simulator: &Simulator) {
        let mut offers = self.offers.clone();
        let mut limit: Option<NonZeroU32> = None;
        simulator.clear_faults();
        for incident in self.incidents.iter().filter(|incident| incident.lasts_at(age)) {
            let offer =
                Offer { zone: incident.zone.clone(), server_type: incident.server_type.clone(), ..Offer::default() };
            match incident.kind {
                IncidentKind::ZoneOutOfStock => {
                    offers.push(Offer { availability: Some(Availability::Shortage), ..offer });
                }
                IncidentKind::SlowBoots => offers.push(Offer { slowdown: incident.factor, ..offer }),
                IncidentKind::FailingBoots => offers.push(Offer { failed_boots: incident.share, ..offer }),
                IncidentKind::RateLimited => {
                    let rate = incident.calls_per_second.and_then(NonZeroU32::new);
                    limit = limit.into_iter().chain(rate).min();
                }
                IncidentKind::ApiDown => {
                    let path = incident.zone.as_ref().map_or("/**".to_owned(), |zone| format!("/**/zones/{zone}/**"));
                    // A path that begins so is a valid rule.
                    let _ = simulator.add_fault(FaultRule::new("*", path, FaultKind::GatewayUnavailable));
                }
                IncidentKind::ServersStopped => {}
            }
        }
        simulator.set_offers(offers);
        simulator.set_request_limit(limit.map(|rate| RequestLimit { per_second: rate, burst: rate }));
        let stops = |incident: &&Incident| incident.kind == IncidentKind::ServersStopped && incident.at.0 == age;
        let stopping: Vec<Incident> = self.incidents.iter().filter(stops).cloned().collect();
        for incident in stopping {
            self.stop_servers(&incident, simulator);
        }
    }

    fn stop_servers(&mut self, incident: &Incident, simulator: &Simulator) {
        for server in simulator.resources().servers {
            let is_of_zone = incident.zone.as_deref().is_none_or(|zone| server["zone"] == zone);
            let is_drawn = self.random.random_range(0.0..1.0) < incident.share.unwrap_or(0.0);
            if let Some(id) = server["id"].as_str()
                && is_of_zone
                && is_drawn
                && server["state"] == "running"
            {
                // It was listed just now.
                let _ = simulator.set_server_state(id, ForcedState::Stopped);
            }
        }
    }
}
