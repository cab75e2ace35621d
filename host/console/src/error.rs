//! What can go wrong.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why nothing is served or reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is seen by others, and nothing keeps them out.
    #[error("{address} is reachable from other machines, so set a token or require client certificates")]
    Unguarded { address: SocketAddr },
    /// Names by which no request asks for the console.
    #[error(
        "allowed hosts that are not names: {hosts}; write a name without scheme, port and path, for example ops.example"
    )]
    Hosts {
        /// Those that are wrong, in quotes.
        hosts: String,
    },
    /// A token that can be guessed.
    #[error("the token is too short: it needs at least {least} characters")]
    ShortToken {
        /// The fewest characters.
        least: usize,
    },
    /// TLS needs a certificate and its key.
    #[error("set both the TLS certificate and its key; client certificates also require them")]
    HalfTls,
    /// A file that an operator named cannot be read.
    #[error("{what} cannot be read: {}", path.display())]
    File {
        /// What it is to hold.
        what: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A file that an operator named does not hold the certificates or the key that it is to hold.
    #[error("{}: {why}", path.display())]
    Certificates {
        path: PathBuf,
        /// What is wrong, without what it holds.
        why: String,
    },
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Journal(#[source] windlass_lifecycle::Error),
    /// The decision log or the status of hosts cannot be read.
    #[error("the decision log or the status of the policies cannot be read")]
    Policies(#[source] windlass_policy::Error),
    /// The clusters cannot be read.
    #[cfg(feature = "clusters")]
    #[error("the clusters cannot be read")]
    Clusters(#[source] windlass_cluster::StoreError),
    /// A saved rehearsal is no such document, or one of another version.
    #[error("the rehearsal {name} cannot be shown: {why}")]
    Rehearsal { name: String, why: String },
    /// The folder of policies that a decision can be put to cannot be read.
    #[error("the folder of policies: {what}")]
    Candidates {
        /// What failed.
        what: String,
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
    /// What makes a page panicked.
    #[error("this page cannot be rendered; the log of the console says why")]
    Defective,
    /// The address cannot be listened on, or the connection broke.
    #[error("the console cannot be served on {address}")]
    Serve { address: SocketAddr, source: std::io::Error },
}
