//! How long a guest may still run: the processor time of the thread that runs it, so that a machine that is too busy to
//! run it does not count against it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::engine::TICK;

/// How many times as long as it may run a guest may take by the clock on the wall, before it is stopped all the same:
/// somebody waits for the answer.
const PATIENCE: u32 = 20;

/// What a guest has left, and since when it has been running.
///
/// A guest runs on one thread from one host call to the next, so the thread's clock tells what it used in between. That
/// clock is a call of the kernel, and nearly every guest has answered before the first tick: so it is read from the
/// first tick on, and what was before is charged by the wall's clock, but never as more than a tick.
pub(crate) struct GuestTime {
    left: Duration,
    began: Instant,
    /// How long it took by the wall's clock before that, since the last host call.
    before: Duration,
    /// The thread's clock at the first tick.
    processor: Option<Duration>,
}

impl GuestTime {
    /// So much, for one that begins now, on this thread.
    pub(crate) fn of(milliseconds: u64) -> GuestTime {
        GuestTime::since(Instant::now(), milliseconds)
    }

    /// The same for one that began then: reading the clock takes as long as much else in a decision.
    pub(crate) fn since(began: Instant, milliseconds: u64) -> GuestTime {
        GuestTime { left: Duration::from_millis(milliseconds), began, before: Duration::ZERO, processor: None }
    }

    /// What is left now, at a tick. `None`: it is over.
    pub(crate) fn left(&mut self) -> Option<Duration> {
        let waited = self.began.elapsed();
        let used = match self.processor {
            Some(since) => processor_time().saturating_sub(since),
            None => {
                self.left = self.left.saturating_sub(waited.min(TICK));
                self.processor = Some(processor_time());
                Duration::ZERO
            }
        };
        left(self.left, used, self.before.saturating_add(waited))
    }

    /// Whether the thread's clock tells already what it uses.
    pub(crate) fn is_measured(&self) -> bool {
        self.processor.is_some()
    }

    /// It leaves the thread to others, and may go on in another one.
    pub(crate) fn leave_thread(&mut self) {
        self.pause();
        self.before = self.before.saturating_add(self.began.elapsed());
        (self.began, self.processor) = (Instant::now(), None);
    }

    /// Ends it, and returns how much was used of the limit that it began with.
    pub(crate) fn end(&mut self, limit: Duration) -> Duration {
        self.pause();
        limit.saturating_sub(self.left)
    }

    /// The guest waits for the host: that time is not its own.
    pub(crate) fn pause(&mut self) {
        self.left = match self.processor {
            Some(_) => self.left().unwrap_or_default(),
            None => self.left.saturating_sub(self.began.elapsed().min(TICK)),
        };
    }

    /// It begins, or goes on, on this thread. The next tick is to ask what is [left](GuestTime::left).
    pub(crate) fn go_on(&mut self) {
        (self.began, self.before, self.processor) = (Instant::now(), Duration::ZERO, None);
    }
}

fn left(limit: Duration, used: Duration, waited: Duration) -> Option<Duration> {
    let over = waited >= limit.saturating_mul(PATIENCE);
    limit.checked_sub(used).filter(|left| !left.is_zero() && !over)
}

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(500);

    #[test]
    fn a_busy_machine_does_not_count_against_a_guest_until_nobody_can_wait_any_more() {
        let ms = Duration::from_millis;
        assert_eq!(left(LIMIT, ms(100), ms(100)), Some(ms(400)));
        assert_eq!(left(LIMIT, ms(100), ms(9_999)), Some(ms(400)), "it hardly ran");
        assert_eq!(left(LIMIT, ms(100), ms(10_000)), None, "twenty times its limit");
        assert_eq!(left(LIMIT, ms(500), ms(500)), None);
        assert_eq!(left(LIMIT, ms(501), ms(501)), None);
        assert_eq!(left(Duration::ZERO, ms(0), ms(0)), None, "a guest that used all before a host call");
        assert_eq!(left(Duration::MAX, ms(1), ms(1)), Some(Duration::MAX - ms(1)), "no overflow");
    }

    #[test]
    fn a_thread_that_only_waits_uses_no_time_of_its_guest() {
        let mut time = GuestTime::of(60_000);
        time.go_on();
        let (stop, wait) = std::sync::mpsc::channel();
        // Another thread works meanwhile, as long as it takes until its own clock has moved on.
        std::thread::spawn(move || {
            let mut mine = GuestTime::of(60_000);
            mine.go_on();
            while mine.left().is_some_and(|left| left > Duration::from_millis(59_900)) {}
            stop.send(()).unwrap();
        });
        wait.recv().unwrap();
        assert!(time.left().unwrap() > Duration::from_millis(59_950), "{:?}", time.left());
    }

    #[test]
    fn a_guest_that_leaves_its_thread_gets_neither_its_time_nor_the_walls_again() {
        let mut time = GuestTime::of(60_000);
        while time.left().is_some_and(|left| left > Duration::from_millis(59_970)) {}
        assert!(time.is_measured());
        time.leave_thread();
        assert!(!time.is_measured() && time.left <= Duration::from_millis(59_970), "{:?}", time.left);
        assert!(time.before >= Duration::from_millis(20), "{:?}", time.before);
        time.before = Duration::from_secs(60 * 20);
        assert_eq!(time.left(), None, "twenty times its limit, in turns");
        time.go_on();
        assert!(time.left().is_some(), "what it waited for before a host call does not count");
    }

    #[test]
    fn what_was_used_before_a_host_call_is_not_given_again() {
        let mut time = GuestTime::of(60_000);
        time.go_on();
        while time.left().is_some_and(|left| left > Duration::from_millis(59_990)) {}
        time.pause();
        time.go_on();
        assert!(time.left <= Duration::from_millis(59_990) && time.left().unwrap() <= Duration::from_millis(59_990));
    }

    #[test]
    fn a_guest_that_never_runs_until_a_tick_uses_up_its_time_all_the_same() {
        let mut time = GuestTime::of(20);
        for _ in 0..1_000_000 {
            time.go_on();
            while time.began.elapsed() < Duration::from_micros(50) {}
            time.pause();
            if time.left.is_zero() {
                time.go_on();
                assert_eq!(time.left(), None);
                return;
            }
        }
        panic!("it has {:?} left", time.left);
    }
}
