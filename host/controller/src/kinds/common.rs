//! What the kinds share: addresses, conditions, the status of a machine.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a machine whose host or server was given up is not ready: another Machine is to take its place.
pub(crate) const REPLACEMENT_DUE: &str = "ReplacementDue";

/// Labels and annotations of what is made from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations: a release policy for each machine of a deployment, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Where a machine is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// `Hostname`, `ExternalIP`, `InternalIP`, `ExternalDNS` or `InternalDNS`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 32))]
    pub kind: String,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

/// A Secret with Scaleway's credentials, in the object's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CredentialsReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// It cannot be told.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition, as Kubernetes writes them (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type: `Ready`, for example.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A word for programs.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Words for people.
    #[serde(default)]
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When its status last changed (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// The generation of the object that it describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// What Cluster API asks of a machine once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Initialization {
    /// Whether the infrastructure was provisioned. Never unset once it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// Where a machine stands, for people: programs read the conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]

pub enum Phase {
    /// Waiting for Cluster API, for a pool or for a configuration.
    #[default]
    Pending,
    /// A host of the pool is being claimed.
    Adopting,
    /// A new host is ordered or being delivered.
    Ordering,
    /// An instance is being created.
    Creating,
    /// The machine is there; for a Mac: to be set up by whoever bootstraps it.
    Provisioned,
    /// A machine that could not be set up is rebooted or replaced.
    Recovering,
    /// A host is being released.
    Releasing,
    /// An instance is being removed.
    Deleting,
    /// It cannot go on without people.
    Failed,
}

impl Phase {
    /// The word, as the status has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A policy that decides for the operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyInUse {
    /// The slot.
    pub slot: String,
    /// The policy's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The digest of its component.
    pub digest: String,
    /// The digest of its settings.
    pub settings_digest: String,
}

/// A resource of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceInUse {
    /// `server`, `ip`, `block-volume`, ...
    pub kind: String,
    /// Scaleway's id.
    pub id: String,
    /// The zone.
    pub zone: String,
}

/// The mirror of the operation that is under way or was the last: enough for a controller that lost its journal to
/// find, at Scaleway, what there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// The operation's id in the journal, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `adopt` (which also orders), `inspect`, `release`, `recover`, `set-up`, `tear-down`, `create` or `clean-up`.
    pub kind: String,
    /// `running`, `done`, `waiting` or `failed`.
    pub state: String,
    /// The step that was begun last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The number of the attempt, from 1. Failures in a row count, and a policy's requests to be asked again; waits do
    /// not. A retry that ends as the attempt before it did is not written.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: u32,
    /// What it made or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub resources: Vec<ResourceInUse>,
    /// Why it came to nothing or waits, in a word: the reason that the conditions have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// Why it stands where it stands, in the words of Scaleway and of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
    /// When it began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<String>,
    /// When this was written (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: Option<String>,
    /// Not to be tried again before (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
}

/// What the controller knows of the attempts to set a Mac up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapStatus {
    /// The failures that the release slot has judged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub judged_failures: u32,
    /// The failures that the annotation told of when the present host was handed over.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures_before: u32,
    /// Whether the present host was rebooted for recovery.
    #[serde(default)]
    pub rebooted: bool,
}

/// What MachineRemediations have asked about a machine's host or server, and what the release policy said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemediationStatus {
    /// The UID of the MachineRemediation that asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub requested_by: Option<String>,
    /// Requests so far. To the release policy each counts as a failed set-up.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub requests: u32,
    /// The requests that were judged, and whose verdict was carried out.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub judged: u32,
    /// Whether an instance was restarted for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebooted: bool,
    /// When the last one was judged (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub judged_at: Option<String>,
    /// The last verdict in a word: `Kept`, `Rebooted` or `ReplacementDue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub verdict: Option<String>,
    /// The same in words for people, with the policy's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

impl RemediationStatus {
    /// Whether a request waits for its verdict.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.requests > self.judged
    }
}

/// What a machine of a template has, as cluster-autoscaler reads it when there is none to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// Resources by their names in Kubernetes, as quantities: `cpu`, `memory`, ... Of several types, what each of them
    /// has at least. What is not known is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// The Node that it becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_info: Option<TemplateNodeInfo>,
    /// The labels of that Node that Scaleway's cloud controller manager sets. cluster-autoscaler reads them in the
    /// annotation `capacity.cluster-autoscaler.kubernetes.io/labels` of a MachineDeployment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// `CapacityKnown`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// What a Node runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateNodeInfo {
    /// The processor architecture as Kubernetes names it: `amd64`, `arm64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub architecture: Option<String>,
    /// The operating system as Kubernetes names it: `darwin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub operating_system: Option<String>,
}

/// How the set-up of a host stands, or its tear-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SetupState {
    /// A run was begun. Where the controller ended meanwhile, it is begun anew.
    Running,
    /// A run failed, or could not begin, and another one is to come.
    Waiting,
    /// The script ended with success.
    Succeeded,
    /// A run of the tear-down was begun, or another one is to come.
    TearingDown,
    /// The tear-down ran, or was given up.
    TornDown,
}

/// What the controller knows of setting a Mac up by `spec.setup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupStatus {
    /// The host that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverID")]
    #[schemars(length(max = 64))]
    pub server_id: Option<String>,
    /// How it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SetupState>,
    /// Set-ups that the retry policy gave up, on all hosts that this object had. Each asks the release policy.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: u32,
    /// Runs since the last one that was given up.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: u32,
    /// When the first of these began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub began_at: Option<String>,
    /// When the last one ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
    /// The next one does not begin before (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
    /// The host key that the host showed first, as a line of an OpenSSH `.pub` file: it must show it ever after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub host_key: Option<String>,
    /// The exit code of the script's last run that came to an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of what the last run wrote, without the values of Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub output: Option<String>,
    /// The value of the annotation `windlass.dev/retry` that the last run answered to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub retry: Option<String>,
}

impl SetupStatus {
    /// What stays known when the host is another's.
    pub(crate) fn of_no_host(self) -> Self {
        Self { failures: self.failures, ..Self::default() }
    }
}

/// What is known of a machine. Only the controller writes it, so it says whose a host or a server is. One that is lost
/// (a move between clusters drops it) is found again from the object's UID, or from `spec.providerID` and the
/// annotations with an administrator's approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Whether the machine is there (Cluster API's contract v1beta1).
    #[serde(default)]
    pub ready: bool,
    /// The same for the contract v1beta2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Where the machine stands, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Scaleway's id of the host or server.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverID")]
    #[schemars(length(max = 64))]
    pub server_id: Option<String>,
    /// Scaleway's name of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub server_name: Option<String>,
    /// The claim that the Mac's host carries: the object's own, or one that an administrator has handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub claim: Option<String>,
    /// The operation that makes, or has made, the instance: the controller's own record of what the annotation shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub creation: Option<String>,
    /// The project in which it was begun: credentials of another are refused.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "projectID")]
    #[schemars(length(max = 64))]
    pub project_id: Option<String>,
    /// Whether an instance's bootstrap data was taken out of its user data, since the Machine has become a Node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bootstrap_data_removed: bool,
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub addresses: Vec<MachineAddress>,
    /// The zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_domain: Option<String>,
    /// The Secret with the credentials of a Mac.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub credentials_secret_name: Option<String>,
    /// A word for what cannot be mended without people (contract v1beta1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_reason: Option<String>,
    /// The same in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10240))]
    pub failure_message: Option<String>,
    /// The operation that is under way or was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationStatus>,
    /// The policies that decide for this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub policies: Vec<PolicyInUse>,
    /// The attempts to set a Mac up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapStatus>,
    /// The set-up of a Mac by `spec.setup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupStatus>,
    /// What was asked about the host or server since its Machine is unhealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<RemediationStatus>,
    /// The conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl MachineStatus {
    /// Whether the machine was ever provisioned.
    #[must_use]
    pub fn was_provisioned(&self) -> bool {
        self.initialization.and_then(|initialization| initialization.provisioned).unwrap_or(false)
    }

    /// Whether the host or server was given up: it is released when its Machine is deleted, and not used before.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.failure_reason.as_deref() == Some(REPLACEMENT_DUE)
    }

    /// Whether a MachineRemediation waits for a verdict.
    pub(crate) fn remediation_is_due(&self) -> bool {
        self.remediation.as_ref().is_some_and(RemediationStatus::is_due)
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}
