//! Who asked for an operation, and why. It is journalled with the operation, before anything is done.

use std::fmt;

use serde::{Deserialize, Serialize};
use windlass_policy::slots::types::{Label, Object};
use windlass_policy::{DecisionId, cut};

use crate::identifier::GroupName;
use crate::journal::Operation;
use crate::run::is_group_of_servers;

/// The longest reason that the journal keeps, in bytes: a policy's reason may be longer.
const MAX_WHY_LEN: usize = 1_024;
/// The key in the specification of an operation.
const KEY: &str = "requested_by";

/// Who asked for an operation, why, and which decisions led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedBy {
    #[serde(flatten)]
    pub requester: Requester,
    /// Why, for people. Empty: no reason was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The policy that asks, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// The decisions of policies that led to it, as the decision log names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionId>,
    /// Labels and annotations of who asks, as far as the operator lets policies see them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// The Kubernetes object that a cluster is, whose operation asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Object>,
    /// The runner's group that a Mac is claimed for or released by. A server carries its group itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
}

/// Who asks for an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Requester {
    /// Somebody at the command line.
    User {
        /// The command, without its arguments: `server delete`.
        command: String,
    },
    /// GitLab Runner, which no longer wants an instance.
    Runner,
    /// The runner plugin itself: the server vanished, or its creation was called off.
    Plugin,
    /// A state-mapping policy.
    Policy,
    /// A host that removes everything as it shuts down.
    Shutdown,
    /// A sweep, which removes what nothing explains.
    Sweep,
    /// The clean-up of claimed hosts whose claimant is gone.
    Reclaim,
    /// A Kubernetes object.
    Object { kind: String, namespace: String, name: String, uid: String },
    /// An operation on a cluster.
    Cluster {
        cluster: String,
        /// The number of its operation.
        operation: u64,
    },
    /// Not recorded, or recorded by a version with requesters that this one does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl RequestedBy {
    /// Records who asks and why. A reason of more than 1,024 bytes is cut.
    #[must_use]
    pub fn new(requester: Requester, why: impl Into<String>) -> Self {
        Self { requester, why: cut(why.into(), MAX_WHY_LEN), ..Self::default() }
    }

    /// Somebody at the command line.
    #[must_use]
    pub fn user(command: &str) -> Self {
        Self::new(Requester::User { command: command.to_owned() }, "")
    }

    /// Adds what policies may see of the labels of who asks.
    #[must_use]
    pub fn labelled(mut self, labels: Vec<Label>) -> Self {
        self.labels = labels;
        self
    }

    /// Adds the runner's group.
    #[must_use]
    pub fn of_group(mut self, group: &GroupName) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Adds the decision that led to it.
    #[must_use]
    pub fn decided(mut self, decision: DecisionId) -> Self {
        self.decisions.push(decision);
        self
    }

    /// Who asks: with the policy, where one does.
    #[must_use]
    pub fn who(&self) -> String {
        match &self.decided_by {
            Some(policy) => format!("{}, {policy}", self.requester),
            None => self.requester.to_string(),
        }
    }

    /// Who cancels an operation, and why, as [`Lifecycle::cancel`](crate::Lifecycle::cancel) journals it.
    #[must_use]
    pub fn canceller(&self) -> String {
        let decisions: String = self.decisions.iter().map(|id| format!(" (decision {id})")).collect();
        format!("{}{decisions}: {}", self.who(), self.why)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { command } => write!(formatter, "`windlass {command}`"),
            Self::Runner => formatter.write_str("GitLab Runner"),
            Self::Plugin => formatter.write_str("the runner plugin"),
            Self::Policy => formatter.write_str("a state-mapping policy"),
            Self::Shutdown => formatter.write_str("the shutdown of the runner plugin"),
            Self::Sweep => formatter.write_str("a sweep"),
            Self::Reclaim => formatter.write_str("the clean-up of claimed hosts"),
            Self::Object { kind, namespace, name, uid } => {
                write!(formatter, "{kind} {namespace}/{name} (uid {uid})")
            }
            Self::Cluster { cluster, operation } => write!(formatter, "operation {operation} of cluster {cluster}"),
            Self::Unknown => formatter.write_str("unknown"),
        }
    }
}

impl fmt::Display for RequestedBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.who())?;
        if !self.why.is_empty() {
            write!(formatter, ": {}", self.why)?;
        }
        Ok(())
    }
}

impl Operation {
    /// The group that it is about: of its servers, or the runner's whose Mac it is. `None`: it is of no group, or nobody
    /// knows the group.
    #[must_use]
    pub fn subject_group(&self) -> Option<String> {
        let of_requester = self.requested_by().and_then(|requested| requested.group).map(String::from);
        of_requester.or_else(|| is_group_of_servers(self.kind, &self.group).then(|| self.group.clone()))
    }

    /// Who asked for this operation and why. `None` where the journal does not say.
    #[must_use]
    pub fn requested_by(&self) -> Option<RequestedBy> {
        let requested = serde_json::from_value::<RequestedBy>(self.specification.get(KEY)?.clone()).ok()?;
        (!requested.is_unknown()).then_some(requested)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_requester_of_a_newer_version_is_unknown_and_keeps_its_reason() {
        let newer = json!({"by": "satellite", "orbit": 3, "why": "it is dark"});
        let read: RequestedBy = serde_json::from_value(newer).unwrap();
        assert_eq!(read, RequestedBy::new(Requester::Unknown, "it is dark"));
    }

    #[test]
    fn every_requester_reads_back_as_it_was_written() {
        let text = || "x".to_owned();
        for requester in [
            Requester::User { command: text() },
            Requester::Runner,
            Requester::Plugin,
            Requester::Policy,
            Requester::Shutdown,
            Requester::Sweep,
            Requester::Reclaim,
            Requester::Object { kind: text(), namespace: text(), name: text(), uid: text() },
            Requester::Cluster { cluster: text(), operation: 7 },
            Requester::Unknown,
        ] {
            let decision = "019b2f3c4d5e-9f8a7b6c-0000002a".parse().unwrap();
            let written =
                RequestedBy::new(requester, "why").decided(decision).labelled(vec![Label::new("team", "build")]);
            let written = RequestedBy { decided_by: Some(text()), ..written };
            assert_eq!(serde_json::from_value::<RequestedBy>(json!(written)).unwrap(), written);
        }
    }
}
