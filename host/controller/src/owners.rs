//! What stands above an object: its Machine, its Cluster, and whether it is paused. Cluster API's contract, as a
//! function on data.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};

use crate::Error;
use crate::cluster_api::{Cluster, ClusterApi, Machine, infrastructure_ready, node_ready, owner_machine, owns};
use crate::kinds::{annotations, labels};

/// What stands above an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Why nothing may be done now, deletion included.
    pub(crate) paused: Option<String>,
    /// Whether the object may be provisioned.
    pub(crate) provisioning: ProvisioningGate,
    /// The cluster's name, where it has one.
    pub(crate) cluster: Option<String>,
    /// The name of the Machine that owns it, by its own word too.
    pub(crate) machine: Option<String>,
    /// Whether the Machine has become a Node.
    pub(crate) joined: bool,
    /// Whether its Node is ready, and since when (milliseconds since 1970), as the Machine says.
    pub(crate) node_ready: Option<(bool, Option<u64>)>,
}

/// What an object waits for, in the order in which it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// No Machine owns it yet.
    Owner,
    /// The Machine that owns it is not there.
    Machine,
    /// The Machine of that name is another, or has another object below it.
    OtherMachine,
    /// The Cluster is not there.
    Cluster,
    /// The Cluster's infrastructure is not ready.
    Infrastructure,
    /// The Machine names no bootstrap data yet.
    BootstrapData,
}

impl Gate {
    /// The word, as conditions have it.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Owner => "WaitingForOwner",
            Self::Machine => "MachineNotFound",
            Self::OtherMachine => "OwnerNotConfirmed",
            Self::Cluster => "ClusterNotFound",
            Self::Infrastructure => "WaitingForClusterInfrastructure",
            Self::BootstrapData => "WaitingForBootstrapData",
        }
    }

    /// Whether what stands above the object is not known yet: then nothing is even written into it.
    pub(crate) const fn is_unknown(self) -> bool {
        matches!(self, Self::Owner | Self::Machine | Self::OtherMachine | Self::Cluster)
    }
}

/// How long Cluster API may take to create an object from a template, on a busy machine.
const CLONING_SECONDS: i64 = 10;

/// Whether an object may be provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProvisioningGate {
    /// Nothing stands above it, by its own metadata: it works alone.
    Alone,
    /// It waits for this.
    Waiting { gate: Gate, message: String },
    /// Everything above is there.
    Ready { failure_domain: Option<String>, bootstrap_secret: String },
}

/// What was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Read<'a> {
    /// The Machine's name by the owner references.
    pub(crate) owner: Option<&'a str>,
    /// The Cluster's name by the label, else by the Machine.
    pub(crate) cluster_name: Option<&'a str>,
    /// The annotation that pauses it.
    pub(crate) annotated: Option<&'static str>,
    pub(crate) machine: Option<&'a Machine>,
    /// Whether that Machine says itself that it owns the object.
    pub(crate) confirmed: bool,
    pub(crate) cluster: Option<&'a Cluster>,
}

/// The contract's gates, in its order.
pub(crate) fn judge(read: Read<'_>) -> Owners {
    let paused = if let Some(annotation) = read.annotated {
        Some(format!("the object has the annotation {annotation}"))
    } else if read.cluster.is_some_and(|cluster| cluster.spec.paused.unwrap_or(false)) {
        Some(format!("the cluster {} is paused", read.cluster_name.unwrap_or_default()))
    } else {
        None
    };
    let waiting = |gate, message: String| ProvisioningGate::Waiting { gate, message };
    let provisioning = match (read.owner, read.cluster_name) {
        (None, None) => ProvisioningGate::Alone,
        (None, Some(cluster)) => {
            waiting(Gate::Owner, format!("the object belongs to the cluster {cluster}, and no Machine owns it yet"))
        }
        (Some(owner), cluster_name) => match (read.machine, read.cluster) {
            (None, _) => waiting(Gate::Machine, format!("there is no Machine {owner}")),
            (Some(_), _) if !read.confirmed => waiting(
                Gate::OtherMachine,
                format!(
                    "the owner reference names the Machine {owner}, which has another UID or names another object in \
                     spec.infrastructureRef"
                ),
            ),
            (Some(_), None) => waiting(
                Gate::Cluster,
                format!("there is no Cluster {}", cluster_name.unwrap_or("that the Machine names")),
            ),
            (Some(_), Some(cluster)) if !infrastructure_ready(cluster) => {
                waiting(Gate::Infrastructure, "the cluster's infrastructure is not ready yet".to_owned())
            }
            (Some(machine), Some(_)) => match &machine.spec.bootstrap.data_secret_name {
                None => waiting(
                    Gate::BootstrapData,
                    "the Machine's spec.bootstrap.dataSecretName is not set yet".to_owned(),
                ),
                Some(secret) => ProvisioningGate::Ready {
                    failure_domain: machine.spec.failure_domain.clone().filter(|domain| !domain.is_empty()),
                    bootstrap_secret: secret.clone(),
                },
            },
        },
    };
    // Whoever edits the object writes whom it names.
    let machine = read.machine.filter(|_| read.confirmed);
    let status = machine.and_then(|machine| machine.status.as_ref());
    let joined = status.is_some_and(|status| status.node_ref.as_ref().is_some_and(|node| !node.is_null()));
    let node_ready = machine.and_then(node_ready);
    let owned = |name: Option<&str>| name.map(str::to_owned);
    let confirmed = read.owner.filter(|_| machine.is_some());
    Owners { paused, provisioning, cluster: owned(read.cluster_name), machine: owned(confirmed), joined, node_ready }
}

impl Owners {
    /// Whether Cluster API may not be done with creating the object. After it has created one from a template, it
    /// changes the metadata of the version that it got; if somebody has written meanwhile, it leaves the object behind
    /// and creates another one (seen with Cluster API 1.13.3). So nothing is written into an object of a cluster until it
    /// has an owner, or is older than this takes.
    pub(crate) fn may_be_cloned(&self, object: &ObjectMeta, now: Timestamp) -> bool {
        let waits = matches!(&self.provisioning, ProvisioningGate::Waiting { gate: Gate::Owner, .. });
        let age = object.creation_timestamp.as_ref().map(|created| now.duration_since(created.0).as_secs());
        waits && age.is_some_and(|age| (0..CLONING_SECONDS).contains(&age))
    }
}

/// The annotation for which nothing is done about an object. What was moved has its machine elsewhere by now.
pub(crate) fn pausing_annotation(object: &impl ResourceExt) -> Option<&'static str> {
    [annotations::PAUSED, annotations::DELETE_FOR_MOVE].into_iter().find(|key| object.annotations().contains_key(*key))
}

/// Reads what stands above an object, from the API server itself: a pause must be seen at once.
pub(crate) async fn look<K>(client: &Client, cluster_api: Option<&ClusterApi>, object: &K) -> Result<Owners, Error>
where
    K: Resource<DynamicType = ()>,
{
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(object);
    let mut cluster_name = object.labels().get(labels::CLUSTER_NAME).cloned();
    let (mut machine, mut cluster) = (None, None);
    if let Some(cluster_api) = cluster_api {
        if let Some(owner) = &owner {
            let api: Api<Machine> = Api::namespaced_with(client.clone(), &namespace, &cluster_api.machine);
            machine = api.get_opt(&owner.name).await.map_err(Error::kubernetes("reading the Machine"))?;
        }
        if cluster_name.is_none() {
            cluster_name =
                machine.as_ref().map(|machine| machine.spec.cluster_name.clone()).filter(|name| !name.is_empty());
        }
        if let Some(name) = &cluster_name {
            let api: Api<Cluster> = Api::namespaced_with(client.clone(), &namespace, &cluster_api.cluster);
            cluster = api.get_opt(name).await.map_err(Error::kubernetes("reading the Cluster"))?;
        }
    }
    let confirmed = owner.as_ref().zip(machine.as_ref()).is_some_and(|(owner, machine)| owns(machine, owner, object));
    Ok(judge(Read {
        owner: owner.as_ref().map(|owner| owner.name.as_str()),
        cluster_name: cluster_name.as_deref(),
        annotated: pausing_annotation(object),
        machine: machine.as_ref(),
        confirmed,
        cluster: cluster.as_ref(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(bootstrap: serde_json::Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
            "spec": {"clusterName": "c", "bootstrap": bootstrap, "failureDomain": "fr-par-2",
                     "infrastructureRef": {"apiGroup": "infrastructure.windlass.dev", "kind": "InstanceMachine",
                     "name": "m"}},
        }))
        .unwrap()
    }

    fn cluster(paused: bool, ready: bool) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"paused": paused}, "status": {"initialization": {"infrastructureProvisioned": ready}},
        }))
        .unwrap()
    }

    #[test]
    fn nothing_is_written_into_an_object_that_cluster_api_may_still_create() {
        let created: Timestamp = "2026-11-30T06:19:06Z".parse().unwrap();
        let object: ObjectMeta = serde_json::from_value(json!({"creationTimestamp": created})).unwrap();
        let at = |seconds: i64| created + jiff::SignedDuration::from_secs(seconds);
        let of_a_cluster = judge(Read { cluster_name: Some("c"), ..Read::default() });
        assert!(of_a_cluster.may_be_cloned(&object, at(0)) && of_a_cluster.may_be_cloned(&object, at(9)));
        // A clock that is behind must not hold an object up.
        assert!(!of_a_cluster.may_be_cloned(&object, at(10)) && !of_a_cluster.may_be_cloned(&object, at(-60)));
        assert!(!judge(Read::default()).may_be_cloned(&object, at(0)));
        let owned = judge(Read { cluster_name: Some("c"), owner: Some("m"), ..Read::default() });
        assert!(!owned.may_be_cloned(&object, at(0)));
    }

    fn reason(owners: &Owners) -> &str {
        match &owners.provisioning {
            ProvisioningGate::Alone => "Alone",
            ProvisioningGate::Waiting { gate, .. } => gate.reason(),
            ProvisioningGate::Ready { .. } => "Ready",
        }
    }

    #[test]
    fn the_gates_of_the_contract_come_in_its_order() {
        let with_data = machine(json!({"dataSecretName": "s"}));
        let without_data = machine(json!({}));
        let (ready, not_ready) = (cluster(false, true), cluster(false, false));
        let read = |owner, cluster_name, machine, cluster| Read {
            owner,
            cluster_name,
            machine,
            confirmed: true,
            cluster,
            ..Read::default()
        };
        for (read, expected) in [
            (read(None, None, None, None), "Alone"),
            (read(None, Some("c"), None, Some(&ready)), "WaitingForOwner"),
            (read(Some("m"), Some("c"), None, Some(&ready)), "MachineNotFound"),
            (
                Read { confirmed: false, ..read(Some("m"), Some("c"), Some(&with_data), Some(&ready)) },
                "OwnerNotConfirmed",
            ),
            (read(Some("m"), Some("c"), Some(&with_data), None), "ClusterNotFound"),
            (read(Some("m"), Some("c"), Some(&with_data), Some(&not_ready)), "WaitingForClusterInfrastructure"),
            (read(Some("m"), Some("c"), Some(&without_data), Some(&ready)), "WaitingForBootstrapData"),
            (read(Some("m"), Some("c"), Some(&with_data), Some(&ready)), "Ready"),
        ] {
            assert_eq!(reason(&judge(read)), expected);
        }
        let owners = judge(read(Some("m"), Some("c"), Some(&with_data), Some(&ready)));
        assert_eq!(
            owners.provisioning,
            ProvisioningGate::Ready { failure_domain: Some("fr-par-2".into()), bootstrap_secret: "s".into() }
        );
    }

    #[test]
    fn an_object_that_was_moved_away_counts_as_paused_although_its_other_annotations_are_gone() {
        let with = |key: &str| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "m", "annotations": {key: ""}}, "spec": {},
            }))
            .unwrap()
        };
        for key in ["cluster.x-k8s.io/paused", "clusterctl.cluster.x-k8s.io/delete-for-move"] {
            assert_eq!(pausing_annotation(&with(key)), Some(key));
        }
        assert_eq!(pausing_annotation(&with("windlass.dev/claim")), None);
    }

    #[test]
    fn a_pause_is_the_annotations_or_the_clusters() {
        let (paused, running) = (cluster(true, false), cluster(false, true));
        let read = |annotated, cluster| Read { annotated, cluster, cluster_name: Some("c"), ..Read::default() };
        assert!(judge(read(Some(annotations::PAUSED), Some(&running))).paused.is_some());
        assert!(judge(read(None, Some(&paused))).paused.is_some());
        assert!(judge(read(None, Some(&running))).paused.is_none());
        assert!(judge(read(None, None)).paused.is_none());
    }
}
