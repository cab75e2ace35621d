//! `Policy` and `ClusterPolicy`: policies that teams and operators bring as objects.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::common::Condition;

/// A team's policy. It decides about the machines of its own namespace, after the operator's policies that come first.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "Policy",
    plural = "policies",
    namespaced,
    status = "PolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "windlass",
    shortname = "wpol",
    doc = "A team's policy: it decides about the machines of its own namespace, after the operator's policies that come \
        first.",
    printcolumn(name = "Slot", type_ = "string", json_path = ".spec.slot"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Loaded", type_ = "string", json_path = ".status.conditions[?(@.type==\"Loaded\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Loaded\")].reason"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".status.policy.shortDigest"),
    printcolumn(name = "Decisions", type_ = "integer", json_path = ".status.decisions"),
    printcolumn(name = "Failures", type_ = "integer", json_path = ".status.failures"),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".status.suspended"),
    printcolumn(name = "Would destroy", type_ = "integer", json_path = ".status.audit.destructive"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// The slot that it decides.
    pub slot: PolicySlot,
    /// The source.
    pub source: PolicySource,
    /// Settings for a component. Rules take none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Whether it decides, or is only asked and recorded.
    #[serde(default)]
    pub mode: PolicyMode,
    /// The order among the policies of this slot in the namespace: the lowest number is asked first, then by name.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub order: i32,
    /// What decides if it fails: the next policy, or the host's last resort, which destroys nothing. Absent: the slot's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<PolicyOnFailure>,
}

/// An operator's policy: it decides about the machines of all namespaces, or of those that it names.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "ClusterPolicy",
    plural = "clusterpolicies",
    status = "PolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "windlass",
    shortname = "wcpol",
    doc = "An operator's policy: it decides about the machines of all namespaces, or of those that it names, before or \
        after the teams' own policies.",
    printcolumn(name = "Slot", type_ = "string", json_path = ".spec.slot"),
    printcolumn(name = "Position", type_ = "string", json_path = ".spec.position"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Loaded", type_ = "string", json_path = ".status.conditions[?(@.type==\"Loaded\")].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Loaded\")].reason"),
    printcolumn(name = "Digest", type_ = "string", json_path = ".status.policy.shortDigest"),
    printcolumn(name = "Decisions", type_ = "integer", json_path = ".status.decisions"),
    printcolumn(name = "Failures", type_ = "integer", json_path = ".status.failures"),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".status.suspended"),
    printcolumn(name = "Would destroy", type_ = "integer", json_path = ".status.audit.destructive"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPolicySpec {
    /// The policy. A ConfigMap must be in the controller's namespace.
    #[serde(flatten)]
    pub policy: PolicySpec,
    /// Whether it is asked before the teams' policies, which then cannot overrule it, or after them.
    #[serde(default)]
    pub position: PolicyPosition,
    /// The namespaces whose machines it decides about. Empty: all namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub namespaces: Vec<String>,
}

/// The slots that the controller asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicySlot {
    #[default]
    Release,
    Rollback,
    Retry,
    Provisioning,
    Placement,
}

/// The source of a policy: `configMap` or `oci`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.configMap) != has(self.oci)").message("either configMap or oci is needed"))]
#[serde(rename_all = "camelCase")]
pub struct PolicySource {
    /// Rules in a ConfigMap. If a signature is required, it is in the same ConfigMap, under the same key followed by
    /// `.minisig` or `.sigstore.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// A reference to a registry, with a digest: `oci://registry.example/team/policy@sha256:...`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    #[schemars(regex(pattern = r"^oci://[^@]+@sha256:[0-9a-f]{64}$"))]
    pub oci: Option<String>,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapKey {
    /// The ConfigMap's name.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The key, which ends in `.rules.toml`.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+\.rules\.toml$"))]
    pub key: String,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyMode {
    /// It decides.
    #[default]
    Decide,
    /// It is asked and recorded, and never decides.
    Shadow,
}

/// What decides if a policy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyOnFailure {
    /// The next policy.
    Default,
    /// The host's last resort.
    Keep,
}

/// Where an operator's policy is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyPosition {
    /// Before the teams' policies.
    #[default]
    BeforeTenants,
    /// After them.
    AfterTenants,
}

/// The state of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// `Loaded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The policy in force: the last one that could be loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyInForce>,
    /// The number of decisions, or parts of decisions, since this process of the controller loaded it.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub decisions: i64,
    /// The number of consecutive failures.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// Whether it is suspended, because of too many consecutive failures.
    #[serde(default)]
    pub suspended: bool,
    /// The last failure. Later decisions may have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub last_failure: Option<String>,
    /// What a shadow of the slot `release` would decide about the existing machines, compared with today's decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<PolicyAudit>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// What a policy would decide if the objects of the existing machines were deleted. Each machine is judged as of its
/// last reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAudit {
    /// The number of machines.
    #[schemars(range(min = 0))]
    pub machines: i64,
    /// The number of machines with the same decision and no failure.
    #[schemars(range(min = 0))]
    pub same: i64,
    /// The number of machines that would be deleted and are kept today.
    #[schemars(range(min = 0))]
    pub destructive: i64,
    /// The number of machines about which the policy fails.
    #[schemars(range(min = 0))]
    pub failed: i64,
    /// The number of servers without a known price. What the policy says about prices was not tried on them.
    #[schemars(range(min = 0))]
    pub without_price: i64,
    /// The different decisions, destructive ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub differences: Vec<PolicyDifference>,
    /// The failures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PolicyAudit::MAX_FAILURES))]
    pub failures: Vec<PolicyFailures>,
}

impl PolicyAudit {
    /// How many kinds of failures are reported.
    pub(crate) const MAX_FAILURES: usize = 16;
}

/// Machines with the same difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDifference {
    /// The verdict today.
    #[schemars(length(max = 64))]
    pub today: String,
    /// The verdict if the policy decided.
    #[schemars(length(max = 64))]
    pub then: String,
    /// Whether a machine would be deleted or wiped that is kept today.
    pub destructive: bool,
    #[schemars(range(min = 0))]
    pub count: i64,
    /// The policy's reason for the first machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub reason: Option<String>,
    /// The objects of the first ten machines, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 512)))]
    pub machines: Vec<String>,
}

/// Machines with the same failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFailures {
    #[schemars(length(max = 2048))]
    pub reason: String,
    #[schemars(range(min = 0))]
    pub count: i64,
    /// The objects of the first ten machines, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 512)))]
    pub machines: Vec<String>,
}

/// A policy that decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyInForce {
    /// Its name.
    #[schemars(length(max = 128))]
    pub name: String,
    #[schemars(length(max = 128))]
    pub version: String,
    /// The digest of its component; for rules, of the component that evaluates them.
    #[schemars(length(max = 128))]
    pub digest: String,
    /// The digest of its settings, or of its rules.
    #[schemars(length(max = 128))]
    pub settings_digest: String,
    /// The beginning of the digest of its component or rules.
    #[schemars(length(max = 32))]
    pub short_digest: String,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
