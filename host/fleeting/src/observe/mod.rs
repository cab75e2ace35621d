//! What the plugin lets be seen: log lines for the host.

mod log;

pub use log::start_logging;
