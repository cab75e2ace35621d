//! A running operation: its journal, its policies, and the loop around each attempt.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{SlotName, retry};
use windlass_policy::{Fallback, PinnedPolicies};
use windlass_scaleway::{ErrorClass, Sent, Zone};

use crate::Error;
use crate::absence::Absences;
use crate::aftermath::Effects;
use crate::cancels::Journalled;
use crate::control::{Control, Event, EventKind};
use crate::failure;
use crate::failure::AttemptFailure;
use crate::identifier::{GroupName, OperationId};
use crate::journal::note::Note;
use crate::journal::progress::Progress;
use crate::journal::step::Step;
use crate::journal::{Entry, Operation, OperationKind, OperationState, Phase, ResourceName};
use crate::retry::Attempts;
use crate::shared::Shared;
use crate::stop::Stop;
use crate::trace::Trace;

/// The group of cleanups whose group nobody knows.
pub(crate) const UNKNOWN_GROUP: &str = "cleanup";
/// No attempt at a step begins later than this after the first one, whatever a policy says.
const MAX_WAITS: Duration = Duration::from_secs(1_800);
/// How often a look-up of the host's own is tried: it decides whether anything is left, so no policy is asked.
const LOOK_UPS: u32 = 8;
/// The same where the answer is one that seldom changes by waiting (no permission, wrong arguments, no such place).
const HOPELESS_LOOK_UPS: u32 = 3;

/// Why an operation is not to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The process leaves it to its successor.
    Left,
    Cancelled,
    DeadlinePassed,
}

impl Ending {
    fn failure(self) -> Failure {
        match self {
            Self::Left => failure::of_class(FailureClass::Cancelled, "the operation was left to the next start"),
            Self::Cancelled => cancelled(),
            Self::DeadlinePassed => {
                failure::of_class(FailureClass::DeadlineExceeded, "the operation's deadline passed")
            }
        }
    }

    fn stop(self, step: &str) -> Stop {
        match self {
            Self::Left => Stop::Left,
            Self::Cancelled | Self::DeadlinePassed => Stop::failed(step, self.failure()),
        }
    }
}

/// What a read by id says.
pub(crate) enum Asked<T> {
    Here(T),
    /// It is not there, for the first time.
    SaidAbsent,
    /// It is proven absent.
    Absent,
}

impl<T> Asked<T> {
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Asked<U> {
        match self {
            Self::Here(value) => Asked::Here(map(value)),
            Self::SaidAbsent => Asked::SaidAbsent,
            Self::Absent => Asked::Absent,
        }
    }
}

/// What a look for the effect of a failed call says.
enum Looked<T> {
    Found(T),
    /// It is not there, or the failure says that it cannot be.
    Nothing,
    /// It could not be looked for.
    Unseen,
}

/// Why an operation does not go on that somebody has cancelled.
pub(crate) fn cancelled() -> Failure {
    failure::of_class(FailureClass::Cancelled, "the operation was cancelled")
}

/// A running operation.
///
/// # How its waits end
/// Every wait ends at once when the process leaves ([`Control::leave`]). One of a creation also ends when it is called
/// off ([`Control::cancel`]) and at its deadline. An undo is neither called off nor bound by that deadline: it is what
/// follows from both. A call that changes something is given up only while it waits for its turn in this process: once
/// it has left, nobody would know what it did. One that only reads is given up at any moment.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: OperationId,
    pub(crate) kind: OperationKind,
    pub(crate) group: GroupName,
    pub(crate) zone: Zone,
    pub(crate) policies: PinnedPolicies,
    pub(crate) control: Control,
    /// As long as it lives, the control cancels this operation durably.
    _cancellable: Option<Arc<Journalled>>,
    /// Past this no further attempt begins, but for those of an undo.
    pub(crate) deadline: Option<Instant>,
    undoing: AtomicBool,
    pub(crate) absences: Absences,
    /// Whether somebody asked for it to be tried now.
    pub(crate) on_request: bool,
    /// Whether an earlier process began it.
    resumed: bool,
    /// What this process did, for when the journal cannot be written any more.
    effects: Mutex<Effects>,
    pub(crate) trace: Trace,
}

impl Run {
    #[expect(clippy::too_many_arguments, reason = "each is a part of what the run is")]
    pub(crate) fn new(
        shared: Arc<Shared>,
        id: OperationId,
        kind: OperationKind,
        group: GroupName,
        zone: Zone,
        policies: PinnedPolicies,
        control: Control,
        deadline: Option<Duration>,
    ) -> Self {
        let trace = Trace::of_operation(&shared.owner, &id, kind, &group, &zone, None);
        // Its own, so that a request of another process can cancel this operation alone.
        let control = control.child();
        let absences = Absences::new(shared.limits.poll_interval);
        let cancellable = kind.acquires().then(|| {
            let journalled = Arc::new(Journalled { shared: Arc::clone(&shared), id: id.clone() });
            control.enter(&journalled);
            shared.cancels.enter(&id, &control, &shared);
            journalled
        });
        Self {
            trace,
            shared,
            id,
            kind,
            group,
            zone,
            policies,
            control,
            _cancellable: cancellable,
            deadline: deadline.map(|deadline| Instant::now() + deadline),
            undoing: AtomicBool::new(!kind.acquires()),
            absences,
            on_request: false,
            resumed: false,
            effects: Mutex::default(),
        }
    }

    /// The same, of an operation that an earlier process has begun: its trace goes on. `on_request`:
    /// somebody asked for it to be tried now.
    pub(crate) fn going_on(mut self, before: &Operation, on_request: bool) -> Self {
        self.on_request = on_request;
        self.resumed = true;
        self.trace =
            Trace::of_operation(&self.shared.owner, &self.id, self.kind, &self.group, &self.zone, Some(before));
        self
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.clock.now()
    }

    /// From here on, calling off changes nothing: it is what is being done.
    pub(crate) fn begin_undo(&self) {
        self.undoing.store(true, Ordering::Relaxed);
    }

    /// What its log says so far, entries of earlier processes included.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn progress(&self) -> Result<Progress, Error> {
        Progress::of(&self.shared.journal.entries(&self.id)?)
    }

    pub(crate) fn effects(&self) -> Effects {
        self.effects.lock().clone()
    }

    /// As [`Progress::lost_call`]. One that an earlier process sent before it died counts as sent now: the clock may have
    /// been wrong then.
    pub(crate) fn lost_call(&self) -> Result<Option<u64>, Error> {
        let (shared, operation) = (&self.shared, self.shared.journal.operation(&self.id)?);
        let lost = self.progress()?.lost_call(&operation, &shared.limits);
        let was_closed = operation.report.is_some();
        Ok(if self.resumed && !was_closed { lost.map(|_| self.now()) } else { lost })
    }

    /// Waits until a call that was sent at `lost` has had the time to arrive, as a rule.
    pub(crate) async fn settle(&self, lost: Option<u64>) -> Result<(), Stop> {
        let settle = self.shared.limits.settle;
        let Some(settled) = lost.map(|lost| lost.saturating_add(milliseconds(settle))) else { return Ok(()) };
        // No longer than that, also where the clock was set back since.
        let wait = Duration::from_millis(settled.saturating_sub(self.now())).min(settle);
        self.sleep("settle", wait).await
    }

    /// What policies said about its decisions, as far as its log can be read.
    pub(crate) fn reasons(&self) -> Vec<String> {
        self.progress().map(|progress| progress.reasons).unwrap_or_default()
    }

    /// Its trace ends: it is closed in the journal.
    pub(crate) fn closed(&self, state: OperationState, why: Option<&str>) {
        self.trace.closed(state, why, || Some((self.shared.journal.operation(&self.id).ok()?, self.effects())));
    }

    pub(crate) fn event(&self, what: EventKind) {
        self.control.send(Event {
            operation: self.id.clone(),
            kind: self.kind,
            group: self.group.to_string(),
            what,
            at: self.now(),
        });
    }

    /// Whether the operation is cancelled, by the journal or in this process.
    pub(crate) fn is_cancelled(&self) -> Result<bool, Stop> {
        let noted = || self.shared.journal.cancelled(std::slice::from_ref(&self.id)).map_err(Stop::Journal);
        Ok(self.control.cancelled().is_cancelled() || !noted()?.is_empty())
    }

    /// Refuses to begin anything when the operation is to end. That its deadline has passed is for the waits to say.
    pub(crate) fn check(&self, step: &str) -> Result<(), Stop> {
        if self.control.left().is_cancelled() {
            return Err(Ending::Left.stop(step));
        }
        if self.control.cancelled().is_cancelled() && !self.undoing.load(Ordering::Relaxed) {
            return Err(Ending::Cancelled.stop(step));
        }
        Ok(())
    }

    /// Until when an attempt may begin. An undo of what was made has no such bound.
    fn last_attempt(&self) -> Option<Instant> {
        let is_undo = self.kind.acquires() && self.undoing.load(Ordering::Relaxed);
        self.deadline.filter(|_| !is_undo)
    }

    /// Whether its group is one of servers.
    pub(crate) fn is_of_group(&self) -> bool {
        is_group_of_servers(self.kind, self.group.as_str())
    }

    /// Waits for something, as long as the operation is neither left nor called off.
    async fn unless_told<T>(&self, wait: impl Future<Output = T>) -> Result<T, Ending> {
        let undoing = self.undoing.load(Ordering::Relaxed);
        tokio::select! {
            biased;
            () = self.control.left().cancelled() => Err(Ending::Left),
            () = self.control.cancelled().cancelled(), if !undoing => Err(Ending::Cancelled),
            value = wait => Ok(value),
        }
    }

    /// The same, and no longer than the operation's own deadline.
    async fn unless_over<T>(&self, wait: impl Future<Output = T>) -> Result<T, Ending> {
        let deadline = self.deadline.filter(|_| !self.undoing.load(Ordering::Relaxed));
        // On the heap, here and below: a call and all that it awaits would else lie in each of these futures anew.
        let wait = Box::pin(self.unless_told(wait));
        match deadline {
            None => wait.await,
            Some(deadline) => tokio::time::timeout_at(deadline, wait).await.unwrap_or(Err(Ending::DeadlinePassed)),
        }
    }

    /// Waits for something that can be given up at any moment without harm: a wait, or a call that only reads. It is
    /// given up as soon as the operation is to end.
    pub(crate) async fn unless_ended<T>(&self, step: &str, wait: impl Future<Output = T>) -> Result<T, Stop> {
        self.unless_over(wait).await.map_err(|ending| ending.stop(step))
    }

    /// The same until a deadline of the caller's; `None` when that has passed.
    pub(crate) async fn until<T>(
        &self,
        step: &str,
        deadline: Instant,
        wait: impl Future<Output = T>,
    ) -> Result<Option<T>, Stop> {
        match tokio::time::timeout_at(deadline, Box::pin(self.unless_told(wait))).await {
            Ok(ended) => ended.map(Some).map_err(|ending| ending.stop(step)),
            Err(_) => Ok(None),
        }
    }

    /// Waits, unless the operation is to end before.
    pub(crate) async fn sleep(&self, step: &str, duration: Duration) -> Result<(), Stop> {
        self.unless_ended(step, tokio::time::sleep(duration)).await
    }

    /// The same within an attempt. Whoever gets the failure checks first whether the operation is to end.
    pub(crate) async fn pause(&self, duration: Duration) -> Result<(), Failure> {
        self.unless_over(tokio::time::sleep(duration)).await.map_err(Ending::failure)
    }

    /// A call within an attempt that only reads.
    pub(crate) async fn read<T, E: Into<AttemptFailure>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, AttemptFailure> {
        match self.unless_over(Box::pin(call)).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(ending) => Err(ending.failure().into()),
        }
    }

    /// A call that may change something. It is given up as soon as the operation is to end, unless it has left by then.
    async fn send<T>(&self, call: impl Future<Output = T>) -> Result<T, Ending> {
        let sent = Sent::default();
        let mut call = Box::pin(sent.observe(call));
        match self.unless_over(&mut call).await {
            Err(_) if sent.is_set() => Ok(call.await),
            ended => ended,
        }
    }

    pub(crate) async fn write(
        &self,
        step: &str,
        phase: Phase,
        resource: Option<ResourceName>,
        data: Value,
    ) -> Result<(), Stop> {
        if phase == Phase::Outcome {
            self.effects.lock().take(step, phase, resource.as_ref(), &data);
        }
        self.shared
            .journal
            .append(&self.id, Entry { sequence: 0, step: step.to_owned(), phase, resource, data, at: self.now() })
            .await
            .map_err(Stop::Journal)?;
        // Without its intent in the journal, no call is sent.
        if phase == Phase::Intent {
            self.effects.lock().take(step, phase, None, &Value::Null);
        }
        Ok(())
    }

    /// Journals that a step is about to have an effect.
    pub(crate) async fn begin(&self, step: impl Into<Step>, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (step, data) = step.into().parts();
        self.intend(&step, resource, data).await?;
        self.trace.begin(&step);
        self.event(EventKind::StepBegan { step });
        Ok(())
    }

    /// The same of a step that has begun.
    async fn intend(&self, step: &str, resource: Option<ResourceName>, data: Value) -> Result<(), Stop> {
        self.check(step)?;
        self.write(step, Phase::Intent, resource, data).await
    }

    /// Journals that the effect took place.
    pub(crate) async fn done(&self, step: impl Into<Step>, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (step, data) = step.into().parts();
        self.write(&step, Phase::Outcome, resource.clone(), data).await?;
        metrics::counter!(crate::metric_names::STEPS, "step" => step.clone(), "outcome" => "done").increment(1);
        self.trace.done(&step, resource.as_ref());
        self.event(EventKind::StepDone { step, resource });
        Ok(())
    }

    /// Journals a note.
    pub(crate) async fn note(&self, note: Note, resource: Option<ResourceName>) -> Result<(), Stop> {
        let (word, data) = note.parts();
        self.write(&word, Phase::Note, resource, data).await
    }

    /// Asks the retry slot about a failed attempt, and waits if it says so. An error means: the step has failed.
    ///
    /// What Scaleway asks for (`Retry-After`) is the least that is waited; where that goes beyond what the step or the
    /// operation has left, the step has failed.
    pub(crate) async fn after_failure(
        &self,
        step: &str,
        attempts: &mut Attempts,
        failed: impl Into<AttemptFailure>,
        server_type: Option<&str>,
    ) -> Result<(), Stop> {
        self.check(step)?;
        let AttemptFailure { failure: failed, retry_after } = failed.into();
        let attempt = attempts.number();
        let question = retry::Question {
            now: self.now(),
            random: self.shared.randomness.word(),
            operation: self.kind.as_str().to_owned(),
            step: step.to_owned(),
            undoing: self.undoing.load(Ordering::Relaxed),
            attempt,
            elapsed: 0,
            time_left: None,
            failure: failed.clone(),
            zone: self.zone.to_string(),
            subject: self.subject(None),
            server_type: server_type.map(str::to_owned),
        };
        let (decision, wait) = attempts.decide(&self.policies, question, retry_after, self.last_attempt()).await;
        self.warn_of_fallbacks(step, &decision.fallbacks);
        let reasons = reasons_of(SlotName::Retry, Some(step), &decision.fallbacks, decision.reason.as_deref());
        self.write(
            step,
            Phase::Failure,
            None,
            json!({
                "attempt": attempt,
                "failure": failed,
                "wait": wait.map(milliseconds),
                "decision": decision.id,
                "reasons": reasons,
            }),
        )
        .await?;
        let Some(wait) = wait else {
            metrics::counter!(crate::metric_names::STEPS, "step" => step.to_owned(), "outcome" => "failed")
                .increment(1);
            return Err(Stop::failed(step, failed));
        };
        tracing::debug!(operation = %self.id, step, attempt, wait = ?wait, failure = %failed.words(), "retry");
        self.event(EventKind::Waiting {
            step: step.to_owned(),
            attempt,
            milliseconds: milliseconds(wait),
            failure: failed.words(),
            reason: decision.reason,
        });
        self.sleep(step, wait).await?;
        attempts.next(wait);
        Ok(())
    }

    pub(crate) fn warn_of_fallbacks(&self, step: &str, fallbacks: &[Fallback]) {
        for fallback in fallbacks {
            tracing::warn!(operation = %self.id, step, %fallback, "a policy failed");
        }
    }

    /// Calls until it works or the retry slot gives up. For calls that may be repeated blindly.
    pub(crate) async fn attempt<T, E, F, Fut>(&self, step: &str, mut call: F) -> Result<T, Stop>
    where
        E: Into<AttemptFailure>,
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.trace
            .in_step(step, async {
                let mut attempts = attempts();
                loop {
                    self.check(step)?;
                    let call = self.send(Box::pin(call(attempts.number())));
                    match call.await.map_err(|ending| ending.stop(step))? {
                        Ok(value) => return Ok(value),
                        Err(failed) => self.after_failure(step, &mut attempts, failed, None).await?,
                    }
                }
            })
            .await
    }

    /// Creates something, once: where an answer leaves in doubt whether it exists, it is looked for before the call is
    /// sent again, and also before the step is given up, so that the journal knows of it. A refusal in Scaleway's own
    /// words leaves none; that it is right about the effect is checked once, at the end, where the call was sent again
    /// after it. Each call is journalled before it is sent, and so is what came of it, but for the effect itself.
    ///
    /// `resource` is what `step` is about, where it is known before. A failure that `stops` names ends the step at
    /// once, without asking.
    pub(crate) async fn create<T, F, Fut, L, LFut>(
        &self,
        step: impl Into<Step>,
        resource: Option<ResourceName>,
        server_type: Option<&str>,
        stops: impl Fn(&Failure) -> bool,
        mut call: F,
        mut look_up: L,
    ) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
        L: FnMut() -> LFut,
        LFut: Future<Output = Result<Option<T>, windlass_scaleway::Error>>,
    {
        let step = step.into();
        self.begin(step.clone(), resource.clone()).await?;
        let (step, data) = step.parts();
        let step = step.as_str();
        let create = async {
            let mut attempts = attempts();
            loop {
                if attempts.number() > 1 {
                    self.intend(step, resource.clone(), data.clone()).await?;
                }
                let error = match self.send(Box::pin(call())).await {
                    // It was over before the call had left.
                    Err(ending) => {
                        self.write(step, Phase::Note, None, json!({ "sent": false })).await?;
                        return Err(ending.stop(step));
                    }
                    Ok(Ok(value)) => return Ok(value),
                    Ok(Err(error)) => error,
                };
                let failed = failure::of_error(&error);
                let is_last = match self.found(step, &error, &failed, &mut look_up).await? {
                    Looked::Found(found) => return Ok(found),
                    Looked::Unseen => true,
                    Looked::Nothing => stops(&failed),
                };
                let ending = self.check(step).err();
                if is_last || ending.is_some() {
                    let data = json!({ "attempt": attempts.number(), "failure": failed });
                    self.write(step, Phase::Failure, None, data).await?;
                    return Err(ending.unwrap_or_else(|| Stop::failed(step, failed)));
                }
                self.after_failure(step, &mut attempts, &error, server_type).await?;
            }
        };
        self.trace.in_step(step, create).await
    }

    /// Looks for what a failed call may have made all the same.
    async fn found<T, L, LFut>(
        &self,
        step: &str,
        error: &windlass_scaleway::Error,
        failed: &Failure,
        look_up: L,
    ) -> Result<Looked<T>, Stop>
    where
        L: FnMut() -> LFut,
        LFut: Future<Output = Result<Option<T>, windlass_scaleway::Error>>,
    {
        if !self.is_in_doubt(error) {
            return Ok(Looked::Nothing);
        }
        self.write(step, Phase::Note, None, json!({ "ambiguous": failed })).await?;
        if error.is_ambiguous() {
            self.settle(Some(self.now())).await?;
        }
        match self.look(step, look_up).await {
            Ok(Some(found)) => {
                tracing::info!(operation = %self.id, step, failure = %failed.words(),
                    "a call that failed had taken effect");
                Ok(Looked::Found(found))
            }
            Ok(None) => Ok(Looked::Nothing),
            Err(Stop::Failed(unseen)) => {
                // Sending it again could make a second one. The first cause is what is reported.
                tracing::warn!(operation = %self.id, step, failure = %unseen.failure.words(),
                    "a call got no response, and Windlass cannot check whether it took effect");
                Ok(Looked::Unseen)
            }
            Err(other) => Err(other),
        }
    }

    /// Whether a failed creation may have made something all the same, as far as its answer tells.
    fn is_in_doubt(&self, error: &windlass_scaleway::Error) -> bool {
        match error.status() {
            None => error.is_ambiguous(),
            // A host is paid for a day: a look costs less than believing a wrong answer.
            Some(_) if self.kind == OperationKind::OrderMachine => true,
            Some(_) => !error.is_refusal(),
        }
    }

    /// Looks up one thing by its id. `None` where it is proven absent.
    pub(crate) async fn look_one<T, F, Fut>(&self, step: &str, id: &str, mut look_up: F) -> Result<Option<T>, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        loop {
            match self.ask(step, id, &mut look_up).await? {
                Asked::Here(value) => return Ok(Some(value)),
                Asked::Absent => return Ok(None),
                Asked::SaidAbsent => self.sleep(step, self.absences.wait(id)).await?,
            }
        }
    }

    /// The same, asked once. Who asks for many can so ask again for all of them together.
    pub(crate) async fn ask<T, F, Fut>(&self, step: &str, id: &str, mut look_up: F) -> Result<Asked<T>, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        let answer = self
            .look(step, || {
                let call = look_up();
                async move {
                    match call.await {
                        Ok(value) => Ok(Some(value)),
                        Err(error) if error.is_not_found() => Ok(None),
                        Err(error) => Err(error),
                    }
                }
            })
            .await?;
        let absent = self.absences.prove(id, answer.is_none());
        Ok(match answer {
            Some(value) => Asked::Here(value),
            None if absent => Asked::Absent,
            None => Asked::SaidAbsent,
        })
    }

    /// Looks something up until it works: the host's own duty, so no policy is asked and every failure is tried again,
    /// a bounded number of times. `Retry-After` is heeded here, too.
    pub(crate) async fn look<T, F, Fut>(&self, step: &str, look_up: F) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        self.trace.in_step(step, self.look_again(step, look_up)).await
    }

    /// What [`Run::look`] does within its step.
    async fn look_again<T, F, Fut>(&self, step: &str, mut look_up: F) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        let began = Instant::now();
        let mut attempt = 1;
        loop {
            let error = match self.unless_ended(step, Box::pin(look_up())).await? {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let most = match error.class() {
                ErrorClass::PermissionDenied
                | ErrorClass::AuthenticationDenied
                | ErrorClass::InvalidArguments
                | ErrorClass::NotFound => HOPELESS_LOOK_UPS,
                _ => LOOK_UPS,
            };
            let longest = 250_u64 << attempt.min(5);
            let jitter = self.shared.randomness.word() % longest.max(1);
            let wait = Duration::from_millis(longest / 2 + jitter / 2).max(error.retry_after().unwrap_or_default());
            if attempt >= most || began.elapsed() + wait > MAX_WAITS {
                return Err(Stop::failed(step, failure::of_error(&error)));
            }
            self.sleep(step, wait).await?;
            attempt += 1;
        }
    }
}

/// What policies said about a decision, and which of them failed, for people. `step`: what was decided about, where that
/// is not the slot's only question.
pub(crate) fn reasons_of(
    slot: SlotName,
    step: Option<&str>,
    failures: &[impl Display],
    reason: Option<&str>,
) -> Vec<String> {
    let of_step = step.map(|step| format!(" of {step}")).unwrap_or_default();
    let failures = failures.iter().map(|failure| format!("{slot}: {failure}"));
    failures.chain(reason.map(|reason| format!("{slot}{of_step}: {reason}"))).collect()
}

/// Whether the group of an operation is one of servers. What is done to hosts, and what a sweep does, is of no group, and
/// of some servers nobody knows the group.
pub(crate) fn is_group_of_servers(kind: OperationKind, group: &str) -> bool {
    matches!(kind, OperationKind::CreateServer | OperationKind::CleanupServer) && group != UNKNOWN_GROUP
}

/// The attempts at a step that begins now.
pub(crate) fn attempts() -> Attempts {
    Attempts::within(MAX_WAITS)
}

impl Drop for Run {
    fn drop(&mut self) {
        self.shared.cancels.exit(&self.id);
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
