//! What stands now: what the servers cost, and why nothing is created. Events are counted where they happen; those that
//! an alert waits for are counted from 0 here, since a counter that first shows up as 1 looks to Prometheus as if it had
//! not risen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;

use super::names;
use crate::group::Place;

/// Counters of other crates that alerts wait for, without labels.
const AWAITED: [&str; 3] =
    ["windlass_decision_records_lost_total", "windlass_leaks_found_total", "windlass_left_behind_total"];

/// Sets the gauges of a group. It remembers which series it has set: what is not there any more becomes 0, or it would
/// keep its last value for ever.
#[derive(Default)]
pub(crate) struct Gauges {
    /// Euros for an hour.
    prices: BTreeMap<Place, f64>,
    places: Mutex<BTreeSet<Place>>,
    /// The class of the failure for which nothing is created at a place.
    paused: Mutex<BTreeMap<Place, String>>,
}

impl Gauges {
    /// The gauges of a group whose places have these prices, in euros per hour. A place without a price adds nothing to
    /// the known cost.
    pub(crate) fn new(prices: BTreeMap<Place, f64>) -> Self {
        for outcome in ["done", "failed"] {
            metrics::counter!(names::CREATIONS, "outcome" => outcome).increment(0);
        }
        for outcome in ["done", "left", "failed"] {
            metrics::counter!(names::CLEANUPS, "outcome" => outcome).increment(0);
        }
        for counter in [names::REAPS, names::INCREASES_PAUSED].into_iter().chain(AWAITED) {
            metrics::counter!(counter).increment(0);
        }
        metrics::gauge!(names::LEFT).set(0.0);
        let prices = prices.into_iter().filter(|(_, price)| price.is_finite() && *price > 0.0).collect();
        Self { prices, ..Self::default() }
    }

    /// The group's servers in a zone, by the types of each.
    pub(crate) fn servers<'a>(&self, zone: &Zone, types: impl Iterator<Item = &'a str>) {
        let mut counts: BTreeMap<Place, u32> = BTreeMap::new();
        for server_type in types {
            let place = Place { zone: zone.clone(), server_type: server_type.to_owned() };
            *counts.entry(place).or_default() += 1;
        }
        let mut shown = self.places.lock();
        shown.extend(counts.keys().cloned());
        for place in shown.iter().filter(|place| place.zone == *zone) {
            let count = f64::from(counts.get(place).copied().unwrap_or_default());
            let labels = || [("zone", place.zone.to_string()), ("type", place.server_type.clone())];
            metrics::gauge!(names::SERVERS, &labels()).set(count);
            if let Some(price) = self.prices.get(place) {
                metrics::gauge!(names::COST, &labels()).set(count * price);
            }
        }
    }

    /// Nothing is created at a place for so long from `now` on, in milliseconds since 1970, because of a failure of
    /// this class.
    pub(crate) fn paused(&self, place: &Place, class: FailureClass, now: u64, rest: Duration) {
        let until = now.saturating_add(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        let class = match serde_json::to_value(class) {
            Ok(serde_json::Value::String(word)) => word,
            _ => "other".to_owned(),
        };
        let before = self.paused.lock().insert(place.clone(), class.clone()).filter(|before| *before != class);
        if let Some(before) = before {
            paused_until(place, before, 0.0);
        }
        paused_until(place, class, until as f64 / 1000.0);
    }

    /// A creation went well: there is no pause at its place.
    pub(crate) fn unpaused(&self, place: &Place) {
        if let Some(before) = self.paused.lock().remove(place) {
            paused_until(place, before, 0.0);
        }
    }
}

fn paused_until(place: &Place, class: String, seconds: f64) {
    let (zone, server_type) = (place.zone.to_string(), place.server_type.clone());
    metrics::gauge!(names::PAUSED_UNTIL, "zone" => zone, "type" => server_type, "class" => class).set(seconds);
}

#[cfg(test)]
mod tests {
    use windlass_telemetry::Metrics;

    use super::*;

    /// What is served after this work.
    fn served(work: impl FnOnce()) -> String {
        let counted = Metrics::new();
        metrics::with_local_recorder(&counted, work);
        counted.render()
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|served| served == line)
    }

    fn place(zone: &str, server_type: &str) -> Place {
        Place { zone: zone.parse().unwrap(), server_type: server_type.to_owned() }
    }

    fn series(name: &str, zone: &str, server_type: &str, value: u32) -> String {
        format!(r#"windlass_fleeting_{name}{{zone="{zone}",type="{server_type}"}} {value}"#)
    }

    #[test]
    fn servers_cost_what_their_zones_list_says_and_a_type_that_is_gone_costs_nothing() {
        let here: Zone = "fr-par-1".parse().unwrap();
        let text = served(|| {
            let prices = [(place("fr-par-1", "DEV1-S"), 0.5), (place("fr-par-1", "NEW"), f64::NAN)];
            let gauges = Gauges::new(prices.into());
            gauges.servers(&here, ["DEV1-S", "NEW", "DEV1-S"].into_iter());
        });
        assert!(has(&text, &series("servers", "fr-par-1", "DEV1-S", 2)), "{text}");
        assert!(has(&text, &series("cost_euros_per_hour", "fr-par-1", "DEV1-S", 1)), "{text}");
        assert!(has(&text, &series("servers", "fr-par-1", "NEW", 1)), "{text}");
        assert!(!text.contains(r#"euros_per_hour{zone="fr-par-1",type="NEW"}"#), "{text}");

        let text = served(|| {
            let prices = ["fr-par-1", "fr-par-2"].map(|zone| (place(zone, "DEV1-S"), 0.5));
            let gauges = Gauges::new(prices.into());
            gauges.servers(&here, ["DEV1-S"].into_iter());
            gauges.servers(&"fr-par-2".parse().unwrap(), ["DEV1-S", "DEV1-S"].into_iter());
            gauges.servers(&here, std::iter::empty());
        });
        assert!(has(&text, &series("servers", "fr-par-1", "DEV1-S", 0)), "{text}");
        assert!(has(&text, &series("cost_euros_per_hour", "fr-par-1", "DEV1-S", 0)), "{text}");
        assert!(has(&text, &series("servers", "fr-par-2", "DEV1-S", 2)), "another zone is not looked at: {text}");
    }

    #[test]
    fn only_the_last_reason_of_a_pause_is_shown_and_none_after_a_success() {
        let line = |zone: &str, class: &str, until: u64| {
            format!(
                "windlass_fleeting_paused_until_timestamp_seconds{{zone=\"{zone}\",type=\"DEV1-S\",class=\"{class}\"}} \
                 {until}"
            )
        };
        let (here, there) = (place("fr-par-1", "DEV1-S"), place("fr-par-2", "DEV1-S"));
        let text = served(|| {
            let gauges = Gauges::default();
            gauges.paused(&here, FailureClass::OutOfStock, 0, Duration::from_secs(60));
            gauges.paused(&here, FailureClass::QuotaExceeded, 0, Duration::from_secs(90));
        });
        let (out_of_stock, quota) = (line("fr-par-1", "out-of-stock", 0), line("fr-par-1", "quota-exceeded", 90));
        assert!(has(&text, &out_of_stock) && has(&text, &quota), "{text}");
        let text = served(|| {
            let gauges = Gauges::default();
            gauges.paused(&here, FailureClass::OutOfStock, 0, Duration::from_secs(60));
            gauges.paused(&there, FailureClass::OutOfStock, 0, Duration::from_secs(60));
            gauges.unpaused(&here);
        });
        assert!(has(&text, &out_of_stock), "{text}");
        assert!(has(&text, &line("fr-par-2", "out-of-stock", 60)), "one place says nothing of another: {text}");
    }

    #[test]
    fn what_alerts_wait_for_is_counted_from_nothing() {
        let text = served(|| drop(Gauges::new(BTreeMap::new())));
        for line in [
            r#"windlass_fleeting_creations_total{outcome="failed"} 0"#,
            r#"windlass_fleeting_cleanups_total{outcome="left"} 0"#,
            "windlass_fleeting_reaps_total 0",
            "windlass_left_behind_total 0",
            "windlass_fleeting_left 0",
        ] {
            assert!(has(&text, line), "{line}: {text}");
        }
    }
}
