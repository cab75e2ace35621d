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

/// What a table keeps of some families: its keys and its documents.
fn documents(connection: &Connection, sql: &str) -> Vec<(i64, Value)> {
    let mut found = connection.prepare(sql).unwrap();
    let rows = found.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?))).unwrap();
    rows.map(|row| row.map(|(number, text)| (number, serde_json::from_str(&text).unwrap())).unwrap()).collect()
}

fn write(connection: &Connection, table: &str, number: i64, document: &Value) {
    let sql = format!("update {table} set document = ?2 where number = ?1");
    connection.execute(&sql, params![number, document.to_string()]).unwrap();
}

fn journal(connection: &Connection, texts: &mut Texts) {
    // Those that are looked at: the newest.
    let newest = "select number, document from streams where family = 'operation'
                  order by document ->> '$.created_at' desc limit 600";
    connection.execute_batch("begin").unwrap();
    for (number, mut document) in documents(connection, newest) {
        for field in ["group", "owner", "runner", "zone"] {
            document[field] = texts.next().into();
        }
        for field in ["reasons", "specification", "cause", "report"] {
            texts.put(&mut document[field], field == "reasons");
        }
        write(connection, "streams", number, &document);
    }
    let of_them = format!(
        "select number, document from entries where (family, id) in
             (select family, id from streams where number in (select number from ({newest})))"
    );
    for (number, mut document) in documents(connection, &of_them) {
        texts.put(&mut document["data"], false);
        if let Some(id) = document.pointer_mut("/resource/id") {
            *id = texts.next().into();
        }
        write(connection, "entries", number, &document);
    }
    connection.execute_batch("commit").unwrap();
}

fn clusters(connection: &Connection, texts: &mut Texts) {
    for table in ["streams", "entries"] {
        let sql = format!("select number, document from {table} where family glob 'cluster*'");
        for (number, mut document) in documents(connection, &sql) {
            let value = match document.get("cluster").is_some() {
                true => &mut document["cluster"],
                false => &mut document,
            };
            // The name of a cluster, a node and a hook's program are held to their own rules.
            let kept = ["name", "command", "specification"].map(|key| (key, value.get(key).cloned()));
            texts.put(value, false);
            for (key, known) in kept {
                if let (Some(known), Some(fields)) = (known, value.as_object_mut()) {
                    fields.insert(key.to_owned(), known);
                }
            }
            write(connection, table, number, &document);
        }
    }
}
