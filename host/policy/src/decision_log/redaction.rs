//! What is taken out of recorded host calls.

use serde_json::Value;

/// Keys whose values are never recorded. Applied to arguments and answers of host calls, at every depth, also within
/// strings that are JSON themselves (bodies). A capability should keep secrets from its answers in the first place;
/// this is the second fence. What a capability gives on purpose passes it: truth values, the ids of secrets, public
/// keys, and what already says that it was redacted.
#[derive(Clone, Debug)]
pub struct Redaction {
    words: Vec<String>,
}

/// What stands in place of a redacted value.
pub(crate) const REDACTED: &str = "[redacted]";
/// How such a value begins, whoever redacted it.
const REDACTED_ALREADY: &str = "[redacted";
/// The ends of keys that speak of a secret and hold none.
const NO_SECRETS: [&str; 3] = ["_id", "_ids", "public_key"];

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
        self.words.push(spelling(word));
        self
    }

    /// Takes the values of secret keys out. Returns whether there were any; if not, nothing has changed.
    pub fn apply(&self, value: &mut Value) -> bool {
        self.apply_at(value, 0)
    }

    fn apply_at(&self, value: &mut Value, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            *value = REDACTED.into();
            return true;
        }
        match value {
            Value::Object(map) => {
                let mut redacted = false;
                for (key, value) in map {
                    redacted |= match self.is_secret(key) && can_be_secret(value) {
                        true => {
                            *value = REDACTED.into();
                            true
                        }
                        false => self.apply_at(value, depth + 1),
                    };
                }
                redacted
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |redacted, item| self.apply_at(item, depth + 1) | redacted)
            }
            Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
                let Ok(mut inner) = serde_json::from_str::<Value>(text) else { return false };
                let redacted = self.apply_at(&mut inner, depth + 1);
                if redacted {
                    *text = inner.to_string();
                }
                redacted
            }
            _ => false,
        }
    }

    fn is_secret(&self, key: &str) -> bool {
        let key = spelling(key);
        !NO_SECRETS.iter().any(|end| key.ends_with(end))
            && (key == "key" || key.ends_with("_key") || self.words.iter().any(|word| key.contains(word)))
    }
}

/// Keys are compared in one spelling.
fn spelling(key: &str) -> String {
    key.to_lowercase().replace('-', "_")
}

fn can_be_secret(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::String(text) => !text.starts_with(REDACTED_ALREADY),
        _ => true,
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
        assert!(Redaction::default().with_word("Banana").apply(&mut value));
        assert_eq!(value["X-Auth-Token"], REDACTED);
        assert_eq!(value["secret_key"], REDACTED);
        assert_eq!(value["key"], REDACTED);
        assert_eq!(value["monkey"], "fine");
        assert_eq!(value["nested"][0]["api-key"], REDACTED);
        assert_eq!(value["password"], Value::Null);
        let body = value["body"].as_str().unwrap();
        assert!(!body.contains("hunter2") && body.contains("\"name\":\"a\""), "{body}");
        // Once more, there is nothing left.
        assert!(!Redaction::default().apply(&mut value));
    }

    #[test]
    fn what_a_capability_gives_on_purpose_and_text_without_secrets_stay_as_they_are() {
        let given = json!({
            "admin_password_encryption_ssh_key_id": "11111111-0000-4000-8000-000000000000",
            "secret-ids": ["a"], "public_key": "ssh-ed25519 AAAA", "has_password": true,
            "sudo_password": "[redacted by windlass]", "body": "{ \"b\": 1,\n \"a\": [ 2 ] }", "text": "[not JSON",
        });
        let mut value = given.clone();
        assert!(!Redaction::default().apply(&mut value));
        assert_eq!(value, given);
    }
}
