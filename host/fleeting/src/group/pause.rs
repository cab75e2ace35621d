//! The pause after creations that failed for a reason that waiting a moment does not mend: without it, the runner would
//! ask again with every update, and each time a creation would fail and be undone.

use std::time::Duration;

use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass};

/// The shortest pause, where the policy gives none.
const SHORTEST: Duration = Duration::from_secs(10);
/// The longest, whatever a policy says: a group must not sleep through the day.
const LONGEST: Duration = Duration::from_secs(900);

/// Whether the failure will meet the next creation as well.
pub(crate) fn is_hopeless(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::OutOfStock
            | FailureClass::QuotaExceeded
            | FailureClass::RateLimited
            | FailureClass::PermissionDenied
            | FailureClass::AuthenticationDenied
            | FailureClass::InvalidArguments
            | FailureClass::NotFound
            | FailureClass::Expired
    )
}

/// Why and until when nothing is created.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    failures: u32,
    first: Option<Instant>,
    until: Option<Instant>,
    why: String,
}

impl Pause {
    /// How many such failures came in a row, with this one, and since when.
    pub(crate) fn failed(&mut self, now: Instant) -> (u32, Duration) {
        self.failures = self.failures.saturating_add(1);
        let first = *self.first.get_or_insert(now);
        (self.failures, now - first)
    }

    /// Begins or prolongs the pause. Without a policy's word it doubles with each failure.
    pub(crate) fn begin(&mut self, now: Instant, policy: Option<Duration>, failure: &Failure, reason: Option<&str>) {
        let doubled = SHORTEST.saturating_mul(1 << self.failures.saturating_sub(1).min(10));
        let until = now + policy.unwrap_or(doubled).clamp(Duration::from_secs(1), LONGEST);
        // Creations that failed together bring one pause, not a sum.
        if self.until.is_none_or(|before| before < until) {
            self.until = Some(until);
        }
        self.why = reason.map_or_else(|| failure.message.clone(), |reason| format!("{} ({reason})", failure.message));
    }

    /// A creation went well: the next failure is a first one again.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The reason and the rest of the pause, while there is one.
    pub(crate) fn current(&self, now: Instant) -> Option<(&str, Duration)> {
        let rest = self.until?.checked_duration_since(now).filter(|rest| !rest.is_zero())?;
        Some((&self.why, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure {
            class: FailureClass::OutOfStock,
            message: "resource is out of stock".into(),
            method: None,
            path: None,
            status: None,
            error_type: None,
            resource: None,
            ambiguous: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_with_each_failure_and_ends_with_a_success() {
        let mut pause = Pause::default();
        let now = Instant::now();
        assert!(pause.current(now).is_none());
        for (count, seconds) in [(1, 10), (2, 20), (3, 40)] {
            assert_eq!(pause.failed(now).0, count);
            pause.begin(now, None, &failure(), None);
            assert_eq!(pause.current(now).unwrap().1, Duration::from_secs(seconds));
        }
        assert!(pause.current(now + Duration::from_secs(41)).is_none());
        pause.succeeded();
        assert_eq!(pause.failed(now).0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_decides_the_pause_within_bounds_and_its_reason_is_quoted() {
        let mut pause = Pause::default();
        let now = Instant::now();
        pause.failed(now);
        pause.begin(now, Some(Duration::from_secs(90)), &failure(), Some("the zone fills up at night"));
        let (why, rest) = pause.current(now).unwrap();
        assert_eq!(rest, Duration::from_secs(90));
        assert_eq!(why, "resource is out of stock (the zone fills up at night)");
        pause.begin(now, Some(Duration::from_secs(1_000_000)), &failure(), None);
        assert_eq!(pause.current(now).unwrap().1, LONGEST);
    }

    #[test]
    fn a_failure_that_the_next_creation_need_not_meet_is_no_reason_to_pause() {
        for class in [FailureClass::ServerError, FailureClass::Gateway, FailureClass::Timeout, FailureClass::Cancelled]
        {
            assert!(!is_hopeless(class));
        }
    }
}
