//! The durable record of operations: intent before effect, outcome after.
//!
//! One SQLite file in the state directory, in WAL mode, so that any process may read while another writes. What is read
//! back is untrusted: bounded, checked, and an error names table and row.

pub(crate) mod note;
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
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};
use tokio::runtime::{Handle, RuntimeFlavor};

pub(crate) use record::{Closing, NewEntry, NewOperation};
pub use record::{Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName};

use crate::Error;
use crate::identifier::OperationId;
use crate::reader::{Reader, connect, open_to_read};
use crate::state_directory::{JOURNAL_FILE, StateDirectory};
use write::{Write, Writer};

/// Operations that one transaction of a prune removes at most: a tenth of a second, measured with 15 entries each.
const PRUNED_AT_ONCE: u32 = 1_000;
/// Between two of them. SQLite gives the lock to whoever asks in time, and waiting processes ask every 100 ms.
const PRUNE_PAUSE: Duration = Duration::from_millis(150);

/// What a finished write is proof against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Power loss: each commit reaches the disk. Concurrent writes share a commit.
    #[default]
    Full,
    /// As [`Durability::Full`], written inline, without a thread. For simulations under paused time that lose power,
    /// too.
    FullInline,
    /// The death of the process only; written inline, without a thread. For simulations under paused time.
    Process,
}

/// The open journal.
pub struct Journal {
    path: PathBuf,
    writer: Option<Writer>,
    reader: Mutex<Connection>,
    is_snapshot: bool,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Journal").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal for writing, and makes it where there is none.
    ///
    /// # Errors
    /// [`Error::JournalNewer`] when a newer version wrote it (it is left untouched), [`Error::JournalOpen`] when it is
    /// no journal or cannot be opened.
    pub fn open(state: &StateDirectory, durability: Durability) -> Result<Self, Error> {
        let path = state.journal_path()?;
        let failed = |source| Error::JournalOpen { path: path.clone(), source };
        let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        let synchronous = match durability {
            Durability::Full | Durability::FullInline => "full",
            Durability::Process => "off",
        };
        connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
        schema::prepare(&mut connection, &path)?;
        let reader = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        reader.pragma_update(None, "query_only", true).map_err(failed)?;
        let writer = match durability {
            Durability::Full => {
                Writer::thread(connection).map_err(|source| Error::StateDirectory { path: path.clone(), source })?
            }
            Durability::FullInline | Durability::Process => Writer::inline(connection),
        };
        Ok(Self { path, writer: Some(writer), reader: Mutex::new(reader), is_snapshot: false })
    }

    /// Opens the journal for reading only: for `operation list`, while others write. Also on a disk that is full or
    /// read-only ([`Journal::is_snapshot`]).
    ///
    /// # Errors
    /// [`Error::JournalAbsent`] where there is none, or an empty file; otherwise as [`Journal::open`].
    pub fn read_only(state: &StateDirectory) -> Result<Self, Error> {
        let path = state.path().join(JOURNAL_FILE);
        if !state.handle().exists(JOURNAL_FILE) {
            return Err(Error::JournalAbsent { path });
        }
        let failed = |source| Error::JournalOpen { path: path.clone(), source };
        let Reader { connection: reader, is_snapshot } = open_to_read(&path).map_err(failed)?;
        // One statement: the tables and their version may come from another process between two.
        let look = "select (select count(*) from sqlite_schema), user_version from pragma_user_version";
        let (tables, found): (i64, i64) =
            reader.query_row(look, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        // Made by a process that has not come to its tables yet, or died before.
        if tables == 0 {
            return Err(Error::JournalAbsent { path });
        }
        if found == 0 || found > schema::VERSION {
            return Err(Error::JournalNewer { path, found, known: schema::VERSION });
        }
        reader.pragma_update(None, "query_only", true).map_err(failed)?;
        Ok(Self { path, writer: None, reader: Mutex::new(reader), is_snapshot })
    }

    /// Whether it shows what the file held when it was opened, since nothing can be written there, and is to be opened
    /// again for each look.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// The file, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The history that it belongs to. `None`: it is new, or not one that a process of ours has begun.
    pub(crate) fn history(&self) -> Result<Option<String>, Error> {
        self.read(|reader| {
            let id = reader.query_row("select id from history", [], |row| row.get(0)).optional();
            id.map_err(Error::journal_read)
        })
    }

    /// From now on it belongs to this history; where it is `new` only, one that belongs to another one or has an
    /// operation is left as it is.
    pub(crate) fn belong_to(&self, history: &str, new: bool) -> Result<(), Error> {
        let set = || {
            let mut connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if !new {
                transaction.execute("delete from history", [])?;
            }
            transaction.execute(
                "insert into history select ?1
                 where not exists (select 1 from history) and not (?2 and exists (select 1 from operations))",
                params![history, new],
            )?;
            transaction.commit()
        };
        set().map_err(Error::journal_write)
    }

    async fn write(&self, write: Write) -> Result<usize, Error> {
        self.writer.as_ref().ok_or(Error::JournalClosed)?.write(write).await
    }

    /// Reads on the caller's thread, which gives its other tasks to another one meanwhile, if its runtime has several.
    /// Where it has one, as in simulated time, nothing else goes on, so that each run is the same.
    ///
    /// Measured in a development build: one operation 0.1 to 0.4 ms, the newest 1,000 in 130 ms, and giving the tasks
    /// away costs less than can be seen beside it.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let read = || read(&self.reader.lock());
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(read),
            _ => read(),
        }
    }

    /// Opens an operation. Of cleanups of one server one is open at a time, whoever begins them: the others fail with
    /// [`Error::CleanupUnderWay`].
    pub(crate) async fn begin(&self, operation: NewOperation) -> Result<(), Error> {
        self.write(Write::Open(Box::new(operation))).await.map(drop)
    }

    pub(crate) async fn append(&self, entry: NewEntry) -> Result<(), Error> {
        self.write(Write::Entry(Box::new(entry))).await.map(drop)
    }

    /// The same while the operation is open. False, and nothing changes, once it has ended.
    pub(crate) async fn append_while_open(&self, entry: NewEntry) -> Result<bool, Error> {
        self.write(Write::EntryWhileOpen(Box::new(entry))).await.map(|written| written > 0)
    }

    /// Ends an operation. False, and nothing changes, where it was to be done and somebody has cancelled it.
    pub(crate) async fn close(&self, closing: Closing) -> Result<bool, Error> {
        self.write(Write::Close(Box::new(closing))).await.map(|written| written > 0)
    }

    /// Those of these operations that somebody has cancelled.
    pub(crate) fn cancelled(&self, operations: &[OperationId]) -> Result<Vec<OperationId>, Error> {
        self.read(|reader| read::cancelled(reader, operations))
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
        let (opened, closing) = (opened.map(Box::new), Box::new(closing));
        let abandon = Write::Abandon { opened, from: from.to_owned(), closing, notes };
        match self.write(abandon).await {
            Ok(_) => Ok(true),
            Err(Error::OperationUnknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes an operation over from a runner that died. False when somebody else was quicker.
    pub(crate) async fn claim(&self, operation: &Operation, to: &str, at: u64) -> Result<bool, Error> {
        let claimed = self
            .write(Write::Claim {
                operation: operation.id.clone(),
                from: operation.runner.clone(),
                to: to.to_owned(),
                at,
            })
            .await;
        match claimed {
            Ok(_) => Ok(true),
            Err(Error::OperationUnknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
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
        self.write(Write::Prune { before, most: PRUNED_AT_ONCE }).await
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn operations(&self, filter: &OperationFilter) -> Result<Vec<Operation>, Error> {
        self.read(|reader| read::operations(reader, filter))
    }

    /// How many operations of each state there are; of a state without any there is no entry.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names what cannot be understood.
    pub fn counts(&self) -> Result<BTreeMap<OperationState, u64>, Error> {
        self.read(read::counts)
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error::OperationUnknown`] when there is none of that id.
    pub fn operation(&self, id: &OperationId) -> Result<Operation, Error> {
        self.read(|reader| read::operation(reader, id))
    }

    /// The entries of an operation, in the order of writing.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn entries(&self, id: &OperationId) -> Result<Vec<Entry>, Error> {
        self.read(|reader| read::entries(reader, id))
    }

    /// How often an operation was taken up, and when it is tried again, where it was.
    pub(crate) fn last_try(&self, id: &OperationId) -> Result<Option<(u32, u64)>, Error> {
        self.read(|reader| read::last_try(reader, id))
    }

    /// The servers that the outcomes of a creation name.
    pub(crate) fn servers_made(&self, id: &OperationId) -> Result<Vec<String>, Error> {
        read::servers_made(&self.reader.lock(), id)
    }

    /// The creations of servers whose id, name or address this is, the newest first.
    pub(crate) fn creations_named(&self, text: &str) -> Result<Vec<Operation>, Error> {
        self.read(|reader| read::creations_named(reader, text))
    }

    /// Whether an entry says which API holds this volume.
    pub(crate) fn has_placed(&self, volume: &str) -> Result<bool, Error> {
        self.read(|reader| read::has_placed(reader, volume))
    }

    /// Whether an operation has kept this resource on purpose, whatever became of its mark.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn is_kept(&self, resource_id: &str) -> Result<bool, Error> {
        self.read(|reader| read::is_kept(reader, resource_id))
    }

    /// The operation that was abandoned with this resource, while no other operation has removed what that one made.
    pub(crate) fn abandoned_by(&self, resource_id: &str) -> Result<Option<OperationId>, Error> {
        self.read(|reader| read::abandoned_by(reader, resource_id))
    }

    /// What was abandoned and no other operation has removed, by id.
    pub(crate) fn abandoned(&self) -> Result<HashSet<String>, Error> {
        self.read(read::abandoned)
    }

    /// The operations whose entries speak of this resource, the newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn operations_of_resource(&self, resource_id: &str) -> Result<Vec<Operation>, Error> {
        self.read(|reader| read::operations_of_resource(reader, resource_id))
    }
}
