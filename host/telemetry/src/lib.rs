//! Traces, logs and metrics as OpenTelemetry's OTLP over HTTP, and metrics as Prometheus reads them. Knows both
//! formats, the standard `OTEL_*` variables and the names of the spans that the crates open; does not know what an
//! operation is, and decides nothing.
//!
//! # How it is wired
//! The other crates open spans of `tracing`, as they write log lines: `operation`, `step`, `scaleway_call`, `decision`
//! and `hook`. A program that calls `Telemetry::start` and adds its layer to the subscriber turns these into OTLP's
//! spans, and those of decisions and operations into log records as well; of an event `policy`, which says how the
//! status of a policy has changed, it makes a log record. The metrics are those of the `metrics` crate.
//! Where no endpoint is set, nothing is started and no span is enabled.
//!
//! # Guarantees
//! Nothing here ever waits for the collector but the thread of the export and, within a bound, the end of the process.
//! What does not fit the queue is dropped and counted.

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(feature = "collector")]
pub mod collector;
#[cfg(feature = "process")]
mod log_filter;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "process")]
mod process;
#[cfg(feature = "process")]
mod recorder;
mod traceparent;

#[cfg(feature = "process")]
pub use log_filter::{LogFilterError, log_filter, log_filter_or_info};
#[cfg(feature = "otlp")]
pub use otlp::settings::{Settings, SettingsError};
#[cfg(feature = "process")]
pub use process::{Telemetry, TelemetryError};
#[cfg(feature = "process")]
pub use recorder::Metrics;
pub use traceparent::traceparent;
