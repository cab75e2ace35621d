//! The arguments of `windlass policy serve`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// Decisions of the configured policies, for programs that are not written in Rust. Changed files are swapped in as
/// they come; SIGHUP reads the configuration again, SIGTERM and Ctrl-C end. docs/policy-server.md has clients.
#[derive(Debug, Args)]
pub(crate) struct ServePolicies {
    /// The socket: unix:PATH. There is no TCP
    #[arg(long, value_name = "unix:PATH")]
    pub(crate) listen: UnixAddress,
    /// Numeric id of another user who may ask (repeatable)
    #[arg(long, value_name = "UID", value_parser = parse_uid)]
    pub(crate) allow_uid: Vec<u32>,
    /// Maximum number of connections, in equal shares for each user who may ask
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_connections: u16,
}

fn parse_uid(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("a user is given by its number, which `id -u {text}` prints"))
}

/// A path in the words of `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnixAddress(pub(crate) PathBuf);

impl FromStr for UnixAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(UnixAddress(path.into())),
            Some(_) => Err("a path has to follow: unix:/run/windlass/policy.sock".to_owned()),
            None => Err("only Unix sockets are served: unix:/run/windlass/policy.sock".to_owned()),
        }
    }
}
