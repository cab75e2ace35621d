//! What is read of Cluster API's own kinds: the few fields that its contracts name, in either version.

use kube::api::{ApiResource, Object};
use kube::discovery::oneshot;
use kube::{Client, Resource};
use serde::{Deserialize, Serialize};

/// Cluster API's group.
pub(crate) const GROUP: &str = "cluster.x-k8s.io";
/// The versions that are understood, the best first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// A `Cluster`.
pub(crate) type Cluster = Object<ClusterSpec, ClusterStatus>;
/// A `Machine`.
pub(crate) type Machine = Object<MachineSpec, Nothing>;

/// What is read of a Cluster's spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSpec {
    pub(crate) paused: Option<bool>,
}

/// What is read of a Cluster's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterStatus {
    /// v1beta1.
    pub(crate) infrastructure_ready: Option<bool>,
    /// v1beta2.
    pub(crate) initialization: Option<ClusterInitialization>,
}

/// v1beta2.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterInitialization {
    pub(crate) infrastructure_provisioned: Option<bool>,
}

/// Whether the Cluster's infrastructure is there, in either version's words.
pub(crate) fn infrastructure_ready(cluster: &Cluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| {
        status.infrastructure_ready.unwrap_or(false)
            || status
                .initialization
                .as_ref()
                .and_then(|initialization| initialization.infrastructure_provisioned)
                .unwrap_or(false)
    })
}

/// What is read of a Machine's spec. The fields have these names in both versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MachineSpec {
    pub(crate) cluster_name: String,
    pub(crate) bootstrap: MachineBootstrap,
    pub(crate) infrastructure_ref: Reference,
    pub(crate) failure_domain: Option<String>,
}

/// How a Machine is bootstrapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MachineBootstrap {
    pub(crate) data_secret_name: Option<String>,
}

/// What a Machine refers to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reference {
    /// v1beta1.
    pub(crate) api_version: Option<String>,
    /// v1beta2.
    pub(crate) api_group: Option<String>,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Reference {
    /// Whether it means a kind of this group.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        let of_group = match (&self.api_group, &self.api_version) {
            (Some(found), _) => found == group,
            (None, Some(version)) => version.split_once('/').is_some_and(|(found, _)| found == group),
            (None, None) => false,
        };
        of_group && self.kind == kind
    }
}

/// What is not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nothing {}

/// How Cluster API's kinds are reached in this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterApi {
    pub(crate) version: String,
    pub(crate) cluster: ApiResource,
    pub(crate) machine: ApiResource,
}

impl ClusterApi {
    /// Looks whether Cluster API is installed, and in which version.
    ///
    /// # Errors
    /// When the API server cannot be asked. That it has no such group is no error.
    pub(crate) async fn discover(client: &Client) -> kube::Result<Option<Self>> {
        let group = match oneshot::group(client, GROUP).await {
            Ok(group) => group,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Discovery(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        for version in VERSIONS {
            let resources = group.versioned_resources(version);
            let find = |kind: &str| {
                resources.iter().find(|(resource, _)| resource.kind == kind).map(|(resource, _)| resource.clone())
            };
            if let (Some(cluster), Some(machine)) = (find("Cluster"), find("Machine")) {
                return Ok(Some(Self { version: version.to_owned(), cluster, machine }));
            }
        }
        Ok(None)
    }
}

/// The name of the Machine that owns an object, by its owner references.
pub(crate) fn owner_machine<K: Resource>(object: &K) -> Option<String> {
    owner(object, "Machine")
}

/// The name of the Cluster that owns an object, by its owner references.
pub(crate) fn owner_cluster<K: Resource>(object: &K) -> Option<String> {
    owner(object, "Cluster")
}

fn owner<K: Resource>(object: &K, kind: &str) -> Option<String> {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == kind && owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP))
        .map(|owner| owner.name.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(status: serde_json::Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"clusterNetwork": {}}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn infrastructure_is_ready_in_the_words_of_either_version() {
        assert!(infrastructure_ready(&cluster(json!({"infrastructureReady": true}))));
        assert!(infrastructure_ready(&cluster(json!({"initialization": {"infrastructureProvisioned": true}}))));
        assert!(!infrastructure_ready(&cluster(json!({"initialization": {}}))));
        assert!(!infrastructure_ready(&cluster(json!(null))));
    }

    #[test]
    fn a_reference_is_understood_in_the_words_of_either_version() {
        let group = "infrastructure.windlass.dev";
        let old: Reference = serde_json::from_value(
            json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine", "name": "a"}),
        )
        .unwrap();
        let new: Reference = serde_json::from_value(
            json!({"apiGroup": "infrastructure.windlass.dev", "kind": "InstanceMachine", "name": "a"}),
        )
        .unwrap();
        assert!(old.is(group, "InstanceMachine") && new.is(group, "InstanceMachine"));
        assert!(!new.is(group, "AppleSiliconMachine") && !new.is("example.org", "InstanceMachine"));
    }
}
