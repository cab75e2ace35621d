//! How a caller follows and ends operations on clusters.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::record::ClusterEvent;

/// Follows and ends the operations that it is given to. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct ClusterControl {
    cancel: CancellationToken,
    leave: CancellationToken,
    events: Option<mpsc::UnboundedSender<ClusterEvent>>,
}

impl ClusterControl {
    /// One that reports to nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One whose operations send events. The channel has no bound, since an operation has a bounded number of steps and
    /// nodes and must not wait for whoever draws them.
    #[must_use]
    pub fn with_events() -> (Self, mpsc::UnboundedReceiver<ClusterEvent>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { events: Some(sender), ..Self::default() }, receiver)
    }

    /// Calls the operations off: they fail as `cancelled`, and the provisioning policy says what becomes of the
    /// cluster. What is being recovered or terminated already goes on.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Stops as soon as the calls under way have ended. What is open stays stored for the next start.
    pub fn leave(&self) {
        self.leave.cancel();
    }

    pub(crate) fn cancelled(&self) -> &CancellationToken {
        &self.cancel
    }

    pub(crate) fn left(&self) -> &CancellationToken {
        &self.leave
    }

    pub(crate) fn send(&self, event: ClusterEvent) {
        if let Some(events) = &self.events {
            // Nobody listens any more: that is the listener's choice.
            let _ = events.send(event);
        }
    }
}
