//! Compiled policies on disk, so that a start doesn't compile.
//!
//! Compiled code is trusted by whoever runs it, so nothing is run that this host didn't write: every entry carries an
//! HMAC-SHA256 under a key that is made at random and kept in the state folder, readable by its owner only. The HMAC
//! covers the entry's name too, so one entry can't stand for another. Whatever doesn't verify (tampered, truncated,
//! written by another host or version) is compiled anew and overwritten. A key that another user made, or could have
//! read, proves nothing: the one is not used, and nothing is cached then; the other is replaced.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rand::Rng;
use ring::hmac;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::error::Error;
use windlass_distribution::files::{self, read_bounded};

/// The first bytes of an entry: what it is and how it is laid out.
const MAGIC: &[u8; 16] = b"windlass-cwasm-1";
const MAC_BYTES: usize = 32;
const KEY_FILE: &str = "cache.key";
const FOLDER: &str = "cache";
/// What other users may not have of the key, by its mode.
const OTHERS: u32 = 0o077;
/// The largest entry. Compiled code is some four times the size of a component.
const MAX_ENTRY_BYTES: u64 = 512 << 20;
/// The size to which the cache is cut when it has grown beyond.
const MAX_CACHE_BYTES: u64 = 512 << 20;

/// The cache of one state folder.
pub(crate) struct Cache {
    folder: Dir,
    /// None: there is none that can be trusted, so nothing is cached.
    key: Option<Key>,
}

type Key = [u8; 32];

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
        let key = key(state, geteuid().as_raw()).map_err(failed("read or make cache.key"))?;
        let folder = files::private_folder(state, FOLDER).map_err(failed("open the folder cache"))?;
        Ok(Cache { folder, key })
    }

    /// The compiled policy, if a trustworthy one for exactly this engine is there.
    pub(crate) fn get(&self, engine: &Engine, key: CacheKey) -> Option<Component> {
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
                bytes.extend_from_slice(hmac::sign(&mac_key(secret), &authenticated(&name, &compiled)).as_ref());
                bytes.extend_from_slice(&compiled);
                files::write_atomically(&self.folder, &name, &bytes)
            });
        let remove = |name: &OsStr| files::remove(&self.folder, name).map(|()| true);
        if let Err(error) = stored.and_then(|()| files::cut_to(&self.folder, MAX_CACHE_BYTES, remove)) {
            tracing::warn!(entry = name, %error, "cannot store a compiled policy; it will be compiled at each start");
        }
    }
}

fn verified<'b>(key: &Key, name: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (found, compiled) = rest.split_at_checked(MAC_BYTES)?;
    // Compares in constant time.
    hmac::verify(&mac_key(key), &authenticated(name, compiled), found).ok()?;
    Some(compiled)
}

fn mac_key(key: &Key) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key)
}

/// What the HMAC is of: the entry's format and name, and the digest of its code.
fn authenticated(name: &str, compiled: &[u8]) -> Vec<u8> {
    [MAGIC, name.as_bytes(), &[0], &Sha256::digest(compiled)].concat()
}

#[allow(unsafe_code, reason = "compiled code can only be trusted, and here is what it is trusted for")]
fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: `Component::deserialize` trusts its bytes to be the unmodified output of `Component::serialize`. The only
    // caller is `Cache::get`, with bytes whose HMAC verified in memory (so they can't change on disk in between) under
    // a key that only hosts of this user have had (`key`), and `Cache::put` makes that HMAC for nothing but the output
    // of `Component::serialize`. wasmtime itself compares its version and the engine's settings, which are part of the
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

/// Reads this user's key, or makes one. Of several processes that make one at the same time, one wins, and all use its
/// key. None: another user's is there, whose folder this may be, so it is not removed.
fn key(state: &Dir, user: u32) -> io::Result<Option<Key>> {
    for _ in 0..8 {
        match read_key(state, user)? {
            Found::Nothing => {}
            Found::Key(_, metadata) | Found::Else(metadata) if metadata.uid() != user => {
                let owner = metadata.uid();
                tracing::warn!(
                    owner,
                    user,
                    "cache.key belongs to another user: compiled policies can't be trusted, and none are kept"
                );
                return Ok(None);
            }
            Found::Key(key, metadata) if metadata.mode() & OTHERS == 0 => return Ok(Some(key)),
            // What it has signed can't be trusted either.
            Found::Key(..) | Found::Else(_) => {
                tracing::warn!(
                    "cache.key is torn or open to other users; a new one is made, and policies are compiled anew"
                );
                state.remove_file(KEY_FILE)?;
            }
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
            Ok(()) => return Ok(Some(key)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("cache.key changes all the time"))
}

/// What stands where the key should.
enum Found {
    Nothing,
    Key(Key, Metadata),
    /// Torn, or no file at all.
    Else(Metadata),
}

fn read_key(state: &Dir, user: u32) -> io::Result<Found> {
    let metadata = match state.symlink_metadata(KEY_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        found => found?,
    };
    // One of another user can't be opened, mostly.
    if !metadata.is_file() || metadata.uid() != user {
        return Ok(Found::Else(metadata));
    }
    // No link, so that it is judged by what it is itself.
    let (file, metadata) = files::open_regular(state, Path::new(KEY_FILE), OFlags::NOFOLLOW)?;
    let mut bytes = Vec::new();
    file.take(64).read_to_end(&mut bytes)?;
    Ok(match Key::try_from(bytes) {
        Ok(key) => Found::Key(key, metadata),
        Err(_) => Found::Else(metadata),
    })
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_key_of_another_user_is_neither_used_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let me = geteuid().as_raw();
        let made = key(&state, me).unwrap().unwrap();
        assert_eq!(key(&state, me).unwrap(), Some(made));
        assert_eq!(key(&state, me + 1).unwrap(), None);
        assert_eq!(state.read(KEY_FILE).unwrap(), made);
    }
}
