//! The journal's tables and their version.

use rusqlite::Connection;

use crate::Error;

/// `user_version` of the tables below, and of the words in them.
pub(super) const VERSION: i64 = 1;

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
create table history (
    id            text not null
) strict;
";

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
    if found == 0 {
        transaction.execute_batch(TABLES).map_err(failed)?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}
