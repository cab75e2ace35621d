//! The secret that signs a webhook's requests.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::failure::HookProblem;
use super::files::{Readers, read_secret};
use super::hook::WebhookHook;

/// HMAC gains nothing from a longer one.
const MAX_BYTES: u64 = 4096;
/// 128 bits in hexadecimal have 32 characters; half of that is the least that isn't guessed.
const MIN_BYTES: usize = 16;

/// The secret that signs a webhook's requests. Shows itself to nobody: `Debug` is redacted and there is no `Display`.
pub struct WebhookSecret(Vec<u8>);

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WebhookSecret(redacted)")
    }
}

impl WebhookSecret {
    /// Reads it anew for each run, so that it can be changed at any time.
    pub(super) fn of(webhook: &WebhookHook) -> Result<Self, HookProblem> {
        let (place, content) = match (&webhook.secret_file, &webhook.secret_env) {
            (Some(file), _) => {
                let place = format!("secret_file {}", file.display());
                let content = read_secret(file, MAX_BYTES, Readers::NotStrangers)
                    .map_err(|problem| HookProblem::Secret(format!("{place}: {problem}")))?;
                (place, content)
            }
            (None, Some(name)) => {
                let place = format!("secret_env {name}");
                let content = std::env::var_os(name)
                    .ok_or_else(|| HookProblem::Secret(format!("{place}: the variable is not set")))?;
                (place, content.into_encoded_bytes())
            }
            (None, None) => return Err(HookProblem::Secret("neither secret_file nor secret_env is set".to_owned())),
        };
        Self::new(&content)
            .ok_or_else(|| HookProblem::Secret(format!("{place}: the secret is shorter than {MIN_BYTES} bytes")))
    }

    /// From its bytes, without the line's end that editors and `echo` put behind it. `None` for one of fewer than 16
    /// bytes.
    #[must_use]
    pub fn new(content: &[u8]) -> Option<Self> {
        let secret = content.trim_ascii_end();
        (secret.len() >= MIN_BYTES).then(|| Self(secret.to_vec()))
    }

    /// `t=<unix seconds>,v1=<hex hmac-sha256 of "<t>.<body>">`. The instant is signed too, so that a recorded request
    /// cannot be played again later without the receiver's notice.
    pub(super) fn signature(&self, unix_seconds: i64, body: &[u8]) -> String {
        let time = unix_seconds.to_string();
        format!("t={unix_seconds},v1={}", hex::encode(mac_of(&self.0, &[time.as_bytes(), b".", body])))
    }

    /// By the Standard Webhooks: `v1,<base64 hmac-sha256 of "<id>.<unix seconds>.<body>">`. The key is what follows
    /// `whsec_` in base64, or the secret's bytes where it has no such form.
    pub(super) fn standard_signature(&self, id: &str, unix_seconds: i64, body: &[u8]) -> String {
        const PREFIX: &[u8] = b"whsec_";
        let encoded = self.0.strip_prefix(PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
        let key = encoded.as_deref().unwrap_or(&self.0);
        let time = unix_seconds.to_string();
        format!("v1,{}", STANDARD.encode(mac_of(key, &[id.as_bytes(), b".", time.as_bytes(), b".", body])))
    }
}

fn mac_of(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_any_other_hmac_says() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let secret = WebhookSecret::new(b"0123456789abcdef\r\n").unwrap();
        assert_eq!(
            secret.signature(1_700_000_000, b"{}"),
            "t=1700000000,v1=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e"
        );
    }

    #[test]
    fn the_standard_signature_is_what_any_other_hmac_says_with_and_without_the_standard_form() {
        // printf 'farm-1.1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef -binary | base64
        let plain = WebhookSecret::new(b"0123456789abcdef").unwrap();
        let signed = plain.standard_signature("farm-1", 1_700_000_000, b"{}");
        assert_eq!(signed, "v1,x/l0zhj/YSBD2FK8XjMSXfzm/oc6rQX8qmV3df4GTzs=");
        // The same key as whsec_ and base64.
        let standard = WebhookSecret::new(b"whsec_MDEyMzQ1Njc4OWFiY2RlZg==\n").unwrap();
        assert_eq!(standard.standard_signature("farm-1", 1_700_000_000, b"{}"), signed);
    }

    #[test]
    fn a_secret_is_not_shown_and_a_short_one_not_taken() {
        let secret = WebhookSecret::new(b"0123456789abcdef").unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret(redacted)");
        assert!(WebhookSecret::new(b"0123456789abcde\n").is_none());
        assert!(WebhookSecret::new(b"").is_none());
    }
}
