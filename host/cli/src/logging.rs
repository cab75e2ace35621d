//! What the crates below say about their work, on stderr. Silent by default: results and errors are printed elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_inspect::output::Color;
use windlass_telemetry::{Telemetry, log_filter};

use crate::arguments::Global;

/// Starts logging as `WINDLASS_LOG` says, otherwise as `--verbose` and `--quiet` do, and the export of telemetry as the
/// environment says. A filter or a variable that cannot be read is an error of usage.
pub(crate) fn start(global: &Global) -> Result<Telemetry, String> {
    let filter = log_filter(match (global.quiet, global.verbose) {
        (true, _) => "error",
        // Progress and errors say what operations do; only this log says that a replaced policy file was refused.
        (_, 0) => "error,windlass_policy=warn",
        (_, 1) => "warn,windlass=info,windlass_scaleway=warn",
        (_, 2) => "info,windlass=debug",
        // Other people's crates are of interest only at the last step.
        (_, _) => "trace",
    })
    .map_err(|error| error.to_string())?;
    let colours = match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    let telemetry = Telemetry::start("windlass", env!("CARGO_PKG_VERSION")).map_err(|error| error.to_string())?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(global.verbose >= 2)
        .with_filter(filter);
    // Each has a filter of its own: what is exported is not decided by what is logged.
    tracing_subscriber::registry().with(telemetry.layer()).with(lines).init();
    Ok(telemetry)
}
