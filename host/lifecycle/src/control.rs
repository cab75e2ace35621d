//! How a caller follows and ends operations.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::join_all;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::identifier::OperationId;
use crate::journal::{OperationKind, OperationState, ResourceName};
use crate::shared::Shared;

/// The operations under way that a control can cancel.
type Running = Arc<Mutex<BTreeMap<OperationId, Weak<Shared>>>>;

/// Follows and ends the operations that it is given to. Clones share one state.
///
/// There are two ways to end early: [`Control::cancel_durably`] undoes what is in flight, [`Control::leave`] stops between two
/// calls and leaves the rest, journalled, to the next start.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancel: CancellationToken,
    leave: CancellationToken,
    events: Option<mpsc::UnboundedSender<Event>>,
    running: Running,
    /// Those of the controls that this one is a child of.
    above: Vec<Running>,
}

impl Control {
    /// One that reports to nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose operations send events. The channel has no bound, since an operation has a bounded number of steps and
    /// must not wait for whoever draws them.
    #[must_use]
    pub fn with_events() -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { events: Some(sender), ..Self::default() }, receiver)
    }

    /// Cancels the operations: what is in flight is undone, what has not begun never begins. A cleanup goes on.
    ///
    /// That is known to this process only. Whoever tells somebody that the work is cancelled uses
    /// [`Control::cancel_durably`].
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// As [`Control::cancel`]. When it returns, the journal of each operation under way says so, and `by` whom: whoever
    /// takes one of them over after a crash undoes it, whatever a call in flight still does.
    ///
    /// # Errors
    /// The first error of a journal that could not be written. As long as this process lives, the operations are
    /// cancelled all the same.
    pub async fn cancel_durably(&self, by: &str) -> Result<(), Error> {
        self.cancel();
        let running: Vec<_> =
            self.running.lock().iter().filter_map(|(id, shared)| Some((id.clone(), shared.upgrade()?))).collect();
        let noted = join_all(running.iter().map(|(id, shared)| shared.note_cancelled(id, by))).await;
        noted.into_iter().try_for_each(|noted| noted.map(drop))
    }

    /// Stops at once, or, where a call that changes something is under way, as soon as that has ended. What is open
    /// stays in the journal for the next start.
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

    /// One that is told to end with this one, can be told to before, and reports to the same listener.
    pub(crate) fn child(&self) -> Self {
        Self {
            cancel: self.cancel.child_token(),
            leave: self.leave.child_token(),
            events: self.events.clone(),
            running: Running::default(),
            above: self.above.iter().chain([&self.running]).cloned().collect(),
        }
    }

    /// From now on, cancelling this control or one above it is written into the operation's journal.
    pub(crate) fn enter(&self, id: &OperationId, shared: &Arc<Shared>) {
        for running in self.above.iter().chain([&self.running]) {
            running.lock().insert(id.clone(), Arc::downgrade(shared));
        }
    }

    /// The operation has ended.
    pub(crate) fn exit(&self, id: &OperationId) {
        for running in self.above.iter().chain([&self.running]) {
            running.lock().remove(id);
        }
    }

    pub(crate) fn send(&self, event: Event) {
        if let Some(events) = &self.events {
            // Nobody listens any more: that is the listener's choice.
            let _ = events.send(event);
        }
    }
}

/// Something that happened in an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The operation.
    pub operation: OperationId,
    /// Its kind.
    pub kind: OperationKind,
    /// Its group.
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
    StepBegan {
        /// The step.
        step: String,
    },
    /// A step is done.
    StepDone {
        /// The step.
        step: String,
        /// What it made or changed.
        resource: Option<ResourceName>,
    },
    /// An attempt failed, and the retry policy waits.
    Waiting {
        /// The step.
        step: String,
        /// The attempt that failed, from 1.
        attempt: u32,
        /// How long.
        milliseconds: u64,
        /// What failed.
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
    /// A creation ended well, and what a call made twice whose answer was lost is removed before it is told so.
    RemovingDoubles {
        /// What there is too much.
        resources: Vec<ResourceName>,
        /// Who planned the order.
        decided_by: String,
    },
    /// It ended.
    Closed {
        /// How.
        state: OperationState,
    },
    /// It stays open in the journal, for the next start.
    LeftOpen,
}
