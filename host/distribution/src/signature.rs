//! What comes with something to show who signed it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::keys::KeyId;
use crate::printable::printable;
use crate::sigstore::{Bundle, MAX_BUNDLE_BYTES};

/// What follows the name of a file in the name of its minisign signature.
pub const MINISIGN_SUFFIX: &str = ".minisig";
/// What follows the name of a file in the name of its sigstore bundle.
pub const SIGSTORE_SUFFIX: &str = ".sigstore.json";
/// The longest minisign signature, in bytes.
const MAX_MINISIGN_BYTES: u64 = 16 << 10;

/// A signature, and what it should be one of. Nobody has verified it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signature {
    /// The text of a minisign signature of the contents.
    Minisign(String),
    /// The JSON of a sigstore bundle for the contents.
    Sigstore(String),
    /// The JSON of a sigstore bundle for the manifest in a registry that names the contents.
    SigstoreOfManifest {
        bundle: String,
        /// The manifest, as it was sent.
        manifest: Arc<[u8]>,
    },
}

/// The kinds of signatures that lie beside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureFile {
    /// As minisign makes it.
    Minisign,
    /// As `cosign sign-blob --bundle` makes it.
    Sigstore,
}

impl SignatureFile {
    pub const ALL: [SignatureFile; 2] = [SignatureFile::Minisign, SignatureFile::Sigstore];

    /// What follows the name of the file that is signed.
    pub fn suffix(self) -> &'static str {
        match self {
            SignatureFile::Minisign => MINISIGN_SUFFIX,
            SignatureFile::Sigstore => SIGSTORE_SUFFIX,
        }
    }

    /// The most bytes that such a file has.
    pub fn most_bytes(self) -> u64 {
        match self {
            SignatureFile::Minisign => MAX_MINISIGN_BYTES,
            SignatureFile::Sigstore => MAX_BUNDLE_BYTES,
        }
    }

    /// The signature that such a file holds. What is no text is no signature, and verifying says so.
    pub fn read(self, bytes: &[u8]) -> Signature {
        let text = String::from_utf8_lossy(bytes).into_owned();
        match self {
            SignatureFile::Minisign => Signature::Minisign(text),
            SignatureFile::Sigstore => Signature::Sigstore(text),
        }
    }
}

/// What a signature says of itself. Nobody has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key that it says it is by. Absent where it names none, or cannot be read.
    pub key: Option<KeyId>,
    /// What its signer wrote beside, in one line. It is signed as well, so it counts where the signature is right.
    pub comment: Option<String>,
}

/// The key that a minisign signature names.
pub(crate) fn minisign_key(text: &str) -> Option<KeyId> {
    KeyId::of_minisign(&BASE64.decode(text.lines().nth(1)?.trim()).ok()?)
}

impl Signature {
    /// What it says of itself.
    pub fn claim(&self) -> Claim {
        match self {
            Signature::Minisign(text) => Claim {
                key: minisign_key(text),
                comment: text.lines().find_map(|line| line.strip_prefix("trusted comment: ")).map(printable),
            },
            Signature::Sigstore(bundle) | Signature::SigstoreOfManifest { bundle, .. } => {
                Claim { key: Bundle::read(bundle).ok().and_then(|bundle| bundle.key), comment: None }
            }
        }
    }

    /// The file beside the contents that holds it, and its text; nothing for what is not of the contents themselves.
    pub fn file(&self) -> Option<(SignatureFile, &str)> {
        match self {
            Signature::Minisign(text) => Some((SignatureFile::Minisign, text)),
            Signature::Sigstore(text) => Some((SignatureFile::Sigstore, text)),
            Signature::SigstoreOfManifest { .. } => None,
        }
    }
}
