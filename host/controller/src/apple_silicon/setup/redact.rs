//! What a script wrote, without the secrets that it was given.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use windlass_cluster::Captured;
use windlass_policy::is_unprintable;

/// What stands in a secret's place.
const REDACTED: &str = "[redacted]";
/// A shorter value stands in too much that is no secret to be found: then nothing is shown.
const MIN_BYTES: usize = 6;
/// A line of a secret that is shorter (`}`, `EOF`) is no secret by itself.
const SHORTEST_LINE: usize = 8;
const WITHHELD: &str = "[output hidden: a value of a Secret is too short to be redacted safely]";

/// Texts that must not be shown.
#[derive(Default)]
pub(super) struct Secrets {
    texts: Vec<String>,
    too_short: bool,
}

impl Secrets {
    /// Adds a value: it, its lines, and its form in base64 are not shown.
    pub(super) fn add(&mut self, value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        let text = text.trim();
        match text.len() {
            0 => return,
            length if length < MIN_BYTES => self.too_short = true,
            _ => self.texts.push(text.to_owned()),
        }
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
        self.texts.extend(lines.map(str::to_owned));
        for bytes in [value, text.as_bytes()] {
            self.texts.push(STANDARD.encode(bytes));
        }
        // Of two that begin alike, the longer one first.
        self.texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        self.texts.dedup();
    }

    /// The longest of them: the beginning of what was kept may hold the rest of one that was cut.
    pub(super) fn longest(&self) -> usize {
        self.texts.iter().map(String::len).max().unwrap_or_default()
    }

    /// The text without them.
    pub(super) fn redact(&self, text: &str) -> String {
        if self.too_short && !text.trim().is_empty() {
            return WITHHELD.to_owned();
        }
        self.texts.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), REDACTED))
    }

    /// The end of what was captured, without them, at most `bytes` long.
    pub(super) fn end_of(&self, captured: &Captured, bytes: usize) -> String {
        let clean = self.redact(&captured.text);
        // Whole ones are gone; of one that was cut, the rest stands at the beginning.
        let start = if captured.dropped > 0 { self.longest().min(clean.len()) } else { 0 };
        let clean = clean[clean.ceil_char_boundary(start)..].trim_end();
        let clean: String = clean
            .chars()
            .map(|c| if is_unprintable(c) && !matches!(c, '\n' | '\t') { '\u{FFFD}' } else { c })
            .collect();
        clean[clean.ceil_char_boundary(clean.len().saturating_sub(bytes))..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        values.iter().for_each(|value| secrets.add(value.as_bytes()));
        secrets
    }

    #[test]
    fn a_secret_its_lines_and_its_base64_are_not_shown() {
        let secrets = secrets(&["s3cret-token\n", "-----BEGIN-----\nAAAABBBB\n}\n-----END-----"]);
        assert_eq!(secrets.redact("+ curl -H s3cret-token x"), "+ curl -H [redacted] x");
        assert_eq!(secrets.redact("AAAABBBB }"), "[redacted] }");
        // printf 's3cret-token\n' | base64; printf 's3cret-token' | base64
        assert_eq!(secrets.redact("czNjcmV0LXRva2VuCg== czNjcmV0LXRva2Vu"), "[redacted] [redacted]");
    }

    #[test]
    fn of_two_secrets_that_begin_alike_nothing_is_left() {
        assert_eq!(secrets(&["abcdef", "abcdefghij"]).redact("abcdefghij"), "[redacted]");
    }

    #[test]
    fn a_value_too_short_to_be_found_lets_nothing_be_shown() {
        assert_eq!(secrets(&["ci"]).redact("circle"), WITHHELD);
        assert_eq!(secrets(&["ci", ""]).redact(" "), " ");
        assert_eq!(secrets(&[""]).redact("circle"), "circle");
    }

    #[test]
    fn half_a_secret_at_the_cut_is_not_shown_and_the_end_is_bounded() {
        let secrets = secrets(&["0123456789abcdef"]);
        // The second one lies across the end of what is left out for the sake of the first.
        let text = "9abcdef and then 0123456789abcdef, and some words\u{1b}[2J";
        let shown = secrets.end_of(&Captured { text: text.into(), dropped: 9 }, 100);
        assert!(!shown.contains("abcdef") && shown.ends_with("some words\u{FFFD}[2J"), "{shown}");
        let whole = Captured { text: "é".repeat(100), dropped: 0 };
        assert_eq!(secrets.end_of(&whole, 9), "é".repeat(4));
    }
}
