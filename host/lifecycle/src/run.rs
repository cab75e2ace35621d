//! A running operation: its journal, its policies, and the loop around each attempt.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_policy::PinnedPolicies;
use windlass_policy::slots::retry::{self, Verdict};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Retry, Slot};
use windlass_scaleway::{ErrorClass, Zone};

use crate::control::{Control, Event, Happening};
use crate::identifier::{GroupName, OperationId};
use crate::journal::{NewEntry, OperationKind, Phase, ResourceName};
use crate::lifecycle::Shared;
use crate::{Error, failure};

/// The longest single wait between two attempts, whatever a policy says.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The longest sum of the waits of one step, whatever a policy says.
const LONGEST_WAITS: Duration = Duration::from_secs(1_800);
/// Attempts of one step at most, whatever a policy says.
const MOST_ATTEMPTS: u32 = 500;
/// How often a look-up of the host's own is tried: it decides whether anything is left, so no policy is asked.
const LOOK_UPS: u32 = 8;
/// The same where the answer is one that seldom changes by waiting (no permission, wrong arguments).
const HOPELESS_LOOK_UPS: u32 = 3;
/// Reasons of one operation at most; later ones are counted in the decision log only.
const MOST_REASONS: usize = 50;

/// A step that has failed for good.
#[derive(Clone, Debug)]
pub(crate) struct StepFailure {
    pub(crate) step: String,
    pub(crate) failure: Failure,
}

/// Why an operation does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A step failed for good, or the operation was called off.
    Failed(Box<StepFailure>),
    /// It is left to the next start.
    Left,
    /// The journal cannot be written, so nothing more may be done.
    Journal(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Journal(error)
    }
}

impl Stop {
    pub(crate) fn failed(step: &str, failure: Failure) -> Self {
        Self::Failed(Box::new(StepFailure { step: step.to_owned(), failure }))
    }
}

/// A running operation.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: OperationId,
    pub(crate) kind: OperationKind,
    pub(crate) group: GroupName,
    pub(crate) zone: Zone,
    pub(crate) policies: PinnedPolicies,
    pub(crate) control: Control,
    /// Past this no further attempt of a creation begins.
    pub(crate) deadline: Option<Instant>,
    undoing: AtomicBool,
    ambiguous: AtomicBool,
    /// When the latest creating call was sent whose effect was not seen.
    lost: Mutex<Option<u64>>,
    reasons: Mutex<Vec<String>>,
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
        Self {
            shared,
            id,
            kind,
            group,
            zone,
            policies,
            control,
            deadline: deadline.map(|deadline| Instant::now() + deadline),
            undoing: AtomicBool::new(!kind.makes()),
            ambiguous: AtomicBool::new(false),
            lost: Mutex::new(None),
            reasons: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.clock.now()
    }

    /// From here on, calling off changes nothing: it is what is being done.
    pub(crate) fn begin_undo(&self) {
        self.undoing.store(true, Ordering::Relaxed);
    }

    /// Whether an answer to a creation was lost, so that more may exist than the journal knows.
    pub(crate) fn saw_ambiguity(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed)
    }

    /// As if such an answer had been lost.
    pub(crate) fn suspect(&self) {
        self.ambiguous.store(true, Ordering::Relaxed);
    }

    /// When the latest creating call was sent whose effect was not seen: it may still come. Also one that was
    /// abandoned.
    pub(crate) fn lost_call(&self) -> Option<u64> {
        *self.lost.lock()
    }

    pub(crate) fn add_reason(&self, reason: String) {
        let mut reasons = self.reasons.lock();
        if reasons.len() < MOST_REASONS && reasons.last() != Some(&reason) {
            reasons.push(reason);
        }
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        self.reasons.lock().clone()
    }

    pub(crate) fn event(&self, what: Happening) {
        self.control.send(Event {
            operation: self.id.clone(),
            kind: self.kind,
            group: self.group.to_string(),
            what,
            at: self.now(),
        });
    }

    /// Refuses to begin anything when the operation is to end.
    pub(crate) fn check(&self, step: &str) -> Result<(), Stop> {
        if self.control.left().is_cancelled() {
            return Err(Stop::Left);
        }
        if self.control.cancelled().is_cancelled() && !self.undoing.load(Ordering::Relaxed) {
            return Err(self.called_off(step));
        }
        Ok(())
    }

    fn called_off(&self, step: &str) -> Stop {
        Stop::failed(step, failure::of_class(FailureClass::Cancelled, "the operation was called off"))
    }

    /// Waits, unless the operation is to end before.
    pub(crate) async fn sleep(&self, step: &str, duration: Duration) -> Result<(), Stop> {
        let undoing = self.undoing.load(Ordering::Relaxed);
        tokio::select! {
            biased;
            () = self.control.left().cancelled() => Err(Stop::Left),
            () = self.control.cancelled().cancelled(), if !undoing => Err(self.called_off(step)),
            () = tokio::time::sleep(duration) => Ok(()),
        }
    }

    pub(crate) async fn write(
        &self,
        step: &str,
        phase: Phase,
        resource: Option<ResourceName>,
        data: Value,
    ) -> Result<(), Stop> {
        self.shared
            .journal
            .append(NewEntry {
                operation: self.id.clone(),
                step: step.to_owned(),
                phase,
                resource,
                data,
                at: self.now(),
            })
            .await
            .map_err(Stop::Journal)
    }

    /// Journals that a step is about to have an effect.
    pub(crate) async fn intend(&self, step: &str, resource: Option<ResourceName>, data: Value) -> Result<(), Stop> {
        self.check(step)?;
        self.write(step, Phase::Intent, resource, data).await?;
        self.event(Happening::StepBegan { step: step.to_owned() });
        Ok(())
    }

    /// Journals that the effect took place.
    pub(crate) async fn conclude(&self, step: &str, resource: Option<ResourceName>, data: Value) -> Result<(), Stop> {
        self.write(step, Phase::Outcome, resource.clone(), data).await?;
        metrics::counter!(crate::metric_names::STEPS, "step" => step.to_owned(), "outcome" => "done").increment(1);
        self.event(Happening::StepDone { step: step.to_owned(), resource });
        Ok(())
    }

    /// Asks the retry slot about a failed attempt, and waits if it says so. An error means: the step has failed.
    pub(crate) async fn after_failure(
        &self,
        step: &str,
        began: Instant,
        attempt: u32,
        failed: Failure,
        server_type: Option<&str>,
    ) -> Result<(), Stop> {
        self.check(step)?;
        let elapsed = began.elapsed();
        let question = retry::Question {
            now: self.now(),
            random: self.shared.randomness.word(),
            operation: self.kind.as_str().to_owned(),
            step: step.to_owned(),
            attempt,
            elapsed: milliseconds(elapsed),
            failure: failed.clone(),
            zone: self.zone.to_string(),
            server_type: server_type.map(str::to_owned),
        };
        let decision = self.policies.decide::<Retry>(question, |_, _| Ok(())).await;
        self.quote::<Retry>(step, &decision);
        let wait = match decision.answer.verdict {
            Verdict::Wait(wait) if attempt < MOST_ATTEMPTS => Some(Duration::from_millis(wait).min(LONGEST_WAIT)),
            _ => None,
        }
        .filter(|wait| elapsed + *wait <= LONGEST_WAITS)
        .filter(|wait| self.deadline.is_none_or(|deadline| Instant::now() + *wait < deadline));
        self.write(
            step,
            Phase::Failure,
            None,
            json!({
                "attempt": attempt,
                "failure": failed,
                "wait": wait.map(milliseconds),
                "decision": decision.id,
            }),
        )
        .await?;
        let Some(wait) = wait else {
            metrics::counter!(crate::metric_names::STEPS, "step" => step.to_owned(), "outcome" => "failed")
                .increment(1);
            return Err(Stop::failed(step, failed));
        };
        tracing::debug!(operation = %self.id, step, attempt, wait = ?wait, failure = %failure::words(&failed), "retry");
        self.event(Happening::Waiting {
            step: step.to_owned(),
            attempt,
            milliseconds: milliseconds(wait),
            failure: failure::words(&failed),
            reason: decision.reason,
        });
        self.sleep(step, wait).await
    }

    /// Keeps what policies said about a decision, and which of them failed.
    pub(crate) fn quote<S: Slot>(&self, step: &str, decision: &windlass_policy::Decision<S>) {
        for fallback in &decision.fallbacks {
            tracing::warn!(operation = %self.id, step, %fallback, "a policy failed");
            self.add_reason(format!("{}: {fallback}", S::NAME));
        }
        if let Some(reason) = &decision.reason {
            self.add_reason(format!("{} of {step}: {reason}", S::NAME));
        }
    }

    /// Calls until it works or the retry slot gives up. For calls that may be repeated blindly.
    pub(crate) async fn attempt<T, F, Fut>(&self, step: &str, mut call: F) -> Result<T, Stop>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        let mut attempt = 1;
        loop {
            self.check(step)?;
            match call(attempt).await {
                Ok(value) => return Ok(value),
                Err(failed) => self.after_failure(step, began, attempt, failed, None).await?,
            }
            attempt += 1;
        }
    }

    /// Creates something, once: after a failure it is looked for before the call is sent again, and also before the step is
    /// given up, so that the journal knows of it.
    pub(crate) async fn create<T, F, Fut, L, LFut>(
        &self,
        step: &str,
        server_type: Option<&str>,
        call: F,
        look_up: L,
    ) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
        L: FnMut() -> LFut,
        LFut: Future<Output = Result<Option<T>, windlass_scaleway::Error>>,
    {
        self.create_unless(step, server_type, |_| false, call, look_up).await
    }

    /// The same; a failure that `stops` names ends the step at once, without asking.
    pub(crate) async fn create_unless<T, F, Fut, L, LFut>(
        &self,
        step: &str,
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
        let began = Instant::now();
        let mut attempt = 1;
        loop {
            self.check(step)?;
            // Lost until it is seen what came of it, also when nobody waits for that any more.
            let lost_before = self.lost.lock().replace(self.now());
            let answered = || *self.lost.lock() = lost_before;
            let error = match call().await {
                Ok(value) => {
                    answered();
                    return Ok(value);
                }
                Err(error) => error,
            };
            if !error.is_ambiguous() {
                answered();
            }
            let failed = failure::of_error(&error);
            if was_sent(&error) {
                // Whatever the answer says, it may be wrong about the effect; a look costs less than a double.
                if error.is_ambiguous() {
                    self.ambiguous.store(true, Ordering::Relaxed);
                    self.write(step, Phase::Note, None, json!({ "ambiguous": failed })).await?;
                    // What is still on its way at Scaleway gets a moment to arrive.
                    self.sleep(step, self.shared.limits.settle).await?;
                }
                match self.look(step, &mut look_up).await {
                    Ok(Some(found)) => {
                        tracing::info!(operation = %self.id, step, failure = %failure::words(&failed),
                            "found what a failed call had made all the same");
                        self.ambiguous.store(true, Ordering::Relaxed);
                        answered();
                        return Ok(found);
                    }
                    Ok(None) => {}
                    Err(Stop::Failed(unseen)) => {
                        // Sending it again could make a second one. The first cause is what is reported.
                        tracing::warn!(operation = %self.id, step, failure = %failure::words(&unseen.failure),
                            "a lost answer could not be looked up");
                        return Err(Stop::failed(step, failed));
                    }
                    Err(other) => return Err(other),
                }
            }
            if stops(&failed) {
                return Err(Stop::failed(step, failed));
            }
            self.after_failure(step, began, attempt, failed, server_type).await?;
            attempt += 1;
        }
    }

    /// Looks up one thing by its id. That it is not there is an answer.
    pub(crate) async fn look_one<T, F, Fut>(&self, step: &str, mut look_up: F) -> Result<Option<T>, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        self.look(step, || {
            let call = look_up();
            async move {
                match call.await {
                    Ok(value) => Ok(Some(value)),
                    Err(error) if error.is_not_found() => Ok(None),
                    Err(error) => Err(error),
                }
            }
        })
        .await
    }

    /// Looks something up until it works: the host's own duty, so no policy is asked and every failure is tried again, a
    /// bounded number of times.
    pub(crate) async fn look<T, F, Fut>(&self, step: &str, mut look_up: F) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, windlass_scaleway::Error>>,
    {
        let mut attempt = 1;
        loop {
            if self.control.left().is_cancelled() {
                return Err(Stop::Left);
            }
            let error = match look_up().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let most = match error.class() {
                ErrorClass::PermissionDenied | ErrorClass::AuthenticationDenied | ErrorClass::InvalidArguments => {
                    HOPELESS_LOOK_UPS
                }
                _ => LOOK_UPS,
            };
            if attempt >= most {
                return Err(Stop::failed(step, failure::of_error(&error)));
            }
            let longest = 250_u64 << attempt.min(5);
            let jitter = self.shared.randomness.word() % longest.max(1);
            let wait = Duration::from_millis(longest / 2 + jitter / 2);
            tokio::select! {
                biased;
                () = self.control.left().cancelled() => return Err(Stop::Left),
                () = tokio::time::sleep(wait) => {}
            }
            attempt += 1;
        }
    }
}

/// Whether the call may have left this process.
fn was_sent(error: &windlass_scaleway::Error) -> bool {
    error.is_ambiguous() || error.status().is_some()
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
