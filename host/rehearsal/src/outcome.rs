//! What came of an arm with one seed.

use std::ops::{Deref, DerefMut};

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use windlass_fleeting::{Counted, WaitTimes};

/// What an arm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmKind {
    /// A runner's group of instances.
    Group,
    /// A cluster of servers.
    Cluster,
}

/// What came of an arm with one seed: the same of a group and of a cluster, but that a cluster has no jobs.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    #[serde(flatten)]
    outcome: windlass_fleeting::Outcome,
    /// What was done with the cluster. Absent: it is a group.
    #[serde(default)]
    pub cluster: Option<ClusterOutcome>,
}

/// What was done with a cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClusterOutcome {
    /// The creation and each scaling, in their order.
    pub changes: Vec<ClusterChange>,
    /// How long they took until every wanted node served.
    pub ready: WaitTimes,
    /// Operations on the cluster, with repairs and its termination.
    pub operations: usize,
    /// By operation, stage and cause, how many failed.
    pub failed_operations: Vec<Counted>,
    /// Operations that the operator began because nodes did not serve.
    pub repairs: usize,
    /// Servers that were created in the place of others.
    pub replaced: usize,
}

/// The creation or a scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterChange {
    /// When it was wanted, in milliseconds since 1970.
    pub at: u64,
    /// Whether every wanted node served in the end.
    pub is_ready: bool,
    /// How long that took; otherwise, until the end.
    pub waited_ms: u64,
}

impl Outcome {
    /// Of a cluster.
    #[must_use]
    pub fn of_cluster(outcome: windlass_fleeting::Outcome, cluster: ClusterOutcome) -> Self {
        Self { outcome, cluster: Some(cluster) }
    }

    /// What the arm is.
    #[must_use]
    pub fn kind(&self) -> ArmKind {
        if self.cluster.is_some() { ArmKind::Cluster } else { ArmKind::Group }
    }
}

impl From<windlass_fleeting::Outcome> for Outcome {
    fn from(outcome: windlass_fleeting::Outcome) -> Self {
        Self { outcome, cluster: None }
    }
}

impl Deref for Outcome {
    type Target = windlass_fleeting::Outcome;

    fn deref(&self) -> &Self::Target {
        &self.outcome
    }
}

impl DerefMut for Outcome {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.outcome
    }
}

/// What only a group has.
const OF_JOBS: [&str; 7] = ["jobs", "finished", "timed_out", "lost", "unfinished", "waited", "idle_share"];

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(cluster) = &self.cluster else { return self.outcome.serialize(serializer) };
        let mut document = serde_json::to_value(&self.outcome).map_err(S::Error::custom)?;
        document["cluster"] = serde_json::to_value(cluster).map_err(S::Error::custom)?;
        if let Some(totals) = document["totals"].as_object_mut() {
            totals.retain(|key, _| !OF_JOBS.contains(&key.as_str()));
        }
        if let Some(keys) = document.as_object_mut() {
            keys.remove("autoscaler");
        }
        document.serialize(serializer)
    }
}
