//! Keeps the tables of a README true.
//!
//! A table stands between two comments, `<!-- table: NAME -->` and `<!-- end -->`. The test makes the table from the
//! policy itself and compares; with `WINDLASS_BLESS=1` in the environment it writes it instead.

use std::path::Path;

use serde_json::Value;

use crate::Policy;

/// Compares the table `name` in the README at `path` with these rows.
///
/// # Panics
/// When they differ: the message shows the table that would be true and how to write it.
pub fn assert_table(path: impl AsRef<Path>, name: &str, header: &[&str], rows: &[Vec<String>]) {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let begin = format!("<!-- table: {name} -->\n");
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{} lacks {begin}", path.display()));
    let (present, after) =
        rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{}: {begin} has no end", path.display()));
    let table = render(header, rows);
    if present == table {
        return;
    }
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let whole = format!("{before}{begin}{table}<!-- end -->{after}");
        std::fs::write(path, whole).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    panic!(
        "{}: the table `{name}` is not what the policy does; run the test with WINDLASS_BLESS=1 to write \
         this:\n\n{table}\nIt says:\n\n{present}",
        path.display()
    );
}

/// Compares the table `settings` with the policy's own JSON Schema: key, default, meaning.
///
/// # Panics
/// As [`assert_table`].
pub fn assert_settings<P: Policy>(path: impl AsRef<Path>) {
    let schema: Value = serde_json::from_str(&super::settings_schema::<P>()).expect("a JSON Schema is JSON");
    let rows: Vec<Vec<String>> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, property)| {
            let meaning = property["description"].as_str().unwrap_or_default().replace('\n', " ");
            vec![format!("`{key}`"), format!("`{}`", property["default"]), meaning]
        })
        .collect();
    assert_table(path, "settings", &["key", "default", "meaning"], &rows);
}

fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in rows {
        table.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    table
}
