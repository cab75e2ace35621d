//! Durations as people write them in a runner's configuration: `"10m"`, `"1h30m"`, `"90s"`, or seconds as a number.

use std::time::Duration;

/// Reads Go's notation: numbers, whole or with a point, each with one of Go's units.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (whole, fraction) = rest[..digits].split_once('.').unwrap_or((&rest[..digits], "0"));
        let (whole, fraction) = (whole.parse::<u64>().ok()?, format!("0.{fraction}").parse::<f64>().ok()?);
        rest = &rest[digits..];
        let unit = rest.find(|character: char| character.is_ascii_digit()).unwrap_or(rest.len());
        let unit_nanos = match &rest[..unit] {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let nanos = whole.checked_mul(unit_nanos)?.checked_add((fraction * unit_nanos as f64) as u64)?;
        total = total.checked_add(Duration::from_nanos(nanos))?;
        rest = &rest[unit..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_understood_and_the_rest_is_not() {
        assert_eq!(parse("10m"), Some(Duration::from_secs(600)));
        assert_eq!(parse("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(parse("1m500ms"), Some(Duration::from_millis(60_500)));
        assert_eq!(parse("1.5h"), Some(Duration::from_secs(5400)));
        for nonsense in
            ["", "10", "m", "10 m", "-1s", "1d", "1..5h", ".h", "99999999999999999999s", "18446744073709551615h"]
        {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }
}
