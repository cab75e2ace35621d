//! Suspending what keeps failing.

use crate::sync::{AtomicU32, Mutex, Ordering};

/// How something has been doing that many use at once.
///
/// # Guarantees
/// Once it is suspended it stays so, whatever still under way comes to, and one failure alone is told that it was the
/// one.
pub struct Health {
    /// After so many failures in a row it is suspended; 0 means never.
    suspend_after: u32,
    failures_in_a_row: AtomicU32,
    /// 1 while it may not be used, however well it does.
    barred: AtomicU32,
    last_failure: Mutex<Option<String>>,
}

impl Health {
    /// The health of something that has not been used yet.
    pub fn new(suspend_after: u32) -> Self {
        Self {
            suspend_after,
            failures_in_a_row: AtomicU32::new(0),
            barred: AtomicU32::new(0),
            last_failure: Mutex::new(None),
        }
    }

    fn suspends(&self, failures: u32) -> bool {
        self.suspend_after > 0 && failures >= self.suspend_after
    }

    /// Whether it failed too often in a row, or is barred.
    pub fn is_suspended(&self) -> bool {
        self.suspends(self.failures_in_a_row.load(Ordering::Relaxed)) || self.is_barred()
    }

    /// Suspends it until [`Health::admit`], for this reason.
    pub fn bar(&self, reason: &str) {
        self.remember(reason);
        self.barred.store(1, Ordering::Relaxed);
    }

    /// It may be used again.
    pub fn admit(&self) {
        // A load before keeps the line shared between threads.
        if self.is_barred() {
            self.barred.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it may not be used.
    pub fn is_barred(&self) -> bool {
        self.barred.load(Ordering::Relaxed) != 0
    }

    /// It worked.
    pub fn succeeded(&self) {
        // A load before keeps the line shared between threads while all goes well.
        if self.failures_in_a_row.load(Ordering::Relaxed) != 0 {
            // Not a plain store: a failure on another thread may just have suspended it.
            let _ = self
                .failures_in_a_row
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |failures| (!self.suspends(failures)).then_some(0));
        }
    }

    /// It failed. Returns true when this failure was the one that suspends it.
    pub fn failed(&self, reason: &str) -> bool {
        self.remember(reason);
        let failures = self.failures_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        failures == self.suspend_after
    }

    /// It failed for no fault of its own, which does not count towards its suspension.
    pub fn remember(&self, reason: &str) {
        *self.last_failure.lock() = Some(reason.to_owned());
    }

    pub fn failures_in_a_row(&self) -> u32 {
        self.failures_in_a_row.load(Ordering::Relaxed)
    }

    pub fn last_failure(&self) -> Option<String> {
        self.last_failure.lock().clone()
    }
}

#[cfg(all(test, not(windlass_interleavings)))]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_suspend_and_a_success_between_them_begins_anew() {
        let health = Health::new(3);
        assert!(!health.failed("one") && !health.failed("two"));
        health.succeeded();
        assert_eq!(health.failures_in_a_row(), 0);
        assert!(!health.failed("one") && !health.failed("two"));
        health.remember("busy");
        assert!(!health.is_suspended());
        assert_eq!(health.last_failure().as_deref(), Some("busy"));
        assert!(health.failed("three") && health.is_suspended());
        health.succeeded();
        assert!(health.is_suspended() && !health.failed("four"));
    }

    #[test]
    fn what_is_barred_is_suspended_until_it_is_admitted() {
        let health = Health::new(0);
        health.bar("its key was revoked");
        health.succeeded();
        assert!(health.is_suspended() && health.is_barred());
        assert_eq!(health.last_failure().as_deref(), Some("its key was revoked"));
        health.admit();
        assert!(!health.is_suspended());
    }

    #[test]
    fn what_is_never_to_be_suspended_is_not() {
        let health = Health::new(0);
        assert!((0..100).all(|_| !health.failed("again")) && !health.is_suspended());
        health.succeeded();
        assert_eq!(health.failures_in_a_row(), 0);
    }
}
