//! The signals, and what is sent of those that go in batches.

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;

/// What OpenTelemetry exports apart from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    Logs,
    Metrics,
}

impl Signal {
    pub(super) const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// As paths and metrics spell it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// As names of variables spell it.
    pub(super) fn variable(self) -> String {
        self.as_str().to_ascii_uppercase()
    }

    /// What is counted where it does not arrive.
    pub(super) const fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log records",
            Self::Metrics => "exports of metrics",
        }
    }
}

/// What waits in a queue, and is sent in batches.
pub(super) trait Item: Sized + Send + 'static {
    const SIGNAL: Signal;

    /// A batch as OTLP's request.
    fn request(batch: Vec<Self>, resource: Resource, scope: InstrumentationScope) -> Vec<u8>;

    /// How many of a batch the collector rejects, by its answer.
    fn rejected(answer: &[u8]) -> i64;
}

impl Item for Span {
    const SIGNAL: Signal = Signal::Traces;

    fn request(batch: Vec<Self>, resource: Resource, scope: InstrumentationScope) -> Vec<u8> {
        let scoped = ScopeSpans { scope: Some(scope), spans: batch, ..ScopeSpans::default() };
        let of_resource =
            ResourceSpans { resource: Some(resource), scope_spans: vec![scoped], ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }.encode_to_vec()
    }

    fn rejected(answer: &[u8]) -> i64 {
        let partial = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        partial.map_or(0, |partial| partial.rejected_spans)
    }
}

impl Item for LogRecord {
    const SIGNAL: Signal = Signal::Logs;

    fn request(batch: Vec<Self>, resource: Resource, scope: InstrumentationScope) -> Vec<u8> {
        let scoped = ScopeLogs { scope: Some(scope), log_records: batch, ..ScopeLogs::default() };
        let of_resource =
            ResourceLogs { resource: Some(resource), scope_logs: vec![scoped], ..ResourceLogs::default() };
        ExportLogsServiceRequest { resource_logs: vec![of_resource] }.encode_to_vec()
    }

    fn rejected(answer: &[u8]) -> i64 {
        let partial = ExportLogsServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        partial.map_or(0, |partial| partial.rejected_log_records)
    }
}
