//! What is read of Cluster API's own kinds: the few fields that its contracts name, in either version.

use jiff::Timestamp;
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
pub(crate) type Machine = Object<MachineSpec, MachineStatus>;

/// What is read of a Cluster's spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterSpec {
    pub(crate) paused: Option<bool>,
    /// What the Cluster is on.
    pub(crate) infrastructure_ref: Reference,
    /// Who makes the control plane; absent where nobody in this cluster does.
    pub(crate) control_plane_ref: Option<serde_json::Value>,
}

/// What is read of a Cluster's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterStatus {
    /// Conditions, in the form of either version.
    pub(crate) conditions: Vec<serde_json::Value>,
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
    pub(crate) control_plane_initialized: Option<bool>,
}

/// The condition that says that a control plane can be talked to.
const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";

/// What has to be written into the status of a Cluster whose control plane nobody in this cluster makes, so that
/// Cluster API talks to it; nothing where that is so already, or where somebody does make it.
///
/// Cluster API says so by itself only of control planes that it made: it would wait for ever for the first control
/// plane Machine.
pub(crate) fn control_plane_initialized(cluster: &Cluster, version: &str, now: &str) -> Option<serde_json::Value> {
    if cluster.spec.control_plane_ref.as_ref().is_some_and(|reference| !reference.is_null()) {
        return None;
    }
    let status = cluster.status.clone().unwrap_or_default();
    let newer = version != "v1beta1";
    let holds =
        |condition: &serde_json::Value| condition["type"] == CONTROL_PLANE_INITIALIZED && condition["status"] == "True";
    let initialized =
        status.initialization.as_ref().and_then(|so_far| so_far.control_plane_initialized).unwrap_or(false);
    if status.conditions.iter().any(holds) && (initialized || !newer) {
        return None;
    }
    let mut conditions: Vec<serde_json::Value> =
        status.conditions.into_iter().filter(|condition| condition["type"] != CONTROL_PLANE_INITIALIZED).collect();
    let mut condition = serde_json::json!({
        "type": CONTROL_PLANE_INITIALIZED, "status": "True", "lastTransitionTime": now,
    });
    if newer {
        condition["reason"] = "Initialized".into();
        condition["message"] = "the control plane is managed elsewhere".into();
    }
    conditions.push(condition);
    let mut patch = serde_json::json!({"conditions": conditions});
    if newer {
        patch["initialization"] = serde_json::json!({"controlPlaneInitialized": true});
    }
    Some(patch)
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
        self.is_of(group) && self.kind == kind
    }

    /// Whether it means this object of our group.
    pub(crate) fn names<K: Resource<DynamicType = ()>>(&self, object: &K) -> bool {
        let name = object.meta().name.as_deref();
        self.is(&K::group(&()), &K::kind(&())) && Some(self.name.as_str()) == name
    }

    fn is_of(&self, group: &str) -> bool {
        match (&self.api_group, &self.api_version) {
            (Some(found), _) => found == group,
            (None, Some(version)) => version.split_once('/').is_some_and(|(found, _)| found == group),
            (None, None) => false,
        }
    }
}

/// What is read of a Machine's status. The field has this name in both versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MachineStatus {
    /// The Node that the machine has become.
    pub(crate) node_ref: Option<serde_json::Value>,
    /// Conditions, in the form of either version.
    pub(crate) conditions: Vec<serde_json::Value>,
}

/// What a MachineHealthCheck says of a Machine.
const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
/// Whether whoever owns a Machine is to replace it.
const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Whether a Machine's Node is ready, as v1beta2 says.
const NODE_READY: &str = "NodeReady";
/// The same in v1beta1.
const NODE_HEALTHY: &str = "NodeHealthy";

/// Whether a MachineHealthCheck calls a Machine unhealthy.
pub(crate) fn is_unhealthy(machine: &Machine) -> bool {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    is_false(conditions, HEALTH_CHECK_SUCCEEDED)
}

/// Whether the Node of a Machine is ready, and since when, by the condition of v1beta2 or, before it, of v1beta1.
pub(crate) fn node_ready(machine: &Machine) -> Option<(bool, Option<u64>)> {
    let conditions = &machine.status.as_ref()?.conditions;
    let find = |kind| conditions.iter().find(|condition| condition["type"] == kind);
    let condition = find(NODE_READY).or_else(|| find(NODE_HEALTHY))?;
    let ready = match condition["status"].as_str()? {
        "True" => true,
        "False" => false,
        _ => return None,
    };
    let since = condition["lastTransitionTime"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    Some((ready, since.and_then(|at| u64::try_from(at.as_millisecond()).ok())))
}

fn is_false<'a>(mut conditions: impl Iterator<Item = &'a serde_json::Value>, kind: &str) -> bool {
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "False")
}

/// What has to be written into the status of a Machine so that whoever owns it (a MachineSet, a control plane) replaces
/// it, as far as its own rules for remediation let it; nothing where that is so already, or the Machine is deleted.
///
/// Cluster API replaces those that both conditions call unhealthy. The first is a MachineHealthCheck's; where none
/// looks at the Machine, or sees nothing wrong with it, nobody else would say so.
pub(crate) fn replacement_due(machine: &Machine, version: &str, why: &str, now: &str) -> Option<serde_json::Value> {
    if machine.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let mut conditions = machine.status.clone().unwrap_or_default().conditions;
    let missing: Vec<&str> = [HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED]
        .into_iter()
        .filter(|kind| !is_false(conditions.iter(), kind))
        .collect();
    if missing.is_empty() {
        return None;
    }
    conditions.retain(|condition| !missing.iter().any(|kind| condition["type"] == *kind));
    for kind in missing {
        let mut condition = serde_json::json!({
            "type": kind, "status": "False", "lastTransitionTime": now, "reason": "ReplacementDue", "message": why,
        });
        if version == "v1beta1" {
            condition["severity"] = "Warning".into();
        }
        conditions.push(condition);
    }
    Some(serde_json::json!({"conditions": conditions}))
}

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

/// What an object's owner references say of its owner. Whoever may edit the object writes them: the owner counts only
/// where its own UID and its own reference to the object agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedOwner {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The Machine that is named as an object's owner.
pub(crate) fn owner_machine<K: Resource>(object: &K) -> Option<NamedOwner> {
    owner(object, "Machine")
}

/// The Cluster that is named as an object's owner.
pub(crate) fn owner_cluster<K: Resource>(object: &K) -> Option<NamedOwner> {
    owner(object, "Cluster")
}

fn owner<K: Resource>(object: &K, kind: &str) -> Option<NamedOwner> {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == kind && owner.api_version.split_once('/').is_some_and(|(group, _)| group == GROUP))
        .map(|owner| NamedOwner { name: owner.name.clone(), uid: owner.uid.clone() })
}

/// Whether a Machine owns an object by its own word.
pub(crate) fn owns<K: Resource<DynamicType = ()>>(machine: &Machine, named: &NamedOwner, object: &K) -> bool {
    machine.metadata.uid.as_ref() == Some(&named.uid) && machine.spec.infrastructure_ref.names(object)
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
    fn a_machine_that_is_to_be_replaced_is_called_unhealthy_once_and_other_conditions_stay() {
        let machine = |conditions: serde_json::Value, deleted: bool| -> Machine {
            let mut object = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
                "spec": {"clusterName": "c"}, "status": {"conditions": conditions},
            });
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            serde_json::from_value(object).unwrap()
        };
        let (ready, healthy) =
            (json!({"type": "Ready", "status": "True"}), json!({"type": "HealthCheckSucceeded", "status": "True"}));
        let due = |machine: &Machine, version| replacement_due(machine, version, "why", "2026-08-01T12:00:00Z");
        let patch = due(&machine(json!([ready, healthy]), false), "v1beta2").unwrap();
        let conditions: Vec<_> =
            patch["conditions"].as_array().unwrap().iter().map(|one| (&one["type"], &one["status"])).collect();
        let expected = [("Ready", "True"), ("HealthCheckSucceeded", "False"), ("OwnerRemediated", "False")];
        assert_eq!(
            conditions,
            expected.map(|(kind, status)| (json!(kind), json!(status))).each_ref().map(|(a, b)| (a, b))
        );
        let marked = machine(patch["conditions"].clone(), false);
        assert!(is_unhealthy(&marked) && due(&marked, "v1beta2").is_none());
        assert!(due(&machine(json!([]), true), "v1beta2").is_none());
        assert_eq!(due(&machine(json!([]), false), "v1beta1").unwrap()["conditions"][0]["severity"], "Warning");
    }

    #[test]
    fn an_external_control_plane_is_called_initialized_once_and_others_are_left_alone() {
        let other = json!({"type": "InfrastructureReady", "status": "True"});
        let fresh = cluster(json!({"conditions": [other, {"type": "ControlPlaneInitialized", "status": "False"}]}));
        let patch = control_plane_initialized(&fresh, "v1beta2", "2026-08-01T12:00:00Z").unwrap();
        assert_eq!(patch["conditions"][0], other, "what others say stays");
        assert_eq!(patch["conditions"].as_array().unwrap().len(), 2);
        assert_eq!(patch["conditions"][1]["status"], "True");
        assert_eq!(patch["initialization"]["controlPlaneInitialized"], true);
        assert_eq!(
            control_plane_initialized(&cluster(patch), "v1beta2", "2026-08-01T12:00:01Z"),
            None,
            "nothing to write"
        );
        let older = control_plane_initialized(&fresh, "v1beta1", "2026-08-01T12:00:00Z").unwrap();
        assert!(older.get("initialization").is_none());
        assert_eq!(control_plane_initialized(&cluster(older), "v1beta1", "2026-08-01T12:00:01Z"), None);
        let mut made_here = fresh;
        made_here.spec.control_plane_ref = Some(json!({"kind": "KubeadmControlPlane", "name": "c"}));
        assert_eq!(control_plane_initialized(&made_here, "v1beta2", "2026-08-01T12:00:00Z"), None);
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
