//! What an administrator has handed over by hand: hosts and servers that an object may use although it did not claim or
//! create them.
//!
//! An object's own word is no proof: whoever may edit a namespace writes its annotations and its `spec.providerID`. So
//! a claim that an object did not get from its own UID, and a server that its status does not name, count only when
//! they stand in the ConfigMap [`NAME`] in the controller's own namespace, where editors of other namespaces cannot
//! write: a claim, a server's id or an operation's id as the key, `<namespace>/<name>` of the object as the value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::Error;
use crate::context::Context;
use crate::kinds::{AppleSiliconMachine, InstanceMachine, ServerCluster, ServerClusterStatus};
use crate::kubernetes::{api, config, connect_to, for_each, words};

/// The name of the ConfigMap.
pub(crate) const NAME: &str = "windlass-approvals";

/// Whether an administrator lets the object use what this key names.
pub(crate) async fn approved(context: &Context, key: &str, namespace: &str, name: &str) -> Result<bool, Error> {
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &context.settings.namespace);
    let map = api.get_opt(NAME).await.map_err(Error::kubernetes("reading the approvals"))?;
    Ok(map.is_some_and(|map| approves(&map, key, namespace, name)))
}

fn approves(map: &ConfigMap, key: &str, namespace: &str, name: &str) -> bool {
    let object = map.data.as_ref().and_then(|data| data.get(key));
    object.is_some_and(|object| object.split_once('/') == Some((namespace, name)))
}

/// How an administrator approves it.
pub(crate) fn remedy(context: &Context, key: &str, namespace: &str, name: &str) -> String {
    format!(
        "have an administrator allow it with the entry {key}: {namespace}/{name} in the ConfigMap {}/{NAME}",
        context.settings.namespace
    )
}

/// Prints, as YAML, the ConfigMap of approvals that hands everything over to the machines that have it now: to be
/// applied where they are moved to, where their UIDs are others. `namespace` is the one of the machines, all where
/// there is none.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn print_approvals(
    kubeconfig: Option<&Path>,
    namespace: Option<&str>,
    controller_namespace: &str,
) -> Result<String, Error> {
    let config = config(kubeconfig).await?;
    let server = config.cluster_url.to_string();
    let client = connect_to(config)?;
    data_of(&client, namespace, controller_namespace).await.map_err(|error| match error {
        Error::Kubernetes { source, .. } if matches!(*source, kube::Error::Service(_)) => {
            let problem = words(&source);
            Error::Unreachable { server, problem: problem.trim_start_matches("ServiceError: ").to_owned() }
        }
        other => other,
    })
}

async fn data_of(client: &Client, namespace: Option<&str>, controller_namespace: &str) -> Result<String, Error> {
    // Where clusters of servers are switched off, there is no right to them.
    let clusters = match list(client, namespace).await {
        Err(Error::Kubernetes { source, .. }) if is_forbidden(&source) => Vec::new(),
        clusters => clusters?,
    };
    let data = entries(&list(client, namespace).await?, &list(client, namespace).await?, &clusters);
    let metadata = ObjectMeta {
        name: Some(NAME.into()),
        namespace: Some(controller_namespace.to_owned()),
        ..ObjectMeta::default()
    };
    let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
    serde_norway::to_string(&map).map_err(|error| Error::Defect(error.to_string()))
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// What each object has, and the object. What a host is called counts, and not what an annotation says: the status is
/// the controller's own.
fn entries(
    macs: &[AppleSiliconMachine],
    instances: &[InstanceMachine],
    clusters: &[ServerCluster],
) -> BTreeMap<String, String> {
    let mut data = BTreeMap::new();
    for machine in macs {
        let claim = machine.status.as_ref().and_then(|status| status.server_name.clone());
        data.extend(claim.map(|claim| (claim, object(machine))));
    }
    for machine in instances {
        let status = machine.status.as_ref();
        let key = status.and_then(|status| status.server_id.clone().or_else(|| status.creation.clone()));
        data.extend(key.map(|key| (key, object(machine))));
    }
    for cluster in clusters {
        let has_servers = |status: &ServerClusterStatus| status.nodes.iter().any(|node| node.server_id.is_some());
        if cluster.status.as_ref().is_some_and(has_servers) {
            data.insert(key_of_cluster(&cluster.name_any()), object(cluster));
        }
    }
    data
}

/// The key of the servers of a cluster of this name.
pub(crate) fn key_of_cluster(name: &str) -> String {
    format!("server-cluster.{name}")
}

fn object<K: ResourceExt>(machine: &K) -> String {
    format!("{}/{}", machine.namespace().unwrap_or_default(), machine.name_any())
}

async fn list<K>(client: &Client, namespace: Option<&str>) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
{
    let mut all = Vec::new();
    for_each(&api::<K>(client, namespace), "listing the machines", |object| {
        all.push(object);
        Ok(())
    })
    .await?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_machines_and_clusters_have_is_printed_by_what_the_controller_has_recorded() {
        let object = |kind: &str, name: &str, status: serde_json::Value| {
            serde_json::json!({
                "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": "ci", "annotations": {"windlass.dev/claim": "of-another"}},
                "spec": {"type": "M4-S", "types": ["DEV1-S"], "image": "i", "zone": "fr-par-1", "groups": []},
                "status": status,
            })
        };
        let node = serde_json::json!({
            "name": "farm-web-1", "group": "web", "number": 1, "role": "made", "state": "running", "serverID": "s",
        });
        let mac = object("AppleSiliconMachine", "mini", serde_json::json!({"serverName": "team-mini-0011aabb"}));
        let instance = object("InstanceMachine", "worker", serde_json::json!({"creation": "ci-0nq"}));
        let farm = object("ServerCluster", "farm", serde_json::json!({"nodes": [node]}));
        let empty = object("ServerCluster", "empty", serde_json::json!({"nodes": []}));
        let entries = entries(
            &[serde_json::from_value(mac).unwrap()],
            &[serde_json::from_value(instance).unwrap()],
            &[farm, empty].map(|cluster| serde_json::from_value(cluster).unwrap()),
        );
        let expected = [("ci-0nq", "ci/worker"), ("server-cluster.farm", "ci/farm"), ("team-mini-0011aabb", "ci/mini")];
        assert_eq!(entries, expected.map(|(key, object)| (key.to_owned(), object.to_owned())).into());
    }

    #[test]
    fn an_approval_holds_for_one_object_and_one_key() {
        let data = BTreeMap::from([("team-mini-0011aabb".to_owned(), "macs/mini".to_owned())]);
        let map = ConfigMap { data: Some(data), ..ConfigMap::default() };
        assert!(approves(&map, "team-mini-0011aabb", "macs", "mini"));
        for (key, namespace, name) in [
            ("team-mini-0011aabb", "macs", "other"),
            ("team-mini-0011aabb", "other", "mini"),
            ("team-mini-0011aabb", "macs/mini", ""),
            ("team-mini", "macs", "mini"),
        ] {
            assert!(!approves(&map, key, namespace, name), "{key} {namespace} {name}");
        }
        assert!(!approves(&ConfigMap::default(), "team-mini-0011aabb", "macs", "mini"));
    }
}
