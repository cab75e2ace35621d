use std::path::{Path, PathBuf};

use windlass_guest_build::{Build, Error};
use windlass_test_guests as guests;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tests run in their checkout")
}

/// The folder in which the build script has left its dependencies, so that nothing is compiled twice.
fn target_dir() -> PathBuf {
    let out = Path::new(env!("OUT_DIR"));
    out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()).unwrap_or(out).join("guests")
}

#[test]
fn a_shell_builds_the_same_bytes_as_a_build_script() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let built = Build::new(workspace(), target_dir(), out.path()).package("windlass-guest-retry", "retry").run();
    let artifacts = built.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(artifacts.len(), 1);
    assert_eq!(artifacts[0].path, out.path().join("retry.wasm"));
    let bytes = std::fs::read(&artifacts[0].path).expect("it was just written");
    assert!(bytes == guests::RETRY.bytes, "{} bytes and {} bytes", bytes.len(), guests::RETRY.bytes.len());
}

#[test]
fn a_package_that_makes_no_module_is_refused_with_the_line_that_is_missing() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let error = Build::new(workspace(), target_dir(), out.path()).package("windlass-guest-sdk", "sdk").run().err();
    assert!(matches!(error, Some(Error::NoModule { .. })), "{error:?}");
    let words = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(words.contains("windlass-guest-sdk") && words.contains("crate-type = [\"cdylib\", \"rlib\"]"), "{words}");
}
