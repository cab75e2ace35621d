//! The metrics of the `metrics` crate, counted for the export, beside another recorder where the program has one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SetRecorderError,
    SharedString, Unit,
};
use metrics_util::registry::{Registry, Storage};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    self as otlp, AggregationTemporality, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use parking_lot::Mutex;

use super::span::{Value, attribute, now};

/// Bounds of the histograms, in seconds: from a decision's microseconds to a creation's minutes.
const BOUNDS: [f64; 18] = [
    0.000_005, 0.000_02, 0.000_1, 0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0,
    600.0,
];

/// The export's part of the process's recorder, where it is on.
static INSTALLED: OnceLock<Arc<Counted>> = OnceLock::new();

/// Installs the recorder of the export. `None` where the process has one already that knows nothing of it.
pub(crate) fn install() -> Option<MetricsSource> {
    let counted = Arc::new(Counted {
        registry: Registry::new(Store),
        descriptions: Mutex::new(BTreeMap::new()),
        began: now(),
        beside: OnceLock::new(),
    });
    if metrics::set_global_recorder(Shared(Arc::clone(&counted))).is_err() {
        tracing::warn!("OpenTelemetry: metrics are counted by somebody else in this process already");
        return None;
    }
    let _ = INSTALLED.set(Arc::clone(&counted));
    Some(MetricsSource(counted))
}

/// Installs another recorder: beside the export's where that is installed, else alone.
pub(crate) fn install_beside<R: Recorder + Send + Sync + 'static>(recorder: R) -> Result<(), SetRecorderError<R>> {
    match INSTALLED.get() {
        None => metrics::set_global_recorder(recorder),
        Some(counted) => {
            let mut recorder = Some(recorder);
            counted.beside.get_or_init(|| Box::new(recorder.take().expect("the closure runs once")));
            recorder.map_or(Ok(()), |refused| Err(SetRecorderError(refused)))
        }
    }
}

struct Counted {
    registry: Registry<Key, Store>,
    descriptions: Mutex<BTreeMap<String, (Option<Unit>, SharedString)>>,
    began: u64,
    beside: OnceLock<Box<dyn Recorder + Send + Sync>>,
}

struct Shared(Arc<Counted>);

/// A histogram of fixed buckets: it takes the same memory however much it counts.
#[derive(Default)]
struct Buckets {
    /// One more than bounds: the last is beyond them all.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The sum's bits, as a float.
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let place = BOUNDS.partition_point(|bound| *bound < value);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        GaugeFn::increment(&self.sum, value);
    }
}

struct Store;

impl Storage<Key> for Store {
    type Counter = Arc<AtomicU64>;
    type Gauge = Arc<AtomicU64>;
    type Histogram = Arc<Buckets>;

    fn counter(&self, _: &Key) -> Self::Counter {
        Arc::default()
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::default()
    }

    fn histogram(&self, _: &Key) -> Self::Histogram {
        Arc::default()
    }
}

/// Two counters as one.
struct Both<T>(T, T);

impl CounterFn for Both<Counter> {
    fn increment(&self, value: u64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn absolute(&self, value: u64) {
        self.0.absolute(value);
        self.1.absolute(value);
    }
}

impl GaugeFn for Both<Gauge> {
    fn increment(&self, value: f64) {
        self.0.increment(value);
        self.1.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.0.decrement(value);
        self.1.decrement(value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
        self.1.set(value);
    }
}

impl HistogramFn for Both<Histogram> {
    fn record(&self, value: f64) {
        self.0.record(value);
        self.1.record(value);
    }
}

impl Shared {
    fn describe(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.0.descriptions.lock().insert(key.as_str().to_owned(), (unit, description));
    }
}

impl Recorder for Shared {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(beside) = self.0.beside.get() {
            beside.describe_counter(key.clone(), unit, description.clone());
        }
        self.describe(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(beside) = self.0.beside.get() {
            beside.describe_gauge(key.clone(), unit, description.clone());
        }
        self.describe(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        if let Some(beside) = self.0.beside.get() {
            beside.describe_histogram(key.clone(), unit, description.clone());
        }
        self.describe(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let own = self.0.registry.get_or_create_counter(key, |counter| Counter::from_arc(Arc::clone(counter)));
        match self.0.beside.get() {
            None => own,
            Some(beside) => Counter::from_arc(Arc::new(Both(own, beside.register_counter(key, metadata)))),
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let own = self.0.registry.get_or_create_gauge(key, |gauge| Gauge::from_arc(Arc::clone(gauge)));
        match self.0.beside.get() {
            None => own,
            Some(beside) => Gauge::from_arc(Arc::new(Both(own, beside.register_gauge(key, metadata)))),
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let own = self.0.registry.get_or_create_histogram(key, |buckets| Histogram::from_arc(Arc::clone(buckets)));
        match self.0.beside.get() {
            None => own,
            Some(beside) => Histogram::from_arc(Arc::new(Both(own, beside.register_histogram(key, metadata)))),
        }
    }
}

/// Where the export reads the metrics.
pub(crate) struct MetricsSource(Arc<Counted>);

impl MetricsSource {
    /// All metrics as they are now, counted since the start.
    pub(super) fn snapshot(&self, resource: &Resource, scope: &InstrumentationScope) -> ExportMetricsServiceRequest {
        let (began, now) = (self.0.began, now());
        let number = |key: &Key, value, start| NumberDataPoint {
            attributes: labels(key),
            start_time_unix_nano: start,
            time_unix_nano: now,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        let registry = &self.0.registry;
        let mut metrics: BTreeMap<String, metric::Data> = BTreeMap::new();
        for (key, counter) in registry.get_counter_handles() {
            let count = i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
            let data = metrics.entry(key.name().to_owned()).or_insert_with(|| {
                metric::Data::Sum(otlp::Sum {
                    data_points: Vec::new(),
                    aggregation_temporality: AggregationTemporality::Cumulative as i32,
                    is_monotonic: true,
                })
            });
            if let metric::Data::Sum(sum) = data {
                sum.data_points.push(number(&key, number_data_point::Value::AsInt(count), began));
            }
        }
        for (key, gauge) in registry.get_gauge_handles() {
            let value = f64::from_bits(gauge.load(Ordering::Relaxed));
            let data = metrics
                .entry(key.name().to_owned())
                .or_insert_with(|| metric::Data::Gauge(otlp::Gauge { data_points: Vec::new() }));
            if let metric::Data::Gauge(gauge) = data {
                gauge.data_points.push(number(&key, number_data_point::Value::AsDouble(value), 0));
            }
        }
        for (key, buckets) in registry.get_histogram_handles() {
            let counts: Vec<u64> = buckets.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let data = metrics.entry(key.name().to_owned()).or_insert_with(|| {
                metric::Data::Histogram(otlp::Histogram {
                    data_points: Vec::new(),
                    aggregation_temporality: AggregationTemporality::Cumulative as i32,
                })
            });
            if let metric::Data::Histogram(histogram) = data {
                histogram.data_points.push(HistogramDataPoint {
                    attributes: labels(&key),
                    start_time_unix_nano: began,
                    time_unix_nano: now,
                    count: counts.iter().sum(),
                    sum: Some(f64::from_bits(buckets.sum.load(Ordering::Relaxed))),
                    bucket_counts: counts,
                    explicit_bounds: BOUNDS.to_vec(),
                    ..HistogramDataPoint::default()
                });
            }
        }
        let descriptions = self.0.descriptions.lock();
        let metrics = metrics
            .into_iter()
            .map(|(name, data)| {
                let (unit, description) = descriptions.get(&name).map_or_else(Default::default, |(unit, words)| {
                    (unit.map_or(String::new(), |unit| unit.as_canonical_label().to_owned()), words.to_string())
                });
                Metric { name, description, unit, data: Some(data), ..Metric::default() }
            })
            .collect();
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource.clone()),
                scope_metrics: vec![ScopeMetrics { scope: Some(scope.clone()), metrics, ..ScopeMetrics::default() }],
                ..ResourceMetrics::default()
            }],
        }
    }
}

fn labels(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| attribute(label.key(), Value::text(label.value()))).collect()
}
