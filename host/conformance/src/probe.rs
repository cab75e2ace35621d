//! What a probe is, and what it can answer.

use futures::future::BoxFuture;
use serde::Serialize;

use crate::api::Stop;
use crate::assumptions::{Assumption, Check};
use crate::bench::Bench;
use crate::fixture::Fixture;

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// The API behaves as assumed.
    Holds,
    /// It does not.
    Broken {
        /// What was seen instead.
        seen: String,
    },
    /// The question could not be put.
    Unknown { why: String },
}

impl Verdict {
    /// The verdict in one word: `holds`, `broken`, `unknown`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.into()
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
type Ask = for<'a> fn(&'a mut Bench) -> BoxFuture<'a, Asked>;

/// One question to the API: does it behave as Windlass assumes?
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Probe {
    /// The assumption's id.
    pub id: &'static str,
    /// What is assumed.
    pub title: &'static str,
    /// What it needs, and what therefore is made, paid for and removed.
    pub needs: &'static [Fixture],
    #[serde(skip)]
    pub(crate) assumption: &'static Assumption,
    #[serde(skip)]
    pub(crate) ask: Ask,
}

impl Probe {
    /// For constants: an id of no assumption, or of one that says why it has no probe, does not compile.
    pub(crate) const fn of(id: &str, needs: &'static [Fixture], ask: Ask) -> Self {
        let assumption = Assumption::of(id);
        assert!(matches!(assumption.check, Check::Probe(_)), "the assumption says that it has no probe");
        Self { id: assumption.id, title: assumption.assumed, needs, assumption, ask }
    }
}
