//! Damaged rows.
//!
//! An input has the fields of an operation, then those of its entries, between lines of two dashes; each field on a
//! line: `state open`. What is not given has a good value.

use serde_json::{Value, json};

use super::note::Record;
use super::{Entry, Operation, Phase, read_entries, read_operation};
use crate::Error;
use crate::cleanup::CleanupSpecification;
use crate::log::{Fence, LogEntry, Stream};
use crate::ownership::Claims;
use crate::specification::ServerSpecification;
use crate::sweep::SweepSpecification;
use crate::undo::kept_by;

const MAX_WORDS_LEN: usize = 4 * 1024;
const ID: &str = "ci-k3v9q20mfz7a";

const OPERATION: [(&str, &str); 16] = [
    ("id", ID),
    ("kind", "create-server"),
    ("group", "ci"),
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
const ENTRY: [(&str, &str); 5] =
    [("step", "create-ip"), ("phase", "note"), ("resource", "null"), ("data", "{}"), ("at", "1790000000000")];

/// A document of these fields.
fn document(fields: &[(&str, &str)], lines: &str) -> Value {
    let value = |field: &str, usual: &str| {
        let given = lines.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(' '));
        let text = given.unwrap_or(usual);
        serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
    };
    fields.iter().map(|(field, usual)| ((*field).to_owned(), value(field, usual))).collect()
}

fn is_short(error: &Error) {
    let words = error.to_string();
    assert!(words.len() <= MAX_WORDS_LEN, "{} bytes: {words}", words.len());
}

fn read<T>(read: Result<T, Error>) -> Option<T> {
    read.inspect_err(is_short).ok()
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
        let id = || ID.to_owned();
        let document_of = |part: usize, fields| document(fields, parts.get(part).copied().unwrap_or_default());
        let operation = Stream { family: id(), id: id(), fence: Fence(1), document: document_of(0, &OPERATION) };
        let entries =
            (1..parts.len()).map(|part| LogEntry { id: id(), number: 1, document: document_of(part, &ENTRY) });
        let entries = read(read_entries(entries.collect())).unwrap_or_default();
        if let Some(operation) = read(read_operation(operation)) {
            understand(&operation, &entries);
        }
    });
}
