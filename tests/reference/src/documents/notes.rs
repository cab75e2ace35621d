//! What documents do not show of themselves: which of their objects are the same thing, what fields mean, and fields
//! that no test prints.

use super::Documents;
use super::shape::Shape;

/// Objects that several documents have: a name, and the fields by which one is recognized; the first that fits counts.
/// Without fields, only notes say where it is. The name is that of a document where it is a whole document.
pub type Parts = &'static [(&'static str, &'static [&'static str])];

/// Names of documents or parts, paths of their fields, a kind and a meaning.
///
/// - The name `*` stands for all that have a field of this name without another note, the empty name for every document.
/// - Paths are like `servers[].name` and `counts{}.before`. The empty path is the whole document.
/// - The kind is empty where the documents show it. Otherwise it is `text`, `number`, `integer`, `boolean`, `time`,
///   `any` or the name of a part.
/// - The meaning can be empty, and can have links.
///
/// Between several names or paths there is `, `.
pub type Notes = &'static [(&'static str, &'static str, &'static str, &'static str)];

impl Documents {
    /// Takes out what several documents share, and adds what the notes say. Gives what is wrong with the notes.
    pub fn describe(&mut self, parts: Parts, notes: Notes) -> Vec<String> {
        for shape in self.documents.values_mut() {
            for field in ["document", "format_version"] {
                shape.fields.remove(field);
            }
            if let Some(error) = shape.fields.remove("error") {
                self.common.fields.entry("error".to_owned()).or_default().merge(error);
            }
        }
        for shape in self.documents.values_mut().chain([&mut self.common]) {
            shape.share(parts, &mut self.parts);
        }
        let mut wrong = Vec::new();
        for (names, paths, kind, meaning) in notes.iter().filter(|(names, ..)| *names != "*") {
            let mut is_needed = kind.is_empty();
            for (name, path) in names.split(", ").flat_map(|name| paths.split(", ").map(move |path| (name, path))) {
                match self.add_note(name, path, kind, meaning, parts) {
                    Ok(is_new) => is_needed |= is_new,
                    Err(problem) => {
                        is_needed = true;
                        wrong.push(format!("{name}, {path}: {problem}"));
                    }
                }
            }
            if !is_needed {
                wrong.push(format!("{names}, {paths}: documents show it: leave out the kind {kind:?}"));
            }
        }
        for (_, keys, _, meaning) in notes.iter().filter(|(names, ..)| *names == "*") {
            for key in keys.split(", ") {
                if !self.shapes().fold(false, |is_used, (_, shape)| shape.note_all(key, meaning) | is_used) {
                    wrong.push(format!("*, {key}: there is no such field without another note"));
                }
            }
        }
        let mut unknown = Vec::new();
        self.shapes().for_each(|(name, shape)| shape.unknown(&name, &mut unknown));
        wrong.extend(unknown.into_iter().map(|place| format!("{place}: no document shows what it is: give it a kind")));
        wrong
    }

    /// Every document, every part, and what all documents have.
    fn shapes(&mut self) -> impl Iterator<Item = (String, &mut Shape)> {
        let documents = self.documents.iter_mut().map(|(name, shape)| (name.clone(), shape));
        let parts = self.parts.iter_mut().map(|(name, shape)| ((*name).to_owned(), shape));
        documents.chain(parts).chain([(String::new(), &mut self.common)])
    }

    /// Whether the kind is new.
    fn add_note(
        &mut self,
        name: &str,
        path: &str,
        kind: &str,
        meaning: &'static str,
        parts: Parts,
    ) -> Result<bool, String> {
        let shape = match parts.iter().find(|(part, _)| *part == name) {
            _ if name.is_empty() => &mut self.common,
            Some((part, _)) => self.parts.entry(part).or_default(),
            None if path.is_empty() || !kind.is_empty() => self.documents.entry(name.to_owned()).or_default(),
            None => self.documents.get_mut(name).ok_or("there is no such document")?,
        };
        let before = shape.clone();
        if !kind.is_empty() {
            shape.declare(path, kind, parts)?;
        }
        let is_new = *shape != before;
        let place = shape.find(path).ok_or("there is no such field")?;
        if !meaning.is_empty() && place.note.replace(meaning).is_some() {
            return Err("it has another note".to_owned());
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::contradictions;

    const PARTS: Parts = &[("node", &["role"]), ("gone node", &[])];

    fn documents() -> Documents {
        let mut documents = Documents::default();
        for (name, fields) in [
            ("node list", json!({ "nodes": [{ "name": "a", "role": "made", "left": [] }] })),
            ("node show", json!({ "node": { "name": "a", "role": "made" }, "operation": null })),
        ] {
            documents.add(&document(name, fields));
        }
        documents
    }

    fn document(name: &str, mut fields: Value) -> Value {
        fields["document"] = json!(name);
        fields["format_version"] = json!(windlass_inspect::document::FORMAT_VERSION);
        fields
    }

    const NOTES: Notes = &[
        ("", "notes[]", "text", ""),
        ("*", "name", "", "of [the server](servers.md)"),
        ("node", "left[], zone", "text", ""),
        ("node list", "gone[]", "gone node", "no longer there"),
        ("gone node", "name", "text", ""),
        ("node show", "operation", "integer", "its `number`"),
        ("node show", "counts{}.wanted", "integer", ""),
    ];

    #[test]
    fn what_documents_share_stands_once_with_its_notes() {
        let mut documents = documents();
        assert_eq!(documents.describe(PARTS, NOTES), [""; 0]);
        let schema = documents.schema("Test");
        let definitions = &schema["$defs"];
        assert_eq!(definitions["node-list"]["properties"]["nodes"]["items"], json!({ "$ref": "#/$defs/node" }));
        assert_eq!(definitions["node-show"]["properties"]["node"], json!({ "$ref": "#/$defs/node" }));
        assert_eq!(definitions["node"]["properties"]["name"]["description"], "of the server");
        assert_eq!(definitions["gone-node"]["properties"]["name"]["type"], json!(["string", "null"]));

        let wrong = |fields: Value| contradictions(&schema, &document("node show", fields)).len();
        assert_eq!(wrong(json!({ "node": { "name": "a", "left": ["b"] }, "counts": { "web": { "wanted": 1 } } })), 0);
        assert_eq!(wrong(json!({ "node": { "zone": 1 } })), 1);
        assert_eq!(wrong(json!({ "counts": { "web": { "wanted": "1" } } })), 1);
        assert_eq!(wrong(json!({ "notes": [1] })), 1);
    }

    #[test]
    fn the_page_has_a_section_for_each_document_and_each_part() {
        let mut documents = documents();
        documents.describe(PARTS, NOTES);
        assert_eq!(
            documents.sections().replace("|---|---|---|\n", "").replace("|---|---|\n", ""),
            "
## Fields of every document

| field | type |
| `notes` | list of text |

## Documents

### `node list`

| field | type | meaning |
| `gone` | list of [gone node](#gone-node) | no longer there |
| `nodes` | list of [node](#node) | |

### `node show`

| field | type | meaning |
| `counts.*.wanted` | number | |
| `node` | [node](#node) | |
| `operation` | number | its `number` |

## Parts

### Gone node

| field | type | meaning |
| `name` | text | of [the server](servers.md) |

### Node

| field | type | meaning |
| `left` | list of text | |
| `name` | text | of [the server](servers.md) |
| `role`, `zone` | text | |
"
        );
    }

    #[test]
    fn notes_about_nothing_and_fields_about_which_nothing_is_known_are_found() {
        let mut documents = documents();
        let wrong = documents.describe(
            PARTS,
            &[
                ("node delete", "name", "", "no such document"),
                ("node show", "name", "", "no such field"),
                ("node show", "node.name", "", "a field of the part"),
                ("node show", "node.zone", "text", "a field of the part"),
                ("node", "name", "text", "documents show it"),
                ("node", "role", "", "one note"),
                ("node", "role", "", "another note"),
                ("node", "zone", "word", "no such kind"),
                ("*", "zones", "", "no such field"),
            ],
        );
        assert_eq!(
            wrong,
            [
                "node delete, name: there is no such document",
                "node show, name: there is no such field",
                "node show, node.name: there is no such field",
                "node show, node.zone: it is in \"node\"",
                "node, name: documents show it: leave out the kind \"text\"",
                "node, role: it has another note",
                "node, zone: there is no kind \"word\"",
                "*, zones: there is no such field without another note",
                "node show.operation: no document shows what it is: give it a kind",
                "node.left: no document shows what it is: give it a kind",
            ]
        );
    }
}
