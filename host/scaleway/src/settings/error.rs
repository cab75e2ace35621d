use std::path::PathBuf;

use crate::location::InvalidLocation;

/// Why settings don't make a client. One line each: the place and the remedy. Never a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// Something is configured nowhere.
    #[error("no {what}: set {variable}, or `{key}` in a profile (looked in {looked})")]
    Missing {
        /// What is missing: `secret key`.
        what: &'static str,
        /// The environment variable that would give it.
        variable: &'static str,
        /// The key of a profile that would give it.
        key: &'static str,
        looked: String,
    },
    /// A value is not what its place takes.
    #[error("{place} {problem}")]
    Invalid {
        /// Variable, or file and key.
        place: String,
        /// What is wrong, to follow the place.
        problem: String,
    },
    /// The configuration file that was asked for cannot be read.
    #[error("configuration file {path}, {named_by}: {source}", path = .path.display())]
    UnreadableFile {
        path: PathBuf,
        /// Who named it, in words: `named by SCW_CONFIG_PATH`.
        named_by: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The configuration file is no YAML of the expected shape.
    #[error("configuration file {path}: {problem}", path = .path.display())]
    InvalidFile {
        path: PathBuf,
        /// What is wrong with it, with line and column, and without the file's content.
        problem: String,
    },
    /// A profile was asked for that the configuration file does not hold.
    #[error("there is no profile `{profile}` (named by {named_by}) in {looked}; it has {known}")]
    UnknownProfile {
        profile: String,
        named_by: &'static str,
        /// The file that was read, or that there is none.
        looked: String,
        /// The profiles there are.
        known: String,
    },
    /// A text is not the name of a zone or region.
    #[error(transparent)]
    Location(#[from] InvalidLocation),
    /// The HTTP client could not be made, for example because the system has no certificates.
    #[error(
        "the HTTP client cannot be made: {0}; are the system's certificates installed (package ca-certificates, or \
         SSL_CERT_FILE)?"
    )]
    HttpClient(String),
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<ConfigurationError>),
}

impl ConfigurationError {
    /// All of these errors as one.
    pub(super) fn of(mut all: Vec<Self>) -> Self {
        match all.pop() {
            Some(only) if all.is_empty() => only,
            last => {
                all.extend(last);
                Self::Several(all)
            }
        }
    }
}
