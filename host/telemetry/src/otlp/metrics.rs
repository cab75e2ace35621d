//! The metrics of the process as OTLP's messages.

use metrics::{Key, Unit};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    self as otlp, AggregationTemporality, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
    metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::span::{attribute, now};
use crate::recorder::{BOUNDS, Family, Metrics, Value};

/// What the export sends: everything that was counted since the start.
pub(crate) struct MetricsSource {
    metrics: Metrics,
    began: u64,
}

impl MetricsSource {
    /// The metrics of this process. `None` where another recorder counts them.
    pub(super) fn of_process() -> Option<Self> {
        let metrics = Metrics::of_process();
        if metrics.is_none() {
            tracing::warn!("OpenTelemetry: another metrics recorder is already installed in this process");
        }
        metrics.map(|metrics| Self { metrics, began: now() })
    }

    /// All metrics as they are now.
    pub(super) fn snapshot(&self, resource: &Resource, scope: &InstrumentationScope) -> ExportMetricsServiceRequest {
        let now = now();
        let metrics = self.metrics.families().into_iter().map(|family| self.metric(family, now)).collect();
        ExportMetricsServiceRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(resource.clone()),
                scope_metrics: vec![ScopeMetrics { scope: Some(scope.clone()), metrics, ..ScopeMetrics::default() }],
                ..ResourceMetrics::default()
            }],
        }
    }

    fn metric(&self, family: Family, now: u64) -> Metric {
        const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;
        let number = |key: &Key, value, start| NumberDataPoint {
            attributes: labels(key),
            start_time_unix_nano: start,
            time_unix_nano: now,
            value: Some(value),
            ..NumberDataPoint::default()
        };
        let (mut sums, mut gauges, mut histograms) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in &family.series {
            match value {
                Value::Counter(count) => {
                    let count = i64::try_from(*count).unwrap_or(i64::MAX);
                    sums.push(number(key, number_data_point::Value::AsInt(count), self.began));
                }
                Value::Gauge(value) => gauges.push(number(key, number_data_point::Value::AsDouble(*value), 0)),
                Value::Histogram { counts, sum } => histograms.push(HistogramDataPoint {
                    attributes: labels(key),
                    start_time_unix_nano: self.began,
                    time_unix_nano: now,
                    count: counts.iter().sum(),
                    sum: Some(*sum),
                    bucket_counts: counts.clone(),
                    explicit_bounds: BOUNDS.to_vec(),
                    ..HistogramDataPoint::default()
                }),
            }
        }
        let data = if !sums.is_empty() {
            metric::Data::Sum(otlp::Sum { data_points: sums, aggregation_temporality: CUMULATIVE, is_monotonic: true })
        } else if !histograms.is_empty() {
            metric::Data::Histogram(otlp::Histogram { data_points: histograms, aggregation_temporality: CUMULATIVE })
        } else {
            metric::Data::Gauge(otlp::Gauge { data_points: gauges })
        };
        Metric {
            name: family.name,
            description: family.description.words.to_string(),
            unit: family.description.unit.as_ref().map_or("", Unit::as_canonical_label).to_owned(),
            data: Some(data),
            ..Metric::default()
        }
    }
}

fn labels(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| attribute(label.key(), super::span::Value::text(label.value()))).collect()
}
