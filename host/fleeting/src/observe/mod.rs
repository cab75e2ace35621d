//! What the plugin lets be seen: log lines for the host, metrics, and the console.

mod console;
mod gauges;
mod log;
mod metrics_endpoint;
pub mod names;

pub(crate) use console::serve_console;
pub(crate) use gauges::Gauges;
pub use log::start_logging;
pub use metrics_endpoint::MetricsError;
pub(crate) use metrics_endpoint::serve_metrics;
