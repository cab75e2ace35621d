//! What is there now.

use std::collections::BTreeMap;

use maud::{Markup, html};
use windlass_inspect::text::age;
use windlass_lifecycle::{LastSweep, Operation, OperationState};

use super::about::{about, group_link, named, why};
use super::{decision_link, empty, operation_link, overview, state, table, took};
use crate::read::{Cost, Look, Machine, MachineState, Now, UnderWay};

pub(crate) fn now(now: &Now) -> Markup {
    let count = |state| now.counts.get(&state).copied().unwrap_or(0);
    let more = if now.more_machines { "+" } else { "" };
    let macs = now.machines.iter().filter(|machine| machine.is_mac).count();
    let unexplained: usize = now.sweeps.iter().map(|sweep| sweep.unexplained).sum();
    html! {
        h1 { "Now" }
        ul.figures {
            (figure(&format!("{}{more}", now.machines.len() - macs), "servers", Some("#machines")))
            (figure(&macs.to_string(), "Macs", Some("#machines")))
            (clusters_figure(now))
            @if let Some(cost) = &now.cost { (cost_figure(cost)) }
            (figure(&count(OperationState::Open).to_string(), "operations under way", Some("/operations?state=open")))
            (figure(
                &(count(OperationState::Left) + count(OperationState::Unverified)).to_string(),
                "need attention",
                Some("#unsettled"),
            ))
            (figure(&unexplained.to_string(), "unexplained", Some("#unexplained")))
            (figure(&now.hosts.len().to_string(), "running hosts", Some("/policies")))
        }
        (overview::needs_you(now))
        (overview::since_yesterday(&now.day, &now.deciding, now.cost.is_some()))
        (overview::groups(&now.machines, now.cost.is_some()))
        (overview::deciding(&now.deciding))
        section aria-labelledby="under-way" {
            h2 #under-way { "Under way" }
            @if now.under_way.is_empty() { p.none { "No operations are open." } } @else {
                (table(
                    "Under way",
                    &["operation", "kind", "about", "group", "zone", "for", "last step", "worker", "why"],
                    &now.under_way.iter().map(under_way).collect::<Vec<_>>(),
                ))
            }
        }
        section aria-labelledby="unsettled" {
            h2 #unsettled { "Needs attention" }
            @if now.unsettled.is_empty() { p.none { "No failed operations need attention." } } @else {
                p { "Something that should be gone is left, or a call whose answer was lost may still take effect. "
                    "The next start of a host, and " code { "windlass operation resume" } ", try again." }
                (table(
                    "Needs attention",
                    &["operation", "kind", "state", "about", "zone", "age", "why"],
                    &now.unsettled.iter().map(unsettled).collect::<Vec<_>>(),
                ))
            }
        }
        section aria-labelledby="unexplained" {
            h2 #unexplained { "Unexplained" }
            (sweeps(&now.sweeps))
        }
        section aria-labelledby="machines" {
            h2 #machines { "Servers and Macs" }
            @if now.machines.is_empty() {
                (empty("No servers or Macs in the journal. To create a server:", super::CREATE))
             } @else {
                (table(
                    "Servers and Macs",
                    &["made by", "what", "is", "name", "type", "group", "zone", "age", "€ an hour"],
                    &now.machines.iter().map(machine).collect::<Vec<_>>(),
                ))
                @if now.more_machines { p { "The newest are listed." } }
                @if now.cost.is_none() { p.small { "Without Scaleway's catalogue there are no prices here." } }
                @else {
                    p.small { "The sum covers servers only, not Macs, volumes and addresses: the console reads "
                        "no prices for them." }
                }
            }
        }
        @if !now.looks.is_empty() {
            section aria-labelledby="looks" {
                h2 #looks { "Last report to the autoscaler" }
                (table(
                    "Last report to the autoscaler",
                    &["group", "zone", "servers by Scaleway's state", "reported as", "oldest", "looked at", "decision"],
                    &now.looks.iter().map(look).collect::<Vec<_>>(),
                ))
            }
        }
        (clusters(now))
        @if let Some(elsewhere) = &now.elsewhere {
            section aria-labelledby="not-shown" {
                h2 #not-shown { "Not shown here" }
                p { (elsewhere.words) }
                @if !elsewhere.commands.is_empty() {
                    p { "Other credentials have journals of their own. Each of these shows one:" }
                    ul { @for command in &elsewhere.commands {
                        li { code { (command) } }
                    } }
                }
            }
        }
    }
}

#[cfg(feature = "clusters")]
fn clusters_figure(now: &Now) -> Markup {
    let what = if now.clusters.len() == 1 { "cluster" } else { "clusters" };
    figure(&now.clusters.len().to_string(), what, Some("/clusters"))
}

#[cfg(feature = "clusters")]
fn clusters(now: &Now) -> Markup {
    html! {
        section aria-labelledby="clusters" {
            h2 #clusters { "Clusters" }
            @if now.clusters.is_empty() {
                (super::clusters::none())
            } @else {
                (super::clusters::list(&now.clusters))
            }
        }
    }
}

#[cfg(not(feature = "clusters"))]
fn clusters_figure(_: &Now) -> Markup {
    html! {}
}

#[cfg(not(feature = "clusters"))]
fn clusters(_: &Now) -> Markup {
    html! {}
}

fn figure(number: &str, what: &str, href: Option<&str>) -> Markup {
    html! { li {
        @match href {
            Some(href) => { a href=(href) { strong { (number) } " " (what) } },
            None => { span { strong { (number) } " " (what) } },
        }
    } }
}

fn cost_figure(cost: &Cost) -> Markup {
    match (cost.priced, cost.unpriced) {
        // The catalogue was not read yet, or has none of them.
        (0, 1..) => figure("–", "an hour: no price is known yet", None),
        (_, 0) => figure(&euros(cost.hourly), "an hour, by the catalogue", None),
        (_, without) => {
            figure(&euros(cost.hourly), &format!("an hour, by the catalogue, {without} without a price"), None)
        }
    }
}

pub(super) fn euros(amount: f64) -> String {
    format!("{amount:.4} €")
}

/// What is being done, and why; or waits for the next start.
fn under_way(open: &UnderWay) -> Vec<Markup> {
    let UnderWay { operation, last, is_worked_on } = open;
    vec![
        operation_link(operation.id.as_str()),
        html! { (operation.kind) },
        about(operation),
        group_link(&operation.group),
        html! { (operation.zone) },
        html! { (age(operation.created_at)) },
        html! { @if let Some(last) = last { (last.step) ", " (last.phase.as_str()) " " (age(last.at)) " ago" } },
        html! { @if *is_worked_on { "alive" } @else { "dead: the next start takes it up" } },
        why(operation),
    ]
}

fn unsettled(operation: &Operation) -> Vec<Markup> {
    vec![
        operation_link(operation.id.as_str()),
        html! { (operation.kind) },
        state(operation.state.as_str()),
        about(operation),
        html! { (operation.zone) },
        html! { (age(operation.created_at)) },
        why(operation),
    ]
}

fn sweeps(sweeps: &[LastSweep]) -> Markup {
    let examples: Vec<Vec<Markup>> = sweeps
        .iter()
        .flat_map(|sweep| &sweep.examples)
        .map(|found| {
            vec![
                html! { (found.resource.kind) " " span.id { (named(&found.resource.id)) } },
                html! { (found.label) },
                html! { (found.state) },
                html! { (found.resource.zone) },
                html! { (found.why) },
                html! { @match &found.spared {
                    Some(spared) => { (spared) },
                    None => { "it only looked" },
                } },
            ]
        })
        .collect();
    let row = |sweep: &LastSweep| {
        vec![
            html! { (sweep.zone) },
            html! { (age(sweep.at)) " ago" @if sweep.dry_run { ", a look only" } },
            html! { (sweep.unexplained) },
            html! { (sweep.removed) },
            html! { (sweep.explained) },
            html! { (sweep.kept) },
        ]
    };
    html! {
        @if sweeps.is_empty() {
            p.none {
                "No sweep has run here; " code { "windlass sweep --dry-run" }
                " finds resources that the journal does not explain."
            }
        } @else {
            (table(
                "The last sweep of each zone",
                &["zone", "swept", "unexplained", "removed", "explained", "kept on purpose"],
                &sweeps.iter().map(row).collect::<Vec<_>>(),
            ))
            @if !examples.is_empty() {
                (table(
                    "Unexplained",
                    &["resource", "name", "is", "zone", "why nothing explains it", "why it is there still"],
                    &examples,
                ))
            }
        }
    }
}

fn look(look: &Look) -> Vec<Markup> {
    let counts = |counts: &BTreeMap<String, usize>| {
        counts.iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    };
    vec![
        html! { @match &look.group { Some(group) => { (group_link(group)) }, None => { "–" } } },
        html! { (look.zone) },
        html! { (counts(&look.states)) },
        html! { (counts(&look.reported)) },
        html! { @if look.oldest > 0 { (took(look.oldest)) } },
        html! { (age(look.at_ms)) " ago" },
        decision_link(&look.decision.to_string()),
    ]
}

fn machine(machine: &Machine) -> Vec<Markup> {
    let operation = &machine.operation;
    let asked = &operation.specification;
    let word = |key: &str| asked.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    let types = asked.get("types").and_then(|types| types.as_array());
    let types: Vec<&str> = types.into_iter().flatten().filter_map(|one| one.as_str()).collect();
    vec![
        operation_link(operation.id.as_str()),
        html! { @if machine.is_mac { "Mac" } @else { "server" } },
        html! { @match (machine.standing, &machine.removed_by) {
            (_, Some(by)) => { (state("removing")) " by " (operation_link(by.as_str())) },
            (MachineState::Creating, None) => { (state("creating")) },
            (_, None) => { (state("running")) },
        } },
        html! { @match (word("name").as_str(), word("claim").as_str()) {
            ("", "") => { (named(operation.id.as_str())) },
            (name, "") => { (named(name)) },
            (_, claim) => { (named(claim)) },
        } },
        html! { @match &machine.server_type {
            Some(server_type) => { (server_type) },
            None => { (types.join(" or ")) },
        } },
        group_link(&operation.group),
        html! { (operation.zone) },
        html! {
            @if machine.standing == MachineState::Creating { (age(operation.created_at)) }
            @else { (age(operation.updated_at)) }
        },
        html! { @if let Some(hourly) = machine.hourly { (euros(hourly)) } @else { "–" } },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_is_shown_before_a_price_is_known() {
        let unknown = cost_figure(&Cost { hourly: 0.0, priced: 0, unpriced: 2 }).into_string();
        assert!(!unknown.contains('€') && unknown.contains("no price is known yet"), "{unknown}");
        let known = cost_figure(&Cost { hourly: 0.25, priced: 1, unpriced: 1 }).into_string();
        assert!(known.contains("0.2500 €") && known.contains("1 without a price"), "{known}");
        let nothing = cost_figure(&Cost::default()).into_string();
        assert!(nothing.contains("0.0000 €"), "nothing costs nothing: {nothing}");
    }
}
