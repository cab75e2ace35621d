//! The pause after creations that failed for a reason that waiting a moment does not mend: without it, the runner would
//! ask again with every update, and each time a creation would fail and be undone.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_policy::Host;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Retry, retry};

/// The shortest pause, where the policy gives none.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// The longest, whatever a policy says: a group must not sleep through the day.
const MAX_PAUSE: Duration = Duration::from_secs(900);

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
///
/// Creations that were accepted together and fail together are one failure. So each is identified by when it was
/// accepted: before the last failure that counted, it is of the same burst, and says nothing new.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// Whether the reason of the last failure may be gone at any moment.
    passing: bool,
    failures: u32,
    /// When the first of the row failed, and the last that counted.
    first_and_last: Option<(Instant, Instant)>,
    until: Option<Instant>,
    why: String,
}

impl Pause {
    /// Begins the pause, which doubles with each failure in a row. Answers how many there were with this one, and since
    /// when. `None`: it belongs to a burst that was counted, and changes nothing.
    fn failed(&mut self, now: Instant, accepted: Instant, failure: &Failure) -> Option<(u32, Duration)> {
        let first = match self.first_and_last {
            Some((_, last)) if accepted <= last => return None,
            Some((first, _)) => first,
            None => now,
        };
        self.first_and_last = Some((first, now));
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now + MIN_PAUSE.saturating_mul(1 << (self.failures - 1).min(10)).min(MAX_PAUSE));
        self.why.clone_from(&failure.message);
        self.passing = !is_hopeless(failure.class);
        Some((self.failures, now - first))
    }

    /// Begins the pause without a word of a policy.
    #[cfg(test)]
    pub(crate) fn failed_without_policy(&mut self, now: Instant, accepted: Instant, failure: &Failure) {
        self.failed(now, accepted, failure);
    }

    /// The policy's word on the pause that has begun.
    fn decided(&mut self, began: Instant, wait: Option<Duration>, reason: Option<&str>) {
        if let Some(wait) = wait {
            let until = began + wait.clamp(Duration::from_secs(1), MAX_PAUSE);
            // The policy's wait after a failure that passes is one between two attempts at the same thing, and those
            // are over.
            self.until = Some(if self.passing { self.until.map_or(until, |floor| floor.max(until)) } else { until });
        }
        if let Some(reason) = reason {
            self.why.push_str(&format!(" ({reason})"));
        }
    }

    /// What was accepted then went well. After the last failure, the pause is over, and the next one is a first one
    /// again. Whether it was so.
    pub(crate) fn succeeded(&mut self, accepted: Instant) -> bool {
        let ends = self.first_and_last.is_none_or(|(_, last)| accepted > last);
        if ends {
            *self = Self::default();
        }
        ends
    }

    /// Whether what failed may go well at the next try.
    pub(crate) fn is_passing(&self) -> bool {
        self.passing
    }

    /// The reason and the rest of the pause, while there is one.
    pub(crate) fn current(&self, now: Instant) -> Option<(&str, Duration)> {
        let rest = self.until?.checked_duration_since(now).filter(|rest| !rest.is_zero())?;
        Some((&self.why, rest))
    }
}

/// Begins a pause where the failure of what was accepted then is a new one, and asks the retry policy how long it is.
/// The question's attempt and elapsed time are filled in. The rest of the pause; `None`: it belongs to a failure that
/// was counted.
pub(crate) async fn pause_after(
    pause: &Mutex<Pause>,
    policies: &Host,
    accepted: Instant,
    mut question: retry::Question,
) -> Option<Duration> {
    let now = Instant::now();
    let (attempt, elapsed) = pause.lock().failed(now, accepted, &question.failure)?;
    question.attempt = attempt;
    question.elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    let decision = policies.pin().decide::<Retry>(question).await;
    let wait = match decision.answer.verdict {
        retry::Verdict::Wait(wait) => Some(Duration::from_millis(wait)),
        retry::Verdict::GiveUp | retry::Verdict::Defer => None,
    };
    let mut pause = pause.lock();
    pause.decided(now, wait, decision.reason.as_deref());
    pause.current(Instant::now()).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure::of_class(FailureClass::OutOfStock, "resource is out of stock")
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_with_each_failure_and_ends_with_a_success() {
        let mut pause = Pause::default();
        let mut now = Instant::now();
        assert!(pause.current(now).is_none());
        for (count, seconds) in [(1, 10), (2, 20), (3, 40)] {
            let accepted = now + SECOND;
            now = accepted + SECOND;
            assert_eq!(pause.failed(now, accepted, &failure()).unwrap().0, count);
            assert_eq!(pause.current(now).unwrap().1, Duration::from_secs(seconds));
            now += Duration::from_secs(seconds);
            assert!(pause.current(now).is_none());
        }
        pause.succeeded(now + SECOND);
        assert_eq!(pause.failed(now + 3 * SECOND, now + 2 * SECOND, &failure()).unwrap().0, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_failures_is_one_failure_and_a_success_among_them_says_nothing() {
        let mut pause = Pause::default();
        let accepted = Instant::now();
        assert!(pause.failed(accepted + SECOND, accepted, &failure()).is_some());
        for late in 2..9 {
            assert!(pause.failed(accepted + late * SECOND, accepted, &failure()).is_none());
        }
        pause.succeeded(accepted);
        let (_, rest) = pause.current(accepted + 9 * SECOND).unwrap();
        assert_eq!(rest, 2 * SECOND, "ten seconds from the first of them");
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_decides_the_pause_within_bounds_and_its_reason_is_quoted() {
        let mut pause = Pause::default();
        let now = Instant::now();
        pause.failed(now, now, &failure());
        pause.decided(now, Some(Duration::from_secs(90)), Some("the zone fills up at night"));
        let (why, rest) = pause.current(now).unwrap();
        assert_eq!(rest, Duration::from_secs(90));
        assert_eq!(why, "resource is out of stock (the zone fills up at night)");
        pause.decided(now, Some(Duration::from_secs(1_000_000)), None);
        assert_eq!(pause.current(now).unwrap().1, MAX_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_cannot_shorten_the_pause_after_a_failure_that_it_saw_retried_in_vain() {
        let mut pause = Pause::default();
        let now = Instant::now();
        pause.failed(now, now, &Failure { class: FailureClass::ServerError, ..failure() });
        pause.decided(now, Some(SECOND), None);
        assert_eq!(pause.current(now).unwrap().1, MIN_PAUSE);
        pause.decided(now, Some(90 * SECOND), None);
        assert_eq!(pause.current(now).unwrap().1, 90 * SECOND);
        assert!(pause.is_passing());
    }

    #[test]
    fn a_failure_that_the_next_creation_need_not_meet_is_no_reason_to_pause() {
        for class in [FailureClass::ServerError, FailureClass::Gateway, FailureClass::Timeout, FailureClass::Cancelled]
        {
            assert!(!is_hopeless(class));
        }
    }
}
