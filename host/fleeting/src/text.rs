//! Words for people.

/// The text, cut after so many bytes at most, where nobody would read to its end. An ellipsis tells so.
pub(crate) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
    text
}
