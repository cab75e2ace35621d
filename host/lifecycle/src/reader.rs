//! Opening a SQLite file to read it, also where nothing can be written.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

/// How long a process waits for another one's write.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// A connection that reads.
#[derive(Debug)]
pub struct Reader {
    /// The connection.
    pub connection: Connection,
    /// Whether nothing can be written beside the file. Such a connection does not see what others write, or keeps them
    /// from writing: it is to be used once.
    pub is_snapshot: bool,
}

/// Opens a file in WAL mode to read it.
///
/// A reader writes the index of the WAL, a file beside the file. Where the disk is full or read-only, it cannot. Then
/// the file alone is read if it has no WAL, and otherwise the index is kept in memory.
///
/// # Errors
/// SQLite's, of the ordinary way.
pub fn open_to_read(path: &Path) -> Result<Reader, Error> {
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

pub(crate) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// SQLite opens nothing before the first statement.
fn begin(connection: Connection) -> Result<Connection, Error> {
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// SQLite keeps the index in memory where it has the file for itself.
fn with_index_in_memory(path: &Path) -> Result<Connection, Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(connection)
}

fn file_alone(path: &Path) -> Result<Connection, Error> {
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
