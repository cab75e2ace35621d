//! What probes need on Scaleway.

use serde::Serialize;

/// Something that a probe needs on Scaleway. What several probes need is made once, but for the spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fixture {
    /// A flexible address.
    Address,
    /// A flexible address that the probe itself deletes.
    SpareAddress,
    /// A local volume, attached to nothing.
    LocalVolume,
    /// A volume of Block Storage.
    BlockVolume,
    /// A server that is not started.
    Server,
    /// The same server, started.
    RunningServer,
    /// A server that is not started, and that the probe itself deletes.
    SpareServer,
}

impl Fixture {
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Fixture::Address => "an address",
            Fixture::SpareAddress => "an address of its own",
            Fixture::LocalVolume => "a local volume",
            Fixture::BlockVolume => "a block volume",
            Fixture::Server => "a server",
            Fixture::RunningServer => "the server, started",
            Fixture::SpareServer => "a server of its own, not started",
        }
    }
}
