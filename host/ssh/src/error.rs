//! What can go wrong.

/// How a connection or a command fails. The words continue a sentence that begins with what was run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no connection, or it was lost.
    #[error("could not be reached: {0}")]
    Connection(String),
    /// The machine showed another host key than it must. Nothing was sent to it.
    #[error("stopped before logging in: it shows the host key {shown}, but must show {expected}")]
    HostKey {
        /// The fingerprint that it showed.
        shown: String,
        /// The fingerprints of which it must show one.
        expected: String,
    },
    /// The machine did not let the user in.
    #[error("could not log in: the key or password is not accepted for user {user}")]
    LoginRefused {
        /// Who tried.
        user: String,
    },
    /// The machine runs no commands for this user.
    #[error("could not be started: the machine refuses to run commands")]
    CommandRefused,
    /// The command ended with an exit code that is not 0.
    #[error("ended with exit code {0}")]
    ExitCode(i32),
    /// A signal ended the command.
    #[error("was ended by signal {0}")]
    Signal(String),
}

/// Why a private key cannot be used. Quotes nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It has a passphrase.
    #[error("it has a passphrase: make one without (ssh-keygen -t ed25519 -N '')")]
    Encrypted,
    /// It is an RSA key.
    #[error("it is an RSA key, which is not supported: make one with ssh-keygen -t ed25519")]
    Rsa,
    /// It is no private key.
    #[error("it is not a private key of a supported kind: make one with ssh-keygen -t ed25519")]
    Unusable,
}
