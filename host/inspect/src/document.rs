//! What all documents for programs have in common: an envelope with a version, the case of keys, the form of times.

use jiff::Timestamp;
use serde::Serialize;
use serde::ser::Error as _;
use serde_json::{Error, Map, Value};

/// The version of every document. It grows if a field is removed or changes its meaning; new fields do not change it.
pub const FORMAT_VERSION: u32 = 1;

/// Fields whose values keep their own spelling.
pub const VERBATIM: [&str; 20] = [
    // From the contract in `wit/`.
    "answer",
    "answer_after",
    "answer_before",
    "arguments",
    "cause",
    "changes",
    "failure",
    "fixture",
    "last_index",
    "problems",
    "question",
    "steps",
    // A JSON Schema.
    "settings_schema",
    // Scaleway's.
    "private_nics",
    "volumes",
    // What hooks get, and a user's file.
    "input",
    "specification",
    // Keys in these are a user's names, or ids.
    "counts",
    "environment",
    "why",
];

/// A result of a command, or one of the lines before it.
///
/// Keys are in `snake_case`, times in RFC 3339, in UTC and with milliseconds. What is stored can be otherwise: records
/// have the case of the contract, and journals have milliseconds, which sort and subtract.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// What it is: the words of the command that prints it.
    document: String,
    format_version: u32,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Document {
    /// The document of this name with the fields of `content`.
    ///
    /// # Errors
    /// `content` is no struct or map, or it cannot be written as JSON.
    pub fn new(name: impl Into<String>, content: &impl Serialize) -> Result<Self, Error> {
        match spelt(serde_json::to_value(content)?) {
            Value::Object(fields) => Ok(Self { document: name.into(), format_version: FORMAT_VERSION, fields }),
            other => Err(Error::custom(format!("a document has fields, and this is {other}"))),
        }
    }
}

fn spelt(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(spelt_field).collect()),
        Value::Array(items) => Value::Array(items.into_iter().map(spelt).collect()),
        other => other,
    }
}

fn spelt_field((key, value): (String, Value)) -> (String, Value) {
    let key = key.replace('-', "_");
    let time = match key.strip_suffix("_ms").unwrap_or(&key) {
        "next_try" => Some("next_try_at"),
        time if is_time(time) => Some(time),
        _ => None,
    };
    match time {
        Some(time) => (time.to_owned(), rfc3339(&value).map_or(value, Value::String)),
        None if VERBATIM.contains(&key.as_str()) => (key, value),
        None => (key, spelt(value)),
    }
}

/// Whether a field of this name holds a time.
pub fn is_time(key: &str) -> bool {
    key == "at" || key.ends_with("_at")
}

/// Milliseconds since 1970, or a time in any form of RFC 3339, as documents have it.
fn rfc3339(value: &Value) -> Option<String> {
    let time = match value {
        Value::Number(milliseconds) => Timestamp::from_millisecond(milliseconds.as_i64()?).ok()?,
        Value::String(text) => text.parse().ok()?,
        _ => return None,
    };
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(content: &Value) -> Value {
        Value::Object(Document::new("test", content).unwrap().fields)
    }

    #[test]
    fn a_document_begins_with_its_name_and_its_version() {
        let text = serde_json::to_string(&Document::new("server list", &json!({ "a": 1 })).unwrap()).unwrap();
        assert_eq!(text, r#"{"document":"server list","format_version":1,"a":1}"#);
        assert!(Document::new("numbers", &[1, 2]).unwrap_err().to_string().contains("[1,2]"));
    }

    #[test]
    fn keys_are_in_snake_case_at_every_depth() {
        let stored = json!({ "decided-by": [{ "log-dropped": 1 }], "outcome": { "decided-part": { "deferred": 2 } } });
        let printed = json!({ "decided_by": [{ "log_dropped": 1 }], "outcome": { "decided_part": { "deferred": 2 } } });
        assert_eq!(fields(&stored), printed);
    }

    #[test]
    fn what_others_spell_keeps_its_case_and_its_numbers() {
        for key in VERBATIM {
            let theirs = json!({ key: { "web-1": { "error-type": 5, "at": 7 } } });
            assert_eq!(fields(&theirs), theirs);
        }
    }

    #[test]
    fn times_are_in_rfc_3339_whatever_form_they_are_stored_in() {
        let stored = json!({
            "at-ms": 0,
            "created_at": 1_796_000_000_120_u64,
            "removed_at": "2026-11-28T19:17:01.5+01:00",
            "entries": [{ "at": 1, "next-try": 2 }],
        });
        let printed = json!({
            "at": "1970-01-01T00:00:00.000Z",
            "created_at": "2026-11-30T00:53:20.120Z",
            "removed_at": "2026-11-28T18:17:01.500Z",
            "entries": [{ "at": "1970-01-01T00:00:00.001Z", "next_try_at": "1970-01-01T00:00:00.002Z" }],
        });
        assert_eq!(fields(&stored), printed);
    }

    #[test]
    fn what_is_no_time_is_left_as_it_is() {
        let other = json!({ "look_at": null, "ended_at": "unknown", "took_ms": 5, "began": true, "state": "at" });
        assert_eq!(fields(&other), other);
    }
}
