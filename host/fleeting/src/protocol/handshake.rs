//! What the host says in the environment before the first call, and the one line that answers it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable by which fleeting tells a plugin from a program that was started by hand.
pub const COOKIE_KEY: &str = "FLEETING_INSTANCE_GROUP_PLUGIN";
pub const COOKIE_VALUE: &str = "4c6410b1-cb78-4962-8c76-ab936d0ea908";

/// go-plugin's own protocol.
const CORE_PROTOCOL_VERSION: u32 = 1;
/// Fleeting's.
const APPLICATION_PROTOCOL_VERSION: u32 = 0;

/// Why the process cannot be a plugin here. Each is one message for people on standard error and exit code 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Somebody started the program by hand.
    #[error(
        "This binary is a plugin of GitLab Runner and does not run by itself.\n\
         Name it in the runner's config.toml:\n\n    \
         [runners.autoscaler]\n      \
         plugin = \"fleeting-plugin-scaleway\"\n\n\
         `fleeting-plugin-scaleway --help` shows what you can do with it yourself: check a configuration, simulate it."
    )]
    StartedByHand,
    /// The cookie is of another host.
    #[error(
        "The environment variable {COOKIE_KEY} has a value that this plugin does not know.\n\
         The program that started it is not GitLab Runner, or uses another version of fleeting's protocol."
    )]
    WrongCookie,
    /// The host wants mutual TLS. Fleeting never does.
    #[error(
        "The host asks for mutual TLS (PLUGIN_CLIENT_CERT), which this plugin does not support.\n\
         GitLab Runner's fleeting never asks for it; start the plugin without it."
    )]
    MutualTls,
    /// The host wants the socket to belong to a group. Fleeting never does.
    #[error(
        "The host asks for a socket of a certain group (PLUGIN_UNIX_SOCKET_GROUP), which this plugin does not \
         support.\n\
         GitLab Runner's fleeting never asks for it; start the plugin without it."
    )]
    SocketGroup,
}

/// What the host said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Where the socket is wanted, where the host said so (`PLUGIN_UNIX_SOCKET_DIR`).
    pub(crate) socket_parent: Option<PathBuf>,
    /// Whether the host asked for one connection to carry several channels; the answer says that this is not offered.
    multiplexing_asked: bool,
}

impl Handshake {
    /// Reads the environment of the process.
    ///
    /// # Errors
    /// When the process was not started by a host that this plugin can serve.
    pub fn from_environment() -> Result<Self, HandshakeError> {
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// Reads the environment given by a look-up.
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, HandshakeError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        match given(COOKIE_KEY) {
            None => return Err(HandshakeError::StartedByHand),
            Some(cookie) if cookie != COOKIE_VALUE => return Err(HandshakeError::WrongCookie),
            Some(_) => {}
        }
        if given("PLUGIN_CLIENT_CERT").is_some() {
            return Err(HandshakeError::MutualTls);
        }
        if given("PLUGIN_UNIX_SOCKET_GROUP").is_some() {
            return Err(HandshakeError::SocketGroup);
        }
        Ok(Self {
            socket_parent: given("PLUGIN_UNIX_SOCKET_DIR").map(PathBuf::from),
            multiplexing_asked: given("PLUGIN_MULTIPLEX_GRPC").is_some(),
        })
    }

    /// The line that tells the host where the plugin listens, without its end of line. The sixth part would be a
    /// certificate; the seventh stands only when the host asked about multiplexing.
    pub(crate) fn line(&self, socket: &Path) -> String {
        let multiplexing = if self.multiplexing_asked { "|false" } else { "" };
        format!("{CORE_PROTOCOL_VERSION}|{APPLICATION_PROTOCOL_VERSION}|unix|{}|grpc|{multiplexing}", socket.display())
    }
}
