//! Where an artifact is: `oci://registry/repository:tag` or `oci://registry/repository@sha256:...`.

use std::fmt;
use std::str::FromStr;

use crate::digest::ContentDigest;
use crate::error::Error;
use crate::printable::printable;

/// How a reference begins.
pub const SCHEME: &str = "oci://";
/// The longest reference, in bytes.
const MAX_BYTES: usize = 512;
/// The longest repository, in bytes, by the distribution specification.
const MAX_REPOSITORY_BYTES: usize = 255;
/// The longest tag, in bytes, by the distribution specification.
const MAX_TAG_BYTES: usize = 128;

/// An artifact of a registry, by tag, by digest, or by both; then the digest counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<ContentDigest>,
}

impl Reference {
    /// Whether a text is meant as one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The registry's host, with its port where it has one.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest.
    pub fn digest(&self) -> Option<ContentDigest> {
        self.digest
    }

    /// The same repository at this digest.
    pub fn at(&self, digest: ContentDigest) -> Reference {
        Reference { tag: None, digest: Some(digest), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reference, Error> {
        read(text).map_err(|problem| Error::Reference { reference: printable(text), problem })
    }
}

/// The grammar is the distribution specification's, so that no part of it can be mistaken for another part of a URL.
fn read(text: &str) -> Result<Reference, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it has {} bytes, and at most {MAX_BYTES} are allowed", text.len()));
    }
    let rest = text.strip_prefix(SCHEME).ok_or("it does not begin with oci://")?;
    let (registry, rest) = rest.split_once('/').ok_or("it names no repository: oci://registry/repository:tag")?;
    if !is_registry(registry) {
        return Err("its registry is no host name, with or without a port".into());
    }
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest.parse().map_err(|expected| format!("its digest: {expected}"))?)),
        None => (rest, None),
    };
    let (repository, tag) = match rest.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (rest, None),
    };
    if repository.len() > MAX_REPOSITORY_BYTES || !repository.split('/').all(is_component) {
        return Err(
            "its repository is not valid: lower-case letters and digits, with single . _ - between them, separated by /".into()
        );
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err("its tag is not valid: at most 128 letters, digits, _ . -, and not . or - first".into());
    }
    if tag.is_none() && digest.is_none() {
        return Err("it names neither a tag (:1.2.0) nor a digest (@sha256:...)".into());
    }
    Ok(Reference { registry: registry.into(), repository: repository.into(), tag: tag.map(str::to_owned), digest })
}

/// A host name or address, with or without a port.
pub(crate) fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            match rest.strip_prefix(':') {
                Some(port) => ("v6", Some(port)),
                None if rest.is_empty() => ("v6", None),
                None => return false,
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    host.len() <= 253 && host.split('.').all(label) && port.is_none_or(digits)
}

fn is_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [component.bytes().next(), component.bytes().next_back()];
    // A separator is one dot, one or two underscores, or any number of hyphens.
    let mut separators = component.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    ends.iter().all(|end| end.is_some_and(is_word))
        && separators.all(|part| matches!(part, "" | "." | "_" | "__") || part.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !tag.is_empty() && tag.len() <= MAX_TAG_BYTES && tag.bytes().all(allowed) && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_written_as_it_was_read() {
        let digest = ContentDigest::of(b"");
        for text in [
            "oci://registry.example/team/retry:1.2.0".to_owned(),
            format!("oci://registry.example:5000/a/b-c/d__e.f@{digest}"),
            format!("oci://[::1]:5000/retry:main@{digest}"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_could_leave_its_place_in_a_url_or_a_folder_is_refused() {
        for (text, words) in [
            ("registry.example/team/retry:1", "does not begin with oci://"),
            ("oci://registry.example", "names no repository"),
            ("oci://registry.example/team/retry", "neither a tag"),
            ("oci://registry.example/../../etc:1", "its repository is not valid"),
            ("oci://registry.example/team/./retry:1", "its repository is not valid"),
            ("oci://registry.example//retry:1", "its repository is not valid"),
            ("oci://registry.example/team%2f..:1", "its repository is not valid"),
            ("oci://registry.example/Team:1", "its repository is not valid"),
            ("oci://registry.example/team:../../blobs", "its tag is not valid"),
            ("oci://registry.example/team:a?x=y", "its tag is not valid"),
            ("oci://registry.example/team@sha256:../..", "its digest: expected"),
            ("oci://registry.example/team@md5:00", "its digest: expected"),
            ("oci://user:secret@evil.example/team:1", "its registry is none"),
            ("oci://registry.example\\@evil/team:1", "its registry is no"),
            ("oci:///team:1", "its registry is no"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            let words = words.replace("its registry is none", "its registry is no");
            assert!(error.contains(&words), "{text}: {error}");
        }
    }
}
