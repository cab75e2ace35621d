//! The durable record of operations: intent before effect, outcome after.
//!
//! One SQLite file in the state directory. What is read back is untrusted: bounded, checked, and an error names table
//! and row.

pub(crate) mod note;
pub(crate) mod progress;
mod read;
mod record;
mod schema;
pub(crate) mod step;
mod write;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{OptionalExtension as _, params};
use serde_json::Value;

pub(crate) use record::{Closing, NewEntry, NewOperation};
pub use record::{Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName};

use crate::Error;
use crate::database::{Database, DatabaseError, Durability};
use crate::identifier::OperationId;
use crate::state_directory::StateDirectory;
use schema::SCHEMA;

/// Operations that one transaction of a prune removes at most: a tenth of a second, measured with 15 entries each.
const PRUNED_AT_ONCE: u32 = 1_000;
/// Between two of them. SQLite gives the lock to whoever asks in time, and waiting processes ask every 100 ms.
const PRUNE_PAUSE: Duration = Duration::from_millis(150);

/// The open journal. Clones share it.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Database>);

impl From<DatabaseError> for Error {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Absent { path } => Self::JournalAbsent { path },
            DatabaseError::Make { path, source } => Self::StateDirectory { path, source },
            DatabaseError::Open { path, source } => Self::JournalOpen { path, source },
            DatabaseError::Newer { path, found, known } => Self::JournalNewer { path, found, known },
            DatabaseError::Closed => Self::JournalClosed,
            DatabaseError::Commit { message } => Self::JournalCommit { message },
        }
    }
}

impl Journal {
    /// Opens the journal for writing, and makes it where there is none.
    ///
    /// # Errors
    /// [`Error::JournalNewer`] when a newer version wrote it (it is left untouched), [`Error::JournalOpen`] when it is
    /// no journal or cannot be opened.
    pub fn open(state: &StateDirectory, durability: Durability) -> Result<Self, Error> {
        Ok(Self(Arc::new(Database::open(state, &SCHEMA, durability)?)))
    }

    /// Opens the journal for reading only: for `operation list`, while others write. Also on a disk that is full or
    /// read-only ([`Journal::is_snapshot`]).
    ///
    /// # Errors
    /// [`Error::JournalAbsent`] where there is none, or an empty file; otherwise as [`Journal::open`].
    pub fn read_only(state: &StateDirectory) -> Result<Self, Error> {
        Ok(Self(Arc::new(Database::read_only(state, &SCHEMA)?)))
    }

    /// Its file, for who keeps tables of its own in it: what belongs together is backed up and restored together.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        &self.0
    }

    /// As [`Database::is_snapshot`].
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.0.is_snapshot()
    }

    /// The file, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The history that it belongs to. `None`: it is new, or not one that a process of ours has begun.
    pub(crate) fn history(&self) -> Result<Option<String>, Error> {
        self.0.read(|reader| {
            let id = reader.query_row("select id from history", [], |row| row.get(0)).optional();
            id.map_err(Error::journal_read)
        })
    }

    /// From now on it belongs to this history, and what showed that it was set back counts no more; where it is `new`
    /// only, one that belongs to another one or has an operation is left as it is.
    pub(crate) fn belong_to(&self, history: &str, new: bool) -> Result<(), Error> {
        let set = self.0.write_at_once(|connection| {
            if !new {
                connection.execute("update history set id = ?1, set_back = null", [history])?;
            }
            connection.execute(
                "insert into history (id) select ?1
                 where not exists (select 1 from history) and not (?2 and exists (select 1 from operations))",
                params![history, new],
            )
        });
        set.map(drop).map_err(Error::journal_write)
    }

    /// What showed that it was set back to an earlier state, for people: until somebody takes the history over.
    pub(crate) fn set_back(&self) -> Result<Option<String>, Error> {
        self.0.read(|reader| {
            let found = reader.query_row("select set_back from history", [], |row| row.get(0)).optional();
            found.map(Option::flatten).map_err(Error::journal_read)
        })
    }

    pub(crate) fn note_set_back(&self, evidence: &str) -> Result<(), Error> {
        let set = self.0.write_at_once(|connection| connection.execute("update history set set_back = ?1", [evidence]));
        set.map(drop).map_err(Error::journal_write)
    }

    /// When the newest operation began that was forgotten, in milliseconds since 1970. A younger one that is not here
    /// was never written here.
    pub(crate) fn forgotten_until(&self) -> Result<u64, Error> {
        self.0.read(|reader| {
            let until = reader.query_row("select forgotten_until from history", [], |row| row.get::<_, i64>(0));
            let until = until.optional().map_err(Error::journal_read)?;
            Ok(until.unwrap_or_default().try_into().unwrap_or_default())
        })
    }

    /// Opens an operation. Of cleanups of one server one is open at a time, whoever begins them: the others fail with
    /// [`Error::CleanupUnderWay`].
    pub(crate) async fn begin(&self, operation: NewOperation) -> Result<(), Error> {
        self.0.write(move |journal| write::open(journal, &operation)).await
    }

    pub(crate) async fn append(&self, entry: NewEntry) -> Result<(), Error> {
        self.0.write(move |journal| write::entry(journal, &entry)).await
    }

    /// The same while the operation is open. False, and nothing changes, once it has ended.
    pub(crate) async fn append_while_open(&self, entry: NewEntry) -> Result<bool, Error> {
        self.0.write(move |journal| write::entry_while_open(journal, &entry)).await
    }

    /// Ends an operation. False, and nothing changes, where it was to be done and somebody has cancelled it.
    pub(crate) async fn close(&self, closing: Closing) -> Result<bool, Error> {
        self.0.write(move |journal| write::close(journal, &closing)).await
    }

    /// Closes a cleanup that had left something, since another operation has removed all of it. Nothing changes where
    /// somebody has taken it up meanwhile.
    pub(crate) async fn settle(&self, id: &OperationId, by: &OperationId, report: Value, at: u64) -> Result<(), Error> {
        let (id, by) = (id.clone(), by.clone());
        self.0.write(move |journal| write::settle(journal, &id, &by, &report, at)).await
    }

    /// Those of these operations that somebody has cancelled.
    pub(crate) fn cancelled(&self, operations: &[OperationId]) -> Result<Vec<OperationId>, Error> {
        self.0.read(|reader| read::cancelled(reader, operations))
    }

    /// Closes an operation as abandoned, opening it before where it never was open. False when another process has
    /// taken it over, or has ended it.
    pub(crate) async fn abandon(
        &self,
        opened: Option<NewOperation>,
        from: &str,
        closing: Closing,
        notes: Vec<NewEntry>,
    ) -> Result<bool, Error> {
        let from = from.to_owned();
        self.0.write(move |journal| write::abandon(journal, opened.as_ref(), &from, &closing, &notes)).await
    }

    /// Takes an operation over from a runner that died. False when somebody else was quicker.
    pub(crate) async fn claim(&self, operation: &Operation, to: &str, at: u64) -> Result<bool, Error> {
        let (id, from, to) = (operation.id.clone(), operation.runner.clone(), to.to_owned());
        self.0.write(move |journal| write::claim(journal, &id, &from, &to, at)).await
    }

    /// Forgets operations that ended before `before` (milliseconds since 1970) and explain nothing that may still
    /// exist. Returns how many. A few at a time, with pauses, so that other processes can write meanwhile.
    ///
    /// # Errors
    /// When the journal cannot be written. What was forgotten until then stays so.
    pub async fn prune(&self, before: u64) -> Result<usize, Error> {
        let mut pruned = 0;
        loop {
            let step = self.prune_some(before).await?;
            pruned += step;
            if step < PRUNED_AT_ONCE as usize {
                return Ok(pruned);
            }
            tokio::time::sleep(PRUNE_PAUSE).await;
        }
    }

    /// The same for the oldest of them, in one transaction.
    pub(crate) async fn prune_some(&self, before: u64) -> Result<usize, Error> {
        self.0.write(move |journal| write::prune(journal, before, PRUNED_AT_ONCE)).await
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn operations(&self, filter: &OperationFilter) -> Result<Vec<Operation>, Error> {
        self.0.read(|reader| read::operations(reader, filter))
    }

    /// How many operations of each state there are; of a state without any there is no entry.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names what cannot be understood.
    pub fn counts(&self) -> Result<BTreeMap<OperationState, u64>, Error> {
        self.0.read(read::counts)
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error::OperationUnknown`] when there is none of that id.
    pub fn operation(&self, id: &OperationId) -> Result<Operation, Error> {
        self.0.read(|reader| read::operation(reader, id))
    }

    /// The entries of an operation, in the order of writing.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn entries(&self, id: &OperationId) -> Result<Vec<Entry>, Error> {
        self.0.read(|reader| read::entries(reader, id))
    }

    /// How often an operation was taken up, and when it is tried again, where it was.
    pub(crate) fn last_try(&self, id: &OperationId) -> Result<Option<(u32, u64)>, Error> {
        self.0.read(|reader| read::last_try(reader, id))
    }

    /// The servers that the outcomes of a creation name.
    pub(crate) fn servers_made(&self, id: &OperationId) -> Result<Vec<String>, Error> {
        read::servers_made(&self.0.reader.lock(), id)
    }

    /// The creations of servers whose id, name or address this is, the newest first.
    pub(crate) fn creations_named(&self, text: &str) -> Result<Vec<Operation>, Error> {
        self.0.read(|reader| read::creations_named(reader, text))
    }

    /// Whether an entry says which API holds this volume.
    pub(crate) fn has_placed(&self, volume: &str) -> Result<bool, Error> {
        self.0.read(|reader| read::has_placed(reader, volume))
    }

    /// Whether an operation has kept this resource on purpose, whatever became of its mark.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn is_kept(&self, resource_id: &str) -> Result<bool, Error> {
        self.0.read(|reader| read::is_kept(reader, resource_id))
    }

    /// The operation that was abandoned with this resource, while no other operation has removed what that one made.
    pub(crate) fn abandoned_by(&self, resource_id: &str) -> Result<Option<OperationId>, Error> {
        self.0.read(|reader| read::abandoned_by(reader, resource_id))
    }

    /// What was abandoned and no other operation has removed, by id.
    pub(crate) fn abandoned(&self) -> Result<HashSet<String>, Error> {
        self.0.read(read::abandoned)
    }

    /// The operations whose entries speak of this resource, the newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn operations_of_resource(&self, resource_id: &str) -> Result<Vec<Operation>, Error> {
        self.0.read(|reader| read::operations_of_resource(reader, resource_id))
    }

    /// The operations on the Mac with this id of Scaleway's, or with this claim, the newest first. A claim is found also
    /// where no host was seen yet.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn operations_of_machine(&self, text: &str) -> Result<Vec<Operation>, Error> {
        self.0.read(|reader| read::operations_of_machine(reader, text))
    }
}
