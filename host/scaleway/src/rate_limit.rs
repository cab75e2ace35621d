use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::settings::Limits;

/// So many calls per second, after a burst of so many; first come, first served (the generic cell rate algorithm).
pub(crate) struct RateLimit {
    /// Between two calls.
    interval: Duration,
    /// How far calls may be ahead of their rate.
    tolerance: Duration,
    /// When the next call would be due at the rate. Held by whoever is next: the order of arrival is the order of
    /// leaving, and only one task wakes for each call.
    due: Mutex<Instant>,
}

impl RateLimit {
    pub(crate) fn new(limits: &Limits) -> Self {
        let interval = Duration::from_secs(1) / limits.calls_per_second.get();
        Self { interval, tolerance: interval * (limits.burst.get() - 1), due: Mutex::new(Instant::now()) }
    }

    /// Waits until the next call may leave.
    pub(crate) async fn admit(&self) {
        let mut due = self.due.lock().await;
        let wait = due.saturating_duration_since(Instant::now() + self.tolerance);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        *due = (*due).max(Instant::now()) + self.interval;
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
