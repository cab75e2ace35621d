//! What goes on after a call has answered: creations, cleanups, and the second tries of what was left.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{
    CleanedUp, Control, CreatedServer, Error, Event, Happening, OperationFailure, OperationId, OperationKind,
    OperationState, Part, PendingCleanup, PendingCreate, ResourceKind, Round, SupervisorOptions, SweepRequest,
};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Retry, retry};

use super::book::Work;
use super::fleet::{Fleet, Handle};
use super::pause::is_hopeless;
use crate::configuration::Configuration;
use crate::observe::names;

/// The shortest and the longest wait before what was left is tried again, whatever a policy says.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// What the group's supervisor does: the group is the only one that knows its resources, so what nothing explains is
/// removed. What was left is tried again when the retry policy says, and at its longest wait in any case.
pub(super) fn supervision(configuration: &Configuration) -> SupervisorOptions {
    let mut options = SupervisorOptions::default();
    options.resume_interval = TRY_AGAIN.1;
    options.sweep = Some(SweepRequest::new(vec![configuration.zone.clone()]));
    options
}

impl Fleet {
    /// Registers how an operation is told to end.
    fn register(&self, operation: &OperationId) -> (Handle, tokio::sync::mpsc::UnboundedReceiver<Event>) {
        let (control, events) = Control::with_events();
        let handle = Handle { control, called_off: CancellationToken::new() };
        self.handles.lock().insert(operation.clone(), handle.clone());
        if self.leaving.is_cancelled() {
            handle.control.leave();
        }
        (handle, events)
    }

    /// Creates in the background, when its turn has come.
    pub(crate) fn spawn_create(self: &Arc<Self>, pending: PendingCreate) {
        let fleet = Arc::clone(self);
        let operation = pending.id().clone();
        let (handle, mut events) = self.register(&operation);
        self.spawn(async move {
            let _turn = tokio::select! {
                biased;
                () = fleet.leaving.cancelled() => return,
                () = handle.called_off.cancelled() => None,
                turn = fleet.creating.acquire() => turn.ok(),
            };
            let run = pending.run(&handle.control);
            tokio::pin!(run);
            let ended = loop {
                tokio::select! {
                    biased;
                    Some(event) = events.recv() => fleet.happened(operation.as_str(), &event.what),
                    ended = &mut run => break ended,
                }
            };
            fleet.handles.lock().remove(&operation);
            fleet.creation_ended(&operation, ended);
        });
    }

    /// Takes a step of a creation into the book.
    fn happened(&self, id: &str, what: &Happening) {
        let mut book = self.book.lock();
        match what {
            Happening::Undoing { .. } => book.set_work(id, Work::Undoing),
            Happening::StepDone { resource: Some(resource), .. } if resource.kind == ResourceKind::Server => {
                if let Some(entry) = book.get_mut(id) {
                    entry.server = Some(resource.id.clone());
                }
            }
            _ => {}
        }
    }

    fn creation_ended(self: &Arc<Self>, operation: &OperationId, ended: Result<CreatedServer, Error>) {
        let id = operation.as_str();
        match ended {
            Ok(created) => {
                tracing::info!(instance = id, server = created.server.id, "created");
                metrics::counter!(names::CREATIONS, "outcome" => "done").increment(1);
                self.pause.lock().succeeded();
                self.created(id, &created.server.id);
            }
            Err(Error::Failed(failure)) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                tracing::warn!(instance = id, "{failure}");
                self.creation_failed(operation, &failure);
            }
            Err(Error::LeftOpen { .. }) => {}
            Err(error) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                tracing::error!(instance = id, error = &error as &dyn std::error::Error, "the creation broke off");
                self.left_behind(id, operation.clone());
            }
        }
    }

    /// The server runs.
    fn created(&self, id: &str, server: &str) {
        let mut book = self.book.lock();
        if let Some(entry) = book.get_mut(id) {
            entry.server = Some(server.to_owned());
            entry.has_run = true;
        }
        book.set_work(id, Work::Idle);
    }

    fn creation_failed(self: &Arc<Self>, operation: &OperationId, failure: &OperationFailure) {
        if is_hopeless(failure.cause.class) {
            let fleet = Arc::clone(self);
            let (step, cause) = (failure.step.clone(), failure.cause.clone());
            self.spawn(async move { fleet.pause_after(step, cause).await });
        }
        if failure.state == OperationState::Left {
            self.left_behind(operation.as_str(), operation.clone());
        } else {
            self.book.lock().set_work(operation.as_str(), Work::Gone);
        }
    }

    /// Asks the retry policy how long nothing is created, as the operation `increase-group`.
    async fn pause_after(&self, step: String, cause: Failure) {
        let now = Instant::now();
        let (attempt, elapsed) = self.pause.lock().failed(now);
        let question = retry::Question {
            now: self.lifecycle.now(),
            random: self.lifecycle.random_word(),
            operation: "increase-group".to_owned(),
            step,
            undoing: false,
            attempt,
            elapsed: milliseconds(elapsed),
            time_left: None,
            failure: cause.clone(),
            zone: self.configuration.zone.to_string(),
            group: Some(self.configuration.group.to_string()),
            server_type: self.configuration.server.types.first().cloned(),
        };
        let decision = self.policies.pin().decide::<Retry>(question, |_, _| Ok(())).await;
        let wait = match decision.answer.verdict {
            retry::Verdict::Wait(wait) => Some(Duration::from_millis(wait)),
            retry::Verdict::GiveUp | retry::Verdict::Defer => None,
        };
        self.pause.lock().begin(now, wait, &cause, decision.reason.as_deref());
    }

    /// Cleans up in the background.
    pub(crate) fn spawn_cleanup(self: &Arc<Self>, id: String, pending: PendingCleanup) {
        let fleet = Arc::clone(self);
        let operation = pending.id().clone();
        let (handle, _events) = self.register(&operation);
        self.spawn(async move {
            let _turn = tokio::select! {
                biased;
                () = fleet.leaving.cancelled() => return,
                turn = fleet.cleaning.acquire() => turn.ok(),
            };
            let ended = pending.run(&handle.control).await;
            fleet.handles.lock().remove(&operation);
            fleet.cleanup_ended(&id, operation, ended);
        });
    }

    fn cleanup_ended(&self, id: &str, operation: OperationId, ended: Result<CleanedUp, Error>) {
        match ended {
            Ok(cleaned) if cleaned.report.is_clean() => {
                tracing::info!(instance = id, operation = %operation, "{}", cleaned.report.words());
                self.suspensions.forget(id);
                self.book.lock().set_work(id, Work::Gone);
                // Last: who reads the counter finds the instance gone.
                metrics::counter!(names::CLEANUPS, "outcome" => "done").increment(1);
            }
            Ok(cleaned) => {
                tracing::error!(instance = id, operation = %operation, "{}; it is tried again", cleaned.report.words());
                metrics::counter!(names::CLEANUPS, "outcome" => "left").increment(1);
                self.left_behind(id, operation);
            }
            Err(Error::LeftOpen { .. }) => {}
            Err(error) => {
                tracing::error!(instance = id, error = &error as &dyn std::error::Error, "the cleanup broke off");
                metrics::counter!(names::CLEANUPS, "outcome" => "failed").increment(1);
                self.left_behind(id, operation);
            }
        }
    }

    /// Notes that something is left, and wakes those who try again.
    fn left_behind(&self, id: &str, operation: OperationId) {
        let mut book = self.book.lock();
        if let Some(entry) = book.get_mut(id) {
            entry.left_by = Some(operation);
        }
        book.set_work(id, Work::Left);
        drop(book);
        self.left.notify_one();
    }

    /// Tries again what was left, under the retry policy, for as long as the group lives.
    pub(crate) fn spawn_second_tries(self: &Arc<Self>) {
        let fleet = Arc::clone(self);
        self.spawn(async move {
            let mut attempt = 1;
            let mut since = Instant::now();
            loop {
                let left = fleet.book.lock().iter().filter(|(_, entry)| entry.work == Work::Left).count();
                metrics::gauge!(names::LEFT).set(left as f64);
                if left == 0 {
                    (attempt, since) = (1, Instant::now());
                    tokio::select! {
                        biased;
                        () = fleet.leaving.cancelled() => return,
                        () = fleet.left.notified() => {}
                    }
                }
                let wait = fleet.wait_before_second_try(attempt, since).await;
                tokio::select! {
                    biased;
                    () = fleet.leaving.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
                fleet.supervisor.wake();
                attempt += 1;
            }
        });
    }

    async fn wait_before_second_try(&self, attempt: u32, since: Instant) -> Duration {
        let question = retry::Question {
            now: self.lifecycle.now(),
            random: self.lifecycle.random_word(),
            operation: "cleanup-server".to_owned(),
            step: "finish-cleanup".to_owned(),
            undoing: true,
            attempt,
            elapsed: milliseconds(since.elapsed()),
            time_left: None,
            failure: Failure {
                class: FailureClass::Other,
                message: "resources are left that should be gone".to_owned(),
                method: None,
                path: None,
                status: None,
                error_type: None,
                resource: None,
                ambiguous: false,
            },
            zone: self.configuration.zone.to_string(),
            group: Some(self.configuration.group.to_string()),
            server_type: None,
        };
        let decision = self.policies.pin().decide::<Retry>(question, |_, _| Ok(())).await;
        match decision.answer.verdict {
            retry::Verdict::Wait(wait) => Duration::from_millis(wait).clamp(TRY_AGAIN.0, TRY_AGAIN.1),
            // What is ours and costs money is never given up, only tried seldom.
            retry::Verdict::GiveUp | retry::Verdict::Defer => TRY_AGAIN.1,
        }
    }

    /// Takes up every operation in the journal that nobody works on, and notes how each ended.
    pub(crate) async fn take_up(&self) {
        let (control, events) = Control::with_events();
        let round = self.follow(&control, events, self.supervisor.round(&[Part::Resume], &control)).await;
        self.round_ended(&round);
    }

    /// Lets the supervisor work for as long as the group lives.
    pub(crate) fn spawn_supervision(self: &Arc<Self>) {
        let fleet = Arc::clone(self);
        self.spawn(async move {
            let (control, events) = Control::with_events();
            let run = fleet.supervisor.run(&control, |round| fleet.round_ended(round));
            fleet.follow(&control, events, run).await;
        });
    }

    /// Takes what happens in work of the supervisor into the book, and ends it when the group is left.
    async fn follow<T>(
        &self,
        control: &Control,
        mut events: UnboundedReceiver<Event>,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        let ended = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.taken_up(&event),
                () = self.leaving.cancelled(), if !control.left().is_cancelled() => control.leave(),
                ended = &mut work => break ended,
            }
        };
        while let Ok(event) = events.try_recv() {
            self.taken_up(&event);
        }
        ended
    }

    /// What a round of the supervisor ended.
    fn round_ended(&self, round: &Round) {
        for ended in round.resumed.iter().flat_map(|resumed| &resumed.operations) {
            self.resumed(ended.kind, &ended.operation, ended.state);
        }
    }

    /// A step of an operation that was taken up.
    fn taken_up(&self, event: &Event) {
        if event.kind == OperationKind::CreateServer {
            self.happened(event.operation.as_str(), &event.what);
        }
        if let Happening::Closed { state } = event.what {
            self.resumed(event.kind, &event.operation, state);
        }
    }

    /// How an operation that was taken up ended.
    fn resumed(&self, kind: OperationKind, operation: &OperationId, state: OperationState) {
        let mut book = self.book.lock();
        let id = match kind {
            OperationKind::CreateServer => operation.to_string(),
            _ => {
                let found = book.iter().find(|(_, entry)| entry.left_by.as_ref() == Some(operation));
                let Some((id, _)) = found else { return };
                id.clone()
            }
        };
        match (kind, state) {
            (_, OperationState::Open) => {}
            (_, OperationState::Left) => {
                if let Some(entry) = book.get_mut(&id) {
                    entry.left_by = Some(operation.clone());
                }
                book.set_work(&id, Work::Left);
                drop(book);
                self.left.notify_one();
            }
            (OperationKind::CreateServer, OperationState::Done) => {
                if let Some(entry) = book.get_mut(&id) {
                    entry.has_run = true;
                }
                // Only a creation that was still open, or broke off when the journal could not be written: a later
                // removal has the last word. One that was called off too late is there, and is judged anew.
                let was_open = book.get(&id).is_some_and(|entry| match entry.work {
                    Work::Creating | Work::Undoing => true,
                    Work::Left => entry.left_by.as_ref() == Some(operation),
                    _ => false,
                });
                if was_open {
                    book.set_work(&id, Work::Idle);
                }
            }
            _ => book.set_work(&id, Work::Gone),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
