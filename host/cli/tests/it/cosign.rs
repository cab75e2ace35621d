//! What cosign signs with a key is taken, and told apart from what else it makes: by cosign's own program, without a
//! network, beside files and in real registries.

use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_test_guests::{KEEP_VOLUMES_FOR_INSPECTION, RETRY};

use crate::distribution::{Kind, OTHERS, first_of, push};
use crate::support::{Ran, World};

const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

/// Cosign, with a home of its own and what it needs to ask nobody: no transparency log, no root of trust.
struct Cosign {
    program: PathBuf,
    folder: PathBuf,
}

impl Cosign {
    fn new(world: &World) -> Option<Cosign> {
        let program = OTHERS.as_ref()?.join("cosign");
        let cosign = Cosign { program, folder: world.home.path().to_owned() };
        cosign.run(&["signing-config", "create", "--out", "offline.json"]);
        cosign.run(&["trusted-root", "create", "--out", "root.json"]);
        Some(cosign)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.folder).env("HOME", &self.folder).env("COSIGN_PASSWORD", "");
        // Whatever it would ask the world is asked of nobody; loopback needs no proxy.
        command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("HTTP_PROXY", "http://127.0.0.1:9");
        command
    }

    fn run(&self, arguments: &[&str]) {
        Ran::of(&mut self.command(arguments)).expect(0);
    }

    /// Makes a key pair, and returns the public key's text.
    fn key(&self, name: &str) -> String {
        self.run(&["generate-key-pair", "--output-key-prefix", name]);
        std::fs::read_to_string(self.folder.join(format!("{name}.pub"))).unwrap()
    }

    fn sign(&self, key: &str, arguments: &[&str]) {
        let (subcommand, rest) = arguments.split_first().unwrap();
        let key = format!("{key}.key");
        let offline = ["--key", &key, "--signing-config", "offline.json", "--trusted-root", "root.json", "--yes"];
        self.run(&[&[*subcommand], &offline[..], rest].concat());
    }
}

/// The identifier of a key, by another program: what a refusal says, and what `revoked` takes.
fn id(folder: &Path, name: &str) -> String {
    let script = format!("openssl pkey -pubin -in {name}.pub -outform DER | sha256sum | cut -d' ' -f1");
    let output = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("sha256:{}", String::from_utf8(output.stdout).unwrap().trim())
}

fn trusting(world: &World, path: &str, keys: &[(&str, &str)], more: &str) {
    let keys: Vec<String> = keys.iter().map(|(name, pem)| format!("{name} = '''\n{pem}'''\n")).collect();
    world.configure(&format!(
        "[policies.rollback]\npath = '{path}'\n[policies.trust]\n{more}\n[policies.trust.keys]\n{}",
        keys.concat()
    ));
}

#[test]
fn a_file_that_cosign_signed_is_taken_and_what_it_attests_besides_is_not() {
    let world = World::new("50");
    let Some(cosign) = Cosign::new(&world) else { return };
    let (release, other) = (cosign.key("release"), cosign.key("other"));
    let (release_id, other_id) = (id(&cosign.folder, "release"), id(&cosign.folder, "other"));
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    world.write("predicate.json", b"{}");
    let path = file.to_str().unwrap();
    let bundle = world.home.path().join("keep.wasm.sigstore.json");
    let keys = [("release", release.as_str())];
    trusting(&world, path, &keys, "");
    let refused = |words: &str| {
        world.run(&["policy", "list"]).expect(2).says(words);
    };
    refused(&format!("is not signed, and [policies.trust] takes only what is signed by {release_id} (release)"));

    let blob = ["sign-blob", "--bundle", "keep.wasm.sigstore.json", "keep.wasm"];
    let attest = |predicate: &str| {
        let of = ["attest-blob", "--type", predicate, "--predicate", "predicate.json"];
        cosign.sign("release", &[&of[..], &blob[1..]].concat());
    };
    cosign.sign("other", &blob);
    refused(&format!("is signed by the key {other_id}"));
    attest("https://example.com/scanned/v1");
    refused("attests https://example.com/scanned/v1 of sha256:");
    attest(SIGN);
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    cosign.sign("release", &blob);
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    cosign.run(&[
        "verify-blob",
        "--key",
        "release.pub",
        "--bundle",
        "keep.wasm.sigstore.json",
        "--trusted-root",
        "root.json",
        "--insecure-ignore-tlog=true",
        "keep.wasm",
    ]);

    // Rotation, revocation, and a version that is too old.
    trusting(&world, path, &[("release", &release), ("next", &other)], &format!("revoked = ['{release_id}']"));
    refused(&format!("is signed by the key {release_id} (release), which `revoked`"));
    cosign.sign("other", &blob);
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
    let newer = "minimum_versions = { keep-volumes-for-inspection = '999.0.0' }";
    trusting(&world, path, &[("next", &other)], newer);
    refused("is older than 999.0.0, which `minimum_versions`");

    // The bundle of this version beside another one; without its end; without measure.
    trusting(&world, path, &[("next", &other)], "");
    world.write("keep.wasm", RETRY.bytes);
    refused(&format!("the signature by the key {other_id} (next) is not of sha256:"));
    world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    let whole = std::fs::read_to_string(&bundle).unwrap();
    std::fs::write(&bundle, &whole[..whole.len() / 2]).unwrap();
    refused("it is no sigstore bundle");
    std::fs::write(&bundle, whole + &" ".repeat(128 << 10)).unwrap();
    refused("at most 131072 are allowed");
}

#[test]
fn what_cosign_signed_in_a_registry_is_taken_also_when_the_registry_is_gone() {
    for kind in Kind::ALL {
        let world = World::new("50");
        let Some(cosign) = Cosign::new(&world) else { return };
        let Some(registry) = kind.start() else { return };
        let (release, next) = (cosign.key("release"), cosign.key("next"));
        let release_id = id(&cosign.folder, "release");
        let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
        world.write("predicate.json", b"{}");
        let tag = format!("oci://{}/team/keep:1.0.0", registry.address);
        let pushed = push(&world, &file, &tag);
        let image = pushed["pinned"].as_str().unwrap().trim_start_matches("oci://").to_owned();
        let keys = [("release", release.as_str())];
        trusting(&world, &tag, &keys, "");
        let refused = |words: &str| {
            world.run(&["policy", "list"]).expect(2).says(words);
        };
        refused("is not signed, and [policies.trust] takes only");
        let lock = world.home.path().join(".config/windlass/config.lock");
        assert!(!lock.exists(), "{kind:?}: what nobody signed was locked");

        let attest = ["attest", "--type", "https://example.com/scanned/v1", "--predicate", "predicate.json", &image];
        cosign.sign("release", &attest);
        refused("attests https://example.com/scanned/v1 of sha256:");
        cosign.sign("next", &["sign", &image]);
        refused("is signed by the key sha256:");
        cosign.sign("release", &["sign", &image]);
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection", "{kind:?}");
        assert!(lock.exists());
        let offline = ["--trusted-root", "root.json", "--insecure-ignore-tlog=true"];
        cosign.run(&[&["verify", "--key", "release.pub"], &offline[..], &[&image]].concat());

        let out = world.home.path().join("pulled.wasm");
        world.run(&["policy", "pull", &tag, "--out", out.to_str().unwrap()]).expect(0);
        assert_eq!(std::fs::read(&out).unwrap(), KEEP_VOLUMES_FOR_INSPECTION.bytes);
        assert!(!world.home.path().join("pulled.wasm.sigstore.json").exists(), "it is of the manifest");

        // The key is replaced, and what is there need not be pushed again; `next` has signed it before.
        trusting(&world, &tag, &[("next", &next)], &format!("revoked = ['{release_id}']"));
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection", "{kind:?}");
        drop(registry);
        assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection", "{kind:?}: without the registry");
        trusting(&world, &tag, &keys, &format!("revoked = ['{release_id}']"));
        refused("which `revoked` of [policies.trust] names");
    }
}

#[test]
fn a_bundle_beside_a_file_goes_with_it_through_a_registry() {
    let world = World::new("50");
    let Some(cosign) = Cosign::new(&world) else { return };
    let Some(registry) = Kind::Distribution.start() else { return };
    let release = cosign.key("release");
    let file = world.write("keep.wasm", KEEP_VOLUMES_FOR_INSPECTION.bytes);
    cosign.sign("release", &["sign-blob", "--bundle", "keep.wasm.sigstore.json", "keep.wasm"]);
    let tag = format!("oci://{}/team/keep:1.0.0", registry.address);
    trusting(&world, &tag, &[("release", &release)], "");
    assert_eq!(push(&world, &file, &tag)["signed_by"], id(&cosign.folder, "release").as_str());
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");

    let out = world.home.path().join("pulled.wasm");
    let pulled = world.json(&["policy", "pull", &tag, "--out", out.to_str().unwrap()]);
    assert_eq!(pulled["signed"], true);
    trusting(&world, out.to_str().unwrap(), &[("release", &release)], "");
    assert_eq!(first_of(&world, "rollback"), "keep-volumes-for-inspection");
}
