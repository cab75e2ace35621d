use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::settings::Limits;

/// Tokio's clock for governor, so that the limit runs on simulated time when everything else does.
#[derive(Debug, Clone)]
struct TokioClock {
    start: Instant,
}

impl Clock for TokioClock {
    /// Time since the clock was made; governor knows how to reckon with durations.
    type Instant = Duration;

    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }
}

/// So many calls per second, after a burst of so many; first come, first served.
///
/// governor keeps the account (GCRA). Its own `until_ready` is not used, because it waits on wall-clock timers of a
/// thread of its own; we wait on tokio's.
pub(crate) struct RateLimit {
    account: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>,
    clock: TokioClock,
    /// Held by whoever is next: the order of arrival is the order of leaving, and only one task wakes for each call.
    turn: Mutex<()>,
}

impl RateLimit {
    pub(crate) fn new(limits: &Limits) -> Self {
        let clock = TokioClock { start: Instant::now() };
        let quota = Quota::per_second(limits.calls_per_second).allow_burst(limits.burst);
        Self { account: RateLimiter::direct_with_clock(quota, clock.clone()), clock, turn: Mutex::new(()) }
    }

    /// Waits until the next call may leave.
    pub(crate) async fn admit(&self) {
        let _turn = self.turn.lock().await;
        while let Err(refusal) = self.account.check() {
            // Tokio's timers have whole milliseconds; a shorter wait would spin.
            let wait = refusal.wait_time_from(self.clock.now()).max(Duration::from_millis(1));
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(per_second: u32, burst: u32) -> Limits {
        Limits {
            calls_per_second: per_second.try_into().unwrap(),
            burst: burst.try_into().unwrap(),
            ..Limits::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_leaves_at_once_and_the_rest_in_its_rate_on_simulated_time() {
        let limit = RateLimit::new(&limits(10, 5));
        let start = Instant::now();
        for _ in 0..5 {
            limit.admit().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..20 {
            limit.admit().await;
        }
        let elapsed = start.elapsed();
        assert!(elapsed >= Duration::from_millis(2000) && elapsed <= Duration::from_millis(2050), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_first_leaves_first() {
        let limit = RateLimit::new(&limits(10, 1));
        let order = std::sync::Mutex::new(Vec::new());
        // The latest arrives at the very moment at which a place comes free, and is polled first.
        futures::future::join_all([100, 1, 2, 0].map(|arrival_ms| {
            let (limit, order) = (&limit, &order);
            async move {
                tokio::time::sleep(Duration::from_millis(arrival_ms)).await;
                limit.admit().await;
                order.lock().unwrap().push(arrival_ms);
            }
        }))
        .await;
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 100]);
    }
}
