//! The questions of a proof or a comparison in one order, handed out to all threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::de::DeserializeOwned;

use crate::slot::ProvedSlot;
use crate::space::Space;

/// So many questions are taken at once.
const CHUNK: u64 = 512;

/// Which questions are asked. Each has a number: the enumerated ones first, then the pairwise, then the random ones.
pub(crate) struct Plan<'s> {
    within: &'s Space,
    beyond: &'s Space,
    pub(crate) enumerated: u64,
    pub(crate) pairs: Vec<Vec<(usize, u32)>>,
    pub(crate) random: u64,
    seed: u64,
}

impl<'s> Plan<'s> {
    pub(crate) fn new(within: &'s Space, beyond: &'s Space, most: u64, random: u64, seed: u64) -> Plan<'s> {
        let enumerated = within.size().min(most);
        let pairs = if random == 0 { Vec::new() } else { beyond.pairs() };
        Plan { within, beyond, enumerated, pairs, random, seed }
    }

    fn size(&self) -> u64 {
        self.enumerated.saturating_add(self.pairs.len() as u64).saturating_add(self.random)
    }

    /// The space of a question, and its choices.
    fn choices(&self, number: u64, choices: &mut Vec<u32>) -> &'s Space {
        if number < self.enumerated && self.is_exhaustive() {
            self.within.enumerate(number, choices);
            return self.within;
        }
        // Each number has its own sequence, so that it doesn't matter which thread takes it.
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        if number < self.enumerated {
            // Not evenly over the numbers: most questions have what many choices are below, and few have not.
            self.within.draw(&mut random, &[], choices);
            return self.within;
        }
        let beyond = number - self.enumerated;
        let forced = usize::try_from(beyond).ok().and_then(|pair| self.pairs.get(pair)).map_or(&[][..], Vec::as_slice);
        self.beyond.draw(&mut random, forced, choices);
        self.beyond
    }

    /// Whether all questions within the bounds are asked.
    pub(crate) fn is_exhaustive(&self) -> bool {
        self.enumerated == self.within.size()
    }

    pub(crate) fn question<Q: DeserializeOwned>(&self, number: u64) -> Q {
        let mut choices = Vec::new();
        self.choices(number, &mut choices).question(&choices)
    }
}

/// What one thread has found, and what all have.
pub(crate) trait Tally: Send {
    /// Nothing yet.
    fn empty(&self) -> Self;
    /// Takes over what another thread has found.
    fn merge(&mut self, other: Self);
}

/// Looks at every question that a host can ask, with its number, on all threads, until `stop` is set. The first error
/// ends it. Returns also how many questions no host can ask.
pub(crate) fn run<S: ProvedSlot, T: Tally, E: Send>(
    plan: &Plan<'_>,
    threads: NonZeroUsize,
    stop: &AtomicBool,
    tally: T,
    look: impl Fn(u64, &S::Question, &mut T) -> Result<(), E> + Sync,
) -> Result<(T, u64), E> {
    let next = AtomicU64::new(0);
    let empties: Vec<T> = (0..threads.get()).map(|_| tally.empty()).collect();
    let together = Mutex::new((tally, 0, None));
    let work = |mut found: T| {
        let mut choices = Vec::new();
        let mut impossible = 0;
        let mut error = None;
        'all: loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= plan.size() {
                break;
            }
            for number in from..from.saturating_add(CHUNK).min(plan.size()) {
                let question: S::Question = plan.choices(number, &mut choices).question(&choices);
                if stop.load(Ordering::Relaxed) {
                    break 'all;
                }
                if !S::is_possible(&question) {
                    impossible += 1;
                    continue;
                }
                if let Err(wrong) = look(number, &question, &mut found) {
                    stop.store(true, Ordering::Relaxed);
                    error = Some(wrong);
                    break 'all;
                }
            }
        }
        // Poisoned only by a panic of another thread, which ends the scope anyway.
        let mut together = together.lock().unwrap_or_else(PoisonError::into_inner);
        together.0.merge(found);
        together.1 += impossible;
        together.2 = together.2.take().or(error);
    };
    std::thread::scope(|scope| {
        for empty in empties {
            scope.spawn(|| work(empty));
        }
    });
    match together.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, _, Some(error)) => Err(error),
        (found, impossible, None) => Ok((found, impossible)),
    }
}
