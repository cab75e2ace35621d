//! The journal's tables and their versions.

use rusqlite::Connection;

use super::migrate;
use crate::Error;

/// `user_version` of the tables below, and of the words in them. A change here adds a migration from each older
/// version.
///
/// - 1: servers.
/// - 2: the same tables; machines' words beside the servers' (`adopt-machine`, `apple-silicon-server`, ...), which a
///   program of version 1 could not read.
/// - 3: `look_at` in `operations`, and the state `unverified`; what recovery depends on is a note with a shape of its
///   own ([`super::note::Note`]). A program of an older version would finish what was called off and remove what was
///   kept, so it refuses the file.
/// - 4: a release says what was `requested` of it and its `trigger`, in the contract's words; a failure without a call
///   has neither method nor path.
pub(super) const VERSION: i64 = 4;
/// The version from which on `operations` has `look_at`.
pub(super) const LOOK_AT_SINCE: i64 = 3;

const TABLES: &str = "
create table operations (
    id            text primary key not null,
    kind          text not null,
    grouping      text not null,
    zone          text not null,
    owner         text not null,
    specification text not null,
    policies      text not null,
    runner        text not null,
    state         text not null,
    cause         text,
    reasons       text not null default '[]',
    report        text,
    ended_by      text,
    created_at    integer not null,
    updated_at    integer not null,
    look_at       integer
) strict;
create index operations_by_state on operations (state, created_at);
create index operations_by_age on operations (created_at);
create table entries (
    operation     text not null references operations (id),
    sequence      integer not null,
    step          text not null,
    phase         text not null,
    resource_kind text,
    resource_id   text,
    resource_zone text,
    resource_server text,
    data          text not null,
    at            integer not null,
    primary key (operation, sequence)
) strict, without rowid;
create index entries_by_resource on entries (resource_id) where resource_id is not null;
";

/// What tables of versions before [`LOOK_AT_SINCE`] lack.
const ADDED: &str = "alter table operations add column look_at integer;";

/// Lets a reader, who changes nothing, see those tables as if they were of this version.
const SEEN_AS_NEW: &str =
    "create temp view operations as select rowid as rowid, *, null as look_at from main.operations;";

/// Prepares a connection that only reads; `found` is the file's version.
pub(super) fn prepare_reader(connection: &Connection, found: i64) -> rusqlite::Result<()> {
    if found < LOOK_AT_SINCE { connection.execute_batch(SEEN_AS_NEW) } else { Ok(()) }
}

/// Checks the version, and makes the tables in an empty file.
///
/// A newer version is refused before anything is written, the pragmas included.
pub(super) fn prepare(connection: &mut Connection, path: &std::path::Path) -> Result<(), Error> {
    let failed = |source| Error::JournalOpen { path: path.to_owned(), source };
    let found: i64 = connection.query_row("pragma user_version", [], |row| row.get(0)).map_err(failed)?;
    if found > VERSION {
        return Err(Error::JournalNewer { path: path.to_owned(), found, known: VERSION });
    }
    connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    if found == VERSION {
        return Ok(());
    }
    // Two processes may start together: who comes second finds the tables made.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    let found: i64 = transaction.query_row("pragma user_version", [], |row| row.get(0)).map_err(failed)?;
    match found {
        0 => transaction.execute_batch(TABLES).map_err(failed)?,
        older if older < VERSION => {
            if older < LOOK_AT_SINCE {
                transaction.execute_batch(ADDED).map_err(failed)?;
                migrate::to_typed_entries(&transaction).map_err(failed)?;
            }
            migrate::to_words_of_the_contract(&transaction).map_err(failed)?;
        }
        _ => {}
    }
    if found < VERSION {
        transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}
