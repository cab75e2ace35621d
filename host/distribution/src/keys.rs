//! The keys that may sign: minisign's, and those that cosign makes.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign_verify::PublicKey as MinisignKey;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::digest::ContentDigest;
use crate::printable::printable;

/// The longest PEM file of a public key, in bytes.
const MAX_PEM_BYTES: usize = 4 << 10;
/// How the DER form of an ECDSA key on the curve P-256 begins, by RFC 5480; an uncompressed point follows.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The length of an uncompressed point on P-256, in bytes.
const P256_POINT_BYTES: usize = 65;
/// Kinds of keys that are not taken, by the object identifier in their DER form.
const OTHER_KEYS: [(&[u8], &str); 5] = [
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22], "an ECDSA key on the curve P-384"),
    (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23], "an ECDSA key on the curve P-521"),
    (&[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01], "an RSA key"),
    (&[0x06, 0x03, 0x2b, 0x65, 0x70], "an Ed25519 key"),
    (
        &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        "an ECDSA key on the curve P-256 in a form that cosign does not write",
    ),
];

/// The identifier of a key. Of minisign's: 16 upper-case hexadecimal digits, as minisign writes it. Of cosign's:
/// `sha256:` and the digest of the public key in its DER form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(Id);

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Id {
    Minisign([u8; 8]),
    Cosign(ContentDigest),
}

impl KeyId {
    /// The identifier within a decoded key or signature of minisign, which follows two bytes that name the algorithm.
    pub(crate) fn of_minisign(decoded: &[u8]) -> Option<KeyId> {
        decoded.get(2..10)?.try_into().ok().map(|id| KeyId(Id::Minisign(id)))
    }

    /// The identifier that a sigstore bundle gives as its hint: the digest in base64, as cosign writes it.
    pub(crate) fn of_hint(hint: &str) -> Option<KeyId> {
        let bytes: [u8; 32] = BASE64.decode(hint).ok()?.try_into().ok()?;
        Some(KeyId(Id::Cosign(bytes.into())))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Id::Minisign(id) => write!(f, "{:016X}", u64::from_le_bytes(id)),
            Id::Cosign(digest) => write!(f, "{digest}"),
        }
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyId, String> {
        let expected = || {
            let text = printable(text);
            format!(
                "`{text}` is no key's identifier: 16 hexadecimal digits of minisign's, or sha256: and 64 of cosign's"
            )
        };
        if text.starts_with("sha256:") {
            return text.parse().map(|digest| KeyId(Id::Cosign(digest))).map_err(|_| expected());
        }
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(expected());
        }
        u64::from_str_radix(text, 16).map(|number| KeyId(Id::Minisign(number.to_le_bytes()))).map_err(|_| expected())
    }
}

impl TryFrom<String> for KeyId {
    type Error = String;

    fn try_from(text: String) -> Result<KeyId, String> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> String {
        id.to_string()
    }
}

#[derive(Clone)]
pub(crate) enum PublicKey {
    Minisign(MinisignKey),
    /// ECDSA on the curve P-256, as cosign makes them: an uncompressed point.
    P256([u8; P256_POINT_BYTES]),
}

impl PublicKey {
    /// Reads a key as the configuration names it: minisign's line or whole file, or the PEM form of cosign's.
    pub(crate) fn read(text: &str) -> Result<(KeyId, PublicKey), String> {
        if text.trim_start().starts_with("-----BEGIN") {
            return read_pem(text);
        }
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let expected =
            || "expected the second line of minisign.pub, which begins with RW, or the whole of cosign.pub".to_owned();
        let key = MinisignKey::from_base64(line).map_err(|_| expected())?;
        let decoded = BASE64.decode(line).map_err(|_| expected())?;
        Ok((KeyId::of_minisign(&decoded).ok_or_else(expected)?, PublicKey::Minisign(key)))
    }
}

/// Whether this is an ECDSA signature of these bytes, with SHA-256 and in ASN.1, by the key that is this point.
pub(crate) fn is_signed(point: &[u8; P256_POINT_BYTES], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
}

fn read_pem(text: &str) -> Result<(KeyId, PublicKey), String> {
    const EXPECTED: &str = "expected the whole of cosign.pub: PEM with one PUBLIC KEY";
    if text.len() > MAX_PEM_BYTES {
        return Err(format!("{EXPECTED}, and it has {} bytes", text.len()));
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let label = first.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")).unwrap_or_default();
    if label.ends_with("PRIVATE KEY") {
        return Err("that is a private key, which must not be in a configuration: use its public key".into());
    }
    if label.ends_with("CERTIFICATE") {
        return Err("that is a certificate, and signatures by certificates are not taken: name a public key".into());
    }
    let end = format!("-----END {label}-----");
    let lines: Vec<&str> = lines.collect();
    let body = lines.strip_suffix(&[end.as_str()]).filter(|_| label == "PUBLIC KEY").ok_or(EXPECTED)?;
    let der = BASE64.decode(body.concat()).map_err(|_| EXPECTED)?;
    let id = KeyId(Id::Cosign(ContentDigest::of(&der)));
    let point = der.strip_prefix(&P256_HEAD).and_then(|point| <[u8; P256_POINT_BYTES]>::try_from(point).ok());
    let Some(point) = point else {
        let holds = |part: &[u8]| der.windows(part.len()).any(|window| window == part);
        let kind = OTHER_KEYS.iter().find(|(part, _)| holds(part)).map_or("a key of another kind", |(_, kind)| *kind);
        return Err(format!("that is {kind}; cosign's key must be on the curve P-256, as cosign creates it"));
    };
    if !is_on_curve(&point) {
        return Err("the key is damaged: its point is not on the curve P-256".into());
    }
    Ok((id, PublicKey::P256(point)))
}

/// What is no point would only be noticed where no signature is right. Agreeing on a key with it is how `ring` looks.
fn is_on_curve(point: &[u8; P256_POINT_BYTES]) -> bool {
    use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
    let ours = EphemeralPrivateKey::generate(&ECDH_P256, &ring::rand::SystemRandom::new());
    ours.is_ok_and(|ours| agree_ephemeral(ours, &UnparsedPublicKey::new(&ECDH_P256, point), |_| ()).is_ok())
}
