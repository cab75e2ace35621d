//! The arguments of `windlass policy push`, `pull`, `lock`, `sign` and `verify`.

use std::path::PathBuf;

use clap::Args;
use windlass_distribution::Reference;

#[derive(Debug, Args)]
pub(crate) struct PushPolicy {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml); its signatures beside it go with it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Destination: oci://registry/repository:tag
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: Reference,
}

#[derive(Debug, Args)]
pub(crate) struct PullPolicy {
    /// Source: oci://registry/repository:tag, or @sha256:... instead of the tag
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: Reference,
    /// File to write or replace; signatures are written next to it
    /// [default: the end of the repository's name, in this folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LockPolicies {
    /// Also update tags that are locked already
    #[arg(long)]
    pub(crate) update: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SignPolicy {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A minisign secret key, as created by `minisign -G`
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// A file with the key's password, if it has one
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Trusted comment of the signature [default: the time and the file name]
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyPolicy {
    /// A policy: a file with its signatures beside it, or oci://registry/repository:tag
    #[arg(value_name = "FILE|REFERENCE")]
    pub(crate) policy: String,
    /// A public key of minisign or cosign: its file, or its text; instead of those of [policies.trust]. Repeatable
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
}
