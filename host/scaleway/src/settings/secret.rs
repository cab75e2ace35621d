use std::fmt;
use std::str::FromStr;

use super::ConfigurationError;

/// A Scaleway secret key: a UUID. Shows itself to nobody: `Debug` is redacted and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(String);

impl SecretKey {
    /// The key itself, for the one header that needs it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn parse(text: &str, place: &str) -> Result<Self, ConfigurationError> {
        if is_uuid(text) {
            Ok(Self(text.to_owned()))
        } else {
            let why = match text {
                text if is_uuid(text.trim()) => "; it begins or ends with a space",
                text if text.starts_with("SCW") => "; this looks like an access key",
                _ => "",
            };
            let problem = format!(
                "is not a secret key, which is a UUID (8-4-4-4-12 hexadecimal digits){why}. It is not shown here, \
                 because it may be a key with a typing error"
            );
            Err(ConfigurationError::Invalid { place: place.to_owned(), problem })
        }
    }
}

impl FromStr for SecretKey {
    type Err = ConfigurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, "the given secret key")
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretKey(redacted)")
    }
}

pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
