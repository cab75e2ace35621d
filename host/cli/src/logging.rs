//! What the crates below say about their work, on stderr. Silent by default: results and errors are told elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::arguments::Global;
use crate::output::Color;

/// The variable that overrides `--verbose` and `--quiet` with a filter of its own, as `RUST_LOG` does elsewhere.
const FILTER_VARIABLE: &str = "WINDLASS_LOG";

/// Starts logging as the options say. A filter that cannot be read is an error of usage.
pub(crate) fn start(global: &Global) -> Result<(), String> {
    let filter = match std::env::var(FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty()) {
        Some(filter) => EnvFilter::try_new(&filter).map_err(|error| format!("{FILTER_VARIABLE}: {error}"))?,
        // Other people's crates are of interest only at the last step.
        None => EnvFilter::new(match (global.quiet, global.verbose) {
            (true, _) => "error",
            // Progress and errors tell what operations do; that a replaced policy file is refused is told only here.
            (_, 0) => "error,windlass_policy=warn",
            (_, 1) => "warn,windlass=info,windlass_scaleway=warn",
            (_, 2) => "info,windlass=debug",
            (_, _) => "trace",
        }),
    };
    let colours = match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(global.verbose >= 2)
        .init();
    Ok(())
}
