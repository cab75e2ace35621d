//! A page of a schema: a section for each document, and for each part that several have.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::shape::definition;
use crate::{cell, wrapped};

/// Documents of the same fields, in one section.
struct Section<'s> {
    names: Vec<&'s str>,
    schema: &'s Value,
}

pub(super) fn sections(schema: &Value) -> String {
    let definitions = &schema["$defs"];
    let choices = schema["allOf"].as_array().into_iter().flatten();
    let mut documents: Vec<Section> = Vec::new();
    for name in choices.filter_map(|choice| choice["if"]["properties"]["document"]["const"].as_str()) {
        let own = &definitions[definition(name)];
        // A document that is the same as another one refers to it.
        let target = own["$ref"].as_str().map_or_else(|| definition(name), defined_at);
        let schema = &definitions[&target];
        let same = |section: &&mut Section| without_note(section.schema) == without_note(schema) && has_fields(schema);
        match documents.iter_mut().find(same) {
            Some(section) => section.names.push(name),
            None => documents.push(Section { names: vec![name], schema }),
        }
    }
    let headings: BTreeMap<String, String> = documents
        .iter()
        .flat_map(|section| section.names.iter().map(|name| (definition(name), heading(&section.names))))
        .collect();
    let parts: Vec<(String, &Value)> = definitions
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !headings.contains_key(*name))
        .map(|(name, part)| (title(name), part))
        .collect();
    let page = Page { headings };

    let mut text = "\n## Fields of every document\n".to_owned();
    page.table(schema, &["document", "format_version"], &mut text);
    text += "\n## Documents\n";
    for Section { names, schema } in documents {
        let _ = write!(text, "\n### {}\n", heading(&names));
        for name in &names {
            if let Some(note) = definitions[definition(name)]["description"].as_str() {
                let subject = if names.len() > 1 { format!("`{name}`: ") } else { String::new() };
                let _ = write!(text, "\n{}\n", wrapped(&sentence(&format!("{subject}{note}"))));
            }
        }
        page.table(schema, &[], &mut text);
    }
    text += "\n## Parts\n";
    for (title, part) in parts {
        let _ = write!(text, "\n### {title}\n");
        if let Some(note) = part["description"].as_str() {
            let _ = write!(text, "\n{}\n", wrapped(&sentence(note)));
        }
        page.table(part, &[], &mut text);
    }
    text
}

struct Page {
    /// The heading of each document, by the name of its definition.
    headings: BTreeMap<String, String>,
}

/// Fields of an object, of the same type and note.
struct Row {
    object: String,
    paths: Vec<String>,
    kind: String,
    note: String,
}

impl Page {
    fn table(&self, schema: &Value, left_out: &[&str], text: &mut String) {
        let mut rows = Vec::new();
        self.rows(schema, "", left_out, &mut rows);
        if rows.is_empty() {
            return;
        }
        let has_notes = rows.iter().any(|row| !row.note.is_empty());
        *text +=
            if has_notes { "\n| field | type | meaning |\n|---|---|---|\n" } else { "\n| field | type |\n|---|---|\n" };
        for Row { paths, kind, note, .. } in rows {
            let note = if has_notes { format!(" {} |", cell(&note)) } else { String::new() };
            let _ = writeln!(text, "| `{}` | {kind} |{}", paths.join("`, `"), note.replace("  |", " |"));
        }
    }

    /// The fields of an object. Its own row is left out where theirs say enough.
    fn rows(&self, schema: &Value, above: &str, left_out: &[&str], rows: &mut Vec<Row>) {
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (key, field) in fields.filter(|(key, _)| !left_out.contains(&key.as_str())) {
            let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            let mut notes: Vec<&str> = field["description"].as_str().into_iter().collect();
            let (mut inner, mut below, mut is_plain) = (field, path.clone(), true);
            loop {
                is_plain &= types(inner).count() == 1;
                (inner, below) = match (inner.get("items"), inner.get("additionalProperties")) {
                    (Some(items), _) => (items, below + "[]"),
                    (_, Some(values)) => (values, below + ".*"),
                    _ => break,
                };
                notes.extend(inner["description"].as_str());
            }
            let (kind, note) = (self.kind(field), notes.join(": "));
            match rows.last_mut() {
                _ if is_plain && has_fields(inner) && note.is_empty() => {}
                Some(last) if last.object == above && last.kind == kind && last.note == note => last.paths.push(path),
                _ => rows.push(Row { object: above.to_owned(), paths: vec![path], kind, note }),
            }
            self.rows(inner, &below, &[], rows);
        }
    }

    /// A type, in short.
    fn kind(&self, schema: &Value) -> String {
        if let Some(part) = schema["$ref"].as_str().map(defined_at) {
            let name = part.replace('-', " ");
            let heading = self.headings.get(&part).cloned().unwrap_or_else(|| title(&part));
            return format!("[{name}](#{})", anchor(&heading));
        }
        if schema["format"] == "date-time" {
            return "time".to_owned();
        }
        let of = |key: &str| schema.get(key).map(|inner| self.kind(inner)).filter(|kind| kind != "any");
        let kinds = types(schema).map(|kind| match kind {
            "string" => "text".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "array" => of("items").map_or("list".to_owned(), |kind| format!("list of {kind}")),
            "object" => of("additionalProperties").map_or("object".to_owned(), |kind| format!("map of {kind}")),
            kind => kind.to_owned(),
        });
        let kinds: Vec<String> = kinds.collect();
        if kinds.is_empty() { "any".to_owned() } else { kinds.join(" or ") }
    }
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let types = schema["type"].as_array().into_iter().flatten();
    types.filter_map(Value::as_str).filter(|kind| *kind != "null")
}

fn has_fields(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn without_note(schema: &Value) -> Value {
    let mut schema = schema.clone();
    schema.as_object_mut().map(|fields| fields.remove("description"));
    schema
}

/// The name of the definition that a reference leads to.
fn defined_at(reference: &str) -> String {
    reference.trim_start_matches("#/$defs/").to_owned()
}

/// `` `cluster create`, `cluster scale` ``.
fn heading(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A part's heading: `Cluster operation`.
fn title(part: &str) -> String {
    let mut letters = part.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).map(|letter| if letter == '-' { ' ' } else { letter }).collect()
}

/// The name by which a section is linked to.
fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    letters.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// A note as a sentence: with a capital, unless it begins with code, and a full stop.
fn sentence(note: &str) -> String {
    let end = if note.ends_with('.') { "" } else { "." };
    let mut letters = note.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    format!("{}{}{end}", first.into_iter().collect::<String>(), letters.as_str())
}
