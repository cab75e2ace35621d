//! The same world with a hostile text wherever text from outside can stand: each another one, drawn from one seed.

use std::path::Path;

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::many::Draw;

/// A mark that no page has of itself. What runs sets a variable of this name.
const MARK: &str = "q7z";
/// Pieces of which something else than text could be made.
const PIECES: [&str; 16] = [
    "<script>window.q7z=1</script>",
    "</title><svg onload=window.q7z=1>",
    "<img src=x onerror=window.q7z=1>",
    "\" onmouseover=\"window.q7z=1",
    "' autofocus onfocus='window.q7z=1",
    "-->",
    "</style><style>*{display:none}</style>",
    "</pre></td></table></main>",
    "<iframe srcdoc='<script>parent.q7z=1</script>'>",
    "]]>",
    "&lt;b&gt;&#60;i&#62;",
    "javascript:window.q7z=1",
    "\u{202e}\u{1b}[2J",
    "{{7*7}}${7*7}",
    "<base href=https://example.com>",
    "\u{feff}ünïcödé\u{0301}",
];
/// Keys of JSON whose text comes from outside.
const KEYS: [&str; 19] = [
    "reason",
    "reasons",
    "message",
    "output",
    "why",
    "problem",
    "label",
    "summary",
    "source",
    "failure",
    "error-type",
    "path",
    "left",
    "decided-by",
    "words",
    "image",
    "name",
    "program",
    "command",
];

struct Texts {
    draw: Draw,
    count: usize,
}

impl Texts {
    /// The next one, with its number, so that it can be told from all others.
    fn next(&mut self) -> String {
        self.count += 1;
        let pieces = 1 + self.draw.next(4);
        let text: String = (0..pieces).map(|_| PIECES[self.draw.next(PIECES.len())]).collect();
        format!("{MARK}{:05}{text}{MARK}", self.count)
    }

    /// Replaces what comes from outside within a value. An object under such a key is walked, not replaced.
    fn put(&mut self, value: &mut Value, hostile: bool) {
        match value {
            // The word for the last resort, where a policy would be named.
            Value::String(text) if text == "keep" => {}
            Value::String(text) if hostile => *text = self.next(),
            Value::Array(values) => values.iter_mut().for_each(|value| self.put(value, hostile)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    let named = KEYS.contains(&key.as_str());
                    self.put(value, named);
                }
            }
            _ => {}
        }
    }
}

/// Copies the world and makes it hostile. How many texts there are.
pub(crate) fn copy(from: &Path, to: &Path) -> usize {
    let mut texts = Texts { draw: Draw(7_474), count: 0 };
    let name = "journal.sqlite";
    let source = Connection::open(from.join(name)).unwrap();
    source.execute("vacuum into ?1", [to.join(name).to_str().unwrap()]).unwrap();
    let copied = Connection::open(to.join(name)).unwrap();
    journal(&copied, &mut texts);
    clusters(&copied, &mut texts);
    for folder in ["decisions", "policy-changes", "sweeps"] {
        std::fs::create_dir(to.join(folder)).unwrap();
        for entry in std::fs::read_dir(from.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let lines: Vec<String> = text.lines().map(|line| line_of(line, &mut texts)).collect();
            std::fs::write(to.join(folder).join(path.file_name().unwrap()), lines.join("\n") + "\n").unwrap();
        }
    }
    texts.count
}

fn line_of(line: &str, texts: &mut Texts) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    texts.put(&mut value, false);
    match value.get("id").and_then(Value::as_str).map(str::to_owned) {
        // The id comes first in a line of the decision log.
        Some(id) => {
            value.as_object_mut().unwrap().remove("id");
            format!("{{\"id\":\"{id}\",{}", &value.to_string()[1..])
        }
        None => value.to_string(),
    }
}

fn json(text: Option<String>, texts: &mut Texts, hostile: bool) -> Option<String> {
    let mut value: Value = serde_json::from_str(&text?).unwrap();
    texts.put(&mut value, hostile);
    Some(value.to_string())
}

type Row = (String, String, String, Option<String>, Option<String>, String);

fn journal(connection: &Connection, texts: &mut Texts) {
    // Those that are looked at: the newest.
    let rows: Vec<Row> = {
        let sql = "select id, reasons, specification, cause, report, policies from operations
                       order by created_at desc limit 600";
        let mut found = connection.prepare(sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        found.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    connection.execute_batch("begin").unwrap();
    for (id, reasons, specification, cause, report, _) in rows {
        connection
            .execute(
                "update operations set grouping = ?2, owner = ?3, runner = ?4, zone = ?5, reasons = ?6, specification = ?7,
                     cause = ?8, report = ?9 where id = ?1",
                params![
                    id,
                    texts.next(),
                    texts.next(),
                    texts.next(),
                    texts.next(),
                    json(Some(reasons), texts, true),
                    json(Some(specification), texts, false),
                    json(cause, texts, false),
                    json(report, texts, false),
                ],
            )
            .unwrap();
        let entries: Vec<(i64, String)> = {
            let mut found = connection.prepare("select sequence, data from entries where operation = ?1").unwrap();
            let rows = found.query_map([&id], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        for (sequence, data) in entries {
            connection
                .execute(
                    "update entries set data = ?3, resource_id = case when resource_id is null then null else ?4 end
                     where operation = ?1 and sequence = ?2",
                    params![id, sequence, json(Some(data), texts, false), texts.next()],
                )
                .unwrap();
        }
    }
    connection.execute_batch("commit").unwrap();
}

fn clusters(connection: &Connection, texts: &mut Texts) {
    for (table, column) in [
        ("clusters", "document"),
        ("cluster_nodes", "document"),
        ("cluster_operations", "document"),
        ("cluster_events", "what"),
    ] {
        let rows: Vec<(i64, String)> = {
            // Two of the tables have no row id: they are told by their whole document.
            let sql = format!("select 0, {column} from {table}");
            let mut found = connection.prepare(&sql).unwrap();
            let rows = found.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
            rows.collect::<Result<_, _>>().unwrap()
        };
        for (_, document) in rows {
            let mut value: Value = serde_json::from_str(&document).unwrap();
            // The name of a cluster, a node and a hook's program are held to their own rules.
            let names: Vec<_> = ["name", "command"].map(|key| value.get(key).cloned()).to_vec();
            texts.put(&mut value, false);
            for (key, name) in ["name", "command"].into_iter().zip(names) {
                if let (Some(name), Some(fields)) = (name, value.as_object_mut()) {
                    fields.insert(key.to_owned(), name);
                }
            }
            if let Some(specification) = value.get_mut("specification") {
                let before: Value = serde_json::from_str::<Value>(&document).unwrap()["specification"].clone();
                *specification = before;
            }
            let sql = format!("update {table} set {column} = ?2 where {column} = ?1");
            connection.execute(&sql, params![document, value.to_string()]).unwrap();
        }
    }
}
