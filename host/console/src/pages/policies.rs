//! Policies: what is in force in each running host, how it came there, how it is doing and what it costs.

use std::time::Duration;

use maud::{Markup, html};
use windlass_inspect::text::{age, ago};
use windlass_inspect::words::{asked_words, human_duration, kind_word, state_words};
use windlass_lifecycle::PolicyHost;
use windlass_policy::{
    Activity, Agreement, FailureKind, LinkStatus, Mode, PolicyActivity, PolicyChange, PolicyEventKind, PolicyIdentity,
};

use super::about::policy_link;
use super::{CREATE, decision_link, empty, encoded, state, table, when};
use crate::read::PoliciesView;

pub(crate) fn policies(view: &PoliciesView) -> Markup {
    let PoliciesView { hosts, machines, machine, changes, activity } = view;
    html! {
        h1 { "Policies" @if let Some(machine) = machine { " on " (machine) } }
        @if !machines.is_empty() {
            nav.filter aria-label="Host" {
                a href="/policies" aria-current=[machine.is_none().then_some("true")] { "all" }
                @for name in machines {
                    a href={ "/policies?host=" (encoded(name)) }
                    aria-current=[(machine.as_ref() == Some(name)).then_some("true")] { (name) }
                }
            }
        }
        @if hosts.is_empty() {
            p.none {
                @match machine {
                    Some(machine) => { "No host runs on " (machine) ". " },
                    None => { "No host runs on this state directory. " },
                }
                "The policies of a running host appear here; "
                code { "windlass policy list" } " shows those that the next one loads. What policies decided is under "
                a href="/decisions" { "Decisions" } "."
            }
        }
        @for PolicyHost { machine, said_at, running: host } in hosts {
            section {
                h2 {
                    "In force in " (host.program)
                    @if let Some(machine) = machine { " on " (machine) }
                    " "
                    span.small {
                        "process " (host.process) ", since " (when(host.started_at_ms))
                        @if let Some(at) = said_at { ", as said " (ago(*at)) }
                    }
                }
                @if host.status.lost_records > 0 {
                    p.cause { (host.status.lost_records) " records of decisions were never written." }
                }
                @if host.status.dropped_records > 0 {
                    p { (host.status.dropped_records) " old records made room for newer ones." }
                }
                (table(
                    &format!("Policies of process {}", host.process),
                    &["slot", "asked", "policy", "version", "component/settings", "in place for", "is", "why",
                        "says of itself"],
                    &host.status.links.iter().map(link).collect::<Vec<_>>(),
                ))
            }
        }
        (did(activity))
        section aria-labelledby="changes" {
            h2 #changes { "Versions over time" }
            @if changes.is_empty() { p.none { "No host has put policies in place here." } } @else {
                p {
                    "What came into force, what was refused or suspended, newest first. A policy that is refused or "
                    "suspended changes nothing else: the last good one, or the next of the chain, decides."
                }
                (table(
                    "Versions over time",
                    &["at", "slot", "asked", "what happened", "policy", "component/settings", "why or from where",
                        "host"],
                    &changes.iter().map(change).collect::<Vec<_>>(),
                ))
            }
        }
    }
}

fn link(link: &LinkStatus) -> Vec<Markup> {
    let (is, why) = state_words(link);
    vec![
        html! { a href={ "/decisions?slot=" (link.slot) } { (link.slot) } },
        html! { (asked_words(link)) },
        policy_link(&link.policy.name),
        html! { (link.policy.version) },
        component(&link.policy),
        html! { (age(link.loaded_at_ms)) },
        state(&is),
        html! { (why) },
        html! { (link.summary) },
    ]
}

fn component(policy: &PolicyIdentity) -> Markup {
    let settings: String = policy.settings.to_string().chars().take(6).collect();
    html! { span.id title=(format!("component {}, settings {}", policy.component, policy.settings)) {
        (policy.component.short()) "/" (settings)
    } }
}

/// What they did lately: answers, failures, the brake, agreement as a shadow, time and fuel.
fn did(activity: &Activity) -> Markup {
    let shadows: Vec<&PolicyActivity> = activity.policies.iter().filter(|policy| !policy.compared.is_empty()).collect();
    let deciding: Vec<&PolicyActivity> = activity.policies.iter().filter(|policy| policy.asked > 0).collect();
    html! {
        section aria-labelledby="cost" {
            h2 #cost { "What each did and costs" }
            @match activity.since_ms {
                None => { (empty("Nothing was decided yet. Creating a server asks policies:", CREATE)) },
                Some(since) => {
                    p { "In the newest " (activity.decisions) " decisions, since " (when(since)) ". "
                        "The brake holds back an answer that would remove too many running servers at one look." }
                    (table(
                        "What each did and costs",
                        &["slot", "policy", "version", "asked", "decided", "deferred", "failed", "held by the brake",
                            "median", "19 of 20 within", "longest", "fuel, median", "last"],
                        &deciding.into_iter().map(cost).collect::<Vec<_>>(),
                    ))
                }
            }
        }
        @if !shadows.is_empty() {
            section aria-labelledby="shadows" {
                h2 #shadows { "Shadows: how often they agree with what was decided" }
                (table(
                    "Shadows",
                    &["slot", "policy", "version", "agreement", "agreed", "differed", "failed", "not comparable",
                        "not asked", "median"],
                    &shadows.into_iter().map(shadow).collect::<Vec<_>>(),
                ))
            }
        }
    }
}

fn duration(nanoseconds: u64) -> String {
    human_duration(Duration::from_nanos(nanoseconds))
}

fn cost(of: &PolicyActivity) -> Vec<Markup> {
    let braked = of.failed_by(FailureKind::Brake);
    let failed: Vec<String> = of.failed.iter().map(|(kind, count)| format!("{count} {}", kind_word(kind))).collect();
    vec![
        html! { a href={ "/decisions?slot=" (of.policy.slot) } { (of.policy.slot) } },
        policy_link(&of.policy.name),
        html! { (of.policy.version) " " (component(&of.policy)) },
        html! { (of.asked) },
        html! { (of.decided) },
        html! { (of.deferred) },
        html! { @if failed.is_empty() { "0" } @else { (state("failed")) " " (failed.join(", ")) } },
        html! { (braked) },
        html! { (duration(of.took.median)) },
        html! { (duration(of.took.most_of_20)) },
        html! { (duration(of.took.most)) },
        html! { @if let Some(fuel) = &of.fuel { (fuel.median) } @else { "not counted" } },
        decision_link(&of.last.to_string()),
    ]
}

fn shadow(of: &PolicyActivity) -> Vec<Markup> {
    let count = |agreement| of.compared.get(&agreement).copied().unwrap_or(0);
    let (agreed, differed) = (count(Agreement::Agreed), count(Agreement::Differed));
    let compared = agreed + differed;
    vec![
        html! { a href={ "/decisions?slot=" (of.policy.slot) } { (of.policy.slot) } },
        policy_link(&of.policy.name),
        html! { (of.policy.version) " " (component(&of.policy)) },
        html! {
            @if compared > 0 {
                (format!("{:.1} %", agreed as f64 * 100.0 / compared as f64)) " "
                meter min="0" max=(compared) value=(agreed) aria-label="agreement" {}
            }
        },
        html! { (agreed) },
        html! { (differed) },
        html! { (count(Agreement::Failed)) },
        html! { (count(Agreement::NotComparable)) },
        html! { (count(Agreement::NotAsked)) },
        html! { (duration(of.took.median)) },
    ]
}

/// What happened to a policy, in a word or two.
pub(super) fn event_word(what: &PolicyEventKind) -> &'static str {
    match what {
        PolicyEventKind::InForce { .. } => "in force",
        PolicyEventKind::Replaced { .. } => "replaced",
        PolicyEventKind::Refused { .. } => "refused",
        PolicyEventKind::Suspended { .. } => "suspended",
        PolicyEventKind::Resumed => "asked again",
        PolicyEventKind::Removed => "removed",
    }
}

fn change(change: &PolicyChange) -> Vec<Markup> {
    let reported = match &change.what {
        PolicyEventKind::InForce { source } => html! { "from " (source) },
        PolicyEventKind::Replaced { before, source } => {
            html! { "in the place of " (before.name) " " (before.version) " " (component(before)) ", from " (source) }
        }
        PolicyEventKind::Refused { why } | PolicyEventKind::Suspended { why } => html! { (why) },
        PolicyEventKind::Resumed | PolicyEventKind::Removed => html! {},
    };
    let place = change.position + 1;
    vec![
        when(change.at_ms),
        html! { a href={ "/decisions?slot=" (change.slot) } { (change.slot) } },
        html! { (place) @if change.mode == Mode::Shadow { " (shadow)" } },
        state(event_word(&change.what)),
        html! { (policy_link(&change.policy.name)) " " (change.policy.version) },
        component(&change.policy),
        reported,
        html! { (change.program) ", process " (change.process) },
    ]
}
