//! By what a user is let in.

use std::fmt;
use std::sync::Arc;

use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg};

use crate::KeyError;

/// A private key. Shows itself to nobody: `Debug` has its fingerprint.
#[derive(Clone)]
pub struct Identity(Arc<PrivateKey>);

impl Identity {
    /// From what `ssh-keygen` writes.
    ///
    /// # Errors
    /// When it cannot be used, with the remedy.
    pub fn from_openssh(text: &str) -> Result<Self, KeyError> {
        // The error's own words may quote something of the key: only its kind is reported.
        let key = russh::keys::decode_secret_key(text, None).map_err(|error| match error {
            russh::keys::Error::KeyIsEncrypted => KeyError::Encrypted,
            _ => KeyError::Unusable,
        })?;
        match (key.is_encrypted(), key.algorithm().is_rsa()) {
            (true, _) => Err(KeyError::Encrypted),
            (_, true) => Err(KeyError::Rsa),
            _ => Ok(Self(Arc::new(key))),
        }
    }

    pub(crate) fn key(&self) -> PrivateKeyWithHashAlg {
        PrivateKeyWithHashAlg::new(self.0.clone(), None)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity({})", self.0.public_key().fingerprint(HashAlg::Sha256))
    }
}

/// A password. Shows itself to nobody.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// This one.
    #[must_use]
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(redacted)")
    }
}

/// By what a user is let in.
#[derive(Clone, Debug)]
pub enum Login {
    /// A key, whose public half the machine knows.
    Key(Identity),
    /// A password. It is sent once the host key is accepted.
    Password(Password),
}
