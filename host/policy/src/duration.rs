//! Durations as people write them: `15m`.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo};
use serde_json::{Map, Value};

/// Reads a duration in jiff's friendly format or ISO 8601: `500ms`, `90s`, `10m`, `1h30m`, `2d`, `PT10M`. A day has 24
/// hours.
///
/// # Errors
/// How to write it. A number alone is refused, since its unit would be a guess, and so is what has passed (`1h ago`).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || match text.parse::<u32>() {
        Ok(number) => format!("'{number}' lacks a unit: write {number}s, {number}m or {number}h"),
        Err(_) => format!("'{text}' is not a duration: write for example 500ms, 90s, 10m, 1h30m or 7d"),
    };
    read(text).ok_or_else(|| match is_long(text) {
        true => format!("'{text}' is too long: write a smaller number"),
        false => wrong(),
    })
}

fn read(text: &str) -> Option<Duration> {
    let span: Span = text.trim().parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

/// Whether a text of a number and a unit would be a duration if its number were smaller.
fn is_long(text: &str) -> bool {
    let is_digit = |char: char| char.is_ascii_digit();
    let unit = text.trim().trim_start_matches(is_digit);
    unit.len() < text.trim().len() && !unit.contains(is_digit) && read(&format!("1{unit}")).is_some()
}

/// The same settings or limits, in which a text of a key that ends in `-ms` or `_ms` has become milliseconds. What is
/// no duration stays, and is refused with all that does not fit.
pub(crate) fn in_milliseconds(mut written: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in &mut written {
        if (key.ends_with("-ms") || key.ends_with("_ms"))
            && let Some(duration) = value.as_str().and_then(|text| parse_duration(text).ok())
            && let Ok(milliseconds) = u64::try_from(duration.as_millis())
        {
            *value = milliseconds.into();
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_is_too_large_for_its_unit_is_told_as_one() {
        assert!(parse_duration("9999999999999h").is_err_and(|words| words.contains("is too long")));
        assert!(parse_duration("9999999999999").is_err_and(|words| words.contains("is not a duration")));
    }

    #[test]
    fn keys_of_milliseconds_take_durations_and_other_keys_keep_their_texts() {
        let written = json!({"deadline-ms": "15m", "time_ms": "100ms", "wait-ms": 5, "cap-ms": "soon", "ms": "1s"});
        let read = in_milliseconds(written.as_object().cloned().unwrap_or_default());
        let expected = json!({"deadline-ms": 900_000, "time_ms": 100, "wait-ms": 5, "cap-ms": "soon", "ms": "1s"});
        assert_eq!(Value::Object(read), expected);
    }
}
