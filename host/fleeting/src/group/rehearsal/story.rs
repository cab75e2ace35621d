//! What the group did, as its journal has it, and how often its policies failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use windlass_lifecycle::{Journal, OperationFilter, OperationKind, OperationState};
use windlass_policy::metric_names;

use super::outcome::{Counted, Event};

/// The operations of a group.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// By the class of the first cause, how many creations failed.
    pub(super) failures: Vec<Counted>,
    /// By who asked for it, how many servers were removed.
    pub(super) removals: Vec<Counted>,
    /// The first operations, in their order.
    pub(super) events: Vec<Event>,
}

impl Story {
    /// Reads a group's journal.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(journal: &Journal) -> Result<Self, windlass_lifecycle::Error> {
        let mut operations = journal.operations(&OperationFilter::default())?;
        operations.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        let (mut failures, mut removals) = (BTreeMap::new(), BTreeMap::new());
        let mut events = Vec::new();
        for operation in operations {
            let requested_by = operation.requested_by();
            let why = requested_by.as_ref().map(|by| by.why.clone()).unwrap_or_default();
            let what = match operation.kind {
                OperationKind::CreateServer => {
                    if operation.state != OperationState::Done {
                        let class = operation.cause.as_ref().and_then(|cause| cause["failure"]["class"].as_str());
                        *failures.entry(class.unwrap_or("called-off").to_owned()).or_default() += 1;
                    }
                    "create"
                }
                OperationKind::CleanupServer => {
                    let by = serde_json::to_value(&requested_by).unwrap_or_default();
                    *removals.entry(by["by"].as_str().unwrap_or("unknown").to_owned()).or_default() += 1;
                    "remove"
                }
                _ => continue,
            };
            let types = operation.specification["types"].as_array().into_iter().flatten();
            events.push(Event {
                at: operation.created_at,
                what,
                zone: operation.zone,
                types: types.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
                why,
            });
        }
        let counted = |map: BTreeMap<String, usize>| {
            map.into_iter().map(|(name, count)| Counted { name, count }).collect::<Vec<_>>()
        };
        Ok(Self { failures: counted(failures), removals: counted(removals), events })
    }
}

/// Counts what policies did wrong, as their host reports it in its metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyFailures {
    failures: Arc<AtomicU64>,
    brakes: Arc<AtomicU64>,
}

impl PolicyFailures {
    /// How often a policy failed, so that the next one decided.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// How often the brake refused an answer.
    pub(super) fn brakes(&self) -> u64 {
        self.brakes.load(Ordering::Relaxed)
    }
}

impl metrics::Recorder for PolicyFailures {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            metric_names::FAILURES => Counter::from_arc(Arc::clone(&self.failures)),
            metric_names::BRAKES => Counter::from_arc(Arc::clone(&self.brakes)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
