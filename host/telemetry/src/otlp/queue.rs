//! Between whoever makes spans and the thread that sends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;

/// Counter `signal` (`traces`, `metrics`): spans and exports that did not arrive.
pub(super) const DROPPED: &str = "windlass_telemetry_dropped_total";

/// What is shared with whoever makes spans.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(super) spans: mpsc::Sender<Span>,
    pub(super) lost: Arc<Lost>,
}

/// Counts what did not arrive.
#[derive(Debug, Default)]
pub(super) struct Lost {
    pub(super) spans: AtomicU64,
    /// Spans that were taken into the queue, and of which nobody knows yet whether they arrive.
    pub(super) waiting: AtomicU64,
    /// Whether it has been said since something last arrived.
    pub(super) is_said: AtomicBool,
}

impl Lost {
    pub(super) fn add(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.spans.fetch_add(count, Ordering::Relaxed);
        metrics::counter!(DROPPED, "signal" => "traces").increment(count);
    }

    /// Tells once in each time of trouble, and not each time.
    pub(super) fn say(&self, signal: &str, words: &str) {
        if !self.is_said.swap(true, Ordering::Relaxed) {
            tracing::warn!(signal, "OpenTelemetry: the collector refuses the data: {words}");
        }
    }
}

impl Queue {
    /// Never waits: a span for which there is no room is dropped, and counted.
    pub(super) fn push(&self, span: Span) {
        // Before it is sent: whoever sends it on may be quicker than this thread.
        self.lost.waiting.fetch_add(1, Ordering::Relaxed);
        if self.spans.try_send(span).is_err() {
            self.lost.waiting.fetch_sub(1, Ordering::Relaxed);
            self.lost.add(1);
        }
    }
}
