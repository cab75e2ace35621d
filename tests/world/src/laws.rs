//! What must hold when a world has come to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use windlass_cluster::{ClusterState, NodeState};
use windlass_lifecycle::{Aftermath, Journal, OperationFilter, OperationId, OperationKind, OperationState, Phase};

use crate::farm;
use crate::runner::GROUP_OWNER;
use crate::story::Shape;
use crate::users::{Mark, holders_of, is_tagged, operation_of};
use crate::wire::{Sent, id_of};
use crate::world::{HEARD, World, disk_of};

/// How old the read may be that a removal follows from, where none of its process's calls was slow.
const FRESH: Duration = Duration::from_secs(2);
/// A call that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

pub(crate) fn exists(list: &[Value], id: &str) -> bool {
    list.iter().any(|value| value["id"] == id)
}

/// The violated laws, in words.
pub(crate) fn violations(world: &World) -> Vec<String> {
    let (journals, unreadable) = world.journals();
    let mut violations = unreadable;
    violations.extend(others_are_untouched(world));
    violations.extend(no_operation_is_open(world, &journals));
    violations.extend(what_was_to_be_undone_is_undone(&journals));
    violations.extend(nothing_of_ours_is_unexplained(world, &journals));
    violations.extend(what_was_given_is_there(world));
    violations.extend(the_runner_has_what_it_wants(world));
    violations.extend(clusters_are_whole(world, &journals));
    violations.extend(what_users_took_is_theirs(world));
    violations.extend(removals_follow_reads(world));
    violations.extend(copies_change_nothing(world));
    violations.extend(what_was_cancelled_is_never_finished(world, &journals));
    violations
}

/// The calls of all processes, with what the processes had read before.
struct Calls {
    all: Vec<Sent>,
    /// By process and resource.
    reads: BTreeMap<(u64, String), Vec<usize>>,
}

impl Calls {
    fn of(world: &World) -> Self {
        let all = world.ledger.all();
        let mut reads: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, sent) in all.iter().enumerate().filter(|(_, sent)| !sent.changes()) {
            reads.entry((sent.by.start, sent.path.clone())).or_default().push(index);
        }
        Self { all, reads }
    }

    /// The read of this resource that was answered last before this call, in the same process; of several operations
    /// that work there at once, one that found it.
    fn read_before(&self, call: &Sent, resource: &str) -> Option<&Sent> {
        let reads = self.reads.get(&(call.by.start, resource.to_owned()))?.iter().map(|index| &self.all[*index]);
        let before = reads.filter_map(|sent| {
            let (at, status) = sent.answered.filter(|(at, _)| sent.by == call.by && *at <= call.at)?;
            Some((call.at - at <= FRESH && status == 200, at, sent))
        });
        before.max_by_key(|(found, at, _)| (*found, *at)).map(|(.., sent)| sent)
    }

    /// Whether a call of this process in this time was slow.
    fn is_slow(&self, call: &Sent, since: Duration) -> bool {
        let slow = |sent: &Sent| sent.answered.is_none_or(|(answered, _)| answered - sent.at > SLOW);
        self.all.iter().any(|sent| sent.by == call.by && sent.at >= since && sent.at <= call.at && slow(sent))
    }
}

/// Whatever is destroyed, stopped or taken apart was read by its id just before, in the same process.
fn removals_follow_reads(world: &World) -> Vec<String> {
    let calls = Calls::of(world);
    let mut violations = Vec::new();
    for call in &calls.all {
        let Some(resource) = call.destroys() else { continue };
        let words = format!("{} {} of process {}", call.method, call.path, call.by.seat);
        match calls.read_before(call, resource) {
            None => violations.push(format!("{words} follows no read of it by its id")),
            Some(read) => {
                let (answered, status) = read.answered.unwrap_or_default();
                if status != 200 {
                    violations.push(format!("{words} follows a read that was answered {status}"));
                } else if call.at - answered > FRESH && !calls.is_slow(call, read.at) {
                    violations.push(format!("{words} follows a read of {:?} before", call.at - answered));
                }
            }
        }
    }
    violations
}

/// What a user has taken over, or protected, is there, unless a call destroyed it whose reads had begun before that.
pub(crate) fn what_users_took_is_theirs(world: &World) -> Vec<String> {
    let resources = world.simulator.resources();
    let calls = Calls::of(world);
    let mut violations = Vec::new();
    for (id, taken) in &world.users.taken {
        let list = match taken.kind {
            "servers" => &resources.servers,
            "ips" => &resources.ips,
            _ => &resources.volumes,
        };
        let words = || format!("{} {id}, which a user has made their own ({:?}),", taken.kind, taken.mark);
        if let Some(value) = list.iter().find(|value| value["id"] == id.as_str()) {
            if taken.mark == Mark::Untagged && value["tags"] != serde_json::json!(["role=web"]) {
                violations.push(format!("{} has other tags: {}", words(), value["tags"]));
            }
            continue;
        }
        let is_concerned = |resource: &str| {
            let concerned = id_of(resource);
            concerned == id || taken.holder.as_deref() == Some(concerned)
        };
        let by_user = world.users.terminated.iter().any(|server| is_concerned(server));
        let excused = calls.all.iter().filter(|call| call.destroys().is_some_and(is_concerned)).any(|call| {
            let concerned = |(_, path): &(u64, String)| is_concerned(path);
            let resources = calls.reads.keys().filter(|key| key.0 == call.by.start && concerned(key));
            let mut reads = resources.filter_map(|(_, path)| calls.read_before(call, path));
            call.at < taken.since || reads.any(|read| read.at < taken.since)
        });
        if !by_user && !excused {
            violations.push(format!("{} is gone", words()));
        }
    }
    violations
}

/// A process on a copy of a state directory, or on a restored one, only reads.
fn copies_change_nothing(world: &World) -> Vec<String> {
    let calls = world.ledger.all();
    let changes = calls.iter().filter(|call| call.by.on_copy && call.changes());
    changes.map(|call| format!("{} {} of process {} on a copy", call.method, call.path, call.by.seat)).collect()
}

/// What the journal said is cancelled is never done, and its server is powered on no more.
fn what_was_cancelled_is_never_finished(world: &World, journals: &[(usize, Journal)]) -> Vec<String> {
    let calls = world.ledger.all();
    let mut violations = Vec::new();
    for (id, (disk, since)) in &world.cancelled {
        let Some((_, journal)) = journals.iter().find(|(of, _)| of == disk) else { continue };
        if journal.operation(id).is_ok_and(|operation| operation.state == OperationState::Done) {
            violations.push(format!("operation {id} was cancelled and is done"));
        }
        for entry in journal.entries(id).unwrap_or_default() {
            let Some(server) = entry.resource.filter(|_| entry.step == "create-server") else { continue };
            let late = |call: &&Sent| call.at > *since + HEARD && call.powers_on(&server.id);
            if entry.phase == Phase::Outcome && calls.iter().any(|call| late(&call)) {
                violations.push(format!("operation {id} was cancelled, and its server was powered on after it"));
            }
        }
    }
    violations
}

/// What exists of a creation and is nobody else's.
fn there_of(world: &World, creation: &OperationId) -> Vec<String> {
    let resources = world.simulator.resources();
    let lists = resources.servers.iter().chain(&resources.ips).chain(&resources.volumes);
    lists
        .filter(|value| operation_of(value) == Some(creation.as_str()))
        .filter_map(|value| value["id"].as_str())
        .filter(|id| !world.users.have(id))
        .map(str::to_owned)
        .collect()
}

/// What an error says of what is left is so.
pub(crate) fn what_is_said_of_a_failure_is_so(
    world: &World,
    process: usize,
    creation: &OperationId,
    aftermath: &Aftermath,
) -> Vec<String> {
    if world.misled {
        return Vec::new();
    }
    let there = there_of(world, creation);
    match aftermath {
        Aftermath::Refused | Aftermath::Clean if !there.is_empty() => {
            vec![format!("creation {creation} says that nothing is left: {}", there.join(", "))]
        }
        Aftermath::Left(left) if !left.is_empty() => {
            let made = world.journal_of(process).and_then(|journal| journal.made_by(creation).ok()).unwrap_or_default();
            let names = |id: &String| left.iter().any(|left| left.resource.id == *id);
            let known = |id: &String| made.iter().any(|name| name.id == *id);
            let missing = there.iter().filter(|id| known(id) && !names(id));
            missing.map(|id| format!("creation {creation} says what is left, and does not name {id}")).collect()
        }
        _ => Vec::new(),
    }
}

/// What a cleanup says to have removed is gone.
pub(crate) fn what_a_cleanup_says_is_so(
    world: &World,
    process: usize,
    creation: &OperationId,
    server: &str,
) -> Vec<String> {
    if !world.users.have(server) && exists(&world.simulator.resources().servers, server) {
        return vec![format!("a cleanup of server {server} ended clean, and it is there")];
    }
    if world.misled {
        return Vec::new();
    }
    let made = world.journal_of(process).and_then(|journal| journal.made_by(creation).ok()).unwrap_or_default();
    let there = there_of(world, creation);
    let left = there.iter().filter(|id| made.iter().any(|name| name.id == **id));
    left.map(|id| format!("a cleanup of server {server} ended clean, and {id} is there")).collect()
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
fn no_operation_is_open(world: &World, journals: &[(usize, Journal)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (disk, journal) in journals {
        match journal.operations(&OperationFilter::default()) {
            Ok(operations) => violations.extend(
                operations
                    .iter()
                    .filter(|operation| {
                        let abandoned = operation.state == OperationState::Abandoned && world.restored[*disk];
                        let ended = matches!(
                            operation.state,
                            OperationState::Done | OperationState::Undone | OperationState::Kept
                        );
                        !ended && !abandoned
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
    let mut known = BTreeSet::new();
    for (disk, journal) in journals {
        let Ok(operations) = journal.operations(&OperationFilter::default()) else { continue };
        for operation in operations {
            if !world.restored[*disk] {
                known.insert(format!("windlass-operation={}", operation.id));
            }
            if operation.kind == OperationKind::CreateServer
                && matches!(operation.state, OperationState::Done | OperationState::Kept | OperationState::Abandoned)
                && operation.ended_by.is_none()
            {
                living.insert(format!("windlass-operation={}", operation.id));
            }
        }
    }
    let resources = world.simulator.resources();
    let lists = [("server", &resources.servers), ("address", &resources.ips), ("volume", &resources.volumes)];
    let mut violations = Vec::new();
    let is_restored = world.restored.contains(&true);
    // What a user took with its server is explained by that.
    let of_users = |value: &Value| {
        world.users.have(value["id"].as_str().unwrap_or_default())
            || holders_of(value).any(|server| world.users.have(server))
    };
    let taken = world.users.taken.iter().filter(|(id, taken)| taken.kind == "servers" && world.users.have(id));
    let taken: BTreeSet<String> =
        taken.filter_map(|(_, taken)| Some(format!("windlass-operation={}", taken.operation.as_ref()?))).collect();
    let mut servers: BTreeSet<&str> = taken.iter().map(String::as_str).collect();
    for (kind, list) in lists {
        for value in list {
            let id = value["id"].as_str().unwrap_or_default();
            if !is_tagged(value) || of_users(value) {
                continue;
            }
            let tags: Vec<&str> = value["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if tags.contains(&"windlass-kept") {
                continue;
            }
            let operation = tags.iter().find(|tag| tag.starts_with("windlass-operation=")).copied().unwrap_or_default();
            // A journal that was restored does not know what was made since: it is told to the operator, and spared.
            if is_restored && !known.contains(operation) {
                continue;
            }
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
        if !is_tagged(value) && !attached && !of_users(value) && !is_restored {
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
        let is_forgotten = is_restored && !known.contains(operation);
        if living.contains(operation) && !servers.contains(operation) && !of_users(value) && !is_forgotten {
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
    // A server that a user took over is no node any more, and its creation did not end: it is there.
    let taken = world.users.taken.values().filter(|taken| taken.mark != Mark::Protected);
    explained.extend(taken.filter_map(|taken| taken.operation.clone()));
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
        if world.accepted.contains(&given.server) && there && !world.users.have(&given.server) {
            violations.push(format!("server {} was to be cleaned up and is there", given.server));
        }
        // A start may have begun to power it on, as the restored journal has it; it is undone where it does not run.
        let stopped = world.restored[disk_of(given.process)] && world.users.touched.contains(given.operation.as_str());
        if unwanted || terminated || stopped {
            continue;
        }
        let parted = world.users.parted.contains(&given.server);
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
        if !parted && (addresses < least_addresses || volumes < least_volumes) {
            violations.push(format!(
                "server {} ({:?}) has {addresses} addresses and {volumes} volumes",
                given.server, given.shape
            ));
        }
    }
    violations
}
