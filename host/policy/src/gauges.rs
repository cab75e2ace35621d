//! How the policies of a host are doing, as metrics. They say what [`HostStatus`] says, whenever that changes.

use std::collections::BTreeSet;

use crate::configuration::Mode;
use crate::host_status::{HostStatus, LinkStatus};
use crate::metric_names::{BRAKES, FAILURES, FILES_REFUSED, INFO, LOADED};

/// Sets the gauges of a host. It remembers which it has set: one whose labels no link has any more ends, or it would
/// keep its last value for ever.
#[derive(Default)]
pub(crate) struct Gauges {
    shown: BTreeSet<Labels>,
}

/// The labels of one link of a chain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    slot: &'static str,
    position: String,
    policy: String,
    version: String,
    digest: String,
    mode: &'static str,
}

impl Labels {
    fn of(link: &LinkStatus) -> Labels {
        Labels {
            slot: link.policy.slot.as_str(),
            position: link.position.to_string(),
            policy: link.policy.name.to_string(),
            version: link.policy.version.to_string(),
            digest: link.policy.digest().short(),
            mode: if link.suspended { "suspended" } else { link.mode.as_str() },
        }
    }

    fn set(&self, value: f64) {
        let Labels { slot, position, policy, version, digest, mode } = self.clone();
        metrics::gauge!(
            INFO,
            "slot" => slot, "position" => position, "policy" => policy, "version" => version, "digest" => digest,
            "mode" => mode,
        )
        .set(value);
    }

    fn set_loaded(&self, seconds: f64) {
        metrics::gauge!(LOADED, "slot" => self.slot, "position" => self.position.clone()).set(seconds);
    }
}

impl Gauges {
    /// Shows which policies are in force, since when, and whether files of policies are refused.
    pub(crate) fn show(&mut self, status: &HostStatus) {
        let links: BTreeSet<Labels> = status.links.iter().map(Labels::of).collect();
        // What is no number is no gauge any more.
        for gone in self.shown.difference(&links) {
            gone.set(f64::NAN);
            gone.set_loaded(f64::NAN);
        }
        for link in &status.links {
            let labels = Labels::of(link);
            labels.set(1.0);
            // Of what an object brings, nobody notes when.
            if link.loaded_at_ms > 0 {
                labels.set_loaded(link.loaded_at_ms as f64 / 1000.0);
            }
            // Counted from 0: a counter that first shows up as 1 looks to Prometheus as if it had not risen. Not of
            // tenants' policies, whose names are theirs to choose and to change.
            if link.mode == Mode::Decide && !link.policy.is_from_tenant() {
                for counter in [BRAKES, FAILURES] {
                    let policy = labels.policy.clone();
                    metrics::counter!(counter, "slot" => labels.slot, "policy" => policy).increment(0);
                }
            }
        }
        let refused = status.links.iter().filter(|link| link.error.is_some()).count();
        metrics::gauge!(FILES_REFUSED).set(refused as f64);
        self.shown = links;
    }
}

#[cfg(test)]
mod tests {
    use windlass_telemetry::Metrics;

    use super::*;

    fn link(position: usize, name: &str) -> LinkStatus {
        let digest = "ab".repeat(32);
        serde_json::from_value(serde_json::json!({
            "slot": "retry", "position": position, "mode": "decide",
            "policy": {"slot": "retry", "name": name, "version": "1.2.3", "component": digest, "settings": digest},
            "summary": "", "source": "", "loaded-at-ms": 1500, "suspended": false, "failures-in-a-row": 0,
            "last-failure": null, "error": null,
        }))
        .unwrap()
    }

    /// What is served after each of these states of the chain.
    fn served(states: &[Vec<LinkStatus>]) -> Vec<String> {
        let (metrics, mut gauges) = (Metrics::new(), Gauges::default());
        let served = states.iter().map(|links| {
            let status = HostStatus { links: links.clone(), lost_records: 0, dropped_records: 0 };
            metrics::with_local_recorder(&metrics, || gauges.show(&status));
            metrics.render()
        });
        served.collect()
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|served| served == line), "{line} is not in:\n{text}");
    }

    fn info(position: usize, policy: &str, mode: &str) -> String {
        format!(
            "windlass_policy_info{{slot=\"retry\",position=\"{position}\",policy=\"{policy}\",version=\"1.2.3\",\
             digest=\"abababababab\",mode=\"{mode}\"}} 1"
        )
    }

    #[test]
    fn a_policy_that_was_replaced_is_not_shown_any_more() {
        let suspended = LinkStatus { suspended: true, ..link(0, "second") };
        let beside = LinkStatus { mode: Mode::Shadow, ..link(1, "beside") };
        let texts = served(&[vec![link(0, "first"), link(1, "beside")], vec![suspended, beside]]);
        has(&texts[0], &info(0, "first", "decide"));
        has(&texts[0], &info(1, "beside", "decide"));
        has(&texts[1], &info(0, "second", "suspended"));
        has(&texts[1], &info(1, "beside", "shadow"));
        assert_eq!(texts[1].matches("windlass_policy_info{").count(), 2, "{}", texts[1]);
        has(&texts[1], "windlass_policy_loaded_timestamp_seconds{slot=\"retry\",position=\"0\"} 1.5");
        assert_eq!(texts[1].matches("windlass_policy_loaded_timestamp_seconds{").count(), 2, "{}", texts[1]);
    }

    #[test]
    fn a_place_that_is_gone_ends_and_a_refused_file_is_counted() {
        let refused = LinkStatus { error: Some("no component".to_owned()), ..link(0, "first") };
        let texts = served(&[vec![link(0, "first"), link(1, "second")], vec![refused]]);
        has(&texts[0], "windlass_policy_files_refused 0");
        has(&texts[1], "windlass_policy_files_refused 1");
        assert!(!texts[1].contains("position=\"1\""), "{}", texts[1]);
    }

    #[test]
    fn failures_are_counted_from_nothing_but_of_tenants() {
        let mut of_tenant = link(1, "theirs");
        of_tenant.policy.origin =
            Some(serde_json::from_value(serde_json::json!({"tenant": "team-a", "name": "theirs"})).unwrap());
        let shadow = LinkStatus { mode: Mode::Shadow, ..link(2, "beside") };
        let texts = served(&[vec![link(0, "ours"), of_tenant, shadow]]);
        for counter in ["windlass_policy_brakes_total", "windlass_policy_failures_total"] {
            has(&texts[0], &format!("{counter}{{slot=\"retry\",policy=\"ours\"}} 0"));
            assert_eq!(texts[0].matches(&format!("{counter}{{")).count(), 1, "{}", texts[0]);
        }
    }
}
