//! The export: settings, spans, metrics, and the thread that sends them.

pub(crate) mod exporter;
mod http;
mod layer;
mod metrics;
mod queue;
pub(crate) mod settings;
mod span;
