//! What can go wrong when policies are loaded. Deciding never fails.

use std::io;

use crate::slot_name::SlotName;
use crate::slots::CONTRACT_VERSION;
use crate::source::Source;

/// Why a host could not be made, or policies not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The wasm engine could not be made.
    #[error("cannot make the wasm engine: {0:#}")]
    Engine(wasmtime::Error),

    /// A thread of the host could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),

    /// The state folder can't be used.
    #[error("cannot {what} in the state folder: {source}")]
    StateFolder {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },

    /// The configuration of the policies is wrong: key, place and remedy.
    #[error("{0}")]
    Configuration(String),

    /// A policy was refused.
    #[error("policies.{slot}: cannot use {policy}: {refusal}")]
    Refused {
        /// The slot that it was configured for.
        slot: SlotName,
        /// Where it came from.
        policy: Source,
        /// Why.
        #[source]
        refusal: Refusal,
    },

    /// Several policies can't be used.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Error>),

    /// A record of the decision log can't be read.
    #[error("decision {id}: {problem}")]
    Record {
        /// The decision.
        id: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why a component was refused. The text says what was found, what was expected, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It could not be read.
    #[error("cannot read it: {0}")]
    Unreadable(#[from] io::Error),

    /// It could not be fetched from its registry.
    #[error("cannot fetch it: {0}")]
    Unfetched(Box<windlass_distribution::Error>),

    /// Nobody who is trusted has signed it.
    #[error("it is not trusted: {0}")]
    Untrusted(Box<windlass_distribution::Untrusted>),

    /// There is no built-in default for this slot in this host.
    #[error("this host has no built-in default for the slot")]
    NoBuiltIn,

    /// It is larger than allowed.
    #[error(
        "it has {bytes} bytes, and at most {limit} are allowed; raise `limits.component_bytes` if that is intended"
    )]
    TooLarge {
        /// Its size.
        bytes: u64,
        limit: u64,
    },

    /// What the process that compiles policies says.
    #[error("{0}")]
    Message(String),

    /// It is no component.
    #[error("it is {what}, and a policy is a WebAssembly component: {remedy}")]
    NotAComponent {
        /// What it seems to be.
        what: &'static str,
        /// What to do.
        remedy: &'static str,
    },

    /// It is a component, and broken or outside of what this host accepts.
    #[error("it is not a valid component: {0}")]
    Invalid(String),

    /// It lacks an export.
    #[error("it does not export `{expected}`; it exports {found}")]
    LacksExport {
        /// The interface that it must export.
        expected: String,
        /// What it exports.
        found: String,
    },

    /// It imports what it was not granted.
    #[error(
        "it imports `{import}`, which it was not granted. To grant it, add to [policies.{slot}]:\n    grants = \
         [\"{grant}\"]"
    )]
    Ungranted {
        import: String,
        /// The slot in whose table the line belongs.
        slot: SlotName,
        /// The grant that would allow it.
        grant: String,
    },

    /// It imports what this host can't offer at all.
    #[error("it imports `{import}`, which this host does not offer. It offers {offered}")]
    UnknownImport {
        import: String,
        /// What could be granted.
        offered: String,
    },

    /// It imports a capability with other types than the capability has.
    #[error("it imports `{import}` with other types than this host's: {problem}")]
    ImportType {
        import: String,
        /// Where they differ, and what was expected there.
        problem: String,
    },

    /// A grant is wrong.
    #[error("grants: `{grant}`: {problem}")]
    Grant {
        /// The grant line.
        grant: String,
        /// What is wrong with it.
        problem: String,
    },

    /// An export has another type than the contract says.
    #[error(
        "its `{export}` does not have the type that the contract `windlass:policy@{}` says: {problem}",
        CONTRACT_VERSION
    )]
    WrongType {
        /// The function.
        export: String,
        /// The engine's words.
        problem: String,
    },

    /// It describes itself in a way that can't be used.
    #[error("its description is unusable: {0}")]
    Description(String),

    /// The settings don't fit the policy's schema.
    #[error("its settings are wrong: {0}")]
    Settings(String),

    /// Its `configure` refused the settings.
    #[error("it refuses its settings: {0}")]
    Configure(String),

    /// A file of rules is wrong: of each problem line, rule, key and remedy.
    #[error("{}", .0.join("; "))]
    Rules(Vec<String>),

    /// It failed while it was loaded.
    #[error("it failed in `{function}`: {problem}")]
    Failed {
        function: &'static str,
        /// What happened.
        problem: String,
    },

    /// It didn't answer the example question of its slot.
    #[error("it failed the dry run with the slot's example question: {0}")]
    DryRun(String),

    /// The process that compiled it had to be stopped, was, or could not be started. It is not compiled in this one.
    #[error("{0}; so it is refused")]
    NotCompiled(String),

    /// It is a component, and the host was given no [`Compiler`](crate::Compiler).
    #[error(
        "this program loads only rules and built-in policies, because it was started without a compiler for components \
        (`HostOptions::compiler`)"
    )]
    NoCompiler,

    /// It could not be compiled or prepared.
    #[error("cannot prepare it: {0}")]
    Prepare(String),
}

impl From<windlass_distribution::Error> for Refusal {
    fn from(error: windlass_distribution::Error) -> Refusal {
        Refusal::Unfetched(Box::new(error))
    }
}

impl From<windlass_distribution::Untrusted> for Refusal {
    fn from(untrusted: windlass_distribution::Untrusted) -> Refusal {
        Refusal::Untrusted(Box::new(untrusted))
    }
}
