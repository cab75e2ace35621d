//! The secret that signs a webhook's requests.

use std::fmt;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::files::{Readers, read_secret};
use super::{HookProblem, WebhookHook};

/// HMAC gains nothing from a longer one.
const LONGEST: u64 = 4096;
/// 128 bits in hexadecimal have 32 characters; half of that is the least that isn't guessed.
const SHORTEST: usize = 16;

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
                let content = read_secret(file, LONGEST, Readers::NotStrangers)
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
            .ok_or_else(|| HookProblem::Secret(format!("{place}: the secret is shorter than {SHORTEST} bytes")))
    }

    /// From its bytes, without the line's end that editors and `echo` put behind it. `None` for one of fewer than 16
    /// bytes.
    #[must_use]
    pub fn new(content: &[u8]) -> Option<Self> {
        let secret = content.trim_ascii_end();
        (secret.len() >= SHORTEST).then(|| Self(secret.to_vec()))
    }

    /// `t=<unix seconds>,v1=<hex hmac-sha256 of "<t>.<body>">`. The instant is signed too, so that a recorded request
    /// cannot be played again later without the receiver's notice.
    pub(super) fn signature(&self, unix_seconds: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of every length");
        mac.update(unix_seconds.to_string().as_bytes());
        mac.update(b".");
        mac.update(body);
        format!("t={unix_seconds},v1={}", hex::encode(mac.finalize().into_bytes()))
    }
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
    fn a_secret_is_not_shown_and_a_short_one_not_taken() {
        let secret = WebhookSecret::new(b"0123456789abcdef").unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret(redacted)");
        assert!(WebhookSecret::new(b"0123456789abcde\n").is_none());
        assert!(WebhookSecret::new(b"").is_none());
    }
}
