//! Results on stdout, words on stderr. Colours only where a terminal is at the other end; `NO_COLOR` is honoured.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use clap::ValueEnum;
use serde::Serialize;

use crate::document::Document;
use crate::pager::paged;
use crate::table::{Head, laid_out};
use crate::text::{dim, folded, printable};

/// How results are written on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Table,
    /// The same with more columns: ids, zones, ages, digests. As `table` where a command has none.
    Wide,
    /// For programs: one document, whose fields are described in docs/json-output.md.
    Json,
    /// The same in one line, and before it a line for each event of a cluster's operation.
    JsonLines,
    /// The same document as YAML.
    Yaml,
    /// Names or ids alone, one in a line, of what a command lists; refused by commands that list nothing.
    Name,
}

/// When words are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Color {
    /// Where a terminal is at the other end, and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// Where a text for people is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Results.
    Stdout,
    /// Questions and everything else.
    Stderr,
}

impl Stream {
    /// The columns of its terminal, where it is one.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        let size = match self {
            Stream::Stdout => terminal_size::terminal_size_of(std::io::stdout()),
            Stream::Stderr => terminal_size::terminal_size_of(std::io::stderr()),
        };
        size.map(|(terminal_size::Width(width), _)| usize::from(width))
    }
}

/// How this invocation speaks.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// What this invocation's documents are called: the words of its command.
    pub document: &'static str,
    /// The form of results, on stdout.
    pub format: OutputFormat,
    /// Whether nothing but errors is said on stderr.
    pub quiet: bool,
}

impl Output {
    /// Whether stdout is to hold documents and nothing else.
    pub fn is_document(self) -> bool {
        matches!(self.format, OutputFormat::Json | OutputFormat::JsonLines | OutputFormat::Yaml)
    }

    /// Whether events are to stand on stdout, too, one in a line.
    pub fn is_lines(self) -> bool {
        self.format == OutputFormat::JsonLines
    }

    /// Whether tables are to have the columns that are needed once in a while, too.
    pub fn is_wide(self) -> bool {
        self.format == OutputFormat::Wide
    }

    /// The result of a command: one document, or the text for people.
    pub fn result(self, document: &impl Serialize, text: impl FnOnce() -> String) {
        if self.is_document() {
            return self.document(document);
        }
        let text = text();
        // A wide table keeps its lines, whatever the terminal.
        let text = match Stream::Stdout.width().filter(|_| !self.is_wide()) {
            Some(width) => folded(&text, width),
            None => text,
        };
        let text = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
        if !paged(&text) {
            print(&text);
        }
    }

    /// A file's content, which has a form of its own and so no envelope; or the text for people.
    pub fn file(self, content: &impl Serialize, text: impl FnOnce() -> String) {
        match self.is_document() {
            true => self.write(content),
            false => print(&text()),
        }
    }

    /// The first line of a program that goes on. Programs read it, so it comes at once and is alone on its line.
    pub fn first_line(self, document: &impl Serialize, text: &str) {
        match self.is_document() {
            true => Output { format: OutputFormat::JsonLines, ..self }.document(document),
            false => print(&format!("{text}\n")),
        }
    }

    /// What happened before there is a result: a line of its own.
    pub fn event(self, name: &'static str, event: &impl Serialize) {
        Output { document: name, ..self }.document(event);
    }

    /// A document on stdout: in lines, one of them.
    pub fn document(self, fields: &impl Serialize) {
        match Document::new(self.document, fields) {
            Ok(document) => self.write(&document),
            Err(error) => note(&format!("the result cannot be written as a document: {error}\n")),
        }
    }

    fn write(self, content: &impl Serialize) {
        let text = match self.format {
            OutputFormat::Yaml => {
                return match serde_norway::to_string(content) {
                    Ok(text) => print(&format!("---\n{text}")),
                    Err(error) => note(&format!("the result cannot be written as YAML: {error}\n")),
                };
            }
            OutputFormat::Json if std::io::stdout().is_terminal() => serde_json::to_string_pretty(content),
            _ => serde_json::to_string(content),
        };
        match text {
            Ok(text) => print(&format!("{text}\n")),
            Err(error) => note(&format!("the result cannot be written as JSON: {error}\n")),
        }
    }

    /// A line about what goes on, on stderr; `--quiet` leaves it out.
    pub fn say(self, line: &str) {
        if !self.quiet {
            note(&format!("{line}\n"));
        }
    }
}

/// Colours as `--color` says.
pub fn color(when: Color) {
    match when {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// Why stdout could not be written, the first time that it could not.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Writes on stdout. A reader that has gone away (`windlass ... | head`) is no failure of ours; whatever else goes
/// wrong is kept for the exit code.
pub fn print(text: &str) {
    let mut stdout = anstream::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        let _ = UNWRITTEN.set(error.to_string());
    }
}

/// Why something that was to stand on stdout does not.
pub fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}

/// Writes a question on stderr, also under `--quiet`: whoever is asked must see what about.
pub fn ask(text: &str) {
    note(text);
}

/// Writes on stderr.
pub fn note(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
}

/// A table without borders for stdout. Where its terminal is too narrow, sentences are cut.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    table_on(Stream::Stdout, header, rows)
}

/// The same for either stream.
pub fn table_on(stream: Stream, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let heads: Vec<Head<'_>> = header.iter().map(|title| Head { title, spare: None, is_list: false }).collect();
    laid_out(&heads, rows, stream.width())
}

/// A list of labelled lines: `name    value`.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (label, value) in fields {
        let padding = " ".repeat(width - label.chars().count());
        let value = value.split('\n').map(printable).collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(width)));
        text.push_str(format!("{}{padding}{value}", dim(label)).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\r\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}c");
        assert!(!fields(&[("name", "\u{1b}]0;owned\u{7}".to_owned())]).contains("\u{1b}]"));
        assert!(!table(&["name"], [vec!["\u{1b}]0;owned\u{7}".to_owned()]]).contains('\u{1b}'));
    }

    #[test]
    fn fields_are_aligned_and_keep_their_further_lines_indented() {
        let text = fields(&[("id", "1".to_owned()), ("reason", "a\nb".to_owned())]);
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "id      1\nreason  a\n        b\n");
    }

    #[test]
    fn a_table_has_no_trailing_spaces() {
        let text = table(&["id", "name"], [vec!["1".to_owned(), "a".to_owned()], vec!["22".to_owned(), String::new()]]);
        assert!(text.lines().all(|line| line == line.trim_end()), "{text:?}");
        assert!(text.starts_with("ID"), "{text:?}");
    }
}
