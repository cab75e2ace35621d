//! Where time and randomness come from, so that a test decides both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

/// The source of "now".
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's clock.
    System,
    /// A chosen instant, moved on by tokio's clock: paused and advanced time count.
    Simulated {
        /// The instant at `origin`, in milliseconds since 1970. Clones share it: storing another one sets the clock of
        /// everybody who reads this one, as an operator or NTP does.
        start: Arc<AtomicU64>,
        /// The tokio instant at which the clock stood at `start`.
        origin: Instant,
    },
}

impl Clock {
    /// A clock that stands at `start` (milliseconds since 1970) now and follows tokio's time.
    #[must_use]
    pub fn simulated(start: u64) -> Self {
        Self::Simulated { start: Arc::new(AtomicU64::new(start)), origin: Instant::now() }
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn now(&self) -> u64 {
        match self {
            Self::System => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            Self::Simulated { start, origin } => {
                let start = start.load(Ordering::Relaxed);
                start.saturating_add(u64::try_from(origin.elapsed().as_millis()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The source of random words: for policies' jitter and the unique part of ids.
#[derive(Debug)]
pub(crate) struct Randomness(Mutex<StdRng>);

impl Randomness {
    /// Seeded by the operating system, or by the caller who wants the same run again.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        Self(Mutex::new(match seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        }))
    }

    pub(crate) fn word(&self) -> u64 {
        self.0.lock().random()
    }

    pub(crate) fn uuid(&self) -> uuid::Uuid {
        uuid::Builder::from_random_bytes(self.0.lock().random()).into_uuid()
    }

    pub(crate) fn with<T>(&self, use_it: impl FnOnce(&mut StdRng) -> T) -> T {
        use_it(&mut self.0.lock())
    }
}
