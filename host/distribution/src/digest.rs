//! Digests as registries write them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Written as `sha256:` and 64 lower-case hexadecimal digits, and read from nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> ContentDigest {
        ContentDigest(Sha256::digest(bytes).into())
    }

    /// The digits alone.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl From<[u8; 32]> for ContentDigest {
    fn from(bytes: [u8; 32]) -> ContentDigest {
        ContentDigest(bytes)
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentDigest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ContentDigest, &'static str> {
        const EXPECTED: &str = "expected sha256: and 64 lower-case hexadecimal digits";
        let digits = text.strip_prefix("sha256:").ok_or(EXPECTED)?;
        let is_lower_case = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 32];
        if !is_lower_case || hex::decode_to_slice(digits, &mut bytes).is_err() {
            return Err(EXPECTED);
        }
        Ok(ContentDigest(bytes))
    }
}
