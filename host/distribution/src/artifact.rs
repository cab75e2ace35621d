//! What is pushed and fetched.

use std::sync::Arc;

use crate::digest::ContentDigest;
use crate::error::Error;
use crate::reference::Reference;

/// The media type of a WebAssembly component, by the Wasm OCI artifact layout.
pub const WASM_MEDIA_TYPE: &str = "application/wasm";
/// The media type of a file of rules.
pub const RULES_MEDIA_TYPE: &str = "application/vnd.windlass.policy.rules.v1+toml";
/// The annotation of a manifest that holds the text of a minisign signature of the layer.
pub const MINISIGN_ANNOTATION: &str = "dev.windlass.signature.minisign";

/// What was fetched: one layer, verified against its digest.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The digest of its manifest, by which it can be named for good.
    pub digest: ContentDigest,
    /// The layer.
    pub contents: Arc<[u8]>,
    /// The layer's media type: [`WASM_MEDIA_TYPE`] or [`RULES_MEDIA_TYPE`].
    pub media_type: String,
    /// The texts of the signatures that came with it. Nobody has verified them yet.
    pub signatures: Vec<String>,
}

/// What is to be pushed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewArtifact<'a> {
    /// The layer.
    pub contents: &'a [u8],
    /// The layer's media type: [`WASM_MEDIA_TYPE`] or [`RULES_MEDIA_TYPE`].
    pub media_type: &'a str,
    /// For a component: the names that it imports and exports, which others show without fetching it.
    pub imports: Vec<String>,
    /// See `imports`.
    pub exports: Vec<String>,
    /// The text of a minisign signature of the layer.
    pub signature: Option<String>,
}

impl<'a> NewArtifact<'a> {
    /// An artifact without names and signature.
    pub fn new(contents: &'a [u8], media_type: &'a str) -> NewArtifact<'a> {
        NewArtifact { contents, media_type, imports: Vec::new(), exports: Vec::new(), signature: None }
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
