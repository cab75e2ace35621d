//! What all calls share, and what is accepted from the runner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_lifecycle::{
    Control, Error, Lifecycle, OperationId, PendingCleanup, ServerSpecification, Supervisor, Target,
};
use windlass_policy::Host;
use windlass_scaleway::Client;

use super::book::{Book, Entry, Work};
use super::pause::Pause;
use super::start::Lock;
use super::suspend::Suspensions;
use super::update::Listing;
use crate::configuration::Configuration;
use crate::connect::{Family, KeyPair};
use crate::observe::names;
use crate::protocol::{Capability, ConnectorConfig, Failure, ProviderInfo};

/// Cleanups under way at a time. The client's own limits on calls lie below.
pub(crate) const PARALLEL_CLEANUPS: usize = 50;

/// How one operation in flight is told to end.
#[derive(Clone)]
pub(crate) struct Handle {
    /// The lifecycle's own control.
    pub(crate) control: Control,
    /// Lets a creation that was called off pass those that wait for their turn.
    pub(crate) called_off: CancellationToken,
}

/// The group after Init.
pub(crate) struct Fleet {
    pub(crate) configuration: Configuration,
    pub(crate) lifecycle: Lifecycle,
    /// Ends what nobody works on, looks again where a call may have come late, sweeps, and prunes the journal.
    pub(crate) supervisor: Supervisor,
    pub(crate) policies: Arc<Host>,
    pub(crate) client: Client,
    /// As the operator configured it.
    pub(crate) connector: ConnectorConfig,
    /// The key with which instances are reached; absent when the operator configured a password.
    pub(crate) key: Option<KeyPair>,
    pub(crate) family: Family,
    /// In Go's words.
    pub(crate) architecture: &'static str,
    pub(crate) book: Mutex<Book>,
    pub(crate) handles: Mutex<HashMap<OperationId, Handle>>,
    pub(crate) pause: Mutex<Pause>,
    pub(crate) suspensions: Suspensions,
    /// The last listing, for heartbeats. Held while one is taken, so that all who wait share it.
    pub(crate) listing: tokio::sync::Mutex<Option<Listing>>,
    pub(crate) creating: Semaphore,
    pub(crate) cleaning: Semaphore,
    /// Something was left behind that is to be tried again.
    pub(crate) left: Notify,
    /// Cancelled when the process is to end.
    pub(crate) leaving: CancellationToken,
    /// Cancelled when all work is to end where it stands.
    pub(crate) stopped: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Held as long as the group lives.
    pub(crate) _lock: Lock,
    /// Reloads policies as their files change.
    pub(crate) _watch: Option<windlass_policy::Watch>,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Fleet {
    /// How the group introduces itself.
    pub(crate) fn info(&self) -> ProviderInfo {
        let mut capabilities = Vec::new();
        if self.configuration.suspend {
            capabilities.push(Capability::SuspendResume);
        }
        ProviderInfo {
            id: format!("scaleway/{}/{}", self.configuration.zone, self.configuration.written_name),
            max_size: self.configuration.max_size,
            version: crate::version::VERSION.to_owned(),
            build_info: crate::version::build_info(),
            capabilities,
        }
    }

    /// Works in the background for as long as the group lives.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// What each server is to be, with the tag that opens it to the group's key.
    fn specification(&self) -> ServerSpecification {
        let mut specification = self.configuration.server.clone();
        specification.tags.extend(self.key.as_ref().and_then(KeyPair::tag));
        specification
    }

    /// Accepts as many creations as there is room for, each in the journal under its id before this answers. The
    /// machines are made in the background.
    pub(crate) async fn increase(self: &Arc<Self>, count: u32) -> Result<u32, Failure> {
        if let Some((why, rest)) = self.pause.lock().current(Instant::now()) {
            tracing::warn!(
                demanded = count,
                rest_seconds = rest.as_secs(),
                "nothing is created for now, since it would fail again: {why}"
            );
            metrics::counter!(names::INCREASES_PAUSED).increment(1);
            return Ok(0);
        }
        let occupied = u32::try_from(self.book.lock().occupied()).unwrap_or(u32::MAX);
        let accepted = count.min(self.configuration.max_size.saturating_sub(occupied));
        if accepted < count {
            tracing::warn!(
                demanded = count,
                accepted,
                occupied,
                max_size = self.configuration.max_size,
                "the group is full; max_size in plugin_config bounds it"
            );
        }
        let specification = self.specification();
        let begun = join_all((0..accepted).map(|_| self.lifecycle.begin_create(specification.clone()))).await;
        let mut succeeded = 0;
        let mut first_failure = None;
        for pending in begun {
            match pending {
                Ok(pending) => {
                    succeeded += 1;
                    self.book.lock().insert(Entry::demanded(pending.id().clone()));
                    self.spawn_create(pending);
                }
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a creation could not be journalled");
                    first_failure.get_or_insert(Failure::from_error(&error));
                }
            }
        }
        match first_failure {
            // An error would lose the count, and the host would believe that nothing was accepted.
            Some(failure) if succeeded == 0 => Err(failure),
            _ => Ok(succeeded),
        }
    }

    /// Accepts the removal of instances: in the journal before this answers, done in the background. One that nobody
    /// knows is gone. The same instance again is the same removal.
    pub(crate) async fn decrease(self: &Arc<Self>, instances: Vec<String>) -> Vec<String> {
        let mut accepted = Vec::new();
        let mut to_begin = Vec::new();
        for id in instances {
            let work = self.book.lock().get(&id).map(|entry| (entry.work.clone(), entry.operation.clone()));
            match work {
                None => {
                    tracing::info!(instance = id, "asked to remove an instance that is not there: it counts as gone");
                    accepted.push(id);
                }
                Some((Work::Creating, operation)) => {
                    self.call_off(&operation);
                    accepted.push(id);
                }
                Some((Work::Undoing | Work::CleaningUp | Work::Left | Work::Gone, _)) => accepted.push(id),
                Some((Work::Idle | Work::Suspending | Work::Resuming, _)) => to_begin.push(id),
            }
        }
        // All are journalled before any is carried out: the caller waits for the former only.
        let why = "the runner no longer wants it";
        let begun = join_all(to_begin.iter().map(|id| self.journal_cleanup(id))).await;
        for (id, begun) in to_begin.into_iter().zip(begun) {
            match begun {
                Ok(pending) => {
                    if let Some(pending) = pending {
                        self.start_cleanup(&id, pending, why);
                    }
                    accepted.push(id);
                }
                Err(error) => tracing::error!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "the removal could not be accepted; the runner asks again"
                ),
            }
        }
        accepted
    }

    /// Calls a creation off: it is undone, also when it has not begun. False for one that an earlier process began:
    /// the supervisor takes that up, and once it has ended there is a server to remove, or nothing.
    pub(crate) fn call_off(&self, operation: &OperationId) -> bool {
        let Some(handle) = self.handles.lock().get(operation).cloned() else { return false };
        handle.control.cancel();
        handle.called_off.cancel();
        true
    }

    /// Opens a cleanup in the journal and starts it. `why` is for the log.
    pub(crate) async fn begin_cleanup(self: &Arc<Self>, id: &str, why: &str) -> Result<(), Error> {
        if let Some(pending) = self.journal_cleanup(id).await? {
            self.start_cleanup(id, pending, why);
        }
        Ok(())
    }

    /// Opens a cleanup in the journal. Nothing where the instance is unknown or somebody removes it already.
    async fn journal_cleanup(&self, id: &str) -> Result<Option<PendingCleanup>, Error> {
        let Some((operation, server, before)) = self.book.lock().claim_for_cleanup(id) else {
            return Ok(None);
        };
        let begun = match self.lifecycle.begin_cleanup(&Target::Operation(operation)).await {
            // A server of ours whose creation stands in a journal that was lost.
            Err(Error::OperationUnknown { operation }) => match server {
                Some(server) => {
                    let target = Target::Server { zone: self.configuration.zone.clone(), id: server };
                    self.lifecycle.begin_cleanup(&target).await
                }
                None => Err(Error::OperationUnknown { operation }),
            },
            other => other,
        };
        match begun {
            Ok(pending) => Ok(Some(pending)),
            Err(error) => {
                self.book.lock().set_work(id, before);
                match error {
                    Error::CleanupUnderWay { .. } => Ok(None),
                    error => Err(error),
                }
            }
        }
    }

    /// Starts a cleanup that is in the journal.
    fn start_cleanup(self: &Arc<Self>, id: &str, pending: PendingCleanup, why: &str) {
        tracing::info!(instance = id, operation = %pending.id(), "removing: {why}");
        self.spawn_cleanup(id.to_owned(), pending);
    }

    /// The runner shuts down. Instances stay unless the configuration says otherwise.
    pub(crate) async fn shutdown(self: &Arc<Self>) -> Result<(), Failure> {
        if !self.configuration.delete_on_shutdown {
            return Ok(());
        }
        let all: Vec<String> = self.book.lock().iter().map(|(id, _)| id.clone()).collect();
        tracing::info!(instances = all.len(), "removing all instances, as delete_on_shutdown says");
        self.decrease(all).await;
        let ended = async {
            while self.book.lock().iter().any(|(_, entry)| !matches!(entry.work, Work::Gone | Work::Left)) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        // The runner waits for this answer; what takes longer is in the journal, and the next start finishes it.
        if tokio::time::timeout(SHUTDOWN_PATIENCE, ended).await.is_err() {
            tracing::warn!("not everything is removed yet; the next start of the plugin finishes it");
        }
        Ok(())
    }

    /// Ends all background work where it stands, as the end of the process does.
    pub(crate) async fn stop(&self) {
        self.stopped.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends all background work at its next call and waits for it, no longer than `patience`.
    pub(crate) async fn leave(&self, patience: Duration) {
        self.leaving.cancel();
        for handle in self.handles.lock().values() {
            handle.control.leave();
        }
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::info!("operations are left in the journal in the middle of a call; the next start takes them up");
        }
        // On a thread of its own, and not for long: a full disk must not keep the process.
        let policies = Arc::clone(&self.policies);
        let flush = tokio::task::spawn_blocking(move || policies.flush_decisions());
        let _ = tokio::time::timeout(FLUSH_PATIENCE, flush).await;
    }
}

/// How long Shutdown waits for removals where the configuration asks for them.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(25);
/// How long the decision log may take to be written out.
const FLUSH_PATIENCE: Duration = Duration::from_millis(200);
