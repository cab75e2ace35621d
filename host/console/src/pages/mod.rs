//! Pages, from data. All text is escaped by the templates; nothing here is put into a page as it is.

mod about;
#[cfg(feature = "clusters")]
mod clusters;
mod decisions;
mod now;
mod operations;
mod overview;
mod policies;
mod rehearsals;
mod search;

use std::time::Duration;

use maud::{DOCTYPE, Markup, html};
use serde::Serialize;
use windlass_inspect::text::{age, instant};
use windlass_inspect::words::human_duration;

#[cfg(feature = "clusters")]
pub(crate) use clusters::{cluster, clusters};
pub(crate) use decisions::{decision, decisions};
pub(crate) use now::now;
pub(crate) use operations::{operation, operations};
pub(crate) use policies::policies;
pub(crate) use rehearsals::rehearsals;
pub(crate) use search::search;

/// The look of pages.
pub(crate) const STYLE: &str = include_str!("../../assets/console.css");

/// Creates a server.
const CREATE: &str = "windlass server create --group ci --type DEV1-S --image ubuntu_noble";

/// The parts of the console, by path and title.
const PARTS: &[(&str, &str)] = &[
    ("/", "Now"),
    ("/operations", "Operations"),
    ("/decisions", "Decisions"),
    ("/policies", "Policies"),
    #[cfg(feature = "clusters")]
    ("/clusters", "Clusters"),
];

/// Where rehearsals are, in a console that shows them.
const REHEARSALS: (&str, &str) = ("/rehearsals", "Rehearsals");

/// How a page ends up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Served, with links; it is read again when something happens. The path of its part.
    Served {
        /// The path of its part.
        part: &'a str,
        /// Whether the console shows rehearsals.
        has_rehearsals: bool,
    },
    /// A file that stands alone.
    Alone,
}

/// A whole page.
pub(crate) fn page(title: &str, frame: Frame<'_>, state: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Windlass" }
                @match frame {
                    Frame::Served { .. } => {
                        link rel="stylesheet" href="/assets/console.css";
                        link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                        script src="/assets/live.js" defer {}
                    }
                    // The only thing that is not a text: it is ours, and holds nothing from outside.
                    Frame::Alone => { style { (maud::PreEscaped(STYLE)) } },
                }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header {
                    p.brand { "Windlass" }
                    @if let Frame::Served { part, has_rehearsals } = frame {
                        nav aria-label="Console" {
                            @for (path, title) in PARTS.iter().chain(has_rehearsals.then_some(&REHEARSALS)) {
                                a href=(path) aria-current=[(*path == part).then_some("page")] { (title) }
                            }
                        }
                    }
                    @if let Frame::Served { .. } = frame {
                        form.search role="search" action="/search" method="get" {
                            input type="search" name="q" aria-label="Search" maxlength="200"
                                placeholder="id, name, address, word";
                            button type="submit" { "Search" }
                        }
                    }
                    @if !state.is_empty() { p.state title="where the state is" { (state) } }
                }
                main #content { (content) }
            }
        }
    }
}

/// A page that needs nothing but itself, in the console's look.
#[must_use]
pub fn page_alone(title: &str, content: &Markup) -> String {
    page(title, Frame::Alone, "", content).into_string()
}

/// A page that says why there is none.
pub(crate) fn problem(title: &str, words: &[String]) -> Markup {
    html! {
        h1 { (title) }
        @for words in words { p { (words) } }
        p { a href="/" { "Back to the start page" } }
    }
}

/// What would be where nothing is, and the command that makes it.
fn empty(words: &str, command: &str) -> Markup {
    html! { p.none { (words) " " code { (command) } } }
}

/// An instant, and how long ago it was.
fn when(milliseconds: u64) -> Markup {
    html! { time datetime=(instant(milliseconds).replace(' ', "T")) title=(format!("{} ago", age(milliseconds))) {
        (instant(milliseconds))
    } }
}

fn took(milliseconds: u64) -> String {
    human_duration(Duration::from_millis(milliseconds))
}

/// A state, with a colour that its word alone decides: colour is never the only sign.
fn state(word: &str) -> Markup {
    let class = match word {
        "done" | "active" | "running" | "removed" | "decided" | "deciding" | "agreed" | "in force" | "same answer" => {
            "good"
        }
        "left" | "failed" | "error" | "suspended" | "differed" | "refused" | "not replaced" => "bad",
        "undone" | "unverified" | "kept" | "recovered" | "removing" | "another answer" | "replaced" => "warn",
        _ => "plain",
    };
    html! { span class={ "badge " (class) } { (word) } }
}

/// Facts, each with its name.
fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } } }
}

fn operation_link(id: &str) -> Markup {
    html! { a.id href={ "/operations/" (id) } { (id) } }
}

fn decision_link(id: &str) -> Markup {
    html! { a.id href={ "/decisions/" (id) } { (id) } }
}

/// A name as a part of a link.
fn encoded(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

/// A value in full, behind a click.
fn raw(title: &str, value: &impl Serialize) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { details { summary { (title) } pre tabindex="0" { (text) } } }
}

/// The link to what is older than a page.
fn older(href: Option<String>) -> Markup {
    html! { @if let Some(href) = href { p.pages { a href=(href) rel="next" { "Older" } } } }
}

/// A table that a narrow screen can move sideways.
fn table(label: &str, head: &[&str], rows: &[Vec<Markup>]) -> Markup {
    html! {
        div.table role="group" aria-label=(label) tabindex="0" {
            table {
                thead { tr { @for title in head { th scope="col" { (title) } } } }
                tbody { @for row in rows { tr { @for cell in row { td class=(room(cell)) { (cell) } } } } }
            }
        }
    }
}

/// How a cell keeps its room: a word or two stay on one line, and a sentence has some to stand in.
fn room(cell: &Markup) -> &'static str {
    let mut in_tag = false;
    let text = cell.0.chars().filter(|character| {
        let of_text = !in_tag && *character != '<';
        in_tag = match character {
            '<' => true,
            '>' => false,
            _ => in_tag,
        };
        of_text
    });
    match (cell.0.contains('<'), text.count()) {
        (false, 1..=20) => "short",
        (_, 60..) => "long",
        (_, 24..) => "some",
        _ => "other",
    }
}
