//! Writing: each function is one change, made within a savepoint that an error takes back.

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use serde_json::Value;

use super::note::{CANCELLED, ENDED, KEPT};
use super::read::open_cleanup;
use super::record::MAX_JSON_LEN;
use super::record::{Closing, NewEntry, NewOperation, OperationKind, OperationState};
use crate::Error;
use crate::identifier::OperationId;

fn json(value: &Value, what: &'static str) -> Result<String, Error> {
    let text = value.to_string();
    if text.len() > MAX_JSON_LEN {
        return Err(Error::JournalTooLong { what, bytes: text.len(), limit: MAX_JSON_LEN });
    }
    Ok(text)
}

fn milliseconds(at: u64) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

pub(super) fn open(connection: &Connection, new: &NewOperation) -> Result<(), Error> {
    let failed = Error::journal_write;
    // In the transaction that opens it: another process may be about to do the same.
    if new.kind == OperationKind::CleanupServer
        && let Some(operation) = open_cleanup(connection, &new.specification)?
    {
        return Err(Error::CleanupUnderWay { operation });
    }
    let inserted = connection
        .prepare_cached(
            "insert into operations
             (id, kind, grouping, zone, owner, specification, policies, runner, state, created_at, updated_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'open', ?9, ?9)",
        )
        .map_err(failed)?
        .execute(params![
            new.id.as_str(),
            new.kind.as_str(),
            new.group,
            new.zone,
            new.owner,
            json(&new.specification, "specification")?,
            json(&new.policies, "policies")?,
            new.runner,
            milliseconds(new.at),
        ]);
    match inserted {
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::ConstraintViolation => {
            Err(Error::OperationExists { operation: new.id.clone() })
        }
        other => other.map(drop).map_err(failed),
    }
}

pub(super) fn entry(connection: &Connection, entry: &NewEntry) -> Result<(), Error> {
    let failed = Error::journal_write;
    let resource = entry.resource.as_ref();
    let written = connection
        .prepare_cached(
            "insert into entries
             (operation, sequence, step, phase, resource_kind, resource_id, resource_zone, resource_server,
                 data, at)
             select id, (select coalesce(max(sequence), 0) + 1 from entries where operation = ?1),
                    ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
             from operations where id = ?1",
        )
        .map_err(failed)?
        .execute(params![
            entry.operation.as_str(),
            entry.step,
            entry.phase.as_str(),
            resource.map(|r| r.kind.as_str()),
            resource.map(|r| r.id.as_str()),
            resource.map(|r| r.zone.as_str()),
            resource.and_then(|r| r.server.as_deref()),
            json(&entry.data, "entry")?,
            milliseconds(entry.at),
        ])
        .map_err(failed)?;
    found(written, &entry.operation)
}

/// The same while the operation is open. False, and nothing changes, once it has ended.
pub(super) fn entry_while_open(connection: &Connection, new: &NewEntry) -> Result<bool, Error> {
    let is_open: Option<bool> = connection
        .prepare_cached("select state = 'open' from operations where id = ?1")
        .and_then(|mut statement| statement.query_row([new.operation.as_str()], |row| row.get(0)).optional())
        .map_err(Error::journal_write)?;
    if is_open == Some(false) {
        return Ok(false);
    }
    entry(connection, new).map(|()| true)
}

/// False, and nothing changes, where the operation was to be done and somebody has cancelled it.
pub(super) fn close(connection: &Connection, closing: &Closing) -> Result<bool, Error> {
    let failed = Error::journal_write;
    let written = connection
        .prepare_cached(
            "update operations
             set state = ?2, cause = ?3, reasons = ?4, report = ?5, updated_at = ?6, look_at = ?7
             where id = ?1 and not (
                 ?2 = 'done' and exists (
                     select 1 from entries where operation = ?1 and phase = 'note' and step = ?8))",
        )
        .map_err(failed)?
        .execute(params![
            closing.operation.as_str(),
            closing.state.as_str(),
            closing.cause.as_ref().map(|c| json(c, "cause")).transpose()?,
            json(&Value::from(closing.reasons.clone()), "reasons")?,
            closing.report.as_ref().map(|r| json(r, "report")).transpose()?,
            milliseconds(closing.at),
            closing.look_at.map(milliseconds),
            CANCELLED,
        ])
        .map_err(failed)?;
    // Whoever cancelled it before this moment was told that it is undone.
    if written == 0 && closing.state == OperationState::Done && exists(connection, &closing.operation)? {
        return Ok(false);
    }
    for ended in &closing.ends {
        // The row's own time changes now.
        connection
            .prepare_cached(
                "insert into entries (operation, sequence, step, phase, data, at)
                 select id, (select coalesce(max(sequence), 0) + 1 from entries where operation = ?1),
                        ?2, 'note', '{}', updated_at
                 from operations where id = ?1 and ended_by is null and state <> 'open'",
            )
            .map_err(failed)?
            .execute([ended.as_str(), ENDED])
            .map_err(failed)?;
        connection
            .prepare_cached("update operations set ended_by = ?2, updated_at = ?3 where id = ?1")
            .map_err(failed)?
            .execute(params![ended.as_str(), closing.operation.as_str(), milliseconds(closing.at)])
            .map_err(failed)?;
    }
    found(written, &closing.operation).map(|()| true)
}

/// Closes a cleanup whose left-overs another operation has removed.
pub(super) fn settle(
    connection: &Connection,
    id: &OperationId,
    by: &OperationId,
    report: &Value,
    at: u64,
) -> Result<(), Error> {
    let failed = Error::journal_write;
    connection
        .prepare_cached(
            "update operations set state = 'done', report = ?2, ended_by = ?3, updated_at = ?4
             where id = ?1 and state = 'left'",
        )
        .map_err(failed)?
        .execute(params![id.as_str(), json(report, "report")?, by.as_str(), milliseconds(at)])
        .map_err(failed)?;
    Ok(())
}

/// Takes over an operation whose runner died. False when another has taken it over meanwhile.
pub(super) fn claim(
    connection: &Connection,
    operation: &OperationId,
    from: &str,
    to: &str,
    at: u64,
) -> Result<bool, Error> {
    let failed = Error::journal_write;
    let written = connection
        .prepare_cached(
            "update operations set runner = ?3, updated_at = ?4, state = 'open'
             where id = ?1 and runner = ?2 and state in ('open', 'left', 'unverified')",
        )
        .map_err(failed)?
        .execute(params![operation.as_str(), from, to, milliseconds(at)])
        .map_err(failed)?;
    Ok(written > 0)
}

/// Closes an operation that is to be neither finished nor undone, with what is noted about that; one that never was
/// open is opened before. False when another process has taken it over meanwhile, or has ended it.
pub(super) fn abandon(
    connection: &Connection,
    opened: Option<&NewOperation>,
    from: &str,
    closing: &Closing,
    notes: &[NewEntry],
) -> Result<bool, Error> {
    let failed = Error::journal_write;
    match opened {
        Some(opened) => open(connection, opened)?,
        None => {
            let to_close: i64 = connection
                .prepare_cached(
                    "select count(*) from operations
                     where id = ?1 and runner = ?2 and state in ('open', 'left', 'unverified')",
                )
                .and_then(|mut statement| statement.query_row([closing.operation.as_str(), from], |row| row.get(0)))
                .map_err(failed)?;
            if to_close == 0 {
                return Ok(false);
            }
        }
    }
    for note in notes {
        entry(connection, note)?;
    }
    close(connection, closing).map(|_| true)
}

/// Removes operations that ended before this instant and explain nothing that may still exist: the oldest, so many at
/// most. Gives how many.
pub(super) fn prune(connection: &Connection, before: u64, most: u32) -> Result<usize, Error> {
    let failed = Error::journal_write;
    let find = format!("select id from operations where {} order by created_at limit ?2", prunable());
    let found: Vec<String> = connection
        .prepare_cached(&find)
        .and_then(|mut statement| statement.query_map(params![milliseconds(before), most], |row| row.get(0))?.collect())
        .map_err(failed)?;
    connection
        .prepare_cached(
            "update history set forgotten_until = max(forgotten_until, (select created_at from operations where id = ?1))",
        )
        .and_then(|mut note| found.last().map_or(Ok(0), |newest| note.execute([newest])))
        .map_err(failed)?;
    for (table, column) in [("entries", "operation"), ("operations", "id")] {
        let delete = format!("delete from {table} where {column} = ?1");
        let mut delete = connection.prepare_cached(&delete).map_err(failed)?;
        for operation in &found {
            delete.execute([operation]).map_err(failed)?;
        }
    }
    Ok(found.len())
}

/// Which operations ended before `?1` and explain nothing that may still exist.
///
/// Spared are an operation that made or claimed a machine, until another one has removed or released that machine, and
/// an operation that kept a resource on purpose: only the journal knows that a Mac was ordered, and whose a server is.
fn prunable() -> String {
    let makers: Vec<String> =
        OperationKind::ALL.iter().filter(|kind| kind.acquires()).map(|kind| format!("'{kind}'")).collect();
    format!(
        "created_at < ?1 and updated_at < ?1
         and (state = 'undone' or (state in ('abandoned', 'kept') and ended_by is not null)
              or (state = 'done' and (kind not in ({}) or ended_by is not null)))
         and not exists (select 1 from entries
                         where operation = operations.id and step = '{KEPT}' and phase = 'note')",
        makers.join(", ")
    )
}

fn exists(connection: &Connection, operation: &OperationId) -> Result<bool, Error> {
    connection
        .prepare_cached("select exists (select 1 from operations where id = ?1)")
        .and_then(|mut statement| statement.query_row([operation.as_str()], |row| row.get(0)))
        .map_err(Error::journal_write)
}

fn found(written: usize, operation: &OperationId) -> Result<(), Error> {
    if written == 0 {
        return Err(Error::OperationUnknown { operation: operation.as_str().to_owned() });
    }
    Ok(())
}
