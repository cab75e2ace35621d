//! What must hold when a world has come to rest.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_cluster::{ClusterState, NodeState};
use windlass_lifecycle::{Journal, OperationFilter, OperationKind, OperationState};

use crate::farm;
use crate::runner::GROUP_OWNER;
use crate::story::Shape;
use crate::users::{is_tagged, operation_of};
use crate::world::World;

pub(crate) fn exists(list: &[Value], id: &str) -> bool {
    list.iter().any(|value| value["id"] == id)
}

/// The violated laws, in words.
pub(crate) fn violations(world: &World) -> Vec<String> {
    let (journals, unreadable) = world.journals();
    let mut violations = unreadable;
    violations.extend(others_are_untouched(world));
    violations.extend(no_operation_is_open(&journals));
    violations.extend(what_was_to_be_undone_is_undone(&journals));
    violations.extend(nothing_of_ours_is_unexplained(world, &journals));
    violations.extend(what_was_given_is_there(world));
    violations.extend(the_runner_has_what_it_wants(world));
    violations.extend(clusters_are_whole(world, &journals));
    violations
}

/// What belongs to somebody else is there, under its name and with its tags.
pub(crate) fn others_are_untouched(world: &World) -> Vec<String> {
    let resources = world.simulator.resources();
    let mut violations = Vec::new();
    for (id, theirs) in &world.users.theirs {
        let list = match theirs.kind {
            "servers" => &resources.servers,
            "ips" => &resources.ips,
            _ => &resources.volumes,
        };
        match list.iter().find(|value| value["id"] == id.as_str()) {
            None => violations.push(format!("{} {id} of a user is gone", theirs.kind)),
            Some(value) => {
                if !theirs.tags.is_null() && value["tags"] != theirs.tags {
                    violations.push(format!("{} {id} of a user has other tags: {}", theirs.kind, value["tags"]));
                }
                if !theirs.name.is_empty() && value["name"] != theirs.name.as_str() {
                    violations.push(format!("{} {id} of a user has another name: {}", theirs.kind, value["name"]));
                }
            }
        }
    }
    violations
}

/// Whatever was begun has ended.
fn no_operation_is_open(journals: &[(usize, Journal)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (disk, journal) in journals {
        match journal.operations(&OperationFilter::default()) {
            Ok(operations) => violations.extend(
                operations
                    .iter()
                    .filter(|operation| {
                        !matches!(operation.state, OperationState::Done | OperationState::Undone | OperationState::Kept)
                    })
                    .map(|operation| {
                        format!(
                            "operation {} of journal {disk} is {}: {:?}",
                            operation.id, operation.state, operation.report
                        )
                    }),
            ),
            Err(error) => violations.push(format!("journal {disk} cannot be read: {error}")),
        }
    }
    violations
}

/// A creation that was called off or failed is never finished by whoever takes it over.
fn what_was_to_be_undone_is_undone(journals: &[(usize, Journal)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (disk, journal) in journals {
        for operation in journal.operations(&OperationFilter::default()).unwrap_or_default() {
            let finished = operation.kind == OperationKind::CreateServer && operation.state == OperationState::Done;
            let entries = if finished { journal.entries(&operation.id).unwrap_or_default() } else { Vec::new() };
            if entries.iter().any(|entry| entry.step == "undo-begun") {
                violations.push(format!("operation {} of journal {disk} was to be undone and is done", operation.id));
            }
        }
    }
    violations
}

/// Everything that carries our tag belongs to a server that some journal says was made and was not removed.
fn nothing_of_ours_is_unexplained(world: &World, journals: &[(usize, Journal)]) -> Vec<String> {
    let mut living = BTreeSet::new();
    for (_, journal) in journals {
        let Ok(operations) = journal.operations(&OperationFilter::default()) else { continue };
        for operation in operations {
            if operation.kind == OperationKind::CreateServer
                && matches!(operation.state, OperationState::Done | OperationState::Kept)
                && operation.ended_by.is_none()
            {
                living.insert(format!("windlass-operation={}", operation.id));
            }
        }
    }
    let resources = world.simulator.resources();
    let lists = [("server", &resources.servers), ("address", &resources.ips), ("volume", &resources.volumes)];
    let mut violations = Vec::new();
    let mut servers: BTreeSet<&str> = BTreeSet::new();
    for (kind, list) in lists {
        for value in list {
            let id = value["id"].as_str().unwrap_or_default();
            if !is_tagged(value) || world.users.theirs.contains_key(id) {
                continue;
            }
            let tags: Vec<&str> = value["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if tags.contains(&"windlass-kept") {
                continue;
            }
            let operation = tags.iter().find(|tag| tag.starts_with("windlass-operation=")).copied().unwrap_or_default();
            if !living.contains(operation) {
                violations.push(format!("{kind} {id} ({operation}) is left: {}", value["state"]));
            } else if kind == "server" && !servers.insert(operation) {
                violations.push(format!("there are two servers of {operation}"));
            }
        }
    }
    // What a server of ours had and nobody tagged must be gone with it: volumes that belong to nobody we know.
    for value in &resources.volumes {
        let id = value["id"].as_str().unwrap_or_default();
        let attached =
            !value["server"].is_null() || value["references"].as_array().is_some_and(|list| !list.is_empty());
        if !is_tagged(value) && !attached && !world.users.theirs.contains_key(id) {
            violations.push(format!("volume {id} belongs to nobody and is attached to nothing"));
        }
    }
    // Nobody may be billed for a server whose address or volume is all that a journal explains.
    for value in resources.ips.iter().chain(&resources.volumes) {
        let id = value["id"].as_str().unwrap_or_default();
        let operation = value["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let Some(operation) = operation.into_iter().find(|tag| tag.starts_with("windlass-operation=")) else {
            continue;
        };
        if living.contains(operation) && !servers.contains(operation) && !world.users.theirs.contains_key(id) {
            violations.push(format!("{id} of {operation} is left, whose server is gone"));
        }
    }
    violations
}

/// The runner's demand is met by servers that run, nothing stays pending, no instance that it was told of as running
/// has gone unless it was asked to, or a user had a hand in it, and none that was told to go came back. (That nothing
/// of a group's is left beside them, the other laws say.)
pub(crate) fn the_runner_has_what_it_wants(world: &World) -> Vec<String> {
    if !world.cast.runner {
        return Vec::new();
    }
    let runner = world.runner.lock();
    let resources = world.simulator.resources();
    let mut violations: Vec<String> = runner.unsettled().into_iter().collect();
    violations.extend(runner.returned.iter().map(|id| format!("instance {id} was told to go and came back")));
    let instances = runner.instances();
    let mut running = BTreeSet::new();
    let owner = format!("windlass-owner={GROUP_OWNER}");
    for server in &resources.servers {
        let id = server["id"].as_str().unwrap_or_default();
        let ours = server["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == owner.as_str()));
        if !ours || world.users.theirs.contains_key(id) {
            continue;
        }
        let operation = operation_of(server).unwrap_or_default();
        if !instances.contains(operation) {
            violations.push(format!("the runner knows nothing of server {id} ({operation}): {}", server["state"]));
        }
        if server["state"] == "running" {
            running.insert(operation);
        }
    }
    for instance in &instances {
        if !running.contains(instance) {
            violations.push(format!("no server of instance {instance} runs"));
        }
    }
    for given in runner.given.difference(&runner.unwanted) {
        if !instances.contains(given.as_str()) && !world.users.touched.contains(given) {
            violations.push(format!("instance {given} was given to the runner and is gone"));
        }
    }
    violations
}

/// No cluster is half made: each is active with all of its nodes, and each server of a cluster's is one of them.
fn clusters_are_whole(world: &World, journals: &[(usize, Journal)]) -> Vec<String> {
    let resources = world.simulator.resources();
    let mut violations = Vec::new();
    let mut explained = BTreeSet::new();
    for status in &world.clusters {
        let name = &status.cluster.name;
        if let Some(operation) = &status.operation {
            violations.push(format!("cluster {name}: operation {} is open", operation.number));
        }
        if status.cluster.state != ClusterState::Active {
            violations.push(format!("cluster {name} is {}: {:?}", status.cluster.state, status.cluster.reasons));
        }
        let wanted: u32 = status.cluster.specification.groups.values().map(|group| group.count).sum();
        if status.nodes.len() != wanted as usize {
            violations.push(format!("cluster {name} is to have {wanted} nodes and has {}", status.nodes.len()));
        }
        for node in &status.nodes {
            explained.extend(node.creation.as_ref().map(ToString::to_string));
            if node.state != NodeState::Running {
                violations.push(format!("node {} is {}", node.name, node.state));
            }
            let server = node.server.clone().unwrap_or_default();
            if !exists(&resources.servers, &server) && !world.users.terminated.contains(&server) {
                violations.push(format!("the server {server} of node {} is gone", node.name));
            }
        }
    }
    for (_, journal) in journals {
        for operation in journal.operations(&OperationFilter::default()).unwrap_or_default() {
            let living = operation.kind == OperationKind::CreateServer
                && operation.state == OperationState::Done
                && operation.ended_by.is_none();
            if living && farm::is_cluster(&operation.group) && !explained.contains(operation.id.as_str()) {
                violations.push(format!("the server of {} is of no cluster's nodes", operation.id));
            }
        }
    }
    violations
}

/// A server that somebody was given, and that nobody removed, exists with what was asked for.
fn what_was_given_is_there(world: &World) -> Vec<String> {
    let resources = world.simulator.resources();
    let mut violations = Vec::new();
    for given in world.given.values() {
        let unwanted = world.unwanted.contains(&given.server);
        let terminated = world.users.terminated.contains(&given.server);
        let there = exists(&resources.servers, &given.server);
        if world.accepted.contains(&given.server) && there {
            violations.push(format!("server {} was to be cleaned up and is there", given.server));
        }
        if unwanted || terminated {
            continue;
        }
        if !there {
            violations.push(format!("server {} ({:?}) was given and is gone", given.server, given.shape));
            continue;
        }
        let on_it = |value: &&Value| {
            value["server"]["id"] == given.server.as_str()
                || value["references"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|r| r["product_resource_id"] == given.server.as_str())
        };
        let addresses = resources.ips.iter().filter(on_it).count();
        let volumes = resources.volumes.iter().filter(on_it).count();
        let (least_addresses, least_volumes) = match given.shape {
            Shape::Bare => (0, 1),
            Shape::Everything => (2, 2),
            Shape::Local => (1, 1),
            Shape::WithExisting => (0, 2),
        };
        if addresses < least_addresses || volumes < least_volumes {
            violations.push(format!(
                "server {} ({:?}) has {addresses} addresses and {volumes} volumes",
                given.server, given.shape
            ));
        }
    }
    violations
}
