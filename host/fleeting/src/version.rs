//! What the binary says about itself. The release recipe fills in what Cargo does not know, through the environment of
//! the build; a plain build says so.

use std::fmt::Write as _;

/// The binary's name.
pub const NAME: &str = "fleeting-plugin-scaleway";
/// The version, as semantic versioning writes it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from.
const REVISION: Option<&str> = option_env!("WINDLASS_GIT_REVISION");
/// The branch or tag it was built from.
const REFERENCE: Option<&str> = option_env!("WINDLASS_GIT_REFERENCE");
/// When it was built, in RFC 3339.
const BUILT_AT: Option<&str> = option_env!("WINDLASS_BUILT_AT");

/// Operating system and processor in Go's words, which the layout of plugin artefacts uses as well.
fn platform() -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}/{architecture}", std::env::consts::OS)
}

/// The lines that `version` prints: the same keys in the same order as every fleeting plugin, since people parse them.
pub fn full() -> String {
    let unknown = "unknown";
    let mut text = String::new();
    for (key, value) in [
        ("Name:", NAME),
        ("Version:", VERSION),
        ("Git revision:", REVISION.unwrap_or(unknown)),
        ("Git ref:", REFERENCE.unwrap_or(unknown)),
        ("GO version:", "none (written in Rust)"),
        ("Built:", BUILT_AT.unwrap_or(unknown)),
        ("OS/Arch:", &platform()),
    ] {
        let _ = writeln!(text, "{key:<13} {value}");
    }
    text
}

/// One line about the build, for the runner's log.
pub fn build_info() -> String {
    let unknown = "unknown";
    format!(
        "sha={}; ref={}; built_at={}; os_arch={}",
        REVISION.unwrap_or(unknown),
        REFERENCE.unwrap_or(unknown),
        BUILT_AT.unwrap_or(unknown),
        platform(),
    )
}
