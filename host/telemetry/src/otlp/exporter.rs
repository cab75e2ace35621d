//! The thread that sends: a bounded queue of spans and one of log records before it, and nobody who waits for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use super::http::Client;
use super::metrics::MetricsSource;
use super::queue::{Lost, Queue};
use super::settings::{Batched, Endpoint, Sampler, Settings};
use super::signal::{Item, Signal};
use super::span::{Value, attribute};

/// The first wait before a batch is sent again; each next one is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The running export.
pub(crate) struct Exporter {
    spans: Option<Queue<Span>>,
    logs: Option<Queue<LogRecord>>,
    sampler: Sampler,
    /// Tells the thread to end.
    stop: CancellationToken,
    ended: Receiver<()>,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    pub(crate) fn start(settings: Settings) -> std::io::Result<Self> {
        let stop = CancellationToken::new();
        let (end, ended) = sync_channel(1);
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
            stop: stop.clone(),
        };
        let (spans, traces) = settings.traces.map(Batches::new).unzip();
        let (logs, records) = settings.logs.map(Batches::new).unzip();
        let source = settings.metrics.is_some().then(MetricsSource::of_process).flatten();
        let meters = settings.metrics.zip(source);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = move || {
            runtime.block_on(work(&sender, traces, records, meters, settings.metric_interval));
            // The receiver may be gone: stopping does not wait for ever.
            let _ = end.try_send(());
        };
        std::thread::Builder::new().name("windlass-telemetry".to_owned()).spawn(thread)?;
        Ok(Self { spans, logs, sampler: settings.sampler, stop, ended })
    }

    pub(crate) fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_on = self.spans.is_some() || self.logs.is_some();
        is_on.then(|| super::layer::layer(self.spans.clone(), self.logs.clone(), self.sampler))
    }

    pub(crate) fn shutdown(self, limit: Duration) {
        self.stop.cancel();
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(?limit, "OpenTelemetry: the collector did not accept everything in time");
        }
        let lost = [self.spans.map(|queue| queue.lost), self.logs.map(|queue| queue.lost)];
        lost.iter().flatten().for_each(|lost| lost.say_at_end());
    }
}

/// How long it is until a batch is sent again: what the answer says, and no less than what it is its turn.
fn pause(retry_after: Option<Duration>, wait: Duration) -> Duration {
    retry_after.unwrap_or_default().max(wait)
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// What everything that is sent has in common.
struct Sender {
    resource: Resource,
    scope: InstrumentationScope,
    stop: CancellationToken,
}

async fn work(
    sender: &Sender,
    traces: Option<Batches<Span>>,
    records: Option<Batches<LogRecord>>,
    meters: Option<(Endpoint, MetricsSource)>,
    metric_interval: Duration,
) {
    let meters = meters.and_then(|(endpoint, source)| Meters::new(endpoint, source));
    tokio::join!(
        async {
            if let Some(traces) = traces {
                traces.send_until_stopped(sender).await;
            }
        },
        async {
            if let Some(records) = records {
                records.send_until_stopped(sender).await;
            }
        },
        async {
            if let Some(meters) = &meters {
                meters.send_until_stopped(sender, metric_interval).await;
            }
        },
    );
    // Once more at the end: it counts what the others have lost.
    if let Some(meters) = &meters {
        meters.send(sender).await;
    }
}

/// A client, or nothing where the system lets nobody have one.
fn client(endpoint: Endpoint, lost: &Lost) -> Option<Client> {
    Client::new(endpoint).inspect_err(|words| lost.say(words)).ok()
}

/// What waits of one signal, and how it is sent.
struct Batches<T> {
    waiting: mpsc::Receiver<T>,
    settings: Batched,
    lost: Arc<Lost>,
}

impl<T: Item> Batches<T> {
    fn new(settings: Batched) -> (Queue<T>, Self) {
        let (items, waiting) = mpsc::channel(settings.queue);
        let lost = Arc::new(Lost::new(T::SIGNAL));
        (Queue { items, lost: Arc::clone(&lost) }, Self { waiting, settings, lost })
    }

    /// Sends what comes, and at the end what is there.
    async fn send_until_stopped(mut self, sender: &Sender) {
        let client = client(self.settings.endpoint.clone(), &self.lost);
        let mut ticks = every(self.settings.delay);
        let mut batch = Vec::new();
        // Closed where whoever filled it is gone.
        let mut open = true;
        while !sender.stop.is_cancelled() {
            let room = self.settings.batch.saturating_sub(batch.len()).max(1);
            let due = tokio::select! {
                biased;
                () = sender.stop.cancelled() => break,
                _ = ticks.tick() => true,
                received = self.waiting.recv_many(&mut batch, room), if open => {
                    open = received > 0;
                    batch.len() >= self.settings.batch
                }
            };
            if due && !batch.is_empty() {
                self.send(sender, client.as_ref(), std::mem::take(&mut batch)).await;
            }
        }
        self.waiting.close();
        loop {
            while batch.len() < self.settings.batch
                && let Ok(item) = self.waiting.try_recv()
            {
                batch.push(item);
            }
            if batch.is_empty() {
                break;
            }
            self.send(sender, client.as_ref(), std::mem::take(&mut batch)).await;
        }
    }

    /// Sends a batch, again where that may help, no longer than its time.
    async fn send(&self, sender: &Sender, client: Option<&Client>, batch: Vec<T>) {
        let count = batch.len();
        let Some(client) = client else { return self.lose(count) };
        let message = Bytes::from(T::request(batch, sender.resource.clone(), sender.scope.clone()));
        match timeout(self.settings.timeout, self.until_taken(sender, client, message)).await {
            Ok(Ok(answer)) => self.taken(&answer, count),
            Ok(Err(words)) => {
                self.lose(count);
                self.lost.say(&words);
            }
            Err(_) => {
                self.lose(count);
                self.lost.say("it takes too long");
            }
        }
    }

    /// A batch did not arrive.
    fn lose(&self, count: usize) {
        self.lost.known(count);
        self.lost.add(count);
    }

    async fn until_taken(&self, sender: &Sender, client: &Client, message: Bytes) -> Result<Bytes, String> {
        let mut wait = FIRST_WAIT;
        loop {
            let refusal = match client.post(message.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(refusal) => refusal,
            };
            if !refusal.again || sender.stop.is_cancelled() {
                return Err(refusal.words);
            }
            self.lost.say(&refusal.words);
            tokio::select! {
                () = tokio::time::sleep(pause(refusal.retry_after, wait)) => {}
                // At the end, it is tried once more and given up then.
                () = sender.stop.cancelled() => {}
            }
            wait *= 2;
        }
    }

    /// Part of a batch may have been rejected.
    fn taken(&self, answer: &[u8], count: usize) {
        self.lost.known(count);
        let rejected = usize::try_from(T::rejected(answer)).unwrap_or(0).min(count);
        if rejected > 0 {
            self.lost.add(rejected);
            self.lost.say(&format!("it rejects some {}", T::SIGNAL.items()));
        } else {
            self.lost.taken();
        }
    }
}

/// The metrics, and where they go.
struct Meters {
    client: Client,
    source: MetricsSource,
    lost: Lost,
}

impl Meters {
    fn new(endpoint: Endpoint, source: MetricsSource) -> Option<Self> {
        let lost = Lost::new(Signal::Metrics);
        Some(Self { client: client(endpoint, &lost)?, source, lost })
    }

    async fn send_until_stopped(&self, sender: &Sender, interval: Duration) {
        let mut ticks = every(interval);
        while sender.stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.send(sender).await;
        }
    }

    /// Sends what the metrics are now. Lost, it is made up for by the next: they count from the start.
    async fn send(&self, sender: &Sender) {
        let request = self.source.snapshot(&sender.resource, &sender.scope);
        match self.client.post(request.encode_to_vec().into()).await {
            Ok(_) => self.lost.taken(),
            Err(refusal) => {
                self.lost.add(1);
                self.lost.say(&refusal.words);
            }
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
