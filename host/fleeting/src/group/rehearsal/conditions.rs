//! What Scaleway is like at each time of a scenario: offers and incidents, put into the simulator.

use std::num::NonZeroU32;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use windlass_simulator::{Availability, Durations, FaultKind, FaultRule, ForcedState, Offer, RequestLimit, Simulator};

use super::scenario::{Incident, IncidentKind, Scenario, is_about};
use windlass_policy::Mistake;

use crate::configuration::GroupConfiguration;
use crate::group::places::Place;
use crate::group::start::problem;

/// Why what is about orders is refused.
const NO_ORDERS: &str = "remove it, or set order = true in plugin_config: the group orders no hosts";
/// How often it is drawn which servers are reclaimed.
const RECLAIM: Duration = Duration::from_secs(60);

/// The conditions of a scenario, as far as they were put in place.
pub(super) struct Conditions {
    offers: Vec<Offer>,
    incidents: Vec<Incident>,
    /// When something begins or ends, the next one last.
    changes: Vec<Duration>,
    /// When servers are reclaimed the next time.
    reclaims_at: Duration,
    /// Draws which servers are stopped or reclaimed.
    random: ChaCha8Rng,
}

impl Conditions {
    /// Those of the beginning are in place at once.
    pub(super) fn new(scenario: &Scenario, seed: u64, simulator: &Simulator) -> Self {
        let incidents = scenario.incidents.clone();
        let mut changes: Vec<Duration> = incidents.iter().flat_map(|of| [of.at.0, of.ends()]).collect();
        changes.sort_unstable_by(|one, other| other.cmp(one));
        changes.dedup();
        // With an offer, the nth wipe takes as long in every arm.
        let reinstall = Some(Durations::default().apple_silicon_reinstall);
        let usual = Offer { reinstall, ..Offer::default() };
        let offers: Vec<Offer> =
            [usual].into_iter().chain(scenario.offers.iter().map(super::scenario::Offer::simulated)).collect();
        simulator.set_offers(offers.clone());
        let random = ChaCha8Rng::seed_from_u64(seed ^ 0x5c2e_7a10);
        Self { offers, incidents, changes, reclaims_at: RECLAIM, random }
    }

    /// Puts in place what has changed by now. Returns whether servers went away.
    pub(super) fn pass(&mut self, age: Duration, simulator: &Simulator) -> bool {
        while self.changes.last().is_some_and(|change| *change <= age) {
            let Some(change) = self.changes.pop() else { break };
            self.apply(change, simulator);
        }
        let mut is_reclaimed = false;
        while self.reclaims_at <= age {
            let is_reclaimed_now =
                |it: &&Incident| it.kind == IncidentKind::SpotReclaim && it.lasts_at(self.reclaims_at);
            let reclaiming: Vec<Incident> = self.incidents.iter().filter(is_reclaimed_now).cloned().collect();
            for incident in reclaiming {
                // Of 60 draws in an hour, each spares a server so often that all of them spare the rest.
                let spared = (1.0 - incident.share.unwrap_or(0.0)).powf(RECLAIM.as_secs_f64() / 3_600.0);
                self.force(&incident, 1.0 - spared, ForcedState::Deleted, simulator);
                is_reclaimed = true;
            }
            self.reclaims_at += RECLAIM;
        }
        is_reclaimed
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
                // These are about servers, not about offers and calls.
                IncidentKind::ServersStopped | IncidentKind::SpotReclaim => {}
            }
        }
        simulator.set_offers(offers);
        simulator.set_request_limit(limit.map(|rate| RequestLimit { per_second: rate, burst: rate }));
        let stops = |incident: &&Incident| incident.kind == IncidentKind::ServersStopped && incident.at.0 == age;
        let stopping: Vec<Incident> = self.incidents.iter().filter(stops).cloned().collect();
        for incident in stopping {
            self.force(&incident, incident.share.unwrap_or(0.0), ForcedState::Stopped, simulator);
        }
    }

    /// Puts a share of the running servers of an incident into a state behind our back. A Mac that stops is broken.
    fn force(&mut self, incident: &Incident, share: f64, state: ForcedState, simulator: &Simulator) {
        let is_of = |of: &Option<String>, value: &serde_json::Value| of.as_deref().is_none_or(|of| value == of);
        let resources = simulator.resources();
        let servers = resources.servers.iter().map(|server| (server, "commercial_type", "state", "running", state));
        let broken = if state == ForcedState::Stopped { ForcedState::Error } else { state };
        let hosts = resources.apple_silicon_servers.iter().map(|host| (host, "type", "status", "ready", broken));
        for (server, type_key, state_key, running, state) in servers.chain(hosts) {
            let is_meant = is_of(&incident.zone, &server["zone"]) && is_of(&incident.server_type, &server[type_key]);
            let is_drawn = self.random.random_range(0.0..1.0) < share;
            if let Some(id) = server["id"].as_str()
                && is_meant
                && is_drawn
                && server[state_key] == running
            {
                // It was listed just now.
                let _ = simulator.set_server_state(id, state);
            }
        }
    }
}

/// Which offers and incidents of a scenario are about none of a group's places. Another arm may have them, so these are
/// only told.
pub(super) fn elsewhere(scenario: &Scenario, places: &[(Place, Option<f64>)]) -> Vec<String> {
    let offers = scenario.offers.iter().enumerate();
    let offers = offers.map(|(index, it)| (format!("offer[{index}]"), &it.zone, &it.server_type));
    let incidents = scenario.incidents.iter().enumerate();
    let incidents = incidents.map(|(index, it)| (format!("incident[{index}]"), &it.zone, &it.server_type));
    let used: Vec<String> =
        places.iter().map(|(place, _)| format!("{} in {}", place.server_type, place.zone)).collect();
    let is_elsewhere = |(_, zone, server_type): &(String, &Option<String>, &Option<String>)| {
        !places.iter().any(|(place, _)| is_about(zone, server_type, place))
    };
    let words = |(what, zone, server_type): (String, &Option<String>, &Option<String>)| {
        let about: Vec<&str> = [server_type, zone].into_iter().filter_map(Option::as_deref).collect();
        format!("{what} changes nothing: it is about {}, and the group uses {}", about.join(" in "), used.join(", "))
    };
    offers.chain(incidents).filter(is_elsewhere).map(words).collect()
}

/// What of a scenario means nothing to a group of this kind.
pub(super) fn meaningless(scenario: &Scenario, configuration: &GroupConfiguration) -> Vec<Mistake> {
    let mut problems = Vec::new();
    let mut wrong = |place: String, words: &str| problems.push(problem(&place, words));
    let macs = match configuration {
        GroupConfiguration::AppleSilicon(macs) => macs,
        GroupConfiguration::Instances(instances) => {
            if !scenario.pools.is_empty() {
                wrong("pool".to_owned(), "remove it: a group of instances takes no hosts from a pool");
            }
            let is_about = |of: &Option<String>| of.as_ref().is_none_or(|of| instances.server.types.contains(of));
            for (index, offer) in scenario.offers.iter().enumerate() {
                if offer.reinstall_seconds.is_some() && is_about(&offer.server_type) {
                    wrong(format!("offer[{index}].reinstall_seconds"), "remove it: only Macs are reinstalled");
                }
            }
            return problems;
        }
    };
    let place = macs.place();
    for (index, offer) in scenario.offers.iter().enumerate() {
        if macs.order || !is_about(&offer.zone, &offer.server_type, &place) {
            continue;
        }
        if offer.stock.is_some() {
            wrong(format!("offer[{index}].stock"), &format!("{NO_ORDERS}, so it needs no stock"));
        }
        if offer.boot_seconds.is_some() {
            let words = format!("{NO_ORDERS}; reinstall_seconds is the time of a wipe");
            wrong(format!("offer[{index}].boot_seconds"), &words);
        }
    }
    for (index, incident) in scenario.incidents.iter().enumerate() {
        let words = match incident.kind {
            IncidentKind::ZoneOutOfStock if !macs.order => format!("{NO_ORDERS}, so it needs no stock"),
            IncidentKind::SpotReclaim => "only instances are reclaimed; with servers-stopped, Macs break".to_owned(),
            _ => continue,
        };
        if is_about(&incident.zone, &incident.server_type, &place) {
            wrong(format!("incident[{index}].kind"), &words);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_and_incidents_about_what_the_group_does_not_use_are_told() {
        let text = "hours = 1\n[[demand]]\njobs = [[0, 60]]\n[[offer]]\ntype = 'DEV1-S'\nhourly_price = 0.01\n\
            [[offer]]\ntype = 'DEV1-XXS'\nhourly_price = 0.01\n[[incident]]\nkind = 'api-down'\nat = '0s'\n\
            lasts = '1m'\n[[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-9'\nat = '0s'\nlasts = '1m'\n";
        let place = Place { zone: "fr-par-1".parse().unwrap(), server_type: "DEV1-S".to_owned() };
        let told = elsewhere(&Scenario::parse(text).unwrap(), &[(place, None)]);
        let uses = "and the group uses DEV1-S in fr-par-1";
        let expected = [("offer[1]", "DEV1-XXS"), ("incident[1]", "fr-par-9")];
        assert_eq!(told, expected.map(|(what, about)| format!("{what} changes nothing: it is about {about}, {uses}")));
    }
}
