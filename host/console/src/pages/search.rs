//! What a text names.

use maud::{Markup, html};

use super::{decision_link, encoded};
use crate::read::Search;

pub(crate) fn search(found: &Search) -> Markup {
    html! {
        h1 { "Search" @if !found.text.is_empty() { ": " (found.text) } }
        @if found.text.is_empty() {
            p.none {
                "Type an id, a name, an address or a word: of a server, a Mac, a resource, an operation, a decision, a "
                "group, a policy or a cluster."
            }
        } @else {
            @if found.is_empty() { p.none { "Nothing found." } }
            @if let Some((id, slot)) = &found.decision {
                section { h2 { "Decision" } p { (decision_link(&id.to_string())) " of the slot " (slot) } }
            }
            (clusters(found))
            @if !found.policies.is_empty() {
                section aria-labelledby="policies" {
                    h2 #policies { "Policies" }
                    ul { @for (slot, name) in &found.policies {
                        li { a href={ "/decisions?policy=" (encoded(name)) } { (name) } ", asked for " (slot) }
                    } }
                }
            }
            @if !found.operations.is_empty() {
                section aria-labelledby="operations" {
                    h2 #operations { "Operations" }
                    (super::operations::list(&found.operations))
                }
            }
            @if !found.decisions.is_empty() {
                section aria-labelledby="decisions" {
                    h2 #decisions { "Decisions" }
                    (super::decisions::list("Decisions", &found.decisions))
                }
            }
            p.small {
                "Ids are found in the whole journal; names and words in the newest " (Search::OPERATIONS)
                " operations and " (Search::DECISIONS) " decisions; addresses among the servers that exist. "
                "The newest " (Search::MAX_SHOWN) " of each are shown. "
                code { "windlass server show NAME" } " looks through the whole journal."
            }
        }
    }
}

#[cfg(feature = "clusters")]
fn clusters(found: &Search) -> Markup {
    html! {
        @if !found.clusters.is_empty() {
            section aria-labelledby="clusters" { h2 #clusters { "Clusters" } (super::clusters::list(&found.clusters)) }
        }
    }
}

#[cfg(not(feature = "clusters"))]
fn clusters(_: &Search) -> Markup {
    html! {}
}
