//! Damaged rows.
//!
//! An input has the columns of an operation, then those of its entries, between lines of two dashes; each column on a
//! line: `state open`. What is not given has a good value.

use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use serde_json::{Value, json};

use super::note::Record;
use super::schema::SCHEMA;
use super::{Entry, Operation, OperationFilter, Phase, read};
use crate::Error;
use crate::cleanup::CleanupSpecification;
use crate::ownership::Claims;
use crate::specification::ServerSpecification;
use crate::sweep::SweepSpecification;
use crate::undo::kept_by;

const MAX_WORDS_LEN: usize = 4 * 1024;
const ID: &str = "ci-k3v9q20mfz7a";

const OPERATION: [(&str, &str); 16] = [
    ("id", ID),
    ("kind", "create-server"),
    ("grouping", "ci"),
    ("zone", "fr-par-1"),
    ("owner", "team"),
    ("specification", "{}"),
    ("policies", "[]"),
    ("runner", "1-abc"),
    ("state", "open"),
    ("cause", "null"),
    ("reasons", "[]"),
    ("report", "null"),
    ("ended_by", "null"),
    ("created_at", "1790000000000"),
    ("updated_at", "1790000000000"),
    ("look_at", "null"),
];
const ENTRY: [(&str, &str); 10] = [
    ("operation", ID),
    ("sequence", "1"),
    ("step", "create-ip"),
    ("phase", "note"),
    ("resource_kind", "null"),
    ("resource_id", "null"),
    ("resource_zone", "null"),
    ("resource_server", "null"),
    ("data", "{}"),
    ("at", "1790000000000"),
];

/// Inserts a row. One that the tables themselves refuse is left out.
fn insert(connection: &Connection, table: &str, columns: &[(&str, &str)], lines: &str) {
    let value = |column: &str, usual: &str| {
        let given = lines.lines().find_map(|line| line.strip_prefix(column)?.strip_prefix(' '));
        let text = given.unwrap_or(usual);
        let is_number = column.ends_with("at") || column == "sequence";
        match text.parse() {
            _ if text == "null" => Stored::Null,
            Ok(number) if is_number => Stored::Integer(number),
            _ => Stored::Text(text.to_owned()),
        }
    };
    let names: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let values = columns.iter().map(|(column, usual)| value(column, usual));
    let _ = connection.execute(
        &format!("insert into {table} ({}) values ({marks})", names.join(", ")),
        rusqlite::params_from_iter(values),
    );
}

/// The tables with these rows, in memory.
fn tables(parts: &[&str]) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    crate::database::prepare(&mut connection, &SCHEMA).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    insert(&connection, "operations", &OPERATION, parts.first().copied().unwrap_or_default());
    for part in parts.iter().skip(1) {
        insert(&connection, "entries", &ENTRY, part);
    }
    connection
}

fn is_short(error: &Error) {
    let words = error.to_string();
    assert!(words.len() <= MAX_WORDS_LEN, "{} bytes: {words}", words.len());
}

fn all(connection: &Connection) -> Vec<(Operation, Vec<Entry>)> {
    let operations = read::operations(connection, &OperationFilter::default()).unwrap_or_else(|error| {
        is_short(&error);
        Vec::new()
    });
    let with_entries = operations.into_iter().map(|operation| {
        let entries = read::entries(connection, &operation.id).unwrap_or_else(|error| {
            is_short(&error);
            Vec::new()
        });
        (operation, entries)
    });
    with_entries.collect()
}

/// What was understood of an entry is written as it can be understood again.
fn is_read_again(record: Record) {
    let note = |(word, data): (String, Value), phase: Phase| Entry {
        sequence: 1,
        step: word,
        phase,
        resource: None,
        data,
        at: 0,
    };
    let again = match &record {
        Record::Begun(step) => note(step.parts(), Phase::Intent).record(),
        Record::Done(step) => note(step.parts(), Phase::Outcome).record(),
        Record::Noted(written) => note(written.parts(), Phase::Note).record(),
        Record::Failed { .. } | Record::About { .. } => return,
    };
    assert_eq!(again.unwrap(), record);
}

fn understand(operation: &Operation, entries: &[Entry]) {
    for entry in entries {
        match entry.record() {
            Ok(record) => is_read_again(record),
            Err(error) => is_short(&error),
        }
    }
    let _ = kept_by(entries).count();
    if let Ok(owner) = operation.owner.parse()
        && let Err(error) = Claims::none(&owner).learn(entries)
    {
        is_short(&error);
    }
    let specification = || operation.specification.clone();
    if let Ok(server) = serde_json::from_value::<ServerSpecification>(specification()) {
        let written = json!(server);
        let again: ServerSpecification = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(json!(again), written);
        if let Err(error) = server.check() {
            is_short(&error);
        }
    }
    let _ = serde_json::from_value::<CleanupSpecification>(specification());
    let _ = serde_json::from_value::<SweepSpecification>(specification());
    let _ = serde_json::to_string(operation).unwrap();
}

#[test]
fn any_row_is_understood_or_refused_in_few_words() {
    windlass_test_fuzz::check("journal", |input| {
        let text = String::from_utf8_lossy(input);
        let parts: Vec<&str> = text.split("\n--\n").collect();
        let connection = tables(&parts);
        all(&connection).iter().for_each(|(operation, entries)| understand(operation, entries));
    });
}
