//! How a caller follows and ends operations.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::identifier::OperationId;
use crate::journal::{OperationKind, OperationState, ResourceName};

/// Why a cancellation could not be written.
pub type NotNoted = Box<dyn std::error::Error + Send + Sync>;

/// An operation under way that can be cancelled durably.
#[async_trait]
pub trait Cancellable: Send + Sync {
    /// Writes where another process reads it that the operation is cancelled, and by whom.
    ///
    /// # Errors
    /// The log's.
    async fn note_cancelled(&self, by: &str) -> Result<(), NotNoted>;
}

/// Whether work may begin that has waited for its turn: whoever wants it may have changed meanwhile.
#[async_trait]
pub trait MayBegin: std::fmt::Debug + Send + Sync {
    /// Looks again. `false`: nothing begins.
    async fn may_begin(&self) -> bool;
}

/// The operations under way that a control can cancel. An operation that has ended is dropped.
type Running = Arc<Mutex<Vec<Weak<dyn Cancellable>>>>;

/// Follows and ends the operations that it is given to, whose events are `E`. Clones share one state.
///
/// There are two ways to end early: [`Control::cancel_durably`] undoes what is in flight, [`Control::leave`] stops
/// between two calls and leaves the rest, journalled, to the next start.
#[derive(Clone, Debug)]
pub struct Control<E = Event> {
    cancel: CancellationToken,
    leave: CancellationToken,
    events: Option<mpsc::UnboundedSender<E>>,
    /// Asked by work that has waited for its turn.
    asked: Option<Arc<dyn MayBegin>>,
    running: Running,
    /// Those of the controls that this one is a child of.
    parents: Vec<Running>,
}

impl<E> Default for Control<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Control<E> {
    /// One that reports to nobody.
    #[must_use]
    pub fn new() -> Self {
        Self {
            cancel: CancellationToken::new(),
            leave: CancellationToken::new(),
            events: None,
            asked: None,
            running: Running::default(),
            parents: Vec::new(),
        }
    }

    /// One whose operations send events. The channel has no bound, since an operation has a bounded number of steps and
    /// must not wait for whoever draws them.
    #[must_use]
    pub fn with_events() -> (Self, mpsc::UnboundedReceiver<E>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { events: Some(sender), ..Self::new() }, receiver)
    }

    /// One whose work asks this before it begins, where it had to wait.
    #[must_use]
    pub fn asking(self, asked: Arc<dyn MayBegin>) -> Self {
        Self { asked: Some(asked), ..self }
    }

    /// Whether work that has waited for its turn may begin.
    pub async fn may_begin(&self) -> bool {
        match &self.asked {
            Some(asked) => asked.may_begin().await,
            None => true,
        }
    }

    /// Cancels the operations: what is in flight is undone, what has not begun never begins. A cleanup, a recovery and
    /// a termination go on.
    ///
    /// That is known to this process only. Whoever tells somebody that the work is cancelled uses
    /// [`Control::cancel_durably`].
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// As [`Control::cancel`]. When it returns, the log of each operation under way says so: whoever takes one of them
    /// over after a crash undoes it, whatever a call in flight still does.
    ///
    /// # Errors
    /// The first error of a log that could not be written. As long as this process lives, the operations are cancelled
    /// all the same.
    pub async fn cancel_durably(&self, by: &str) -> Result<(), NotNoted> {
        self.cancel();
        let running: Vec<_> = self.running.lock().iter().filter_map(Weak::upgrade).collect();
        join_all(running.iter().map(|operation| operation.note_cancelled(by))).await.into_iter().collect()
    }

    /// Stops at once, or, where a call that changes something is under way, as soon as that has ended. What is open
    /// stays in the log for the next start.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    /// What [`Control::cancel`] cancels: for whoever passes the end on.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancel
    }

    /// What [`Control::leave`] cancels: for whoever passes the end on.
    #[must_use]
    pub fn left(&self) -> &CancellationToken {
        &self.leave
    }

    /// A control that stops with this one, can be stopped before it, and reports to the same listener.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { events: self.events.clone(), ..self.child_for(None) }
    }

    /// The same for operations of another kind, which report to `events`.
    #[must_use]
    pub fn child_for<F>(&self, events: Option<mpsc::UnboundedSender<F>>) -> Control<F> {
        Control {
            cancel: self.cancel.child_token(),
            leave: self.leave.child_token(),
            events,
            asked: self.asked.clone(),
            running: Running::default(),
            parents: self.parents.iter().chain([&self.running]).cloned().collect(),
        }
    }

    /// From now on, as long as somebody holds the operation, cancelling this control or a parent of it is written.
    pub fn enter<C: Cancellable + 'static>(&self, operation: &Arc<C>) {
        let operation: Weak<dyn Cancellable> = Arc::<C>::downgrade(operation);
        for running in self.parents.iter().chain([&self.running]) {
            let mut running = running.lock();
            running.retain(|operation| operation.strong_count() > 0);
            running.push(operation.clone());
        }
    }

    /// Tells whoever listens.
    pub fn send(&self, event: E) {
        if let Some(events) = &self.events {
            // Nobody listens any more: that is the listener's choice.
            let _ = events.send(event);
        }
    }
}

/// Something that happened in an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    pub operation: OperationId,
    pub kind: OperationKind,
    pub group: String,
    /// What happened.
    pub what: EventKind,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EventKind {
    /// It is in the journal and begins.
    Opened,
    /// A step begins.
    StepBegan { step: String },
    StepDone {
        step: String,
        /// What it made or changed.
        resource: Option<ResourceName>,
    },
    /// An attempt failed, and the retry policy waits.
    Waiting {
        step: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        milliseconds: u64,
        failure: String,
        /// What the policy said.
        reason: Option<String>,
    },
    /// It failed, or was called off, and is undone; or a cleanup begins.
    Undoing {
        /// Why; absent where the server is simply no longer wanted.
        cause: Option<String>,
        /// What is there.
        resources: Vec<ResourceName>,
        /// Who planned the order, and what it said.
        decided_by: String,
        /// What the policy said.
        reason: Option<String>,
    },
    /// A creation ended well, and what a call made twice whose answer was lost is removed before success is reported.
    RemovingDoubles {
        /// What there is too much.
        resources: Vec<ResourceName>,
        /// Who planned the order.
        decided_by: String,
    },
    /// It ended.
    Closed { state: OperationState },
    /// It stays open in the journal, for the next start.
    LeftOpen,
}
