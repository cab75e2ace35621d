//! What is unfinished and what is left, as gauges, as this process saw it last: in the journal at each resume, and at
//! Scaleway at each sweep.

use std::collections::{BTreeMap, BTreeSet};

use metrics::Gauge;
use parking_lot::Mutex;
use windlass_scaleway::Zone;

use crate::journal::{Operation, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::metric_names::{LEFT, UNEXPLAINED, UNFINISHED, UNVERIFIED};
use crate::report::Report;
use crate::sweep::Sweep;

/// The share of one journal in the gauges: a process may work on several.
#[derive(Debug, Default)]
pub(crate) struct Outstanding(Mutex<Share>);

#[derive(Debug, Default)]
struct Share {
    counts: BTreeMap<Counted, usize>,
    has_ended: bool,
}

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Unfinished(OperationKind, OperationState),
    Unverified,
    Left {
        zone: String,
        kind: ResourceKind,
        reason: Reason,
    },
    /// All that the last sweep of a zone has found, whatever it did about it.
    Unexplained {
        zone: String,
    },
}

/// Why something is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    NotRemoved,
    Kept,
    Abandoned,
    Unexplained,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::NotRemoved => "not-removed",
            Self::Kept => "kept",
            Self::Abandoned => "abandoned",
            Self::Unexplained => "unexplained",
        }
    }
}

impl Counted {
    fn left(resource: ResourceName, reason: Reason) -> Self {
        Self::Left { zone: resource.zone, kind: resource.kind, reason }
    }

    fn is_of_journal(&self) -> bool {
        match self {
            Self::Unfinished(..) | Self::Unverified | Self::Left { reason: Reason::NotRemoved, .. } => true,
            Self::Left { .. } | Self::Unexplained { .. } => false,
        }
    }

    fn is_of_sweep_of(&self, swept: &Zone) -> bool {
        match self {
            Self::Left { zone, .. } | Self::Unexplained { zone } => !self.is_of_journal() && zone == swept.as_str(),
            Self::Unfinished(..) | Self::Unverified => false,
        }
    }

    fn gauge(&self) -> Gauge {
        match self {
            Self::Unfinished(kind, state) => {
                metrics::gauge!(UNFINISHED, "kind" => kind.as_str(), "state" => state.as_str())
            }
            Self::Unverified => metrics::gauge!(UNVERIFIED),
            Self::Left { zone, kind, reason } => {
                metrics::gauge!(LEFT, "zone" => zone.clone(), "kind" => kind.as_str(), "reason" => reason.as_str())
            }
            Self::Unexplained { .. } => metrics::gauge!(UNEXPLAINED),
        }
    }
}

impl Outstanding {
    /// Shows which operations the journal holds unfinished, and what they have left.
    pub(crate) fn unfinished(&self, operations: &[Operation]) {
        let unverified = operations.iter().filter(|operation| operation.state == OperationState::Unverified).count();
        let mut counts = BTreeMap::from([(Counted::Unverified, unverified)]);
        for operation in operations {
            add(&mut counts, Counted::Unfinished(operation.kind, operation.state));
            for left in Report::of(operation).into_iter().flat_map(|report| report.left) {
                add(&mut counts, Counted::left(left.resource, Reason::NotRemoved));
            }
        }
        self.show(&counts, Counted::is_of_journal);
    }

    /// Shows what a sweep of this zone has found, and what is still there of it.
    pub(crate) fn swept(&self, zone: &Zone, sweep: &Sweep) {
        let found = Counted::Unexplained { zone: zone.to_string() };
        let mut counts = BTreeMap::from([(found, sweep.unexplained.len())]);
        let gone = sweep.gone();
        let unexplained = sweep.unexplained.iter().map(|unexplained| &unexplained.resource);
        let unexplained = unexplained.filter(|resource| !gone.contains(resource));
        for (reason, resources) in [
            (Reason::Kept, sweep.kept.iter().collect::<Vec<_>>()),
            (Reason::Abandoned, sweep.abandoned.iter().collect()),
            (Reason::Unexplained, unexplained.collect()),
        ] {
            for resource in resources {
                add(&mut counts, Counted::left(resource.clone(), reason));
            }
        }
        self.show(&counts, |counted| counted.is_of_sweep_of(zone));
    }

    /// Takes the share out of the gauges, for good.
    pub(crate) fn end(&self) {
        let mut share = self.0.lock();
        share.replace(&BTreeMap::new(), |_| true);
        share.has_ended = true;
    }

    fn show(&self, counts: &BTreeMap<Counted, usize>, replaced: impl Fn(&Counted) -> bool) {
        let mut share = self.0.lock();
        if !share.has_ended {
            share.replace(counts, replaced);
        }
    }
}

impl Share {
    /// These counts take the place of those that are `replaced`.
    fn replace(&mut self, counts: &BTreeMap<Counted, usize>, replaced: impl Fn(&Counted) -> bool) {
        let known = self.counts.keys().filter(|counted| replaced(counted));
        let changing: BTreeSet<Counted> = known.chain(counts.keys()).cloned().collect();
        for counted in changing {
            let count = counts.get(&counted).copied().unwrap_or_default();
            let gauge = counted.gauge();
            let before = self.counts.insert(counted, count).unwrap_or_default();
            // By the difference: the shares of others stay, and nobody sees the gauge without this one.
            gauge.increment(count as f64 - before as f64);
        }
    }
}

fn add(counts: &mut BTreeMap<Counted, usize>, counted: Counted) {
    *counts.entry(counted).or_default() += 1;
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_telemetry::Metrics;

    use super::*;

    fn resource(kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.to_owned(), zone: "fr-par-1".to_owned(), server: None }
    }

    fn operation(state: OperationState, left: &[ResourceName]) -> Operation {
        let left: Vec<_> = left.iter().map(|resource| json!({ "resource": resource, "why": "locked" })).collect();
        serde_json::from_value(json!({
            "id": "ci-0123456789ab", "kind": "cleanup-server", "group": "ci", "zone": "fr-par-1", "owner": "o",
            "specification": {}, "policies": null, "runner": "r", "state": state, "cause": null, "reasons": [],
            "report": { "removed": [], "kept": [], "left": left }, "ended_by": null, "look_at": null,
            "created_at": 1, "updated_at": 1, "ended_at": null,
        }))
        .unwrap()
    }

    fn zone() -> Zone {
        "fr-par-1".parse().unwrap()
    }

    /// What is served after this work.
    fn served(work: impl FnOnce()) -> String {
        let metrics = Metrics::new();
        metrics::with_local_recorder(&metrics, work);
        metrics.render()
    }

    #[track_caller]
    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|served| served == line), "{line} is not in:\n{text}");
    }

    fn left(kind: &str, reason: &str, count: usize) -> String {
        format!("windlass_left_resources{{zone=\"fr-par-1\",kind=\"{kind}\",reason=\"{reason}\"}} {count}")
    }

    fn unfinished(state: &str, count: usize) -> String {
        format!("windlass_unfinished_operations{{kind=\"cleanup-server\",state=\"{state}\"}} {count}")
    }

    #[test]
    fn what_the_journals_of_a_process_hold_open_is_added_up() {
        let (server, ip) = (resource(ResourceKind::Server, "s"), resource(ResourceKind::Ip, "i"));
        let left_open = operation(OperationState::Left, &[server, ip.clone()]);
        let unverified = operation(OperationState::Unverified, &[]);
        let (one, other) = (Outstanding::default(), Outstanding::default());
        let text = served(|| {
            one.unfinished(&[left_open.clone(), unverified.clone()]);
            other.unfinished(&[operation(OperationState::Left, &[ip]), unverified.clone()]);
            one.unfinished(&[left_open, unverified]);
        });
        has(&text, &unfinished("left", 2));
        has(&text, &unfinished("unverified", 2));
        has(&text, "windlass_unverified_operations 2");
        has(&text, &left("server", "not-removed", 1));
        has(&text, &left("ip", "not-removed", 2));
    }

    #[test]
    fn what_is_ended_or_whose_account_is_closed_counts_no_more() {
        let ip = resource(ResourceKind::Ip, "i");
        let open = [operation(OperationState::Left, &[ip])];
        let (one, other) = (Outstanding::default(), Outstanding::default());
        let text = served(|| {
            one.unfinished(&open);
            other.unfinished(&open);
            one.unfinished(&[]);
            other.end();
            // A round that was under way.
            other.unfinished(&open);
        });
        has(&text, &unfinished("left", 0));
        has(&text, &left("ip", "not-removed", 0));
    }

    #[test]
    fn a_sweep_replaces_what_the_last_one_of_its_zone_has_found() {
        let ip = |id| resource(ResourceKind::Ip, id);
        let unexplained = |id| crate::Unexplained {
            resource: ip(id),
            label: String::new(),
            state: String::new(),
            operation: None,
            why: String::new(),
            spared: None,
        };
        let mut first = Sweep { unexplained: vec![unexplained("a"), unexplained("b")], ..Sweep::default() };
        first.kept.push(resource(ResourceKind::BlockVolume, "k"));
        let second = Sweep { unexplained: vec![unexplained("a")], ..Sweep::default() };
        let elsewhere = ResourceName { zone: "nl-ams-1".to_owned(), ..ip("c") };
        let there = Sweep { abandoned: vec![elsewhere], ..Sweep::default() };
        let share = Outstanding::default();
        let text = served(|| {
            share.unfinished(&[operation(OperationState::Left, &[ip("l")])]);
            share.swept(&zone(), &first);
            share.swept(&"nl-ams-1".parse().unwrap(), &there);
            share.swept(&zone(), &second);
        });
        has(&text, "windlass_unexplained_resources 1");
        has(&text, &left("ip", "unexplained", 1));
        has(&text, &left("ip", "abandoned", 1).replace("fr-par-1", "nl-ams-1"));
        has(&text, &left("block-volume", "kept", 0));
        has(&text, &left("ip", "not-removed", 1));
    }
}
