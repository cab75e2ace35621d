//! `windlass policy push`, `pull`, `lock` and `sign`: how a policy travels from who writes it to who runs it.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use windlass_distribution::{
    ContentDigest, Fetch as _, MINISIGN_SUFFIX, NewArtifact, RULES_MEDIA_TYPE, Reference, Signature, SignatureFile,
    WASM_MEDIA_TYPE,
};
use windlass_inspect::failure::Failure;
use windlass_inspect::output::fields;
use windlass_inspect::text::ago;
use windlass_lifecycle::shared_tags;
use windlass_policy::{Examination, Source};

use crate::arguments::{LockPolicies, PullPolicy, PushPolicy, SignPolicy};
use crate::commands::lifecycle::lifecycle_failure;
use crate::context::{Context, Locking};
use crate::files::{Existing, ResultFile, read_bounded, read_text, refuse_overwriting, write_atomically};
use crate::policy_file::{MAX_COMPONENT_BYTES, read_policy, rules, slots_of, unusable};

/// A key or a password larger than this is none.
pub(super) const MAX_KEY_BYTES: u64 = 16 << 10;

/// Document of `policy push` and `policy pull`.
#[derive(Serialize)]
struct Moved {
    file: PathBuf,
    /// What it was pushed to, or pulled from.
    reference: String,
    /// The same by digest: what to write into a configuration.
    pinned: String,
    digest: String,
    media_type: String,
    bytes: usize,
    /// Whether a signature went with it. Without trusted keys nobody knows whose it is, or of what.
    signed: bool,
    /// Whether a trusted key signed this very file.
    trusted: bool,
    /// How many files with signatures went with it.
    signatures: usize,
    /// Which of the configuration's keys signed it: its identifier; absent where none had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_by: Option<String>,
}

pub(super) fn push(context: &Context, arguments: &PushPolicy) -> Result<(), Failure> {
    let file = &arguments.file;
    let contents = read_policy(file)?;
    let media_type = if rules(file, &contents)?.is_some() { RULES_MEDIA_TYPE } else { WASM_MEDIA_TYPE };
    let mut artifact = NewArtifact::new(&contents, media_type);
    if media_type == WASM_MEDIA_TYPE {
        let examination = Examination::of(&contents).map_err(|refusal| unusable(file, None, &refusal))?;
        (artifact.imports, artifact.exports) = (examination.imports, examination.exports);
    }
    artifact.signatures = signatures_beside(file)?;
    // What nobody who trusts these keys would load is not worth pushing.
    let signed_by = verified(context, &file.display().to_string(), &contents, &artifact.signatures)?;
    let digest = context
        .registries(Locking::Ignored)?
        .push(&arguments.reference, &artifact)
        .map_err(|error| failed("pushed", &arguments.reference, &error))?;
    let moved = Moved {
        file: file.clone(),
        reference: arguments.reference.to_string(),
        pinned: arguments.reference.at(digest).to_string(),
        digest: digest.to_string(),
        media_type: media_type.to_owned(),
        bytes: contents.len(),
        signed: !artifact.signatures.is_empty(),
        trusted: is_trusted(context, &contents, &artifact.signatures),
        signatures: artifact.signatures.len(),
        signed_by,
    };
    context.output.result(&moved, || moved_words(&moved));
    Ok(())
}

pub(super) fn pull(context: &Context, arguments: &PullPolicy) -> Result<(), Failure> {
    let reference = &arguments.reference;
    let used = context.configuration.file.as_deref().into_iter().collect();
    refuse_overwriting(&[ResultFile::new("--out", &arguments.out)], used)?;
    let artifact = context
        .registries(Locking::Ignored)?
        .fetch(reference, MAX_COMPONENT_BYTES)
        .map_err(|error| failed("pulled", reference, &error))?;
    let signed_by = verified(context, &reference.to_string(), &artifact.contents, &artifact.signatures)?;
    let ending = if artifact.media_type == RULES_MEDIA_TYPE { "rules.toml" } else { "wasm" };
    // By the grammar of references, the end of a repository's name is a plain name of a file.
    let name = reference.repository().rsplit('/').next().unwrap_or("policy");
    let file = arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.{ending}")));
    let write = |path: &Path, bytes: &[u8]| {
        write_atomically(path, bytes, Existing::Replace).map_err(|error| {
            Failure::usage("the policy cannot be written").at(path.display().to_string()).because(error.to_string())
        })
    };
    // Signatures first: a host that watches the folder would refuse a policy without one.
    let its: Vec<_> = artifact.signatures.iter().filter_map(Signature::file).collect();
    for kind in SignatureFile::ALL {
        let path = signature_path(&file, kind.suffix());
        match its.iter().find(|(its, _)| *its == kind) {
            Some((_, text)) => write(&path, text.as_bytes())?,
            None => remove_signature(&path)?,
        }
    }
    write(&file, &artifact.contents)?;
    let moved = Moved {
        file,
        reference: reference.to_string(),
        pinned: reference.at(artifact.digest).to_string(),
        digest: artifact.digest.to_string(),
        media_type: artifact.media_type,
        bytes: artifact.contents.len(),
        signed: !artifact.signatures.is_empty(),
        trusted: is_trusted(context, &artifact.contents, &artifact.signatures),
        signatures: its.len(),
        signed_by,
    };
    context.output.result(&moved, || moved_words(&moved));
    Ok(())
}

fn moved_words(moved: &Moved) -> String {
    let signed = match (&moved.signed_by, moved.trusted) {
        (Some(key), true) => format!("by the key {key}"),
        // A bundle that cosign has put beside the manifest is of the manifest.
        (Some(key), false) => format!("by the key {key}, in the registry; the file alone has no signature"),
        (None, _) if moved.signed => {
            "not verified; no [policies.trust] has a key to verify the signature that went with it".to_owned()
        }
        (None, _) => "no".to_owned(),
    };
    fields(&[
        ("file", moved.file.display().to_string()),
        ("reference", moved.reference.clone()),
        ("pinned", moved.pinned.clone()),
        ("signed", signed),
    ])
}

/// The key that signed it, where the configuration says whom to trust.
fn verified(
    context: &Context,
    place: &str,
    contents: &[u8],
    signatures: &[Signature],
) -> Result<Option<String>, Failure> {
    let Some(trust) = context.configuration.policies.trust() else { return Ok(None) };
    let signed_by = trust.verify(contents, signatures).map_err(|untrusted| {
        Failure::usage("the policy is not trusted; nothing was done").at(place).because(untrusted.to_string())
    })?;
    Ok(Some(signed_by.key.to_string()))
}

/// Whether one of the signatures that lie beside a file is right and of a trusted key.
fn is_trusted(context: &Context, contents: &[u8], signatures: &[Signature]) -> bool {
    let Some(trust) = context.configuration.policies.trust() else { return false };
    let of_file = |signature: &&Signature| signature.file().is_some();
    signatures.iter().filter(of_file).any(|one| trust.verify(contents, std::slice::from_ref(one)).is_ok())
}

/// Document of `policy lock`.
#[derive(Serialize)]
struct Locked {
    tags: Vec<LockedTag>,
}

#[derive(Serialize)]
struct LockedTag {
    reference: String,
    digest: String,
    /// Which machine locked it, where machines share a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_by: Option<String>,
    /// When, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    locked_at: Option<u64>,
}

pub(super) fn lock(context: &Context, arguments: &LockPolicies) -> Result<(), Failure> {
    let registries = context.registries(Locking::Required)?;
    let references = context.configuration.policies.links().filter_map(|link| match &link.source {
        Source::Registry(reference) if reference.digest().is_none() => Some(&**reference),
        _ => None,
    });
    let mut locked = Locked { tags: Vec::new() };
    for reference in references {
        let digest = match arguments.update {
            true => registries.lock(reference, MAX_COMPONENT_BYTES),
            false => registries.fetch(reference, MAX_COMPONENT_BYTES).map(|artifact| artifact.digest),
        };
        let digest = digest.map_err(|error| failed("locked", reference, &error))?;
        locked.tags.push(LockedTag {
            reference: reference.to_string(),
            digest: digest.to_string(),
            locked_by: None,
            locked_at: None,
        });
    }
    if let Some(shared) = context.shared_state()? {
        let known = shared_tags(&*shared).map_err(|error| {
            lifecycle_failure("the tags are locked, and who locked them cannot be read", &error).after_changes()
        })?;
        for tag in &mut locked.tags {
            let by = known.iter().find(|known| known.tag.reference.to_string() == tag.reference).map(|known| &known.by);
            tag.locked_by = by.map(|by| format!("{} (process {})", by.host, by.process));
            tag.locked_at = by.map(|by| by.at);
        }
    }
    context.output.result(&locked, || match &locked.tags[..] {
        [] => "no tags: every policy is a file, or named by digest\n".to_owned(),
        tags => tags.iter().map(tag_words).collect(),
    });
    Ok(())
}

fn tag_words(tag: &LockedTag) -> String {
    let by = match (&tag.locked_by, tag.locked_at) {
        (Some(by), Some(at)) => format!("  by {by} {}", ago(at)),
        _ => String::new(),
    };
    format!("{}  {}{by}\n", tag.reference, tag.digest)
}

pub(super) fn failed(done: &str, reference: &Reference, error: &windlass_distribution::Error) -> Failure {
    Failure::undone(format!("the policy cannot be {done}; nothing was changed"))
        .at(reference.to_string())
        .because(error.to_string())
}

/// Document of `policy sign`.
#[derive(Serialize)]
struct Signed {
    file: PathBuf,
    signature: PathBuf,
    digest: String,
    /// The key's identifier.
    key: String,
    /// What to write under [policies.trust.keys].
    public_key: String,
}

pub(super) fn sign(context: &Context, arguments: &SignPolicy) -> Result<(), Failure> {
    let file = &arguments.file;
    let contents = read_policy(file)?;
    if rules(file, &contents)?.is_none() {
        slots_of(file, &contents)?;
    }
    let unusable = |error: minisign::PError| {
        Failure::usage("the key cannot be used; nothing was signed")
            .at(arguments.key.display().to_string())
            .because(error.to_string())
            .remedy("`minisign -G` makes a key; --password-file names a file with its password")
    };
    let key = read_text(&arguments.key, "the key", MAX_KEY_BYTES)
        .map_err(|failure| failure.remedy("name a secret key of minisign; `minisign -G` makes one"))?;
    let password = match &arguments.password_file {
        Some(file) => Some(read_text(file, "the password", MAX_KEY_BYTES)?.trim_end_matches(['\r', '\n']).to_owned()),
        None => None,
    };
    let key = secret_key(&key, password).map_err(unusable)?;
    let public = minisign::PublicKey::from_secret_key(&key).map_err(unusable)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    let comment = arguments.comment.clone().unwrap_or_else(|| format!("timestamp:{now}\tfile:{name}\thashed"));
    if comment.contains(['\n', '\r']) {
        return Err(Failure::usage("--comment must be one line"));
    }
    let signature =
        minisign::sign(Some(&public), &key, Cursor::new(&contents), Some(&comment), None).map_err(unusable)?;
    let path = signature_path(file, MINISIGN_SUFFIX);
    write_atomically(&path, signature.to_string().as_bytes(), Existing::Replace).map_err(|error| {
        Failure::usage("the signature cannot be written").at(path.display().to_string()).because(error.to_string())
    })?;
    let id: [u8; 8] = key.keynum().try_into().unwrap_or_default();
    let signed = Signed {
        file: file.clone(),
        signature: path,
        digest: ContentDigest::of(&contents).to_string(),
        key: format!("{:016X}", u64::from_le_bytes(id)),
        public_key: public.to_base64(),
    };
    context.output.result(&signed, || {
        fields(&[
            ("signature", signed.signature.display().to_string()),
            ("digest", signed.digest.clone()),
            ("key", signed.key.clone()),
            ("public key", signed.public_key.clone()),
        ])
    });
    Ok(())
}

/// A public key of minisign: algorithm, number and key. A secret one is longer.
const PUBLIC_KEY_BYTES: usize = 2 + 8 + 32;

/// A key in the form of its file. The library would ask on the terminal for a password that is missing, and refuses
/// keys of `minisign -G -W`, which have no checksum.
fn secret_key(text: &str, password: Option<String>) -> Result<minisign::SecretKey, minisign::PError> {
    let bad = |words: &str| minisign::PError::new(minisign::ErrorKind::Misc, words);
    let none = || bad("this is not a secret key of minisign, which is a comment and a line of base64");
    let line = text.lines().nth(1).and_then(|line| BASE64.decode(line.trim()).ok()).ok_or_else(none)?;
    if line.len() == PUBLIC_KEY_BYTES {
        return Err(bad("this is a public key, which verifies; name the secret key, which signs"));
    }
    let key = minisign::SecretKey::from_bytes(&line).map_err(|_| none())?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    let password = password.ok_or_else(|| bad("it is protected by a password, and none is given"))?;
    minisign::SecretKeyBox::from_string(text)?.into_secret_key(Some(password))
}

/// The signatures that lie beside a file.
pub(super) fn signatures_beside(file: &Path) -> Result<Vec<Signature>, Failure> {
    let kinds = SignatureFile::ALL.map(|kind| (kind, signature_path(file, kind.suffix())));
    let present = kinds.into_iter().filter(|(_, path)| path.exists());
    present.map(|(kind, path)| Ok(kind.read(&read_bounded(&path, "the signature", kind.most_bytes())?))).collect()
}

fn signature_path(file: &Path, suffix: &str) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// What would be left there is of another version.
fn remove_signature(path: &Path) -> Result<(), Failure> {
    crate::files::remove(path).map_err(|error| {
        Failure::usage("the old signature cannot be removed").at(path.display().to_string()).because(error.to_string())
    })
}
