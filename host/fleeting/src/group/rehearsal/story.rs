//! What the group did, as its journal has it, and how often its policies failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use windlass_lifecycle::{Journal, OperationFilter, OperationKind, OperationState};
use windlass_policy::metric_names;

use super::outcome::{Counted, Event};
use crate::observe::names;

/// The failure class of a claim that found no host. The retry policy gets the same.
const OUT_OF_STOCK: &str = "out-of-stock";

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
    /// Adds the claims that failed before an operation began, since no host of the pool was eligible: so many creations
    /// failed in all.
    pub(super) fn add_failed_claims(&mut self, all: usize) {
        let journalled: usize = self.failures.iter().map(|counted| counted.count).sum();
        let count = all.saturating_sub(journalled);
        match self.failures.iter_mut().find(|counted| counted.name == OUT_OF_STOCK) {
            Some(counted) => counted.count += count,
            None if count > 0 => self.failures.push(Counted { name: OUT_OF_STOCK.to_owned(), count }),
            None => {}
        }
    }

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
                kind if kind.acquires() => {
                    if operation.state != OperationState::Done {
                        let class = operation.cause.as_ref().and_then(|cause| cause["failure"]["class"].as_str());
                        *failures.entry(class.unwrap_or("called-off").to_owned()).or_default() += 1;
                    }
                    match kind {
                        OperationKind::AdoptMachine => "claim",
                        OperationKind::OrderMachine => "order",
                        _ => "create",
                    }
                }
                // It is tried again.
                OperationKind::ReleaseMachine if operation.state == OperationState::Undone => continue,
                kind @ (OperationKind::CleanupServer | OperationKind::ReleaseMachine) => {
                    let by = serde_json::to_value(&requested_by).unwrap_or_default();
                    *removals.entry(by["by"].as_str().unwrap_or("unknown").to_owned()).or_default() += 1;
                    if kind == OperationKind::ReleaseMachine { "release" } else { "remove" }
                }
                _ => continue,
            };
            // Of a creation, a claim and an order.
            let [types, of_pool, of_order] =
                ["/types", "/pool/machine_type", "/machine_type"].map(|place| operation.specification.pointer(place));
            let types = types.and_then(|types| types.as_array()).into_iter().flatten();
            let types = types.chain(of_pool).chain(of_order);
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

/// Counts what the group and the host of its policies report in their metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    policy_failures: Arc<AtomicU64>,
    brakes: Arc<AtomicU64>,
    failed_creations: Arc<AtomicU64>,
}

impl Counters {
    /// How often a policy failed, so that the next one decided.
    pub(super) fn policy_failures(&self) -> u64 {
        self.policy_failures.load(Ordering::Relaxed)
    }

    /// How many creations failed.
    pub(super) fn failed_creations(&self) -> usize {
        usize::try_from(self.failed_creations.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// How often the brake refused an answer.
    pub(super) fn brakes(&self) -> u64 {
        self.brakes.load(Ordering::Relaxed)
    }
}

impl metrics::Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            metric_names::FAILURES => Counter::from_arc(Arc::clone(&self.policy_failures)),
            names::CREATIONS if key.labels().any(|label| label.value() == "failed") => {
                Counter::from_arc(Arc::clone(&self.failed_creations))
            }
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
