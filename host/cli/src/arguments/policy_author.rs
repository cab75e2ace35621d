//! The arguments of what a policy's author does: `policy new`, `build`, `schema`, `test`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use windlass_policy::slots::SlotName;

use super::slot_names;

#[derive(Debug, Args)]
pub(crate) struct NewPolicy {
    /// Name: lower-case letters, digits and dashes
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Slot that the policy decides
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: SlotName,
    /// Language
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    pub(crate) language: Language,
    /// Folder to write; must be missing or empty [default: NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// What a policy is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// A package with the SDK in it, built into a component
    Rust,
    /// Conditions in CEL, each with an answer: no compiler needed
    Rules,
    /// A script with types, built with its interpreter: needs Node.js and npm
    #[value(name = "typescript")]
    TypeScript,
    /// A script, built with its interpreter: needs Node.js and npm
    #[value(name = "javascript")]
    JavaScript,
    /// A script, built with its interpreter: needs Python and pip
    Python,
}

#[derive(Debug, Args)]
pub(crate) struct BuildPolicy {
    /// Folder of the policy project
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Component to write [default: NAME.wasm in the folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PolicySchema {
    /// The slot
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: SlotName,
    /// Only this schema [default: one document with all of them]
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "folder")]
    pub(crate) of: Option<SchemaOf>,
    /// Write each schema into this folder, as WHAT.json
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// What a schema is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// What the slot is asked
    Question,
    /// What it answers
    Answer,
    /// A fixture for a policy of the slot
    Fixture,
    /// A file of rules for the slot
    Rules,
}

#[derive(Debug, Args)]
pub(crate) struct TestPolicy {
    /// A policy file, or a policy project, which is built first
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    pub(crate) policy: PathBuf,
    /// Folder of fixtures, or one fixture [default: `fixtures` next to the policy]
    #[arg(long, value_name = "PATH")]
    pub(crate) fixtures: Option<PathBuf>,
    /// Settings of the policy: a JSON object, or @FILE; a fixture's own settings take precedence
    #[arg(long, value_name = "JSON")]
    pub(crate) settings: Option<String>,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Record the fuel of each case in fuel.lock; later runs fail if a case needs 10 % more
    #[arg(long)]
    pub(crate) lock_fuel: bool,
    /// Create fixtures from recorded decisions instead, one for each combination that no fixture covers yet
    #[arg(long, conflicts_with_all = ["junit", "lock_fuel"])]
    pub(crate) record: bool,
    /// With --record: how many decisions of each slot to read, newest first
    #[arg(long, requires = "record", value_name = "NUMBER", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}
