//! A cluster as people see it: what it is, what is under way, its nodes.

use std::net::IpAddr;

use windlass_cluster::{ClusterState, ClusterStatus, Node};
use windlass_inspect::listing::Listing;
use windlass_inspect::output::fields;
use windlass_inspect::text::{ago, instant};

/// How the nodes differ from what was known, each in a line.
pub(super) fn differences(status: &ClusterStatus) -> Vec<String> {
    let nodes = status.seen.iter().flat_map(|seen| &seen.nodes);
    nodes.flat_map(|node| node.differences.iter().map(|words| format!("{}: {words}", node.node))).collect()
}

/// How old the status is, and whether Scaleway agrees.
fn known(status: &ClusterStatus) -> String {
    if status.seen.is_none() {
        return format!(
            "since {} ({}), when an operation last wrote it",
            instant(status.cluster.updated_at),
            ago(status.cluster.updated_at)
        );
    }
    let differences = differences(status);
    if differences.is_empty() {
        return "now: Scaleway was asked, and agrees".to_owned();
    }
    let next = match status.cluster.state {
        ClusterState::Abandoned => "",
        _ => "; the next operation takes it up",
    };
    format!("Scaleway was asked, and differs{next}:\n{}", differences.join("\n"))
}

/// A cluster for people.
pub(super) fn rendered(status: &ClusterStatus) -> String {
    format!("{}\n{}", rendered_without_nodes(status), nodes(status).table(false))
}

pub(super) fn rendered_without_nodes(status: &ClusterStatus) -> String {
    let cluster = &status.cluster;
    let mut lines = vec![
        ("cluster", cluster.name.to_string()),
        ("state", cluster.state.to_string()),
        ("zone", cluster.specification.zone.to_string()),
        ("created", format!("{} ({})", instant(cluster.created_at), ago(cluster.created_at))),
    ];
    lines.push(("known", known(status)));
    if let Some(operation) = &status.operation {
        let lives = if status.operation_lives { "" } else { "; its process has ended: windlass cluster resume" };
        lines.push((
            "operation",
            format!("{} {} at the stage {}{lives}", operation.number, operation.kind, operation.stage),
        ));
    }
    if status.deletion_requested {
        let words = if status.operation_lives {
            "requested; it follows the operation under way"
        } else {
            "requested, and not begun: the next `windlass cluster resume` begins it, `windlass cluster cancel` \
             withdraws it"
        };
        lines.push(("deletion", words.to_owned()));
    }
    for (position, reason) in cluster.reasons.iter().enumerate() {
        lines.push((if position == 0 { "why" } else { "" }, reason.clone()));
    }
    for (position, left) in cluster.left.iter().enumerate() {
        lines.push((if position == 0 { "LEFT" } else { "" }, left.clone()));
    }
    fields(&lines)
}

pub(super) fn nodes(status: &ClusterStatus) -> Listing<'_, Node> {
    let addresses = |list: &[IpAddr]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    Listing::new(&status.nodes, "no nodes", |node: &Node| node.name.clone())
        .column("node", |node| node.name.clone())
        .column("group", |node| node.group.to_string())
        .spare(1)
        .wide("role", |node| node.role.to_string())
        .column("state", node_words)
        .column("type", |node| node.server_type.clone().unwrap_or_default())
        .spare(2)
        .column("public", move |node| addresses(&node.addresses))
        .list()
        .column("private", move |node| addresses(&node.private_addresses))
        .list()
        .spare(3)
        .column("server", |node| node.server.clone().unwrap_or_default())
        .spare(4)
        .wide("operation", |node| node.creation.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// The beginning of a problem: the lines above the table and the JSON document have it whole.
fn shortened(problem: &str) -> String {
    const MAX_CHARACTERS: usize = 60;
    match problem.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", &problem[..end]),
        None => problem.to_owned(),
    }
}

fn node_words(node: &Node) -> String {
    let mut words = vec![node.state.to_string()];
    if node.exists() {
        words.extend(node.decommissioned.then(|| "decommissioned".to_owned()));
        words.extend((!node.configured).then(|| "not configured".to_owned()));
        words.extend((node.configured && !node.started).then(|| "not started".to_owned()));
    }
    words.extend(node.problem.as_deref().map(shortened));
    words.join(", ")
}
