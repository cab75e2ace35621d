//! Clusters: the list, and one with its nodes by stage, what was done, and what hooks wrote.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;
use windlass_cluster::{ClusterEvent, ClusterPlan, Node, PlannedHook, StoredCluster};
use windlass_inspect::text::age;

use super::{empty, facts, operation_link, raw, state, table, took, when};
use crate::read::ClusterView;

pub(crate) fn clusters(found: &[StoredCluster]) -> Markup {
    html! {
        h1 { "Clusters" }
        @if found.is_empty() { (none()) } @else { (list(found)) }
    }
}

/// What would be there.
pub(super) fn none() -> Markup {
    empty(
        "No clusters. Their nodes, operations and hooks appear here. To create a cluster:",
        "windlass cluster create farm.toml",
    )
}

pub(super) fn list(clusters: &[StoredCluster]) -> Markup {
    let row = |stored: &StoredCluster| {
        let cluster = &stored.cluster;
        vec![
            html! { a href={ "/clusters/" (cluster.name) } { (cluster.name) } },
            state(cluster.state.into()),
            html! {
                @if let Some(open) = &stored.open { (open.kind) ", at " (open.stage) ", for " (age(open.began_at)) }
            },
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
            None => { p { "This cluster no longer exists. These are its operations." } },
            Some(stored) => {
                @let cluster = &stored.cluster;
                (facts(&[
                    ("state", state(cluster.state.into())),
                    ("nodes", html! { (stored.nodes.len()) }),
                    ("made", when(cluster.created_at)),
                    ("as known since", when(cluster.updated_at)),
                ]))
                @for reason in &cluster.reasons { p.cause { (reason) } }
                @for left in &cluster.left { p.cause { strong { "Left: " } (left) } }
                section aria-labelledby="nodes" {
                    h2 #nodes { "Nodes" }
                    p { @for (stage, count) in stages(&stored.nodes) { span.badge.plain { (stage) ": " (count) } " " } }
                    (nodes(&stored.nodes))
                }
                (next(stored, &view.next))
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
                    state(operation.state.into()),
                    html! { (operation.stage) },
                    when(operation.began_at),
                    html! {
                        @if let Some(ended) = operation.ended_at { (took(ended.saturating_sub(operation.began_at))) }
                    },
                    html! { (operation.reasons.join("; ")) },
                ]).collect::<Vec<_>>(),
            ))
        }
        @if !view.events.is_empty() {
            section {
                h2 { "What happened in the last one" }
                ol.events { @for event in &view.events { li { (event_line(event)) } } }
            }
        }
    }
}

/// What is left of the operation under way, or what could be begun.
fn next(stored: &StoredCluster, plans: &[ClusterPlan]) -> Markup {
    html! {
        section aria-labelledby="next" {
            h2 #next {
                @if stored.open.is_some() {
                    "What the running operation will still do"
                } @else {
                    "What the next operation would do"
                }
            }
            @if stored.requests.delete { p.cause { "Deletion was requested: the cluster will be terminated." } }
            @else if stored.requests.cancel { p.cause { "Cancellation was requested." } }
            @for plan in plans { (planned(plan)) }
            @if stored.open.is_none() {
                p.small {
                    "To see what other counts would do: "
                    code { "windlass cluster scale " (stored.cluster.name) " GROUP=COUNT --dry-run" }
                }
            }
        }
    }
}

fn planned(plan: &ClusterPlan) -> Markup {
    let nothing = plan.make.is_empty() && plan.remove.is_empty() && plan.hooks.is_empty();
    html! {
        h3 { @match plan.operation.as_ref() {
            "scale" => "Scale to its specification",
            "terminate" => "A termination",
            _ => "Its creation",
        } }
        @if nothing { p.none { "Nothing: everything is as its specification says." } } @else {
            ul {
                @if !plan.make.is_empty() { li { "makes " (plan.make.join(", ")) } }
                @if !plan.remove.is_empty() { li { "removes " (plan.remove.join(", ")) } }
                @for hook in &plan.hooks { li { (planned_hook(hook)) } }
            }
        }
    }
}

fn planned_hook(hook: &PlannedHook) -> Markup {
    let nodes: Vec<&str> = hook.plan.input.nodes.iter().map(|node| node.name.as_str()).collect();
    html! {
        "runs the " (hook.stage) " hook " code { (hook.hook) } " on " (nodes.join(", "))
        @if let Some(problem) = &hook.plan.problem { ": " strong { "it would fail, " (problem) } }
    }
}

/// Nodes, those of one stage together.
fn stages(nodes: &[Node]) -> BTreeMap<&'static str, usize> {
    let mut stages = BTreeMap::new();
    for node in nodes {
        *stages.entry(stage(node)).or_default() += 1;
    }
    stages
}

/// How far a node is on its way.
fn stage(node: &Node) -> &'static str {
    match node.state.into() {
        "running" if node.started => "started",
        "running" if node.configured => "configured",
        "running" => "running, hooks to come",
        other => other,
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
            state(node.state.into()),
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
fn event_line(event: &ClusterEvent) -> Markup {
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
