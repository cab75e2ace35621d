//! What an undo did, and its words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::journal::{Operation, ResourceKind, ResourceName};

/// What an undo did. The truth as of the look at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Gone.
    pub removed: Vec<ResourceName>,
    /// Left in place on purpose, and marked so.
    pub kept: Vec<ResourceName>,
    /// Should be gone and is not.
    pub left: Vec<LeftResource>,
    /// Left alone since somebody abandoned the operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub abandoned: Vec<ResourceName>,
    /// There, and no longer ours: somebody took our tags off, or attached it to a server that is not ours. Left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ours: Vec<ResourceName>,
    /// Why nobody could see whether something is left, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unverified: Option<String>,
    /// When it is looked again, in milliseconds since 1970, because a call whose answer was lost may still take effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look_at: Option<u64>,
}

/// A resource that should be gone and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftResource {
    pub resource: ResourceName,
    pub why: String,
}

impl Report {
    /// The report of an operation; `None` where it has none, or one that this version cannot read.
    #[must_use]
    pub fn of(operation: &Operation) -> Option<Self> {
        operation.report.as_ref().and_then(|report| Self::deserialize(report).ok())
    }

    /// Whether it is proven that nothing is left that should be gone, as of this report's last look. What may still
    /// come is given by [`look_at`](Self::look_at).
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.left.is_empty() && self.unverified.is_none()
    }

    /// The server that was to go and is there, because it is no longer ours.
    #[must_use]
    pub fn server_not_ours(&self) -> Option<&ResourceName> {
        self.not_ours.iter().find(|name| name.kind == ResourceKind::Server)
    }

    fn done(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if !self.removed.is_empty() {
            parts.push(format!("removed {}", count(self.removed.iter())));
        }
        if !self.kept.is_empty() {
            parts.push(format!("kept {}", list(self.kept.iter())));
        }
        parts
    }

    /// The report in one line, for where what is left is listed beside it. `None`: nothing else was done.
    #[must_use]
    pub fn words_beside_left(&self) -> Option<String> {
        if self.left.is_empty() {
            return Some(self.words());
        }
        let done = self.done();
        (!done.is_empty()).then(|| done.join(", "))
    }

    /// The report in one line.
    #[must_use]
    pub fn words(&self) -> String {
        let mut parts = self.done();
        if !self.abandoned.is_empty() {
            parts.push(format!("left alone {}", list(self.abandoned.iter())));
        } else if self.left.is_empty() {
            match &self.unverified {
                Some(why) => parts.push(format!("cannot check whether anything is left: {why}")),
                None if !self.not_ours.is_empty() => {}
                None if self.kept.is_empty() => parts.push("nothing is left".to_owned()),
                None => parts.push("nothing else is left".to_owned()),
            }
        } else {
            let left: Vec<String> = self.left.iter().map(|left| format!("{} ({})", left.resource, left.why)).collect();
            parts.push(format!("LEFT: {}", left.join("; ")));
            if let Some(why) = &self.unverified {
                parts.push(format!("cannot check the rest: {why}"));
            }
        }
        if !self.not_ours.is_empty() {
            parts.push(format!("left alone, since it is no longer ours: {}", list(self.not_ours.iter())));
        }
        if let Some(look_at) = self.look_at {
            parts.push(format!(
                "a call whose answer was lost may still take effect: Windlass looks for its effect again at {}",
                instant_words(look_at)
            ));
        }
        parts.join(", ")
    }
}

/// Milliseconds since 1970, for people: `2026-08-01 12:00:00Z`.
pub(crate) fn instant_words(at: u64) -> String {
    let at = i64::try_from(at / 1_000).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    at.map_or_else(|| "an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

fn list<'a>(resources: impl Iterator<Item = &'a ResourceName>) -> String {
    resources.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn count<'a>(resources: impl Iterator<Item = &'a ResourceName>) -> String {
    let mut counts: BTreeMap<ResourceKind, usize> = BTreeMap::new();
    for resource in resources {
        *counts.entry(resource.kind).or_default() += 1;
    }
    counts
        .iter()
        .map(|(kind, count)| {
            let word = match kind {
                ResourceKind::Server => "server",
                ResourceKind::Ip => "address",
                ResourceKind::BlockVolume => "block volume",
                ResourceKind::LocalVolume => "local volume",
                ResourceKind::Volume => "volume",
                ResourceKind::PrivateNic => "private NIC",
                ResourceKind::AppleSiliconServer => "host",
            };
            match (count, *kind) {
                (1, _) => format!("1 {word}"),
                (count, ResourceKind::Ip) => format!("{count} addresses"),
                (count, _) => format!("{count} {word}s"),
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}
