//! Clusters: the list, and one with its nodes by stage, what was done, and what hooks wrote.

use maud::{Markup, html};
use serde_json::Value;
use windlass_cluster::{ClusterEvent, Node, StoredCluster};
use windlass_inspect::output::age;

use super::{facts, operation_link, raw, state, table, took, when};
use crate::read::ClusterView;

pub(crate) fn clusters(found: &[StoredCluster]) -> Markup {
    html! {
        h1 { "Clusters" }
        @if found.is_empty() { p.none { "There are none." } } @else { (list(found)) }
    }
}

pub(super) fn list(clusters: &[StoredCluster]) -> Markup {
    let row = |stored: &StoredCluster| {
        let cluster = &stored.cluster;
        vec![
            html! { a href={ "/clusters/" (cluster.name) } { (cluster.name) } },
            state(cluster.state.as_str()),
            html! { @if let Some(open) = &stored.open { (open.kind) ", at " (open.stage) ", for " (age(open.began_at)) } },
            html! { (age(cluster.created_at)) },
            html! { (cluster.reasons.join("; ")) },
        ]
    };
    table("Clusters", &["cluster", "is", "under way", "age", "why"], &clusters.iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn cluster(view: &ClusterView) -> Markup {
    html! {
        h1 { "Cluster " (view.name) }
        @match &view.stored {
            None => { p { "It is gone; this is what was done to it." } },
            Some(stored) => {
                @let cluster = &stored.cluster;
                (facts(&[
                    ("state", state(cluster.state.as_str())),
                    ("nodes", html! { (stored.nodes.len()) }),
                    ("made", when(cluster.created_at)),
                    ("as known since", when(cluster.updated_at)),
                ]))
                @for reason in &cluster.reasons { p.cause { (reason) } }
                @for left in &cluster.left { p.cause { strong { "Left: " } (left) } }
                section { h2 { "Nodes" } (nodes(&stored.nodes)) }
                p { "What the next operation would do: "
                    code { "windlass cluster scale " (cluster.name) " GROUP=COUNT --dry-run" } }
                (raw("Its specification", &cluster.specification))
            }
        }
        section {
            h2 { "Operations" }
            (table(
                "Operations",
                &["number", "kind", "is", "stage", "began", "took", "why"],
                &view.operations.iter().map(|operation| vec![
                    html! { (operation.number) },
                    html! { (operation.kind) },
                    state(operation.state.as_str()),
                    html! { (operation.stage) },
                    when(operation.began_at),
                    html! { @if let Some(ended) = operation.ended_at { (took(ended.saturating_sub(operation.began_at))) } },
                    html! { (operation.reasons.join("; ")) },
                ]).collect::<Vec<_>>(),
            ))
        }
        @if !view.events.is_empty() {
            section { h2 { "What happened in the last one" } ol.events { @for event in &view.events { li { (happening(event)) } } } }
        }
    }
}

fn nodes(nodes: &[Node]) -> Markup {
    let row = |node: &Node| {
        let stages =
            [("configured", node.configured), ("started", node.started), ("decommissioned", node.decommissioned)];
        let stages: Vec<&str> = stages.into_iter().filter_map(|(word, is)| is.then_some(word)).collect();
        vec![
            html! { (node.name) },
            html! { (node.role) },
            state(node.state.as_str()),
            html! { (stages.join(", ")) },
            html! { (node.server_type.as_deref().unwrap_or_default()) },
            html! { (node.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) },
            html! { @if let Some(creation) = &node.creation { (operation_link(creation.as_str())) } },
            html! { (node.problem.as_deref().unwrap_or_default()) },
        ]
    };
    table(
        "Nodes",
        &["node", "role", "is", "hooks", "type", "addresses", "made by", "problem"],
        &nodes.iter().map(row).collect::<Vec<_>>(),
    )
}

/// An event: its word, its facts, and what a hook wrote as it wrote it.
fn happening(event: &ClusterEvent) -> Markup {
    let value = serde_json::to_value(&event.what).unwrap_or_default();
    let fields = value.as_object().cloned().unwrap_or_default();
    html! {
        (when(event.at)) " "
        strong { (fields.get("event").and_then(Value::as_str).unwrap_or_default()) }
        @for (name, value) in &fields {
            @match (name.as_str(), value) {
                ("event", _) | (_, Value::Null) => {},
                ("output", Value::String(output)) => { pre tabindex="0" { (output) } },
                (name, Value::String(text)) => { " " span.small { (name) ": " } (text) },
                (name, value) => { " " span.small { (name) ": " } (value.to_string()) },
            }
        }
    }
}
