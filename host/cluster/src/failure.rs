//! The words of failures.

/// The words, cut where they quote what nobody would read to its end.
pub(crate) fn short(words: String) -> String {
    windlass_policy::cut(words, 1024)
}
