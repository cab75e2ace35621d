//! Taking secrets out of what Scaleway answered, before a policy or a record sees it.

use serde_json::Value;

/// What stands where a secret stood.
pub(super) const REDACTED: &str = "[redacted by windlass]";

/// A key whose name contains one of these holds a secret: API keys, the sudo and VNC passwords of Apple silicon hosts
/// (`sudo_password`, and `vnc_url`, which carries one), administrator passwords, cloud-init.
const SECRET_KEYS: [&str; 9] =
    ["password", "passphrase", "secret", "token", "private_key", "vnc_url", "user_data", "cloud_init", "credential"];

/// Server tags that carry an SSH key for cloud-init (`AUTHORIZED_KEY=...`).
const KEY_TAG: &str = "AUTHORIZED_KEY=";

/// Replaces every secret in place. `null` and booleans stay: they say that there is none.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_secret(name) && !matches!(value, Value::Null | Value::Bool(_)) {
                    *value = Value::String(REDACTED.to_owned());
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) if text.starts_with(KEY_TAG) => {
            *text = format!("{KEY_TAG}{REDACTED}");
        }
        _ => {}
    }
}

/// Whether a tag carries a key.
pub(super) fn is_key_tag(tag: &str) -> bool {
    tag.starts_with(KEY_TAG)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    // The id of the key that encrypts a password is no secret, and a policy may need it.
    !name.ends_with("_id") && SECRET_KEYS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_taken_out_at_any_depth_and_the_rest_stays() {
        let mut value = json!({
            "servers": [{
                "name": "mac-1",
                "sudo_password": "hunter2",
                "vnc_url": "vnc://m1:hunter2@192.0.2.1:5900",
                "admin_password_encryption_ssh_key_id": "11111111-0000-4000-8000-000000000000",
                "admin_password": null,
                "tags": ["web", "AUTHORIZED_KEY=ssh-ed25519_AAAA"],
                "nested": {"SECRET-KEY": {"a": 1}},
            }],
        });
        redact(&mut value);
        assert_eq!(
            value,
            json!({
                "servers": [{
                    "name": "mac-1",
                    "sudo_password": REDACTED,
                    "vnc_url": REDACTED,
                    "admin_password_encryption_ssh_key_id": "11111111-0000-4000-8000-000000000000",
                    "admin_password": null,
                    "tags": ["web", format!("AUTHORIZED_KEY={REDACTED}")],
                    "nested": {"SECRET-KEY": REDACTED},
                }],
            })
        );
    }
}
