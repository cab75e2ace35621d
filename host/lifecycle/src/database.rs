//! A SQLite file of a state directory: how it is made, opened, written and read.
//!
//! In WAL mode, so that any process may read while another writes.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use tokio::runtime::{Handle, RuntimeFlavor};
use windlass_concurrency::{Bounds, GroupCommit};

use crate::state_directory::StateDirectory;

/// How long a process waits for another one's write.
const BUSY: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { queue: 1024, batch: 256 };

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

/// What a file holds.
#[derive(Clone, Copy, Debug)]
pub struct Schema {
    /// Its name in the state directory.
    pub file: &'static str,
    /// `user_version` of the tables, and of the words in them.
    pub version: i64,
    /// What makes the tables.
    pub tables: &'static str,
}

/// Why a file cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// There is none, or an empty one.
    #[error("there is no {}", path.display())]
    Absent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The file, or the thread that writes it, cannot be made.
    #[error("{} cannot be made: {source}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A newer version wrote it. It was left untouched.
    #[error("{} has version {found}, this program knows version {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: i64,
        /// The version known.
        known: i64,
    },
    /// It was opened for reading, or is shut.
    #[error("it is not open for writing")]
    Closed,
    /// The commit of several writes failed.
    #[error("{message}")]
    Commit {
        /// What SQLite said.
        message: String,
    },
}

/// An open file.
pub struct Database {
    path: PathBuf,
    writer: Option<Writer>,
    pub(crate) reader: Mutex<Connection>,
    is_snapshot: bool,
}

/// Makes a change within its savepoint. False: the change is taken back.
type Write = Box<dyn FnOnce(&Connection) -> bool + Send>;

/// The side that writes.
enum Writer {
    Inline(Box<Mutex<Connection>>),
    Thread(GroupCommit<Write, Result<(), String>>),
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens the file for writing, and makes it where there is none. It is its owner's alone.
    ///
    /// # Errors
    /// [`DatabaseError::Newer`] when a newer version wrote it, [`DatabaseError::Make`] and [`DatabaseError::Open`].
    pub fn open(state: &StateDirectory, schema: &Schema, durability: Durability) -> Result<Self, DatabaseError> {
        let path = state.path().join(schema.file);
        let unmade = |source| DatabaseError::Make { path: path.clone(), source };
        let failed = |source| DatabaseError::Open { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        // Only whoever makes the file ever closes it: that would release the locks of this process's other connections.
        match state.handle().open_with(schema.file, &options) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unmade(error)),
            _ => {}
        }
        let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        let synchronous = match durability {
            Durability::Full | Durability::FullInline => "full",
            Durability::Process => "off",
        };
        connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
        if let Some(found) = prepare(&mut connection, schema).map_err(failed)? {
            return Err(DatabaseError::Newer { path, found, known: schema.version });
        }
        let reader = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
        reader.pragma_update(None, "query_only", true).map_err(failed)?;
        let writer = match durability {
            Durability::Full => {
                let commit = move |writes| commit(&mut connection, writes);
                let name = format!("windlass-{}", schema.file.trim_end_matches(".sqlite"));
                Writer::Thread(GroupCommit::start(&name, BOUNDS, commit).map_err(unmade)?)
            }
            Durability::FullInline | Durability::Process => Writer::Inline(Box::new(Mutex::new(connection))),
        };
        Ok(Self { path, writer: Some(writer), reader: Mutex::new(reader), is_snapshot: false })
    }

    /// Opens the file for reading only: nothing is made or changed, while others write. Also on a disk that is full or
    /// read-only ([`Database::is_snapshot`]).
    ///
    /// # Errors
    /// [`DatabaseError::Absent`] where there is none, or one whose tables are still to be made; otherwise as
    /// [`Database::open`].
    pub fn read_only(state: &StateDirectory, schema: &Schema) -> Result<Self, DatabaseError> {
        let path = state.path().join(schema.file);
        if !state.handle().exists(schema.file) {
            return Err(DatabaseError::Absent { path });
        }
        let failed = |source| DatabaseError::Open { path: path.clone(), source };
        let Reader { connection: reader, is_snapshot } = open_to_read(&path).map_err(failed)?;
        // One statement: the tables and their version may come from another process between two.
        let look = "select (select count(*) from sqlite_schema), user_version from pragma_user_version";
        let (tables, found): (i64, i64) =
            reader.query_row(look, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        // Made by a process that has not come to its tables yet, or died before.
        if tables == 0 {
            return Err(DatabaseError::Absent { path });
        }
        if found != schema.version {
            return Err(DatabaseError::Newer { path, found, known: schema.version });
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

    /// Makes a change, whole or not at all, and returns when it is as durable as the file was asked to be. An error of
    /// the change takes it back, and no other change with it.
    ///
    /// # Errors
    /// The change's own; [`DatabaseError::Closed`] and [`DatabaseError::Commit`].
    pub async fn write<T, E>(&self, change: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DatabaseError> + Send + 'static,
    {
        let answer = Arc::new(Mutex::new(None));
        let answered = Arc::clone(&answer);
        let write: Write = Box::new(move |connection| {
            let changed = change(connection);
            let stays = changed.is_ok();
            *answered.lock() = Some(changed);
            stays
        });
        let committed = match self.writer.as_ref().ok_or(DatabaseError::Closed)? {
            Writer::Inline(connection) => commit(&mut connection.lock(), vec![write]).pop(),
            Writer::Thread(thread) => thread.write(write).await.ok(),
        };
        committed.ok_or(DatabaseError::Closed)?.map_err(|message| DatabaseError::Commit { message })?;
        let changed = answer.lock().take();
        changed.ok_or(DatabaseError::Closed)?
    }

    /// The same on the caller's thread and a connection of its own, for what comes before every other write.
    ///
    /// # Errors
    /// SQLite's.
    pub fn write_at_once<T>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        let mut connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let changed = change(&transaction)?;
        transaction.commit()?;
        Ok(changed)
    }

    /// Reads on the caller's thread, which gives its other tasks to another one meanwhile, if its runtime has several.
    /// Where it has one, as in simulated time, nothing else goes on, so that each run is the same.
    ///
    /// Measured in a development build: one operation 0.1 to 0.4 ms, the newest 1,000 in 130 ms, and giving the tasks
    /// away costs less than can be seen beside it.
    ///
    /// # Errors
    /// The read's own.
    pub fn read<T, E>(&self, read: impl FnOnce(&Connection) -> Result<T, E>) -> Result<T, E> {
        let read = || read(&self.reader.lock());
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(read),
            _ => read(),
        }
    }
}

/// Checks the version, and makes the tables in an empty file. Gives the version where it is a newer one: that is
/// refused before anything is written, the pragmas included.
pub(crate) fn prepare(connection: &mut Connection, schema: &Schema) -> Result<Option<i64>, rusqlite::Error> {
    let version = |connection: &Connection| connection.query_row("pragma user_version", [], |row| row.get::<_, i64>(0));
    let found = version(connection)?;
    if found > schema.version {
        return Ok(Some(found));
    }
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if found == schema.version {
        return Ok(None);
    }
    // Two processes may start together: who comes second finds the tables made.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&transaction)? == 0 {
        transaction.execute_batch(schema.tables)?;
        transaction.pragma_update(None, "user_version", schema.version)?;
    }
    transaction.commit()?;
    Ok(None)
}

/// One transaction for all, one savepoint for each: a write that fails takes no other with it.
fn commit(connection: &mut Connection, writes: Vec<Write>) -> Vec<Result<(), String>> {
    let count = writes.len();
    let committed = (|| {
        let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for write in writes {
            let savepoint = transaction.savepoint()?;
            if write(&savepoint) {
                savepoint.commit()?;
            }
        }
        transaction.commit()
    })();
    let answer = committed.map_err(|error: rusqlite::Error| {
        let message = error.to_string();
        tracing::error!(error = %message, "a database could not be written");
        message
    });
    vec![answer; count]
}

/// A connection that reads.
struct Reader {
    connection: Connection,
    /// Whether nothing can be written beside the file. Such a connection does not see what others write, or keeps them
    /// from writing: it is to be used once.
    is_snapshot: bool,
}

/// Opens a file in WAL mode to read it.
///
/// A reader writes the index of the WAL, a file beside the file. Where the disk is full or read-only, it cannot. Then
/// the file alone is read if it has no WAL, and otherwise the index is kept in memory.
fn open_to_read(path: &Path) -> Result<Reader, rusqlite::Error> {
    let error = match connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(begin) {
        Ok(connection) => return Ok(Reader { connection, is_snapshot: false }),
        Err(error) => error,
    };
    let could_not_write = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
        )
    );
    if !could_not_write {
        return Err(error);
    }
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let has_wal = std::fs::metadata(wal).is_ok_and(|wal| wal.len() > 0);
    let snapshot = if has_wal { with_index_in_memory(path) } else { file_alone(path) };
    let opened = snapshot.and_then(begin).and_then(|connection| {
        connection.pragma_update(None, "temp_store", "memory")?;
        Ok(Reader { connection, is_snapshot: true })
    });
    opened.map_err(|_| error)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// SQLite opens nothing before the first statement.
fn begin(connection: Connection) -> Result<Connection, rusqlite::Error> {
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// SQLite keeps the index in memory where it has the file for itself.
fn with_index_in_memory(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(connection)
}

fn file_alone(path: &Path) -> Result<Connection, rusqlite::Error> {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            // Into a text nothing fails to be written.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    connect(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_cannot_begin_says_so_to_each_of_its_writes() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("begin").unwrap();
        let write = || -> Write { Box::new(|_| true) };
        let answers = commit(&mut connection, vec![write(), write()]);
        assert_eq!(answers.len(), 2);
        for answer in answers {
            assert!(answer.as_ref().is_err_and(|message| message.contains("transaction")), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn what_is_to_be_proof_against_a_loss_of_power_is_synced_with_or_without_a_thread() {
        let schema = Schema { file: "test.sqlite", version: 1, tables: "create table rows (id integer);" };
        for (durability, expected) in [(Durability::Full, 2), (Durability::FullInline, 2), (Durability::Process, 0)] {
            let folder = tempfile::tempdir().unwrap();
            let state = StateDirectory::open(folder.path()).unwrap();
            let database = Database::open(&state, &schema, durability).unwrap();
            let synchronous: i64 = database
                .write(|connection| {
                    let found = connection.query_row("pragma synchronous", [], |row| row.get(0));
                    found.map_err(|error| DatabaseError::Commit { message: error.to_string() })
                })
                .await
                .unwrap();
            assert_eq!(synchronous, expected, "{durability:?}");
        }
    }
}
