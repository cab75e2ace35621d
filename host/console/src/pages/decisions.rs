//! Decisions: the list, and one with its question, who was asked, and what came of it.

use std::time::Duration;

use maud::{Markup, html};
use windlass_inspect::explain::{Brief, Explanation, rules_by_item};
use windlass_inspect::words::{human_duration, kind_word};
use windlass_policy::slots::SlotName;
use windlass_policy::{
    DecisionFilter, DecisionId, DecisionPage, DecisionRecord, DecisionSummary, LinkRecord, Outcome, Replay,
};

use super::about::{policy_link, reason, subject};
use super::{CREATE, empty, encoded, facts, older, raw, state, table, when};
use crate::read::DecisionView;

pub(crate) fn decisions(page: &DecisionPage, filter: &DecisionFilter) -> Markup {
    let mut query = filter.slot.map(|slot| format!("&slot={slot}")).unwrap_or_default();
    if filter.only_fallbacks {
        query.push_str("&failed=true");
    }
    if filter.only_removals {
        query.push_str("&removals=true");
    }
    if let Some(policy) = &filter.policy {
        query.push_str(&format!("&policy={}", encoded(policy)));
    }
    let of_some = filter.only_fallbacks || filter.only_removals || filter.policy.is_some();
    let of_all = filter.slot.is_none() && !of_some;
    html! {
        h1 { "Decisions" @if let Some(policy) = &filter.policy { " of policy " (policy) } }
        nav.filter aria-label="Slot" {
            a href="/decisions" aria-current=[of_all.then_some("true")] { "all" }
            @for slot in SlotName::ALL {
                a href={ "/decisions?slot=" (slot) } aria-current=[(filter.slot == Some(slot)).then_some("true")] {
                    (slot)
                }
            }
            a href="/decisions?failed=true" aria-current=[filter.only_fallbacks.then_some("true")] { "a policy failed" }
            a href="/decisions?removals=true" aria-current=[filter.only_removals.then_some("true")] { "removals" }
        }
        @if page.decisions.is_empty() {
            @if of_all && page.older.is_none() {
                (empty(
                    "No decisions. What policies decide about creations, failures and removals appears here. \
                     To create a server:",
                    CREATE,
                ))
            } @else {
                p.none { "None of these here." }
            }
        } @else {
            (list("Decisions", &page.decisions))
        }
        @if page.unreadable > 0 { p { (page.unreadable) " lines cannot be read and are left out." } }
        (older(page.older.map(|next| format!("/decisions?before={next}{query}"))))
    }
}

pub(super) fn list(label: &str, decisions: &[DecisionSummary]) -> Markup {
    let row = |decision: &DecisionSummary| {
        let brief = Brief::of(decision);
        vec![
            // The id would take a fifth of the row.
            html! { a.id href={ "/decisions/" (decision.id) } title=(decision.id) { (when(decision.at_ms)) } },
            html! { (decision.slot) },
            subject(decision, &brief.subject),
            html! {
                @if brief.verdict.is_empty() { span.none { "not recorded" } } @else { strong { (brief.verdict) } }
            },
            reason(decision),
            deciders(decision, &brief.deciders),
            html! { (human_duration(Duration::from_nanos(decision.duration_ns))) },
        ]
    };
    table(
        label,
        &["at", "slot", "subject", "verdict", "why", "decided by", "took"],
        &decisions.iter().map(row).collect::<Vec<_>>(),
    )
}

/// Who decided, with what else each of them did.
fn deciders(decision: &DecisionSummary, words: &[String]) -> Markup {
    let names: Vec<&str> = decision.deciders().map(|link| &*link.policy.name).collect();
    html! {
        @for (position, words) in words.iter().enumerate() {
            @if position > 0 { ", " }
            @match names.get(position).and_then(|name| Some((*name, words.strip_prefix(name)?))) {
                Some((name, rest)) => { (policy_link(name)) (rest) },
                None => { (words) },
            }
        }
        @if decision.is_fallback() { " " (state("failed")) }
    }
}

pub(crate) fn decision(view: &DecisionView) -> Markup {
    let DecisionView { record, around, of_slot, candidates, tried } = view;
    let reported = Explanation::of(record);
    html! {
        h1 { "Decision " span.id { (record.id) } }
        (facts(&[
            ("slot", html! { a href={ "/decisions?slot=" (record.slot) } { (record.slot) } }),
            ("at", when(record.at_ms)),
            ("decided by", html! { (record.decided_by) }),
            ("took", html! { (human_duration(Duration::from_nanos(record.duration_ns))) }),
        ]))
        (lines("Question", &reported.question))
        section {
            h2 { "Asked, in order" }
            @if record.asked.is_empty() { p.none { "Nobody." } }
            ol { @for asked in &record.asked { li { (link(asked)) } } }
        }
        (lines("Answer", &reported.answer))
        (lines("What the host did", &reported.host))
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
        (raw("The question as data", &record.question))
        (raw("The answer as data", &record.answer))
        (put_to(record, candidates.as_deref(), tried.as_ref()))
        section aria-labelledby="of-slot" {
            h2 #of-slot { "Around it, of the same slot" }
            (neighbours("Around it, of the same slot", record.id, of_slot))
        }
        section aria-labelledby="around" {
            h2 #around { "Around it, of all" }
            (neighbours("Around it, of all", record.id, around))
        }
    }
}

/// Those that came after it and before it.
fn neighbours(label: &str, id: DecisionId, found: &[DecisionSummary]) -> Markup {
    let (after, before): (Vec<_>, Vec<_>) = found.iter().cloned().partition(|one| one.id > id);
    html! {
        @if found.is_empty() { p.none { "There are none." } }
        @if !after.is_empty() { h3 { "after it" } (list(&format!("{label}: after it"), &after)) }
        @if !before.is_empty() { h3 { "before it" } (list(&format!("{label}: before it"), &before)) }
    }
}

/// The policies that it can be put to, and what one of them answers.
fn put_to(
    record: &DecisionRecord,
    candidates: Option<&[String]>,
    tried: Option<&(String, Result<Replay, String>)>,
) -> Markup {
    html! {
        section aria-labelledby="put-to" {
            h2 #put-to { "Ask another policy" }
            @match candidates {
                None => {
                    p {
                        "Start the console with " code { "--policies FOLDER" }
                        " to ask the policies of that folder, or run "
                        code { "windlass decision replay " (record.id) " --policy FILE" } "."
                    }
                },
                Some([]) => { p.none { "The folder has no file of a policy." } },
                Some(names) => {
                    p {
                        "The policy runs in the sandbox, with the recorded look-ups. "
                        "Nothing is recorded or changed."
                    }
                    ul.choices { @for name in names {
                        @let chosen = tried.is_some_and(|(tried, _)| tried == name);
                        li {
                            a href={ "/decisions/" (record.id) "?policy=" (encoded(name)) "#put-to" }
                            aria-current=[chosen.then_some("true")] { (name) }
                        }
                    } }
                }
            }
            @if let Some((name, answered)) = tried { (answer_of(record, name, answered)) }
        }
    }
}

fn answer_of(record: &DecisionRecord, name: &str, answered: &Result<Replay, String>) -> Markup {
    html! {
        h3 { (name) }
        @match answered {
            Err(why) => { p.cause { "This policy cannot be asked: " (why) } },
            Ok(replay) => {
                p {
                    (state(if replay.same { "same answer" } else { "another answer" }))
                    " decided by " (replay.decided_by)
                }
                @if !replay.differences.is_empty() {
                    ul { @for difference in &replay.differences { li { (difference) } } }
                }
                @for why in &replay.inconclusive { p { "Inconclusive: " (why) } }
                ol { @for asked in &replay.asked { li { (link(asked)) } } }
                div.sides {
                    div {
                        h4 { "Then" }
                        pre tabindex="0" role="region" aria-label="The answer then" { (pretty(&record.answer)) }
                    }
                    div {
                        h4 { "Now" }
                        pre tabindex="0" role="region" aria-label="The answer now" { (pretty(&replay.answer)) }
                    }
                }
            }
        }
    }
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn lines(title: &str, lines: &[String]) -> Markup {
    html! {
        section {
            h2 { (title) }
            @for line in lines { p.line { (line.replace("`--raw` has", "the data below have")) } }
        }
    }
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
        @if !asked.rules.is_empty() { " by " (asked.rule_words()) }
        span.small { " in " (human_duration(Duration::from_nanos(asked.duration_ns)))
            @if let Some(fuel) = asked.fuel { ", " (fuel) " fuel" }
            @if let Some(key) = asked.signed_by { ", signed by " (key) } }
        @for rule in rules_by_item(asked) { p.small { (rule) } }
        @if !asked.log.is_empty() {
            ul.log { @for line in &asked.log { li { (kind_word(&line.level)) ": " (line.message) } } }
        }
        @for call in &asked.host_calls {
            p.small { "looked up " (call.interface) "#" (call.function) @if call.refused { " (refused)" }
                @if call.redacted { " (without what looks like a secret)" } }
        }
    }
}
