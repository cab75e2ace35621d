use std::time::Duration;

use tokio::time::Instant as TokioInstant;

/// Microseconds of simulated time since the simulator was made.
pub(crate) type Micros = u64;

/// 2026-08-01T00:00:00Z in seconds since 1970: the date at which every simulation begins.
pub const EPOCH_SECONDS: i64 = 1_785_542_400;

/// Simulated time: tokio's time, scaled, and what was added by hand.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: TokioInstant,
    scale: f64,
    added: Micros,
}

impl Clock {
    pub(crate) fn new(scale: f64) -> Self {
        let scale = if scale.is_finite() && scale > 0.0 { scale } else { 0.0 };
        Self { origin: TokioInstant::now(), scale, added: 0 }
    }

    pub(crate) fn now(&self) -> Micros {
        self.at(TokioInstant::now())
    }

    /// Simulated time at a moment of tokio's time since time was last added by hand.
    pub(crate) fn at(&self, moment: TokioInstant) -> Micros {
        let elapsed = moment.saturating_duration_since(self.origin).as_micros() as f64 * self.scale;
        self.added.saturating_add(elapsed as Micros)
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.added = self.added.saturating_add(micros(by));
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// Microseconds since the simulator was made, before it where negative: what was there from the start is older.
pub(crate) type Instant = i64;

pub(crate) fn instant(at: Micros) -> Instant {
    Instant::try_from(at).unwrap_or(Instant::MAX)
}

fn timestamp(at: Micros) -> jiff::Timestamp {
    timestamp_of(instant(at))
}

fn timestamp_of(at: Instant) -> jiff::Timestamp {
    let micros = at.saturating_add(EPOCH_SECONDS * 1_000_000);
    jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX)
}

/// As the Instance API writes dates: `2026-08-01T00:00:00.000000+00:00`.
pub(crate) fn offset_date(at: Micros) -> String {
    timestamp(at).strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// As the newer APIs write dates: `2026-08-01T00:00:00.000000Z`.
pub(crate) fn zulu_date(at: Micros) -> String {
    timestamp(at).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// As the newer APIs write dates, also of what is older than the simulation.
pub(crate) fn zulu_instant(at: Instant) -> String {
    timestamp_of(at).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// As the `Date` header has it: `Sat, 01 Aug 2026 00:00:00 GMT`.
pub(crate) fn http_date(at: Micros) -> String {
    timestamp(at).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// As Go prints a time, which is how the Apple silicon API words its refusal: `2026-08-02 00:00:00.000001 +0000 UTC`.
/// Trailing zeros of the fraction are dropped, as Go does.
pub(crate) fn go_date(at: Instant) -> String {
    let text = timestamp_of(at).strftime("%Y-%m-%d %H:%M:%S%.6f").to_string();
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} +0000 UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_writes_dates_in_its_own_way() {
        let at = 1_500_000;
        assert_eq!(offset_date(at), "2026-08-01T00:00:01.500000+00:00");
        assert_eq!(zulu_date(at), "2026-08-01T00:00:01.500000Z");
        assert_eq!(http_date(at), "Sat, 01 Aug 2026 00:00:01 GMT");
        assert_eq!(zulu_instant(-1_500_000), "2026-07-31T23:59:58.500000Z");
        assert_eq!(go_date(instant(at)), "2026-08-01 00:00:01.5 +0000 UTC");
        assert_eq!(go_date(2_000_000), "2026-08-01 00:00:02 +0000 UTC");
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_is_scaled_tokio_time_and_what_was_added() {
        let mut clock = Clock::new(10.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), 10_000_000);
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now(), 10_005_000);
    }

    #[tokio::test(start_paused = true)]
    async fn scale_zero_stands_still_but_for_the_hand() {
        let mut clock = Clock::new(0.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), 0);
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now(), 5_000);
    }
}
