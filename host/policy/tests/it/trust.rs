//! Where keys are named, only what one of them has signed is loaded: at the first start, at a swap, after a restart.

use std::fs;
use std::io::Cursor;
use std::sync::{Arc, Mutex};

use minisign::KeyPair;
use serde_json::json;
use windlass_distribution::{
    Artifact, ContentDigest, Error as FetchError, Fetch, Reference, Signature, Trust, WASM_MEDIA_TYPE,
};
use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{DecidedBy, DecisionFilter, FailureKind, Host, Link, PinnedPolicies, Policies, Source};

use crate::cosign::Cosign;
use crate::guests::Guest;
use crate::support::{State, run};

fn waits(pin: &windlass_policy::PinnedPolicies) -> u64 {
    match run(pin.decide::<Retry>(Retry::example())).answer.verdict {
        retry::Verdict::Wait(ms) => ms,
        other => panic!("{other:?}"),
    }
}

struct Signer(KeyPair);

impl Signer {
    fn new() -> Signer {
        Signer(KeyPair::generate_unencrypted_keypair().unwrap())
    }

    fn sign(&self, contents: &[u8]) -> String {
        minisign::sign(Some(&self.0.pk), &self.0.sk, Cursor::new(contents), None, None).unwrap().to_string()
    }

    fn id(&self) -> String {
        format!("{:016X}", u64::from_le_bytes(self.0.pk.keynum().try_into().unwrap()))
    }

    fn trusted(&self) -> Trust {
        Trust::from_value(json!({"keys": {"release": self.0.pk.to_base64()}})).unwrap()
    }
}

/// A folder with policies.
struct Folder {
    state: State,
    files: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        Folder { state: State::new(), files: tempfile::tempdir().unwrap() }
    }

    fn host(&self) -> Host {
        let mut options = self.state.options();
        options.policy_folder = self.files.path().into();
        Host::new(options).unwrap()
    }

    fn write(&self, contents: &[u8], signature: Option<String>) {
        fs::write(self.files.path().join("retry.wasm"), contents).unwrap();
        let path = self.files.path().join("retry.wasm.minisig");
        match signature {
            Some(signature) => fs::write(path, signature).unwrap(),
            None => fs::remove_file(path).unwrap_or_default(),
        }
    }
}

fn policies() -> Policies {
    Policies::built_in().with(SlotName::Retry, Link::file("retry.wasm"))
}

#[test]
fn an_unsigned_policy_is_not_loaded_at_the_first_start_nor_swapped_in() {
    let (folder, release, stranger) = (Folder::new(), Signer::new(), Signer::new());
    let (one, two) = (Guest::waiting(1).component(), Guest::waiting(2).component());
    let trusting = policies().with_trust(release.trusted());
    let host = folder.host();
    for (signature, words) in [
        (None, "is not signed"),
        (Some(stranger.sign(&one)), "is signed by the key"),
        (Some(release.sign(&two)), "is not of sha256:"),
    ] {
        folder.write(&one, signature);
        let error = host.configure(&trusting).unwrap_err().to_string();
        assert!(error.contains("it is not trusted") && error.contains(words), "{error}");
    }
    folder.write(&one, Some(release.sign(&one)));
    host.configure(&trusting).unwrap();
    assert_eq!(waits(&host.pin()), 1);

    folder.write(&two, None);
    assert_eq!(host.reload().errors.len(), 1);
    assert_eq!(waits(&host.pin()), 1);
    // The signature alone is new.
    folder.write(&two, Some(release.sign(&two)));
    assert_eq!(host.reload().swapped.len(), 1);
    assert_eq!(waits(&host.pin()), 2);
}

#[test]
fn a_watcher_notices_a_signature_that_comes_after_its_policy() {
    let (folder, release) = (Folder::new(), Signer::new());
    let (one, two) = (Guest::waiting(1).component(), Guest::waiting(2).component());
    let mut options = folder.state.options();
    options.policy_folder = folder.files.path().into();
    options.watch_interval = std::time::Duration::from_millis(10);
    let host = Host::new(options).unwrap();
    folder.write(&one, Some(release.sign(&one)));
    host.configure(&policies().with_trust(release.trusted())).unwrap();
    let _watch = host.watch().unwrap();
    folder.write(&two, None);
    let refused = || host.status().links.iter().any(|link| link.error.is_some());
    crate::support::eventually("the unsigned one is refused", refused);
    fs::write(folder.files.path().join("retry.wasm.minisig"), release.sign(&two)).unwrap();
    crate::support::eventually("the signed one is used", || waits(&host.pin()) == 2);
}

#[test]
fn bytes_in_memory_have_no_signature_and_the_built_in_defaults_need_none() {
    let (folder, release) = (Folder::new(), Signer::new());
    let host = folder.host();
    let bytes = Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(1).component()));
    assert!(host.configure(&bytes.with_trust(release.trusted())).unwrap_err().to_string().contains("is not signed"));
    let default = Policies::built_in().with(SlotName::Retry, Link::default());
    host.configure(&default.with_trust(release.trusted())).unwrap();
}

#[test]
fn an_operation_does_not_go_on_with_a_policy_whose_key_was_revoked_meanwhile() {
    let (folder, release) = (Folder::new(), Signer::new());
    let one = Guest::waiting(1).component();
    folder.write(&one, Some(release.sign(&one)));
    let began = {
        let host = folder.host();
        host.configure(&policies().with_trust(release.trusted())).unwrap();
        host.pin().identities()
    };
    let next = Signer::new();
    let rotated = |revoked: &[String]| {
        let keys = json!({"old": release.0.pk.to_base64(), "next": next.0.pk.to_base64()});
        Policies::built_in().with_trust(Trust::from_value(json!({"keys": keys, "revoked": revoked})).unwrap())
    };
    for (revoked, decides) in [(vec![], true), (vec![release.id()], false)] {
        let host = folder.host();
        host.configure(&rotated(&revoked)).unwrap();
        let decision = run(host.pinned(&began).decide::<Retry>(Retry::example()));
        let first = began.iter().find(|policy| policy.slot == SlotName::Retry).unwrap();
        let by_first = matches!(&decision.decided_by, DecidedBy::Policy(policy) if **policy == *first);
        assert_eq!(by_first, decides, "{:?}", decision.decided_by);
    }
}

#[test]
fn a_record_names_the_key_that_had_signed_the_policy() {
    let (folder, release) = (Folder::new(), Signer::new());
    let one = Guest::waiting(1).component();
    folder.write(&one, Some(release.sign(&one)));
    let signed_by = |host: &Host, pin: &PinnedPolicies| {
        run(pin.decide::<Retry>(Retry::example()));
        host.flush_decisions();
        let newest = host.decisions().unwrap().list(&DecisionFilter::default()).unwrap().decisions.remove(0);
        newest.asked[0].signed_by.map(|key| key.to_string())
    };
    let began = {
        let host = folder.host();
        host.configure(&policies()).unwrap();
        assert_eq!(signed_by(&host, &host.pin()), None, "nobody asked for a signature");
        host.configure(&policies().with_trust(release.trusted())).unwrap();
        assert_eq!(signed_by(&host, &host.pin()), Some(release.id()));
        host.pin().identities()
    };
    // The policy that an operation goes on with, too.
    let host = folder.host();
    host.configure(&Policies::built_in().with_trust(release.trusted())).unwrap();
    assert_eq!(signed_by(&host, &host.pinned(&began)), Some(release.id()));
}

#[test]
fn a_revoked_key_suspends_its_policy_and_holds_nothing_else_up() {
    let (folder, release, next) = (Folder::new(), Signer::new(), Signer::new());
    let one = Guest::waiting(1).component();
    folder.write(&one, Some(release.sign(&one)));
    let host = folder.host();
    let keys = json!({"old": release.0.pk.to_base64(), "next": next.0.pk.to_base64()});
    let trusting = |revoked: &[String]| {
        policies()
            .with_labels(["team".to_owned()])
            .with_trust(Trust::from_value(json!({"keys": keys, "revoked": revoked})).unwrap())
    };
    host.configure(&policies().with_trust(release.trusted())).unwrap();
    let began = host.pin();
    host.configure(&trusting(&[release.id()])).unwrap();
    assert_eq!(host.labels([("team", "a")]).len(), 1, "the rest of the configuration is in force");
    for pin in [host.pin(), began] {
        let decision = run(pin.decide::<Retry>(Retry::example()));
        assert_eq!(decision.fallbacks[0].kind, FailureKind::Suspended, "{decision:?}");
        assert!(decision.fallbacks[0].reason.contains("revoked"), "{decision:?}");
    }
    let link = host.status().links.into_iter().find(|link| link.slot == SlotName::Retry).unwrap();
    assert!(link.suspended && link.error.is_some(), "{link:?}");
    // It may come back, and what never was trusted is refused as ever.
    host.configure(&trusting(&[])).unwrap();
    assert_eq!(waits(&host.pin()), 1);
    assert!(folder.host().configure(&trusting(&[release.id()])).is_err());
}

/// Has one artifact.
struct Shelf(Mutex<Artifact>);

impl Fetch for Shelf {
    fn fetch(&self, _: &Reference, _: u64) -> Result<Artifact, FetchError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

#[test]
fn what_comes_from_a_registry_is_verified_as_a_file_is() {
    let (folder, release) = (Folder::new(), Signer::new());
    let one = Guest::waiting(1).component();
    let reference: Reference = "oci://registry.example/team/retry:main".parse().unwrap();
    let link = Link { source: Source::Registry(Arc::new(reference)), ..Link::default() };
    let trusting = Policies::built_in().with(SlotName::Retry, link).with_trust(release.trusted());
    let error = folder.host().configure(&trusting).unwrap_err().to_string();
    assert!(error.contains("does not fetch from registries"), "{error}");

    let artifact = |signatures: Vec<Signature>| Artifact {
        digest: ContentDigest::of(b"the manifest"),
        contents: one.clone().into(),
        media_type: WASM_MEDIA_TYPE.into(),
        signatures,
    };
    let shelf = Arc::new(Shelf(Mutex::new(artifact(Vec::new()))));
    let mut options = folder.state.options();
    options.registries = Some(shelf.clone());
    let host = Host::new(options).unwrap();
    assert!(host.configure(&trusting).unwrap_err().to_string().contains("is not signed"));
    *shelf.0.lock().unwrap() = artifact(vec![Signature::Minisign(release.sign(&one))]);
    host.configure(&trusting).unwrap();
    assert_eq!(waits(&host.pin()), 1);
}

#[test]
fn an_older_version_is_refused_whoever_signed_it() {
    let (folder, release) = (Folder::new(), Signer::new());
    let one = Guest::waiting(1).component();
    folder.write(&one, Some(release.sign(&one)));
    let host = folder.host();
    host.configure(&policies().with_trust(release.trusted())).unwrap();
    let (name, version) = {
        let status = host.status();
        let link = status.links.iter().find(|link| link.slot == SlotName::Retry).unwrap();
        (link.policy.name.to_string(), link.policy.version.to_string())
    };
    let at_least = |minimum: &str| {
        let keys = json!({"release": release.0.pk.to_base64()});
        let trust = json!({"keys": keys, "minimum_versions": {&name: minimum}});
        policies().with_trust(Trust::from_value(trust).unwrap())
    };
    host.configure(&at_least(&version)).unwrap();
    let words = format!("{name} {version} is older than 999.0.0");
    host.configure(&at_least("999.0.0")).unwrap();
    let decision = run(host.pin().decide::<Retry>(Retry::example()));
    assert!(decision.fallbacks[0].reason.contains(&words), "what was in force is suspended: {decision:?}");
    let error = folder.host().configure(&at_least("999.0.0")).unwrap_err().to_string();
    assert!(error.contains(&words), "{error}");
}

#[test]
fn a_bundle_of_cosigns_beside_a_file_is_taken_and_a_new_one_is_a_reason_to_look_again() {
    let (folder, release, stranger) = (Folder::new(), Cosign::new(), Cosign::new());
    let (one, two) = (Guest::waiting(1).component(), Guest::waiting(2).component());
    let bundle = |bundle: Option<serde_json::Value>| {
        let path = folder.files.path().join("retry.wasm.sigstore.json");
        match bundle {
            Some(bundle) => fs::write(path, bundle.to_string()).unwrap(),
            None => fs::remove_file(path).unwrap_or_default(),
        }
    };
    let trusting = policies().with_trust(Trust::from_value(json!({"keys": {"release": release.pem()}})).unwrap());
    let host = folder.host();
    folder.write(&one, None);
    for (its, words) in [
        (None, "is not signed".to_owned()),
        (Some(stranger.blob(&one)), format!("is signed by the key {}", stranger.id())),
        (Some(release.blob(&two)), format!("the signature by the key {} (release) is not of sha256:", release.id())),
        (Some(json!({"mediaType": "x".repeat(200_000)})), "131072 are allowed".to_owned()),
    ] {
        bundle(its);
        let error = host.configure(&trusting).unwrap_err().to_string();
        assert!(error.contains(&words), "{error}");
    }
    bundle(Some(release.blob(&one)));
    host.configure(&trusting).unwrap();
    assert_eq!(waits(&host.pin()), 1);

    folder.write(&two, None);
    assert_eq!(host.reload().errors.len(), 1);
    assert_eq!(waits(&host.pin()), 1);
    bundle(Some(release.statement(&two)));
    assert_eq!(host.reload().swapped.len(), 1);
    assert_eq!(waits(&host.pin()), 2);
    // A signature of the other kind is one, too.
    let minisign = Signer::new();
    let keys = json!({"keys": {"minisign": minisign.0.pk.to_base64()}});
    let other = policies().with_trust(Trust::from_value(keys).unwrap());
    host.configure(&other).unwrap();
    assert_eq!(run(host.pin().decide::<Retry>(Retry::example())).fallbacks[0].kind, FailureKind::Suspended);
    folder.write(&two, Some(minisign.sign(&two)));
    host.configure(&other).unwrap();
    assert_eq!(waits(&host.pin()), 2);
}

#[test]
fn an_operation_does_not_go_on_with_a_policy_whose_cosign_key_was_revoked_meanwhile() {
    let (folder, release, next) = (Folder::new(), Cosign::new(), Cosign::new());
    let one = Guest::waiting(1).component();
    folder.write(&one, None);
    fs::write(folder.files.path().join("retry.wasm.sigstore.json"), release.blob(&one).to_string()).unwrap();
    let trust = |revoked: &[String]| {
        let keys = json!({"release": release.pem(), "next": next.pem()});
        Trust::from_value(json!({"keys": keys, "revoked": revoked})).unwrap()
    };
    let began = {
        let host = folder.host();
        host.configure(&policies().with_trust(trust(&[]))).unwrap();
        host.pin().identities()
    };
    let first = began.iter().find(|policy| policy.slot == SlotName::Retry).unwrap();
    for (revoked, decides) in [(vec![], true), (vec![release.id()], false)] {
        let host = folder.host();
        host.configure(&Policies::built_in().with_trust(trust(&revoked))).unwrap();
        let decision = run(host.pinned(&began).decide::<Retry>(Retry::example()));
        let by_first = matches!(&decision.decided_by, DecidedBy::Policy(policy) if **policy == *first);
        assert_eq!(by_first, decides, "{:?}", decision.decided_by);
    }
}

#[test]
fn trust_and_registries_are_read_and_written_as_they_stand() {
    let key = Signer::new().0.pk.to_base64();
    let value = json!({
        "trust": {"keys": {"release": key}, "minimum_versions": {"retry": "1.0.0"}},
        "registries": {"hosts": {"registry.example": {"mirrors": ["mirror.example:5000"], "plain_http": true}}},
        "retry": [{"path": "oci://registry.example/team/retry:main"}],
    });
    let policies = Policies::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(&policies).unwrap(), value);
    for (wrong, words) in [
        (json!({"truts": {}}), "policies: unknown key `truts`; did you mean `trust`?"),
        (json!({"trust": {}}), "policies.trust: the key `keys` is missing"),
        (json!({"registries": {"hosts": {"https://x": {}}}}), "policies.registries: `https://x` is not a registry"),
        (
            json!({"retry": {"path": "oci://x/../y:1"}}),
            "policies.retry.path: `oci://x/../y:1` is not a valid reference",
        ),
    ] {
        let error = Policies::from_value(wrong).unwrap_err().join("; ");
        assert!(error.starts_with(words), "{error}");
    }
}
