//! The one date that Scaleway hides in words.

use jiff::Timestamp;

/// The instant in words such as `this server cannot be deleted before 2025-04-12 13:24:33.836482 +0000 UTC`.
///
/// That is how Go prints a time (recorded once). Read tolerantly: `T` or spaces, any fraction, offset as `Z`, `+0000`
/// or `+00:00`, and UTC where none is given. `None` when no date follows the word.
pub(super) fn not_before(words: &str) -> Option<Timestamp> {
    let lower = words.to_ascii_lowercase();
    lower.match_indices("before ").find_map(|(at, word)| instant(&words[at + word.len()..]))
}

fn instant(text: &str) -> Option<Timestamp> {
    let text = text.trim_start();
    let date = text.get(..10)?;
    let rest = text.get(10..)?.trim_start_matches([' ', 'T', 't']);
    let end = rest.find(|next: char| !next.is_ascii_digit() && next != ':' && next != '.').unwrap_or(rest.len());
    let (time, rest) = rest.split_at(end);
    format!("{date}T{}{}", time.trim_end_matches('.'), offset(rest.trim_start())).parse().ok()
}

/// `+hh:mm` out of what stands behind a time.
fn offset(text: &str) -> String {
    let sign = text.chars().next().filter(|sign| matches!(sign, '+' | '-'));
    let digits: String = text.chars().skip(1).filter(|next| *next != ':').take(4).collect();
    match sign {
        Some(sign) if digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("{sign}{}:{}", &digits[..2], &digits[2..])
        }
        _ => "Z".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_is_found_however_it_is_written() {
        let expected: Timestamp = "2030-01-02T03:04:05.5Z".parse().unwrap();
        for words in [
            "this server cannot be deleted before 2030-01-02 03:04:05.5 +0000 UTC",
            "this server cannot be deleted before 2030-01-02 05:04:05.5 +0200 CEST",
            "this server cannot be deleted before 2030-01-01 22:04:05.500000000 -0500 EST m=+0.123",
            "cannot be deleted Before 2030-01-02T03:04:05.5Z.",
            "before long: not before  2030-01-02T05:04:05.5+02:00",
            "before 2030-01-02 03:04:05.5",
        ] {
            assert_eq!(not_before(words), Some(expected), "{words}");
        }
        let whole: Timestamp = "2030-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(not_before("deleted before 2030-01-02 03:04:05 +0000 UTC"), Some(whole));
        assert_eq!(not_before("deleted before 2030-01-02 03:04:05."), Some(whole), "the end of a sentence");
    }

    #[test]
    fn words_without_a_date_have_none() {
        for words in ["", "before", "before ", "before tomorrow", "2030-01-02 03:04:05", "before 2030-13-02 03:04:05"] {
            assert_eq!(not_before(words), None, "{words}");
        }
        assert_eq!(not_before("before 2030-01-0ü 03:04:05"), None);
        assert_eq!(not_before("ÄÖÜ before 2030-01"), None);
    }

    /// As Go's `time.Time.String()` writes it: the fraction without trailing zeros, the offset without a colon.
    fn as_go_writes(at: Timestamp) -> String {
        let text = at.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string();
        format!("{} +0000 UTC", text.trim_end_matches('0').trim_end_matches('.'))
    }

    proptest! {
        #[test]
        fn every_instant_that_go_prints_is_read_back(micros in 0_i64..32_503_680_000_000_000) {
            let at = Timestamp::from_microsecond(micros).unwrap();
            let words = format!("this server cannot be deleted before {}", as_go_writes(at));
            prop_assert_eq!(not_before(&words), Some(at));
        }

        #[test]
        fn no_words_break_the_reader(words in "\\PC*", tail in "\\PC*") {
            let _ = not_before(&words);
            let _ = not_before(&format!("{words}before {tail}"));
            let _ = not_before(&format!("before 2030-01-02 {tail}"));
        }
    }
}
