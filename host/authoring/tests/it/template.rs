//! New policies, built and tested.

use std::path::Path;
use std::process::Command;

use windlass_authoring::{Language, NewPolicy, build};
use windlass_policy::slots::SlotName;
use windlass_proof::fixture::Fixture;

fn write(name: &str, slot: SlotName, folder: &Path) {
    NewPolicy { name: name.parse().unwrap(), slot, language: Language::Rust }.write(folder).unwrap();
}

/// Runs cargo as an author does, without a network: everything is in the lock file.
fn cargo(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let is_ours = ["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"].contains(&name.as_str());
        if name.starts_with("CARGO_") && name != "CARGO_HOME" || is_ours {
            command.env_remove(name);
        }
    }
    let output = command.args(arguments).arg("--offline").current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_policy_is_small_and_the_same_bytes_wherever_its_folder_lies() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = [one.path().join("patience"), other.path().join("else where/deeper/patience")];
    let bytes = folders.each_ref().map(|folder| {
        write("patience", SlotName::Retry, folder);
        let built = build(folder, None, &|_| ()).unwrap();
        assert_eq!(built.package, "patience");
        assert!(built.bytes < 150_000, "{} bytes", built.bytes);
        std::fs::read(folder.join("patience.wasm")).unwrap()
    });
    let sizes = bytes.each_ref().map(Vec::len);
    let first = bytes[0].iter().zip(&bytes[1]).position(|(one, other)| one != other);
    assert!(bytes[0] == bytes[1], "the bytes tell where the folder lay: {sizes:?}, other from {first:?} on");
    // Nothing of it has to be looked up: the lock file was right as it was written.
    let (ended_well, words) = cargo(&folders[0], &["metadata", "--locked", "--format-version", "1", "--quiet"]);
    assert!(ended_well, "{words}");
}

/// Six policies as one workspace, so that the SDK is compiled once.
#[test]
fn every_slots_policy_holds_its_fixtures_natively() {
    let root = tempfile::tempdir().unwrap();
    let mut members = Vec::new();
    for slot in SlotName::ALL {
        let name = format!("new-{slot}");
        let folder = root.path().join(&name);
        write(&name, slot, &folder);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (package, _) = manifest.split_once("[workspace]").unwrap();
        let package = package.replace("path = \"sdk\"", "path = \"../sdk\"");
        std::fs::write(folder.join("Cargo.toml"), package).unwrap();
        if slot == SlotName::Retry {
            std::fs::copy(folder.join("Cargo.lock"), root.path().join("Cargo.lock")).unwrap();
            std::fs::rename(folder.join("sdk"), root.path().join("sdk")).unwrap();
        }
        for fixture in std::fs::read_dir(folder.join("fixtures")).unwrap() {
            let path = fixture.unwrap().path();
            Fixture::parse(&std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        members.push(name);
    }
    let workspace = format!("[workspace]\nresolver = \"3\"\nexclude = [\"sdk\"]\nmembers = {members:?}\n");
    std::fs::write(root.path().join("Cargo.toml"), workspace).unwrap();
    let (ended_well, words) = cargo(root.path(), &["test", "--workspace", "--quiet"]);
    assert!(ended_well, "{words}");
    // A test that holds nothing would pass as well.
    let fixture = root.path().join("new-release/fixtures/a-machine-that-keeps-failing-is-kept.json");
    let text = std::fs::read_to_string(&fixture).unwrap().replace("\"keep\"", "\"terminate\"");
    std::fs::write(&fixture, text).unwrap();
    let (ended_well, words) = cargo(root.path(), &["test", "--package", "new-release", "--quiet"]);
    assert!(!ended_well, "{words}");
}
