//! A search as one page that needs nothing but itself.

use maud::{Markup, html};

use crate::tune::{Candidate, Tuning, range};

/// The size of the plot, and of the space for its labels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 72.0;
const BELOW: f64 = 44.0;
const ABOVE: f64 = 12.0;
/// How many candidates the table has.
const SHOWN: usize = 50;

impl Tuning {
    /// The page: what was chosen, the front, the candidates, and the seeds that were held out.
    #[must_use]
    pub fn page(&self) -> String {
        let title = format!("{} tuned", self.arm);
        let content = html! {
            h1 { (title) }
            p {
                "The lowest " strong { (self.figures().0.title) } " within the laws, over seeds " (range(&self.seeds)) " of "
                (self.scenarios.join(", ")) ". " (self.candidates.len().saturating_sub(1)) " of " (self.combinations)
                " combinations were tried, in " (self.rehearsals) " rehearsals."
            }
            ul { @for law in &self.laws { li { code { (law) } } } }
            @if !self.is_good() { p { span.badge.bad { "The chosen settings violate a law" } } }
            h2 { "Front of " (self.figures().0.title) " and " (self.figures().1.title) }
            (self.scatter())
            h2 { "Candidates" }
            @if self.candidates.len() > SHOWN { p.small { "The best " (SHOWN) " of " (self.candidates.len()) "." } }
            (self.candidate_table())
            h2 { "On seeds that the search had not seen" }
            p.small { "Seeds " (range(&self.held_out_seeds)) "." }
            @for (held_out, rehearsal) in self.held_out() {
                h3 { (held_out.scenario) }
                (rehearsal.figure_table())
                (rehearsal.law_list())
            }
            h2 { "What a rehearsal leaves out" }
            ul { @for words in &self.simplified { li { (words) } } }
        };
        windlass_console::page_alone(&title, &content)
    }

    /// Each candidate at its two figures. Those that no other one beats in both are joined by a line.
    fn scatter(&self) -> Markup {
        let (goal, against) = self.figures();
        let most = |of: fn(&Candidate) -> f64| self.candidates.iter().map(of).fold(0.0, f64::max).max(1e-9) * 1.05;
        let (most_goal, most_against) = (most(|it| it.goal), most(|it| it.against));
        let x = |value: f64| LEFT + value / most_against * (WIDTH - LEFT - ABOVE);
        let y = |value: f64| HEIGHT - BELOW - value / most_goal * (HEIGHT - BELOW - ABOVE);
        let mut front: Vec<(f64, f64)> =
            self.candidates.iter().filter(|it| it.is_on_front).map(|it| (x(it.against), y(it.goal))).collect();
        front.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let line: String = front
            .iter()
            .enumerate()
            .map(|(position, (x, y))| format!("{}{x:.1} {y:.1}", if position == 0 { "M" } else { "L" }))
            .collect();
        let bottom = HEIGHT - BELOW;
        html! {
            figure.plot {
                figcaption.small {
                    span.key.done {} "chosen " span.key.attempt {} "as it is " span.key.open {} "keeps the laws "
                    span.key.failed {} "violates one; the line joins those that no other one beats in both"
                }
                svg.scatter viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-labelledby="front-title" {
                    title id="front-title" { (goal.title) " of each candidate against its " (against.title) }
                    path.axis d=(format!("M{LEFT} {ABOVE}V{bottom}H{}", WIDTH - ABOVE)) {}
                    path.front d=(line) {}
                    // The chosen one is drawn last, above the others.
                    @for candidate in self.candidates.iter().rev() {
                        circle.(class(candidate)) cx=(format!("{:.1}", x(candidate.against)))
                            cy=(format!("{:.1}", y(candidate.goal))) r=(if candidate.is_chosen { 8 } else { 5 }) {
                            title { (self.words(candidate)) }
                        }
                    }
                    @for share in [0.0, 0.5, 1.0] {
                        @let (of_goal, of_against) = (most_goal * share / 1.05, most_against * share / 1.05);
                        text x=(LEFT - 6.0) y=(format!("{:.1}", y(of_goal) + 4.0)) text-anchor="end" { (goal.words(of_goal)) }
                        text x=(format!("{:.1}", x(of_against))) y=(bottom + 18.0) text-anchor="middle" {
                            (against.words(of_against))
                        }
                    }
                    text x=((WIDTH + LEFT) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { (against.title) }
                }
            }
        }
    }

    fn words(&self, candidate: &Candidate) -> String {
        let (goal, against) = self.figures();
        let set: Vec<String> = candidate.settings.iter().map(|set| format!("{} = {}", set.key, set.value)).collect();
        let (of_goal, of_against) = (goal.words(candidate.goal), against.words(candidate.against));
        format!(
            "{}: {} {of_goal}, {} {of_against}, violations: {}, seeds: {}",
            set.join(", "),
            goal.title,
            against.title,
            candidate.violations,
            candidate.seeds
        )
    }

    fn candidate_table(&self) -> Markup {
        let (goal, against) = self.figures();
        let keys = self.candidates.first().map(|candidate| candidate.settings.as_slice()).unwrap_or_default();
        html! {
            div.table { table {
                thead { tr {
                    @for set in keys { th scope="col" { (set.key) } }
                    th scope="col" title=(goal.about) { (goal.title) }
                    th scope="col" title=(against.about) { (against.title) }
                    th scope="col" { "Violations" }
                    th scope="col" { "Seeds" }
                    th scope="col" {}
                } }
                tbody { @for candidate in self.candidates.iter().take(SHOWN) { tr {
                    @for set in &candidate.settings { td { (set.value) } }
                    td.short { (goal.words(candidate.goal)) }
                    td.short { (against.words(candidate.against)) }
                    td.short { (candidate.violations) }
                    td.short { (candidate.seeds) }
                    td {
                        @if candidate.is_chosen { span.badge.good { "chosen" } " " }
                        @if candidate.is_unchanged { span.badge { "as it is" } " " }
                        @if candidate.is_on_front { span.badge { "on the front" } }
                    }
                } } }
            } }
        }
    }
}

fn class(candidate: &Candidate) -> &'static str {
    match candidate {
        Candidate { is_chosen: true, .. } => "done",
        Candidate { is_unchanged: true, .. } => "attempt",
        Candidate { violations: 0, .. } => "open",
        _ => "failed",
    }
}
