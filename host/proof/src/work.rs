//! The questions of a proof or a comparison in one order, handed out to all threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::slot::ProvedSlot;
use crate::space::{Forced, Space};

/// So many questions are taken at once.
const CHUNK: u64 = 512;

/// So often a question, or a part of it, is drawn again when no host can ask it.
const DRAWS: usize = 1_000;

/// So often items of a list are drawn again that keep a host from asking, without becoming fewer.
const IN_VAIN: usize = 4;

/// Which questions are asked. Each has a number: the enumerated ones first, then the pairwise, then the random ones.
pub(crate) struct Plan<'s> {
    within: &'s Space,
    beyond: &'s Space,
    enumerated: u64,
    pairs: Vec<Vec<Forced>>,
    /// Pairs with a value that no question has.
    impossible_pairs: u64,
    /// Pairs beyond those that are asked.
    untried_pairs: u64,
    random: u64,
    seed: u64,
}

/// One of the plan's three parts.
#[derive(Clone, Copy)]
enum Part {
    Within,
    Pairs,
    Random,
}

/// How much of a plan was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The combinations within the bounds.
    pub(crate) within: PartAsked,
    /// Every two values of any two places.
    pub(crate) pairs: PartAsked,
    /// At random.
    pub(crate) random: PartAsked,
}

/// How much of one part was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartAsked {
    /// How many questions were asked.
    pub(crate) questions: u64,
    /// How many combinations no host can ask: with what they have to have, if they were drawn.
    pub(crate) impossible: u64,
}

impl Asked {
    pub(crate) fn all(self) -> u64 {
        self.within.questions + self.pairs.questions + self.random.questions
    }

    fn part(&mut self, part: Part) -> &mut PartAsked {
        match part {
            Part::Within => &mut self.within,
            Part::Pairs => &mut self.pairs,
            Part::Random => &mut self.random,
        }
    }

    fn add(&mut self, other: Asked) {
        for (part, other) in
            [(&mut self.within, other.within), (&mut self.pairs, other.pairs), (&mut self.random, other.random)]
        {
            part.questions += other.questions;
            part.impossible += other.impossible;
        }
    }
}

impl<'s> Plan<'s> {
    pub(crate) fn new<S: ProvedSlot>(
        within: &'s Space,
        beyond: &'s Space,
        most: u64,
        random: u64,
        seed: u64,
        progress: &Progress,
    ) -> Plan<'s> {
        let mut plan = Plan {
            within,
            beyond,
            enumerated: within.size().min(most),
            pairs: Vec::new(),
            impossible_pairs: 0,
            untried_pairs: 0,
            random,
            seed,
        };
        progress.begin(plan.size());
        if random > 0 {
            let mut draws = ChaCha8Rng::seed_from_u64(seed);
            let mut is_possible = |forced: &[Forced]| draw::<S>(beyond, forced, &mut draws, &mut Vec::new()).is_some();
            let pairs = beyond.pairs(&mut ChaCha8Rng::seed_from_u64(seed), &mut is_possible);
            (plan.pairs, plan.impossible_pairs, plan.untried_pairs) = (pairs.tried, pairs.impossible, pairs.untried);
        }
        plan
    }

    /// How many numbers there are.
    pub(crate) fn size(&self) -> u64 {
        self.enumerated.saturating_add(self.pairs.len() as u64).saturating_add(self.random)
    }

    fn part(&self, number: u64) -> Part {
        match number.checked_sub(self.enumerated) {
            None => Part::Within,
            Some(beyond) if beyond < self.pairs.len() as u64 => Part::Pairs,
            Some(_) => Part::Random,
        }
    }

    /// How many pairs are not asked, since there are too many.
    pub(crate) fn untried_pairs(&self) -> u64 {
        self.untried_pairs
    }

    /// Whether all combinations within the bounds are looked at.
    pub(crate) fn is_exhaustive(&self) -> bool {
        self.enumerated == self.within.size() && self.enumerated < u64::MAX
    }

    /// A question by its number. None: no host can ask it, or nothing like it.
    pub(crate) fn question<S: ProvedSlot>(&self, number: u64, choices: &mut Vec<u32>) -> Option<S::Question> {
        let part = self.part(number);
        if matches!(part, Part::Within) && self.is_exhaustive() {
            self.within.enumerate(number, choices);
            return Some(self.within.question(choices)).filter(S::is_possible);
        }
        // Each number has its own sequence, so that it doesn't matter which thread takes it.
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(number);
        match part {
            // Not evenly over the numbers: most questions have what many choices are below, and few have not.
            Part::Within => draw::<S>(self.within, &[], &mut random, choices),
            Part::Pairs => {
                let pair = usize::try_from(number - self.enumerated).ok().and_then(|pair| self.pairs.get(pair));
                draw::<S>(self.beyond, pair.map_or(&[], Vec::as_slice), &mut random, choices)
            }
            Part::Random => draw::<S>(self.beyond, &[], &mut random, choices),
        }
    }
}

/// A question that has these choices and others at random, drawn until it is one that a host can ask. Where items of a
/// list keep a host from asking, only they are drawn again: of long lists, hardly one has no such item.
fn draw<S: ProvedSlot>(
    space: &Space,
    forced: &[Forced],
    random: &mut ChaCha8Rng,
    choices: &mut Vec<u32>,
) -> Option<S::Question> {
    let (mut fewest, mut in_vain) = (0, IN_VAIN);
    let mut misfits = Vec::new();
    for before in 0..DRAWS {
        if misfits.is_empty() || in_vain == IN_VAIN {
            space.draw(random, forced, before > 0 && !forced.is_empty(), choices);
            (fewest, in_vain) = (usize::MAX, 0);
        } else {
            space.redraw(random, forced, S::ITEMS, &misfits, choices);
        }
        let question = space.question(choices);
        if S::is_possible(&question) {
            return Some(question);
        }
        misfits = S::misfits(&question);
        in_vain = if misfits.len() < fewest { 0 } else { in_vain + 1 };
        fewest = fewest.min(misfits.len());
    }
    None
}

/// What one thread has found, and what all have.
pub(crate) trait Tally: Send {
    /// Nothing yet.
    fn empty(&self) -> Self;
    /// Takes over what another thread has found.
    fn merge(&mut self, other: Self);
}

/// Looks at every question that a host can ask, with its number, on all threads, until `stop` is set. The first error
/// ends it. Returns also how much was asked.
pub(crate) fn run<S: ProvedSlot, T: Tally, E: Send>(
    plan: &Plan<'_>,
    threads: NonZeroUsize,
    progress: &Progress,
    stop: &AtomicBool,
    tally: T,
    look: impl Fn(u64, &S::Question, &mut T) -> Result<(), E> + Sync,
) -> Result<(T, Asked), E> {
    let next = AtomicU64::new(0);
    progress.begin(plan.size());
    let empties: Vec<T> = (0..threads.get()).map(|_| tally.empty()).collect();
    let mut asked = Asked::default();
    asked.pairs.impossible = plan.impossible_pairs;
    let together = Mutex::new((tally, asked, None));
    let work = |mut found: T| {
        let mut choices = Vec::new();
        let mut asked = Asked::default();
        let mut error = None;
        'all: loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= plan.size() {
                break;
            }
            let until = from.saturating_add(CHUNK).min(plan.size());
            for number in from..until {
                let question = plan.question::<S>(number, &mut choices);
                if stop.load(Ordering::Relaxed) {
                    break 'all;
                }
                let part = asked.part(plan.part(number));
                let Some(question) = question else {
                    part.impossible += 1;
                    continue;
                };
                part.questions += 1;
                if let Err(wrong) = look(number, &question, &mut found) {
                    stop.store(true, Ordering::Relaxed);
                    error = Some(wrong);
                    break 'all;
                }
            }
            progress.advance(until - from);
        }
        // Poisoned only by a panic of another thread, which ends the scope anyway.
        let mut together = together.lock().unwrap_or_else(PoisonError::into_inner);
        together.0.merge(found);
        together.1.add(asked);
        together.2 = together.2.take().or(error);
    };
    std::thread::scope(|scope| {
        for empty in empties {
            scope.spawn(|| work(empty));
        }
    });
    match together.into_inner().unwrap_or_else(PoisonError::into_inner) {
        (_, _, Some(error)) => Err(error),
        (found, asked, None) => Ok((found, asked)),
    }
}

/// How far the questions have come, for whoever shows it meanwhile.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// How many questions were taken, and how many there are. There are none before it is known.
    pub fn now(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
    }

    fn begin(&self, all: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }

    fn advance(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
