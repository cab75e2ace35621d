//! Artifacts from OCI registries, and the keys that sign them: bytes, digests, references, keys. Knows nothing of what
//! the bytes mean.
//!
//! Whatever comes from outside (answers of registries, lock files, cached files, signatures, credential helpers) is
//! bounded, and what has a digest is verified against it at each use.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod artifact;
mod digest;
mod error;
pub mod files;
mod keys;
// Verifying needs less of it than a client of registries does.
#[cfg_attr(not(feature = "registry"), allow(dead_code))]
mod manifest;
mod printable;
mod reference;
mod settings;
mod signature;
mod sigstore;
mod trust;

#[cfg(feature = "registry")]
mod cache;
#[cfg(feature = "registry")]
mod client;
#[cfg(feature = "registry")]
mod credentials;
#[cfg(feature = "registry")]
mod lock;
#[cfg(feature = "registry")]
mod registries;

pub use artifact::{Artifact, Fetch, NewArtifact};
pub use digest::ContentDigest;
pub use error::Error;
pub use keys::KeyId;
pub use manifest::{MINISIGN_ANNOTATION, RULES_MEDIA_TYPE, SIGSTORE_ANNOTATION, WASM_MEDIA_TYPE};
pub use reference::{Reference, SCHEME};
pub use settings::{HostSettings, RegistrySettings};
pub use signature::{Claim, MINISIGN_SUFFIX, SIGSTORE_SUFFIX, Signature, SignatureFile};
pub use trust::{SignedBy, Trust, Untrusted};

#[cfg(feature = "registry")]
pub use lock::{LockFile, LockedTag, TagLock};
#[cfg(feature = "registry")]
pub use registries::{Registries, RegistryOptions};
