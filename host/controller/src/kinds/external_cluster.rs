//! `ExternalCluster`: the infrastructure cluster of a control plane that somebody else manages.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{Condition, TemplateMetadata};
use super::rules::ZONE;

/// The infrastructure cluster and control plane of a cluster whose control plane is managed elsewhere. Windlass creates
/// nothing for it.
///
/// A Cluster refers to it twice, as `infrastructureRef` and as `controlPlaneRef`. Without the second reference, Cluster
/// API waits for a control plane machine and never looks for the Nodes of other machines (seen with its core 1.13.3).
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "ExternalCluster",
    plural = "externalclusters",
    namespaced,
    status = "ExternalClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "cluster-api",
    category = "windlass",
    shortname = "excl",
    doc = "The infrastructure cluster, and the control plane, of a cluster whose control plane is managed elsewhere: \
        nothing is made for it.",
    printcolumn(name = "Host", type_ = "string", json_path = ".spec.controlPlaneEndpoint.host"),
    printcolumn(name = "Port", type_ = "integer", json_path = ".spec.controlPlaneEndpoint.port"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalClusterSpec {
    /// The endpoint of the control plane's API server. The cluster is ready once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// The Kubernetes version of the control plane. A Cluster with a topology sets it, and updates its machines once
    /// `status.version` matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,
    /// The zones for machines. They become the Cluster's failure domains, and a Machine's `failureDomain` is the zone
    /// of its host or server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 32), regex(pattern = ZONE)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub zones: Vec<String>,
}

/// An API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneEndpoint {
    /// Name or address.
    #[schemars(length(min = 1, max = 512))]
    pub host: String,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// The observed state of an external cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalClusterStatus {
    /// Whether the cluster is ready (contract v1beta1).
    #[serde(default)]
    pub ready: bool,
    /// The same for the contract v1beta2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,
    /// Whether the control plane is initialized (contract v1beta1 of control planes).
    #[serde(default)]
    pub initialized: bool,
    /// The version of the control plane, copied from `spec.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
    /// `spec.zones` in the form of contract v1beta2. Empty under contract v1beta1, which requires another form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub failure_domains: Vec<FailureDomain>,
    /// Tells Cluster API that it does not manage the control plane's machines.
    #[serde(default)]
    pub external_managed_control_plane: bool,
    /// The conditions, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that was last acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// A zone for machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureDomain {
    /// The zone.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Whether control plane machines can be there. It is false, because the control plane is managed elsewhere.
    pub control_plane: bool,
}

/// What Cluster API reads once from an infrastructure cluster and from a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterInitialization {
    /// Whether the infrastructure is provisioned. It stays true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
    /// Whether the control plane is initialized. It stays true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}

/// A cluster of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct ExternalClusterResource {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The cluster.
    pub spec: ExternalClusterSpec,
}

/// The template from which a ClusterClass creates `ExternalCluster` objects.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "infrastructure.windlass.dev",
    version = "v1alpha1",
    kind = "ExternalClusterTemplate",
    plural = "externalclustertemplates",
    namespaced,
    derive = "PartialEq",
    category = "cluster-api",
    category = "windlass",
    shortname = "exclt",
    doc = "The template from which a ClusterClass creates ExternalClusters.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ExternalClusterTemplateSpec {
    /// The template.
    pub template: ExternalClusterResource,
}
