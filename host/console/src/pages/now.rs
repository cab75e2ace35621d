//! What is there now.

use std::collections::BTreeMap;

use maud::{Markup, html};
use windlass_inspect::output::age;
use windlass_lifecycle::{Operation, OperationKind, OperationState};

use super::{operation_link, state, table};
use crate::read::Now;

pub(crate) fn now(now: &Now) -> Markup {
    let count = |state| now.counts.get(&state).copied().unwrap_or(0);
    let more = if now.more_machines { "+" } else { "" };
    html! {
        h1 { "Now" }
        ul.figures {
            (figure(&format!("{}{more}", now.machines.len()), "machines, by the journal", None))
            (figure(&count(OperationState::Open).to_string(), "operations under way", Some("/operations?state=open")))
            (figure(
                &(count(OperationState::Left) + count(OperationState::Unverified)).to_string(),
                "that want to be looked at",
                Some("/operations?state=left"),
            ))
            (figure(&now.clusters.len().to_string(), "clusters", Some("/clusters")))
            (figure(&now.hosts.len().to_string(), "running hosts", Some("/policies")))
        }
        @if !now.unsettled.is_empty() {
            section aria-labelledby="unsettled" {
                h2 #unsettled { "Wants to be looked at" }
                p { "Something that should be gone is left, or a call whose answer was lost may still take effect. "
                    "The next start of a host, and " code { "windlass operation resume" } ", try again." }
                (table("Wants to be looked at", &["operation", "kind", "state", "zone", "age"], &rows(&now.unsettled)))
            }
        }
        section aria-labelledby="under-way" {
            h2 #under-way { "Under way" }
            @if now.under_way.is_empty() { p.none { "Nothing is being done." } } @else {
                (table(
                    "Under way",
                    &["operation", "kind", "group", "zone", "for", "last step", "is"],
                    &now.under_way.iter().map(|(operation, last)| vec![
                        operation_link(operation.id.as_str()),
                        html! { (operation.kind) },
                        html! { (operation.group) },
                        html! { (operation.zone) },
                        html! { (age(operation.created_at)) },
                        html! { @if let Some(last) = last { (last.step) } },
                        html! { @if let Some(last) = last { (last.phase.as_str()) ", " (age(last.at)) " ago" } },
                    ]).collect::<Vec<_>>(),
                ))
            }
        }
        section aria-labelledby="machines" {
            h2 #machines { "Machines" }
            @if now.machines.is_empty() { p.none { "There are none, as far as the journal knows." } } @else {
                p { @for (group, count) in groups(&now.machines) { span.badge.plain { (group) ": " (count) } " " } }
                (table(
                    "Machines",
                    &["made by", "kind", "name", "type", "group", "zone", "age"],
                    &now.machines.iter().map(machine).collect::<Vec<_>>(),
                ))
                @if now.more_machines { p { "The newest are listed." } }
            }
        }
        @if !now.clusters.is_empty() {
            section aria-labelledby="clusters" {
                h2 #clusters { "Clusters" }
                (super::clusters::list(&now.clusters))
            }
        }
    }
}

fn figure(number: &str, what: &str, href: Option<&str>) -> Markup {
    html! { li {
        @match href {
            Some(href) => { a href=(href) { strong { (number) } " " (what) } },
            None => { span { strong { (number) } " " (what) } },
        }
    } }
}

/// How many machines each group has.
fn groups(machines: &[Operation]) -> BTreeMap<&str, usize> {
    let mut groups = BTreeMap::new();
    for machine in machines {
        *groups.entry(machine.group.as_str()).or_default() += 1;
    }
    groups
}

fn machine(operation: &Operation) -> Vec<Markup> {
    let asked = &operation.specification;
    let word = |key: &str| asked.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let types = asked.get("types").and_then(|types| types.as_array());
    let types: Vec<&str> = types.into_iter().flatten().filter_map(|one| one.as_str()).collect();
    let kind = match operation.kind {
        OperationKind::AdoptMachine | OperationKind::OrderMachine => "Mac",
        _ => "server",
    };
    let server_type = if types.is_empty() { word("type") } else { types.join(" or ") };
    vec![
        operation_link(operation.id.as_str()),
        html! { (kind) },
        html! { (word("name")) (word("claim")) },
        html! { (server_type) },
        html! { (operation.group) },
        html! { (operation.zone) },
        html! { (age(operation.updated_at)) },
    ]
}

fn rows(operations: &[Operation]) -> Vec<Vec<Markup>> {
    let row = |operation: &Operation| {
        vec![
            operation_link(operation.id.as_str()),
            html! { (operation.kind) },
            state(operation.state.as_str()),
            html! { (operation.zone) },
            html! { (age(operation.created_at)) },
        ]
    };
    operations.iter().map(row).collect()
}
