//! Decisions: the list, and one with its question, who was asked, and what came of it.

use std::time::Duration;

use maud::{Markup, html};
use windlass_inspect::explain::Explanation;
use windlass_inspect::words::{human_duration, kind_word};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionFilter, DecisionPage, DecisionSummary, LinkRecord, Outcome};

use super::{decision_link, facts, older, raw, state, table, when};
use crate::read::DecisionView;

pub(crate) fn decisions(page: &DecisionPage, filter: &DecisionFilter) -> Markup {
    let mut query = filter.slot.map(|slot| format!("&slot={slot}")).unwrap_or_default();
    if filter.only_fallbacks {
        query.push_str("&failed=true");
    }
    html! {
        h1 { "Decisions" }
        nav.filter aria-label="Slot" {
            a href="/decisions" aria-current=[(filter.slot.is_none() && !filter.only_fallbacks).then_some("true")] { "all" }
            @for slot in SlotName::ALL {
                a href={ "/decisions?slot=" (slot) } aria-current=[(filter.slot == Some(slot)).then_some("true")] { (slot) }
            }
            a href="/decisions?failed=true" aria-current=[filter.only_fallbacks.then_some("true")] { "a policy failed" }
        }
        @if page.decisions.is_empty() { p.none { "There are none here." } } @else { (list("Decisions", &page.decisions)) }
        @if page.unreadable > 0 { p { (page.unreadable) " lines cannot be read and are left out." } }
        (older(page.older.map(|next| format!("/decisions?before={next}{query}"))))
    }
}

fn list(label: &str, decisions: &[DecisionSummary]) -> Markup {
    let row = |decision: &DecisionSummary| {
        let by: Vec<String> = decision.asked.iter().map(|asked| asked.policy.name.to_string()).collect();
        vec![
            decision_link(&decision.id.to_string()),
            when(decision.at_ms),
            html! { (decision.slot) },
            html! { (by.join(", ")) @if decision.is_fallback() { " " (state("failed")) } },
            html! { (human_duration(Duration::from_nanos(decision.duration_ns))) },
            html! { (decision.reason.as_deref().unwrap_or_default()) },
        ]
    };
    table(label, &["decision", "at", "slot", "asked", "took", "reason"], &decisions.iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn decision(view: &DecisionView) -> Markup {
    let DecisionView { record, before, of_slot } = view;
    let told = Explanation::of(record);
    html! {
        h1 { "Decision " span.id { (record.id) } }
        (facts(&[
            ("slot", html! { a href={ "/decisions?slot=" (record.slot) } { (record.slot) } }),
            ("at", when(record.at_ms)),
            ("decided by", html! { (record.decided_by) }),
            ("took", html! { (human_duration(Duration::from_nanos(record.duration_ns))) }),
        ]))
        (lines("Question", &told.question))
        section {
            h2 { "Asked, in order" }
            @if record.asked.is_empty() { p.none { "Nobody." } }
            ol { @for asked in &record.asked { li { (link(asked)) } } }
        }
        (lines("Answer", &told.answer))
        (lines("What the host did", &told.host))
        @if !record.shadows.is_empty() {
            section {
                h2 { "Shadows, asked afterwards" }
                ul { @for shadow in &record.shadows {
                    li {
                        (state(shadow.agreement.as_str())) " " (link(&shadow.asked))
                        @if let Some(answer) = &shadow.answer { (raw("its answer", answer)) }
                    }
                } }
            }
        }
        p { "To put it to another policy: " code { "windlass decision replay " (record.id) " --policy FILE" } }
        (raw("The question as data", &record.question))
        (raw("The answer as data", &record.answer))
        @if !of_slot.decisions.is_empty() {
            section { h2 { "Before it, of this slot" } (list("Before it, of this slot", &of_slot.decisions)) }
        }
        @if !before.decisions.is_empty() {
            section { h2 { "Before it, of all" } (list("Before it, of all", &before.decisions)) }
        }
    }
}

fn lines(title: &str, lines: &[String]) -> Markup {
    html! { section { h2 { (title) } @for line in lines { p.line { (line) } } } }
}

/// A policy's part.
fn link(asked: &LinkRecord) -> Markup {
    html! {
        strong { (asked.policy.name) } " " (asked.policy.version) " " span.id { (asked.policy.component.short()) } " "
        @match &asked.outcome {
            Outcome::Decided => { (state("decided")) },
            Outcome::DecidedPart { deferred } => { (state("decided")) " all but " (deferred) },
            Outcome::Deferred => { (state("deferred")) },
            Outcome::Fallback { kind, reason } => { (state("failed")) " (" (kind_word(kind)) "): " (reason) },
        }
        span.small { " in " (human_duration(Duration::from_nanos(asked.duration_ns)))
            @if let Some(fuel) = asked.fuel { ", " (fuel) " fuel" } }
        @if !asked.log.is_empty() {
            ul.log { @for line in &asked.log { li { (kind_word(&line.level)) ": " (line.message) } } }
        }
        @for call in &asked.host_calls {
            p.small { "looked up " (call.interface) "#" (call.function) @if call.refused { " (refused)" }
                @if call.redacted { " (without what looks like a secret)" } }
        }
    }
}
