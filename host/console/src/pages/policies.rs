//! Policies: what is in force in each running host, and how it is doing.

use maud::{Markup, html};
use windlass_inspect::output::age;
use windlass_inspect::policies::{asked_words, state_words};
use windlass_policy::{LinkStatus, RunningHost};

use super::{state, table, when};

pub(crate) fn policies(hosts: &[RunningHost]) -> Markup {
    html! {
        h1 { "Policies" }
        @if hosts.is_empty() {
            p.none { "No host runs on this state directory. What its policies decided is under " a href="/decisions" { "Decisions" } "." }
        }
        @for host in hosts {
            section {
                h2 { (host.program) " " span.small { "process " (host.process) ", since " (when(host.started_at_ms)) } }
                @if host.status.lost_records > 0 { p.cause { (host.status.lost_records) " records of decisions were never written." } }
                @if host.status.dropped_records > 0 { p { (host.status.dropped_records) " old records made room for newer ones." } }
                (table(
                    &format!("Policies of process {}", host.process),
                    &["slot", "asked", "policy", "version", "component", "in place for", "is", "why", "says of itself"],
                    &host.status.links.iter().map(link).collect::<Vec<_>>(),
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
        html! { (link.policy.name) },
        html! { (link.policy.version) },
        html! { span.id title=(link.policy.component.to_string()) { (link.policy.component.short()) } },
        html! { (age(link.loaded_at_ms)) },
        state(&is),
        html! { (why) },
        html! { (link.summary) },
    ]
}
