use std::fmt;

use serde::{Deserialize, Deserializer};

/// What Scaleway writes in the place of a secret that it does not show in this answer (recorded).
const SEALED: &str = "<sealed>";

/// A password, or a text with a password in it, out of Scaleway's answer.
///
/// It shows itself only where it is asked to: `Debug` is redacted, there is no `Display` and no `Serialize`, so it gets
/// into no log, no record and no JSON by accident; errors that quote an answer leave it out as well. Most answers don't
/// carry it at all, see [`Secret::reveal`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself; `None` when this answer did not show it, which is when Scaleway sealed it or sent nothing.
    pub fn reveal(&self) -> Option<&str> {
        (!self.0.is_empty() && self.0 != SEALED).then_some(self.0.as_str())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.reveal().is_some() { "Secret(redacted)" } else { "Secret(not shown)" })
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not as a `String`: the error of a wrong type would quote the value.
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a secret that is no text")),
        }
    }
}
