//! Words for what stands in a journal or a record.

use std::time::Duration;

use windlass_policy::slots::types;

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

/// `1 server`, `2 servers`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A word of the contract, as JSON writes it.
pub fn kind_word(kind: &impl serde::Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A failure in one line: Scaleway's words, then status, type and call.
pub fn failure_words(failure: &types::Failure) -> String {
    let mut details = Vec::new();
    details.extend(failure.status.map(|status| status.to_string()));
    details.extend(failure.error_type.clone());
    if let (Some(method), Some(path)) = (&failure.method, &failure.path) {
        details.push(format!("{method} {path}"));
    }
    if details.is_empty() || failure.path.as_ref().is_some_and(|path| failure.message.contains(path.as_str())) {
        failure.message.clone()
    } else {
        format!("{} ({})", failure.message, details.join(", "))
    }
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
