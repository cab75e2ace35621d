//! The thread that sends: a bounded queue of spans before it, and nobody who waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::http::Client;
use super::metrics::MetricsSource;
use super::queue::{DROPPED, Lost, Queue};
use super::settings::{Sampler, Settings};
use super::span::{Value, attribute};

/// The first wait before a batch is sent again; each next one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The running export.
pub(crate) struct Exporter {
    queue: Option<Queue>,
    sampler: Sampler,
    stop: Arc<Stop>,
    lost: Arc<Lost>,
    ended: Receiver<()>,
}

/// Tells the thread to end.
#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    signal: Notify,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Exporter").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl Exporter {
    pub(crate) fn start(settings: Settings) -> std::io::Result<Self> {
        let (spans, waiting) = mpsc::channel(settings.queue);
        let lost = Arc::new(Lost::default());
        let stop = Arc::new(Stop::default());
        let (end, ended) = sync_channel(1);
        let sampler = settings.sampler;
        let queue = settings.traces.is_some().then(|| Queue { spans, lost: Arc::clone(&lost) });
        let metrics = settings.metrics.is_some().then(MetricsSource::of_process).flatten();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = {
            let (stop, lost) = (Arc::clone(&stop), Arc::clone(&lost));
            move || {
                runtime.block_on(work(settings, waiting, metrics, &stop, &lost));
                // The receiver may be gone: stopping does not wait for ever.
                let _ = end.try_send(());
            }
        };
        std::thread::Builder::new().name("windlass-telemetry".to_owned()).spawn(thread)?;
        Ok(Self { queue, sampler, stop, lost, ended })
    }

    pub(crate) fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.queue.clone().map(|queue| super::layer::layer(queue, self.sampler))
    }

    pub(crate) fn shutdown(self, limit: Duration) {
        self.stop.is_set.store(true, Ordering::Relaxed);
        self.stop.signal.notify_one();
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(?limit, "OpenTelemetry: the collector did not accept everything in time");
        }
        // What is still under way does not arrive any more: the process ends.
        let lost = self.lost.spans.load(Ordering::Relaxed) + self.lost.waiting.load(Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(spans = lost, "OpenTelemetry: spans were not delivered");
        }
    }
}

/// How long it is until a batch is sent again: what the answer says, and no less than what it is its turn.
fn pause(retry_after: Option<Duration>, wait: Duration) -> Duration {
    retry_after.unwrap_or_default().max(wait)
}

/// What the thread holds.
struct Sender<'s> {
    settings: &'s Settings,
    resource: Resource,
    scope: InstrumentationScope,
    stop: &'s Stop,
    lost: &'s Lost,
}

async fn work(
    settings: Settings,
    mut waiting: mpsc::Receiver<Span>,
    metrics: Option<MetricsSource>,
    stop: &Stop,
    lost: &Lost,
) {
    let client = |endpoint: &Option<super::settings::Endpoint>| match endpoint.clone().map(Client::new).transpose() {
        Ok(client) => client,
        Err(words) => {
            lost.say("all", &words);
            None
        }
    };
    let (traces, meters) = (client(&settings.traces), client(&settings.metrics));
    let sender = Sender {
        resource: Resource {
            attributes: settings.resource.iter().map(|(key, value)| attribute(key, Value::text(value))).collect(),
            ..Resource::default()
        },
        scope: InstrumentationScope {
            name: "windlass".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        },
        settings: &settings,
        stop,
        lost,
    };
    let every = |period: Duration| {
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    };
    let (mut spans_due, mut metrics_due) = (every(settings.delay), every(settings.metric_interval));
    let mut batch = Vec::new();
    // A queue of metrics alone is closed from the start.
    let mut open = true;
    while !stop.is_set() {
        let room = settings.batch.saturating_sub(batch.len()).max(1);
        let due = tokio::select! {
            biased;
            () = stop.signal.notified() => break,
            _ = metrics_due.tick() => {
                sender.metrics(meters.as_ref(), metrics.as_ref()).await;
                false
            }
            _ = spans_due.tick() => true,
            received = waiting.recv_many(&mut batch, room), if open => {
                open = received > 0;
                batch.len() >= settings.batch
            }
        };
        if due && !batch.is_empty() {
            sender.spans(traces.as_ref(), std::mem::take(&mut batch)).await;
        }
    }
    waiting.close();
    loop {
        while batch.len() < settings.batch
            && let Ok(span) = waiting.try_recv()
        {
            batch.push(span);
        }
        if batch.is_empty() {
            break;
        }
        sender.spans(traces.as_ref(), std::mem::take(&mut batch)).await;
    }
    sender.metrics(meters.as_ref(), metrics.as_ref()).await;
}

impl Sender<'_> {
    /// Sends a batch, again where that may help, no longer than its time.
    async fn spans(&self, client: Option<&Client>, spans: Vec<Span>) {
        let count = spans.len();
        let Some(client) = client else { return self.lost(count) };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans { scope: Some(self.scope.clone()), spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        let message = Bytes::from(request.encode_to_vec());
        match timeout(self.settings.span_timeout, self.until_taken(client, message)).await {
            Ok(Ok(answer)) => self.taken(&answer, count),
            Ok(Err(words)) => {
                self.lost(count);
                self.lost.say("traces", &words);
            }
            Err(_) => {
                self.lost(count);
                self.lost.say("traces", "it takes too long");
            }
        }
    }

    /// A batch did not arrive.
    fn lost(&self, count: usize) {
        self.arrived(count);
        self.lost.add(count);
    }

    /// What became of a batch is known.
    fn arrived(&self, count: usize) {
        self.lost.waiting.fetch_sub(u64::try_from(count).unwrap_or(0), Ordering::Relaxed);
    }

    async fn until_taken(&self, client: &Client, message: Bytes) -> Result<Bytes, String> {
        let mut wait = FIRST_WAIT;
        loop {
            let refusal = match client.post(message.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            if !refusal.again || self.stop.is_set() {
                return Err(refusal.words);
            }
            self.lost.say("traces", &refusal.words);
            tokio::select! {
                () = tokio::time::sleep(pause(refusal.retry_after, wait)) => {}
                // At the end, it is tried once more and given up then.
                () = self.stop.signal.notified() => {}
            }
            wait *= 2;
        }
    }

    /// Part of a batch may have been rejected.
    fn taken(&self, answer: &[u8], count: usize) {
        self.arrived(count);
        let rejected = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        let rejected = rejected.map_or(0, |rejected| usize::try_from(rejected.rejected_spans).unwrap_or(0)).min(count);
        if rejected > 0 {
            self.lost.add(rejected);
            self.lost.say("traces", "it rejects some spans");
        } else {
            self.lost.is_said.store(false, Ordering::Relaxed);
        }
    }

    /// Sends what the metrics are now. Lost, it is made up for by the next: they count from the start.
    async fn metrics(&self, client: Option<&Client>, source: Option<&MetricsSource>) {
        let (Some(client), Some(source)) = (client, source) else { return };
        let request = source.snapshot(&self.resource, &self.scope);
        if let Err(refusal) = client.post(request.encode_to_vec().into()).await {
            metrics::counter!(DROPPED, "signal" => "metrics").increment(1);
            self.lost.say("metrics", &refusal.words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_waits_as_long_as_the_answer_says_and_twice_as_long_each_time() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(None, seconds(2)), seconds(2));
        assert_eq!(pause(Some(seconds(30)), seconds(2)), seconds(30));
        assert_eq!(pause(Some(seconds(1)), seconds(2)), seconds(2), "a collector that says at once is not believed");
    }
}
