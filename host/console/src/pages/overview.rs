//! The first page at one look: what needs a person, what happened since yesterday, and what there is.

use std::collections::BTreeMap;

use maud::{Markup, html};
use windlass_inspect::text::instant;
use windlass_inspect::words::{counted, kind_word, state_words};
use windlass_policy::{DecisionSummary, Outcome, PolicyEventKind};

use super::about::{about, group_link, host_link, policy_link, why};
use super::now::euros;
use super::policies::event_word;
use super::{CREATE, decision_link, empty, operation_link, state, table, when};
use crate::read::{
    Asked, Day, Deciding, Hour, Incident, Level, Machine, MachineState, Now, SPANS_OF_HOUR, What, failures_of,
};

/// Things of one kind that are listed.
const MAX_SHOWN: usize = 5;
/// Incidents that are listed.
const MAX_INCIDENTS: usize = 30;
/// The size of a plot, in its own units, its width for each span. It is stretched to the room that there is.
const WIDTH: usize = 10;
const HEIGHT: usize = 600;

/// What a person has to look at, the worst first.
pub(super) fn needs_you(now: &Now) -> Markup {
    let mut items: Vec<Markup> = Vec::new();
    items.extend(now.moved.as_ref().map(|moved| {
        html! {
            (state("error")) " The state directory cannot be relied on: " (moved) ". Windlass changes "
            "nothing with it. See " code { "windlass state show" } " and " code { "windlass state take-over" } "."
        }
    }));
    for operation in now.unsettled.iter().take(MAX_SHOWN) {
        items.push(html! {
            (state(operation.state.as_str())) " " (operation_link(operation.id.as_str())) ", " (about(operation)) ": "
            (why(operation))
        });
    }
    if now.unsettled.len() > MAX_SHOWN {
        items.push(html! {
            a href="#unsettled" { "and " (counted(now.unsettled.len() - MAX_SHOWN, "more operation")) }
        });
    }
    for open in now.under_way.iter().filter(|open| !open.is_worked_on).take(MAX_SHOWN) {
        items.push(html! {
            (state("open")) " " (operation_link(open.operation.id.as_str())) ", " (about(&open.operation))
            ": no process works on it. " code { "windlass operation resume" } " finishes or undoes it."
        });
    }
    for host in &now.hosts {
        let running = &host.running;
        if running.status.lost_records > 0 {
            let lost = running.status.lost_records;
            let on = host.machine.as_ref().map(|machine| format!(" on {machine}")).unwrap_or_default();
            items.push(html! { (state("failed")) " " (running.program) (on) " lost " (lost) " records of decisions." });
        }
        let failing =
            |link: &&windlass_policy::LinkStatus| link.suspended || link.failures_in_a_row > 0 || link.error.is_some();
        for link in running.status.links.iter().filter(failing).take(MAX_SHOWN) {
            let (is, why) = state_words(link);
            items.push(html! {
                (state(&is)) " policy " (policy_link(&link.policy.name)) " of the slot "
                a href="/policies" { (link.slot) }
                @if let Some(machine) = &host.machine { " on " (host_link("/policies", machine)) }
                ": " (why)
            });
        }
    }
    for sweep in now.sweeps.iter().filter(|sweep| sweep.unexplained > 0) {
        items.push(html! {
            (state("left")) " " a href="#unexplained" { (counted(sweep.unexplained, "resource")) }
            " in " (sweep.zone) " that the journal does not explain. " code { "windlass sweep" }
            " lists them and asks before it deletes them."
        });
    }
    items.extend(clusters(now));
    html! {
        section aria-labelledby="needs-you" {
            h2 #needs-you { "Needs your attention" }
            @if items.is_empty() { p.none { (state("done")) " Nothing needs your attention." } } @else {
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
pub(super) fn since_yesterday(day: &Day, deciding: &Deciding, with_prices: bool) -> Markup {
    let sum = |count: fn(&Hour) -> usize| day.hours.iter().map(count).sum::<usize>();
    html! {
        section aria-labelledby="day" {
            h2 #day { "The last 24 hours" }
            @if day.is_empty() {
                (empty(
                    "Nothing happened. Servers by state, creations, failures, cost, decisions and incidents appear \
                     here, hour by hour. To create a server:",
                    CREATE,
                ))
            } @else {
                p {
                    (sum(|hour| hour.created)) " created, " (sum(|hour| hour.not_created)) " failed or cancelled, "
                    (sum(|hour| hour.removed)) " removed. "
                    @if day.incidents.is_empty() { "No incidents." } @else {
                        a href="#incidents" { (counted(day.incidents.iter().map(|one| one.count).sum(), "incident")) }
                        "."
                    }
                }
                (axis(day))
                div.plots {
                    (levels("servers", "Servers and Macs", day, &[
                        ("done", "running", &|level| level.running as f64),
                        ("open", "creating", &|level| level.creating as f64),
                        ("attempt", "removing", &|level| level.removing as f64),
                    ], &|count| format!("{count:.0}"), &html! { "." }))
                    (bars("created", "Creations", day, ("created", |hour| hour.created),
                        ("failed or cancelled", |hour| hour.not_created)))
                    (bars("removed", "Removals", day, ("removed", |hour| hour.removed),
                        ("with something left", |hour| hour.not_removed)))
                    @if with_prices { (cost(day)) } @else {
                        figure.plot {
                            figcaption { strong { "Cost" } }
                            p.none {
                                "Cost per hour appears here where Scaleway's list of prices can be read, which needs "
                                "credentials: " code { "windlass doctor" } " checks them."
                            }
                        }
                    }
                    (bars("decided", "Decisions", day, ("decided", |hour| hour.decided),
                        ("with a policy that failed", |hour| hour.not_decided)))
                }
                @if let Some(since) = deciding.since.filter(|since| day.hours.iter().any(|hour| hour.from < *since)) {
                    p.small { "Decisions are the newest " (deciding.decisions) ", since " (when(since)) "." }
                }
                (hours_as_table(day, with_prices))
                (incidents(day))
            }
            @if !day.causes.is_empty() {
                h3 { "Why creations failed" }
                ul { @for cause in &day.causes {
                    li { (cause.count) " × " (cause.words) ", the newest: " (operation_link(cause.last.as_str())) }
                } }
                @if day.more_failures { p.small { "Of each state, the newest 200 operations are counted." } }
            }
            @if !day.changes.is_empty() {
                h3 { "How policies changed" }
                ul { @for change in &day.changes {
                    li {
                        (when(change.at_ms)) " " (policy_link(&change.policy.name)) " of the slot "
                        a href="/policies" { (change.slot) } " " (state(event_word(&change.what)))
                        @if let PolicyEventKind::Replaced { before, .. } = &change.what {
                            " " (before.name) " " (before.version)
                        }
                    }
                } }
            }
        }
    }
}

/// An hour of the day, as `14:00`.
fn clock(hour: &Hour) -> String {
    instant(hour.from).get(11..16).unwrap_or_default().to_owned()
}

/// The incidents at their places in time, each linked to its operation or decision.
fn axis(day: &Day) -> Markup {
    let mark = |hour: &Hour| {
        let of_hour: Vec<(usize, &Incident)> = day.incidents_of(hour).collect();
        let count = day.count_incidents(hour);
        let href = match of_hour.as_slice() {
            [] => return html! {},
            [(_, Incident { count: 1, what, .. })] => href_of(what),
            [(place, _), ..] if *place < MAX_INCIDENTS => format!("#incident-{place}"),
            _ => "#incidents".to_owned(),
        };
        let shown = if count > 9 { "9+".to_owned() } else { count.to_string() };
        let at = clock(hour);
        let title = format!("{at} UTC: {}", counted(count, "incident"));
        // The accessible name contains the visible text, as WCAG 2.5.3 requires.
        let label = format!("{at} UTC, incidents: {shown}");
        html! { a href=(href) title=(title) aria-label=(label) { (shown) } }
    };
    html! {
        @if !day.incidents.is_empty() {
            figure.plot {
                figcaption { strong { "Incidents" } " " span.small { "by hour" } }
                div.marks role="group" aria-label="Incidents by hour" {
                    @for hour in &day.hours { div { (mark(hour)) } }
                }
                (hours_of_axis(day))
            }
        }
    }
}

fn href_of(what: &What) -> String {
    match what {
        What::Operation(operation) => format!("/operations/{}", operation.id),
        What::Decision(decision) => format!("/decisions/{}", decision.id),
        What::Policy(_) => "/policies".to_owned(),
    }
}

fn hours_of_axis(day: &Day) -> Markup {
    html! {
        p.axis.small {
            @for hour in day.hours.iter().step_by(6) { span { (clock(hour)) } }
            span { "now (UTC)" }
        }
    }
}

/// A plot over the day.
struct Plot {
    id: &'static str,
    title: &'static str,
    caption: Markup,
    /// What it shows, in words.
    summary: String,
    /// The highest value.
    highest: String,
    drawn: Markup,
}

/// What is drawn, and over it each hour with its words and a line where there were incidents.
fn plot(plot: &Plot, day: &Day, words: impl Fn(usize, &Hour) -> String) -> Markup {
    let Plot { id, title, caption, summary, highest, drawn } = plot;
    let hour_width = WIDTH * SPANS_OF_HOUR;
    html! {
        figure.plot {
            figcaption { strong { (title) } " " (caption) }
            p.highest.small aria-hidden="true" { (highest) }
            svg.hours viewBox={ "0 0 " (day.hours.len() * hour_width) " " (HEIGHT) } preserveAspectRatio="none"
                role="img" aria-labelledby={ (id) "-title " (id) "-words" } {
                title id={ (id) "-title" } { (title) " in the last 24 hours" }
                desc id={ (id) "-words" } { (summary) }
                (drawn)
                @for (position, hour) in day.hours.iter().enumerate() {
                    @let incidents = day.count_incidents(hour);
                    g {
                        title {
                            (clock(hour)) " UTC: " (words(position, hour))
                            @if incidents > 0 { "; " (counted(incidents, "incident")) }
                        }
                        rect.hour x=(position * hour_width) y="0" width=(hour_width) height=(HEIGHT) {}
                        @if incidents > 0 {
                            rect.incident x=(position * hour_width + hour_width / 2 - 2) y="0" width="4"
                                height=(HEIGHT) {}
                        }
                    }
                }
            }
            (hours_of_axis(day))
        }
    }
}

type Counted = (&'static str, fn(&Hour) -> usize);

/// Two counts of each hour: what went well above the line, and what did not below it.
fn bars(id: &'static str, title: &'static str, day: &Day, well: Counted, badly: Counted) -> Markup {
    let sum = |(_, count): Counted| day.hours.iter().map(count).sum::<usize>();
    let most = |(_, count): Counted| day.hours.iter().map(count).max().unwrap_or(0);
    let (most_well, most_badly) = (most(well), most(badly));
    let units = (most_well + most_badly).max(1);
    let middle = most_well * HEIGHT / units;
    let width = WIDTH * SPANS_OF_HOUR;
    let caption = html! {
        span.small {
            span.key.done {} (sum(well)) " " (well.0) " ↑ " span.key.failed {} (sum(badly)) " " (badly.0) " ↓"
        }
    };
    let summary = format!(
        "{} {}, {} {}; at most {most_well} and {most_badly} in an hour",
        sum(well),
        well.0,
        sum(badly),
        badly.0
    );
    if most_well + most_badly == 0 {
        return html! { figure.plot { figcaption { strong { (title) } } p.none { "None." } } };
    }
    let drawn = html! {
        @for (position, hour) in day.hours.iter().enumerate() {
            @let (up, down) = ((well.1)(hour) * HEIGHT / units, (badly.1)(hour) * HEIGHT / units);
            rect.done x=(position * width + 4) y=(middle - up) width=(width - 8) height=(up) {}
            rect.failed x=(position * width + 4) y=(middle) width=(width - 8) height=(down) {}
        }
        rect.line x="0" y=(middle.clamp(4, HEIGHT - 4) - 4) width=(day.hours.len() * width) height="8" {}
    };
    let words = |_, hour: &Hour| format!("{} {}, {} {}", (well.1)(hour), well.0, (badly.1)(hour), badly.0);
    plot(&Plot { id, title, caption, summary, highest: most_well.to_string(), drawn }, day, words)
}

/// What is stacked in a plot: its colour, its name, and how much of it there is.
type Layer<'l> = (&'static str, &'static str, &'l dyn Fn(&Level) -> f64);

/// What there was over time, one upon the other.
fn levels(
    id: &'static str,
    title: &'static str,
    day: &Day,
    layers: &[Layer<'_>],
    words: &dyn Fn(f64) -> String,
    caption: &Markup,
) -> Markup {
    let height = |level: &Level| layers.iter().map(|(.., of)| of(level)).sum::<f64>();
    let most = day.levels.iter().map(height).fold(0.0, f64::max);
    let described = |level: &Level| {
        let described = layers.iter().map(|(_, name, of)| format!("{} {name}", words(of(level))));
        described.collect::<Vec<_>>().join(", ")
    };
    let now = day.levels.last().copied().unwrap_or_default();
    if most <= 0.0 {
        return html! { figure.plot { figcaption { strong { (title) } } p.none { "None" (caption) } } };
    }
    let caption = html! {
        span.small {
            "now: "
            @for (place, (class, name, of)) in layers.iter().enumerate() {
                @if place > 0 { ", " }
                span.key.(class) {} (words(of(&now))) " " (name)
            }
            (caption)
        }
    };
    let y = |amount: f64| HEIGHT - (amount * HEIGHT as f64 / most).round() as usize;
    let drawn = html! {
        @for (place, (class, ..)) in layers.iter().enumerate() {
            @let below = |level: &Level| layers[..place].iter().map(|(.., of)| of(level)).sum::<f64>();
            @let above = |level: &Level| layers[..=place].iter().map(|(.., of)| of(level)).sum::<f64>();
            path class=(class) d=(area(&day.levels, |level| y(above(level)), |level| y(below(level)))) {}
        }
    };
    let summary = format!("now {}; at most {} at a time", described(&now), words(most));
    let words_of = |position: usize, _: &Hour| {
        let last = (position + 1) * SPANS_OF_HOUR - 1;
        let level = day.levels.get(last).or(day.levels.last().filter(|_| position * SPANS_OF_HOUR < day.levels.len()));
        level.map_or_else(|| "not yet".to_owned(), &described)
    };
    plot(&Plot { id, title, caption, summary, highest: words(most), drawn }, day, words_of)
}

/// The outline of what is between two lines: steps to the right on the upper one, and back on the lower one.
fn area(levels: &[Level], upper: impl Fn(&Level) -> usize, lower: impl Fn(&Level) -> usize) -> String {
    let mut outline = format!("M0 {}", levels.first().map_or(HEIGHT, &lower));
    for (place, level) in levels.iter().enumerate() {
        outline.push_str(&format!("V{}H{}", upper(level), (place + 1) * WIDTH));
    }
    for (place, level) in levels.iter().enumerate().rev() {
        outline.push_str(&format!("V{}H{}", lower(level), place * WIDTH));
    }
    outline + "Z"
}

/// What servers cost for an hour, and what that comes to.
fn cost(day: &Day) -> Markup {
    let now = day.levels.last().copied().unwrap_or_default();
    if now.unpriced > 0 && day.levels.iter().all(|level| level.hourly <= 0.0) {
        let unknown = format!("Unknown: no price is known for {}.", counted(now.unpriced, "machine"));
        return html! { figure.plot { figcaption { strong { "Cost" } } p.none { (unknown) } } };
    }
    let caption = html! {
        @if let Some(spent) = day.spent { ". These 24 hours: " (format!("{spent:.2} €")) }
        // (assumption: hourly-price-server-alone)
        ". A day at this rate: " (format!("{:.2} €", now.hourly * 24.0))
        @if now.unpriced > 0 { ". Not counted: " (counted(now.unpriced, "machine")) " without a known price" }
        "."
    };
    levels("cost", "Cost", day, &[("note", "an hour", &|level| level.hourly)], &euros, &caption)
}

fn hours_as_table(day: &Day, with_prices: bool) -> Markup {
    let mut head = vec![
        "hour (UTC)",
        "running",
        "creating",
        "removing",
        "created",
        "failed or cancelled",
        "removed",
        "left something",
        "decisions",
        "a policy failed",
        "incidents",
    ];
    head.extend(with_prices.then_some("€ an hour"));
    let rows = day.hours.iter().zip(day.levels.chunks(SPANS_OF_HOUR)).map(|(hour, levels)| {
        let level = levels.last().copied().unwrap_or_default();
        let counts = [
            level.running,
            level.creating,
            level.removing,
            hour.created,
            hour.not_created,
            hour.removed,
            hour.not_removed,
            hour.decided + hour.not_decided,
            hour.not_decided,
            day.count_incidents(hour),
        ];
        let mut row = vec![when(hour.from)];
        row.extend(counts.map(|count| html! { (count) }));
        row.extend(with_prices.then(|| html! { (euros(level.hourly)) }));
        row
    });
    let mut rows: Vec<_> = rows.collect();
    rows.reverse();
    html! {
        details {
            summary { "The hours as a table" }
            p.small { "Servers and cost are those at the end of each hour." }
            (table("The last 24 hours", &head, &rows))
        }
    }
}

/// What went wrong, the newest first.
fn incidents(day: &Day) -> Markup {
    let row = |(place, incident): (usize, &Incident)| {
        let (is, what, why) = match &incident.what {
            What::Operation(operation) => (
                state(operation.state.as_str()),
                html! { (operation_link(operation.id.as_str())) ", " (about(operation)) },
                why(operation),
            ),
            What::Policy(change) => (
                state(event_word(&change.what)),
                html! { "policy " (policy_link(&change.policy.name)) " of the slot " a href="/policies" { (change.slot) } },
                match &change.what {
                    PolicyEventKind::Refused { why } | PolicyEventKind::Suspended { why } => html! { (why) },
                    _ => html! {},
                },
            ),
            What::Decision(decision) => (
                state("failed"),
                html! {
                    @for (place, (policy, kind)) in failures_of(decision).into_iter().enumerate() {
                        @if place > 0 { ", " }
                        "policy " (policy_link(policy)) ": " (kind_word(&kind).replace('-', " "))
                    }
                    ", " (decision_link(&decision.id.to_string()))
                },
                failure_reasons(decision),
            ),
        };
        vec![
            html! { span id={ "incident-" (place) } { (when(incident.at_ms)) } },
            html! { (is) @if incident.count > 1 { " " (incident.count) " ×" } },
            what,
            why,
        ]
    };
    let rows: Vec<_> = day.incidents.iter().take(MAX_INCIDENTS).enumerate().map(row).collect();
    html! {
        @if !rows.is_empty() {
            h3 #incidents { "Incidents" }
            (table("Incidents", &["last at", "is", "what", "why"], &rows))
            @if day.incidents.len() > rows.len() {
                p {
                    "The newest are listed. All: " a href="/decisions?failed=true" { "failed policies" } ", "
                    a href="/operations?state=undone" { "operations that were undone" } "."
                }
            }
        }
    }
}

fn failure_reasons(decision: &DecisionSummary) -> Markup {
    let reasons = decision.asked.iter().filter_map(|asked| match &asked.outcome {
        Outcome::Fallback { reason, .. } => Some(reason.to_string()),
        _ => None,
    });
    html! { (reasons.collect::<Vec<_>>().join("; ")) }
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
pub(super) fn groups(machines: &[Machine], with_prices: bool) -> Markup {
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

/// The newest decisions, by policy and by verdict.
pub(super) fn deciding(deciding: &Deciding) -> Markup {
    let most = deciding.policies.values().map(Asked::sum).max().unwrap_or(0);
    let policies = deciding.policies.iter().map(|((slot, name), asked)| {
        vec![
            policy_link(name),
            html! { a href={ "/decisions?slot=" (slot) } { (slot) } },
            shares(&[("done", asked.decided), ("note", asked.deferred), ("failed", asked.failed)], most),
            html! { (asked.decided) },
            html! { (asked.deferred) },
            html! { (asked.failed) },
        ]
    });
    let most = deciding.verdicts.values().max().copied().unwrap_or(0);
    let verdicts = deciding.verdicts.iter().map(|((slot, verdict), count)| {
        vec![
            html! { a href={ "/decisions?slot=" (slot) } { (slot) } },
            html! { (verdict) },
            shares(&[("open", *count)], most),
            html! { (count) },
        ]
    });
    html! {
        @if let Some(since) = deciding.since {
            section aria-labelledby="deciding" {
                h2 #deciding { "Decisions" }
                p.small { "The newest " (counted(deciding.decisions, "decision")) ", since " (when(since)) "." }
                div.sides {
                    div {
                        h3 { "Decisions by policy" }
                        (table(
                            "Decisions by policy",
                            &["policy", "slot", "share", "decided", "deferred", "failed"],
                            &policies.collect::<Vec<_>>(),
                        ))
                    }
                    div {
                        h3 { "Decisions by verdict" }
                        (table(
                            "Decisions by verdict",
                            &["slot", "verdict", "share", "decisions"],
                            &verdicts.collect::<Vec<_>>(),
                        ))
                    }
                }
            }
        }
    }
}

impl Asked {
    fn sum(&self) -> usize {
        self.decided + self.deferred + self.failed
    }
}
