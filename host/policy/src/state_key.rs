//! The key by which a host tells what it wrote into its state folder from what somebody else put there.
//!
//! It is made at random and readable by its owner only. One that another user made, or could have read, proves nothing:
//! the one is not used, the other is replaced.

use std::io::{self, Read, Write};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rand::Rng;
use ring::hmac;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use windlass_distribution::files;

use crate::error::Error;

/// The length of what [`StateKey::sign`] gives.
pub(crate) const MAC_BYTES: usize = 32;
const KEY_FILE: &str = "cache.key";
/// What other users may not have of the key, by its mode.
const OTHERS: u32 = 0o077;

type Key = [u8; 32];

/// The key of one state folder.
pub(crate) struct StateKey(hmac::Key);

impl StateKey {
    /// Reads this user's key, or makes one. `None`: another user's is there.
    pub(crate) fn of(state: &Dir) -> Result<Option<StateKey>, Error> {
        let key = key(state, geteuid().as_raw())
            .map_err(|source| Error::StateFolder { what: "read or make cache.key".into(), source })?;
        Ok(key.map(|key| StateKey(hmac::Key::new(hmac::HMAC_SHA256, &key))))
    }

    /// Reads this user's key. `None`: there is none that only this user could read.
    pub(crate) fn existing(state: &Dir) -> io::Result<Option<StateKey>> {
        Ok(match read_key(state, geteuid().as_raw())? {
            Found::Key(key, metadata) if metadata.uid() == geteuid().as_raw() && metadata.mode() & OTHERS == 0 => {
                Some(StateKey(hmac::Key::new(hmac::HMAC_SHA256, &key)))
            }
            _ => None,
        })
    }

    /// The HMAC-SHA256 of this.
    pub(crate) fn sign(&self, contents: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(hmac::sign(&self.0, contents).as_ref());
        mac
    }

    /// Whether this is the HMAC of the contents. Compares in constant time.
    pub(crate) fn verifies(&self, contents: &[u8], mac: &[u8]) -> bool {
        hmac::verify(&self.0, contents, mac).is_ok()
    }
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
                    "cache.key belongs to another user, so files of the state directory cannot be trusted and nothing is cached"
                );
                return Ok(None);
            }
            Found::Key(key, metadata) if metadata.mode() & OTHERS == 0 => return Ok(Some(key)),
            // What it has signed can't be trusted either.
            Found::Key(..) | Found::Else(_) => {
                tracing::warn!(
                    "cache.key is damaged or readable by other users: a new one is made, and files signed with the old one are ignored"
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
