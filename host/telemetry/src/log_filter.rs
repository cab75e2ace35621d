//! Which log lines are written.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

/// Says what is logged: levels, or pairs of a target and its level, as in `info,windlass_lifecycle=debug`.
const VARIABLE: &str = "WINDLASS_LOG";

/// `WINDLASS_LOG` cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE}: {0}; it looks like `info,windlass_lifecycle=debug`")]
pub struct LogFilterError(String);

/// What is logged: as `WINDLASS_LOG` says, or as the default says if the variable is unset or empty.
///
/// # Errors
/// The variable, or the default, cannot be read.
pub fn log_filter(default: &str) -> Result<Targets, LogFilterError> {
    let asked = std::env::var(VARIABLE).ok().filter(|filter| !filter.is_empty());
    let filter = asked.as_deref().unwrap_or(default);
    // `Targets` reads a misspelt level as the name of a target.
    let is_neither = |word: &&str| !word.contains('=') && word.parse::<LevelFilter>().is_err();
    if let Some(word) = filter.split(',').map(str::trim).find(is_neither) {
        return Err(LogFilterError(format!("`{word}` is not a level: error, warn, info, debug, trace or off")));
    }
    filter.parse().map_err(|error: ParseError| LogFilterError(error.to_string()))
}

/// The same from `info` on, for a program that starts whatever the variable says. With the filter comes why the variable
/// is ignored.
#[must_use]
pub fn log_filter_or_info() -> (Targets, Option<LogFilterError>) {
    match log_filter("info") {
        Ok(filter) => (filter, None),
        Err(error) => (Targets::new().with_default(LevelFilter::INFO), Some(error)),
    }
}
