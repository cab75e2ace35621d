//! What `windlass example` takes.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;

use crate::completion;

#[derive(Debug, Args)]
pub(crate) struct Example {
    /// The example to print [default: list all]
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::examples))]
    pub(crate) name: Option<String>,
    /// Write it to this file
    #[arg(long, value_name = "FILE", requires = "name")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "out")]
    pub(crate) overwrite: bool,
}
