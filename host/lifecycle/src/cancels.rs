//! Requests to cancel an operation, which any process can write into the journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::Error;
use crate::control::{Cancellable, Control, NotNoted};
use crate::identifier::OperationId;
use crate::journal::note::Note;
use crate::journal::{Entry, OperationState, Phase};
use crate::lifecycle::Lifecycle;
use crate::shared::Shared;

/// How often a process looks whether another one has cancelled its operations.
const INTERVAL: Duration = Duration::from_secs(1);
/// The longest name of who cancels, in bytes.
const MAX_NAME_LEN: usize = 256;

/// What became of a request to cancel an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// The journal says so. Whoever works on the operation undoes it, and so does whoever takes it over.
    Noted,
    /// The operation has ended, or is being undone already; nothing changes.
    Ended(OperationState),
}

impl Lifecycle {
    /// Cancels an operation of the journal, whichever process works on it: that process notices within a second or
    /// two. Where none does, [`Lifecycle::resume`] undoes it.
    ///
    /// # Errors
    /// [`Error::NotCancellable`] for an operation that removes something; [`Error::OperationUnknown`]; the journal's.
    pub async fn cancel(&self, id: &OperationId, by: &str) -> Result<Cancellation, Error> {
        self.shared.check_history()?;
        let operation = self.shared.journal.operation(id)?;
        if operation.state.has_ended() {
            return Ok(Cancellation::Ended(operation.state));
        }
        if !operation.kind.acquires() {
            return Err(Error::NotCancellable { operation: id.clone(), kind: operation.kind });
        }
        let noted = self.shared.note_cancelled(id, by).await?;
        if noted == Cancellation::Noted {
            self.shared.cancels.cancel(id);
        }
        Ok(noted)
    }
}

impl Shared {
    /// Writes into the journal that an operation is cancelled, unless it has ended.
    pub(crate) async fn note_cancelled(&self, id: &OperationId, by: &str) -> Result<Cancellation, Error> {
        let by = by[..by.floor_char_boundary(MAX_NAME_LEN)].to_owned();
        let (step, data) = Note::Cancelled { by }.parts();
        let at = self.clock.now();
        let entry = Entry { sequence: 0, step, phase: Phase::Note, resource: None, data, at };
        match self.journal.append_while_open(id, entry).await? {
            true => Ok(Cancellation::Noted),
            false => self.journal.operation(id).map(|operation| Cancellation::Ended(operation.state)),
        }
    }
}

/// An operation of the journal, as its control cancels it.
pub(crate) struct Journalled {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: OperationId,
}

#[async_trait]
impl Cancellable for Journalled {
    async fn note_cancelled(&self, by: &str) -> Result<(), NotNoted> {
        Ok(self.shared.note_cancelled(&self.id, by).await.map(drop)?)
    }
}

/// The operations of this process that can be cancelled, each with its control.
#[derive(Debug, Default)]
pub(crate) struct Cancels(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    controls: BTreeMap<OperationId, Control>,
    /// Whether a task looks for requests.
    watched: bool,
}

impl Cancels {
    pub(crate) fn enter(&self, id: &OperationId, control: &Control, shared: &Arc<Shared>) {
        let mut running = self.0.lock();
        running.controls.insert(id.clone(), control.clone());
        if !running.watched
            && let Ok(runtime) = Handle::try_current()
        {
            running.watched = true;
            runtime.spawn(watch(Arc::downgrade(shared)));
        }
    }

    pub(crate) fn exit(&self, id: &OperationId) {
        self.0.lock().controls.remove(id);
    }

    fn cancel(&self, id: &OperationId) {
        if let Some(control) = self.0.lock().controls.get(id) {
            control.cancel();
        }
    }

    /// The operations under way that are not cancelled. `None` where there are none at all: nobody watches any more.
    fn watched(&self) -> Option<Vec<OperationId>> {
        let mut running = self.0.lock();
        if running.controls.is_empty() {
            running.watched = false;
            return None;
        }
        let open = running.controls.iter().filter(|(_, control)| !control.cancelled().is_cancelled());
        Some(open.map(|(id, _)| id.clone()).collect())
    }
}

/// Looks for requests as long as an operation is under way that could be cancelled.
async fn watch(shared: Weak<Shared>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(shared) = shared.upgrade() else { return };
        let Some(running) = shared.cancels.watched() else { return };
        match shared.journal.cancelled(&running) {
            Ok(cancelled) => cancelled.iter().for_each(|id| shared.cancels.cancel(id)),
            Err(error) => tracing::warn!(%error, "the journal cannot be read for requests to cancel operations"),
        }
    }
}
