//! Texts of guests, made fit for logs and terminals.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use windlass_contract::nearest;

/// The longest reason of a policy that is kept, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 1024;
/// How much of each reason in a batch is always kept, in bytes.
const SHORT_REASON_BYTES: usize = 128;
/// How much all reasons of an answer may have together beyond that, in bytes.
const LONG_REASONS_BYTES: usize = 64 << 10;
/// The longest text of several lines, in bytes.
const MAX_LINES_BYTES: usize = 6 << 10;
/// The longest name or value in an error, in bytes.
const MAX_SHORT_BYTES: usize = 64;
/// How many names or values an error lists.
const MAX_LISTED: usize = 32;

/// The text with control characters (line ends, escapes of terminals, the marks that reverse the direction of writing)
/// replaced by spaces, cut to so many bytes at a character's end.
pub(crate) fn without_controls(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        let letter = if is_unprintable(letter) { ' ' } else { letter };
        if out.len() + letter.len_utf8() > most {
            break;
        }
        out.push(letter);
    }
    out
}

/// Makes the reasons of one answer fit to be shown, and bounds what a batch of them takes of the decision log.
pub(crate) struct TidyReasons {
    /// What is left for the parts beyond [`SHORT_REASON_BYTES`].
    bytes_left: usize,
}

impl Default for TidyReasons {
    fn default() -> TidyReasons {
        TidyReasons { bytes_left: LONG_REASONS_BYTES }
    }
}

impl TidyReasons {
    /// Tidies the next one, without copying one that is fine already.
    pub(crate) fn next(&mut self, reason: &mut Option<String>) {
        let Some(text) = reason else { return };
        let most = MAX_REASON_BYTES.min(SHORT_REASON_BYTES + self.bytes_left);
        if text.len() > most || text.contains(is_unprintable) {
            *text = without_controls(text, most);
        }
        self.bytes_left -= text.len().saturating_sub(SHORT_REASON_BYTES);
        if text.trim().is_empty() {
            *reason = None;
        }
    }
}

/// The text, cut after so many bytes at most, between two characters, where nobody would read to its end. An ellipsis
/// (three bytes more) tells so.
pub fn cut(text: impl Into<String>, longest: usize) -> String {
    let mut text = text.into();
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
    text
}

/// `1 server`, `2 servers`.
pub fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A word of the contract, as JSON writes it.
pub fn kind_word(kind: &impl Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}

/// For an error: the text in one line, cut.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_REASON_BYTES && !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(without_controls(text, MAX_REASON_BYTES))
}

/// The same for each line by itself: as many as a process tells another one, and how many more there are.
pub(crate) fn tidy_lines(text: &str) -> String {
    let mut lines = text.lines();
    let mut tidy: Vec<Cow<'_, str>> = Vec::new();
    let mut left = MAX_LINES_BYTES;
    while let Some(line) = lines.next() {
        let line = one_line(line);
        match left.checked_sub(line.len() + 1) {
            Some(rest) => left = rest,
            None => {
                tidy.push(format!("and {} more", lines.count() + 1).into());
                break;
            }
        }
        tidy.push(line);
    }
    tidy.join("\n")
}

/// For a name or a word within an error: in one line, cut to what a reader recognises.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_SHORT_BYTES && !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut cut = without_controls(text, MAX_SHORT_BYTES);
    if text.chars().nth(cut.chars().count()).is_some() {
        cut.push('…');
    }
    Cow::Owned(cut)
}

/// A value in an error: short.
pub(crate) fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "an array".into(),
        scalar => short(&scalar.to_string()).into(),
    }
}

/// Names or values in an error: the first ones, and how many there are besides.
pub(crate) fn listed<T: AsRef<str>>(words: &[T]) -> String {
    let shown: Vec<_> = words.iter().take(MAX_LISTED).map(|word| short(word.as_ref())).collect();
    match words.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether a character could drive a terminal, show text in another order than it is written, or stand in it unseen.
#[must_use]
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(letter, '\u{2028}' | '\u{2029}')
        || matches!(letter, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}')
        || matches!(letter, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// The message for a key that doesn't exist: the nearest valid key if one is near, else all of them.
pub(crate) fn unknown_key(key: &str, valid: &[&str]) -> String {
    let written = short(key);
    match nearest(key, valid.iter().copied()) {
        Some(near) => format!("unknown key `{written}`; did you mean `{}`?", short(near)),
        None => format!("unknown key `{written}`; the keys are {}", listed(valid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_cannot_drive_a_terminal() {
        assert_eq!(without_controls("a\u{1b}[31mred\nb\u{202e}c", 100), "a [31mred b c");
        assert_eq!(without_controls("a\u{200b}b\u{2060}c\u{feff}d\u{e0041}e\u{ad}f", 100), "a b c d e f");
    }

    #[test]
    fn a_value_in_an_error_is_short_and_cannot_drive_a_terminal() {
        assert_eq!(brief(&Value::from("\u{202e}\u{9b}1m\n")), r#""  1m\n""#);
        assert_eq!(brief(&Value::from("x".repeat(100))), format!("\"{}…", "x".repeat(63)));
        assert_eq!(short(&"é".repeat(32)), "é".repeat(32));
        assert_eq!(short(&"é".repeat(33)), "é".repeat(32) + "…");
        assert_eq!(short("a\u{2066}b\u{200f}c\u{61c}d"), "a b c d");
        assert_eq!(brief(&Value::Array(vec![Value::Null])), "an array");
    }

    #[test]
    fn a_list_in_an_error_is_cut_and_says_so() {
        assert_eq!(listed(&["a", "b\u{1b}"]), "a, b ");
        assert!(listed(&["a"; 40]).ends_with(", a and 8 more"));
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("ééé", 3), "é…");
        assert_eq!(cut("ééé", 6), "ééé");
        assert_eq!(without_controls("ééé", 3), "é");
        assert_eq!(without_controls("abc", 0), "");
    }

    #[test]
    fn each_line_is_tidy_and_the_last_says_how_many_are_left_out() {
        assert_eq!(tidy_lines("a\u{1b}b\nc"), "a b\nc");
        let long = format!("{}\n", "x".repeat(1023)).repeat(20);
        let tidy = tidy_lines(&long);
        assert!(tidy.len() < 7 << 10 && tidy.ends_with("x\nand 14 more"), "{}", tidy.len());
    }

    #[test]
    fn an_empty_reason_is_none_and_a_long_one_is_cut() {
        let mut reason = Some(" \n".to_owned());
        TidyReasons::default().next(&mut reason);
        assert_eq!(reason, None);
        let mut reason = Some("x".repeat(5000));
        TidyReasons::default().next(&mut reason);
        assert_eq!(reason.unwrap().len(), MAX_REASON_BYTES);
    }

    #[test]
    fn the_long_reasons_of_a_batch_are_bounded_together() {
        let mut tidy = TidyReasons::default();
        let lengths = (0..1000).map(|_| {
            let mut reason = Some("x".repeat(5000));
            tidy.next(&mut reason);
            reason.unwrap().len()
        });
        let lengths: Vec<usize> = lengths.collect();
        assert_eq!((lengths[0], lengths[999]), (MAX_REASON_BYTES, SHORT_REASON_BYTES));
        assert_eq!(lengths.iter().sum::<usize>(), 1000 * SHORT_REASON_BYTES + LONG_REASONS_BYTES);
    }
}
