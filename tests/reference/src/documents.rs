//! Documents for programs: what they have in common, and the schemas that are made of those that were printed.

mod notes;
mod page;
mod shape;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use windlass_inspect::document::{FORMAT_VERSION, VERBATIM, is_time};

pub use self::notes::{Notes, Parts};
use self::page::sections;
use self::shape::{Shape, definition, reference};
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
pub struct Documents {
    documents: BTreeMap<String, Shape>,
    /// What several of them have.
    parts: BTreeMap<&'static str, Shape>,
    /// What each may have.
    common: Shape,
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
        self.documents.entry(name).or_default().see("", document);
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.documents.keys().map(String::as_str)
    }

    /// One JSON Schema for all of them.
    pub fn schema(&self, title: &str) -> Value {
        self.written(title, false)
    }

    fn written(&self, title: &str, links: bool) -> Value {
        let documents = self
            .documents
            .iter()
            .filter(|(name, shape)| shape.part != Some(name.as_str()))
            .map(|(name, shape)| (name.as_str(), shape));
        let parts = self.parts.iter().map(|(name, shape)| (*name, shape));
        let definitions: Map<String, Value> =
            documents.chain(parts).map(|(name, shape)| (definition(name), shape.schema(links))).collect();
        let choices = self.documents.keys().map(|name| {
            let reference = reference(name);
            json!({ "if": { "properties": { "document": { "const": name } } }, "then": { "$ref": reference } })
        });
        let mut properties = self.common.properties(links);
        properties.insert("document".to_owned(), json!({ "type": "string" }));
        properties.insert("format_version".to_owned(), json!({ "const": FORMAT_VERSION }));
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            "description": "Fields are only ever added within a format version. Any but the required ones can be \
                absent or null.",
            "type": "object",
            "required": ["document", "format_version"],
            "properties": properties,
            "allOf": choices.collect::<Vec<_>>(),
            "$defs": definitions,
        })
    }

    /// The sections of a page about them.
    pub fn sections(&self) -> String {
        sections(&self.written("", true))
    }

    /// Compares the published schema, by its path in the repository, with the one of these documents.
    ///
    /// # Panics
    /// Where they differ.
    pub fn hold(&self, path: &str, title: &str) {
        hold(path, &format!("{:#}\n", self.schema(title)));
    }
}

/// Where a document contradicts a schema of [`Documents::schema`], or has a field that the schema has not.
pub fn contradictions(schema: &Value, document: &Value) -> Vec<String> {
    let name = definition(document["document"].as_str().unwrap_or_default());
    let mut found = Vec::new();
    match schema["$defs"].get(&name) {
        Some(own) => compare_fields(schema, &[schema, resolved(schema, own)], document, "", &mut found),
        None => found.push(format!("there is no schema of {name}")),
    }
    found
}

fn compare(whole: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let schema = resolved(whole, schema);
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| compare(whole, &schema["items"], item, place, found));
            "array"
        }
        Value::Object(_) => {
            compare_fields(whole, &[schema], value, place, found);
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

/// Each field stands in one of the schemas, unless they name none.
fn compare_fields(whole: &Value, schemas: &[&Value], object: &Value, place: &str, found: &mut Vec<String>) {
    for (key, value) in object.as_object().into_iter().flatten() {
        let place = format!("{place}/{key}");
        let named = schemas.iter().find_map(|schema| schema["properties"].get(key));
        match named.or(schemas.iter().find_map(|schema| schema.get("additionalProperties"))) {
            Some(field) => compare(whole, field, value, &place, found),
            None if schemas.iter().any(|schema| schema["properties"].is_object()) => {
                found.push(format!("{place} is not in its schema"));
            }
            None => {}
        }
    }
}

/// What stands at a reference.
fn resolved<'s>(whole: &'s Value, schema: &'s Value) -> &'s Value {
    match schema["$ref"].as_str().and_then(|reference| whole.pointer(reference.strip_prefix('#')?)) {
        Some(definition) => resolved(whole, definition),
        None => schema,
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
        assert!(against(&json!({ "rows": [{ "a": null }], "counts": { "web-1": { "a": 7 } } })).is_empty());
        let wrong = against(&json!({ "rows": [{ "a": "1" }] }));
        assert_eq!(wrong, [r#"/rows/a is of type string, and its schema has [String("number"), String("null")]"#]);
        assert_eq!(against(&json!({ "rows": [{ "b": true }] })), ["/rows/b is not in its schema"]);
    }
}
