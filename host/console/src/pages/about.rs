//! What a row is about, and why, with links to it.

use maud::{Markup, html};
use serde_json::Value;
use windlass_inspect::words::why_words;
use windlass_lifecycle::{Operation, OperationId, OperationKind};
use windlass_policy::DecisionSummary;

use super::{encoded, operation_link};

/// A group's name, with its operations.
pub(super) fn group_link(group: &str) -> Markup {
    html! { a href={ "/operations?group=" (encoded(group)) } { (group) } }
}

/// The name of a machine, with what this page shows of it.
pub(super) fn host_link(page: &str, host: &str) -> Markup {
    html! { a href={ (page) "?host=" (encoded(host)) } { (host) } }
}

/// A policy's name, with its decisions.
pub(super) fn policy_link(name: &str) -> Markup {
    html! { a href={ "/decisions?policy=" (encoded(name)) } { (name) } }
}

/// The id or the name of something, with whatever names it.
pub(super) fn named(text: &str) -> Markup {
    html! { a.name href={ "/search?q=" (encoded(text)) } { (text) } }
}

/// What an operation is about, and whose that is.
pub(super) fn about(operation: &Operation) -> Markup {
    let word = |key: &str| {
        let word = operation.specification.get(key).and_then(Value::as_str);
        word.filter(|word| !word.is_empty())
    };
    let types = operation.specification.get("types").and_then(Value::as_array).into_iter().flatten();
    let types: Vec<&str> = types.filter_map(Value::as_str).collect();
    let object = operation.requested_by().and_then(|requested| requested.object);
    html! {
        @match operation.kind {
            OperationKind::CreateServer => {
                @match word("name") {
                    Some(name) => { "server " (named(name)) },
                    // It is named as its operation, which stands beside this.
                    None => { "server" @if !types.is_empty() { " of type " (types.join(" or ")) } },
                }
            },
            OperationKind::CleanupServer => {
                @match (word("creation").or(word("tagged")), word("server")) {
                    (Some(creation), _) if OperationId::parse(creation).is_ok() => {
                        "the server of " (operation_link(creation))
                    },
                    (_, Some(server)) => { "server " (named(server)) },
                    _ => { "a server" },
                }
            },
            OperationKind::Sweep => { "what nothing explains in " (operation.zone) },
            OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine => {
                "Mac " @if let Some(name) = word("claim").or(word("host")) { (named(name)) }
            },
        }
        @if let Some(object) = object { span.small { ", for " (object.kind) " " (object.namespace) "/" (object.name) } }
    }
}

/// What failed and is left, and what policies said; else who asked for it and why.
pub(super) fn why(operation: &Operation) -> Markup {
    let word = |key: &str| operation.specification.get(key).and_then(Value::as_str);
    let reason = operation.reasons.last().map(|reason| format!("“{reason}”"));
    let mut words: Vec<String> =
        Some(why_words(operation)).filter(|why| !why.is_empty()).into_iter().chain(reason).collect();
    if words.is_empty() {
        let requested = operation.requested_by().map(|requested| format!("requested by {requested}"));
        let asked = word("trigger").or_else(|| word("requested")).map(|word| format!("asked for by {word}"));
        words.extend(requested.or(asked));
    }
    html! { @if words.is_empty() { span.none { "no reason recorded" } } @else { (words.join(": ")) } }
}

/// What a decision is about, in these words, and whose that is.
pub(super) fn subject(decision: &DecisionSummary, words: &str) -> Markup {
    let question = &decision.question;
    let word = |path: &str| question.pointer(path).and_then(Value::as_str).filter(|word| !word.is_empty());
    let of_object = |key: &str| word(&format!("/subject/object/{key}"));
    let resources = question.get("resources").and_then(Value::as_array).into_iter().flatten();
    let mut servers = resources.filter(|resource| resource.get("kind").and_then(Value::as_str) == Some("server"));
    let server = servers.next().and_then(|resource| resource.get("id")?.as_str());
    let found = word("/machine/id").or(server).or_else(|| word("/subject/cluster"));
    let href = found.map(|name| format!("/search?q={}", encoded(name)));
    let href = href.or_else(|| word("/subject/group").map(|group| format!("/operations?group={}", encoded(group))));
    html! {
        @match (words, href) {
            ("", _) => { span.none { "not recorded" } },
            (words, Some(href)) => { a href=(href) { (words) } },
            (words, None) => { (words) },
        }
        @if let (Some(kind), Some(namespace), Some(name)) =
            (of_object("kind"), of_object("namespace"), of_object("name"))
        {
            div.small { "for " (kind) " " (namespace) "/" (name) }
        }
    }
}

/// Why a policy decided so; else why it was asked.
pub(super) fn reason(decision: &DecisionSummary) -> Markup {
    let asked = decision.question.pointer("/subject/why").and_then(Value::as_str).filter(|why| !why.is_empty());
    html! {
        @match (decision.reason.as_deref(), asked) {
            (Some(reason), _) => { "“" (reason) "”" },
            (None, Some(why)) => { "asked because " (why) },
            (None, None) => { span.none { "no reason given" } },
        }
    }
}
