//! How long an answer asks its caller to wait.

use std::time::Duration;

use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The longest wait that is believed. Nobody waits that long; it is there to be longer than any budget.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// What `Retry-After` asks for (RFC 9110, 10.2.3): seconds, or a date, which counts from the answer's own `Date`. So no
/// clock of this machine is read, and none has to be right. What is neither, or a date in an answer without one, asks
/// for nothing.
///
/// (assumption: retry-after-header) None of Scaleway's recorded answers has one, not even 429; a gateway of tomorrow,
/// or one of one's own before it, may.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    wait(text(&RETRY_AFTER)?, text(&DATE))
}

fn wait(asked: &str, date: Option<&str>) -> Option<Duration> {
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long wait, too.
        let seconds = asked.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_WAIT));
    }
    let at = httpdate::parse_http_date(asked).ok()?;
    let now = httpdate::parse_http_date(date?).ok()?;
    // One that has passed asks for no wait.
    Some(at.duration_since(now).unwrap_or_default().min(MAX_WAIT))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const NOON: &str = "Sun, 06 Nov 1994 12:00:00 GMT";

    #[test]
    fn seconds_are_seconds_and_absurd_ones_a_day() {
        for (asked, seconds) in [
            ("0", 0),
            ("1", 1),
            ("120", 120),
            ("007", 7),
            ("86400", 86_400),
            ("86401", 86_400),
            ("99999999999", 86_400),
        ] {
            assert_eq!(wait(asked, None), Some(Duration::from_secs(seconds)), "{asked}");
        }
        assert_eq!(wait(&"9".repeat(200), None), Some(MAX_WAIT));
    }

    #[test]
    fn a_date_counts_from_the_answers_own_date_in_each_form_that_http_knows() {
        for asked in ["Sun, 06 Nov 1994 12:01:30 GMT", "Sunday, 06-Nov-94 12:01:30 GMT", "Sun Nov  6 12:01:30 1994"] {
            assert_eq!(wait(asked, Some(NOON)), Some(Duration::from_secs(90)), "{asked}");
            assert_eq!(wait(asked, None), None, "nothing tells how far away that is");
            assert_eq!(wait(asked, Some("noon")), None);
        }
        assert_eq!(wait("Sun, 06 Nov 1994 11:00:00 GMT", Some(NOON)), Some(Duration::ZERO));
        assert_eq!(wait("Fri, 31 Dec 9999 23:59:59 GMT", Some(NOON)), Some(MAX_WAIT));
    }

    #[test]
    fn what_is_no_wait_asks_for_none() {
        for asked in ["", " ", "-1", "+1", "1.5", "1e3", "0x10", "soon", "12 s", "١٢", "Sun, 06 Nov 1994"] {
            assert_eq!(wait(asked, Some(NOON)), None, "{asked:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_a_panic_and_bounded(
            asked in prop::collection::vec(any::<u8>(), 0..64),
            date in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut headers = HeaderMap::new();
            for (name, bytes) in [(RETRY_AFTER, asked), (DATE, date)] {
                if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                    headers.insert(name, value);
                }
            }
            prop_assert!(retry_after(&headers).is_none_or(|wait| wait <= MAX_WAIT));
        }

        #[test]
        fn every_number_of_seconds_and_every_date_ask_for_what_they_say(
            seconds in any::<u64>(),
            now in 0..4_000_000_000_u64,
            later in 0..200_000_u64,
        ) {
            prop_assert_eq!(wait(&seconds.to_string(), None), Some(Duration::from_secs(seconds).min(MAX_WAIT)));
            let date = |seconds| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            let asked = wait(&date(now + later), Some(&date(now)));
            prop_assert_eq!(asked, Some(Duration::from_secs(later).min(MAX_WAIT)));
            let passed = wait(&date(now), Some(&date(now + later)));
            prop_assert_eq!(passed, Some(Duration::ZERO));
        }
    }
}
