//! Which keys may sign, and whether one of them has. Nothing is asked of anybody.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign_verify::{PublicKey, Signature};
use semver::Version;
use serde::{Deserialize, Serialize};

use crate::digest::ContentDigest;
use crate::error::printable;

/// What follows the name of a file in the name of its signature.
pub const SIGNATURE_SUFFIX: &str = ".minisig";
/// The most keys, and the most revoked ones.
const MAX_KEYS: usize = 64;

/// The identifier of a minisign key. Written as minisign does: 16 upper-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId([u8; 8]);

impl KeyId {
    /// The identifier within a decoded key or signature, which follows two bytes that name the algorithm.
    fn of(decoded: &[u8]) -> Option<KeyId> {
        decoded.get(2..10)?.try_into().ok().map(KeyId)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", u64::from_le_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyId, String> {
        let expected = || format!("`{}` is no key's identifier: 16 hexadecimal digits", printable(text));
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(expected());
        }
        u64::from_str_radix(text, 16).map(|number| KeyId(number.to_le_bytes())).map_err(|_| expected())
    }
}

impl TryFrom<String> for KeyId {
    type Error = String;

    fn try_from(text: String) -> Result<KeyId, String> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.to_string()
    }
}

/// The table of the configuration, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    keys: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<KeyId>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    minimum_versions: BTreeMap<String, Version>,
}

/// The keys that may sign, those that may no more, and how old what they signed may be.
#[derive(Clone)]
pub struct Trust {
    settings: Settings,
    keys: BTreeMap<KeyId, (String, PublicKey)>,
}

/// Whose signature was found to be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedBy {
    /// The key.
    pub key: KeyId,
    /// How the configuration calls it.
    pub name: String,
}

/// Why bytes are not trusted: which bytes, which key, which rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// It has no signature.
    #[error("{digest} is not signed, and [policies.trust] takes only what is signed by {trusted}")]
    Unsigned {
        /// What is not signed.
        digest: ContentDigest,
        /// The keys that could have.
        trusted: String,
    },
    /// Its signature is none.
    #[error("the signature of {digest} cannot be read: {problem}")]
    Malformed {
        /// What it would be the signature of.
        digest: ContentDigest,
        /// What is wrong with it.
        problem: String,
    },
    /// It is signed by somebody else.
    #[error("{digest} is signed by the key {key}, and [policies.trust] takes only what is signed by {trusted}")]
    UnknownKey {
        /// What is signed.
        digest: ContentDigest,
        /// By which key.
        key: KeyId,
        /// The keys that could have.
        trusted: String,
    },
    /// It is signed by a key that is revoked.
    #[error("{digest} is signed by the key {key}{}, which `revoked` of [policies.trust] names", named(.name))]
    Revoked {
        /// What is signed.
        digest: ContentDigest,
        /// By which key.
        key: KeyId,
        /// How the configuration calls it, where it still does.
        name: Option<String>,
    },
    /// The signature is not of these bytes, or was changed.
    #[error("the signature by the key {key} ({name}) is not of {digest}: {problem}")]
    Wrong {
        /// What it should be the signature of.
        digest: ContentDigest,
        /// The key that it names.
        key: KeyId,
        /// How the configuration calls it.
        name: String,
        /// The words of the verification.
        problem: String,
    },
    /// It is older than the minimum.
    #[error("{name} {version} is older than {minimum}, which `minimum_versions` of [policies.trust] asks for")]
    TooOld {
        /// What it is called.
        name: String,
        /// Its version.
        version: String,
        /// The oldest that is taken.
        minimum: Version,
    },
    /// It was loaded before trust stood, and nobody knows who signed it.
    #[error("nothing says which key it was signed by, and [policies.trust] takes only what is signed")]
    Unknown,
}

fn named(name: &Option<String>) -> String {
    name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
}

impl Trust {
    /// Reads a table of the configuration.
    ///
    /// # Errors
    /// A sentence that names the key and what was expected.
    pub fn from_value(value: serde_json::Value) -> Result<Trust, String> {
        let settings: Settings = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if settings.keys.len() > MAX_KEYS || settings.revoked.len() > MAX_KEYS {
            return Err(format!("more than {MAX_KEYS} keys; remove those that sign no more"));
        }
        if settings.keys.is_empty() {
            return Err(
                "`keys` names none, so that nothing could be used; to trust every policy, leave [policies.trust] out"
                    .into(),
            );
        }
        let mut keys = BTreeMap::new();
        for (name, text) in &settings.keys {
            let (id, key) = read_key(text).map_err(|problem| format!("keys.{name}: {problem}"))?;
            if let Some((other, _)) = keys.insert(id, (name.clone(), key)) {
                return Err(format!("keys.{name}: it has the identifier {id}, which {other} has"));
            }
        }
        Ok(Trust { settings, keys })
    }

    /// Verifies that one of these signatures is of these bytes, by a key that is trusted and not revoked.
    ///
    /// # Errors
    /// Why none is. Where there are several, the words are about the last one.
    pub fn verify(&self, contents: &[u8], signatures: &[String]) -> Result<SignedBy, Untrusted> {
        let digest = ContentDigest::of(contents);
        let mut problem = Untrusted::Unsigned { digest, trusted: self.names() };
        for signature in signatures {
            match self.verify_one(digest, contents, signature) {
                Ok(signed_by) => return Ok(signed_by),
                Err(untrusted) => problem = untrusted,
            }
        }
        Err(problem)
    }

    fn verify_one(&self, digest: ContentDigest, contents: &[u8], text: &str) -> Result<SignedBy, Untrusted> {
        let malformed = |problem: &str| Untrusted::Malformed { digest, problem: problem.to_owned() };
        let signature = Signature::decode(text).map_err(|error| malformed(&error.to_string()))?;
        let line = text.lines().nth(1).and_then(|line| BASE64.decode(line.trim()).ok());
        let id = line.as_deref().and_then(KeyId::of).ok_or_else(|| malformed("it names no key"))?;
        let known = self.keys.get(&id);
        if self.settings.revoked.contains(&id) {
            return Err(Untrusted::Revoked { digest, key: id, name: known.map(|(name, _)| name.clone()) });
        }
        let Some((name, key)) = known else {
            return Err(Untrusted::UnknownKey { digest, key: id, trusted: self.names() });
        };
        // Of a signature that is not over a hash, the algorithm is refused as well: minisign has made none since 2022.
        key.verify(contents, &signature, false).map_err(|error| Untrusted::Wrong {
            digest,
            key: id,
            name: name.clone(),
            problem: error.to_string(),
        })?;
        Ok(SignedBy { key: id, name: name.clone() })
    }

    /// Whether what this key has signed before is still taken.
    ///
    /// # Errors
    /// Why it isn't.
    pub fn check_key(&self, digest: ContentDigest, key: KeyId) -> Result<(), Untrusted> {
        let known = self.keys.get(&key).map(|(name, _)| name.clone());
        if self.settings.revoked.contains(&key) {
            return Err(Untrusted::Revoked { digest, key, name: known });
        }
        match known {
            Some(_) => Ok(()),
            None => Err(Untrusted::UnknownKey { digest, key, trusted: self.names() }),
        }
    }

    /// Whether a version is not older than the oldest that is taken of what has this name.
    ///
    /// # Errors
    /// It is older, or no version.
    pub fn check_version(&self, name: &str, version: &str) -> Result<(), Untrusted> {
        let Some(minimum) = self.settings.minimum_versions.get(name) else { return Ok(()) };
        match Version::parse(version) {
            Ok(version) if version >= *minimum => Ok(()),
            _ => {
                Err(Untrusted::TooOld { name: name.to_owned(), version: printable(version), minimum: minimum.clone() })
            }
        }
    }

    /// The trusted keys for people.
    fn names(&self) -> String {
        let trusted = self.keys.iter().filter(|(id, _)| !self.settings.revoked.contains(id));
        let names: Vec<String> = trusted.map(|(id, (name, _))| format!("{id} ({name})")).collect();
        if names.is_empty() { "no key: all are revoked".into() } else { names.join(", ") }
    }
}

/// The base64 line of a minisign public key, or the whole of its file.
fn read_key(text: &str) -> Result<(KeyId, PublicKey), String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let expected = |_| "expected the second line of minisign.pub, which begins with RW".to_owned();
    let key = PublicKey::from_base64(line).map_err(|_| expected(()))?;
    let decoded = BASE64.decode(line).map_err(|_| expected(()))?;
    Ok((KeyId::of(&decoded).ok_or_else(|| expected(()))?, key))
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trust({})", self.names())
    }
}

impl PartialEq for Trust {
    fn eq(&self, other: &Trust) -> bool {
        self.settings == other.settings
    }
}

impl Serialize for Trust {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.settings.serialize(serializer)
    }
}
