//! `ExternalCluster`: ready as soon as it says where the control plane is. Nothing is made for it, so nothing holds its
//! deletion.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::Error;
use crate::action::Action;
use crate::cluster_api::{Cluster, ClusterApi, control_plane_initialized, owner_cluster};
use crate::context::Context;
use crate::kinds::{
    ClusterInitialization, ConditionStatus, ExternalCluster, ExternalClusterSpec, ExternalClusterStatus, FailureDomain,
    annotations, conditions,
};
use crate::status::{set_condition, time};
use crate::writes::write_status;

/// What the status is to say.
fn decide(
    old: &ExternalClusterStatus,
    spec: &ExternalClusterSpec,
    paused: Option<&str>,
    contract: Option<&str>,
    generation: Option<i64>,
    now: Timestamp,
) -> ExternalClusterStatus {
    let mut status = old.clone();
    let mut set = |kind, holds: bool, reason: &str, message: &str| {
        set_condition(&mut status.conditions, kind, ConditionStatus::from(holds), reason, message, generation, now);
    };
    if let Some(why) = paused {
        set(conditions::PAUSED, true, "Paused", why);
        return status;
    }
    set(conditions::PAUSED, false, "NotPaused", "");
    let ready = spec.control_plane_endpoint.as_ref().is_some_and(|endpoint| !endpoint.host.is_empty());
    if ready {
        set(conditions::READY, true, "EndpointKnown", "");
        // Which Cluster API mirrors as the Cluster's ControlPlaneAvailable.
        set(conditions::AVAILABLE, true, "ManagedElsewhere", "");
    } else {
        set(
            conditions::READY,
            false,
            "EndpointMissing",
            "set spec.controlPlaneEndpoint to where the control plane that is managed elsewhere is reached",
        );
    }
    status.ready = ready;
    status.version.clone_from(&spec.version);
    status.external_managed_control_plane = true;
    // A core of the contract v1beta1 reads a map under the same name, and stops at a list.
    let zones = if contract == Some("v1beta1") { &[][..] } else { &spec.zones };
    status.failure_domains =
        zones.iter().map(|zone| FailureDomain { name: zone.clone(), control_plane: false }).collect();
    // Never unset once it is true.
    if ready {
        status.initialization =
            Some(ClusterInitialization { provisioned: Some(true), control_plane_initialized: Some(true) });
        status.initialized = true;
    }
    status.observed_generation = generation;
    status
}

pub(crate) async fn reconcile(object: Arc<ExternalCluster>, context: Arc<Context>) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() || object.annotations().contains_key(annotations::MANAGED_BY) {
        return Ok(Action::await_change());
    }
    let namespace = object.namespace().unwrap_or_default();
    let mut owner: Option<Cluster> = None;
    let mut paused = object
        .annotations()
        .contains_key(annotations::PAUSED)
        .then(|| format!("the object has the annotation {}", annotations::PAUSED));
    if let (Some(cluster_api), Some(named), None) = (&context.cluster_api, owner_cluster(object.as_ref()), &paused) {
        let api: Api<Cluster> = Api::namespaced_with(context.client.clone(), &namespace, &cluster_api.cluster);
        let cluster = api.get_opt(&named.name).await.map_err(Error::kubernetes("reading the Cluster"))?;
        if cluster.as_ref().is_some_and(|cluster| cluster.spec.paused.unwrap_or(false)) {
            paused = Some(format!("the cluster {} is paused", named.name));
        }
        // Whoever edits the object writes whom it names: the Cluster itself has to say that it is on this one.
        owner = cluster.filter(|cluster| {
            cluster.metadata.uid.as_ref() == Some(&named.uid) && cluster.spec.infrastructure_ref.names(object.as_ref())
        });
    }
    let old = object.status.clone().unwrap_or_default();
    let contract = context.cluster_api.as_ref().map(|found| found.version.as_str());
    let new = decide(&old, &object.spec, paused.as_deref(), contract, object.meta().generation, Timestamp::now());
    let api: Api<ExternalCluster> = Api::namespaced(context.client.clone(), &namespace);
    write_status(&api, object.as_ref(), &old, &new).await?;
    if let (Some(cluster_api), Some(cluster), true, None) = (&context.cluster_api, owner, new.ready, paused) {
        initialize(&context, cluster_api, &namespace, &cluster).await?;
    }
    Ok(Action::await_change())
}

/// Tells Cluster API that the control plane is there.
async fn initialize(
    context: &Context,
    cluster_api: &ClusterApi,
    namespace: &str,
    cluster: &Cluster,
) -> Result<(), Error> {
    let Some(status) = control_plane_initialized(cluster, &cluster_api.version, &time(Timestamp::now())) else {
        return Ok(());
    };
    // Conditions are written as a whole: under the version that was read, so that nobody's are lost.
    let patch = json!({
        "metadata": {"uid": cluster.uid(), "resourceVersion": cluster.resource_version()},
        "status": status,
    });
    let api: Api<Cluster> = Api::namespaced_with(context.client.clone(), namespace, &cluster_api.cluster);
    api.patch_status(&cluster.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
        .map_err(Error::kubernetes("telling the Cluster that its control plane is there"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ControlPlaneEndpoint;

    #[test]
    fn it_is_ready_as_soon_as_the_endpoint_is_known_and_stays_provisioned() {
        let now = Timestamp::UNIX_EPOCH;
        let nothing = ExternalClusterSpec::default();
        let known = ExternalClusterSpec {
            control_plane_endpoint: Some(ControlPlaneEndpoint { host: "api.example.org".into(), port: 6443 }),
            ..ExternalClusterSpec::default()
        };
        let first = decide(&ExternalClusterStatus::default(), &nothing, None, None, Some(1), now);
        assert!(!first.ready && first.initialization.is_none());
        let second = decide(&first, &known, None, None, Some(2), now);
        assert!(second.ready && second.initialization.unwrap().provisioned.unwrap());
        assert!(second.initialized && second.initialization.unwrap().control_plane_initialized.unwrap());
        assert_eq!(decide(&second, &known, None, None, Some(2), now), second, "nothing to write");
        let third = decide(&second, &nothing, None, None, Some(3), now);
        assert!(!third.ready && third.initialization.unwrap().provisioned.unwrap());
    }

    #[test]
    fn zones_are_failure_domains_where_the_contract_takes_a_list() {
        let spec = ExternalClusterSpec { zones: vec!["fr-par-1".into()], ..ExternalClusterSpec::default() };
        let domains = |contract| {
            decide(&ExternalClusterStatus::default(), &spec, None, contract, Some(1), Timestamp::UNIX_EPOCH)
                .failure_domains
        };
        assert_eq!(domains(Some("v1beta2")), [FailureDomain { name: "fr-par-1".into(), control_plane: false }]);
        assert_eq!(domains(Some("v1beta1")), []);
    }

    #[test]
    fn while_paused_nothing_but_the_pause_is_said() {
        let known = ExternalClusterSpec {
            control_plane_endpoint: Some(ControlPlaneEndpoint { host: "api.example.org".into(), port: 6443 }),
            ..ExternalClusterSpec::default()
        };
        let status =
            decide(&ExternalClusterStatus::default(), &known, Some("why"), None, Some(1), Timestamp::UNIX_EPOCH);
        assert!(!status.ready);
        assert_eq!(status.conditions.len(), 1);
    }
}
