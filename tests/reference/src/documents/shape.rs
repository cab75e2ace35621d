//! What was seen at a place of documents, and what is known of it besides.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use windlass_inspect::document::{VERBATIM, is_time};

use super::notes::Parts;

/// What was seen at a place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shape {
    types: BTreeSet<&'static str>,
    /// Whether it is a time.
    is_time: bool,
    pub(super) fields: BTreeMap<String, Shape>,
    items: Option<Box<Shape>>,
    /// What its values are where its keys are the users' names.
    values: Option<Box<Shape>>,
    /// The part that it is.
    pub(super) part: Option<&'static str>,
    /// What it means, with links.
    pub(super) note: Option<&'static str>,
}

impl Shape {
    pub(super) fn see(&mut self, key: &str, value: &Value) {
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

    fn children(&mut self) -> impl Iterator<Item = &mut Shape> {
        let inner = [&mut self.items, &mut self.values].into_iter().flatten().map(|shape| &mut **shape);
        self.fields.values_mut().chain(inner)
    }

    /// Puts each object in it that is one of the parts there, and leaves the part's name.
    pub(super) fn share(&mut self, parts: Parts, shared: &mut BTreeMap<&'static str, Shape>) {
        self.children().for_each(|child| child.share(parts, shared));
        let is_known = |fields: &[&str]| fields.iter().all(|field| self.fields.contains_key(*field));
        if let Some((name, _)) = parts.iter().find(|(_, fields)| !fields.is_empty() && is_known(fields)) {
            shared.entry(name).or_default().merge(std::mem::take(self));
            self.part = Some(name);
        }
    }

    pub(super) fn merge(&mut self, other: Shape) {
        self.types.extend(other.types);
        self.is_time |= other.is_time;
        self.part = self.part.or(other.part);
        for (key, shape) in other.fields {
            self.fields.entry(key).or_default().merge(shape);
        }
        for (own, other) in [(&mut self.items, other.items), (&mut self.values, other.values)] {
            if let Some(shape) = other {
                own.get_or_insert_default().merge(*shape);
            }
        }
    }

    /// What is at a path as `servers[].name`. `None`: there is no such place.
    pub(super) fn find(&mut self, path: &str) -> Option<&mut Shape> {
        steps(path).into_iter().try_fold(self, |shape, step| match step {
            "[]" => shape.items.as_deref_mut(),
            "{}" => shape.values.as_deref_mut(),
            key => shape.fields.get_mut(key),
        })
    }

    /// Adds a place that was not seen, or a type that was not seen at it.
    pub(super) fn declare(&mut self, path: &str, kind: &str, parts: Parts) -> Result<(), String> {
        let mut declared = Shape::default();
        match kind {
            "any" => {}
            "text" => drop(declared.types.insert("string")),
            "time" => declared.is_time = true,
            "number" => drop(declared.types.insert("number")),
            "integer" => drop(declared.types.insert("integer")),
            "boolean" => drop(declared.types.insert("boolean")),
            part => match parts.iter().find(|(name, _)| *name == part) {
                Some((name, _)) => declared.part = Some(name),
                None => return Err(format!("there is no kind {kind:?}")),
            },
        }
        let place = steps(path).into_iter().try_fold(self, |shape, step| {
            if let Some(part) = shape.part {
                return Err(format!("it is in {part:?}"));
            }
            shape.types.insert(if step == "[]" { "array" } else { "object" });
            Ok(match step {
                "[]" => shape.items.get_or_insert_default(),
                "{}" => {
                    shape.fields.clear();
                    shape.values.get_or_insert_default()
                }
                key => shape.fields.entry(key.to_owned()).or_default(),
            })
        })?;
        place.merge(declared);
        Ok(())
    }

    /// Gives this note to each field of this name that has none. Whether there is one.
    pub(super) fn note_all(&mut self, name: &str, note: &'static str) -> bool {
        let own = self.fields.get_mut(name).filter(|field| field.note.is_none()).map(|field| field.note = Some(note));
        self.children().fold(own.is_some(), |is_used, child| child.note_all(name, note) | is_used)
    }

    /// Places in it of which neither a type nor a note says what they hold.
    pub(super) fn unknown(&self, place: &str, found: &mut Vec<String>) {
        let fields = self.fields.iter().map(|(key, field)| (format!("{place}.{key}"), field));
        let items = self.items.iter().map(|items| (format!("{place}[]"), &**items));
        let values = self.values.iter().map(|values| (format!("{place}{{}}"), &**values));
        for (place, inner) in fields.chain(items).chain(values) {
            let is_known = inner.part.is_some() || inner.is_time || inner.note.is_some();
            let is_seen = !inner.types.is_empty() && (inner.items.is_some() || !inner.types.contains("array"));
            inner.unknown(&place, found);
            if !is_known && !is_seen {
                found.push(place);
            }
        }
    }

    /// Its JSON Schema. Without `links`, of the links in notes only the words are left.
    pub(super) fn schema(&self, links: bool) -> Value {
        let mut schema = Map::new();
        if let Some(note) = self.note {
            schema.insert("description".to_owned(), if links { json!(note) } else { json!(without_links(note)) });
        }
        if let Some(part) = self.part {
            schema.insert("$ref".to_owned(), json!(reference(part)));
            return Value::Object(schema);
        }
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
            schema.insert("properties".to_owned(), Value::Object(self.properties(links)));
        }
        if let Some(items) = &self.items {
            schema.insert("items".to_owned(), items.schema(links));
        }
        if let Some(values) = &self.values {
            schema.insert("additionalProperties".to_owned(), values.schema(links));
        }
        Value::Object(schema)
    }

    pub(super) fn properties(&self, links: bool) -> Map<String, Value> {
        self.fields.iter().map(|(key, shape)| (key.clone(), shape.schema(links))).collect()
    }
}

/// The definition of a document or a part.
pub(super) fn reference(name: &str) -> String {
    format!("#/$defs/{}", definition(name))
}

pub(super) fn definition(name: &str) -> String {
    name.replace(' ', "-")
}

/// The steps of a path: `servers`, `[]`, `name`.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (key, mut marks) = segment.split_at(segment.find(['[', '{']).unwrap_or(segment.len()));
        steps.push(key);
        while let Some((mark, rest)) = marks.split_at_checked(2) {
            steps.push(mark);
            marks = rest;
        }
    }
    steps
}

fn without_links(note: &str) -> String {
    let mut pieces = note.split("](");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        if let Some(begin) = text.rfind('[') {
            text.remove(begin);
        }
        text.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    text
}
