//! Reading: everything that comes out of the file is checked.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params_from_iter};
use serde_json::Value;

use super::note::{ABANDONED, CANCELLED, KEPT, TAKEN_UP};
use super::record::MAX_JSON_LEN;
use super::record::{
    Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName,
};
use crate::Error;
use crate::identifier::OperationId;

/// Entries of one operation at most. A create with a hundred retries writes a few hundred.
const ENTRIES: u32 = 100_000;

const OPERATION_COLUMNS: &str = "id, kind, grouping, zone, owner, specification, policies, runner, state, cause, \
     reasons, report, ended_by, created_at, updated_at, look_at, case when state = 'open' then null \
     when ended_by is null then updated_at else coalesce((select at from entries where operation = operations.id \
     and step = 'ended' and phase = 'note' order by sequence desc limit 1), updated_at) end as ended_at";

/// A row being read, which knows how to name itself.
struct Checked<'a> {
    row: &'a Row<'a>,
    table: &'static str,
    name: String,
}

impl Checked<'_> {
    fn fault(&self, column: &str, problem: impl Into<String>) -> Error {
        Error::journal_row(self.table, self.name.as_str(), column, problem.into())
    }

    fn optional_text(&self, column: &str) -> Result<Option<&str>, Error> {
        match self.row.get_ref(column).map_err(Error::journal_read)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(bytes) if bytes.len() > MAX_JSON_LEN => {
                Err(self.fault(column, format!("{} bytes, more than {MAX_JSON_LEN}", bytes.len())))
            }
            ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| self.fault(column, "not UTF-8")),
            other => Err(self.fault(column, format!("{} where text belongs", other.data_type()))),
        }
    }

    fn text(&self, column: &str) -> Result<&str, Error> {
        self.optional_text(column)?.ok_or_else(|| self.fault(column, "nothing where text belongs"))
    }

    fn json(&self, column: &str) -> Result<Value, Error> {
        serde_json::from_str(self.text(column)?).map_err(|error| self.fault(column, error.to_string()))
    }

    fn optional_json(&self, column: &str) -> Result<Option<Value>, Error> {
        self.optional_text(column)?
            .map(|text| serde_json::from_str(text).map_err(|error| self.fault(column, error.to_string())))
            .transpose()
    }

    fn number(&self, column: &str) -> Result<u64, Error> {
        match self.row.get_ref(column).map_err(Error::journal_read)? {
            ValueRef::Integer(number) => {
                u64::try_from(number).map_err(|_| self.fault(column, format!("{number} is negative")))
            }
            other => Err(self.fault(column, format!("{} where a number belongs", other.data_type()))),
        }
    }

    fn optional_number(&self, column: &str) -> Result<Option<u64>, Error> {
        match self.row.get_ref(column).map_err(Error::journal_read)? {
            ValueRef::Null => Ok(None),
            _ => self.number(column).map(Some),
        }
    }

    fn word<T>(&self, column: &str, known: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        let word = self.text(column)?;
        known(word).ok_or_else(|| {
            self.fault(column, format!("{:?} is no word this version knows", word.chars().take(64).collect::<String>()))
        })
    }

    fn id(&self, column: &str) -> Result<OperationId, Error> {
        OperationId::parse(self.text(column)?).map_err(|error| self.fault(column, error.to_string()))
    }
}

fn read_operation(row: &Row<'_>) -> Result<Operation, Error> {
    let mut row = Checked { row, table: "operations", name: "?".to_owned() };
    row.name = row.text("id")?.chars().take(80).collect();
    let reasons = match row.json("reasons")? {
        Value::Array(reasons) => reasons
            .into_iter()
            .map(|reason| match reason {
                Value::String(reason) => Ok(reason),
                _ => Err(row.fault("reasons", "not a list of texts")),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(row.fault("reasons", "not a list of texts")),
    };
    Ok(Operation {
        id: row.id("id")?,
        kind: row.word("kind", OperationKind::from_word)?,
        group: row.text("grouping")?.to_owned(),
        zone: row.text("zone")?.to_owned(),
        owner: row.text("owner")?.to_owned(),
        specification: row.json("specification")?,
        policies: row.json("policies")?,
        runner: row.text("runner")?.to_owned(),
        state: row.word("state", OperationState::from_word)?,
        cause: row.optional_json("cause")?,
        reasons,
        report: row.optional_json("report")?,
        ended_by: row.optional_text("ended_by")?.map(|_| row.id("ended_by")).transpose()?,
        created_at: row.number("created_at")?,
        updated_at: row.number("updated_at")?,
        look_at: row.optional_number("look_at")?,
        ended_at: row.optional_number("ended_at")?,
    })
}

fn collect<T>(
    connection: &Connection,
    sql: &str,
    parameters: &[String],
    read: impl Fn(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut statement = connection.prepare_cached(sql).map_err(Error::journal_read)?;
    let mut rows = statement.query(params_from_iter(parameters)).map_err(Error::journal_read)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(Error::journal_read)? {
        found.push(read(row)?);
    }
    Ok(found)
}

pub(super) fn operations(connection: &Connection, filter: &OperationFilter) -> Result<Vec<Operation>, Error> {
    let mut sql = format!("select {OPERATION_COLUMNS} from operations where true");
    let mut parameters = Vec::new();
    if !filter.states.is_empty() {
        let states: Vec<_> = filter.states.iter().map(|s| format!("'{s}'")).collect();
        sql.push_str(&format!(" and state in ({})", states.join(", ")));
    }
    if let Some(kind) = filter.kind {
        sql.push_str(&format!(" and kind = '{kind}'"));
    }
    if let Some(group) = &filter.group {
        sql.push_str(" and grouping = ?1");
        parameters.push(group.clone());
    }
    if filter.not_ended {
        sql.push_str(" and ended_by is null");
    }
    if let Some(before) = &filter.before {
        parameters.push(before.as_str().to_owned());
        let id = parameters.len();
        sql.push_str(&format!(
            " and (created_at, rowid) < (select created_at, rowid from operations where id = ?{id})"
        ));
    }
    sql.push_str(" order by created_at desc, rowid desc");
    if let Some(limit) = filter.limit {
        sql.push_str(&format!(" limit {limit}"));
    }
    collect(connection, &sql, &parameters, read_operation)
}

/// How many operations of each state there are.
pub(super) fn counts(connection: &Connection) -> Result<BTreeMap<OperationState, u64>, Error> {
    let found = collect(connection, "select state, count(*) as number from operations group by state", &[], |row| {
        let row = Checked { row, table: "operations", name: "all of one state".to_owned() };
        Ok((row.word("state", OperationState::from_word)?, row.number("number")?))
    })?;
    Ok(found.into_iter().collect())
}

pub(super) fn operation(connection: &Connection, id: &OperationId) -> Result<Operation, Error> {
    collect(
        connection,
        &format!("select {OPERATION_COLUMNS} from operations where id = ?1"),
        &[id.as_str().to_owned()],
        read_operation,
    )?
    .pop()
    .ok_or_else(|| Error::OperationUnknown { operation: id.as_str().to_owned() })
}

/// By the order of writing, and not by the clock, which may have been set back between two processes.
pub(super) fn operations_of_resource(connection: &Connection, resource_id: &str) -> Result<Vec<Operation>, Error> {
    collect(
        connection,
        &format!(
            "select {OPERATION_COLUMNS} from operations
             where id in (select operation from entries where resource_id = ?1)
             order by rowid desc"
        ),
        &[resource_id.to_owned()],
        read_operation,
    )
}

/// The operations on the Mac with this id or this claim, the newest first.
pub(super) fn operations_of_machine(connection: &Connection, text: &str) -> Result<Vec<Operation>, Error> {
    collect(
        connection,
        &format!(
            "select {OPERATION_COLUMNS} from operations
             where kind in ('adopt-machine', 'order-machine', 'release-machine')
               and (id in (select operation from entries
                           where resource_id = ?1 and resource_kind = 'apple-silicon-server')
                    or case when json_valid(specification)
                            then coalesce(json_extract(specification, '$.claim') = ?1, false) else false end)
             order by rowid desc"
        ),
        &[text.to_owned()],
        read_operation,
    )
}

/// The creations of servers that have this id or name, or made this address.
pub(super) fn creations_named(connection: &Connection, text: &str) -> Result<Vec<Operation>, Error> {
    // Only an address is looked for among the entries, which are many.
    let by_address = match text.parse::<IpAddr>() {
        Ok(_) => {
            " or id in (select operation from entries
                        where step = 'create-ip' and phase = 'outcome' and json_valid(data)
                          and json_extract(data, '$.address') = ?1)"
        }
        Err(_) => "",
    };
    collect(
        connection,
        &format!(
            "select {OPERATION_COLUMNS} from operations
             where kind = 'create-server'
               and (id = ?1
                    or case when json_valid(specification)
                            then coalesce(json_extract(specification, '$.name') = ?1, false) else false end{by_address})
             order by rowid desc"
        ),
        &[text.to_owned()],
        read_operation,
    )
}

/// The open cleanup of the creation or of the server that this row of a cleanup names. Asked in SQL: a hundred removals
/// at once must not each read the rows of all the others.
pub(super) fn open_cleanup(connection: &Connection, specification: &Value) -> Result<Option<OperationId>, Error> {
    let word = |key: &str| specification.get(key).and_then(Value::as_str);
    let found = collect(
        connection,
        "select id from operations
         where state = 'open' and kind = 'cleanup-server'
           and case when json_valid(specification)
                    then coalesce(json_extract(specification, '$.creation') = ?1, false)
                      or coalesce(json_extract(specification, '$.tagged') = ?1, false)
                      or coalesce(json_extract(specification, '$.server') = ?2, false)
                    else false end
         limit 1",
        // The empty text is nobody's id.
        &[
            word("creation").or_else(|| word("tagged")).unwrap_or_default().to_owned(),
            word("server").unwrap_or_default().to_owned(),
        ],
        |row| Checked { row, table: "operations", name: "?".to_owned() }.id("id"),
    )?;
    Ok(found.into_iter().next())
}

/// Whether an entry is about this volume as one of Block Storage or of the Instance API.
pub(super) fn has_placed(connection: &Connection, volume: &str) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached(
            "select exists (select 1 from entries
             where resource_id = ?1 and resource_kind in ('block-volume', 'local-volume'))",
        )
        .map_err(Error::journal_read)?;
    statement.query_row([volume], |row| row.get(0)).map_err(Error::journal_read)
}

/// Whether an entry says that this resource was kept on purpose.
pub(super) fn is_kept(connection: &Connection, resource_id: &str) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached(
            "select exists (select 1 from entries
             where resource_id = ?1 and step = ?2 and phase = 'note')",
        )
        .map_err(Error::journal_read)?;
    statement.query_row([resource_id, KEPT], |row| row.get(0)).map_err(Error::journal_read)
}

/// How often an operation was taken up, and when it is tried again: the data of the last note that says so.
pub(super) fn last_try(connection: &Connection, id: &OperationId) -> Result<Option<(u32, u64)>, Error> {
    let found = collect(
        connection,
        "select data from entries where operation = ?1 and step = ?2 and phase = 'note' order by sequence desc limit 1",
        &[id.as_str().to_owned(), TAKEN_UP.to_owned()],
        |row| {
            let row = Checked { row, table: "entries", name: id.to_string() };
            let data = row.json("data")?;
            let number = |key: &str| data.get(key).and_then(Value::as_u64);
            match (number("tries").and_then(|tries| u32::try_from(tries).ok()), number("next-try")) {
                (Some(tries), Some(next_try)) => Ok((tries, next_try)),
                _ => Err(row.fault("data", "no tries, or no next-try")),
            }
        },
    )?;
    Ok(found.into_iter().next())
}

/// The operation that was abandoned with this resource, while no other operation has removed what that one made.
pub(super) fn abandoned_by(connection: &Connection, resource_id: &str) -> Result<Option<OperationId>, Error> {
    let found = collect(
        connection,
        "select id from operations
         where id in (select operation from entries where resource_id = ?1 and step = ?2 and phase = 'note')
           and state = 'abandoned' and ended_by is null
         limit 1",
        &[resource_id.to_owned(), ABANDONED.to_owned()],
        |row| Checked { row, table: "operations", name: "?".to_owned() }.id("id"),
    )?;
    Ok(found.into_iter().next())
}

/// What was abandoned and no other operation has removed, by id. There are few, so that a whole listing asks once.
pub(super) fn abandoned(connection: &Connection) -> Result<HashSet<String>, Error> {
    let mut statement = connection
        .prepare_cached(
            "select resource_id from operations join entries on entries.operation = operations.id
             where state = 'abandoned' and ended_by is null and step = ?1 and phase = 'note'
               and resource_id is not null",
        )
        .map_err(Error::journal_read)?;
    statement.query_map([ABANDONED], |row| row.get(0)).and_then(Iterator::collect).map_err(Error::journal_read)
}

/// Those of these operations that somebody has cancelled.
pub(super) fn cancelled(connection: &Connection, operations: &[OperationId]) -> Result<Vec<OperationId>, Error> {
    let mut statement = connection
        .prepare_cached("select exists (select 1 from entries where operation = ?1 and phase = 'note' and step = ?2)")
        .map_err(Error::journal_read)?;
    let mut cancelled = Vec::new();
    for id in operations {
        if statement.query_row([id.as_str(), CANCELLED], |row| row.get(0)).map_err(Error::journal_read)? {
            cancelled.push(id.clone());
        }
    }
    Ok(cancelled)
}

/// The servers that the outcomes of a creation name. In SQL: each list of machines asks it of every machine.
pub(super) fn servers_made(connection: &Connection, id: &OperationId) -> Result<Vec<String>, Error> {
    let mut statement = connection
        .prepare_cached(
            "select resource_id from entries
             where operation = ?1 and step = 'create-server' and phase = 'outcome' and resource_kind = 'server'",
        )
        .map_err(Error::journal_read)?;
    statement.query_map([id.as_str()], |row| row.get(0)).and_then(Iterator::collect).map_err(Error::journal_read)
}

pub(super) fn entries(connection: &Connection, id: &OperationId) -> Result<Vec<Entry>, Error> {
    collect(
        connection,
        &format!(
            "select sequence, step, phase, resource_kind, resource_id, resource_zone, resource_server, data, at
             from entries where operation = ?1 order by sequence limit {ENTRIES}"
        ),
        &[id.as_str().to_owned()],
        |row| {
            let mut row = Checked { row, table: "entries", name: id.to_string() };
            let sequence = row.number("sequence")?;
            row.name = format!("{id}/{sequence}");
            let resource = match row.optional_text("resource_id")? {
                None => None,
                Some(resource_id) => Some(ResourceName {
                    kind: row.word("resource_kind", ResourceKind::from_word)?,
                    id: resource_id.to_owned(),
                    zone: row.text("resource_zone")?.to_owned(),
                    server: row.optional_text("resource_server")?.map(str::to_owned),
                }),
            };
            Ok(Entry {
                sequence,
                step: row.text("step")?.to_owned(),
                phase: row.word("phase", Phase::from_word)?,
                resource,
                data: row.json("data")?,
                at: row.number("at")?,
            })
        },
    )
}
