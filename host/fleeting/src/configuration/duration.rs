//! Durations as people write them in a runner's configuration: `"10m"`, `"1h30m"`, `"90s"`, or seconds as a number.

use std::time::Duration;

/// Reads Go's notation with the units h, m, s and ms.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|character: char| character.is_ascii_digit()).unwrap_or(rest.len());
        let part = match &rest[..unit] {
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "s" => Duration::from_secs(number),
            "ms" => Duration::from_millis(number),
            _ => return None,
        };
        total = total.checked_add(part)?;
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
        for nonsense in ["", "10", "m", "10 m", "-1s", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse(nonsense), None, "{nonsense}");
        }
    }
}
