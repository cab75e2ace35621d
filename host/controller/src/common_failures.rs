//! Failures that objects have in common: where a type is out of stock, a quota is used up or a key is refused, one
//! object tries for all that failed with the same words, and the others wait for its result. Nothing here calls anybody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::kinds::OperationStatus;
use crate::outcome::{Outcome, backoff, is_shared_wait, jittered};
use crate::status::bounded;

/// A group of which nobody has asked for so long is forgotten: longer than the longest wait after a failure.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// So many objects try at once after successes before all may.
const MAX_PARALLEL: usize = 64;

/// What the objects of a group ask for and how they failed, as a digest.
type Key = [u8; 32];

/// Objects that asked for the same and failed with the same words.
#[derive(Debug)]
struct Group {
    /// Failures of the group in a row.
    failures: u32,
    /// Nobody tries before.
    next: Instant,
    /// How many try now, and how many may: one while it fails, twice as many after each success.
    trying: usize,
    parallel: usize,
}

/// The groups of one process.
#[derive(Debug, Default)]
pub(crate) struct CommonFailures(Mutex<HashMap<Key, Group>>);

/// What an object does whose work has failed before, or not.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It tries; the result counts for its group.
    Try(Attempt),
    /// Another object tries, or its time has not come: look again after this time.
    Wait(Duration),
}

/// An object's try. Where it is dropped without a result, another one may try at once.
#[derive(Debug)]
pub(crate) struct Attempt {
    all: Arc<CommonFailures>,
    asked: String,
    key: Option<Key>,
}

fn key(asked: &str, reason: &str, message: &str) -> Key {
    let mut digest = Sha256::new();
    for text in [asked, reason, message] {
        digest.update(text.len().to_le_bytes());
        digest.update(text);
    }
    digest.finalize().into()
}

/// What an operation failed with, where others may fail with the same.
fn failure(operation: &OperationStatus) -> Option<(&str, &str)> {
    let reason = operation.reason.as_deref()?;
    let is_shared = match operation.state.as_str() {
        "failed" => true,
        "waiting" => is_shared_wait(reason),
        _ => false,
    };
    is_shared.then(|| (reason, operation.message.as_deref().unwrap_or_default()))
}

impl CommonFailures {
    /// What an object does that asks for this and whose last operation ended so. One that has not failed yet tries;
    /// one that has failed waits while another of its group tries, and until the group's next try is due.
    pub(crate) fn turn(
        self: &Arc<Self>,
        asked: String,
        last: Option<&OperationStatus>,
        patience: Duration,
        now: Instant,
    ) -> Turn {
        let Some((reason, message)) = last.and_then(failure) else {
            return Turn::Try(Attempt { all: Arc::clone(self), asked, key: None });
        };
        let key = key(&asked, reason, message);
        let mut groups = self.0.lock();
        if !groups.contains_key(&key) {
            groups.retain(|_, group| group.trying > 0 || now < group.next + FORGOTTEN);
        }
        let failures = last.map_or(1, |last| last.attempt.max(1));
        let group = groups.entry(key).or_insert(Group { failures, next: now, trying: 0, parallel: 1 });
        if now < group.next {
            return Turn::Wait(group.next - now);
        }
        if group.trying >= group.parallel {
            return Turn::Wait(patience);
        }
        group.trying += 1;
        Turn::Try(Attempt { all: Arc::clone(self), asked, key: Some(key) })
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.0.lock().get_mut(key) {
            change(group);
        }
    }
}

impl Attempt {
    /// Tells the group how the try ended. `random` spreads the groups' next tries.
    pub(crate) fn end(self, outcome: &Outcome, now: Instant, random: u64) {
        let failed = match outcome {
            Outcome::Created(_) | Outcome::Adopted { .. } => {
                let Some(key) = self.key else { return };
                let mut groups = self.all.0.lock();
                if let Some(group) = groups.get_mut(&key) {
                    group.failures = 0;
                    group.next = now;
                    group.parallel *= 2;
                    if group.parallel > MAX_PARALLEL {
                        groups.remove(&key);
                    }
                }
                return;
            }
            Outcome::Failed { reason, message } => Some((*reason, message, None)),
            Outcome::Waiting { reason, message, after } if is_shared_wait(reason) => {
                Some((*reason, message, Some(*after)))
            }
            _ => None,
        };
        let Some((reason, message, after)) = failed else { return };
        let key = key(&self.asked, reason, &bounded(message.clone()));
        // Words that are new begin a group when the object asks for its next turn.
        if self.key != Some(key) {
            return;
        }
        self.all.change(&key, |group| {
            if after.is_none() {
                group.failures = group.failures.saturating_add(1);
            }
            group.parallel = 1;
            group.next = now + jittered(after.unwrap_or_else(|| backoff(group.failures)), random);
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.all.change(key, |group| group.trying = group.trying.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn out_of_stock() -> Outcome {
        Outcome::Failed { reason: "CreationFailed", message: "out of stock".into() }
    }

    fn last(state: &str, reason: &str, message: &str) -> OperationStatus {
        OperationStatus {
            kind: "create".into(),
            state: state.into(),
            attempt: 1,
            reason: Some(reason.into()),
            message: Some(message.into()),
            ..OperationStatus::default()
        }
    }

    fn failed() -> OperationStatus {
        last("failed", "CreationFailed", "out of stock")
    }

    struct World {
        all: Arc<CommonFailures>,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            Self { all: Arc::default(), now: Instant::now() }
        }

        fn turn(&self, last: &OperationStatus) -> Turn {
            self.all.turn("DEV1-S".into(), Some(last), PATIENCE, self.now)
        }

        fn attempt(&self, last: &OperationStatus) -> Attempt {
            match self.turn(last) {
                Turn::Try(attempt) => attempt,
                Turn::Wait(wait) => panic!("it waits {wait:?}"),
            }
        }

        fn wait(&self, last: &OperationStatus) -> Duration {
            match self.turn(last) {
                Turn::Try(_) => panic!("it tries"),
                Turn::Wait(wait) => wait,
            }
        }
    }

    #[test]
    fn one_object_tries_for_all_that_failed_with_the_same_words() {
        let mut world = World::new();
        let mut tries = 0;
        // An hour, in which each of 2,000 objects asks for its turn each half minute.
        for _ in 0..120 {
            for _ in 0..2_000 {
                if let Turn::Try(attempt) = world.turn(&failed()) {
                    tries += 1;
                    attempt.end(&out_of_stock(), world.now, 0);
                }
            }
            world.now += PATIENCE;
        }
        assert!((12..=20).contains(&tries), "{tries} tries");
    }

    #[test]
    fn what_has_not_failed_or_failed_otherwise_or_asks_for_something_else_waits_for_nobody() {
        let world = World::new();
        let leader = world.attempt(&failed());
        assert_eq!(world.wait(&failed()), PATIENCE);
        let otherwise = [
            last("failed", "CreationFailed", "the quota is used up"),
            last("failed", "LimitUnknown", "out of stock"),
            // What waits for something of its own has nothing in common with others.
            last("waiting", "WaitingForBootstrapData", "out of stock"),
            last("done", "CreationFailed", "out of stock"),
        ];
        let tries: Vec<_> = otherwise.iter().map(|last| world.attempt(last)).collect();
        assert!(matches!(world.all.turn("PRO2-L".into(), Some(&failed()), PATIENCE, world.now), Turn::Try(_)));
        assert!(matches!(world.all.turn("DEV1-S".into(), None, PATIENCE, world.now), Turn::Try(_)));
        drop((leader, tries));
    }

    #[test]
    fn after_a_success_twice_as_many_try_and_after_a_failure_one() {
        let mut world = World::new();
        let done = || Outcome::Created(Box::new(created()));
        world.attempt(&failed()).end(&done(), world.now, 0);
        let (first, second) = (world.attempt(&failed()), world.attempt(&failed()));
        world.wait(&failed());
        first.end(&done(), world.now, 0);
        second.end(&out_of_stock(), world.now, 0);
        assert_eq!(world.wait(&failed()), backoff(1));
        world.now += backoff(1);
        let only = world.attempt(&failed());
        world.wait(&failed());
        drop(only);
    }

    #[test]
    fn after_enough_successes_nobody_waits_for_another() {
        let world = World::new();
        for _ in 0..7 {
            world.attempt(&failed()).end(&Outcome::Created(Box::new(created())), world.now, 0);
        }
        assert!(world.all.0.lock().is_empty());
    }

    #[test]
    fn a_try_without_a_result_is_no_failure_and_lets_the_next_one_try() {
        let world = World::new();
        drop(world.attempt(&failed()));
        world.attempt(&failed()).end(&Outcome::NotBegun, world.now, 0);
        world.attempt(&failed()).end(&out_of_stock(), world.now, 0);
        assert_eq!(world.wait(&failed()), backoff(2));
    }

    #[test]
    fn a_wait_does_not_grow() {
        let mut world = World::new();
        let (wait, after) = (last("waiting", "LimitReached", "5 of 5"), Duration::from_secs(60));
        for _ in 0..10 {
            let outcome = Outcome::Waiting { reason: "LimitReached", message: "5 of 5".into(), after };
            world.attempt(&wait).end(&outcome, world.now, 0);
            assert_eq!(world.wait(&wait), after);
            world.now += after;
        }
    }

    #[test]
    fn groups_that_nobody_asks_about_are_forgotten() {
        let mut world = World::new();
        for number in 0..10 {
            let last = last("failed", "CreationFailed", &format!("server {number} did not start"));
            drop(world.attempt(&last));
        }
        world.now += FORGOTTEN;
        drop(world.attempt(&failed()));
        assert_eq!(world.all.0.lock().len(), 1);
    }

    fn created() -> windlass_lifecycle::CreatedServer {
        windlass_lifecycle::CreatedServer {
            operation: windlass_lifecycle::OperationId::parse("ci-000000000000").unwrap(),
            server: windlass_scaleway::types::instance::Server::default(),
        }
    }
}
