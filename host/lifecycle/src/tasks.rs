//! Work that goes on beside the calls of a host, and how it ends.

use std::time::Duration;

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::control::Control;

/// The background work of one host.
#[derive(Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    control: Control,
    /// Cancelled when all work is to end where it stands.
    stopped: CancellationToken,
}

/// Why work that was carried on has no result.
#[derive(Debug, thiserror::Error)]
pub enum Uncarried {
    /// The host ends.
    #[error("the process is shutting down")]
    Leaving,
    /// The work panicked.
    #[error("{0}")]
    Panicked(JoinError),
}

impl Tasks {
    /// What tells all work to end at its next safe point: operations get a child of it.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Cancelled when all work is to end where it stands. Who cancels it does not wait for that; see [`Tasks::stop`].
    #[must_use]
    pub fn stopped(&self) -> &CancellationToken {
        &self.stopped
    }

    /// Works in the background for as long as the host lives.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        // A task would have room for the work twice: where it is given, and where it is done.
        let (stopped, work) = (self.stopped.clone(), Box::pin(work));
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Does the work of a call, which goes on when the caller gives the call up: what was begun is ended.
    ///
    /// # Errors
    /// When the host is left meanwhile, or the work panicked.
    pub async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Uncarried> {
        let (stopped, left, work) = (self.stopped.clone(), self.control.left().clone(), Box::pin(work));
        let task = self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => None,
                () = left.cancelled() => None,
                done = work => Some(done),
            }
        });
        task.await.map_err(Uncarried::Panicked)?.ok_or(Uncarried::Leaving)
    }

    /// Ends all work where it stands, as the end of the process does.
    pub async fn stop(&self) {
        self.stopped.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Tells all work to end and waits for it, no longer than `patience`. What is still under way then is left in the
    /// journal in the middle of a call; the next start takes it up.
    pub async fn leave(&self, patience: Duration) {
        self.control.leave();
        self.tracker.close();
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            tracing::warn!("work was still in progress at exit; the journal has its state");
        }
    }
}
