//! What goes on after a call has answered: creations, cleanups, and the second tries of what was left.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use windlass_lifecycle::{
    CleanedUp, Control, CreatedServer, Decided, Error, Event as Step, EventKind, OperationId, OperationKind,
    OperationState, PendingCleanup, PendingCreate, RequestedBy, ResourceKind, Round,
};

use super::Instances;
use crate::group::entry::{Event, Phase};
use crate::group::fleet::Fleet;
use crate::group::places::Creation;
use crate::observe::names;

/// How often it is looked for operations that nobody works on, where nothing is due before.
pub(super) const RESUME_INTERVAL: Duration = Duration::from_secs(300);

/// Says that the release policy keeps an instance, which so leaves the group.
fn kept(id: &str, operation: &OperationId, why: &str) {
    tracing::warn!(
        instance = id,
        %operation,
        "the release policy keeps its server, which is still billed: {why}. It has left the group; `windlass server \
         delete --force` deletes it"
    );
}

impl Fleet<Instances> {
    /// Registers how to cancel an operation.
    fn register(&self, operation: &OperationId) -> (Control, UnboundedReceiver<Step>) {
        let (control, events) = self.control();
        self.kind.controls.lock().insert(operation.clone(), control.clone());
        (control, events)
    }

    /// A control that ends with the group, and what happens under it.
    fn control(&self) -> (Control, UnboundedReceiver<Step>) {
        let (sender, events) = unbounded_channel();
        (self.tasks.control().child_for(Some(sender)), events)
    }

    /// Creates in the background, when its turn has come.
    pub(crate) fn spawn_create(self: &Arc<Self>, pending: PendingCreate, creation: Creation) {
        let fleet = Arc::clone(self);
        let operation = pending.id().clone();
        let (control, mut events) = self.register(&operation);
        self.tasks.spawn(async move {
            let _turn = tokio::select! {
                biased;
                () = control.left().cancelled() => return,
                () = control.cancelled().cancelled() => None,
                turn = fleet.kind.creating.acquire() => turn.ok(),
            };
            let run = pending.run(&control);
            tokio::pin!(run);
            let ended = loop {
                tokio::select! {
                    biased;
                    Some(event) = events.recv() => fleet.happened(operation.as_str(), &event.what),
                    ended = &mut run => break ended,
                }
            };
            fleet.kind.controls.lock().remove(&operation);
            fleet.creation_ended(&operation, &creation, ended);
        });
    }

    /// Takes a step of a creation into the book.
    fn happened(&self, id: &str, what: &EventKind) {
        match what {
            EventKind::Undoing { .. } => drop(self.apply(id, &Event::UndoBegan)),
            EventKind::StepDone { resource: Some(resource), .. } if resource.kind == ResourceKind::Server => {
                self.book.lock().has_server(id, &resource.id);
            }
            _ => {}
        }
    }

    fn creation_ended(
        self: &Arc<Self>,
        operation: &OperationId,
        creation: &Creation,
        ended: Result<CreatedServer, Error>,
    ) {
        let id = operation.as_str();
        match ended {
            Ok(created) => {
                tracing::info!(instance = id, server = created.server.id, "created");
                metrics::counter!(names::CREATIONS, "outcome" => "done").increment(1);
                let server_type = created.server.commercial_type.as_str();
                self.creation_succeeded(creation, server_type);
                {
                    let mut book = self.book.lock();
                    book.has_server(id, &created.server.id);
                    book.has_type(id, server_type);
                }
                self.created(id);
            }
            Err(Error::Failed(failure)) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                tracing::warn!(instance = id, "{failure}");
                self.creation_failed(creation, failure.step.clone(), failure.cause.clone());
                if failure.state == OperationState::Left {
                    self.left_behind(id, operation.clone());
                } else {
                    self.apply(id, &Event::Ended);
                }
            }
            Err(Error::LeftOpen { .. }) => {}
            Err(error) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                self.broke_off(id, &error, "the creation");
            }
        }
    }

    /// Work stopped, mostly since the journal cannot be written. How it ends is not known, and what it made may be
    /// there: its member stays as it is until the journal says the end, which the supervisor brings about.
    fn broke_off(&self, id: &str, error: &Error, what: &str) {
        let error = error as &dyn std::error::Error;
        tracing::error!(instance = id, error, "{what} was interrupted; the supervisor continues it");
        self.supervisor.wake();
    }

    /// The server runs. Gives who asked it to go meanwhile: then it is to be removed.
    pub(super) fn created_unwanted(&self, id: &str) -> Option<RequestedBy> {
        self.apply(id, &Event::Created).filter(Phase::is_unwanted)?;
        self.book.lock().get(id).and_then(|entry| entry.unwanted_by.clone())
    }

    /// The server runs. Where it was asked to go meanwhile, it goes.
    fn created(self: &Arc<Self>, id: &str) {
        let Some(requested_by) = self.created_unwanted(id) else { return };
        let (fleet, id) = (Arc::clone(self), id.to_owned());
        self.tasks.spawn(async move {
            if let Err(error) = fleet.begin_removal(&id, &requested_by).await {
                tracing::error!(instance = id, error = &error as &dyn std::error::Error, "it could not be removed");
            }
        });
    }

    /// Cleans up in the background.
    pub(crate) fn spawn_cleanup(self: &Arc<Self>, id: String, pending: PendingCleanup) {
        let fleet = Arc::clone(self);
        let operation = pending.id().clone();
        let (control, _events) = self.register(&operation);
        self.tasks.spawn(async move {
            let _turn = tokio::select! {
                biased;
                () = control.left().cancelled() => return,
                turn = fleet.kind.cleaning.acquire() => turn.ok(),
            };
            let ended = pending.run(&control).await;
            fleet.kind.controls.lock().remove(&operation);
            fleet.cleanup_ended(&id, operation, ended);
        });
    }

    fn cleanup_ended(&self, id: &str, operation: OperationId, ended: Result<CleanedUp, Error>) {
        match ended {
            Ok(cleaned) if cleaned.report.is_clean() => {
                match cleaned.decided.filter(Decided::is_kept) {
                    Some(decided) => kept(id, &operation, &decided.words()),
                    None => tracing::info!(instance = id, operation = %operation, "{}", cleaned.report.words()),
                }
                self.removed(id);
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
                metrics::counter!(names::CLEANUPS, "outcome" => "failed").increment(1);
                self.broke_off(id, &error, "the cleanup");
            }
        }
    }

    /// Nothing of an instance is left, and nothing of it need be remembered.
    fn removed(&self, id: &str) {
        self.kind.suspensions.forget(id);
        self.known.forget(id);
        self.apply(id, &Event::Ended);
    }

    /// Notes that something is left, and wakes the supervisor, which tries again when that is due.
    fn left_behind(&self, id: &str, operation: OperationId) {
        self.apply(id, &Event::LeftBehind { by: Some(operation) });
        self.supervisor.wake();
    }

    /// Takes up every operation in the journal that nobody works on, and notes how each ended.
    pub(crate) async fn take_up(self: &Arc<Self>) {
        let (control, events) = self.control();
        let round = self.follow(events, self.supervisor.take_up(&control)).await;
        self.round_ended(&round);
    }

    /// Lets the supervisor work for as long as the group lives.
    pub(super) async fn supervise(self: &Arc<Self>) {
        let (control, events) = self.control();
        let run = self.supervisor.run(&control, |round| self.round_ended(round));
        self.follow(events, run).await;
    }

    /// Takes what happens in work of the supervisor into the book.
    async fn follow<T>(self: &Arc<Self>, mut events: UnboundedReceiver<Step>, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let ended = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => self.taken_up(&event),
                ended = &mut work => break ended,
            }
        };
        while let Ok(event) = events.try_recv() {
            self.taken_up(&event);
        }
        ended
    }

    /// What a round of the supervisor ended.
    fn round_ended(self: &Arc<Self>, round: &Round) {
        for ended in round.resumed.iter().flat_map(|resumed| &resumed.operations) {
            self.resumed(ended.kind, &ended.operation, ended.state);
        }
    }

    /// A step of an operation that was taken up.
    fn taken_up(self: &Arc<Self>, event: &Step) {
        if event.kind == OperationKind::CreateServer {
            self.happened(event.operation.as_str(), &event.what);
        }
        if let EventKind::Closed { state } = event.what {
            self.resumed(event.kind, &event.operation, state);
        }
    }

    /// How an operation ended that another task, or another process, worked on.
    fn resumed(self: &Arc<Self>, kind: OperationKind, operation: &OperationId, state: OperationState) {
        let id = match kind {
            OperationKind::CreateServer => operation.to_string(),
            _ => match self.book.lock().removed_by(operation) {
                Some(id) => id.to_owned(),
                None => return,
            },
        };
        match (kind, state) {
            (_, OperationState::Open) => {}
            (_, OperationState::Left) => self.left_behind(&id, operation.clone()),
            (OperationKind::CreateServer, OperationState::Done) => self.created(&id),
            (OperationKind::CleanupServer, OperationState::Kept) => {
                kept(&id, operation, "the journal has the reason");
                self.removed(&id);
            }
            _ => self.removed(&id),
        }
    }

    /// Takes in how those operations ended that are in flight by the book and that nobody here works on: what another
    /// process took up ends without notice, and nothing may be reported as being removed for ever.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        let here: HashSet<OperationId> = self.lifecycle.in_flight().into_iter().collect();
        let elsewhere: Vec<(OperationKind, OperationId)> = self
            .book
            .lock()
            .iter()
            .filter_map(|(_, entry)| match entry.phase() {
                Phase::Creating { .. } | Phase::CalledOff | Phase::Undoing => {
                    Some((OperationKind::CreateServer, entry.operation.clone()))
                }
                Phase::Removing { by: Some(by) } => Some((OperationKind::CleanupServer, by.clone())),
                Phase::Left { by: Some(by) } if *by == entry.operation => {
                    Some((OperationKind::CreateServer, by.clone()))
                }
                Phase::Left { by: Some(by) } => Some((OperationKind::CleanupServer, by.clone())),
                _ => None,
            })
            .filter(|(_, operation)| !here.contains(operation))
            .collect();
        for (kind, operation) in elsewhere {
            match self.lifecycle.journal().operation(&operation) {
                // What is left is tried again in any case.
                Ok(row) if row.state.has_work_left() => {}
                Ok(row) => self.resumed(kind, &operation, row.state),
                Err(error) => {
                    tracing::warn!(
                        %operation,
                        error = &error as &dyn std::error::Error,
                        "its operation cannot be read from the journal"
                    );
                }
            }
        }
    }
}
