//! A scenario of what a real group did, from its journal. Nothing of it names a server, an owner or a project.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use windlass_fleeting::{Demand, Incident, IncidentKind, Offer, Scenario, Time};
use windlass_lifecycle::{Entry, Journal, Operation, OperationFilter, OperationKind, OperationState, Phase};

const HOUR: u64 = 3_600_000;
/// The longest job of a scenario, in seconds.
pub(crate) const LONGEST_JOB: u64 = 86_400;
/// Creations that failed for want of stock within this time of each other are one incident.
const SAME_INCIDENT: u64 = 15 * 60_000;

/// The step of a creation in which its server boots.
const WAIT: &str = "wait-until-running";

/// A zone with a server type.
type Place = (String, String);

/// What was seen of a place.
#[derive(Default)]
struct Seen {
    /// How long each server took to boot, in milliseconds.
    took: Vec<u64>,
    /// Creations that failed, other than for want of stock.
    failed: usize,
    /// When nothing was left, in milliseconds since 1970.
    out_of_stock: Vec<u64>,
}

/// The scenario of what a group did between two times, in milliseconds since 1970, from its journal. See [`recorded`].
///
/// # Errors
/// The journal cannot be read.
pub fn recorded_from(
    journal: &Journal,
    group: Option<&str>,
    from: u64,
    to: u64,
) -> Result<Option<Scenario>, windlass_lifecycle::Error> {
    let mut filter = OperationFilter::default();
    filter.group = group.map(str::to_owned);
    let operations = journal.operations(&filter)?;
    let boot = |creation: &Operation| journal.entries(&creation.id).ok().and_then(|entries| boot_time(&entries));
    Ok(recorded(&operations, &boot, from, to))
}

/// From power-on until the server ran, in milliseconds: what else a creation takes, a rehearsal adds itself.
fn boot_time(entries: &[Entry]) -> Option<u64> {
    let at = |phase| entries.iter().rfind(|entry| entry.step == WAIT && entry.phase == phase).map(|entry| entry.at);
    at(Phase::Outcome)?.checked_sub(at(Phase::Intent)?)
}

/// The scenario of the operations between two times, in milliseconds since 1970. It begins at the full hour before.
/// `boot` says how long a creation's server took to boot, where that is known.
///
/// Each server that was created is a job, from its creation to its removal: the journal knows no jobs. So it is true of
/// groups with `max_use_count = 1`. Of a server that is still there the job ends with the scenario. None: no server was
/// created.
#[must_use]
pub fn recorded(
    operations: &[Operation],
    boot: &dyn Fn(&Operation) -> Option<u64>,
    from: u64,
    to: u64,
) -> Option<Scenario> {
    let start = from - from % HOUR;
    let hours = u32::try_from(to.saturating_sub(start).div_ceil(HOUR)).unwrap_or(u32::MAX);
    let removed: BTreeMap<&str, u64> = operations
        .iter()
        .filter(|operation| operation.kind == OperationKind::CleanupServer)
        .map(|operation| (operation.id.as_str(), operation.created_at))
        .collect();
    let (mut jobs, mut server_hours) = (Vec::new(), 0.0);
    let mut places: BTreeMap<Place, Seen> = BTreeMap::new();
    let is_creation = |operation: &&Operation| {
        operation.kind == OperationKind::CreateServer && (from..to).contains(&operation.created_at)
    };
    for creation in operations.iter().filter(is_creation) {
        let Some(first_type) = creation.specification["types"][0].as_str() else { continue };
        let seen = places.entry((creation.zone.clone(), first_type.to_owned())).or_default();
        match (creation.state, creation.ended_at) {
            (OperationState::Done, Some(ended)) => {
                seen.took.push(boot(creation).unwrap_or_else(|| ended.saturating_sub(creation.created_at)));
                let removal = creation.ended_by.as_ref().and_then(|by| removed.get(by.as_str()));
                let removal = removal.copied().unwrap_or(to);
                let length = removal.saturating_sub(ended) / 1_000;
                server_hours += removal.saturating_sub(creation.created_at) as f64 / HOUR as f64;
                jobs.push(((creation.created_at - start) / 1_000, length.clamp(1, LONGEST_JOB)));
            }
            _ => match creation.cause.as_ref().and_then(|cause| cause["failure"]["class"].as_str()) {
                Some("out-of-stock") => seen.out_of_stock.push(creation.created_at),
                Some(_) => {
                    seen.failed += 1;
                    let ended = creation.ended_at.unwrap_or(creation.created_at);
                    server_hours += ended.saturating_sub(creation.created_at) as f64 / HOUR as f64;
                }
                // It was called off.
                None => {}
            },
        }
    }
    if jobs.is_empty() {
        return None;
    }
    jobs.sort_unstable();
    let failures = places.values().map(|seen| seen.failed + seen.out_of_stock.len()).sum::<usize>();
    let observed = [
        ("server_hours", (server_hours * 1_000.0).round() / 1_000.0),
        ("creations", (jobs.len() + failures) as f64),
        ("failures", failures as f64),
    ];
    let starts_at = Timestamp::from_millisecond(i64::try_from(start).ok()?).ok()?;
    let scenario = listed("recorded from a journal", starts_at, hours, jobs);
    let offers = places.iter().filter_map(|(place, seen)| offer(place, seen)).collect();
    let incidents = places.iter().flat_map(|(place, seen)| shortages(place, seen, start, to)).collect();
    let observed = observed.map(|(name, value)| (name.to_owned(), value)).into();
    Some(Scenario { offers, incidents, observed, ..scenario })
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

/// How servers of a place started. Times are drawn evenly from the shortest to the longest: so that nine of ten are from
/// the fifth to the ninety-fifth percentile of those that were seen, the ends are a little beyond.
fn offer((zone, server_type): &Place, seen: &Seen) -> Option<Offer> {
    let mut took = seen.took.clone();
    took.sort_unstable();
    let (low, high) = (percentile(&took, 5)?, percentile(&took, 95)?);
    let beyond = (high - low) / 18;
    let seconds = |milliseconds: u64| u32::try_from((milliseconds + 500) / 1_000).ok();
    let failed = seen.failed as f64 / (took.len() + seen.failed).max(1) as f64;
    Some(Offer {
        zone: Some(zone.clone()),
        server_type: Some(server_type.clone()),
        boot_seconds: Some((seconds(low.saturating_sub(beyond))?, seconds(high + beyond)?)),
        failed_boots: (seen.failed > 0).then_some((failed * 1_000.0).round() / 1_000.0),
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
        let scenario = recorded(&operations, &|_| None, from, to).unwrap();
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
        assert_eq!(boot_time(&[other.clone(), intent.clone(), done]), Some(40_000));
        assert_eq!(boot_time(&[other, intent]), None);
        let booted = recorded(
            &[operation(1, "create-server", 10, json!({"ended_at": START + 11 * MINUTE}))],
            &|_| Some(40_000),
            START,
            START + HOUR,
        );
        assert_eq!(booted.unwrap().offers[0].boot_seconds, Some((40, 40)));
    }

    #[test]
    fn a_journal_without_creations_makes_no_scenario() {
        assert_eq!(recorded(&[operation(3, "cleanup-server", 31, json!({}))], &|_| None, START, START + HOUR), None);
    }
}
