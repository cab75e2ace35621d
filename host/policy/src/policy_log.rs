//! What policies write, in the host's own log. The decision log has all of it; here a policy that decides thousands of
//! times a minute must not bury everything else.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Level;

use crate::decision::PolicyIdentity;
use crate::guest::{LogLevel, LogLine};

/// The most lines of one policy in each [`SPAN`].
const MAX_LINES: u32 = 100;
const SPAN: Duration = Duration::from_secs(60);

/// Hands lines that a policy wrote in a decision to the host's log, at their level.
pub(crate) fn tell(policy: &PolicyIdentity, room: &LineRoom, lines: &[LogLine]) {
    /// Lines that nobody listens to take none of the room.
    macro_rules! tell {
        ($level:expr, $message:expr) => {
            if tracing::enabled!($level) {
                let slot = policy.slot;
                if let Some(left_out) = room.take(Instant::now()) {
                    if left_out > 0 {
                        tracing::warn!(%slot, %policy, left_out, "a policy wrote more lines than fit in this log; the \
                            decision log has them");
                    }
                    tracing::event!($level, %slot, %policy, "{}", $message);
                }
            }
        };
    }
    for line in lines {
        match line.level {
            LogLevel::Debug => tell!(Level::DEBUG, line.message),
            LogLevel::Info => tell!(Level::INFO, line.message),
            LogLevel::Warn => tell!(Level::WARN, line.message),
            LogLevel::Error => tell!(Level::ERROR, line.message),
        }
    }
}

/// The room that one policy, or one peer of a server, has in the host's log: 100 lines a minute.
#[derive(Debug, Default)]
pub struct LineRoom(Mutex<Option<Taken>>);

/// What is taken of the room since an instant.
#[derive(Debug)]
struct Taken {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl LineRoom {
    /// Takes the room of one line. Returns how many were left out before it, or nothing where there is none.
    pub fn take(&self, now: Instant) -> Option<u64> {
        let mut taken = self.0.lock();
        let taken = taken.get_or_insert(Taken { since: now, lines: 0, left_out: 0 });
        if now.saturating_duration_since(taken.since) >= SPAN {
            (taken.since, taken.lines) = (now, 0);
        }
        if taken.lines >= MAX_LINES {
            taken.left_out += 1;
            return None;
        }
        taken.lines += 1;
        Some(std::mem::take(&mut taken.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_writes_without_end_is_left_out_until_the_next_span_which_tells_so() {
        let room = LineRoom::default();
        let began = Instant::now();
        assert!((0..MAX_LINES).all(|_| room.take(began) == Some(0)));
        assert!((0..7).all(|_| room.take(began + SPAN / 2).is_none()));
        assert_eq!(room.take(began + SPAN), Some(7));
        assert_eq!(room.take(began + SPAN), Some(0));
    }
}
