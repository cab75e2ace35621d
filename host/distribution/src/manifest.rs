//! Manifests of registries, as far as they are needed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::ContentDigest;
use crate::printable::printable;
use crate::signature::Signature;

/// The media type of a WebAssembly component, by the Wasm OCI artifact layout.
pub const WASM_MEDIA_TYPE: &str = "application/wasm";
/// The media type of a file of rules.
pub const RULES_MEDIA_TYPE: &str = "application/vnd.windlass.policy.rules.v1+toml";
/// The annotation of a manifest that holds the text of a minisign signature of the layer.
pub const MINISIGN_ANNOTATION: &str = "dev.windlass.signature.minisign";
/// The annotation of a manifest that holds the JSON of a sigstore bundle for the layer.
pub const SIGSTORE_ANNOTATION: &str = "dev.windlass.signature.sigstore";
pub(crate) const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The layer of a manifest.
pub(crate) struct Layer {
    pub(crate) digest: ContentDigest,
    pub(crate) size: u64,
    pub(crate) media_type: String,
    pub(crate) signatures: Vec<Signature>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManifestDocument {
    schema_version: u32,
    media_type: Option<String>,
    #[serde(default)]
    pub(crate) layers: Vec<Descriptor>,
    pub(crate) subject: Option<Descriptor>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    pub(crate) artifact_type: Option<String>,
}

/// A manifest, of whatever.
pub(crate) fn read_any(bytes: &[u8]) -> Result<ManifestDocument, String> {
    let manifest: ManifestDocument = serde_json::from_slice(bytes)
        .map_err(|error| format!("its manifest is not valid: {}", printable(&error.to_string())))?;
    if manifest.schema_version != 2 {
        return Err(format!("its manifest is of version {}, and version 2 is expected", manifest.schema_version));
    }
    let media_type = manifest.media_type.as_deref().unwrap_or(MANIFEST_MEDIA_TYPE);
    if media_type != MANIFEST_MEDIA_TYPE {
        let found = printable(media_type);
        return Err(format!("its manifest is of the type {found}, and {MANIFEST_MEDIA_TYPE} is expected"));
    }
    Ok(manifest)
}

/// The one layer of a manifest, and the signatures that stand beside it.
pub(crate) fn read_manifest(bytes: &[u8]) -> Result<Layer, String> {
    let manifest = read_any(bytes)?;
    let [layer] = &manifest.layers[..] else {
        return Err(format!("it has {} layers", manifest.layers.len()));
    };
    if ![WASM_MEDIA_TYPE, RULES_MEDIA_TYPE].contains(&layer.media_type.as_str()) {
        return Err(format!(
            "its layer is of the type {}, and {WASM_MEDIA_TYPE} or {RULES_MEDIA_TYPE} is expected",
            printable(&layer.media_type)
        ));
    }
    let digest = layer.digest.parse().map_err(|expected| format!("the digest of its layer: {expected}"))?;
    let mut annotations = manifest.annotations.unwrap_or_default();
    let minisign = annotations.remove(MINISIGN_ANNOTATION).map(Signature::Minisign);
    let sigstore = annotations.remove(SIGSTORE_ANNOTATION).map(Signature::Sigstore);
    Ok(Layer {
        digest,
        size: layer.size,
        media_type: layer.media_type.clone(),
        signatures: minisign.into_iter().chain(sigstore).collect(),
    })
}
