//! How a caller follows and ends operations on clusters.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::name::ClusterName;
use crate::record::ClusterEvent;
use crate::shared::Shared;
use crate::store::{Requests, StoreError};

/// The operations under way: each by its cluster and number.
type Running = Arc<Mutex<BTreeMap<(ClusterName, u64), Weak<Shared>>>>;

/// Follows and ends the operations that it is given to. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct ClusterControl {
    cancel: CancellationToken,
    leave: CancellationToken,
    events: Option<mpsc::UnboundedSender<ClusterEvent>>,
    running: Running,
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

    /// Cancels the operations: they fail as `cancelled`, and the provisioning policy says what becomes of the cluster.
    /// What is being recovered or terminated already goes on.
    ///
    /// That is known to this process only. Whoever tells somebody that the work is cancelled uses
    /// [`ClusterControl::cancel_durably`].
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// As [`ClusterControl::cancel`]. When it returns, the store has the request, as another process's would be: who
    /// takes an operation over after a crash cancels it, too.
    ///
    /// # Errors
    /// The first error of the store.
    pub async fn cancel_durably(&self) -> Result<(), StoreError> {
        self.cancel();
        let running: Vec<_> =
            self.running.lock().iter().filter_map(|(at, shared)| Some((at.clone(), shared.upgrade()?))).collect();
        let request = Requests { cancel: true, delete: false };
        let written = running.iter().map(|((name, number), shared)| shared.store.request(name, *number, request));
        join_all(written).await.into_iter().try_for_each(|written| written.map(drop))
    }

    /// From now on, cancelling is written into the store.
    pub(crate) fn enter(&self, name: &ClusterName, number: u64, shared: &Arc<Shared>) {
        self.running.lock().insert((name.clone(), number), Arc::downgrade(shared));
    }

    /// The operation has ended.
    pub(crate) fn exit(&self, name: &ClusterName, number: u64) {
        self.running.lock().remove(&(name.clone(), number));
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
