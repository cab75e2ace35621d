//! Failures: how what went wrong becomes the failure that policies judge and people read.

use windlass_policy::slots::types::{Failure, FailureClass};

/// The longest message that a policy gets, in bytes.
const MAX_MESSAGE_LEN: usize = Failure::MAX_MESSAGE_LEN;

/// `text`, cut at a character within the bound.
pub(crate) fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_MESSAGE_LEN)].to_owned()
}

/// A failure without a call.
pub(crate) fn of_class(class: FailureClass, message: impl AsRef<str>) -> Failure {
    Failure::of_class(class, message)
}

/// A failure in one line for people.
pub(crate) fn words(failure: &Failure) -> String {
    let mut words = if failure.message.is_empty() { class_word(failure.class) } else { failure.message.clone() };
    if let (Some(method), Some(path)) = (&failure.method, &failure.path)
        && !words.contains(path.as_str())
    {
        let status = failure.status.map(|status| format!("{status}, ")).unwrap_or_default();
        words.push_str(&format!(" ({status}{method} {path})"));
    }
    words
}

/// The class as the contract spells it.
pub(crate) fn class_word(class: FailureClass) -> String {
    match serde_json::to_value(class) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "other".to_owned(),
    }
}

/// The words, cut where they quote what nobody would read to its end.
pub(crate) fn short(words: String) -> String {
    windlass_policy::cut(words, 1024)
}
