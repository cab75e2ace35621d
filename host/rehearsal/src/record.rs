//! A scenario of what a real group did, from its journal. Nothing of it names a server, an owner or a project.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use windlass_fleeting::{Demand, Incident, IncidentKind, Offer, Pool, Scenario, Time};
use windlass_lifecycle::{Entry, Journal, Operation, OperationFilter, OperationKind, OperationState, Phase, Requester};

pub(crate) const HOUR: u64 = 3_600_000;
/// The longest job of a scenario, in seconds.
pub(crate) const LONGEST_JOB: u64 = 86_400;
/// Creations that failed for want of stock within this time of each other are one incident.
const SAME_INCIDENT: u64 = 15 * 60_000;

/// The step of a creation in which its server boots.
const WAIT: &str = "wait-until-running";
/// The step of a release in which its host is wiped.
const REINSTALL: &str = "reinstall";
/// The note of a release or an order that its host is no longer busy.
const SETTLED: &str = "settled";
pub(crate) const OUT_OF_STOCK: &str = "out-of-stock";

/// A zone with a server type.
pub(crate) type Place = (String, String);

/// What was seen of a place.
#[derive(Default)]
struct Seen {
    /// How long each server took to boot, and each ordered host until it was ready, in milliseconds.
    boots: Vec<u64>,
    /// How long each wipe took.
    wipes: Vec<u64>,
    /// Creations that failed, other than for want of stock, and hosts that broke.
    failed: usize,
    /// When nothing was left, in milliseconds since 1970.
    out_of_stock: Vec<u64>,
}

/// What was seen of all places.
#[derive(Default)]
pub(crate) struct Places(BTreeMap<Place, Seen>);

impl Places {
    fn of(&mut self, zone: &str, server_type: &str) -> &mut Seen {
        self.0.entry((zone.to_owned(), server_type.to_owned())).or_default()
    }

    /// Nothing was left of a type at this time.
    pub(crate) fn lacks(&mut self, zone: &str, server_type: &str, at: u64) {
        self.of(zone, server_type).out_of_stock.push(at);
    }

    /// Takes in how a creation or an order went, by the entries of its operation.
    pub(crate) fn take_in(&mut self, creation: &Operation, entries: &[Entry]) {
        let zone = creation.zone.as_str();
        let mut server_type = wanted_type(creation).unwrap_or_default();
        let mut is_short = false;
        for entry in entries {
            match entry.phase {
                Phase::Intent => server_type = entry.data["type"].as_str().unwrap_or(server_type),
                Phase::Failure if entry.data["failure"]["class"] == OUT_OF_STOCK => {
                    self.lacks(zone, server_type, entry.at);
                    is_short = true;
                }
                _ => {}
            }
        }
        let seen = self.of(zone, server_type);
        match (creation.state, creation.ended_at, failure_class(creation)) {
            (OperationState::Done, Some(ended), _) => match creation.kind {
                OperationKind::OrderMachine => seen.settle(entries, creation.created_at, |seen| &mut seen.boots),
                _ => seen.boots.push(boot_time(entries).unwrap_or(ended.saturating_sub(creation.created_at))),
            },
            (_, _, Some(OUT_OF_STOCK)) if !is_short => seen.out_of_stock.push(creation.created_at),
            // It was called off.
            (_, _, Some(OUT_OF_STOCK | "cancelled") | None) => {}
            _ => seen.failed += 1,
        }
    }

    /// What differs from the simulator, and when nothing was left, until the end of the time that was recorded.
    pub(crate) fn offers_and_incidents(&self, start: u64, to: u64) -> (Vec<Offer>, Vec<Incident>) {
        let offers = self.0.iter().filter_map(|(place, seen)| offer(place, seen)).collect();
        (offers, self.0.iter().flat_map(|(place, seen)| shortages(place, seen, start, to)).collect())
    }
}

impl Seen {
    /// Takes in when a host that was busy from this time on was ready, or broken.
    fn settle(&mut self, entries: &[Entry], from: u64, times: fn(&mut Self) -> &mut Vec<u64>) {
        let Some(settled) = entries.iter().find(|entry| entry.step == SETTLED && entry.at >= from) else { return };
        if settled.data["status"] != "ready" {
            self.failed += 1;
        } else if let Some(busy_at) = settled.data["busy-at"].as_u64() {
            // It was between two listings.
            times(self).push((busy_at.max(from) + settled.at) / 2 - from);
        }
    }
}

/// Why an operation failed.
fn failure_class(operation: &Operation) -> Option<&str> {
    operation.cause.as_ref()?["failure"]["class"].as_str()
}

/// The first server type that a creation wanted, or the type of the host that a claim or an order wanted.
fn wanted_type(operation: &Operation) -> Option<&str> {
    let places = ["/types/0", "/pool/machine_type", "/machine_type"];
    places.into_iter().find_map(|place| operation.specification.pointer(place)?.as_str())
}

/// From power-on until the server ran, in milliseconds: what else a creation takes, a rehearsal adds itself.
fn boot_time(entries: &[Entry]) -> Option<u64> {
    let at = |phase| entries.iter().rfind(|entry| entry.step == WAIT && entry.phase == phase).map(|entry| entry.at);
    at(Phase::Outcome)?.checked_sub(at(Phase::Intent)?)
}

/// When the machine of each operation in it was removed or released, by the id of the operation that did it.
pub(crate) fn removals(operations: &[Operation]) -> BTreeMap<&str, u64> {
    let removes =
        |operation: &&Operation| matches!(operation.kind, OperationKind::CleanupServer | OperationKind::ReleaseMachine);
    operations.iter().filter(removes).map(|operation| (operation.id.as_str(), operation.created_at)).collect()
}

/// Until when there was what an operation made, as far as the journal knows.
pub(crate) fn removed_at(operation: &Operation, removals: &BTreeMap<&str, u64>) -> Option<u64> {
    removals.get(operation.ended_by.as_ref()?.as_str()).copied()
}

pub(crate) fn hours(milliseconds: u64) -> f64 {
    milliseconds as f64 / HOUR as f64
}

pub(crate) fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// The scenario of what a group did between two times, in milliseconds since 1970, from its journal. See [`recorded`].
/// Absent: every group. What clusters did is left out.
///
/// # Errors
/// The journal cannot be read.
pub fn recorded_from(
    journal: &Journal,
    group: Option<&str>,
    from: u64,
    to: u64,
) -> Result<Option<Scenario>, windlass_lifecycle::Error> {
    let mut operations = journal.operations(&OperationFilter::default())?;
    operations.retain(|operation| {
        let by = operation.requested_by();
        let of_machine = by.as_ref().and_then(|by| by.group.as_ref()).map(|group| group.as_str());
        let is_of_cluster = by.as_ref().is_some_and(|by| matches!(by.requester, Requester::Cluster { .. }));
        !is_of_cluster && group.is_none_or(|group| operation.group == group || of_machine == Some(group))
    });
    let entries = |operation: &Operation| journal.entries(&operation.id).unwrap_or_default();
    Ok(recorded(&operations, &entries, from, to))
}

/// The scenario of the operations between two times, in milliseconds since 1970. It begins at the full hour before.
/// `entries` are those of an operation.
///
/// Each server that was created, and each host that was claimed or ordered, is a job, until its removal or release: the
/// journal knows no jobs. So it is true of groups with `max_use_count = 1`. Of a machine that is still there the job
/// ends with the scenario. None: there was no machine.
#[must_use]
pub fn recorded(
    operations: &[Operation],
    entries: &dyn Fn(&Operation) -> Vec<Entry>,
    from: u64,
    to: u64,
) -> Option<Scenario> {
    let start = from - from % HOUR;
    let length = u32::try_from(to.saturating_sub(start).div_ceil(HOUR)).unwrap_or(u32::MAX);
    let removals = removals(operations);
    let is_during = |operation: &&Operation| (from..to).contains(&operation.created_at);
    let (mut jobs, mut lived, mut failures) = (Vec::new(), 0, 0);
    let (mut places, mut pools) = (Places::default(), Pools::default());
    let mut has_orders = false;
    for operation in operations.iter().filter(|operation| operation.kind.acquires()) {
        let Some(machine_type) = wanted_type(operation) else { continue };
        let removed = removed_at(operation, &removals);
        let is_claim = operation.kind == OperationKind::AdoptMachine;
        if is_claim {
            // Also earlier ones: their hosts may still be claimed.
            pools.take_in(operation, machine_type, &entries(operation), removed);
        }
        if !is_during(&operation) {
            continue;
        }
        if !is_claim {
            places.take_in(operation, &entries(operation));
        }
        has_orders |= operation.kind == OperationKind::OrderMachine;
        let removed = removed.unwrap_or(to);
        match (operation.state, operation.ended_at) {
            (OperationState::Done, Some(ended)) => {
                let length = removed.saturating_sub(ended) / 1_000;
                lived += removed.saturating_sub(operation.created_at);
                jobs.push(((operation.created_at - start) / 1_000, length.clamp(1, LONGEST_JOB)));
            }
            (_, ended) => {
                // Without a class it was called off.
                let Some(class) = failure_class(operation) else { continue };
                failures += 1;
                let ended = ended.filter(|_| class != OUT_OF_STOCK).unwrap_or(operation.created_at);
                lived += ended.saturating_sub(operation.created_at);
            }
        }
    }
    if jobs.is_empty() {
        return None;
    }
    for release in operations.iter().filter(is_during).filter(|it| it.kind == OperationKind::ReleaseMachine) {
        let entries = entries(release);
        let wiped = entries.iter().rfind(|entry| entry.step == REINSTALL && entry.phase == Phase::Intent);
        if let (Some(wiped), Some((zone, machine_type))) = (wiped, pools.released.get(release.id.as_str())) {
            places.of(zone, machine_type).settle(&entries, wiped.at, |seen| &mut seen.wipes);
        }
    }
    jobs.sort_unstable();
    let pools = pools.sizes(from, to);
    let hosts: u32 = pools.iter().map(|pool| pool.hosts).sum();
    let observed = match pools.is_empty() {
        // The journal knows neither the claims that found no host, nor until when an ordered one cost.
        _ if has_orders => vec![],
        false => vec![("server_hours", f64::from(hosts) * f64::from(length))],
        true => vec![
            ("server_hours", thousandths(hours(lived))),
            ("creations", (jobs.len() + failures) as f64),
            ("failures", failures as f64),
        ],
    };
    let starts_at = Timestamp::from_millisecond(i64::try_from(start).ok()?).ok()?;
    let scenario = listed("recorded from a journal", starts_at, length, jobs);
    let (offers, incidents) = places.offers_and_incidents(start, to);
    let observed = observed.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Some(Scenario { offers, pools, incidents, observed, ..scenario })
}

/// A host of a pool, while it was claimed.
struct Claim {
    host: String,
    began: u64,
    claimed: u64,
    released: u64,
    /// How many hosts the pool had beside those that were claimed.
    others: u64,
}

/// The claims of hosts, by pool.
#[derive(Default)]
struct Pools<'o> {
    claims: BTreeMap<Place, Vec<Claim>>,
    /// By the operation that released it, where a host is.
    released: BTreeMap<&'o str, Place>,
}

impl<'o> Pools<'o> {
    fn take_in(&mut self, claim: &'o Operation, machine_type: &str, entries: &[Entry], released: Option<u64>) {
        let place = (claim.zone.clone(), machine_type.to_owned());
        let host = entries.iter().rev().find_map(|entry| entry.resource.as_ref());
        if let (OperationState::Done, Some(claimed), Some(host)) = (claim.state, claim.ended_at, host) {
            let others = claim.specification["in_pool"].as_u64().unwrap_or_default();
            let (host, began, released) = (host.id.clone(), claim.created_at, released.unwrap_or(u64::MAX));
            self.claims.entry(place.clone()).or_default().push(Claim { host, began, claimed, released, others });
        }
        self.released.extend(claim.ended_by.as_ref().map(|by| (by.as_str(), place)));
    }

    /// As many hosts as there were at once when one was claimed, and at least those that were.
    fn sizes(&self, from: u64, to: u64) -> Vec<Pool> {
        let size = |(place, claims): (&Place, &Vec<Claim>)| {
            let during: Vec<&Claim> = claims.iter().filter(|it| it.began < to && it.released >= from).collect();
            let used: BTreeSet<&str> = during.iter().map(|claim| claim.host.as_str()).collect();
            let at_once = during.iter().filter(|claim| claim.began >= from).map(|claim| {
                let claimed = claims.iter().filter(|it| (it.claimed..it.released).contains(&claim.began)).count();
                usize::try_from(claim.others).unwrap_or_default() + claimed
            });
            let hosts = at_once.max().unwrap_or_default().max(used.len());
            let (zone, server_type) = place.clone();
            let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
            Pool { zone: Some(zone), server_type: Some(server_type), hosts, age: None }
        };
        self.claims.iter().map(size).filter(|pool| pool.hosts > 0).collect()
    }
}

/// The scenario of these jobs, in UTC.
pub(crate) fn listed(title: &str, starts_at: Timestamp, hours: u32, jobs: Vec<(u64, u64)>) -> Scenario {
    Scenario {
        title: title.to_owned(),
        hours,
        starts_at: Some(TimeZone::UTC.to_datetime(starts_at)),
        time_zone: Some("UTC".to_owned()),
        demand: vec![Demand { jobs, ..Demand::default() }],
        ..Scenario::default()
    }
}

/// The value that so many percent of these are not above. They are in order.
pub(crate) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1).copied()
}

/// The shortest and the longest of these times, in seconds. A rehearsal draws evenly between them: so that nine of ten
/// are from the fifth to the ninety-fifth percentile of those that were seen, the ends are a little beyond.
pub(crate) fn span(mut took: Vec<u64>) -> Option<(u32, u32)> {
    took.sort_unstable();
    let (low, high) = (percentile(&took, 5)?, percentile(&took, 95)?);
    let beyond = (high - low) / 18;
    let seconds = |milliseconds: u64| u32::try_from((milliseconds + 500) / 1_000).ok();
    Some((seconds(low.saturating_sub(beyond))?, seconds(high + beyond)?))
}

/// How servers of a place started, and hosts were wiped.
fn offer((zone, server_type): &Place, seen: &Seen) -> Option<Offer> {
    let (boot_seconds, reinstall_seconds) = (span(seen.boots.clone()), span(seen.wipes.clone()));
    let all = seen.boots.len() + seen.wipes.len() + seen.failed;
    (boot_seconds.is_some() || reinstall_seconds.is_some()).then(|| Offer {
        zone: Some(zone.clone()),
        server_type: Some(server_type.clone()),
        boot_seconds,
        reinstall_seconds,
        failed_boots: (seen.failed > 0).then(|| thousandths(seen.failed as f64 / all as f64)),
        ..Offer::default()
    })
}

/// When nothing was left of a place.
fn shortages((zone, server_type): &Place, seen: &Seen, start: u64, to: u64) -> Vec<Incident> {
    let mut times = seen.out_of_stock.clone();
    times.sort_unstable();
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for at in times {
        match spans.last_mut() {
            Some((_, last)) if at - *last <= SAME_INCIDENT => *last = at,
            _ => spans.push((at, at)),
        }
    }
    let seconds = |milliseconds: u64| Time(Duration::from_secs(milliseconds / 1_000));
    let incident = |(first, last): (u64, u64)| Incident {
        kind: IncidentKind::ZoneOutOfStock,
        at: seconds(first - start),
        // Until it would have been seen again, had it lasted.
        lasts: Some(seconds((last - first + SAME_INCIDENT / 3).min(to - first))),
        zone: Some(zone.clone()),
        server_type: Some(server_type.clone()),
        factor: None,
        share: None,
        calls_per_second: None,
    };
    spans.into_iter().map(incident).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The start of an hour.
    const START: u64 = 1_785_751_200_000;
    const MINUTE: u64 = 60_000;

    fn operation(number: u64, kind: &str, began: u64, more: Value) -> Operation {
        let mut fields = json!({
            "id": format!("ci-{number:012}"), "kind": kind, "group": "secret-group", "zone": "fr-par-1",
            "owner": "secret-owner", "specification": {"types": ["DEV1-S"], "name": "secret-name"}, "policies": {},
            "runner": "secret-host", "state": "done", "cause": null, "reasons": [], "report": null, "ended_by": null,
            "created_at": START + began * MINUTE, "updated_at": START,
        });
        for (key, value) in more.as_object().unwrap() {
            fields[key] = value.clone();
        }
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn servers_become_jobs_and_failures_become_offers_and_incidents_without_a_name() {
        let short = json!({"state": "undone", "cause": {"failure": {"class": "out-of-stock"}}});
        let other = json!({"state": "undone", "cause": {"failure": {"class": "timeout"}}});
        let operations = [
            operation(1, "create-server", 10, json!({"ended_at": START + 11 * MINUTE, "ended_by": "ci-000000000003"})),
            operation(2, "create-server", 20, json!({"ended_at": START + 20 * MINUTE + 30_000})),
            operation(3, "cleanup-server", 31, json!({})),
            operation(4, "create-server", 40, short.clone()),
            operation(5, "create-server", 50, short),
            operation(6, "create-server", 60, other),
            operation(7, "create-server", 300, json!({"ended_at": START + 301 * MINUTE})),
        ];
        let (from, to) = (START + 5 * MINUTE, START + 110 * MINUTE);
        let scenario = recorded(&operations, &|_| Vec::new(), from, to).unwrap();
        assert_eq!(scenario.hours, 2);
        assert_eq!(scenario.demand[0].jobs, [(600, 1_200), (1_200, 89 * 60 + 30)]);
        let offer = &scenario.offers[0];
        assert_eq!((offer.boot_seconds, offer.failed_boots), (Some((28, 62)), Some(0.333)));
        let [incident] = scenario.incidents.as_slice() else { panic!("{:?}", scenario.incidents) };
        assert_eq!((incident.at.to_string(), incident.lasts.unwrap().to_string()), ("40m".into(), "15m".into()));
        let observed = [("creations", 5.0), ("failures", 3.0), ("server_hours", 1.85)];
        assert_eq!(scenario.observed, observed.map(|(name, value)| (name.to_owned(), value)).into());
        let text = scenario.to_toml().unwrap();
        assert_eq!(Scenario::parse(&text).unwrap(), scenario);
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn a_boot_is_the_wait_until_the_server_runs() {
        let entry = |step: &str, phase: &str, at: u64| -> Entry {
            let fields = json!({"step": step, "phase": phase, "resource": null, "data": {}, "at": at});
            serde_json::from_value(fields).unwrap()
        };
        let (intent, done) = (entry(WAIT, "intent", 1_000), entry(WAIT, "outcome", 41_000));
        let other = entry("create-server", "intent", 500);
        assert_eq!(boot_time(&[other.clone(), intent.clone(), done.clone()]), Some(40_000));
        assert_eq!(boot_time(&[other, intent.clone()]), None);
        let booted = recorded(
            &[operation(1, "create-server", 10, json!({"ended_at": START + 11 * MINUTE}))],
            &|_| vec![intent.clone(), done.clone()],
            START,
            START + HOUR,
        );
        assert_eq!(booted.unwrap().offers[0].boot_seconds, Some((40, 40)));
    }

    #[test]
    fn a_journal_without_creations_makes_no_scenario() {
        assert_eq!(
            recorded(&[operation(3, "cleanup-server", 31, json!({}))], &|_| Vec::new(), START, START + HOUR),
            None
        );
    }
}
