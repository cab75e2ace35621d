use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// How many calls are let through: `burst` at once, and `per_second` as time goes on. One more gets the gateway's 429
/// (recorded: empty, no `Retry-After`) and does nothing.
///
/// Like [`Latency`](crate::Latency) this runs in tokio's time, unscaled, as the client's own limit does.
// Assumption: one account for all products and all callers. What Scaleway counts, and how much it allows, is documented
// nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimit {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// After a rest.
    pub burst: NonZeroU32,
}

/// The account of a [`RequestLimit`], by the generic cell rate algorithm.
#[derive(Debug)]
pub(crate) struct RequestAccount {
    /// The time from one call to the next in the long run.
    interval: Duration,
    /// How far ahead of time the account may be.
    tolerance: Duration,
    /// When the next call would come if all had kept their distance.
    next: Instant,
}

impl RequestAccount {
    pub(crate) fn new(limit: RequestLimit) -> Self {
        let interval = Duration::from_secs(1) / limit.per_second.get();
        Self { interval, tolerance: interval * (limit.burst.get() - 1), next: Instant::now() }
    }

    /// Whether a call is let through now.
    pub(crate) fn admits(&mut self) -> bool {
        let now = Instant::now();
        let next = self.next.max(now);
        let admitted = next - now <= self.tolerance;
        if admitted {
            self.next = next + self.interval;
        }
        admitted
    }
}
