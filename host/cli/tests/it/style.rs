//! The pages in plain English: what can be counted of it.

use crate::links::{pages, prose, root};

/// Phrases that no reader should have to read twice, in lower case, and what to write instead.
const PHRASES: [(&str, &str); 10] = [
    ("be had", "available"),
    ("is told", "is reported, or: Windlass reports"),
    ("are told", "are reported, or: Windlass reports"),
    ("was told", "was reported, or: Windlass reported"),
    ("whoever", "the user, the operator, anyone who"),
    ("anew", "again"),
    ("of others", "that belongs to somebody else, other people's"),
    ("with words", "with an error"),
    ("as the journal tells", "according to the journal"),
    ("is answered what", "gets the same answer"),
];
/// The longest sentence, in words.
const MAX_WORDS: usize = 40;

/// Sentences and items of lists, without tables, headings, comments and examples.
fn sentences(page: &str) -> Vec<String> {
    let mut text = String::new();
    let mut comment = false;
    for line in prose(page) {
        let line = line.trim();
        comment |= line.starts_with("<!--");
        let skipped = comment || line.starts_with(['|', '#', '<']) || line.is_empty();
        comment &= !line.ends_with("-->");
        let begins =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if skipped || begins {
            text.push('\n');
        }
        if !skipped {
            text.push_str(line);
            text.push(' ');
        }
    }
    for end in [". ", ".** ", ".) ", ": ", "; ", "? ", "! "] {
        text = text.replace(end, &format!("{end}\n"));
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_pages_hold_no_riddles_and_no_sentence_of_more_than_forty_words() {
    let mut found = Vec::new();
    for (path, text) in pages() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.contains('/') && !name.starts_with("docs/") {
            continue;
        }
        let read = prose(&text).filter(|line| !line.trim_start().starts_with("<!--"));
        let all = read.collect::<Vec<_>>().join(" ").to_lowercase();
        let words = format!(" {} ", all.split_whitespace().collect::<Vec<_>>().join(" "));
        for (phrase, better) in PHRASES {
            if words.contains(&format!(" {phrase} ")) {
                found.push(format!("{name}: \"{phrase}\"; write: {better}"));
            }
        }
        for sentence in sentences(&text) {
            if sentence.split_whitespace().count() > MAX_WORDS {
                found.push(format!("{name}: split this sentence: {sentence}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
