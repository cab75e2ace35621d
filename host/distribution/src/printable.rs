//! Text of others, in words of ours.

/// Foreign text on one line and of a bounded length.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARACTERS: usize = 300;
    let mut line: String =
        text.chars().take(MAX_CHARACTERS).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if text.chars().nth(MAX_CHARACTERS).is_some() {
        line.push('…');
    }
    line
}
