//! The host embeds components that are checked in, so that who builds it needs no WebAssembly target. Here they are
//! held to their sources.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_test_guests as guests;
use windlass_test_guests::Guest;

/// Set to write the files instead of comparing them: `just policies`.
const WRITE: &str = "WINDLASS_WRITE_POLICIES";

/// What each crate embeds.
const PREBUILT: [(&str, &[Guest]); 2] = [
    (
        "host/policy",
        &[
            guests::STATE_MAPPING,
            guests::RETRY,
            guests::ROLLBACK,
            guests::RELEASE,
            guests::PROVISIONING,
            guests::PLACEMENT,
            guests::RULES,
        ],
    ),
    ("host/cli", &[guests::GRACE_FOR_STOPPED]),
];

fn components_of(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(of).join("components")
}

fn file_of(guest: Guest) -> String {
    format!("{}.wasm", guest.name)
}

#[test]
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")),
    ignore = "a compiler that runs elsewhere makes other bytes of the same sources (guest/build says why)"
)]
fn what_the_host_embeds_is_what_its_sources_make() {
    for (of, embedded) in PREBUILT {
        let folder = components_of(of);
        for guest in embedded {
            let path = folder.join(file_of(*guest));
            if std::env::var_os(WRITE).is_some() {
                std::fs::create_dir_all(&folder).expect("the checkout can be written");
                std::fs::write(&path, guest.bytes).expect("the checkout can be written");
            }
            let present = std::fs::read(&path).unwrap_or_default();
            assert!(
                present == guest.bytes,
                "{of}/components/{} has {} bytes that are not the {} which its sources make: run `just policies` and \
                 commit what it writes",
                file_of(*guest),
                present.len(),
                guest.bytes.len()
            );
        }
        let files = std::fs::read_dir(&folder).expect("it was just read from");
        let files = files.map(|file| file.expect("it can be listed").file_name().to_string_lossy().into_owned());
        let files: BTreeSet<String> = files.collect();
        let expected = embedded.iter().map(|guest| file_of(*guest)).collect();
        assert_eq!(files, expected, "{of}/components: what is not listed here, nobody holds to its sources");
    }
}
