//! Pages and schemas of the documentation that are made of the code, and held to it. Knows no page; each crate has
//! those about itself made by its own tests.

mod commands;
mod documents;

use std::path::{Path, PathBuf};

pub use commands::commands;
pub use documents::{Documents, Notes, Parts, check_document, contradictions};

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares a page, by its path in the repository, with what was made; with `WINDLASS_BLESS` set it is written.
///
/// # Panics
/// Where they differ.
pub fn hold(page: &str, made: &str) {
    let path = repository().join(page);
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, made).unwrap_or_else(|error| panic!("{page}: {error}"));
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let line = present.lines().zip(made.lines()).take_while(|(present, made)| present == made).count() + 1;
    assert!(present == made, "{page} is not what the code says, from line {line} on: run `just reference`");
}

/// A text in lines of at most 120 columns.
pub fn wrapped(text: &str) -> String {
    filled(text, "")
}

/// An item of a list, in such lines.
pub fn item(text: &str) -> String {
    filled(&format!("- {text}"), "  ")
}

fn filled(text: &str, indent: &str) -> String {
    let options = textwrap::Options::new(120)
        .subsequent_indent(indent)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options)
}

/// A text in a cell of a table.
pub fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}
