//! What the nested cargo inherits.

use std::ffi::{OsStr, OsString};
use std::path::Path;
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
    // Which features crates get.
    "CARGO_RESOLVER_",
    "CARGO_TARGET_",
];

/// Clears what must not be inherited and sets the flags that make components small and reproducible.
pub(crate) fn prepare(command: &mut Command, workspace: &Path, home: &Path, stack_bytes: u32) {
    for (name, _) in std::env::vars_os() {
        if is_cleared(&name) {
            command.env_remove(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", rustflags(workspace, home, stack_bytes));
}

fn is_cleared(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    CLEARED.contains(&name) || CLEARED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Flags for rustc, separated as cargo wants them (0x1f, since paths may hold spaces).
fn rustflags(workspace: &Path, home: &Path, stack_bytes: u32) -> OsString {
    let mut flags = OsString::from("-Clink-arg=-zstack-size=");
    flags.push(stack_bytes.to_string());
    // Panic messages hold file names: without these two, the bytes would tell where the checkout lay.
    for (from, to) in [(workspace, "/windlass"), (home, "/cargo")] {
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
            "CARGO_RESOLVER_FEATURE_UNIFICATION",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_TARGET",
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
        let flags = rustflags(Path::new("/a b/c"), Path::new("/h"), 16384);
        let flags = flags.to_str().unwrap_or_default();
        assert_eq!(
            flags.split('\u{1f}').collect::<Vec<_>>(),
            ["-Clink-arg=-zstack-size=16384", "--remap-path-prefix=/a b/c=/windlass", "--remap-path-prefix=/h=/cargo"]
        );
    }
}
