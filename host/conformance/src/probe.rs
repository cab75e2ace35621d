//! What a probe is, and what it can answer.

use futures::future::BoxFuture;
use serde::Serialize;

use crate::api::Stop;
use crate::bench::Bench;
use crate::probes;

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
    /// What it is, in words.
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

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// The API behaves as assumed.
    Holds,
    /// It does not.
    Broken {
        /// What was seen instead.
        seen: String,
    },
    /// The question could not be put.
    Unknown {
        /// Why.
        why: String,
    },
}

impl Verdict {
    /// The verdict in one word: `holds`, `broken`, `unknown`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Broken { .. } => "broken",
            Verdict::Unknown { .. } => "unknown",
        }
    }

    /// What was seen, or why nothing was; empty where the assumption holds.
    #[must_use]
    pub fn details(&self) -> &str {
        match self {
            Verdict::Holds => "",
            Verdict::Broken { seen: details } | Verdict::Unknown { why: details } => details,
        }
    }

    pub(crate) fn broken(seen: impl Into<String>) -> Self {
        Verdict::Broken { seen: seen.into() }
    }
}

pub(crate) type Asked = Result<Verdict, Stop>;

/// One question to the API: does it behave as Windlass assumes?
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Probe {
    /// The assumption's id, as it stands in `docs/assumptions.md` and in the code that relies on it.
    pub id: &'static str,
    /// What is assumed.
    pub title: &'static str,
    /// What it needs, and what therefore is made, paid for and removed.
    pub needs: &'static [Fixture],
    #[serde(skip)]
    pub(crate) ask: for<'a> fn(&'a mut Bench) -> BoxFuture<'a, Asked>,
}

impl Probe {
    /// Every probe, in the order in which they are asked.
    #[must_use]
    pub fn all() -> &'static [Probe] {
        probes::ALL
    }
}
