use std::collections::BTreeMap;

use kube::api::ApiResource;
use serde_json::{Value, json};

/// The kinds that the tests handle, as the API server names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    AppleSiliconMachine,
    AppleSiliconMachineTemplate,
    InstanceMachine,
    InstanceMachineTemplate,
    ExternalCluster,
    MachineRemediation,
    MachineRemediationTemplate,
    ServerCluster,
    Policy,
    ClusterPolicy,
    Cluster,
    Machine,
    MachineSet,
    MachineDeployment,
    MachineHealthCheck,
    KubeadmControlPlane,
    Secret,
    ConfigMap,
    Job,
    Pod,
    Event,
    Lease,
}

impl Kind {
    /// Group, version and name of the resource.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let name = format!("{self:?}");
        let (group, version) = match self {
            Self::AppleSiliconMachine
            | Self::AppleSiliconMachineTemplate
            | Self::InstanceMachine
            | Self::InstanceMachineTemplate
            | Self::ExternalCluster
            | Self::MachineRemediation
            | Self::MachineRemediationTemplate
            | Self::ServerCluster
            | Self::Policy
            | Self::ClusterPolicy => ("infrastructure.windlass.dev", "v1alpha1"),
            Self::Cluster | Self::Machine | Self::MachineSet | Self::MachineDeployment | Self::MachineHealthCheck => {
                ("cluster.x-k8s.io", "v1beta2")
            }
            Self::KubeadmControlPlane => ("controlplane.cluster.x-k8s.io", "v1beta2"),
            Self::Secret | Self::ConfigMap | Self::Pod => ("", "v1"),
            Self::Job => ("batch", "v1"),
            Self::Event => ("events.k8s.io", "v1"),
            Self::Lease => ("coordination.k8s.io", "v1"),
        };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
            plural: plural(&name),
            kind: name,
        }
    }

    /// The beginning of a manifest.
    #[must_use]
    pub fn object(self, name: &str) -> Value {
        let resource = self.resource();
        json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}})
    }
}

/// The name of a kind's resource.
pub(crate) fn plural(kind: &str) -> String {
    match kind.to_lowercase() {
        kind if kind.ends_with("policy") => kind.replace("policy", "policies"),
        kind => format!("{kind}s"),
    }
}

/// What a machine on Apple silicon is to be. The default: a host of [`MachineOptions::POOL`] of type M4-S.
#[derive(Debug, Clone, Default)]
pub struct MachineOptions {
    /// Annotations of the machine, or of every machine of a template.
    pub annotations: BTreeMap<String, String>,
    /// Fields of the specification beside, or instead of, the usual ones.
    pub specification: BTreeMap<String, Value>,
}

impl MachineOptions {
    /// The prefix of the pool of every scene.
    pub const POOL: &'static str = "ci-pool-";
    /// The type of its hosts.
    pub const TYPE: &'static str = "M4-S";

    /// With the request that is given to the release slot.
    #[must_use]
    pub fn requesting(requested: &str) -> Self {
        Self::default().annotated("windlass.dev/release-policy", requested)
    }

    /// With an annotation.
    #[must_use]
    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With a field of the specification.
    #[must_use]
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.specification.insert(field.to_owned(), value);
        self
    }

    fn specification(&self) -> Value {
        let mut specification = json!({"type": Self::TYPE, "zone": "fr-par-1", "poolPrefix": Self::POOL});
        for (field, value) in &self.specification {
            specification[field] = value.clone();
        }
        specification
    }

    /// A machine on its own.
    #[must_use]
    pub fn machine(&self, name: &str) -> Value {
        let mut machine = Kind::AppleSiliconMachine.object(name);
        machine["metadata"]["annotations"] = json!(self.annotations);
        machine["spec"] = self.specification();
        machine
    }

    /// A template for Cluster API.
    #[must_use]
    pub fn template(&self, name: &str) -> Value {
        let mut template = Kind::AppleSiliconMachineTemplate.object(name);
        template["spec"] = json!({"template": {
            "metadata": {"annotations": self.annotations},
            "spec": self.specification(),
        }});
        template
    }
}

/// Cluster API's Cluster over an `ExternalCluster` of the same name, whose API server is the one at `port` here.
pub(crate) fn cluster(name: &str, port: u16) -> [Value; 2] {
    let mut infrastructure = Kind::ExternalCluster.object(name);
    infrastructure["spec"] = json!({"controlPlaneEndpoint": {"host": "127.0.0.1", "port": port}});
    let mut cluster = Kind::Cluster.object(name);
    let reference = json!({"apiGroup": "infrastructure.windlass.dev", "kind": "ExternalCluster", "name": name});
    cluster["spec"] = json!({"infrastructureRef": reference, "controlPlaneRef": reference});
    [infrastructure, cluster]
}

/// A MachineDeployment whose machines come from `template` of `kind` and boot with the Secret `bootstrap`.
pub(crate) fn deployment(name: &str, cluster: &str, kind: Kind, template: &str, replicas: u32) -> Value {
    let mut deployment = Kind::MachineDeployment.object(name);
    deployment["spec"] = json!({
        "clusterName": cluster,
        "replicas": replicas,
        // A pool has no host to spare for a surge: a machine goes before its successor comes.
        "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        "template": {"spec": {
            "clusterName": cluster,
            "bootstrap": {"dataSecretName": "bootstrap"},
            "infrastructureRef": {
                "apiGroup": "infrastructure.windlass.dev",
                "kind": kind.resource().kind,
                "name": template,
            },
        }},
    });
    deployment
}
