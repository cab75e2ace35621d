//! The export: settings, spans, logs, metrics, and the thread that sends them.

pub(crate) mod exporter;
mod http;
mod layer;
mod log;
mod metrics;
mod queue;
pub(crate) mod settings;
mod signal;
mod span;
