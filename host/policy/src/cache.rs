//! Compiled policies on disk, so that a start doesn't compile.
//!
//! Compiled code is trusted by whoever runs it, so nothing is run that this host didn't write: every entry carries an
//! HMAC under the state folder's [key](StateKey). The HMAC covers the entry's name too, so one entry can't stand for
//! another. Whatever doesn't verify (tampered, truncated, written by another host or version) is compiled anew and
//! overwritten. Without a key nothing is cached.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use cap_std::fs::Dir;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::error::Error;
use crate::state_key::{MAC_BYTES, StateKey};
use windlass_distribution::files::{self, read_bounded};

/// The first bytes of an entry: what it is and how it is laid out.
const MAGIC: &[u8; 16] = b"windlass-cwasm-1";
const FOLDER: &str = "cache";
/// The largest entry. Compiled code is some four times the size of a component.
const MAX_ENTRY_BYTES: u64 = 512 << 20;
/// The size to which the cache is cut when it has grown beyond.
const MAX_CACHE_BYTES: u64 = 512 << 20;

/// The cache of one state folder.
pub(crate) struct Cache {
    folder: Dir,
    /// None: there is none that can be trusted, so nothing is cached.
    key: Option<StateKey>,
    /// Another state folder's, which is only read.
    lender: Option<Box<Cache>>,
    /// Whether the log has it that the last entry could not be stored: a full disk is one warning, not one a policy.
    is_failing: AtomicBool,
}

/// What a compiled policy is made of.
#[derive(Clone, Copy)]
pub(crate) struct CacheKey {
    pub(crate) component: Digest,
    pub(crate) settings: Digest,
}

impl CacheKey {
    pub(crate) fn of(component: &[u8], settings: &Map<String, Value>) -> CacheKey {
        CacheKey { component: Digest::of(component), settings: Digest::of_json(&Value::Object(settings.clone())) }
    }
}

impl Cache {
    pub(crate) fn open(state: &Dir) -> Result<Cache, Error> {
        let folder = files::private_folder(state, FOLDER)
            .map_err(|source| Error::StateFolder { what: "open the folder cache".into(), source })?;
        Ok(Cache { folder, key: StateKey::of(state)?, lender: None, is_failing: AtomicBool::new(false) })
    }

    /// The same, which also has what this state folder's cache has, if there is one that can be trusted.
    pub(crate) fn borrowing(mut self, state: &Dir) -> Cache {
        let lender = state.open_dir(FOLDER).and_then(|folder| {
            let is_failing = AtomicBool::new(false);
            Ok(StateKey::existing(state)?.map(|key| Cache { folder, key: Some(key), lender: None, is_failing }))
        });
        match lender {
            Ok(lender) => self.lender = lender.map(Box::new),
            Err(error) => tracing::debug!(%error, "no compiled policies are borrowed"),
        }
        self
    }

    /// The compiled policy, if a trustworthy one for exactly this engine is there.
    pub(crate) fn get(&self, engine: &Engine, key: CacheKey) -> Option<Component> {
        self.own(engine, key).or_else(|| self.lender.as_ref()?.own(engine, key))
    }

    fn own(&self, engine: &Engine, key: CacheKey) -> Option<Component> {
        let secret = self.key.as_ref()?;
        let name = entry_name(engine, key);
        let bytes = match read_bounded(&self.folder, &name, MAX_ENTRY_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(entry = name, %error, "cannot read a compiled policy; compiling it anew");
                return None;
            }
        };
        let Some(compiled) = verified(secret, &name, &bytes) else {
            tracing::warn!(
                entry = name,
                "a compiled policy in the cache is not what this host wrote; compiling it anew"
            );
            return None;
        };
        match deserialize(engine, compiled) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(entry = name, error = %format!("{error:#}"), "a compiled policy does not fit this \
                    engine; compiling it anew");
                None
            }
        }
    }

    /// Stores a compiled policy. A failure costs the next start some milliseconds and nothing else, so it is only
    /// logged.
    pub(crate) fn put(&self, engine: &Engine, key: CacheKey, component: &Component) {
        let Some(secret) = &self.key else { return };
        let name = entry_name(engine, key);
        let stored =
            component.serialize().map_err(|error| io::Error::other(format!("{error:#}"))).and_then(|compiled| {
                let mut bytes = Vec::with_capacity(MAGIC.len() + MAC_BYTES + compiled.len());
                bytes.extend_from_slice(MAGIC);
                bytes.extend_from_slice(&secret.sign(&authenticated(&name, &compiled)));
                bytes.extend_from_slice(&compiled);
                files::write_atomically(&self.folder, &name, &bytes)
            });
        let remove = |name: &OsStr| files::remove(&self.folder, name).map(|()| true);
        let stored = stored.and_then(|()| files::cut_to(&self.folder, MAX_CACHE_BYTES, |_| (), remove));
        let was_failing = self.is_failing.swap(stored.is_err(), Ordering::Relaxed);
        match stored {
            Err(error) if !was_failing => {
                tracing::warn!(%error, "cannot store compiled policies; they will be compiled at each start");
            }
            Err(error) => tracing::debug!(entry = name, %error, "cannot store a compiled policy"),
            Ok(_) => {}
        }
    }
}

fn verified<'b>(key: &StateKey, name: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (found, compiled) = rest.split_at_checked(MAC_BYTES)?;
    key.verifies(&authenticated(name, compiled), found).then_some(compiled)
}

/// What the HMAC is of: the entry's format and name, and the digest of its code.
fn authenticated(name: &str, compiled: &[u8]) -> Vec<u8> {
    [MAGIC, name.as_bytes(), &[0], &Sha256::digest(compiled)].concat()
}

#[allow(unsafe_code, reason = "compiled code can only be trusted, and here is what it is trusted for")]
fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `Component::deserialize` trusts its bytes to be the unmodified output of `Component::serialize`. The only
    // caller is `Cache::get`, with bytes whose HMAC verified in memory (so they can't change on disk in between) under
    // a key that only hosts of this user have had (`StateKey`), and `Cache::put` makes that HMAC for nothing but the
    // output of `Component::serialize`. wasmtime itself compares its version and the engine's settings, which are part
    // of the bytes.
    unsafe { Component::deserialize(engine, compiled) }
}

fn entry_name(engine: &Engine, key: CacheKey) -> String {
    use std::hash::{Hash, Hasher};
    // Differs for another wasmtime version, other settings or another processor. Not a security boundary: the HMAC is.
    let mut compatibility = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut compatibility);
    let mut identity = Vec::with_capacity(72);
    identity.extend_from_slice(key.component.as_bytes());
    identity.extend_from_slice(key.settings.as_bytes());
    identity.extend_from_slice(&compatibility.finish().to_le_bytes());
    format!("{}.cwasm", Digest::of(&identity))
}
