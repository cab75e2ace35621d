//! Texts of guests, made fit for logs and terminals.

use std::borrow::Cow;

/// The longest reason of a policy that is kept, in bytes.
pub(crate) const MAX_REASON_BYTES: usize = 1024;

/// The text with control characters (line ends, escapes of terminals, the marks that reverse the direction of writing)
/// replaced by spaces, cut to so many bytes at a character's end.
pub(crate) fn without_controls(text: &str, most: usize) -> String {
    let mut out = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        let letter = if is_control(letter) { ' ' } else { letter };
        if out.len() + letter.len_utf8() > most {
            break;
        }
        out.push(letter);
    }
    out
}

/// The same for a reason, without copying one that is fine already.
pub(crate) fn tidy_reason(reason: &mut Option<String>) {
    let Some(text) = reason else { return };
    if text.len() > MAX_REASON_BYTES || text.contains(is_control) {
        *text = without_controls(text, MAX_REASON_BYTES);
    }
    if text.trim().is_empty() {
        *reason = None;
    }
}

/// For an error: the text in one line, cut.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_REASON_BYTES && !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(without_controls(text, MAX_REASON_BYTES))
}

fn is_control(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_text_cannot_drive_a_terminal() {
        assert_eq!(without_controls("a\u{1b}[31mred\nb\u{202e}c", 100), "a [31mred b c");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(without_controls("ééé", 3), "é");
        assert_eq!(without_controls("abc", 0), "");
    }

    #[test]
    fn an_empty_reason_is_none_and_a_long_one_is_cut() {
        let mut reason = Some(" \n".to_owned());
        tidy_reason(&mut reason);
        assert_eq!(reason, None);
        let mut reason = Some("x".repeat(5000));
        tidy_reason(&mut reason);
        assert_eq!(reason.unwrap().len(), MAX_REASON_BYTES);
    }
}
