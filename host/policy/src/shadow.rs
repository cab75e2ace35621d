//! Shadows: policies that are asked and recorded, and never decide.
//!
//! A shadow costs a decision nothing but a copy of its record, which goes to a thread of the host: that asks the
//! shadows one after the other and writes what they answered into a log of its own. The decision's record never waits
//! for it. So what all shadows of a host can cost together is bounded, whatever they do: one instance at a time, a
//! share of one processor's time ([`ShadowOptions`]), and a queue of bounded length and size. Where a decision finds no
//! room in the queue, or is left when its host ends, which waits a second for its shadows, the log says that they were
//! not asked.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::{Condvar, Mutex};

use crate::brake::Brake;
use crate::call::{self, Trace};
use crate::checked::{Braking, checked, suspended};
use crate::decision_log::{Agreement, DecisionLog, DecisionRecord, LinkRecord, Outcome, ShadowRecord, weight};
use crate::failure_kind::FailureKind;
use crate::guest::Failure;
use crate::host_calls::{Answers, HostCalls, Playback};
use crate::policy::LoadedPolicy;
use crate::slots::{Deferred, Reasons, Slot};
use crate::status::StatusSignal;

/// How long a host that ends goes on asking: a command that makes one decision would have none otherwise.
const GRACE: Duration = Duration::from_secs(1);

/// What all shadows of a host together may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowOptions {
    /// How much of one processor's time, in percent, from 1 to 100. After each decision whose shadows were asked the
    /// thread rests for as long as that takes. Default 10.
    pub share_percent: u32,
    /// How many decisions may wait for their shadows; shadows of more are not asked. Default 256.
    pub queue_decisions: usize,
    /// How many bytes of memory their records may take. One record may take more when it is alone. Default 8 MiB.
    pub queue_bytes: usize,
}

impl Default for ShadowOptions {
    fn default() -> ShadowOptions {
        ShadowOptions { share_percent: 10, queue_decisions: 256, queue_bytes: 8 << 20 }
    }
}

impl ShadowOptions {
    /// How long to rest after so much work.
    fn rest_after(&self, work: Duration) -> Duration {
        let share = self.share_percent.clamp(1, 100);
        work * (100 - share) / share
    }
}

/// A shadow, and what it is asked about.
pub(crate) struct ShadowPlace {
    pub(crate) policy: Arc<LoadedPolicy>,
    /// The items that nobody before it had decided, when not all.
    pub(crate) items: Option<Vec<usize>>,
    /// How many running machines were removed by what was decided before it.
    pub(crate) removed: usize,
}

/// Asks the shadows of one host. Dropping it waits [`GRACE`] for what is left, and for the shadow that is being asked.
pub(crate) struct Shadows {
    options: ShadowOptions,
    shared: Arc<Shared>,
    observers: Observers,
    /// Started for the first decision that has a shadow.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Receives what shadows answer.
#[derive(Clone)]
struct Observers {
    log: Arc<DecisionLog>,
    status: Arc<StatusSignal>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// What is in memory: what waits, and what is being asked.
    bytes: usize,
    put: u64,
    done: u64,
    /// How many wait for the queue to be empty: for them there is no rest.
    flushing: usize,
    /// Set when the host ends: until when shadows are asked.
    stop: Option<Instant>,
}

/// A record whose shadows are to be asked, and the bytes that it holds.
struct Waiting {
    asking: Box<dyn Ask>,
    bytes: usize,
}

impl Shadows {
    pub(crate) fn new(options: ShadowOptions, log: Arc<DecisionLog>, status: Arc<StatusSignal>) -> Shadows {
        let observers = Observers { log, status };
        Shadows { options, shared: Arc::default(), observers, thread: Mutex::default() }
    }

    /// Has the shadows asked and the record written, some time later. Never waits.
    pub(crate) fn ask<S: Slot>(
        &self,
        record: DecisionRecord<S::Question, S::Answer>,
        places: Vec<ShadowPlace>,
        brake: Brake,
    ) {
        let bytes = weight(&record);
        let asking = Box::new(Asking::<S> { record, places, brake });
        if let Err((asking, why)) = self.put(asking, bytes) {
            asking.give_up(&self.observers, why);
        }
    }

    fn put(&self, asking: Box<dyn Ask>, bytes: usize) -> Result<(), (Box<dyn Ask>, &'static str)> {
        if let Err(error) = self.start() {
            tracing::warn!(%error, "the thread that asks shadows can't be started");
            return Err((asking, "the thread that asks shadows can't be started"));
        }
        let mut queue = self.shared.queue.lock();
        let decisions = usize::try_from(queue.put - queue.done).unwrap_or(usize::MAX);
        let is_full = decisions >= self.options.queue_decisions
            || (decisions > 0 && queue.bytes.saturating_add(bytes) > self.options.queue_bytes);
        if is_full {
            return Err((asking, "too many decisions wait for their shadows"));
        }
        queue.bytes += bytes;
        queue.put += 1;
        queue.waiting.push_back(Waiting { asking, bytes });
        drop(queue);
        self.shared.wake.notify_one();
        Ok(())
    }

    fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (options, shared, observers) = (self.options, self.shared.clone(), self.observers.clone());
            let work = move || work(options, &shared, &observers);
            *thread = Some(std::thread::Builder::new().name("policy-shadows".into()).spawn(work)?);
        }
        Ok(())
    }

    /// Waits until the shadows of all decisions up to now were asked, and their records handed to the log.
    pub(crate) fn flush(&self) {
        let mut queue = self.shared.queue.lock();
        let until = queue.put;
        queue.flushing += 1;
        self.shared.wake.notify_one();
        while queue.done < until {
            self.shared.done.wait(&mut queue);
        }
        queue.flushing -= 1;
        drop(queue);
        self.observers.log.flush();
    }
}

impl Drop for Shadows {
    fn drop(&mut self) {
        self.shared.queue.lock().stop = Some(Instant::now() + GRACE);
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that asks shadows panicked");
        }
    }
}

fn work(options: ShadowOptions, shared: &Shared, observers: &Observers) {
    loop {
        let (Waiting { asking, bytes }, stop) = {
            let mut queue = shared.queue.lock();
            loop {
                if let Some(next) = queue.waiting.pop_front() {
                    break (next, queue.stop);
                }
                if queue.stop.is_some() {
                    return;
                }
                shared.wake.wait(&mut queue);
            }
        };
        let began = Instant::now();
        if stop.is_some_and(|until| began >= until) {
            asking.give_up(observers, "the host was about to end");
        } else if catch_unwind(AssertUnwindSafe(|| asking.ask(observers))).is_err() {
            tracing::error!("asking a shadow panicked; the record of the decision is lost");
        }
        let rest = options.rest_after(began.elapsed());
        let mut queue = shared.queue.lock();
        queue.bytes -= bytes;
        queue.done += 1;
        shared.done.notify_all();
        let until = Instant::now() + rest;
        while queue.stop.is_none() && queue.flushing == 0 && !shared.wake.wait_until(&mut queue, until).timed_out() {}
    }
}

/// A record of whatever slot, on its way through its shadows to the log.
trait Ask: Send {
    /// Asks the shadows.
    fn ask(self: Box<Self>, observers: &Observers);
    /// Hands the record on without.
    fn give_up(self: Box<Self>, observers: &Observers, why: &str);
}

struct Asking<S: Slot> {
    record: DecisionRecord<S::Question, S::Answer>,
    places: Vec<ShadowPlace>,
    brake: Brake,
}

impl<S: Slot> Ask for Asking<S> {
    fn ask(self: Box<Self>, observers: &Observers) {
        let Asking { mut record, places, brake } = *self;
        for place in &places {
            let shadow = ask_one::<S>(place, &record, brake, &observers.status);
            tell::<S>(place, &shadow);
            record.shadows.push(shadow);
        }
        let _ = observers.log.record(Box::new(answers_of(record)));
    }

    fn give_up(self: Box<Self>, observers: &Observers, why: &str) {
        let Asking { mut record, places, .. } = *self;
        for place in &places {
            let shadow = not_asked(place, Failure::new(FailureKind::HostBusy, why));
            tell::<S>(place, &shadow);
            record.shadows.push(shadow);
        }
        let _ = observers.log.record(Box::new(answers_of(record)));
    }
}

/// What the log of shadows has of a decision.
fn answers_of<Q, A>(record: DecisionRecord<Q, A>) -> DecisionRecord<(), A> {
    let DecisionRecord { id, at_ms, slot, answer, decided_by, shadows, duration_ns, .. } = record;
    DecisionRecord {
        id,
        at_ms,
        slot,
        question: (),
        answer,
        reason: None,
        decided_by,
        asked: Vec::new(),
        shadows,
        duration_ns,
        lost_before: 0,
    }
}

/// Counts what came of it.
fn tell<S: Slot>(place: &ShadowPlace, shadow: &ShadowRecord<S::Answer>) {
    let name = place.policy.identity.name.to_string();
    let (slot, agreement) = (S::NAME.as_str(), shadow.agreement.as_str());
    metrics::counter!(crate::metric_names::SHADOWS, "slot" => slot, "policy" => name, "agreement" => agreement)
        .increment(1);
}

fn not_asked<A>(place: &ShadowPlace, why: Failure) -> ShadowRecord<A> {
    let asked = LinkRecord::new(&place.policy.identity, recorded(&place.items), why.into(), Trace::default());
    ShadowRecord { asked, agreement: Agreement::NotAsked, answer: None }
}

fn recorded(items: &Option<Vec<usize>>) -> Option<Vec<u32>> {
    let items = items.as_ref()?;
    Some(items.iter().map(|item| u32::try_from(*item).unwrap_or(u32::MAX)).collect())
}

/// Asks one shadow, and holds its answer against the decision.
fn ask_one<S: Slot>(
    place: &ShadowPlace,
    record: &DecisionRecord<S::Question, S::Answer>,
    brake: Brake,
    status: &StatusSignal,
) -> ShadowRecord<S::Answer> {
    let policy = &*place.policy;
    if policy.health.is_suspended() {
        return not_asked(place, suspended(policy));
    }
    let part;
    let question = match &place.items {
        None => &record.question,
        Some(items) => {
            part = S::part(&record.question, items);
            &part
        }
    };
    let (answer, trace) = if policy.may_wait {
        // A shadow receives the same look-up results as the deciding policies, so nothing is looked up twice.
        let calls = record.asked.iter().flat_map(|link| link.host_calls.iter().cloned());
        let calls = HostCalls::new(policy.limits(), Answers::Recorded(Playback::of_others(calls)));
        let asked = call::ask_waiting::<S>(policy, question, calls).now_or_never();
        let waits =
            || Failure::new(FailureKind::HostCall, "it waits for something, and a shadow has nothing to wait for");
        asked.unwrap_or_else(|| (Err(waits()), Trace::default()))
    } else {
        call::ask::<S>(policy, question)
    };
    let braking = Braking { brake, whole: &record.question, removed: place.removed };
    let answer = answer.and_then(|answer| checked::<S>(&policy.identity, question, answer, &braking));

    let is_comparable = trace.host_calls.iter().all(|call| !call.refused);
    if let Err(failure) = &answer
        && failure.kind == FailureKind::HostBusy
    {
        policy.health.remember(&failure.reason);
        return not_asked(place, failure.clone());
    }
    let is_not_allowed = answer.as_ref().is_err_and(|failure| failure.kind == FailureKind::NotAllowed);
    if is_comparable && !is_not_allowed {
        note(policy, answer.as_ref().err(), status);
    }
    let (agreement, outcome, answer) = match answer {
        Err(failure) => (Agreement::Failed, Outcome::from(failure), None),
        Ok(answer) => {
            let (outcome, other) = compare::<S>(place, &record.answer, answer);
            (if other.is_none() { Agreement::Agreed } else { Agreement::Differed }, outcome, other)
        }
    };
    let asked = LinkRecord::new(&policy.identity, recorded(&place.items), outcome, trace);
    match is_comparable {
        true => ShadowRecord { asked, agreement, answer },
        false => ShadowRecord { asked, agreement: Agreement::NotComparable, answer: None },
    }
}

/// Remembers how a shadow is doing. Its failures suspend nobody but itself.
fn note(policy: &LoadedPolicy, failure: Option<&Failure>, status: &StatusSignal) {
    match failure {
        Some(failure) => {
            if policy.health.failed(&failure.reason) {
                tracing::warn!(slot = %policy.identity.slot, policy = %policy.identity, reason = failure.reason,
                    "a shadow keeps failing and is suspended until it is replaced");
            }
            status.changed();
        }
        None if policy.health.failures_in_a_row() > 0 => {
            policy.health.succeeded();
            status.changed();
        }
        None => {}
    }
}

/// The shadow's answer where it isn't what was decided. What it deferred would have been decided as it was, since those
/// behind it would have been asked the same.
fn compare<S: Slot>(place: &ShadowPlace, decided: &S::Answer, mut answer: S::Answer) -> (Outcome, Option<S::Answer>) {
    let selected;
    let decided = match &place.items {
        None => decided,
        Some(items) => {
            selected = S::select(decided, items);
            &selected
        }
    };
    let outcome = match S::deferred(&answer) {
        Deferred::Whole => return (Outcome::Deferred, None),
        Deferred::Items(items) => {
            S::merge(&mut answer, &items, S::select(decided, &items));
            Outcome::DecidedPart { deferred: u32::try_from(items.len()).unwrap_or(u32::MAX) }
        }
        Deferred::Nothing => Outcome::Decided,
    };
    let without_reasons = |answer: &S::Answer| {
        let mut answer = answer.clone();
        answer.for_each_reason(|reason| *reason = None);
        answer
    };
    let same = without_reasons(&answer) == without_reasons(decided);
    (outcome, (!same).then_some(answer))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use super::*;
    use crate::decision_log::DecisionLogOptions;

    #[test]
    fn the_rest_after_work_keeps_the_share() {
        let rest = |share_percent, work| {
            let options = ShadowOptions { share_percent, ..ShadowOptions::default() };
            options.rest_after(Duration::from_millis(work)).as_millis()
        };
        assert_eq!((rest(10, 1), rest(10, 500), rest(50, 7), rest(100, 500)), (9, 4_500, 7, 0));
        // What makes no sense is taken for the nearest that does.
        assert_eq!((rest(0, 1), rest(1000, 500)), (99, 0));
    }

    /// A record whose shadow answers once it may.
    struct Held(Option<Receiver<()>>);

    impl Ask for Held {
        fn ask(self: Box<Self>, _observers: &Observers) {
            if let Some(held) = self.0 {
                let _ = held.recv();
            }
        }

        fn give_up(self: Box<Self>, _observers: &Observers, _why: &str) {}
    }

    /// Puts records of these sizes, of which the first is held: which of them find room.
    fn room(options: ShadowOptions, bytes: &[usize]) -> Vec<bool> {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let log = Arc::new(DecisionLog::open(&state, "shadows", 1, DecisionLogOptions::default()).unwrap());
        let shadows = Shadows::new(options, log, Arc::default());
        let (release, held) = channel();
        let mut held = Some(held);
        let found = bytes.iter().map(|bytes| shadows.put(Box::new(Held(held.take())), *bytes).is_ok()).collect();
        drop(release);
        shadows.flush();
        found
    }

    #[test]
    fn a_decision_waits_for_no_shadow_and_one_too_many_finds_no_room() {
        let options = ShadowOptions { queue_decisions: 2, ..ShadowOptions::default() };
        assert_eq!(room(options, &[1, 1, 1, 1]), [true, true, false, false]);
    }

    #[test]
    fn records_that_wait_for_their_shadows_are_bounded_in_memory() {
        let options = ShadowOptions { queue_bytes: 1 << 20, ..ShadowOptions::default() };
        assert_eq!(room(options, &[700 << 10, 700 << 10, 100 << 10]), [true, false, true]);
        assert_eq!(room(options, &[2 << 20, 1]), [true, false], "one alone may take more");
    }
}
