//! The metrics of the `metrics` crate, counted once for all who read them: Prometheus, and the export.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, GaugeFn as _, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use parking_lot::{Mutex, RwLock};

/// Bounds of all histograms, in seconds: from a decision's microseconds to a creation's minutes.
pub(crate) const BOUNDS: [f64; 18] = [
    0.000_005, 0.000_02, 0.000_1, 0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0,
    600.0,
];

/// The metrics of a process. Clones count and show the same.
#[derive(Clone)]
pub struct Metrics(Arc<Counted>);

#[derive(Default)]
struct Counted {
    counters: Series<AtomicU64>,
    /// The bits of a float each.
    gauges: Series<AtomicU64>,
    histograms: Series<Buckets>,
    descriptions: Mutex<BTreeMap<String, Description>>,
}

/// The metrics of one kind. But for [gauges that have ended](Series::forget_ended) none is ever removed: labels have few
/// values.
struct Series<T>(RwLock<HashMap<Key, Arc<T>>>);

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T: Default> Series<T> {
    fn get(&self, key: &Key) -> Arc<T> {
        if let Some(known) = self.0.read().get(key) {
            return Arc::clone(known);
        }
        Arc::clone(self.0.write().entry(key.clone()).or_default())
    }

    fn values(&self, value: impl Fn(&T) -> Value) -> Vec<(Key, Value)> {
        self.0.read().iter().map(|(key, counted)| (key.clone(), value(counted))).collect()
    }
}

impl Series<AtomicU64> {
    /// Forgets the gauges that were set to NaN: what they told of is not there any more. For gauges of which a label has
    /// a value that goes, such as a digest.
    fn forget_ended(&self) {
        let is_nan = |bits: &AtomicU64| f64::from_bits(bits.load(Ordering::Relaxed)).is_nan();
        // One that somebody holds may be set again.
        self.0.write().retain(|_, bits| Arc::strong_count(bits) > 1 || !is_nan(bits));
    }
}

#[derive(Clone, Default)]
pub(crate) struct Description {
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "Prometheus' text has no units"))]
    pub(crate) unit: Option<Unit>,
    pub(crate) words: SharedString,
}

/// All metrics of one name.
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) description: Description,
    /// At least one, in the order of their labels. All are of one kind.
    pub(crate) series: Vec<(Key, Value)>,
}

/// What was counted until now.
pub(crate) enum Value {
    Counter(u64),
    Gauge(f64),
    /// One count for each bound, and one for what is beyond them all.
    Histogram {
        counts: Vec<u64>,
        sum: f64,
    },
}

impl Metrics {
    /// The content type of [`Metrics::render`].
    pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Metrics that nothing counts into yet: for tests, which install them for a thread.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// What this process counts, from the first call on. `None` where another recorder was installed before.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        static INSTALLED: OnceLock<Option<Metrics>> = OnceLock::new();
        let install = || {
            let metrics = Self::new();
            metrics::set_global_recorder(metrics.clone()).ok().map(|()| metrics)
        };
        INSTALLED.get_or_init(install).clone()
    }

    /// All metrics as they are now, in Prometheus' text format.
    ///
    /// Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        for family in self.families() {
            family.render(&mut text);
        }
        text
    }

    /// All metrics as they are now, by their names.
    pub(crate) fn families(&self) -> Vec<Family> {
        let counted = &self.0;
        counted.gauges.forget_ended();
        let values = counted.counters.values(|count| Value::Counter(count.load(Ordering::Relaxed))).into_iter();
        let values = values
            .chain(counted.gauges.values(|bits| Value::Gauge(f64::from_bits(bits.load(Ordering::Relaxed)))))
            .chain(counted.histograms.values(Buckets::value));
        let mut families: BTreeMap<String, Vec<(Key, Value)>> = BTreeMap::new();
        for (key, value) in values {
            families.entry(key.name().to_owned()).or_default().push((key, value));
        }
        let descriptions = self.0.descriptions.lock();
        let family = |(name, mut series): (String, Vec<(Key, Value)>)| {
            series.sort_by(|(one, _), (other, _)| one.labels().cmp(other.labels()));
            Family { description: descriptions.get(&name).cloned().unwrap_or_default(), name, series }
        };
        families.into_iter().map(family).collect()
    }

    fn describe(&self, key: &KeyName, unit: Option<Unit>, words: SharedString) {
        self.0.descriptions.lock().insert(key.as_str().to_owned(), Description { unit, words });
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Family {
    fn render(&self, text: &mut String) {
        let name = &self.name;
        let kind = match self.series.first() {
            Some((_, Value::Counter(_))) => "counter",
            Some((_, Value::Gauge(_))) => "gauge",
            Some((_, Value::Histogram { .. })) => "histogram",
            None => return,
        };
        if !self.description.words.is_empty() {
            let words = self.description.words.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(text, "# HELP {name} {words}");
        }
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for (key, value) in &self.series {
            let labels = labels(key);
            match value {
                Value::Counter(count) => sample(text, name, &labels, count),
                Value::Gauge(value) => sample(text, name, &labels, value),
                Value::Histogram { counts, sum } => {
                    let mut below = 0;
                    let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
                    for (bound, count) in bounds.zip(counts) {
                        below += count;
                        let mut labels = labels.clone();
                        labels.push(format!("le=\"{bound}\""));
                        sample(text, &format!("{name}_bucket"), &labels, below);
                    }
                    sample(text, &format!("{name}_sum"), &labels, sum);
                    sample(text, &format!("{name}_count"), &labels, below);
                }
            }
        }
        text.push('\n');
    }
}

fn labels(key: &Key) -> Vec<String> {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    key.labels().map(|label| format!("{}=\"{}\"", label.key(), escaped(label.value()))).collect()
}

fn sample(text: &mut String, name: &str, labels: &[String], value: impl std::fmt::Display) {
    let _ = match labels {
        [] => writeln!(text, "{name} {value}"),
        labels => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
    };
}

/// A histogram of fixed buckets: it takes the same memory however much it counts.
#[derive(Default)]
struct Buckets {
    /// One more than bounds: the last is beyond them all.
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// The sum's bits, as a float.
    sum: AtomicU64,
}

impl Buckets {
    fn value(&self) -> Value {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Value::Histogram { counts, sum: f64::from_bits(self.sum.load(Ordering::Relaxed)) }
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let place = BOUNDS.partition_point(|bound| *bound < value);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.increment(value);
    }
}

impl Recorder for Metrics {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(&key, unit, description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.0.counters.get(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.0.gauges.get(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.0.histograms.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_reads_names_labels_and_cumulative_buckets() {
        let metrics = Metrics::new();
        metrics::with_local_recorder(&metrics, || {
            metrics::describe_counter!("calls_total", "Calls,\nall of them");
            metrics::counter!("calls_total", "zone" => "fr-par-1").increment(3);
            metrics::counter!("calls_total", "zone" => "a\"b\\c\n").increment(1);
            metrics::gauge!("in_flight").set(0.5);
            metrics::histogram!("call_seconds", "slot" => "retry").record(0.3);
            metrics::histogram!("call_seconds", "slot" => "retry").record(1e9);
        });
        let text = metrics.render();
        for line in [
            r"# HELP calls_total Calls,\nall of them",
            "# TYPE calls_total counter",
            r#"calls_total{zone="fr-par-1"} 3"#,
            r#"calls_total{zone="a\"b\\c\n"} 1"#,
            "# TYPE in_flight gauge",
            "in_flight 0.5",
            "# TYPE call_seconds histogram",
            r#"call_seconds_bucket{slot="retry",le="0.000005"} 0"#,
            r#"call_seconds_bucket{slot="retry",le="0.25"} 0"#,
            r#"call_seconds_bucket{slot="retry",le="0.5"} 1"#,
            r#"call_seconds_bucket{slot="retry",le="600"} 1"#,
            r#"call_seconds_bucket{slot="retry",le="+Inf"} 2"#,
            r#"call_seconds_sum{slot="retry"} 1000000000.3"#,
            r#"call_seconds_count{slot="retry"} 2"#,
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn a_gauge_that_is_no_number_any_more_is_forgotten_until_it_is_set_again() {
        let metrics = Metrics::new();
        let set = |policy: &'static str, value: f64| {
            metrics::with_local_recorder(&metrics, || metrics::gauge!("info", "policy" => policy).set(value));
        };
        set("old", 1.0);
        set("new", 1.0);
        set("old", f64::NAN);
        let text = metrics.render();
        assert!(text.contains(r#"info{policy="new"} 1"#) && !text.contains("old"), "{text}");
        assert_eq!(metrics.0.gauges.0.read().len(), 1);
        set("old", 2.0);
        assert!(metrics.render().contains(r#"info{policy="old"} 2"#));
    }
}
