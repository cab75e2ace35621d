//! Sigstore bundles that were signed with a key, read strictly and verified without asking anybody.
//!
//! What a bundle holds besides (entries of a transparency log, timestamps) is neither needed for a key nor verified.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::digest::ContentDigest;
use crate::keys::KeyId;
use crate::printable::printable;

/// The media type of the bundles that are taken: those of cosign 3.
pub(crate) const BUNDLE_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The longest bundle, in bytes. One with entries of a log has some ten thousand.
pub(crate) const MAX_BUNDLE_BYTES: u64 = 128 << 10;

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// What `cosign sign` writes, and what `cosign attest-blob` does. What is needed of them is the same in both.
const STATEMENT_TYPES: [&str; 2] = ["https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1"];
/// What `cosign sign` states. Other statements are *about* something, and no consent to its use.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
const SHA_256: &str = "SHA2_256";

/// A bundle. Nobody has verified it yet.
pub(crate) struct Bundle {
    /// The key that it says it was signed with.
    pub(crate) key: Option<KeyId>,
    /// The signature, in ASN.1.
    pub(crate) signature: Vec<u8>,
    content: Content,
}

/// Why a right signature is none of what it should be of.
pub(crate) enum Other {
    /// It is of something else, or it cannot be read of what; in words.
    Subject(String),
    /// It states something of this type, which is not that it is signed.
    Statement(String),
}

enum Content {
    /// Signed is a message, whose digest this is said to be.
    Message(ContentDigest),
    /// Signed is a statement about something.
    Envelope(Vec<u8>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    media_type: String,
    verification_material: Material,
    message_signature: Option<MessageSignature>,
    dsse_envelope: Option<Envelope>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Material {
    public_key: Option<Hint>,
    x509_certificate_chain: Option<IgnoredAny>,
    certificate: Option<IgnoredAny>,
    #[serde(rename = "tlogEntries")]
    _log_entries: Option<IgnoredAny>,
    #[serde(rename = "timestampVerificationData")]
    _timestamps: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hint {
    hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MessageSignature {
    message_digest: MessageDigest,
    signature: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    sig: String,
    #[serde(rename = "keyid")]
    _key_id: Option<IgnoredAny>,
}

/// What in-toto says of things: only what is needed of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    predicate_type: String,
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

/// A structure and not a map, so that the same algorithm twice is refused.
#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

impl Bundle {
    /// Reads a bundle's JSON.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub(crate) fn read(text: &str) -> Result<Bundle, String> {
        if text.len() as u64 > MAX_BUNDLE_BYTES {
            return Err(format!("it has {} bytes, and at most {MAX_BUNDLE_BYTES} are allowed", text.len()));
        }
        let document: Document = serde_json::from_str(text).map_err(|error| match error.to_string() {
            words if words.contains("unknown field `base64Signature`") => {
                "it is of the form of cosign 2: sign with cosign 3, or with --new-bundle-format".into()
            }
            words => format!("it is no sigstore bundle: {}", printable(&words)),
        })?;
        if document.media_type != BUNDLE_MEDIA_TYPE {
            let found = printable(&document.media_type);
            return Err(format!("it is a bundle of the type {found}, and {BUNDLE_MEDIA_TYPE} is expected"));
        }
        let material = document.verification_material;
        if material.certificate.is_some() || material.x509_certificate_chain.is_some() {
            return Err("it is signed by a certificate, as without a key: only keys are trusted here, so sign with \
                        `cosign --key`"
                .into());
        }
        let hint = material.public_key.ok_or("it names no key")?.hint.filter(|hint| !hint.is_empty());
        let no_key = |hint: &String| format!("the hint `{}` names no key as cosign does", printable(hint));
        let key = hint.map(|hint| KeyId::of_hint(&hint).ok_or_else(|| no_key(&hint))).transpose()?;
        let (signature, content) = match (document.message_signature, document.dsse_envelope) {
            (Some(message), None) => read_message(&message)?,
            (None, Some(envelope)) => read_envelope(&envelope)?,
            (None, None) => return Err("it holds no signature".into()),
            (Some(_), Some(_)) => return Err("it holds a signature of a message and one of a statement".into()),
        };
        Ok(Bundle { key, signature, content })
    }

    /// The bytes that were signed, if the subject is what they are about.
    pub(crate) fn signed<'a>(&'a self, subject: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.content {
            Content::Message(_) => subject.into(),
            Content::Envelope(payload) => {
                let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
                [head.as_bytes(), payload].concat().into()
            }
        }
    }

    /// The digest of the message that it says it is of.
    pub(crate) fn said_of(&self) -> Option<ContentDigest> {
        match self.content {
            Content::Message(digest) => Some(digest),
            Content::Envelope(_) => None,
        }
    }

    /// Whether it says that it is a signature of what has this digest. Says nothing before the signature was verified.
    ///
    /// # Errors
    /// What it is a signature of instead, or what it states instead.
    pub(crate) fn check_subject(&self, subject: ContentDigest) -> Result<(), Other> {
        let other = |words: String| Err(Other::Subject(words));
        let payload = match &self.content {
            Content::Message(digest) if *digest == subject => return Ok(()),
            Content::Message(digest) => return other(format!("it is of {digest}")),
            Content::Envelope(payload) => payload,
        };
        let statement: Statement = serde_json::from_slice(payload).map_err(|error| {
            Other::Subject(format!("what it states cannot be read: {}", printable(&error.to_string())))
        })?;
        if !STATEMENT_TYPES.contains(&&*statement.kind) {
            let (found, expected) = (printable(&statement.kind), STATEMENT_TYPES[0]);
            return other(format!("what it states is of the type {found}, and {expected} is expected"));
        }
        if statement.predicate_type != SIGN_PREDICATE {
            return Err(Other::Statement(printable(&statement.predicate_type)));
        }
        let named: Vec<&str> =
            statement.subject.iter().filter_map(|subject| subject.digest.sha256.as_deref()).collect();
        match named.first() {
            _ if named.contains(&&*subject.hex()) => Ok(()),
            Some(name) => other(format!("it is of sha256:{}", printable(name))),
            None => other("it names nothing by its SHA-256 digest".into()),
        }
    }
}

fn read_message(message: &MessageSignature) -> Result<(Vec<u8>, Content), String> {
    let digest = &message.message_digest;
    if digest.algorithm != SHA_256 {
        return Err(format!("its digest is by {}, and {SHA_256} is expected", printable(&digest.algorithm)));
    }
    let bytes: [u8; 32] =
        read_base64("its digest", &digest.digest)?.try_into().map_err(|_| "its digest has another length")?;
    Ok((read_base64("its signature", &message.signature)?, Content::Message(bytes.into())))
}

fn read_envelope(envelope: &Envelope) -> Result<(Vec<u8>, Content), String> {
    if envelope.payload_type != PAYLOAD_TYPE {
        let found = printable(&envelope.payload_type);
        return Err(format!("its payload is of the type {found}, and {PAYLOAD_TYPE} is expected"));
    }
    let [signature] = &envelope.signatures[..] else {
        return Err(format!("it has {} signatures, and one is expected", envelope.signatures.len()));
    };
    let payload = read_base64("its payload", &envelope.payload)?;
    Ok((read_base64("its signature", &signature.sig)?, Content::Envelope(payload)))
}

fn read_base64(what: &str, text: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(text).map_err(|_| format!("{what} is not in base64"))
}
