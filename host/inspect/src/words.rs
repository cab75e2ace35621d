//! Words for what stands in a journal or a record.

use std::time::Duration;

use serde_json::Value;
use windlass_lifecycle::{Operation, OperationState, Report};
use windlass_policy::slots::types;
use windlass_policy::{LinkStatus, Mode};
pub use windlass_policy::{counted, kind_word};

use crate::text::age;

/// Two units at most: `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
pub fn human_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let seconds = duration.as_secs();
    let two = |large: u64, large_unit: &str, small: u64, small_unit: &str| {
        if small == 0 { format!("{large} {large_unit}") } else { format!("{large} {large_unit} {small} {small_unit}") }
    };
    match seconds {
        0 if milliseconds == 0 && !duration.is_zero() => format!("{} µs", duration.as_micros()),
        0 => format!("{milliseconds} ms"),
        1..=59 => format!("{:.1} s", duration.as_secs_f64()),
        60..=3599 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Why an operation failed or left something; empty where there is nothing to say.
#[must_use]
pub fn why_words(operation: &Operation) -> String {
    let report = Report::of(operation);
    let report = report.filter(|_| operation.state == OperationState::Left);
    let left = report.into_iter().flat_map(|report| {
        let left = report.left.into_iter().map(|left| format!("{}: {}", left.resource, left.why));
        left.chain(report.unverified).collect::<Vec<_>>()
    });
    operation.cause.as_ref().map(cause_words).into_iter().chain(left).collect::<Vec<_>>().join("; ")
}

/// The first cause as the journal keeps it: the step, and the failure in the contract's shape.
#[must_use]
pub fn cause_words(cause: &Value) -> String {
    let step = cause.get("step").and_then(Value::as_str).map(|step| format!("{step}: ")).unwrap_or_default();
    let failure = cause.get("failure").unwrap_or(cause);
    match serde_json::from_value::<types::Failure>(failure.clone()) {
        Ok(failure) => format!("{step}{}", failure.words()),
        Err(_) => format!("{step}{}", brief(failure)),
    }
}

/// A value on one line, cut where it is long; JSON output has it whole.
pub(crate) fn brief(value: &Value) -> String {
    const MAX_CHARACTERS: usize = 160;
    let text = value.to_string();
    if text.chars().count() <= MAX_CHARACTERS {
        text
    } else {
        format!("{}…", text.chars().take(MAX_CHARACTERS).collect::<String>())
    }
}

/// When in its chain a policy is asked.
#[must_use]
pub fn asked_words(link: &LinkStatus) -> String {
    match link.mode {
        Mode::Decide => (link.position + 1).to_string(),
        Mode::Shadow => format!("{} (shadow)", link.position + 1),
    }
}

/// How a policy is doing, and why; the rest is as it should be.
#[must_use]
pub fn state_words(link: &LinkStatus) -> (String, String) {
    let mut is = Vec::new();
    let mut why = Vec::new();
    if link.suspended {
        is.push("suspended".to_owned());
    } else if link.failures_in_a_row > 0 {
        is.push(format!("failing, {} in a row", link.failures_in_a_row));
    }
    if !is.is_empty() {
        why.extend(link.last_failure.clone());
    }
    if let Some(error) = &link.error {
        is.push("not replaced".to_owned());
        let when = link.refused_at_ms.map(|at| format!("{} ago: ", age(at))).unwrap_or_default();
        why.push(format!("{when}{error}"));
    }
    if is.is_empty() {
        is.push(match link.mode {
            Mode::Decide => "deciding".to_owned(),
            Mode::Shadow => "asked as a shadow".to_owned(),
        });
    }
    // In one line each, since a table has none but its own.
    let why: Vec<String> = why.iter().map(|why| why.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    (is.join("; "), why.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_at_most_two_units() {
        for (milliseconds, text) in [
            (0, "0 ms"),
            (850, "850 ms"),
            (4_230, "4.2 s"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (86_400_000, "1 d"),
        ] {
            assert_eq!(human_duration(Duration::from_millis(milliseconds)), text);
        }
        assert_eq!(human_duration(Duration::from_micros(17)), "17 µs");
    }
}
