//! Work that goes on beside the calls, and how it ends.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::protocol::Failure;

/// The work of one group.
#[derive(Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// Cancelled when the process is to end.
    leaving: CancellationToken,
    /// Cancelled when all work is to end where it stands.
    stopped: CancellationToken,
}

impl Tasks {
    /// Cancelled when the process is to end: work ends at its next safe point then.
    pub(crate) fn leaving(&self) -> &CancellationToken {
        &self.leaving
    }

    /// Works in the background for as long as the group lives.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stopped.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Does the work of a call, which goes on when the host gives the call up: what was begun is ended, and is in the
    /// book.
    ///
    /// # Errors
    /// When the group is left meanwhile, or the work panicked.
    pub(crate) async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (stopped, leaving) = (self.stopped.clone(), self.leaving.clone());
        let task = self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => None,
                () = leaving.cancelled() => None,
                done = work => Some(done),
            }
        });
        match task.await {
            Ok(Some(done)) => Ok(done),
            Ok(None) => Err(Failure("the plugin is leaving".to_owned())),
            Err(error) => Err(Failure(format!("the plugin has a defect: {error}"))),
        }
    }

    /// Ends all work where it stands, as the end of the process does.
    pub(crate) async fn stop(&self) {
        self.stopped.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Tells all work to end and waits for it, no longer than `patience`.
    pub(crate) async fn leave(&self, patience: Duration) {
        self.leaving.cancel();
        self.tracker.close();
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            tracing::info!("operations are left in the journal in the middle of a call; the next start takes them up");
        }
    }
}
