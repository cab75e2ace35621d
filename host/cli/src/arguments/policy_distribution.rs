//! The arguments of `windlass policy push`, `pull`, `lock` and `sign`.

use std::path::PathBuf;

use clap::Args;
use windlass_distribution::Reference;

#[derive(Debug, Args)]
pub(crate) struct PushPolicy {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml); its signatures beside it go with it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where to: oci://registry/repository:tag
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: Reference,
}

#[derive(Debug, Args)]
pub(crate) struct PullPolicy {
    /// What: oci://registry/repository:tag, or @sha256:... instead of the tag
    #[arg(value_name = "REFERENCE")]
    pub(crate) reference: Reference,
    /// The file to write, which is replaced; its signatures are written beside it
    /// [default: the end of the repository's name, in this folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LockPolicies {
    /// Look up tags that are locked, too
    #[arg(long)]
    pub(crate) update: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SignPolicy {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// A secret key of minisign, as `minisign -G` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// A file with the key's password, where it has one
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// What the signature says in its trusted comment [default: the time, and the name of the file]
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
