//! Compiled policies on disk, so that a start doesn't compile.
//!
//! Compiled code is trusted by whoever runs it, so nothing is run that this host didn't write: every entry carries an
//! HMAC-SHA256 under a key that is made at random and kept in the state folder, readable by its owner only. The HMAC
//! covers the entry's name too, so one entry can't stand for another. Whatever doesn't verify (tampered, truncated,
//! written by another host or version) is compiled anew and overwritten.

use std::io::{self, Read, Write};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hmac::{Hmac, Mac};
use rand::Rng;
use serde_json::{Map, Value};
use sha2::Sha256;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::error::Error;
use crate::files::{self, read_bounded};

/// The first bytes of an entry: what it is and how it is laid out.
const MAGIC: &[u8; 16] = b"windlass-cwasm-1";
const MAC_BYTES: usize = 32;
const KEY_FILE: &str = "cache.key";
const FOLDER: &str = "cache";
/// The largest entry. Compiled code is some four times the size of a component.
const MAX_ENTRY_BYTES: u64 = 512 << 20;
/// The size to which the cache is cut when it has grown beyond.
const MAX_CACHE_BYTES: u64 = 512 << 20;

/// The cache of one state folder.
pub(crate) struct Cache {
    folder: Dir,
    key: [u8; 32],
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
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::StateFolder { what, source }
        };
        let key = key(state).map_err(failed("read or make cache.key"))?;
        let folder = files::private_folder(state, FOLDER).map_err(failed("open the folder cache"))?;
        Ok(Cache { folder, key })
    }

    /// The compiled policy, if a trustworthy one for exactly this engine is there.
    pub(crate) fn get(&self, engine: &Engine, key: CacheKey) -> Option<Component> {
        let name = entry_name(engine, key);
        let bytes = match read_bounded(&self.folder, &name, MAX_ENTRY_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(entry = name, %error, "cannot read a compiled policy; compiling it anew");
                return None;
            }
        };
        let Some(compiled) = self.verified(&name, &bytes) else {
            tracing::warn!(
                entry = name,
                "a compiled policy in the cache is not what this host wrote; compiling it anew"
            );
            return None;
        };
        match deserialize(engine, compiled) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(entry = name, error = %format!("{error:#}"), "a compiled policy does not fit this engine; compiling it anew");
                None
            }
        }
    }

    /// Stores a compiled policy. A failure costs the next start some milliseconds and nothing else, so it is only
    /// logged.
    pub(crate) fn put(&self, engine: &Engine, key: CacheKey, component: &Component) {
        let name = entry_name(engine, key);
        let stored =
            component.serialize().map_err(|error| io::Error::other(format!("{error:#}"))).and_then(|compiled| {
                let mut bytes = Vec::with_capacity(MAGIC.len() + MAC_BYTES + compiled.len());
                bytes.extend_from_slice(MAGIC);
                bytes.extend_from_slice(&self.mac(&name, &compiled).finalize().into_bytes());
                bytes.extend_from_slice(&compiled);
                files::write_atomically(&self.folder, &name, &bytes)
            });
        if let Err(error) = stored.and_then(|()| files::cut_to(&self.folder, MAX_CACHE_BYTES)) {
            tracing::warn!(entry = name, %error, "cannot store a compiled policy; it will be compiled at each start");
        }
    }

    fn verified<'b>(&self, name: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (mac, compiled) = rest.split_at_checked(MAC_BYTES)?;
        // Compares in constant time.
        self.mac(name, compiled).verify_slice(mac).ok()?;
        Some(compiled)
    }

    fn mac(&self, name: &str, compiled: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(MAGIC);
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac.update(compiled);
        mac
    }
}

#[allow(unsafe_code)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `Component::deserialize` trusts its bytes to be the unmodified output of `Component::serialize`. The only
    // caller is `Cache::get`, with bytes whose HMAC verified in memory (so they can't change on disk in between) under
    // a key that only this host has, and `Cache::put` makes that HMAC for nothing but the output of
    // `Component::serialize`. wasmtime itself compares its version and the engine's settings, which are part of the
    // bytes.
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

/// Reads the key, or makes one. Of several processes that make one at the same time, one wins, and all use its key.
fn key(state: &Dir) -> io::Result<[u8; 32]> {
    for _ in 0..8 {
        match state.open(KEY_FILE) {
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(64).read_to_end(&mut bytes)?;
                match <[u8; 32]>::try_from(bytes) {
                    Ok(key) => return Ok(key),
                    // Torn or foreign: what it has signed can't be trusted either, so it is replaced.
                    Err(_) => state.remove_file(KEY_FILE)?,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut key = [0; 32];
        rand::rng().fill_bytes(&mut key);
        // Written whole under another name, then linked to its own, which fails where another process was quicker.
        let temporary = files::temporary_name(KEY_FILE);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = state.open_with(&temporary, &options)?;
        file.write_all(&key)?;
        file.sync_all()?;
        let linked = state.hard_link(&temporary, state, KEY_FILE);
        state.remove_file(&temporary)?;
        match linked {
            Ok(()) => return Ok(key),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("cache.key changes all the time"))
}
