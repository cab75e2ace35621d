//! What was fetched, by digest: so that a start needs no network. Verified against its name whenever it is read.

use std::io;

use cap_std::fs::Dir;

use crate::digest::ContentDigest;
use crate::files::{cut_to, private_folder, read_bounded, remove, write_atomically};

const FOLDER: &str = "artifacts";
/// The oldest are removed beyond so many bytes.
const MAX_CACHE_BYTES: u64 = 512 << 20;

pub(crate) struct Cache {
    folder: Dir,
}

impl Cache {
    pub(crate) fn open(state: &Dir) -> io::Result<Cache> {
        Ok(Cache { folder: private_folder(state, FOLDER)? })
    }

    /// The bytes of this digest. What is not what its name says counts as absent, and is removed.
    pub(crate) fn get(&self, digest: ContentDigest, most: u64) -> Option<Vec<u8>> {
        let name = digest.hex();
        let bytes = read_bounded(&self.folder, &name, most).ok()?;
        let found = ContentDigest::of(&bytes);
        if found == digest {
            return Some(bytes);
        }
        tracing::warn!(%digest, %found, "a cached artifact was changed; it is removed");
        let _ = remove(&self.folder, &name);
        None
    }

    /// Keeps these bytes. Failing costs a network at the next start, and nothing else.
    pub(crate) fn put(&self, digest: ContentDigest, bytes: &[u8]) {
        let kept = write_atomically(&self.folder, &digest.hex(), bytes)
            .and_then(|()| cut_to(&self.folder, MAX_CACHE_BYTES, |name| remove(&self.folder, name).map(|()| true)));
        if let Err(error) = kept {
            tracing::warn!(%digest, %error, "an artifact cannot be cached; the next start fetches it again");
        }
    }
}
