//! A cluster whose object has come back without its status, as a restore leaves it: its servers are looked for by their
//! tags before anything is made under their names, so that there is never a second, paid set of them.
//!
//! Tags tell the cluster's name, and not whose object it is: an administrator says that by an approval.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Server;

use super::store::begun_record;
use crate::Error;
use crate::approvals::{approved, key_of_cluster, remedy};
use crate::context::Context;
use crate::kinds::{GroupStatus, InstanceMachine, NodeStatus, ServerCluster, ServerClusterSpec, ServerClusterStatus};
use crate::outcome::without_request;
use crate::server_fields::operation_of;

/// The tags of a node's server.
const GROUP: &str = "windlass-group=";
const KEPT: &str = "windlass-kept";

/// What is there of a cluster that has no record.
pub(super) enum Found {
    /// Nothing: it may be created.
    Nothing,
    /// The zone cannot be listed: why not.
    Unknown(String),
    /// Servers which no administrator has handed over: why it waits.
    Servers(String),
    /// The status that they make.
    Status(Box<ServerClusterStatus>),
}

/// Looks for the servers of an object without a record.
pub(super) async fn find(context: &Context, object: &ServerCluster) -> Result<Found, Error> {
    let Ok(zone) = object.spec.zone.parse::<Zone>() else { return Ok(Found::Nothing) };
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let listing = match context.lifecycle.servers(&zone).await {
        Ok(listing) => listing,
        Err(error) => return Ok(Found::Unknown(without_request(&error))),
    };
    let mut nodes = nodes(&object.spec, &name, &listing.machines);
    if nodes.is_empty() {
        return Ok(Found::Nothing);
    }
    let explained = explained(context, object).await?;
    nodes.retain(|node| node.server_id.as_ref().is_none_or(|id| !explained.contains(id)));
    let Some(first) = nodes.first() else { return Ok(Found::Nothing) };
    let key = key_of_cluster(&name);
    if !approved(context, &key, &namespace, &name).await? {
        let (count, first) = (nodes.len(), &first.name);
        return Ok(Found::Servers(format!(
            "{count} servers of a cluster {name} exist ({first} and others) that no object owns, so no further \
             servers are created. Delete them, or restore this object's status, or {}",
            remedy(context, &key, &namespace, &name)
        )));
    }
    Ok(Found::Status(Box::new(status(&object.spec, nodes, Timestamp::now()))))
}

/// The servers of other objects: clusters of this name in other namespaces, and machines, whose groups may have any
/// name.
async fn explained(context: &Context, object: &ServerCluster) -> Result<BTreeSet<String>, Error> {
    let named = ListParams::default().fields(&format!("metadata.name={}", object.name_any()));
    let clusters: Vec<ServerCluster> = watched(context, &named).await?;
    let clusters = clusters.into_iter().filter(|other| other.uid() != object.uid());
    let nodes = clusters.filter_map(|other| other.status).flat_map(|status| status.nodes);
    let machines: Vec<InstanceMachine> = watched(context, &ListParams::default()).await?;
    let servers = machines.into_iter().filter_map(|machine| machine.status?.server_id);
    Ok(nodes.filter_map(|node| node.server_id).chain(servers).collect())
}

/// The objects of a kind in all namespaces that are watched.
async fn watched<K>(context: &Context, parameters: &ListParams) -> Result<Vec<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = crate::kubernetes::api(&context.client, context.settings.watched.as_deref());
    let listed = api.list(parameters).await.map_err(Error::kubernetes("listing who has which servers"))?;
    Ok(listed.items)
}

/// The nodes that these servers are.
fn nodes(spec: &ServerClusterSpec, cluster: &str, servers: &[Server]) -> Vec<NodeStatus> {
    let tag =
        |server: &Server, prefix: &str| server.tags.iter().find_map(|tag| tag.strip_prefix(prefix)).map(str::to_owned);
    let of_cluster = |server: &&Server| {
        tag(server, GROUP).as_deref() == Some(cluster) && !server.tags.iter().any(|tag| tag.starts_with(KEPT))
    };
    let node = |server: &Server| {
        let rest = server.name.strip_prefix(cluster)?.strip_prefix('-')?;
        let (group, number) = rest.rsplit_once('-')?;
        let number: u32 = number.parse().ok()?;
        spec.groups.iter().find(|known| known.name == group)?;
        Some(NodeStatus {
            name: server.name.clone(),
            group: group.to_owned(),
            number,
            role: "staying".to_owned(),
            state: "running".to_owned(),
            creation: operation_of(server).map(str::to_owned),
            server_id: Some(server.id.clone()),
            server_type: Some(server.commercial_type.clone()),
            addresses: server.public_ips.iter().map(|ip| ip.address.clone()).filter(|text| !text.is_empty()).collect(),
            // Hooks are not run again on servers that were in use.
            configured: true,
            started: true,
            ..NodeStatus::default()
        })
    };
    let mut nodes: Vec<NodeStatus> = servers.iter().filter(of_cluster).filter_map(node).collect();
    nodes.sort_by(|a, b| (&a.group, a.number).cmp(&(&b.group, b.number)));
    nodes
}

/// The status of a cluster that has these nodes.
fn status(spec: &ServerClusterSpec, nodes: Vec<NodeStatus>, now: Timestamp) -> ServerClusterStatus {
    let group = |name: &str| {
        let numbers = || nodes.iter().filter(|node| node.group == name).map(|node| node.number);
        GroupStatus {
            name: name.to_owned(),
            count: u32::try_from(numbers().count()).unwrap_or(u32::MAX),
            last_number: numbers().max().unwrap_or_default(),
        }
    };
    ServerClusterStatus {
        state: Some(windlass_cluster::ClusterState::Active.to_string()),
        established: true,
        groups: spec.groups.iter().map(|data| group(&data.name)).collect(),
        running_nodes: Some(u32::try_from(nodes.len()).unwrap_or(u32::MAX)),
        record: Some(begun_record(now)),
        nodes,
        ..ServerClusterStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_nodes_by_tag_and_name_and_their_numbers_are_never_given_again() {
        let spec: ServerClusterSpec = serde_json::from_value(json!({
            "zone": "fr-par-1", "groups": [
                {"name": "web", "count": 2, "types": ["DEV1-S"], "image": "i"},
                {"name": "web-db", "count": 1, "types": ["DEV1-S"], "image": "i"},
            ],
        }))
        .unwrap();
        let server = |name: &str, group: &str, extra: &str| -> Server {
            let tags = json!([format!("windlass-group={group}"), "windlass-operation=farm-0123456789ab", extra]);
            serde_json::from_value(json!({"id": name, "name": name, "tags": tags})).unwrap()
        };
        let servers = [
            server("farm-web-7", "farm", ""),
            server("farm-web-2", "farm", ""),
            server("farm-web-db-1", "farm", ""),
            server("farm-web-3", "farm", "windlass-kept=by-policy"),
            server("farm-web-4", "other", ""),
            server("farm-gone-1", "farm", ""),
            server("farms-web-1", "farm", ""),
            server("farm-web-x", "farm", ""),
        ];
        let found = nodes(&spec, "farm", &servers);
        let names: Vec<&str> = found.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["farm-web-2", "farm-web-7", "farm-web-db-1"]);
        let status = status(&spec, found, Timestamp::UNIX_EPOCH);
        let groups: Vec<_> = status.groups.iter().map(|group| (group.count, group.last_number)).collect();
        assert_eq!(groups, [(2, 7), (1, 1)]);
    }
}
