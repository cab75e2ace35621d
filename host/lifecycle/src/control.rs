//! How a caller follows and ends operations.

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::identifier::OperationId;
use crate::journal::{OperationKind, OperationState, ResourceName};

/// Follows and ends the operations that it is given to. Clones share one state.
///
/// There are two ways to end early: [`Control::cancel`] undoes what is in flight, [`Control::leave`] stops between two
/// calls and leaves the rest, journalled, to the next start.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancel: CancellationToken,
    leave: CancellationToken,
    events: Option<mpsc::UnboundedSender<Event>>,
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

    /// Calls the operations off: what is in flight is undone, what has not begun never begins. A cleanup is not
    /// called off: it goes on.
    pub fn cancel(&self) {
        self.cancel.cancel();
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
        Self { cancel: self.cancel.child_token(), leave: self.leave.child_token(), events: self.events.clone() }
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
    pub what: Happening,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Happening {
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
