//! What is pushed and fetched.

use std::sync::Arc;

use crate::digest::ContentDigest;
use crate::error::Error;
use crate::reference::Reference;
use crate::signature::Signature;

/// What was fetched: one layer, verified against its digest.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The digest of its manifest, by which it can be named for good.
    pub digest: ContentDigest,
    /// The layer.
    pub contents: Arc<[u8]>,
    /// The layer's media type: [`WASM_MEDIA_TYPE`](crate::WASM_MEDIA_TYPE) or
    /// [`RULES_MEDIA_TYPE`](crate::RULES_MEDIA_TYPE).
    pub media_type: String,
    /// The signatures that came with it. Nobody has verified them yet.
    pub signatures: Vec<Signature>,
}

/// What is to be pushed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewArtifact<'a> {
    /// The layer.
    pub contents: &'a [u8],
    /// The layer's media type: [`WASM_MEDIA_TYPE`](crate::WASM_MEDIA_TYPE) or
    /// [`RULES_MEDIA_TYPE`](crate::RULES_MEDIA_TYPE).
    pub media_type: &'a str,
    /// For a component: the names that it imports and exports, which others show without fetching it.
    pub imports: Vec<String>,
    /// See `imports`.
    pub exports: Vec<String>,
    /// The signatures of the layer that go with it. Those of a manifest do not: it has none yet.
    pub signatures: Vec<Signature>,
}

impl<'a> NewArtifact<'a> {
    /// An artifact without names and signature.
    pub fn new(contents: &'a [u8], media_type: &'a str) -> NewArtifact<'a> {
        NewArtifact { contents, media_type, imports: Vec::new(), exports: Vec::new(), signatures: Vec::new() }
    }
}

/// Fetches artifacts.
pub trait Fetch: Send + Sync {
    /// Fetches an artifact whose layer has at most so many bytes. Blocks; bounded in time.
    ///
    /// # Errors
    /// Why it could not be had; nothing was changed.
    fn fetch(&self, reference: &Reference, most: u64) -> Result<Artifact, Error>;
}
