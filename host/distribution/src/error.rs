//! What can go wrong between a reference and its bytes.

use crate::digest::ContentDigest;

/// Why an artifact could not be had, or not be published. Never holds a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A reference can't be read.
    #[error("`{reference}` is not a valid reference: {problem}")]
    Reference {
        /// What was written.
        reference: String,
        problem: String,
    },

    /// No configured client of registries.
    #[error("this program does not fetch from registries")]
    NoRegistries,

    /// A registry did not do what it was asked to.
    #[error("{registry}: {problem}")]
    Registry {
        /// Its host.
        registry: String,
        problem: String,
    },

    /// Neither the mirrors nor the registry itself had it.
    #[error("no registry or mirror has it: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Everywhere(Vec<Error>),

    /// The bytes are not those that were asked for.
    #[error("{registry}: the {what} has the digest {found}, and {expected} was asked for")]
    WrongDigest {
        /// Who sent them.
        registry: String,
        /// What they should have been.
        what: &'static str,
        /// The digest that was asked for.
        expected: ContentDigest,
        /// The digest that they have.
        found: ContentDigest,
    },

    /// More was sent than is taken.
    #[error("{registry}: the {what} has more than {limit} bytes")]
    TooLarge {
        /// Who sent it.
        registry: String,
        /// What it was.
        what: &'static str,
        /// The limit, in bytes.
        limit: u64,
    },

    /// The manifest is of something else.
    #[error("{registry}: it is not an artifact with one usable layer: {problem}")]
    NotAnArtifact {
        /// Who sent it.
        registry: String,
        /// What it is instead.
        problem: String,
    },

    /// Credentials could not be read.
    #[error("the credentials for {registry}: {problem}")]
    Credentials { registry: String, problem: String },

    /// What tags are locked to can't be read or written.
    #[error("the locked tags in {place}: {problem}")]
    Lock {
        /// The file, or where else they are.
        place: String,
        problem: String,
    },

    /// Nobody who is trusted has signed it.
    #[error(transparent)]
    Untrusted(#[from] crate::trust::Untrusted),

    /// The settings are wrong.
    #[error("{0}")]
    Settings(String),
}
