//! What runs beside the operations: it takes up what nobody works on, looks again where a call may have taken effect
//! late, sweeps, and prunes the journal.
//!
//! When each part is due is a pure function of time ([`Schedule`]); the rest is its execution.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use crate::control::Control;
use crate::lifecycle::Lifecycle;
use crate::run::milliseconds;
use crate::{Error, Resumed, Sweep, SweepRequest, metric_names};

/// The first wait before a part is tried again that failed; later ones grow to its interval.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// When it is looked again at operations on which another process works: one that died may count as alive for half a
/// minute.
const ELSEWHERE: Duration = Duration::from_secs(10);
/// How long a part that was asked to stop may take to reach its next safe point. After that it is dropped where it
/// stands: the journal knows how far it is.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How long ended operations stay in the journal, unless configured.
pub(crate) const JOURNAL_KEEPS: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How many unexplained resources are reported one by one.
const MAX_TOLD: usize = 20;
/// A wait is its interval less up to this share of it, so that processes that started together do not work together.
const JITTER: u32 = 5;

/// A part of a supervisor's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Operations that nobody works on are ended, and second looks made.
    Resume,
    /// It is looked for what is ours and explained by nothing.
    Sweep,
    /// Old operations that explain nothing any more are forgotten.
    Prune,
}

impl Part {
    /// All, in the order of a round: what is open is ended first; only then is it seen what nothing explains.
    pub const ALL: [Self; 3] = [Self::Resume, Self::Sweep, Self::Prune];

    /// The word of metrics, events and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Sweep => "sweep",
            Self::Prune => "prune",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a supervisor does, and how often.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SupervisorOptions {
    /// How often it is looked for operations that nobody works on. Second looks are made when they are due.
    pub resume_interval: Duration,
    /// Where and how to sweep. Absent: not at all. A `dry_run` reports only.
    pub sweep: Option<SweepRequest>,
    /// How often that is done.
    pub sweep_interval: Duration,
    /// How long ended operations stay in the journal.
    pub journal_keeps: Duration,
    /// How often the journal is pruned.
    pub prune_interval: Duration,
    /// How long one part of a round may take. Then it ends at its next safe point, and the next round goes on.
    pub part_limit: Duration,
}

impl Default for SupervisorOptions {
    /// Resume each minute, prune each day what ended thirty days ago, and sweep nothing.
    fn default() -> Self {
        Self {
            resume_interval: Duration::from_secs(60),
            sweep: None,
            sweep_interval: Duration::from_secs(3_600),
            journal_keeps: JOURNAL_KEEPS,
            prune_interval: Duration::from_secs(24 * 3_600),
            part_limit: Duration::from_secs(1_800),
        }
    }
}

/// What one round did.
#[derive(Debug, Default, Serialize)]
pub struct Round {
    /// What was taken up, where it was looked for.
    pub resumed: Option<Resumed>,
    /// What the sweep saw and did, where one was made.
    pub sweep: Option<Sweep>,
    /// How many operations were forgotten, where the journal was pruned.
    pub pruned: Option<usize>,
    /// Parts that could not be done. Each is tried again soon.
    pub problems: Vec<Problem>,
}

/// A part that could not be done.
#[derive(Debug, Serialize)]
pub struct Problem {
    pub part: Part,
    #[serde(serialize_with = "words")]
    pub error: Error,
}

fn words<S: Serializer>(error: &Error, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}

/// When each part is due next.
#[derive(Clone, Debug)]
struct Schedule {
    intervals: [Option<Duration>; 3],
    next: [Option<Instant>; 3],
    failures: [u32; 3],
}

impl Schedule {
    /// Everything that is done at all is due at once.
    fn new(options: &SupervisorOptions, now: Instant) -> Self {
        let sweep = options.sweep.is_some().then_some(options.sweep_interval);
        let intervals = [Some(options.resume_interval), sweep, Some(options.prune_interval)];
        Self { intervals, next: intervals.map(|interval| interval.map(|_| now)), failures: [0; 3] }
    }

    /// What is due at this time, in the order of a round.
    fn due(&self, now: Instant) -> Vec<Part> {
        Part::ALL.into_iter().filter(|part| self.next[part.index()].is_some_and(|next| next <= now)).collect()
    }

    /// When something is due next.
    fn next(&self) -> Option<Instant> {
        self.next.iter().flatten().min().copied()
    }

    /// A part has ended: the next time is its interval later, or sooner after a failure. `random` jitters both.
    fn ended(&mut self, part: Part, now: Instant, well: bool, random: u64) {
        let Some(interval) = self.intervals[part.index()] else { return };
        let failures = &mut self.failures[part.index()];
        *failures = if well { 0 } else { failures.saturating_add(1) };
        let wait = match *failures {
            0 => interval,
            failures => FIRST_RETRY.saturating_mul(1 << (failures - 1).min(16)).min(interval),
        };
        let spread = milliseconds(wait / JITTER).saturating_add(1);
        self.next[part.index()] = Some(now + wait.saturating_sub(Duration::from_millis(random % spread)));
    }

    /// A part is due at this time at the latest.
    fn no_later(&mut self, part: Part, at: Instant) {
        if let Some(next) = &mut self.next[part.index()] {
            *next = at.min(*next);
        }
    }
}

/// Runs beside the operations of a [`Lifecycle`], the same for every surface. Cheap to clone; clones share one
/// schedule.
///
/// # Guarantees
/// One round at a time in this process, each part bounded in time. It removes what an operation of the journal was to
/// remove, and otherwise only what its sweep may delete. A part that fails takes no other with it and is tried again.
/// Ended or killed at any point, the next round goes on.
#[derive(Clone, Debug)]
pub struct Supervisor {
    lifecycle: Lifecycle,
    options: Arc<SupervisorOptions>,
    schedule: Arc<Mutex<Schedule>>,
    woken: Arc<Notify>,
    /// Held by the round under way.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Supervisor {
    /// One that has not begun.
    #[must_use]
    pub fn new(lifecycle: Lifecycle, options: SupervisorOptions) -> Self {
        let schedule = Schedule::new(&options, Instant::now());
        Self {
            lifecycle,
            options: Arc::new(options),
            schedule: Arc::new(Mutex::new(schedule)),
            woken: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// Something was left behind: it is looked now what is due, and when the next try of the rest is.
    pub fn wake(&self) {
        self.schedule.lock().no_later(Part::Resume, Instant::now());
        self.woken.notify_one();
    }

    /// Works until the control is asked to stop; `told` receives each round's report.
    pub async fn run(&self, control: &Control, mut on_round: impl FnMut(&Round)) {
        let ending = || control.left().is_cancelled() || control.cancelled().is_cancelled();
        while !ending() {
            let due = self.schedule.lock().due(Instant::now());
            if !due.is_empty() {
                on_round(&self.round_of(&due, true, control).await);
                continue;
            }
            let next = self.schedule.lock().next();
            tokio::select! {
                biased;
                () = control.left().cancelled() => {}
                () = control.cancelled().cancelled() => {}
                () = self.woken.notified() => {}
                () = until(next) => {}
            }
        }
    }

    /// Does these parts now, whether or not they are due, after a round that is under way. What is left is tried at
    /// once.
    pub async fn round(&self, parts: &[Part], control: &Control) -> Round {
        self.round_of(parts, false, control).await
    }

    /// Takes up now what was interrupted and what is due; what is left keeps its pace. For a start, before what
    /// [`Supervisor::run`] does.
    pub async fn take_up(&self, control: &Control) -> Round {
        self.round_of(&[Part::Resume], true, control).await
    }

    async fn round_of(&self, parts: &[Part], paced: bool, control: &Control) -> Round {
        let mut round = Round::default();
        let _turn = tokio::select! {
            biased;
            () = control.left().cancelled() => return round,
            turn = self.turn.lock() => turn,
        };
        for part in Part::ALL.into_iter().filter(|part| parts.contains(part)) {
            if control.left().is_cancelled() {
                break;
            }
            let began = Instant::now();
            let span = tracing::info_span!("supervisor", part = part.as_str());
            let ended = self.perform(part, paced, control, &mut round).instrument(span.clone()).await;
            let outcome = match &ended {
                Ok(()) => "done",
                Err(Error::RecoveryRunning { .. }) => "busy",
                Err(_) => "failed",
            };
            metrics::counter!(metric_names::SUPERVISOR_PARTS, "part" => part.as_str(), "outcome" => outcome)
                .increment(1);
            metrics::histogram!(metric_names::SUPERVISOR_PART_SECONDS, "part" => part.as_str())
                .record(began.elapsed().as_secs_f64());
            let random = self.lifecycle.shared.randomness.word();
            self.schedule.lock().ended(part, Instant::now(), ended.is_ok(), random);
            if let Err(error) = ended {
                span.in_scope(|| match &error {
                    Error::RecoveryRunning { .. } => {
                        tracing::info!("another process is recovering operations; the next look comes soon");
                    }
                    Error::PartEnded { .. } if control.left().is_cancelled() => {
                        tracing::info!("interrupted; the next start continues");
                    }
                    error => tracing::error!(
                        error = error as &dyn std::error::Error,
                        "a part of the supervisor's round failed; it will be retried"
                    ),
                });
                round.problems.push(Problem { part, error });
            }
        }
        self.schedule_next_tries(&round);
        round
    }

    async fn perform(&self, part: Part, paced: bool, control: &Control, round: &mut Round) -> Result<(), Error> {
        // Told to end with its caller's, and alone when its time is up.
        let own = control.child();
        let lifecycle = &self.lifecycle;
        match part {
            Part::Resume => {
                let resume =
                    async { if paced { lifecycle.resume_due(&own).await } else { lifecycle.resume(&own).await } };
                let resumed = self.bounded(part, &own, resume).await?;
                tell_resumed(&resumed);
                round.resumed = Some(resumed);
            }
            Part::Sweep => {
                let Some(request) = &self.options.sweep else { return Ok(()) };
                let mut whole = None;
                // A zone that cannot be listed takes no other with it.
                let sweeps = async {
                    let mut failed = None;
                    for zone in &request.zones {
                        let of_zone = SweepRequest { zones: vec![zone.clone()], ..request.clone() };
                        match lifecycle.sweep(&of_zone, &own).await {
                            Ok(sweep) => whole.get_or_insert_with(Sweep::default).extend(sweep),
                            Err(error) => drop(failed.get_or_insert(error)),
                        }
                    }
                    failed.map_or(Ok(()), Err)
                };
                let ended = self.bounded(part, &own, sweeps).await;
                whole.iter().for_each(tell_sweep);
                round.sweep = whole;
                ended?;
            }
            Part::Prune => {
                let shared = &lifecycle.shared;
                let before = shared.clock.now().saturating_sub(milliseconds(self.options.journal_keeps));
                let pruned = self.bounded(part, &own, shared.journal.prune(before)).await?;
                metrics::counter!(metric_names::JOURNAL_PRUNED).increment(pruned as u64);
                round.pruned = Some(pruned);
            }
        }
        Ok(())
    }

    /// Does the work within the limit of a part. At its end, or when the supervisor is to end, the work is notified;
    /// what does not come to its end soon then is dropped.
    async fn bounded<T>(
        &self,
        part: Part,
        own: &Control,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::pin!(work);
        tokio::select! {
            biased;
            ended = &mut work => return ended,
            () = own.left().cancelled() => {}
            () = tokio::time::sleep(self.options.part_limit) => {
                let limit = self.options.part_limit;
                tracing::warn!(?limit, "a part of the supervisor's round timed out");
                own.leave();
            }
        }
        let dropped = |_| Error::PartEnded { part };
        tokio::time::timeout(END_PATIENCE, work).await.map_err(dropped)?
    }

    /// What waits for its second look, or for its next try, is taken up when that is due.
    fn schedule_next_tries(&self, round: &Round) {
        let Some(resumed) = &round.resumed else { return };
        if resumed.is_elsewhere {
            self.schedule.lock().no_later(Part::Resume, Instant::now() + ELSEWHERE);
        }
        let now = self.lifecycle.shared.clock.now();
        let second_looks = resumed.unverified.iter().map(|waits| waits.look_at);
        let next_tries = resumed.waiting.iter().map(|waits| waits.next_try);
        if let Some(next) = second_looks.chain(next_tries).min() {
            let wait = Duration::from_millis(next.saturating_sub(now));
            // A date far off is none that a clock gave; the interval comes before.
            let at = Instant::now().checked_add(wait);
            at.into_iter().for_each(|at| self.schedule.lock().no_later(Part::Resume, at));
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn tell_resumed(resumed: &Resumed) {
    for operation in &resumed.operations {
        tracing::info!(
            operation = %operation.operation,
            kind = %operation.kind,
            state = %operation.state,
            problem = operation.problem.as_deref(),
            "resumed an open operation from the journal"
        );
    }
}

fn tell_sweep(sweep: &Sweep) {
    for unexplained in sweep.unexplained.iter().take(MAX_TOLD) {
        tracing::warn!(
            resource = %unexplained.resource,
            why = unexplained.why,
            spared = unexplained.spared,
            "the sweep found a resource of this owner that no operation explains"
        );
    }
    if sweep.unexplained.len() > MAX_TOLD {
        tracing::warn!(more = sweep.unexplained.len() - MAX_TOLD, "the sweep found more such resources");
    }
    for failure in &sweep.failures {
        tracing::warn!(zone = failure.zone, problem = failure.problem, "a part of the sweep failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn schedule(sweeps: bool, now: Instant) -> Schedule {
        let sweep = sweeps.then(|| SweepRequest::new(Vec::new()));
        Schedule::new(&SupervisorOptions { sweep, ..SupervisorOptions::default() }, now)
    }

    #[test]
    fn all_that_is_done_at_all_is_due_at_once_and_then_at_its_interval() {
        let now = Instant::now();
        let mut schedule = schedule(false, now);
        assert_eq!(schedule.due(now), [Part::Resume, Part::Prune], "it sweeps only where that is configured");
        for part in Part::ALL {
            schedule.ended(part, now, true, 0);
        }
        assert_eq!(schedule.due(now), []);
        assert_eq!(schedule.next(), Some(now + MINUTE));
        assert_eq!(schedule.due(now + MINUTE), [Part::Resume]);
        let day = now + Duration::from_secs(24 * 3_600);
        assert_eq!(schedule.due(day), [Part::Resume, Part::Prune]);
    }

    #[test]
    fn a_part_that_fails_is_tried_again_soon_and_never_later_than_its_interval() {
        let now = Instant::now();
        let mut schedule = schedule(true, now);
        let mut waits = Vec::new();
        for _ in 0..40 {
            schedule.ended(Part::Sweep, now, false, 0);
            waits.push(schedule.next[Part::Sweep.index()].unwrap().duration_since(now).as_secs());
        }
        assert_eq!(waits[..5], [5, 10, 20, 40, 80]);
        assert_eq!(waits[39], 3_600);
        schedule.ended(Part::Sweep, now, true, 0);
        schedule.ended(Part::Sweep, now, false, 0);
        assert_eq!(schedule.next[Part::Sweep.index()], Some(now + FIRST_RETRY), "a success begins anew");
    }

    #[test]
    fn jitter_brings_a_part_forward_by_a_fifth_of_its_interval_at_most() {
        let now = Instant::now();
        for random in [0, 1, 999, 12_000, 12_001, u64::MAX] {
            let mut schedule = schedule(false, now);
            schedule.ended(Part::Resume, now, true, random);
            let wait = schedule.next[Part::Resume.index()].unwrap() - now;
            assert!((Duration::from_secs(48)..=MINUTE).contains(&wait), "{random}: {wait:?}");
        }
    }

    #[test]
    fn a_second_look_brings_the_resume_forward_and_puts_nothing_off() {
        let now = Instant::now();
        let mut schedule = schedule(false, now);
        for part in Part::ALL {
            schedule.ended(part, now, true, 0);
        }
        schedule.no_later(Part::Resume, now + Duration::from_secs(7));
        assert_eq!(schedule.next(), Some(now + Duration::from_secs(7)));
        schedule.no_later(Part::Resume, now + MINUTE * 5);
        assert_eq!(schedule.next(), Some(now + Duration::from_secs(7)));
        schedule.no_later(Part::Sweep, now);
        assert_eq!(schedule.due(now), [], "what is not done at all is never due");
    }
}
