//! What the kinds share: addresses, conditions, the status of a machine.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a machine whose host or server was given up is not ready: another Machine is to take its place.
pub(crate) const REPLACEMENT_DUE: &str = "ReplacementDue";

/// Labels and annotations of the objects created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations, for example a release policy for the machines of a deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// An address of a machine.
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
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is unknown whether the condition holds.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// A condition (`metav1.Condition`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Its type: `Ready`, for example.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// A one-word reason for programs.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// A message for people.
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

/// What Cluster API reads once from a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Initialization {
    /// Whether the infrastructure is provisioned. It stays true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// A summary of a machine's state for people. Programs should read the conditions.
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
    /// The machine exists. A Mac may still have to be set up.
    Provisioned,
    /// The machine could not be set up, and is rebooted or replaced.
    Recovering,
    /// A host is being released.
    Releasing,
    /// An instance is being deleted.
    Deleting,
    /// Manual action is required.
    Failed,
}

impl Phase {
    /// The text in the status.
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

/// The current or last operation. With it, a controller that has lost its journal finds the operation's resources at
/// Scaleway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationStatus {
    /// The operation's ID in the journal, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `adopt` (which also orders), `inspect`, `release`, `recover`, `set-up`, `tear-down`, `create` or `clean-up`.
    pub kind: String,
    /// `running`, `done`, `waiting` or `failed`.
    pub state: String,
    /// The step that began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The number of the attempt, from 1. Consecutive failures and a policy's requests to be asked again count; waits
    /// do not. A retry with the same outcome does not update it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: u32,
    /// The resources that it created or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub resources: Vec<ResourceInUse>,
    /// Why it failed or waits, as one word. The conditions have the same reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// Details, as Scaleway and the policy report them.
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
    /// The earliest time of the next attempt (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
}

/// The attempts to set up a Mac.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapStatus {
    /// The number of failures about which the release policy was asked.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub judged_failures: u32,
    /// The number of failures in the annotation when the current host was claimed.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures_before: u32,
    /// Whether the current host was rebooted for recovery.
    #[serde(default)]
    pub rebooted: bool,
}

/// Remediation requests for a machine's host or server, and the release policy's verdicts.
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
    /// Requests whose verdict was carried out.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub judged: u32,
    /// Whether an instance was restarted for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebooted: bool,
    /// When the last verdict was made (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub judged_at: Option<String>,
    /// The last verdict: `Kept`, `Rebooted` or `ReplacementDue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub verdict: Option<String>,
    /// The last verdict as a message for people, with the policy's reason.
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

/// The capacity of the template's machines. cluster-autoscaler reads it when there is no machine yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateStatus {
    /// Resources as quantities: `cpu`, `memory`, ... With several types, the minimum of them. Unknown resources are
    /// omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, String>,
    /// The platform of the Node.
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

/// The platform of a Node.
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

/// The state of a host's set-up or tear-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SetupState {
    /// A run has started. If the controller restarts meanwhile, the run starts again.
    Running,
    /// A run failed or could not start, and will be retried.
    Waiting,
    /// The script succeeded.
    Succeeded,
    /// A run of the tear-down has started or will be retried.
    TearingDown,
    /// The tear-down is finished or was given up.
    TornDown,
}

/// The set-up of a Mac by `spec.setup`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupStatus {
    /// The ID of the host.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverID")]
    #[schemars(length(max = 64))]
    pub server_id: Option<String>,
    /// The state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SetupState>,
    /// The number of set-ups that the retry policy gave up, on all hosts of this object. After each, the release policy
    /// is asked.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: u32,
    /// The number of runs since the last set-up that was given up.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub attempt: u32,
    /// When the first of these runs began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub began_at: Option<String>,
    /// When the last run ended (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
    /// The earliest time of the next run (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub not_before: Option<String>,
    /// The host key that the host presented first, as a line of an OpenSSH `.pub` file. The host must present it on
    /// each later connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub host_key: Option<String>,
    /// The exit code of the last completed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of the last run's output, without the values of Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub output: Option<String>,
    /// The value of the annotation `windlass.dev/retry` at the last run.
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

/// The observed state of a machine. Only the controller writes it, so it records which host or server belongs to the
/// object. A lost status (a move between clusters drops it) is restored from the object's UID, or from
/// `spec.providerID` and the annotations with an administrator's approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Whether the machine is provisioned (Cluster API's contract v1beta1).
    #[serde(default)]
    pub ready: bool,
    /// The same for the contract v1beta2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// A summary of the machine's state for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Scaleway's ID of the host or server.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverID")]
    #[schemars(length(max = 64))]
    pub server_id: Option<String>,
    /// Scaleway's name of the host or server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub server_name: Option<String>,
    /// The claim that the Mac's host carries: the object's own, or one that an administrator has handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub claim: Option<String>,
    /// The operation that creates or created the instance. The annotation shows the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub creation: Option<String>,
    /// The project in which the machine was created. Credentials of another project are refused.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "projectID")]
    #[schemars(length(max = 64))]
    pub project_id: Option<String>,
    /// Whether the bootstrap data was removed from the instance's user data, which happens once the Machine has a Node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bootstrap_data_removed: bool,
    /// The addresses of the machine.
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
    /// A one-word reason for a failure that requires manual action (contract v1beta1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub failure_reason: Option<String>,
    /// The same failure as a message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10240))]
    pub failure_message: Option<String>,
    /// The current or last operation.
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
    /// Remediation requests for the host or server, and their verdicts.
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
