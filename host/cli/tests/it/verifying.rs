//! `policy verify`: whose signature it is, and whether it is trusted.

use crate::support::{Ran, World};
use windlass_test_guests::{KEEP_VOLUMES_FOR_INSPECTION, RETRY};

/// A key: the file of the secret one, the file of the public one, the public one's text, and its identifier.
struct Key {
    secret: String,
    file: String,
    text: String,
    id: String,
}

fn key(world: &World, name: &str) -> Key {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let id = u64::from_le_bytes(pair.pk.keynum().try_into().unwrap());
    Key {
        secret: path(world.write(&format!("{name}.key"), pair.sk.to_box(None).unwrap().to_string().as_bytes())),
        file: path(world.write(&format!("{name}.pub"), pair.pk.to_box().unwrap().to_string().as_bytes())),
        text: pair.pk.to_base64(),
        id: format!("{id:016X}"),
    }
}

trait Tells {
    /// Has these words in its document.
    fn tells(self, words: &str);
}

impl Tells for Ran {
    #[track_caller]
    fn tells(self, words: &str) {
        assert!(self.stdout.contains(words), "no {words:?} in {}", self.stdout);
    }
}

/// A signed component in its own folder.
struct Signed {
    world: World,
    file: String,
    release: Key,
}

impl Signed {
    fn new() -> Signed {
        let world = World::new("50");
        let release = key(&world, "release");
        let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes).to_str().unwrap().to_owned();
        let sign = ["policy", "sign", &file, "--key", &release.secret, "--comment", "release 7"];
        world.run(&sign).expect(0);
        Signed { world, file, release }
    }

    fn trust(&self, more: &str) {
        self.world.configure(&format!(
            "[policies.trust]\n{more}\n[policies.trust.keys]\nrelease = '{}'\n",
            self.release.text
        ));
    }

    fn verify(&self, arguments: &[&str]) -> Ran {
        self.world.run(&[&["policy", "verify", &self.file, "-o", "json"], arguments].concat())
    }
}

#[test]
fn a_signature_by_a_trusted_key_is_shown_with_its_key_and_comment() {
    let signed = Signed::new();
    signed.trust("");
    let release = &signed.release;
    let verified = signed.verify(&[]).expect(0).json();
    let signature = &verified["signatures"][0];
    assert_eq!((&verified["trusted"], &signature["trusted"]), (&true.into(), &true.into()), "{verified}");
    assert_eq!((&signature["key"], &signature["name"]), (&release.id.as_str().into(), &"release".into()));
    assert_eq!((&signature["kind"], &signature["comment"]), (&"minisign".into(), &"release 7".into()));
    assert!(verified["digest"].as_str().unwrap().starts_with("sha256:"), "{verified}");
    let words = signed.world.run(&["policy", "verify", &signed.file]).expect(0).stdout;
    assert!(words.contains(&format!("by the key {} (release): trusted", release.id)), "{words}");

    signed.world.configure("");
    for key in [&release.file, &release.text] {
        signed.verify(&["--key", key]).expect(0);
    }
    signed.verify(&[]).expect(2).tells("no key is trusted");
    signed.verify(&["--key", "nonsense"]).expect(2).tells("expected the second line of minisign.pub");
}

#[test]
fn what_is_tampered_with_foreign_unsigned_or_signed_for_another_file_is_not_trusted() {
    let signed = Signed::new();
    signed.trust("");
    let signature = format!("{}.minisig", signed.file);
    let refused = |words: &str| {
        let failure = signed.verify(&[]).expect(1).json();
        assert!(failure["error"]["causes"][0].as_str().unwrap().contains(words), "{words}: {failure}");
        assert_eq!(failure["trusted"], false);
        failure
    };
    let other = key(&signed.world, "other");
    signed.verify(&["--key", &other.file]).expect(1).tells("is signed by the key");
    signed.verify(&["--key", &other.file, "--key", &signed.release.file]).expect(0);

    std::fs::write(&signed.file, RETRY.bytes).unwrap();
    let tampered = refused("the signature by the key");
    assert_eq!(tampered["signatures"][0]["key"], signed.release.id.as_str(), "who it says it is");

    let retry = signed.world.write("retry.wasm", RETRY.bytes).to_str().unwrap().to_owned();
    signed.world.run(&["policy", "sign", &retry, "--key", &signed.release.secret]).expect(0);
    std::fs::write(&signed.file, KEEP_VOLUMES_FOR_INSPECTION.bytes).unwrap();
    std::fs::copy(format!("{retry}.minisig"), &signature).unwrap();
    refused("the signature by the key");

    std::fs::write(&signature, "untrusted comment: x\nnothing\n").unwrap();
    refused("cannot be read");
    std::fs::remove_file(&signature).unwrap();
    assert_eq!(refused("is not signed")["signatures"], serde_json::json!([]));
}

#[test]
fn a_revoked_key_and_a_version_that_is_too_old_are_not_trusted() {
    let signed = Signed::new();
    signed.trust(&format!("revoked = ['{}']", signed.release.id));
    signed.verify(&[]).expect(1).tells("`revoked` of [policies.trust] names");
    signed.verify(&["--key", &signed.release.file]).expect(1).tells("`revoked` of [policies.trust] names");
    signed.trust("minimum_versions = { keep-volumes-for-inspection = '99.0.0' }");
    signed.verify(&[]).expect(1).tells("is older than 99.0.0");
    signed.trust("minimum_versions = { keep-volumes-for-inspection = '0.0.1' }");
    signed.verify(&[]).expect(0);
}
