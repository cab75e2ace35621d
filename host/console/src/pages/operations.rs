//! Operations: the list, and one with its steps, what failed, and how it was undone.

use maud::{Markup, html};
use windlass_inspect::text::ago;
use windlass_inspect::timeline::{End, Plan, Step, note_words};
use windlass_inspect::words::cause_words;
use windlass_lifecycle::{Operation, OperationFilter, OperationId, OperationState};

use super::about::{about, group_link, host_link, named, why};
use super::{CREATE, decision_link, empty, encoded, facts, older, operation_link, raw, state, table, took, when};
use crate::read::{OperationView, PlannedResource};

/// The states, in the order of the choice.
const STATES: [OperationState; 7] = [
    OperationState::Open,
    OperationState::Unverified,
    OperationState::Left,
    OperationState::Kept,
    OperationState::Undone,
    OperationState::Done,
    OperationState::Abandoned,
];
/// How wide a time line is, in its own units.
const WIDTH: u64 = 200;

/// `is_shared`: several machines share the journal.
pub(crate) fn operations(
    found: &[Operation],
    filter: &OperationFilter,
    next: Option<&OperationId>,
    is_shared: bool,
) -> Markup {
    let chosen = filter.states.first();
    let has_tenants = found.iter().any(|operation| operation.requested_by().is_some_and(|it| it.object().is_some()));
    // What can be asked for: the name of the field, what it is called, what is asked for, and whether there are any.
    let fields = [
        ("host", "Host", &filter.host, is_shared),
        ("group", "Group", &filter.group, true),
        ("tenant", "Tenant", &filter.tenant, has_tenants),
    ];
    let asked = fields.iter().filter_map(|(name, _, value, _)| Some(format!("&{name}={}", encoded(value.as_deref()?))));
    let asked: String = asked.collect();
    let is_asked = !asked.is_empty();
    let query = chosen.map(|state| format!("&state={state}")).unwrap_or_default() + &asked;
    html! {
        h1 {
            "Operations"
            @if let Some(host) = &filter.host { " on host " (host) }
            @if let Some(group) = &filter.group { " of group " (group) }
            @if let Some(tenant) = &filter.tenant { " of tenant " (tenant) }
        }
        nav.filter aria-label="State" {
            a href="/operations" aria-current=[(chosen.is_none() && !is_asked).then_some("true")] { "all" }
            @for state in STATES {
                a href={ "/operations?state=" (state) (asked) }
                aria-current=[(chosen == Some(&state)).then_some("true")] { (state) }
            }
        }
        form.filter action="/operations" method="get" {
            @if let Some(state) = chosen { input type="hidden" name="state" value=(state); }
            @for (name, label, value, is_known) in fields {
                @if is_known || value.is_some() {
                    label { (label) " " input name=(name) maxlength="253" value=[value.as_deref()]; }
                }
            }
            button type="submit" { "Filter" }
        }
        @match (found, chosen) {
            ([], _) if filter.group.is_some() => { p.none { "None of this group here." } },
            ([], _) if is_asked => { p.none { "None of these here." } },
            ([], None) => {
                (empty(
                    "No operations. Each creation and removal appears here with its steps. To create a server:",
                    CREATE,
                ))
            },
            ([], Some(state)) => { p.none { "No operation is " (state) "." } },
            _ => { (list(found)) },
        }
        (older(next.map(|next| format!("/operations?before={next}{query}"))))
    }
}

pub(super) fn list(operations: &[Operation]) -> Markup {
    // Only where machines share the journal.
    let has_hosts = operations.iter().any(|operation| operation.host.is_some());
    let host = |operation: &Operation| {
        let host = operation.host.as_deref().map(|host| host_link("/operations", host));
        has_hosts.then(|| host.unwrap_or_default())
    };
    let row = |operation: &Operation| {
        let mut row = vec![
            operation_link(operation.id.as_str()),
            html! { (operation.kind) },
            state(operation.state.as_str()),
            about(operation),
            why(operation),
            group_link(&operation.group),
            html! { (operation.zone) },
        ];
        row.extend(host(operation));
        row.extend([when(operation.created_at), html! { (operation.took().map(took).unwrap_or_default()) }]);
        row
    };
    let mut head = vec!["operation", "kind", "state", "about", "why", "group", "zone"];
    head.extend(has_hosts.then_some("host"));
    head.extend(["began", "took"]);
    table("Operations", &head, &operations.iter().map(row).collect::<Vec<_>>())
}

pub(crate) fn operation(view: &OperationView) -> Markup {
    let OperationView { operation, steps, plans } = view;
    let mut shown = vec![
        ("state", state(operation.state.as_str())),
        ("about", about(operation)),
        ("group", group_link(&operation.group)),
        ("zone", html! { (operation.zone) }),
        ("owner", html! { (operation.owner) }),
        (
            "process",
            html! {
                (operation.runner)
                @if let Some(host) = &operation.host { " on " (host_link("/operations", host)) }
            },
        ),
        ("began", html! { (when(operation.created_at)) " (" (ago(operation.created_at)) ")" }),
    ];
    if let Some(milliseconds) = operation.took() {
        shown.push(("took", html! { (took(milliseconds)) }));
    }
    if let Some(look_at) = operation.look_at.filter(|_| operation.state == OperationState::Unverified) {
        let why = "since a call whose answer was lost may still take effect";
        shown.push(("look again", html! { (when(look_at)) ", " (why) }));
    }
    if let Some(by) = &operation.ended_by {
        shown.push(("ended by", operation_link(by.as_str())));
    }
    if let Some(requested) = operation.requested_by() {
        shown.push(("requested by", html! { (requested) }));
        shown.extend(requested.decisions.iter().map(|id| ("decision", decision_link(&id.to_string()))));
    }
    html! {
        h1 { (operation.kind) " " span.id { (operation.id) } }
        (facts(&shown))
        @if let Some(cause) = &operation.cause { p.cause { strong { "Failed: " } (cause_words(cause)) } }
        @for reason in &operation.reasons { p.reason { "“" (reason) "”" } }
        section aria-labelledby="steps" { h2 #steps { "Steps" } (time_line(operation, steps)) }
        @for (plan, resources) in plans { (undoing(operation, plan, resources)) }
        @if let Some(report) = &operation.report { (outcome(report)) }
        (raw("What was asked for", &operation.specification))
        (raw("The policies with which it began", &operation.policies))
    }
}

fn time_line(operation: &Operation, steps: &[Step]) -> Markup {
    let end = steps.iter().filter_map(|step| step.ended.or(Some(step.began))).max().unwrap_or(operation.created_at);
    let span = end.saturating_sub(operation.created_at).max(1);
    let rows: Vec<_> = steps
        .iter()
        .map(|step| {
            vec![
                html! { (took(step.began.saturating_sub(operation.created_at))) },
                html! {
                    (step.name)
                    @if let Some(resource) = &step.resource {
                        div.small { (resource.kind) " " span.id { (named(&resource.id)) } }
                    }
                },
                bar(operation.created_at, span, step),
                html! {
                    @if let Some(ended) = step.ended.filter(|_| step.end != End::Note) {
                        (took(ended.saturating_sub(step.began)))
                    }
                },
                end_of(step),
            ]
        })
        .collect();
    html! {
        @if rows.is_empty() { p.none { "Nothing was begun yet." } } @else {
            (table("Steps", &["after", "step", "when", "took", "result"], &rows))
        }
    }
}

/// Where a step lies in the operation's time; each attempt that failed is a mark.
fn bar(began: u64, span: u64, step: &Step) -> Markup {
    let at = |time: u64| time.saturating_sub(began).min(span).saturating_mul(WIDTH) / span;
    let (from, to) = (at(step.began), at(step.ended.unwrap_or(began.saturating_add(span))));
    let class = match step.end {
        End::Open => "open",
        End::Done => "done",
        End::Failed => "failed",
        End::Note => "note",
    };
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " 10" } width=(WIDTH) height="10" aria-hidden="true" focusable="false" {
            rect.track x="0" y="4" width=(WIDTH) height="2" {}
            rect class=(class) x=(from.min(WIDTH - 2)) y="1" width=(to.saturating_sub(from).max(2)) height="8" {}
            @for attempt in &step.attempts {
                rect.attempt x=(at(attempt.at).min(WIDTH - 2)) y="0" width="2" height="10" {}
            }
        }
    }
}

fn end_of(step: &Step) -> Markup {
    html! {
        @match step.end {
            End::Open => { (state("open")) },
            End::Done => { (state("done")) },
            End::Failed => { (state("failed")) },
            End::Note => { span.small { (note_words(&step.name, &step.data)) } },
        }
        @if !step.attempts.is_empty() {
            ol.attempts { @for attempt in &step.attempts {
                li {
                    @if let Some(failure) = &attempt.failure { (failure.words()) }
                    @match attempt.wait {
                        Some(wait) => { " → again after " (took(wait)) },
                        None => { " → given up" },
                    }
                    @if let Some(reason) = &attempt.reason { ": “" (reason) "”" }
                    @if let Some(decision) = &attempt.decision { " (" (decision_link(decision)) ")" }
                }
            } }
        }
    }
}

/// The plan of an undo as a graph, and as a list for those who do not see it.
fn undoing(operation: &Operation, plan: &Plan, resources: &[PlannedResource]) -> Markup {
    let unknown = PlannedResource { kind: "resource".to_owned(), id: String::new() };
    let of = |position: usize| resources.get(position).unwrap_or(&unknown);
    html! {
        section {
            h2 { "How it is undone" }
            p {
                @if let Some(by) = &plan.decided_by { "Planned by " (by) }
                @if let Some(decision) = &plan.decision { " (" (decision_link(decision)) ")" }
                @if let Some(reason) = &plan.reason { ": “" (reason) "”" }
            }
            @if !plan.steps.is_empty() { (graph(operation, plan, &of)) }
            ol {
                @for step in &plan.steps {
                    @let resource = of(step.resource);
                    li {
                        (step.action) " " (resource.kind) " " span.id { (resource.id) }
                        @if !step.after.is_empty() {
                            ", after step "
                            (step.after.iter().map(|step| (step + 1).to_string()).collect::<Vec<_>>().join(", "))
                        }
                        " " (state(became(operation, &resource.id)))
                    }
                }
            }
        }
    }
}

/// What became of a resource.
fn became(operation: &Operation, id: &str) -> &'static str {
    let named = |list: &str| {
        let list = operation.report.as_ref().and_then(|report| report.get(list)?.as_array());
        list.into_iter().flatten().any(|one| {
            let one = one.get("resource").unwrap_or(one);
            one.get("id").and_then(|of| of.as_str()) == Some(id)
        })
    };
    ["removed", "kept", "left"].into_iter().find(|list| named(list)).unwrap_or("unknown")
}

fn graph<'r>(operation: &Operation, plan: &Plan, of: &impl Fn(usize) -> &'r PlannedResource) -> Markup {
    const BOX: (usize, usize) = (150, 40);
    const GAP: (usize, usize) = (50, 14);
    let depths = plan.depths();
    let mut rows = vec![0; plan.steps.len() + 1];
    let places: Vec<(usize, usize)> = depths
        .iter()
        .map(|depth| {
            let row = rows[*depth];
            rows[*depth] += 1;
            (depth * (BOX.0 + GAP.0), row * (BOX.1 + GAP.1))
        })
        .collect();
    let width = places.iter().map(|place| place.0).max().unwrap_or(0) + BOX.0;
    let height = places.iter().map(|place| place.1).max().unwrap_or(0) + BOX.1;
    html! {
        div.table role="group" aria-label="The plan as a graph" tabindex="0" {
            svg.graph viewBox={ "-2 -2 " (width + 4) " " (height + 4) } width=(width + 4) height=(height + 4)
                aria-hidden="true" {
                @for (step, place) in plan.steps.iter().zip(&places) {
                    @for before in step.after.iter().filter_map(|before| places.get(*before)) {
                        line x1=(before.0 + BOX.0) y1=(before.1 + BOX.1 / 2) x2=(place.0) y2=(place.1 + BOX.1 / 2) {}
                    }
                }
                @for (step, place) in plan.steps.iter().zip(&places) {
                    @let resource = of(step.resource);
                    g class=(became(operation, &resource.id)) {
                        rect x=(place.0) y=(place.1) width=(BOX.0) height=(BOX.1) rx="4" {}
                        text x=(place.0 + 8) y=(place.1 + 17) { (step.action) " " (resource.kind) }
                        text.id x=(place.0 + 8) y=(place.1 + 32) { (resource.id.chars().take(18).collect::<String>()) }
                    }
                }
            }
        }
    }
}

/// What was removed, kept and left.
fn outcome(report: &serde_json::Value) -> Markup {
    html! {
        section aria-labelledby="outcome" {
            h2 #outcome { "What became of it" }
            @for list in ["left", "kept", "removed"] {
                @let resources = report.get(list).and_then(|list| list.as_array());
                @if let Some(resources) = resources.filter(|list| !list.is_empty()) {
                    h3 { (state(list)) }
                    ul { @for one in resources {
                        @let resource = one.get("resource").unwrap_or(one);
                        @let word = |key: &str| resource.get(key).and_then(|word| word.as_str()).unwrap_or_default();
                        li {
                            (word("kind")) " " span.id { (word("id")) } " in " (word("zone"))
                            @if let Some(why) = one.get("why").and_then(|why| why.as_str()) { ": " (why) }
                        }
                    } }
                }
            }
        }
    }
}
