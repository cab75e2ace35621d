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
    /// Where it is.
    pub source: PolicySource,
    /// Settings for a component. Rules take none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "any_object")]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Whether it decides, or is only asked and recorded.
    #[serde(default)]
    pub mode: PolicyMode,
    /// Its place among the policies of its slot in its namespace: the lowest number is asked first; of the same number,
    /// the first name.
    #[serde(default)]
    #[schemars(range(min = -1000, max = 1000))]
    pub order: i32,
    /// What decides if it fails: the next policy, or the host's last resort, which destroys nothing. Absent: as the slot
    /// says.
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
    /// What both kinds have. A ConfigMap is one of the controller's own namespace.
    #[serde(flatten)]
    pub policy: PolicySpec,
    /// Whether it is asked before the teams' policies, which then cannot overrule it, or after them.
    #[serde(default)]
    pub position: PolicyPosition,
    /// The namespaces whose machines it decides about. None: those of all.
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

/// Where a policy is: one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = Rule::new("has(self.configMap) != has(self.oci)").message("either configMap or oci is needed"))]
#[serde(rename_all = "camelCase")]
pub struct PolicySource {
    /// Rules in a ConfigMap. Their signature, where one is needed, is in the same ConfigMap, under the key with
    /// `.minisig` or `.sigstore.json` behind it.
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

/// How a policy does.
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
    /// Decisions, or parts of one, that it made since it was loaded by this controller's process.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub decisions: i64,
    /// Failures in a row.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// Whether it is no longer asked, since it failed too often in a row.
    #[serde(default)]
    pub suspended: bool,
    /// Its last failure, which successes may have followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub last_failure: Option<String>,
    /// What it would decide about the machines that exist, compared with what is decided today: of a shadow of the slot
    /// `release`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<PolicyAudit>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// What a policy would decide about the machines that exist, if their objects were deleted. A machine counts as it was
/// when its object was last looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAudit {
    /// About how many machines it was asked.
    #[schemars(range(min = 0))]
    pub machines: i64,
    /// About how many of them the same is decided, and it does not fail.
    #[schemars(range(min = 0))]
    pub same: i64,
    /// How many of them would go that stay today.
    #[schemars(range(min = 0))]
    pub destructive: i64,
    /// About how many of them it fails.
    #[schemars(range(min = 0))]
    pub failed: i64,
    /// Of how many servers the price is not known: what it says about prices was not tried.
    #[schemars(range(min = 0))]
    pub without_price: i64,
    /// What would be decided otherwise: what destroys first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub differences: Vec<PolicyDifference>,
    /// How it fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PolicyAudit::MAX_FAILURES))]
    pub failures: Vec<PolicyFailures>,
}

impl PolicyAudit {
    /// How many kinds of failures are reported.
    pub(crate) const MAX_FAILURES: usize = 16;
}

/// Machines about which the same would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDifference {
    /// The verdict today.
    #[schemars(length(max = 64))]
    pub today: String,
    /// The verdict if the policy decided.
    #[schemars(length(max = 64))]
    pub then: String,
    /// Whether a machine would go, or be wiped, that stays today.
    pub destructive: bool,
    #[schemars(range(min = 0))]
    pub count: i64,
    /// Why, as the policy says about the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub reason: Option<String>,
    /// The objects of the first ten machines, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(max = 512)))]
    pub machines: Vec<String>,
}

/// Machines about which the policy fails alike.
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
    /// What it calls itself.
    #[schemars(length(max = 128))]
    pub name: String,
    #[schemars(length(max = 128))]
    pub version: String,
    /// The digest of its component; of rules, that of what evaluates them.
    #[schemars(length(max = 128))]
    pub digest: String,
    /// The digest of its settings, or of its rules.
    #[schemars(length(max = 128))]
    pub settings_digest: String,
    /// The beginning of the digest that tells it from others: of a component, or of rules.
    #[schemars(length(max = 32))]
    pub short_digest: String,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
