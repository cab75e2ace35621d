//! The two ways in which a mark names an instant: a day, and a second in UTC.

use windlass_guest_sdk::prelude::*;

const DAY: u64 = 86_400;

/// `2026-12-01` is the end of that day, since who writes it means that day too; `2026-12-01T18:00:00Z` is that second.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let seconds = match text.split_once('T') {
        None => day(text)? * DAY + DAY,
        Some((date, time)) => day(date)? * DAY + second(time.strip_suffix('Z')?)?,
    };
    Some(seconds * 1000)
}

/// The days from 1970 to a date.
fn day(date: &str) -> Option<u64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = months.get(..usize::try_from(month.checked_sub(1)?).ok()?)?;
    let is_a_day = months.get(before.len()).is_some_and(|days| (1..=*days).contains(&day));
    let years = year.checked_sub(1970).filter(|_| is_a_day)?;
    // Leap days before this year: those up to its last year, less those up to 1969.
    let last = year - 1;
    Some(years * 365 + last / 4 - last / 100 + last / 400 - 477 + before.iter().sum::<u64>() + day - 1)
}

/// The seconds from midnight to a time.
fn second(time: &str) -> Option<u64> {
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Three numbers of so many digits.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[u64; 3]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; 3];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part =
            parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_ends_at_midnight_and_a_second_is_itself() {
        for (text, seconds) in [
            ("1970-01-01", DAY),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2000-03-01T00:00:00Z", 951_868_800),
            ("2025-12-31", 1_767_225_600),
            ("2026-12-01", 1_796_169_600),
            ("2026-12-01T18:00:00Z", 1_796_148_000),
            ("2028-02-29", 1_835_481_600),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(parse(text), Some(seconds * 1000), "{text}");
        }
    }

    #[test]
    fn each_day_of_four_centuries_follows_the_one_before() {
        let mut expected = 0;
        for year in 1970..2370 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(end) = parse(&format!("{year:04}-{month:02}-{day:02}")) {
                        expected += 1;
                        assert_eq!(end, expected * DAY * 1000, "{year}-{month}-{day}");
                    }
                }
            }
        }
        assert_eq!(expected, 146_097);
    }

    #[test]
    fn everything_else_is_no_instant() {
        for text in [
            "",
            "friday",
            "2026-12",
            "2026-13-01",
            "2026-00-01",
            "2026-12-00",
            "2026-12-32",
            "2026-02-29",
            "1969-12-31",
            "2026-1-1",
            "26-12-01",
            "+026-12-01",
            "2026-12-01-01",
            " 2026-12-01",
            "2026-12-01T",
            "2026-12-01T18:00Z",
            "2026-12-01T18:00:00",
            "2026-12-01T24:00:00Z",
            "2026-12-01T18:60:00Z",
            "2026-12-01T18:00:60Z",
            "2026-12-01T18:00:00+01:00",
            "2026-12-01t18:00:00z",
            "0000-01-01",
            "2026\u{2212}12-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
