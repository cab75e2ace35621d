//! Keys and bundles as cosign makes them, made here: so that each can be made wrong, too. That they are as cosign makes
//! them is shown with cosign itself, by the tests of the command line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use windlass_distribution::ContentDigest;

pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub const IN_TOTO: &str = "application/vnd.in-toto+json";
pub const STATEMENT: &str = "https://in-toto.io/Statement/v1";
pub const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

/// How the DER form of a key on the curve P-256 begins.
const HEAD: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";

pub struct Cosign(EcdsaKeyPair);

impl Cosign {
    pub fn new() -> Cosign {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Cosign(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    pub fn der(&self) -> Vec<u8> {
        [&hex::decode(HEAD).unwrap(), self.0.public_key().as_ref()].concat()
    }

    pub fn pem(&self) -> String {
        pem("PUBLIC KEY", &self.der())
    }

    /// As the configuration and refusals name it.
    pub fn id(&self) -> String {
        ContentDigest::of(&self.der()).to_string()
    }

    pub fn hint(&self) -> String {
        BASE64.encode(hex::decode(ContentDigest::of(&self.der()).hex()).unwrap())
    }

    pub fn signature(&self, message: &[u8]) -> String {
        BASE64.encode(self.0.sign(&SystemRandom::new(), message).unwrap())
    }

    fn bundle(&self, name: &str, content: Value) -> Value {
        json!({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": self.hint()}}, name: content})
    }

    /// As `cosign sign-blob` makes it.
    pub fn blob(&self, contents: &[u8]) -> Value {
        let digest = BASE64.encode(hex::decode(ContentDigest::of(contents).hex()).unwrap());
        let digest = json!({"algorithm": "SHA2_256", "digest": digest});
        self.bundle("messageSignature", json!({"messageDigest": digest, "signature": self.signature(contents)}))
    }

    /// As `cosign sign` makes it for a manifest, and `cosign attest-blob` for a file.
    pub fn statement(&self, subject: &[u8]) -> Value {
        self.stating(&statement(&json!([{"digest": {"sha256": ContentDigest::of(subject).hex()}}]), SIGN))
    }

    pub fn stating(&self, statement: &str) -> Value {
        self.envelope(statement.as_bytes(), IN_TOTO)
    }

    pub fn envelope(&self, payload: &[u8], payload_type: &str) -> Value {
        let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
        let signature = self.signature(&[head.as_bytes(), payload].concat());
        let signatures = json!([{"sig": signature}]);
        let payload = BASE64.encode(payload);
        self.bundle("dsseEnvelope", json!({"payload": payload, "payloadType": payload_type, "signatures": signatures}))
    }
}

pub fn statement(subject: &Value, predicate_type: &str) -> String {
    json!({"_type": STATEMENT, "subject": subject, "predicateType": predicate_type, "predicate": {}}).to_string()
}

pub fn pem(label: &str, der: &[u8]) -> String {
    let body: Vec<String> =
        BASE64.encode(der).as_bytes().chunks(64).map(|line| String::from_utf8(line.to_vec()).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", body.join("\n"))
}
