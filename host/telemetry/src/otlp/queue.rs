//! Between whoever makes spans and log records, and the thread that sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::signal::Signal;

/// Counter `signal` (`traces`, `logs`, `metrics`): spans, log records and exports of metrics that did not arrive.
pub(super) const DROPPED: &str = "windlass_telemetry_dropped_total";

/// What is shared with whoever makes the items of one signal.
#[derive(Clone)]
pub(super) struct Queue<T> {
    pub(super) items: mpsc::Sender<T>,
    pub(super) lost: Arc<Lost>,
}

/// Counts what of one signal did not arrive.
#[derive(Debug)]
pub(super) struct Lost {
    signal: Signal,
    count: AtomicU64,
    /// What was taken into the queue, and of which nobody knows yet whether it arrives.
    waiting: AtomicU64,
    /// Whether it has been said since something last arrived.
    is_said: AtomicBool,
}

impl Lost {
    pub(super) fn new(signal: Signal) -> Self {
        Self { signal, count: AtomicU64::new(0), waiting: AtomicU64::new(0), is_said: AtomicBool::new(false) }
    }

    pub(super) fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.count.fetch_add(count, Ordering::Relaxed);
        metrics::counter!(DROPPED, "signal" => self.signal.as_str()).increment(count);
    }

    /// What became of so many that waited is known.
    pub(super) fn known(&self, count: usize) {
        self.waiting.fetch_sub(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    /// The collector has taken everything: the next time of trouble is another one.
    pub(super) fn taken(&self) {
        self.is_said.store(false, Ordering::Relaxed);
    }

    /// Tells once in each time of trouble, and not each time.
    pub(super) fn say(&self, words: &str) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(signal = self.signal.as_str(), "OpenTelemetry: the collector refuses the data: {words}");
        }
    }

    /// Tells at the end what has not arrived. What still waits does not arrive any more: the process ends.
    pub(super) fn say_at_end(&self) {
        let lost = self.count.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "OpenTelemetry: {} were not delivered", self.signal.items());
        }
    }
}

impl<T> Queue<T> {
    /// Never waits: what there is no room for is dropped, and counted.
    pub(super) fn push(&self, item: T) {
        // Before it is sent: whoever sends it on may be quicker than this thread.
        self.lost.waiting.fetch_add(1, Ordering::Relaxed);
        if self.items.try_send(item).is_err() {
            self.lost.known(1);
            self.lost.add(1);
        }
    }
}
