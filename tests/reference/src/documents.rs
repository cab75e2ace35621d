//! Documents for programs: what they have in common, and the schemas that are made of those that were printed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_inspect::document::{FORMAT_VERSION, VERBATIM, is_time};

use crate::hold;

/// Milliseconds since 1970 of any time from 2001 to 2100: no duration is as long.
const MILLISECONDS: std::ops::Range<f64> = 1e12..4.1e12;

/// Looks whether a document has its envelope, and whether its keys and times have the form that all have.
///
/// # Panics
/// Where it does not.
#[track_caller]
pub fn check_document(document: &Value) {
    let mut wrong = Vec::new();
    let name = document["document"].as_str().unwrap_or_default();
    if name.is_empty() || document["format_version"] != FORMAT_VERSION {
        wrong.push("it has no envelope".to_owned());
    }
    look(document, "", &mut wrong);
    assert!(wrong.is_empty(), "{wrong:#?}\n{document}");
}

fn look(value: &Value, place: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = format!("{place}/{key}");
                let is_snake = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
                if !key.chars().all(is_snake) {
                    wrong.push(format!("{place} is not in snake_case"));
                }
                if !VERBATIM.contains(&key.as_str()) {
                    look_at_time(key, value, &place, wrong);
                    look(value, &place, wrong);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| look(item, place, wrong)),
        _ => {}
    }
}

fn look_at_time(key: &str, value: &Value, place: &str, wrong: &mut Vec<String>) {
    let good = match value {
        Value::String(text) => match text.parse::<jiff::Timestamp>() {
            Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string() == *text,
            Err(_) => !is_time(key),
        },
        Value::Number(number) => {
            let is_count =
                ["bytes", "memory", "size"].contains(&key) || key.ends_with("_bytes") || key.ends_with("_ns");
            !is_time(key) && (is_count || !number.as_f64().is_some_and(|number| MILLISECONDS.contains(&number)))
        }
        _ => true,
    };
    if !good {
        wrong.push(format!("{place} has a time in another form: {value}"));
    }
}

/// Documents that were printed, by their names.
#[derive(Default)]
pub struct Documents(BTreeMap<String, Shape>);

/// What was seen at a place.
#[derive(Default)]
struct Shape {
    types: BTreeSet<&'static str>,
    /// Whether it is a time.
    is_time: bool,
    fields: BTreeMap<String, Shape>,
    items: Option<Box<Shape>>,
}

impl Documents {
    /// Takes a document in.
    ///
    /// # Panics
    /// As [`check_document`].
    #[track_caller]
    pub fn add(&mut self, document: &Value) {
        check_document(document);
        let name = document["document"].as_str().unwrap_or_default().to_owned();
        self.0.entry(name).or_default().see("", document);
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// One JSON Schema for all of them.
    pub fn schema(&self, title: &str) -> Value {
        let schema_of = |(name, shape): (&String, &Shape)| (name.replace(' ', "-"), shape.schema());
        let definitions: Map<String, Value> = self.0.iter().map(schema_of).collect();
        let choices = self.0.keys().map(|name| {
            let reference = format!("#/$defs/{}", name.replace(' ', "-"));
            json!({ "if": { "properties": { "document": { "const": name } } }, "then": { "$ref": reference } })
        });
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            "description": "Fields are only ever added within a format version. Any but the required ones can be \
                absent or null.",
            "type": "object",
            "required": ["document", "format_version"],
            "properties": { "document": { "type": "string" }, "format_version": { "const": FORMAT_VERSION } },
            "allOf": choices.collect::<Vec<_>>(),
            "$defs": definitions,
        })
    }

    /// Compares the published schema, by its path in the repository, with the one of these documents.
    ///
    /// # Panics
    /// Where they differ.
    pub fn hold(&self, path: &str, title: &str) {
        hold(path, &format!("{:#}\n", self.schema(title)));
    }
}

impl Shape {
    fn see(&mut self, key: &str, value: &Value) {
        if VERBATIM.contains(&key) {
            return;
        }
        self.is_time = is_time(key);
        self.types.extend(match value {
            Value::Null => None,
            Value::Bool(_) => Some("boolean"),
            Value::Number(number) => Some(if number.is_f64() { "number" } else { "integer" }),
            Value::String(_) => Some("string"),
            Value::Array(items) => {
                items.iter().for_each(|item| self.items.get_or_insert_default().see("", item));
                Some("array")
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(key, value)| self.fields.entry(key.clone()).or_default().see(key, value));
                Some("object")
            }
        });
    }

    fn schema(&self) -> Value {
        let mut schema = Map::new();
        if self.is_time {
            schema.insert("type".to_owned(), json!(["string", "null"]));
            schema.insert("format".to_owned(), json!("date-time"));
        } else if !self.types.is_empty() {
            // Each integer is a number, too.
            let types = self.types.iter().filter(|kind| **kind != "integer" || !self.types.contains("number"));
            let types: Vec<&str> = types.copied().chain(["null"]).collect();
            schema.insert("type".to_owned(), json!(types));
        }
        if !self.fields.is_empty() {
            let fields = self.fields.iter().map(|(key, shape)| (key.clone(), shape.schema()));
            schema.insert("properties".to_owned(), Value::Object(fields.collect()));
        }
        if let Some(items) = &self.items {
            schema.insert("items".to_owned(), items.schema());
        }
        Value::Object(schema)
    }
}

/// Where a document contradicts a schema of [`Documents::schema`].
pub fn contradictions(schema: &Value, document: &Value) -> Vec<String> {
    let name = document["document"].as_str().unwrap_or_default().replace(' ', "-");
    let mut found = Vec::new();
    match schema["$defs"].get(&name) {
        Some(definition) => compare(definition, document, "", &mut found),
        None => found.push(format!("there is no schema of {name}")),
    }
    found
}

fn compare(schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| compare(&schema["items"], item, place, found));
            "array"
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                compare(&schema["properties"][key], value, &format!("{place}/{key}"), found);
            }
            "object"
        }
    };
    let is_integer = value.is_i64() || value.is_u64();
    if let Some(types) = schema["type"].as_array()
        && !types.iter().any(|known| known == kind || (is_integer && known == "integer"))
    {
        found.push(format!("{place} is of type {kind}, and its schema has {types:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(fields: &Value) -> Value {
        let mut document = json!({ "document": "test", "format_version": FORMAT_VERSION });
        let fields = fields.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        document.as_object_mut().into_iter().for_each(|all| all.extend(fields.clone()));
        document
    }

    fn is_wrong(document: Value) -> bool {
        std::panic::catch_unwind(|| check_document(&document)).is_err()
    }

    #[test]
    fn a_document_without_envelope_or_in_another_case_or_with_another_time_is_wrong() {
        assert!(!is_wrong(document(&json!({ "took_ms": 5, "at": "2026-11-28T18:17:01.500Z", "look_at": null }))));
        assert!(!is_wrong(document(&json!({ "question": { "error-type": 1_796_000_000_120_u64 } }))));
        for wrong in [
            json!({ "servers": [] }),
            json!({ "document": "test", "format_version": FORMAT_VERSION + 1 }),
            document(&json!({ "rows": [{ "took-ms": 5 }] })),
            document(&json!({ "tookMs": 5 })),
            document(&json!({ "rows": [{ "created_at": 1_796_000_000_120_u64 }] })),
            document(&json!({ "since": 1_796_000_000_120_u64 })),
            document(&json!({ "created_at": "yesterday" })),
            document(&json!({ "last": "2026-11-28 18:17:01Z" })),
            document(&json!({ "created_at": "2026-11-28T18:17:01.500+00:00" })),
        ] {
            assert!(is_wrong(wrong.clone()), "{wrong}");
        }
    }

    #[test]
    fn a_schema_holds_what_was_seen_and_is_contradicted_by_other_types() {
        let mut documents = Documents::default();
        documents.add(&document(&json!({ "rows": [{ "a": 1 }, { "a": null, "at": "2026-11-28T18:17:01.500Z" }] })));
        documents.add(&document(&json!({ "rows": [{ "a": 0.5 }], "counts": { "web-1": 2 } })));
        let schema = documents.schema("Test");
        let row = &schema["$defs"]["test"]["properties"]["rows"]["items"]["properties"];
        assert_eq!(row["a"], json!({ "type": ["number", "null"] }));
        assert_eq!(row["at"], json!({ "type": ["string", "null"], "format": "date-time" }));
        assert_eq!(schema["$defs"]["test"]["properties"]["counts"], json!({}), "names of users");
        let against = |fields: &Value| contradictions(&schema, &document(fields));
        assert!(against(&json!({ "rows": [{ "a": null, "b": true }], "counts": 7 })).is_empty());
        let wrong = against(&json!({ "rows": [{ "a": "1" }] }));
        assert_eq!(wrong, [r#"/rows/a is of type string, and its schema has [String("number"), String("null")]"#]);
    }
}
