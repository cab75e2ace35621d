//! What is taken out of recorded host calls.

use serde_json::Value;

/// Keys whose values are never recorded. Applied to arguments and answers of host calls, at every depth, also within
/// strings that are JSON themselves (bodies). A capability should keep secrets from its answers in the first place;
/// this is the second fence.
#[derive(Clone, Debug)]
pub struct Redaction {
    words: Vec<String>,
}

/// What stands in place of a redacted value.
const REDACTED: &str = "[redacted]";

/// Strings within strings are followed so deep.
const MAX_DEPTH: usize = 32;

impl Default for Redaction {
    /// Keys that contain `password`, `passwd`, `passphrase`, `secret`, `token`, `credential`, `authorization`,
    /// `cookie`, or that are or end in `key`.
    fn default() -> Redaction {
        let words = ["password", "passwd", "passphrase", "secret", "token", "credential", "authorization", "cookie"];
        Redaction { words: words.map(str::to_owned).to_vec() }
    }
}

impl Redaction {
    /// The same with one more word, which is looked for anywhere in a key, whatever its case.
    pub fn with_word(mut self, word: &str) -> Redaction {
        self.words.push(word.to_lowercase());
        self
    }

    /// Takes the values of secret keys out.
    pub fn apply(&self, value: &mut Value) {
        self.apply_at(value, 0);
    }

    fn apply_at(&self, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH {
            *value = REDACTED.into();
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if self.is_secret(key) && !value.is_null() {
                        *value = REDACTED.into();
                    } else {
                        self.apply_at(value, depth + 1);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply_at(item, depth + 1)),
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                if let Ok(mut inner) = serde_json::from_str::<Value>(text) {
                    self.apply_at(&mut inner, depth + 1);
                    *text = inner.to_string();
                }
            }
            _ => {}
        }
    }

    fn is_secret(&self, key: &str) -> bool {
        let key = key.to_lowercase();
        key == "key"
            || key.ends_with("_key")
            || key.ends_with("-key")
            || self.words.iter().any(|word| key.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_taken_out_at_every_depth_and_within_bodies() {
        let body = json!({"servers": [{"name": "a", "admin_password": "hunter2"}]}).to_string();
        let mut value = json!({
            "X-Auth-Token": "abc", "secret_key": "s", "key": "k", "monkey": "fine",
            "nested": [{"api-key": {"deep": 1}}], "body": body, "password": null,
        });
        Redaction::default().with_word("Banana").apply(&mut value);
        assert_eq!(value["X-Auth-Token"], REDACTED);
        assert_eq!(value["secret_key"], REDACTED);
        assert_eq!(value["key"], REDACTED);
        assert_eq!(value["monkey"], "fine");
        assert_eq!(value["nested"][0]["api-key"], REDACTED);
        assert_eq!(value["password"], Value::Null);
        let body = value["body"].as_str().unwrap();
        assert!(!body.contains("hunter2") && body.contains("\"name\":\"a\""), "{body}");
    }
}
