//! The first page at one look: what needs a person, what happened since yesterday, and what there is.

use std::collections::BTreeMap;

use maud::{Markup, html};
use windlass_inspect::text::instant;
use windlass_inspect::words::{counted, state_words};
use windlass_policy::PolicyEventKind;

use super::about::{about, group_link, policy_link, why};
use super::policies::event_word;
use super::{operation_link, state, table, when};
use crate::read::{Asked, Day, Deciding, Hour, Machine, MachineState, Now};

/// Things of one kind that are listed.
const MOST: usize = 5;
/// The size of a plot, in its own units. It is stretched to the room that there is.
const WIDTH: usize = 10;
const HEIGHT: usize = 600;

/// What a person has to look at, the worst first.
pub(super) fn needs_you(now: &Now) -> Markup {
    let mut items: Vec<Markup> = Vec::new();
    items.extend(now.moved.as_ref().map(|moved| {
        html! {
            (state("error")) " This state directory is not where its history took place: " (moved) ". Nothing is "
            "changed with it. See " code { "windlass state show" } " and " code { "windlass state take-over" } "."
        }
    }));
    for operation in now.unsettled.iter().take(MOST) {
        items.push(html! {
            (state(operation.state.as_str())) " " (operation_link(operation.id.as_str())) ", " (about(operation)) ": "
            (why(operation))
        });
    }
    if now.unsettled.len() > MOST {
        items.push(html! {
            a href="#unsettled" { "and " (counted(now.unsettled.len() - MOST, "more operation")) }
        });
    }
    for open in now.under_way.iter().filter(|open| !open.is_worked_on).take(MOST) {
        items.push(html! {
            (state("open")) " " (operation_link(open.operation.id.as_str())) ", " (about(&open.operation))
            ": no process works on it. " code { "windlass operation resume" } " finishes or undoes it."
        });
    }
    for host in &now.hosts {
        if host.status.lost_records > 0 {
            let lost = host.status.lost_records;
            items.push(html! { (state("failed")) " " (host.program) " lost " (lost) " records of decisions." });
        }
        let failing =
            |link: &&windlass_policy::LinkStatus| link.suspended || link.failures_in_a_row > 0 || link.error.is_some();
        for link in host.status.links.iter().filter(failing).take(MOST) {
            let (is, why) = state_words(link);
            items.push(html! {
                (state(&is)) " policy " (policy_link(&link.policy.name)) " of the slot "
                a href="/policies" { (link.slot) } ": " (why)
            });
        }
    }
    for sweep in now.sweeps.iter().filter(|sweep| sweep.unexplained > 0) {
        items.push(html! {
            (state("left")) " " a href="#unexplained" { (counted(sweep.unexplained, "resource")) }
            " that nothing explains in " (sweep.zone) ". " code { "windlass sweep" } " asks and deletes."
        });
    }
    items.extend(clusters(now));
    html! {
        section aria-labelledby="needs-you" {
            h2 #needs-you { "What needs you" }
            @if items.is_empty() { p.none { (state("done")) " Nothing." } } @else {
                ul.needs { @for item in &items { li { (item) } } }
            }
        }
    }
}

#[cfg(feature = "clusters")]
fn clusters(now: &Now) -> Vec<Markup> {
    let wrong = now.clusters.iter().filter(|stored| {
        let state: &str = stored.cluster.state.into();
        state == "error" || !stored.cluster.left.is_empty()
    });
    wrong
        .map(|stored| {
            let cluster = &stored.cluster;
            let why: Vec<&str> = cluster.reasons.iter().chain(&cluster.left).map(String::as_str).collect();
            html! {
                (state(cluster.state.into())) " cluster " a href={ "/clusters/" (cluster.name) } { (cluster.name) } ": "
                (why.join("; "))
            }
        })
        .collect()
}

#[cfg(not(feature = "clusters"))]
fn clusters(_: &Now) -> Vec<Markup> {
    Vec::new()
}

/// What happened in the last 24 hours.
pub(super) fn since_yesterday(day: &Day) -> Markup {
    html! {
        section aria-labelledby="day" {
            h2 #day { "The last 24 hours" }
            @if let Some(since) = day.since {
                p.small { "Only the newest operations are counted, those since " (when(since)) "." }
            }
            div.plots {
                (plot("created", "Creations", &day.hours, ("created", |hour| hour.created),
                    ("failed or cancelled", |hour| hour.not_created)))
                (plot("removed", "Removals", &day.hours, ("removed", |hour| hour.removed),
                    ("with something left", |hour| hour.not_removed)))
            }
            @if !day.causes.is_empty() {
                h3 { "Why creations failed" }
                ul { @for cause in &day.causes {
                    li { (cause.count) " × " (cause.words) ", the newest: " (operation_link(cause.last.as_str())) }
                } }
            }
            @if !day.changes.is_empty() {
                h3 { "How policies changed" }
                ul { @for change in &day.changes {
                    li {
                        (when(change.at_ms)) " " (policy_link(&change.policy.name)) " of the slot "
                        a href="/policies" { (change.slot) } " " (state(event_word(&change.what)))
                        @match &change.what {
                            PolicyEventKind::Replaced { before, .. } => { " " (before.name) " " (before.version) },
                            PolicyEventKind::Refused { why } | PolicyEventKind::Suspended { why } => { " " (why) },
                            _ => {},
                        }
                    }
                } }
            }
        }
    }
}

type Counted = (&'static str, fn(&Hour) -> usize);

/// Two counts of each hour: what went well above the line, and what did not below it.
fn plot(id: &str, title: &str, hours: &[Hour], well: Counted, badly: Counted) -> Markup {
    let sum = |(_, count): Counted| hours.iter().map(count).sum::<usize>();
    let most = |(_, count): Counted| hours.iter().map(count).max().unwrap_or(0);
    let (most_well, most_badly) = (most(well), most(badly));
    let units = (most_well + most_badly).max(1);
    let middle = most_well * HEIGHT / units;
    let summary = format!("{} {}, {} {}", sum(well), well.0, sum(badly), badly.0);
    let hour_of = |hour: &Hour| instant(hour.from).get(11..16).unwrap_or_default().to_owned();
    let words = |hour: &Hour| format!("{} {}, {} {}", (well.1)(hour), well.0, (badly.1)(hour), badly.0);
    let some: Vec<&Hour> = hours.iter().filter(|hour| (well.1)(hour) + (badly.1)(hour) > 0).collect();
    html! {
        figure.plot {
            figcaption {
                strong { (title) } " "
                span.small { (sum(well)) " " (well.0) " ↑, " (sum(badly)) " " (badly.0) " ↓" }
            }
            @if some.is_empty() { p.none { "None." } } @else {
                svg.hours viewBox={ "0 0 " (hours.len() * WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-labelledby={ (id) "-title " (id) "-words" } {
                    title id={ (id) "-title" } { (title) " in each of the last 24 hours" }
                    desc id={ (id) "-words" } { (summary) "; at most " (most_well) " and " (most_badly) " in an hour" }
                    @for (position, hour) in hours.iter().enumerate() {
                        @let (up, down) = ((well.1)(hour) * HEIGHT / units, (badly.1)(hour) * HEIGHT / units);
                        g {
                            title { (hour_of(hour)) " UTC: " (words(hour)) }
                            rect.hour x=(position * WIDTH) y="0" width=(WIDTH) height=(HEIGHT) {}
                            rect.done x=(position * WIDTH + 1) y=(middle - up) width=(WIDTH - 2) height=(up) {}
                            rect.failed x=(position * WIDTH + 1) y=(middle) width=(WIDTH - 2) height=(down) {}
                        }
                    }
                    rect.line x="0" y=(middle.clamp(4, HEIGHT - 4) - 4) width=(hours.len() * WIDTH) height="8" {}
                }
                p.axis.small {
                    @for hour in hours.iter().step_by(6) { span { (hour_of(hour)) } }
                    span { "now (UTC)" }
                }
                details {
                    summary { (title) " as a table" }
                    (table(title, &["hour (UTC)", well.0, badly.0], &some.iter().map(|hour| vec![
                        when(hour.from),
                        html! { ((well.1)(hour)) },
                        html! { ((badly.1)(hour)) },
                    ]).collect::<Vec<_>>()))
                }
            }
        }
    }
}

/// Shares of a whole, side by side. Whatever they say stands beside them as text.
fn shares(parts: &[(&'static str, usize)], whole: usize) -> Markup {
    let at = |count: usize| count * 1000 / whole.max(1);
    html! {
        svg.share viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (position, (class, part)) in parts.iter().enumerate() {
                @let before: usize = parts[..position].iter().map(|(_, part)| part).sum();
                rect class=(class) x=(at(before)) y="0" width=(at(*part)) height="10" {}
            }
        }
    }
}

/// Machines by group and state, and what those of a group cost.
pub(super) fn groups(machines: &[Machine], with_prices: bool, euros: impl Fn(f64) -> String) -> Markup {
    #[derive(Default)]
    struct Group {
        creating: usize,
        running: usize,
        removing: usize,
        hourly: Option<f64>,
    }
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for machine in machines {
        let group = groups.entry(machine.operation.group.as_str()).or_default();
        match machine.standing {
            MachineState::Creating => group.creating += 1,
            MachineState::Running => group.running += 1,
            MachineState::Removing => group.removing += 1,
        }
        if let Some(hourly) = machine.hourly {
            group.hourly = Some(group.hourly.unwrap_or(0.0) + hourly);
        }
    }
    let most = groups.values().map(|group| group.creating + group.running + group.removing).max().unwrap_or(0);
    let row = |(name, group): (&&str, &Group)| {
        let mut row = vec![
            group_link(name),
            shares(&[("done", group.running), ("open", group.creating), ("attempt", group.removing)], most),
            html! { (group.running) },
            html! { (group.creating) },
            html! { (group.removing) },
        ];
        if with_prices {
            row.push(html! { @match group.hourly { Some(hourly) => { (euros(hourly)) }, None => { "–" } } });
        }
        row
    };
    let mut head = vec!["group", "share", "running", "creating", "removing"];
    head.extend(with_prices.then_some("an hour"));
    html! {
        @if !groups.is_empty() {
            section aria-labelledby="groups" {
                h2 #groups { "Servers and Macs by group" }
                (table("Servers and Macs by group", &head, &groups.iter().map(row).collect::<Vec<_>>()))
            }
        }
    }
}

/// The newest decisions, by policy.
pub(super) fn deciding(deciding: &Deciding) -> Markup {
    let most = deciding.policies.values().map(Asked::sum).max().unwrap_or(0);
    let rows: Vec<_> = deciding
        .policies
        .iter()
        .map(|((slot, name), asked)| {
            vec![
                policy_link(name),
                html! { a href={ "/decisions?slot=" (slot) } { (slot) } },
                shares(&[("done", asked.decided), ("note", asked.deferred), ("failed", asked.failed)], most),
                html! { (asked.decided) },
                html! { (asked.deferred) },
                html! { (asked.failed) },
            ]
        })
        .collect();
    html! {
        @if let Some(since) = deciding.since {
            section aria-labelledby="deciding" {
                h2 #deciding { "Decisions by policy" }
                p.small { "The newest " (counted(deciding.decisions, "decision")) ", since " (when(since)) "." }
                (table(
                    "Decisions by policy",
                    &["policy", "slot", "share", "decided", "deferred", "failed"],
                    &rows,
                ))
            }
        }
    }
}

impl Asked {
    fn sum(&self) -> usize {
        self.decided + self.deferred + self.failed
    }
}
