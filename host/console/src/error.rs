//! What can go wrong.

use std::net::SocketAddr;

/// Why nothing is served or reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is seen by others, and nothing keeps them out.
    #[error("{address} can be reached by others than this machine, so a token is needed")]
    Unguarded {
        /// The address.
        address: SocketAddr,
    },
    /// A token that can be guessed.
    #[error("the token is too short: it needs at least {least} characters")]
    ShortToken {
        /// The fewest characters.
        least: usize,
    },
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Journal(#[source] windlass_lifecycle::Error),
    /// The decision log or the status of hosts cannot be read.
    #[error("what policies did cannot be read")]
    Policies(#[source] windlass_policy::Error),
    /// The clusters cannot be read.
    #[error("the clusters cannot be read")]
    Clusters(#[source] windlass_cluster::StoreError),
    /// The folder of policies that a decision can be put to cannot be read.
    #[error("the folder of policies: {what}")]
    Candidates {
        /// What failed.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is nothing of this name or id.
    #[error("there is no {what} {name}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Which one.
        name: String,
    },
    /// The address cannot be listened on, or the connection broke.
    #[error("{address} cannot be served")]
    Serve {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}
