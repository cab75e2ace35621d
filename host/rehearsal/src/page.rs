//! A rehearsal as one page that needs nothing but itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use maud::{Markup, html};
use windlass_fleeting::{Event, Hour};

use crate::comparison::Difference;
use crate::figure::Figure;
use crate::outcome::{ArmKind, Outcome};
use crate::run::{ArmOutcomes, NOT_CALIBRATED, Rehearsal};

const HEIGHT: f64 = 100.0;
/// The width of an hour in a plot, whose drawing is stretched to the width of the page.
const WIDTH: usize = 60;
/// The height of an incident's band at the top of a plot.
const BAND: usize = 6;
/// What the tooltip of an hour says about its decisions.
const TOLD: usize = 3;

impl Rehearsal {
    /// The page: figures, laws, and what there was over time in each arm with the first seed.
    #[must_use]
    pub fn page(&self) -> String {
        windlass_console::page_alone(self.name(), &self.content())
    }

    /// Its title, for people.
    pub(crate) fn name(&self) -> &str {
        if self.title.is_empty() { "Rehearsal" } else { &self.title }
    }

    /// What a page shows of it.
    pub(crate) fn content(&self) -> Markup {
        let seeds = match self.seeds.as_slice() {
            [first, .., last] => format!("seeds {first} to {last}"),
            one => format!("seed {}", one.first().copied().unwrap_or_default()),
        };
        html! {
            h1 { (self.name()) }
            p {
                (self.hours) " hours in " (self.time_zone) ", from " (self.local_day(self.starts_at)) " on; " (seeds) "."
            }
            (self.incident_list())
            (self.law_list())
            h2 { "Figures" }
            (self.figure_table())
            @for parting in &self.partings {
                @let first = self.arms.first().map(|arm| arm.arm.as_str()).unwrap_or_default();
                h3 { (first) " and " (parting.arm) " first differ at " (self.local(parting.at)) }
                ul {
                    li { strong { (first) } " " (did(parting.first.as_ref())) }
                    li { strong { (parting.arm) } " " (did(parting.other.as_ref())) }
                }
            }
            @if let Some((arm, calibration)) = self.calibrated() {
                h2 { "Calibration" }
                p { "Arm " strong { (arm) } " beside what was observed:" }
                ul { @for calibrated in calibration { li { (calibrated.words()) } } }
            } @else {
                p { (NOT_CALIBRATED) }
            }
            h2 { "Over time" }
            p.small { "With seed " (self.seeds.first().copied().unwrap_or_default()) ". Hover over an hour for what happened in it." }
            (self.plots())
            (self.notes())
            h2 { "What a rehearsal leaves out" }
            ul { @for words in &self.simplified { li { (words) } } }
        }
    }

    fn incident_list(&self) -> Markup {
        html! {
            @if !self.incidents.is_empty() || !self.scales.is_empty() {
                ul {
                    @for scale in &self.scales { li { (scale.words()) " at " (self.local(scale.at)) } }
                    @for incident in &self.incidents {
                        li {
                            span.badge.bad { (incident.kind) }
                            @if let Some(server_type) = &incident.server_type { " of " (server_type) }
                            @if let Some(zone) = &incident.zone { " in " (zone) }
                            " from " (self.local(incident.starts_at)) " to " (self.local(incident.ends_at))
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn law_list(&self) -> Markup {
        html! {
            @if !self.laws.is_empty() {
                h2 { "Laws" }
                ul.needs {
                    @for law in &self.laws {
                        li {
                            @if law.holds { span.badge.good { "holds" } } @else { span.badge.bad { "violated" } }
                            " " code { (law.law) }
                            @if !law.violations.is_empty() {
                                ul {
                                    @for violation in &law.violations {
                                        li {
                                            (violation.arm) ", seed " (violation.seed) ": " (violation.because.join(", "))
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    pub(crate) fn figure_table(&self) -> Markup {
        let mean = |arm: &ArmOutcomes, figure: &Figure| {
            arm.figures.iter().find(|spread| spread.figure == figure.name).map_or(0.0, |spread| spread.mean)
        };
        let difference = |arm: &ArmOutcomes, figure: &Figure| {
            let is_it = |it: &&Difference| it.arm == arm.arm && it.figure == figure.name;
            self.differences.iter().find(is_it).map(|it| it.words(figure)).unwrap_or_default()
        };
        let others = self.arms.iter().skip(1);
        let first = self.arms.first().map(|arm| arm.arm.as_str()).unwrap_or_default();
        html! {
            div.table {
                table {
                    thead { tr {
                        th scope="col" { "Figure" }
                        @for arm in &self.arms { th scope="col" { (arm.arm) } }
                        @for arm in others.clone() { th scope="col" { (arm.arm) " − " (first) } }
                    } }
                    tbody {
                        @for figure in self.shown_figures() {
                            tr {
                                th scope="row" title=(figure.about) { (figure.title) }
                                @for arm in &self.arms { td.short { (figure.words(mean(arm, figure))) } }
                                @for arm in others.clone() { td.some { (difference(arm, figure)) } }
                            }
                        }
                        @for ((zone, server_type), of_arms) in self.places() {
                            tr {
                                th scope="row" { (server_type) " in " (zone) }
                                @for (hours, cost) in of_arms { td { (format!("{hours:.1}\u{a0}h, EUR\u{a0}{cost:.2}")) } }
                                @for _ in others.clone() { td {} }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The figures that a table for people has.
    pub fn shown_figures(&self) -> impl Iterator<Item = &'static Figure> {
        self.arms.first().into_iter().flat_map(ArmOutcomes::figures).filter(|figure| figure.is_shown)
    }

    /// By zone and type, the server hours and costs of each arm, on average over the seeds.
    #[must_use]
    pub fn places(&self) -> BTreeMap<(String, String), Vec<(f64, f64)>> {
        let mut places: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
        for (position, arm) in self.arms.iter().enumerate() {
            let share = 1.0 / arm.outcomes.len().max(1) as f64;
            for place in arm.outcomes.iter().flat_map(|outcome| &outcome.places) {
                let key = (place.zone.clone(), place.server_type.clone());
                let of_arms = places.entry(key).or_insert_with(|| vec![(0.0, 0.0); self.arms.len()]);
                of_arms[position].0 += place.server_hours * share;
                of_arms[position].1 += place.cost * share;
            }
        }
        places
    }

    fn plots(&self) -> Markup {
        let of = self.arms.iter().flat_map(|arm| &arm.outcomes).map(Outcome::kind).next();
        let kinds: [PlotKind; 5] = [
            PlotKind {
                title: "Servers",
                bars: &[
                    ("done", "running", |hour| hour.instances as f64),
                    ("open", "requested or being created", |hour| hour.creating as f64),
                ],
                words: |value| format!("{value:.0}"),
                only: Some(ArmKind::Group),
            },
            PlotKind {
                title: "Servers",
                bars: &[("done", "there", |hour| hour.instances as f64)],
                words: |value| format!("{value:.0}"),
                only: Some(ArmKind::Cluster),
            },
            PlotKind {
                title: "Jobs that waited",
                only: Some(ArmKind::Group),
                bars: &[("attempt", "waiting", |hour| hour.waiting as f64)],
                words: |value| format!("{value:.0}"),
            },
            PlotKind {
                title: "Jobs that came",
                only: Some(ArmKind::Group),
                bars: &[("note", "came", |hour| hour.jobs as f64)],
                words: |value| format!("{value:.0}"),
            },
            PlotKind {
                title: "Cost of each hour",
                only: None,
                bars: &[("done", "EUR", |hour| hour.cost)],
                words: |value| format!("{value:.2}"),
            },
        ];
        html! {
            @for (number, kind) in kinds.iter().filter(|plot| plot.only.is_none_or(|only| Some(only) == of)).enumerate() {
                h3 { (kind.title) }
                div.plots {
                    @let shown = self.arms.iter().filter_map(|arm| Some((arm, arm.outcomes.first()?)));
                    @let most = shown.clone().map(|(_, outcome)| kind.most(outcome)).fold(0.0, f64::max);
                    @for (position, (arm, outcome)) in shown.enumerate() {
                        (self.plot(&format!("plot-{number}-{position}"), kind, arm, outcome, most))
                    }
                }
            }
        }
    }

    /// One arm's plot. `most` is the highest value of all arms, so that they can be compared.
    fn plot(&self, id: &str, kind: &PlotKind, arm: &ArmOutcomes, outcome: &Outcome, most: f64) -> Markup {
        let width = outcome.hours.len() * WIDTH;
        let height = |value: f64| if most > 0.0 { (value / most * (HEIGHT - BAND as f64 - 2.0)).round() } else { 0.0 };
        let at = |time: u64| {
            let hours = time.saturating_sub(self.starts_at) as f64 / 3_600_000.0;
            ((hours * WIDTH as f64).round() as usize).min(width)
        };
        let step = outcome.hours.len().div_ceil(4).max(1);
        let own = kind.most(outcome);
        html! {
            figure.plot {
                figcaption {
                    strong { (arm.arm) } " "
                    span.small { @for (class, name, _) in kind.bars { span.{ "key " (class) } {} (name) " " } }
                }
                p.highest.small aria-hidden="true" { ((kind.words)(most)) }
                svg.hours viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                    aria-labelledby={ (id) "-title " (id) "-words" } {
                    title id={ (id) "-title" } { (kind.title) ", " (arm.arm) }
                    desc id={ (id) "-words" } { "At most " ((kind.words)(own)) " in an hour" }
                    @for (position, hour) in outcome.hours.iter().enumerate() {
                        @let bar_width = (WIDTH - 8) / kind.bars.len();
                        g {
                            title { (self.hour_words(kind, outcome, hour)) }
                            @for (bar, (class, _, of)) in kind.bars.iter().enumerate() {
                                @let height = height(of(hour));
                                rect.(class) x=(position * WIDTH + 4 + bar * bar_width) y=(HEIGHT - height)
                                    width=(bar_width) height=(height) {}
                            }
                            rect.hour x=(position * WIDTH) y="0" width=(WIDTH) height=(HEIGHT) {}
                        }
                    }
                    @for incident in &self.incidents {
                        @let (from, to) = (at(incident.starts_at), at(incident.ends_at));
                        rect.incident x=(from) y="0" width=(to.saturating_sub(from).max(WIDTH / 10)) height=(BAND) {
                            title { (incident.kind) }
                        }
                    }
                }
                p.axis.small {
                    @for hour in outcome.hours.iter().step_by(step) { span { (self.local(hour.at)) } }
                    span { "end" }
                }
            }
        }
    }

    /// The tooltip of an hour: its values, its incidents, and what the group did and why.
    fn hour_words(&self, kind: &PlotKind, outcome: &Outcome, hour: &Hour) -> String {
        let mut words = self.local(hour.at);
        for (_, name, of) in kind.bars {
            let _ = write!(words, ", {} {name}", (kind.words)(of(hour)));
        }
        let ends = hour.at + 3_600_000;
        for incident in self.incidents.iter().filter(|it| it.starts_at < ends && it.ends_at > hour.at) {
            let _ = write!(words, "; {}", incident.kind);
        }
        let mut reasons: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for Event { what, why, .. } in outcome.events.iter().filter(|event| (hour.at..ends).contains(&event.at)) {
            *reasons.entry((what, why)).or_default() += 1;
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for ((what, why), count) in reasons.into_iter().take(TOLD) {
            let _ = write!(words, "\n{count} × {what}");
            if !why.is_empty() {
                let _ = write!(words, ": {why}");
            }
        }
        words
    }

    fn notes(&self) -> Markup {
        html! {
            @for (arm, notes) in self.arms.iter().map(|arm| (arm, arm.notes())).filter(|(_, notes)| !notes.is_empty()) {
                h3 { "About " (arm.arm) }
                ul { @for note in notes { li { (note) } } }
            }
        }
    }
}

/// Its colour, its name, and its value in an hour.
type Bar = (&'static str, &'static str, fn(&Hour) -> f64);

/// What is drawn: its bars, one beside the other. They are maxima of different moments, so they do not add up.
struct PlotKind {
    title: &'static str,
    /// Which arms have it. None: all.
    only: Option<ArmKind>,
    bars: &'static [Bar],
    words: fn(f64) -> String,
}

impl PlotKind {
    fn most(&self, outcome: &Outcome) -> f64 {
        let heights = outcome.hours.iter().flat_map(|hour| self.bars.iter().map(|(_, _, of)| of(hour)));
        heights.fold(0.0, f64::max)
    }
}

fn did(event: Option<&Event>) -> String {
    event.map_or_else(|| "does nothing".to_owned(), Event::words)
}
