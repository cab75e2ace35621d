//! `MachineRemediation`: what a MachineHealthCheck makes of a template for a Machine that it calls unhealthy.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::common::{Condition, TemplateMetadata};

/// A request to remediate an unhealthy Machine. The Machine owns it, and both have the same name. The release policy
/// decides whether the host or server is kept, restarted, or replaced together with its Machine.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "MachineRemediation",
    plural = "machineremediations",
    namespaced,
    status = "MachineRemediationStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "cluster-api",
    category = "windlass",
    shortname = "mrem",
    doc = "A request for help with an unhealthy Machine: the release policy decides whether it is left as it is, \
        restarted or replaced.",
    printcolumn(name = "Verdict", type_ = "string", json_path = ".status.conditions[?(@.type==\"Judged\")].reason"),
    printcolumn(name = "Requests", type_ = "integer", json_path = ".status.requests"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineRemediationSpec {
    /// The time after a verdict, in seconds, in which the Machine must become healthy before the release policy is
    /// asked again.
    #[serde(default = "interval")]
    #[schemars(range(min = 1, max = 86400))]
    pub interval_seconds: u32,
}

const fn interval() -> u32 {
    60
}

impl Default for MachineRemediationSpec {
    fn default() -> Self {
        Self { interval_seconds: interval() }
    }
}

/// The state of a remediation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineRemediationStatus {
    /// How often the release policy was asked about the host or server, by this object and by earlier ones.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub requests: u32,
    /// `Judged` and `Paused`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// A remediation of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct MachineRemediationResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The remediation.
    #[serde(default)]
    pub spec: MachineRemediationSpec,
}

/// The template from which a MachineHealthCheck creates `MachineRemediation` objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "MachineRemediationTemplate",
    plural = "machineremediationtemplates",
    namespaced,
    derive = "PartialEq",
    category = "cluster-api",
    category = "windlass",
    shortname = "mremt",
    doc = "The template from which a MachineHealthCheck creates MachineRemediations.",
    printcolumn(name = "Interval", type_ = "integer", json_path = ".spec.template.spec.intervalSeconds"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MachineRemediationTemplateSpec {
    /// The template.
    pub template: MachineRemediationResource,
}
