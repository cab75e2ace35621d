//! The export: settings, spans, metrics, and the thread that sends them.

pub(crate) mod exporter;
mod http;
mod layer;
mod queue;
pub(crate) mod recorder;
pub(crate) mod settings;
mod span;
