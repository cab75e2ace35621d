//! What the nested cargo inherits.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of the outer cargo and its wrappers that would change what the nested one builds. Everything else (proxy,
/// home, registry and toolchain settings, the job server) is inherited.
const CLEARED: &[&str] = &[
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC",
    "RUSTDOC",
    "RUSTC_LINKER",
    // clippy-driver, for example: it would build everything a second time.
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    // Crates ask by it whether they are built with a nightly compiler.
    "RUSTC_BOOTSTRAP",
    "OUT_DIR",
    "TARGET",
    "HOST",
    "PROFILE",
    "OPT_LEVEL",
    "DEBUG",
];

/// Families of such variables.
const CLEARED_PREFIXES: &[&str] = &[
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PROFILE_",
    // How the features of packages that are built together are unified.
    "CARGO_RESOLVER_",
    "CARGO_TARGET_",
    "CARGO_UNSTABLE_",
];

/// Clears what must not be inherited.
pub(crate) fn prepare(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_cleared(&name) {
            command.env_remove(name);
        }
    }
}

fn is_cleared(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    CLEARED.contains(&name) || CLEARED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Where things lie on this machine.
pub(crate) struct Places<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) target_dir: &'a Path,
    pub(crate) home: &'a Path,
    /// Other folders of sources, with what they are called instead.
    pub(crate) others: &'a BTreeMap<PathBuf, String>,
}

/// Flags for rustc that make components small and reproducible, separated as cargo wants them (0x1f, since paths may
/// hold spaces).
pub(crate) fn rustflags(places: &Places<'_>, stack_bytes: u32) -> OsString {
    let mut flags = OsString::from("-Clink-arg=-zstack-size=");
    flags.push(stack_bytes.to_string());
    // Panic messages hold file names: without these, the bytes would tell where the checkout lay, from which mirror
    // the packages came, and whether rustup has installed Rust's own sources. Of those that fit, rustc takes the last.
    let others = places.others.iter().map(|(folder, name)| (folder.as_path(), name.as_str()));
    let own = [(places.workspace, "/windlass"), (places.home, "/cargo"), (places.target_dir, "/target")];
    for (from, to) in own.into_iter().chain(others) {
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(from);
        flags.push("=");
        flags.push(to);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_the_bytes_is_not_inherited() {
        for name in [
            "RUSTFLAGS",
            "CARGO_PROFILE_GUEST_OPT_LEVEL",
            "CARGO_TARGET_DIR",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_TARGET",
            "CARGO_RESOLVER_FEATURE_UNIFICATION",
            "CARGO_UNSTABLE_FEATURE_UNIFICATION",
            "RUSTC_BOOTSTRAP",
        ] {
            assert!(is_cleared(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn what_cargo_needs_to_fetch_and_to_share_jobs_is_inherited() {
        for name in [
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_PROXY",
            "CARGO_MAKEFLAGS",
            "CARGO_REGISTRIES_X_INDEX",
            "RUSTUP_TOOLCHAIN",
            "PATH",
        ] {
            assert!(!is_cleared(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_path_with_a_space_stays_one_flag() {
        let places = Places {
            workspace: Path::new("/a b/c"),
            target_dir: Path::new("/t"),
            home: Path::new("/h"),
            others: &BTreeMap::from([(PathBuf::from("/h/registry/src/mirror"), "/packages".to_owned())]),
        };
        let flags = rustflags(&places, 16384);
        let flags = flags.to_str().unwrap_or_default();
        assert_eq!(
            flags.split('\u{1f}').collect::<Vec<_>>(),
            [
                "-Clink-arg=-zstack-size=16384",
                "--remap-path-prefix=/a b/c=/windlass",
                "--remap-path-prefix=/h=/cargo",
                "--remap-path-prefix=/t=/target",
                "--remap-path-prefix=/h/registry/src/mirror=/packages",
            ]
        );
    }
}
