//! `windlass policy verify`: whose signature a policy has, and whether that is enough.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, json};
use windlass_distribution::{
    ContentDigest, Fetch as _, RULES_MEDIA_TYPE, Reference, SCHEME, Signature, Trust, Untrusted,
};
use windlass_inspect::failure::Failure;
use windlass_inspect::output::{fields, print};
use windlass_policy::{Examination, Link, RulesFile};

use super::distribute::{MAX_KEY_BYTES, failed, signatures_beside};
use crate::arguments::VerifyPolicy;
use crate::context::{Context, Locking};
use crate::files::{read_bounded, read_text};
use crate::policy_file::{MAX_COMPONENT_BYTES, granted, grants_needed, load, offline_trial_host, slots_of, unusable};

/// Document of `policy verify`.
#[derive(Serialize)]
struct Verified {
    policy: String,
    /// The digest of its bytes, which is what is signed.
    digest: String,
    signatures: Vec<Signer>,
    /// Whether it would be loaded.
    trusted: bool,
    /// Why not; absent where it is trusted.
    why: Option<String>,
}

/// One signature.
#[derive(Serialize)]
struct Signer {
    kind: &'static str,
    /// The key that it names; absent where it names none.
    key: Option<String>,
    /// How the configuration calls the key, where the signature is right.
    name: Option<String>,
    /// What the signer wrote beside it. It counts where the signature is right.
    comment: Option<String>,
    /// Whether it is right, and by a key that is trusted.
    trusted: bool,
    /// Why not; absent where it is.
    why: Option<String>,
}

/// What is to be verified.
struct Subject {
    named: String,
    /// A file's name that says what it is.
    file: PathBuf,
    contents: Arc<[u8]>,
    signatures: Vec<Signature>,
}

pub(super) fn run(context: &Context, arguments: &VerifyPolicy) -> Result<(), Failure> {
    let trust = trust(context, &arguments.keys)?;
    let subject = subject(context, &arguments.policy, &trust)?;
    let signers = subject.signatures.iter().map(|signature| signer(&trust, &subject.contents, signature));
    let signatures: Vec<Signer> = signers.collect();
    let trusted = trust.verify(&subject.contents, &subject.signatures).map_err(|untrusted| untrusted.to_string());
    let why = trusted.and_then(|_| check_version(context, &trust, &subject)).err();
    let verified = Verified {
        policy: subject.named.clone(),
        digest: ContentDigest::of(&subject.contents).to_string(),
        signatures,
        trusted: why.is_none(),
        why,
    };
    let Some(why) = &verified.why else {
        context.output.result(&verified, || rendered(&verified));
        return Ok(());
    };
    if !context.output.is_document() {
        print(&rendered(&verified));
    }
    Err(Failure::undone("the policy is not trusted")
        .at(subject.named)
        .because(why.clone())
        .with_partial(serde_json::to_value(&verified).unwrap_or_default()))
}

/// The keys that are named, or else those of the configuration. What the configuration revokes is revoked in either
/// case.
fn trust(context: &Context, keys: &[String]) -> Result<Arc<Trust>, Failure> {
    if keys.is_empty() {
        return context.configuration.policies.trust().cloned().ok_or_else(|| {
            Failure::usage("no key is trusted, so there is nothing to verify")
                .because("the configuration has no [policies.trust]")
                .remedy("name a public key with --key")
        });
    }
    let mut named = Map::new();
    for key in keys {
        let path = Path::new(key);
        // A key itself has neither.
        if !path.is_file() && (key.ends_with(".pub") || key.ends_with(".pem") || key.contains('\\')) {
            return Err(Failure::usage("there is no such file of a key").at(key.clone()));
        }
        let text = if path.is_file() { read_text(path, "the key", MAX_KEY_BYTES)? } else { key.clone() };
        named.insert(key.clone(), text.into());
    }
    let revoked = context.configuration.policies.trust().map(|trust| trust.revoked().to_vec()).unwrap_or_default();
    Trust::from_value(json!({ "keys": named, "revoked": revoked })).map(Arc::new).map_err(|problem| {
        Failure::usage("a key cannot be used").because(problem.trim_start_matches("keys.").to_owned())
    })
}

fn subject(context: &Context, named: &str, trust: &Arc<Trust>) -> Result<Subject, Failure> {
    if !named.starts_with(SCHEME) {
        let file = PathBuf::from(named);
        let contents = read_bounded(&file, "the policy", MAX_COMPONENT_BYTES)?.into();
        let signatures = signatures_beside(&file)?;
        return Ok(Subject { named: named.to_owned(), file, contents, signatures });
    }
    let reference: Reference = named
        .parse()
        .map_err(|problem| Failure::usage("the reference cannot be read").at(named).because(format!("{problem}")))?;
    // What only looks locks no tag.
    let registries = context.registries_trusting(Locking::Ignored, Some(trust.clone()))?;
    let artifact =
        registries.fetch(&reference, MAX_COMPONENT_BYTES).map_err(|error| failed("verified", &reference, &error))?;
    let name = reference.repository().rsplit('/').next().unwrap_or("policy");
    let ending = if artifact.media_type == RULES_MEDIA_TYPE { "rules.toml" } else { "wasm" };
    Ok(Subject {
        named: named.to_owned(),
        file: PathBuf::from(format!("{name}.{ending}")),
        contents: artifact.contents,
        signatures: artifact.signatures,
    })
}

fn signer(trust: &Trust, contents: &[u8], signature: &Signature) -> Signer {
    let claim = signature.claim();
    let verified = trust.verify(contents, std::slice::from_ref(signature));
    let (key, name) = match &verified {
        Ok(signed_by) => (Some(signed_by.key), Some(signed_by.name.clone())),
        Err(_) => (claim.key, None),
    };
    Signer {
        kind: match signature {
            Signature::Minisign(_) => "minisign",
            _ => "sigstore",
        },
        key: key.map(|key| key.to_string()),
        name,
        comment: claim.comment,
        trusted: verified.is_ok(),
        why: verified.err().map(|untrusted: Untrusted| untrusted.to_string()),
    }
}

/// Whether a policy is not too old. What it is called, and its version, only a loaded one says.
fn check_version(context: &Context, trust: &Trust, subject: &Subject) -> Result<(), String> {
    if !trust.has_minimum_versions() {
        return Ok(());
    }
    let loaded = || {
        let slots = slots_of(&subject.file, &subject.contents)?;
        let slot = *slots.first().ok_or_else(|| Failure::usage("it exports no slot"))?;
        let mut link = Link::contents(&subject.file, subject.contents.clone());
        if !RulesFile::is_named(&subject.file) {
            let examination =
                Examination::of(&subject.contents).map_err(|refusal| unusable(&subject.file, None, &refusal))?;
            link.grants = granted(&grants_needed(&examination));
        }
        load(&offline_trial_host(context)?, slot, &link, &subject.file)
    };
    let policy = loaded().map_err(|failure: Failure| {
        let causes = failure.causes.join("; ");
        format!("its version is not known, and `minimum_versions` of [policies.trust] may ask for one: {causes}")
    })?;
    let identity = policy.identity();
    trust.check_version(&identity.name, &identity.version).map_err(|untrusted| untrusted.to_string())
}

fn rendered(verified: &Verified) -> String {
    let mut lines = vec![("policy", verified.policy.clone()), ("digest", verified.digest.clone())];
    if verified.signatures.is_empty() {
        lines.push(("signature", "none".to_owned()));
    }
    for signer in &verified.signatures {
        let key = signer.key.as_deref().unwrap_or("unknown");
        let name = signer.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let is = if signer.trusted { "trusted" } else { "not trusted" };
        lines.push(("signature", format!("{}, by the key {key}{name}: {is}", signer.kind)));
        lines.extend(signer.comment.clone().map(|comment| ("comment", comment)));
    }
    lines.push(("trusted", if verified.trusted { "yes" } else { "no" }.to_owned()));
    fields(&lines)
}
