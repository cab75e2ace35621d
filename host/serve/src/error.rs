//! What can go wrong.

use std::path::PathBuf;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is longer than the address of a socket can be.
    #[error("the path {path} is longer than the {most} bytes that the address of a socket has: choose a shorter one")]
    LongPath {
        path: PathBuf,
        /// The longest, in bytes.
        most: usize,
    },
    /// The path names no file.
    #[error("{path} does not name a file: give a folder and a name in it, for example /run/windlass/policies.sock")]
    NoName { path: PathBuf },
    /// Something else is there.
    #[error("{path} exists and is not a socket: remove it, or choose another path")]
    NotASocket { path: PathBuf },
    /// Somebody else listens there.
    #[error("another program listens on {path}: end it, or choose another path")]
    InUse { path: PathBuf },
    /// The socket can't be made.
    #[error("cannot listen on {path}")]
    Listen {
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
