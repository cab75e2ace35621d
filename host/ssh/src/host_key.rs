//! Host keys: those that a machine must show, and the one that it showed.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use parking_lot::Mutex;
use russh::client;
use russh::keys::{HashAlg, PublicKey, PublicKeyOrCertificate};

use crate::Error;

/// A machine's public host key. As text it is a line of an OpenSSH `.pub` file; comments are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey(PublicKey);

impl HostKey {
    /// `SHA256:...`, as OpenSSH shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.0.fingerprint(HashAlg::Sha256).to_string()
    }
}

impl FromStr for HostKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let key = PublicKey::from_openssh(text).map_err(|error| error.to_string())?;
        Ok(Self(PublicKey::new(key.key_data().clone(), "")))
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_openssh().map_err(|_| fmt::Error)?)
    }
}

/// The host key that a machine showed. Clones share it: what was shown is known also where the login was abandoned.
#[derive(Clone, Debug, Default)]
pub struct ShownHostKey(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    Accepted(HostKey),
    Refused {
        shown: String,
        expected: String,
    },
}

impl ShownHostKey {
    /// The one that was shown and accepted.
    #[must_use]
    pub fn accepted(&self) -> Option<HostKey> {
        match &*self.0.lock() {
            Shown::Accepted(key) => Some(key.clone()),
            Shown::Nothing | Shown::Refused { .. } => None,
        }
    }

    pub(crate) fn refusal(&self) -> Option<Error> {
        match &*self.0.lock() {
            Shown::Refused { shown, expected } => {
                Some(Error::HostKey { shown: shown.clone(), expected: expected.clone() })
            }
            Shown::Nothing | Shown::Accepted(_) => None,
        }
    }
}

/// Looks at the host key before anything of ours is sent.
pub(crate) struct HostCheck {
    /// One of these; none: whichever is shown.
    pub(crate) expected: Vec<HostKey>,
    pub(crate) shown: ShownHostKey,
}

impl client::Handler for HostCheck {
    type Error = russh::Error;

    async fn check_server_key(&mut self, server: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let key = HostKey(PublicKey::new(server.public_key().key_data().clone(), ""));
        let accepted = self.expected.is_empty() || self.expected.contains(&key);
        *self.shown.0.lock() = if accepted {
            Shown::Accepted(key)
        } else {
            let expected = self.expected.iter().map(HostKey::fingerprint).collect::<Vec<_>>().join(" or ");
            Shown::Refused { shown: key.fingerprint(), expected }
        };
        Ok(accepted)
    }
}
