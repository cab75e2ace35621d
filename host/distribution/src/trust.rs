//! Which keys may sign, and whether one of them has. Nothing is asked of anybody.

use std::collections::BTreeMap;
use std::fmt;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::digest::ContentDigest;
use crate::keys::{KeyId, PublicKey, is_signed};
use crate::manifest::read_manifest;
use crate::printable::printable;
use crate::signature::{Signature, minisign_key};
use crate::sigstore::{Bundle, Other};

/// The most keys, and the most revoked ones.
const MAX_KEYS: usize = 64;

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
    pub key: KeyId,
    /// How the configuration calls it.
    pub name: String,
}

/// Why bytes are not trusted: which bytes, which key, which rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// It has no signature.
    #[error(
        "{digest} is not signed, and [policies.trust] takes only what is signed by {trusted}; `windlass policy sign` signs \
             a policy"
    )]
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
        problem: String,
    },
    /// It is signed by somebody else.
    #[error("{digest} is signed by the key {key}, and [policies.trust] takes only what is signed by {trusted}")]
    UnknownKey {
        /// What is signed.
        digest: ContentDigest,
        key: KeyId,
        /// The keys that could have.
        trusted: String,
    },
    /// It is signed by a key that is revoked.
    #[error("{digest} is signed by the key {key}{}, which `revoked` of [policies.trust] names", named(.name))]
    Revoked {
        /// What is signed.
        digest: ContentDigest,
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
    /// A trusted key says something about it, and not that it may be used.
    #[error(
        "the key {key} ({name}) signed a statement of type {statement} about {digest}, which does not approve its \
         use: sign it with `cosign sign` or `cosign sign-blob`"
    )]
    Attested {
        /// What something is said about.
        digest: ContentDigest,
        /// Who says it.
        key: KeyId,
        /// How the configuration calls the key.
        name: String,
        /// The type of what is said.
        statement: String,
    },
    /// It is older than the minimum.
    #[error("{name} {version} is older than {minimum}, which `minimum_versions` of [policies.trust] asks for")]
    TooOld {
        /// What it is called.
        name: String,
        version: String,
        /// The oldest that is taken.
        minimum: Version,
    },
    /// It was loaded before trust stood, and nobody knows who signed it.
    #[error("nothing says which key it was signed by, and [policies.trust] takes only what is signed")]
    Unknown,
}

impl Untrusted {
    /// How close to being trusted it was.
    fn closeness(&self) -> u8 {
        match self {
            Untrusted::Unsigned { .. } | Untrusted::Unknown => 0,
            Untrusted::Malformed { .. } => 1,
            Untrusted::Attested { .. } => 2,
            Untrusted::UnknownKey { .. } => 3,
            Untrusted::Wrong { .. } => 4,
            Untrusted::Revoked { .. } => 5,
            Untrusted::TooOld { .. } => 6,
        }
    }
}

fn named(name: &Option<String>) -> String {
    name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
}

impl Trust {
    /// Reads a table of the configuration.
    ///
    /// # Errors
    /// A sentence for each mistake, with its key and what was expected.
    pub fn from_value(value: serde_json::Value) -> Result<Trust, String> {
        let is_table = |value: Option<&serde_json::Value>| value.is_none_or(serde_json::Value::is_object);
        if !is_table(Some(&value)) || !is_table(value.get("keys")) {
            let found = if value.is_object() { "`keys` is" } else { "it is" };
            return Err(format!(
                "{found} not a table: each key needs its own name. Write [policies.trust.keys], and below it a line \
                 like release = \"RWQ...\""
            ));
        }
        let settings: Settings = serde_json::from_value(value).map_err(|error| error.to_string())?;
        if settings.keys.len() > MAX_KEYS || settings.revoked.len() > MAX_KEYS {
            return Err(format!("more than {MAX_KEYS} keys; remove those that sign no more"));
        }
        if settings.keys.is_empty() {
            return Err(
                "`keys` is empty, so no policy could be used; to trust every policy, remove [policies.trust]".into()
            );
        }
        let (mut keys, mut wrong) = (BTreeMap::new(), Vec::new());
        for (name, text) in &settings.keys {
            match PublicKey::read(text) {
                Ok((id, key)) => {
                    if let Some((other, _)) = keys.insert(id, (name.clone(), key)) {
                        wrong.push(format!("keys.{name}: it has the identifier {id}, which {other} has"));
                    }
                }
                Err(problem) => wrong.push(format!("keys.{name}: {problem}")),
            }
        }
        if wrong.is_empty() { Ok(Trust { settings, keys }) } else { Err(wrong.join("; ")) }
    }

    /// The keys that may sign no more.
    pub fn revoked(&self) -> &[KeyId] {
        &self.settings.revoked
    }

    /// Verifies that one of these signatures is of these bytes, by a key that is trusted and not revoked.
    ///
    /// # Errors
    /// Why none is. Where there are several, the words are about the one that came closest.
    pub fn verify(&self, contents: &[u8], signatures: &[Signature]) -> Result<SignedBy, Untrusted> {
        let digest = ContentDigest::of(contents);
        let mut problem = Untrusted::Unsigned { digest, trusted: self.names() };
        for signature in signatures {
            let verified = match signature {
                Signature::Minisign(text) => self.verify_minisign(digest, contents, text),
                Signature::Sigstore(bundle) => self.verify_bundle(digest, contents, digest, bundle),
                Signature::SigstoreOfManifest { bundle, manifest } => self.verify_manifest(digest, manifest, bundle),
            };
            match verified {
                Ok(signed_by) => return Ok(signed_by),
                Err(untrusted) if untrusted.closeness() >= problem.closeness() => problem = untrusted,
                Err(_) => {}
            }
        }
        Err(problem)
    }

    fn verify_minisign(&self, digest: ContentDigest, contents: &[u8], text: &str) -> Result<SignedBy, Untrusted> {
        let malformed = |problem: &str| Untrusted::Malformed { digest, problem: problem.to_owned() };
        let signature = minisign_verify::Signature::decode(text).map_err(|error| malformed(&error.to_string()))?;
        let id = minisign_key(text).ok_or_else(|| malformed("it names no key"))?;
        let (name, key) = self.key(digest, id)?;
        let PublicKey::Minisign(key) = key else { return Err(malformed("it names no key of minisign's")) };
        // A signature that is not over a hash is refused as well: minisign has made none since 2022.
        key.verify(contents, &signature, false).map_err(|error| Untrusted::Wrong {
            digest,
            key: id,
            name: name.clone(),
            problem: error.to_string(),
        })?;
        Ok(SignedBy { key: id, name: name.clone() })
    }

    /// A bundle for a manifest, which has to name these contents.
    fn verify_manifest(&self, digest: ContentDigest, manifest: &[u8], bundle: &str) -> Result<SignedBy, Untrusted> {
        let malformed = |problem: String| Untrusted::Malformed { digest, problem };
        let layer = read_manifest(manifest).map_err(malformed)?;
        if layer.digest != digest {
            return Err(malformed(format!("it is of a manifest that names {}", layer.digest)));
        }
        self.verify_bundle(digest, manifest, ContentDigest::of(manifest), bundle)
    }

    /// A bundle for a subject with this digest. `digest` is that of the contents, for the words of a refusal.
    fn verify_bundle(
        &self,
        digest: ContentDigest,
        subject: &[u8],
        subject_digest: ContentDigest,
        text: &str,
    ) -> Result<SignedBy, Untrusted> {
        let malformed = |problem: String| Untrusted::Malformed { digest, problem };
        let bundle = Bundle::read(text).map_err(malformed)?;
        let signed = bundle.signed(subject);
        let is_by = |key: &PublicKey| match key {
            PublicKey::P256(point) => is_signed(point, &signed, &bundle.signature),
            PublicKey::Minisign(_) => false,
        };
        let (id, name, is_right) = match bundle.key {
            Some(id) => {
                let (name, key) = self.key(digest, id)?;
                (id, name, is_by(key))
            }
            // It may name no key at all.
            None => {
                let mut trusted = self.keys.iter().filter(|(id, _)| !self.settings.revoked.contains(id));
                let found = trusted.find(|(_, (_, key))| is_by(key));
                let nobody = || malformed(format!("it names no key, and is by none of {}", self.names()));
                found.map(|(id, (name, _))| (*id, name, true)).ok_or_else(nobody)?
            }
        };
        let wrong = |problem: String| Untrusted::Wrong { digest, key: id, name: name.clone(), problem };
        // A message for another artifact is reported as such; other statements count once they are signed.
        if !is_right {
            let other = bundle.said_of().filter(|said| *said != subject_digest);
            return Err(wrong(other.map_or("the signature is not right".into(), |said| format!("it is of {said}"))));
        }
        bundle.check_subject(subject_digest).map_err(|other| match other {
            Other::Subject(problem) => wrong(problem),
            Other::Statement(statement) => Untrusted::Attested { digest, key: id, name: name.clone(), statement },
        })?;
        Ok(SignedBy { key: id, name: name.clone() })
    }

    /// A key, if it is trusted.
    fn key(&self, digest: ContentDigest, id: KeyId) -> Result<&(String, PublicKey), Untrusted> {
        let known = self.keys.get(&id);
        if self.settings.revoked.contains(&id) {
            return Err(Untrusted::Revoked { digest, key: id, name: known.map(|(name, _)| name.clone()) });
        }
        known.ok_or_else(|| Untrusted::UnknownKey { digest, key: id, trusted: self.names() })
    }

    /// Whether a key is trusted whose signatures lie beside a manifest, where they have to be asked for.
    #[cfg(feature = "registry")]
    pub(crate) fn takes_bundles(&self) -> bool {
        self.keys.values().any(|(_, key)| matches!(key, PublicKey::P256(_)))
    }

    /// Whether what this key has signed before is still taken.
    ///
    /// # Errors
    /// Why it isn't.
    pub fn check_key(&self, digest: ContentDigest, key: KeyId) -> Result<(), Untrusted> {
        self.key(digest, key).map(drop)
    }

    /// Whether a version can be too old. The same for every name.
    pub fn has_minimum_versions(&self) -> bool {
        !self.settings.minimum_versions.is_empty()
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
