//! What was fetched, by digest: so that a start needs no network. Verified against its name whenever it is read.

use std::io;

use cap_std::fs::Dir;

use crate::client::MAX_BUNDLES;
use crate::digest::ContentDigest;
use crate::files::{cut_to, private_folder, read_bounded, remove, write_atomically};
use crate::sigstore::MAX_BUNDLE_BYTES;

const FOLDER: &str = "artifacts";
/// The oldest are removed beyond so many bytes.
const MAX_CACHE_BYTES: u64 = 512 << 20;

/// The longest file of bundles: all that are looked at, each as long as it may be, and as much again for JSON.
const MAX_BUNDLES_BYTES: u64 = 2 * MAX_BUNDLES as u64 * MAX_BUNDLE_BYTES;

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

    /// The bundles for a manifest that were kept. Nobody has verified them since.
    pub(crate) fn bundles(&self, manifest: ContentDigest) -> Vec<String> {
        let read = read_bounded(&self.folder, bundles_of(manifest), MAX_BUNDLES_BYTES).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Keeps the bundles for a manifest, so that a start without a network knows who signed it.
    pub(crate) fn put_bundles(&self, manifest: ContentDigest, bundles: &[String]) {
        let written = serde_json::to_vec(bundles).map_err(io::Error::other);
        let kept = written.and_then(|bytes| write_atomically(&self.folder, &bundles_of(manifest), &bytes));
        if let Err(error) = kept {
            tracing::warn!(%manifest, %error, "signatures cannot be cached; the next start asks for them again");
        }
    }

    /// Keeps these bytes. Failing costs a network at the next start, and nothing else.
    pub(crate) fn put(&self, digest: ContentDigest, bytes: &[u8]) {
        let kept = write_atomically(&self.folder, &digest.hex(), bytes).and_then(|()| {
            cut_to(&self.folder, MAX_CACHE_BYTES, |_| (), |name| remove(&self.folder, name).map(|()| true))
        });
        if let Err(error) = kept {
            tracing::warn!(%digest, %error, "an artifact cannot be cached; the next start fetches it again");
        }
    }
}

fn bundles_of(manifest: ContentDigest) -> String {
    format!("{}.bundles", manifest.hex())
}
