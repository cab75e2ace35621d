//! The questions of a proof in one order, handed out to all threads.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::de::DeserializeOwned;

use crate::slot::ProvedSlot;
use crate::space::Space;

/// So many questions are taken at once.
const CHUNK: u64 = 512;

/// Which questions are asked. Each has a number: the enumerated ones first, then the pairwise, then the random ones.
pub(super) struct Plan<'s> {
    within: &'s Space,
    beyond: &'s Space,
    pub(super) enumerated: u64,
    pub(super) pairs: Vec<Vec<(usize, u32)>>,
    pub(super) random: u64,
    seed: u64,
    /// From one enumerated question to the next, so that a part of them is spread over the whole.
    stride: u64,
}

impl<'s> Plan<'s> {
    pub(super) fn new(within: &'s Space, beyond: &'s Space, most: u64, random: u64, seed: u64) -> Plan<'s> {
        let enumerated = within.size().min(most);
        let stride = if enumerated == within.size() { 1 } else { stride(within.size()) };
        let pairs = if random == 0 { Vec::new() } else { beyond.pairs() };
        Plan { within, beyond, enumerated, pairs, random, seed, stride }
    }

    fn size(&self) -> u64 {
        self.enumerated.saturating_add(self.pairs.len() as u64).saturating_add(self.random)
    }

    /// The space of a question, and its choices.
    fn choices(&self, number: u64, choices: &mut Vec<u32>) -> &'s Space {
        if number < self.enumerated {
            let place = u128::from(number) * u128::from(self.stride) % u128::from(self.within.size());
            self.within.enumerate(u64::try_from(place).unwrap_or_default(), choices);
            return self.within;
        }
        let beyond = number - self.enumerated;
        let forced = usize::try_from(beyond).ok().and_then(|pair| self.pairs.get(pair)).map_or(&[][..], Vec::as_slice);
        // Each number has its own sequence, so that it doesn't matter which thread takes it.
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        self.beyond.draw(&mut random, forced, choices);
        self.beyond
    }

    pub(super) fn question<Q: DeserializeOwned>(&self, number: u64) -> Q {
        let mut choices = Vec::new();
        self.choices(number, &mut choices).question(&choices)
    }
}

/// A step that has no divisor in common with the size, and so visits everything: about the golden section of it, which
/// spreads best.
fn stride(size: u64) -> u64 {
    let golden = u64::try_from(u128::from(size) * 618_033_989 / 1_000_000_000).unwrap_or(1).max(1);
    (golden..).find(|step| coprime(*step, size)).unwrap_or(1)
}

fn coprime(mut one: u64, mut other: u64) -> bool {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one == 1
}

/// The violations of one law.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundOfLaw {
    pub(super) count: u64,
    /// The lowest number of a question.
    pub(super) first: Option<u64>,
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) of_laws: Vec<FoundOfLaw>,
    pub(super) impossible: u64,
    number: u64,
}

impl Found {
    fn new(laws: usize) -> Found {
        Found { of_laws: vec![FoundOfLaw::default(); laws], impossible: 0, number: 0 }
    }

    /// The question that is looked at violates this law.
    pub(super) fn add(&mut self, law: usize) {
        let found = &mut self.of_laws[law];
        found.count += 1;
        found.first = Some(found.first.map_or(self.number, |first| first.min(self.number)));
    }

    fn merge(&mut self, other: Found) {
        self.impossible += other.impossible;
        for (mine, others) in self.of_laws.iter_mut().zip(other.of_laws) {
            mine.count += others.count;
            mine.first = match (mine.first, others.first) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
}

/// Looks at every question on all threads. The first error ends it.
pub(super) fn run<S: ProvedSlot>(
    plan: &Plan<'_>,
    threads: NonZeroUsize,
    laws: usize,
    look: impl Fn(&S::Question, &mut Found) -> Result<(), super::ProofError> + Sync,
) -> Result<Found, super::ProofError> {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let together = Mutex::new((Found::new(laws), None));
    let work = || {
        let mut found = Found::new(laws);
        let mut choices = Vec::new();
        let mut error = None;
        while !stop.load(Ordering::Relaxed) {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= plan.size() {
                break;
            }
            for number in from..from.saturating_add(CHUNK).min(plan.size()) {
                let question: S::Question = plan.choices(number, &mut choices).question(&choices);
                if !S::is_possible(&question) {
                    found.impossible += 1;
                    continue;
                }
                found.number = number;
                if let Err(undecided) = look(&question, &mut found) {
                    stop.store(true, Ordering::Relaxed);
                    error = Some(undecided);
                    break;
                }
            }
        }
        // Poisoned only by a panic of another thread, which ends the scope anyway.
        let mut together = together.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        together.0.merge(found);
        together.1 = together.1.take().or(error);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(work);
        }
    });
    match together.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        (_, Some(error)) => Err(error),
        (found, None) => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_questions_is_spread_over_all_and_asks_none_twice() {
        for size in [1, 2, 3, 10, 97, 1_000, 8_968_320] {
            let stride = stride(size);
            assert!(coprime(stride, size), "{size}");
            let part = size.min(1_000);
            let mut seen: Vec<u64> = (0..part).map(|number| number * stride % size).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len() as u64, part, "{size}");
            if size > 10_000 {
                let widest = seen.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
                assert!(widest < 4 * size / part, "{size}: {widest}");
            }
        }
    }
}
