//! A search for the settings that reach a goal within laws: few seeds for all candidates, more for the better half, and
//! seeds that the search has not seen for the best one and the configuration as it is.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_fleeting::{Rehearser, Scenario, SettingError, SettingKey};

use crate::comparison::Difference;
use crate::figure::{FIGURES, Figure, Spread};
use crate::halving::{Rank, halve};
use crate::law::{Law, LawResult};
use crate::outcome::Outcome;
use crate::run::{NamedArm, Rehearsal, RehearsalFailure};
use crate::search::{Search, Settings};

/// The name of the arm with the chosen settings.
pub const TUNED: &str = "tuned";

/// How a search is done.
#[derive(Clone, Copy, Debug)]
pub struct TuneOptions {
    /// What is to be as low as possible.
    pub goal: &'static Figure,
    /// The most candidates, with the configuration as it is.
    pub candidates: usize,
    /// The first seed.
    pub seed: u64,
    /// How many seeds the last round has. As many more, after these, are held out.
    pub seeds: usize,
}

/// What came of a search. Fields are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Tuning {
    /// The arm's name.
    pub arm: String,
    /// The titles of the scenarios, or their numbers.
    pub scenarios: Vec<String>,
    /// The figure that is to be as low as possible.
    pub goal: &'static str,
    /// The figure with which the goal competes.
    pub against: &'static str,
    pub laws: Vec<String>,
    /// Those of the last round.
    pub seeds: Vec<u64>,
    /// Those that the search has not seen.
    pub held_out_seeds: Vec<u64>,
    /// How many combinations of values there are, beside the one in the configuration.
    pub combinations: usize,
    /// How many rehearsals the search took.
    pub rehearsals: usize,
    /// The best first.
    pub candidates: Vec<Candidate>,
    /// The configuration with the chosen settings beside the one as it is, in each scenario.
    pub held_out: Vec<HeldOut>,
    /// In what a rehearsal differs from what will be.
    pub simplified: Vec<String>,
    /// The same as `held_out`, whole.
    #[serde(skip)]
    pub(crate) rehearsals_held_out: Vec<Rehearsal>,
    #[serde(skip)]
    chosen: Settings,
}

/// Settings that were tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    pub settings: Vec<Set>,
    /// Whether it is the configuration as it is.
    pub is_unchanged: bool,
    /// On how many seeds it was measured.
    pub seeds: usize,
    /// How many of its outcomes violate a law, or left something behind.
    pub violations: usize,
    /// The mean of the goal's figure.
    pub goal: f64,
    /// The mean of the other figure.
    pub against: f64,
    /// Whether no other candidate is lower in one of the two and not higher in the other.
    pub is_on_front: bool,
    pub is_chosen: bool,
}

/// A setting with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Set {
    pub key: String,
    /// As JSON. Empty: it is not set.
    pub value: String,
}

/// A scenario with seeds that the search has not seen.
#[derive(Clone, Debug, Serialize)]
pub struct HeldOut {
    pub scenario: String,
    /// The configuration as it is, and with the chosen settings.
    pub arms: Vec<HeldOutArm>,
    /// The second one from the first one.
    pub differences: Vec<Difference>,
    pub laws: Vec<LawResult>,
}

/// An arm with its figures over the seeds.
#[derive(Clone, Debug, Serialize)]
pub struct HeldOutArm {
    pub arm: String,
    pub figures: Vec<Spread>,
}

/// Why a search has no result.
#[derive(Debug, thiserror::Error)]
pub enum TuneFailure {
    /// The configuration has no place for a setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A candidate cannot be rehearsed.
    #[error("with {settings}")]
    Candidate {
        settings: String,
        #[source]
        source: RehearsalFailure,
    },
    /// The configuration as it is cannot be rehearsed.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalFailure),
}

/// What was measured of a candidate, over scenarios and seeds.
#[derive(Clone, Copy, Default)]
struct Measured {
    outcomes: usize,
    seeds: usize,
    violations: usize,
    goal: f64,
    against: f64,
}

impl Measured {
    fn mean(self, sum: f64) -> f64 {
        sum / self.outcomes.max(1) as f64
    }

    /// Whoever violates less is better, and of these whoever is lower.
    fn rank(self) -> Rank {
        (self.mean(self.violations as f64), self.mean(self.goal))
    }
}

fn is_below(one: Rank, other: Rank) -> bool {
    one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)).is_lt()
}

impl Tuning {
    /// Searches. `began` is called with the number of candidates and of seeds of each round.
    ///
    /// # Errors
    /// A setting has no place, or an arm cannot be rehearsed.
    pub fn run(
        scenarios: &[Scenario],
        arm: &NamedArm,
        search: &Search,
        laws: &[Law],
        options: TuneOptions,
        rehearser: &Rehearser,
        began: &dyn Fn(usize, usize),
    ) -> Result<Self, TuneFailure> {
        let against = named(if options.goal.name == "cost" { "wait_p95" } else { "cost" });
        let (drawn, combinations) = search.drawn(&arm.arm, options.candidates.saturating_sub(1), options.seed)?;
        // The first one is the configuration as it is, to which laws may refer.
        let settings: Vec<Settings> = std::iter::once(Settings::new()).chain(drawn).collect();
        let mut arms = Vec::with_capacity(settings.len());
        for (number, settings) in settings.iter().enumerate() {
            let changes: Vec<_> = settings.iter().map(|(key, value)| (key, value)).collect();
            arms.push(NamedArm { name: number.to_string(), arm: arm.arm.with(&changes)? });
        }
        let seed = |position: usize| options.seed.wrapping_add(position as u64);
        let mut measured = vec![Measured::default(); arms.len()];
        let mut rehearsals = 0;
        let round = |left: &[usize], new: std::ops::Range<usize>| {
            began(left.len(), new.end);
            let seeds: Vec<u64> = new.map(seed).collect();
            // All candidates have the same seeds, so that what these draw is the same for all.
            let with_first = std::iter::once(0).chain(left.iter().copied().filter(|number| *number != 0));
            let of_round: Vec<NamedArm> = with_first.map(|number| arms[number].clone()).collect();
            for scenario in scenarios {
                let rehearsal = Rehearsal::run(scenario, &of_round, &seeds, laws, rehearser, &|| {});
                let rehearsal = rehearsal.map_err(|failure| of_candidate(failure, &settings))?;
                rehearsals += of_round.len() * seeds.len();
                for arm in &rehearsal.arms {
                    let number: usize = arm.arm.parse().unwrap_or_default();
                    let of_arm = &mut measured[number];
                    for outcome in &arm.outcomes {
                        of_arm.outcomes += 1;
                        of_arm.violations += usize::from(is_violated(&rehearsal, &arm.arm, outcome));
                        of_arm.goal += options.goal.of(outcome);
                        of_arm.against += against.of(outcome);
                    }
                }
            }
            of_round
                .iter()
                .for_each(|arm| measured[arm.name.parse::<usize>().unwrap_or_default()].seeds += seeds.len());
            Ok::<_, TuneFailure>(left.iter().map(|number| measured[*number].rank()).collect())
        };
        let finalists = halve(arms.len(), options.seeds, round)?;
        // The configuration as it is has all seeds, too, whether it was left or not.
        let rank = |number: usize| measured[number].rank();
        let best = finalists.first().copied().filter(|best| is_below(rank(*best), rank(0))).unwrap_or_default();
        let seeds: Vec<u64> = (0..options.seeds).map(seed).collect();
        let held_out_seeds: Vec<u64> = (options.seeds..2 * options.seeds).map(seed).collect();
        let tuned = NamedArm { name: TUNED.to_owned(), arm: arms[best].arm.clone() };
        let mut rehearsals_held_out = Vec::with_capacity(scenarios.len());
        for scenario in scenarios {
            let both = [arm.clone(), tuned.clone()];
            rehearsals_held_out.push(Rehearsal::run(scenario, &both, &held_out_seeds, laws, rehearser, &|| {})?);
        }
        let title = |(number, scenario): (usize, &Scenario)| match scenario.title.is_empty() {
            true => format!("scenario {}", number + 1),
            false => scenario.title.clone(),
        };
        let titles: Vec<String> = scenarios.iter().enumerate().map(title).collect();
        let held_out = titles.iter().zip(&rehearsals_held_out).map(|(title, rehearsal)| held_out(title, rehearsal));
        let candidates = candidates(arm, search, &settings, &measured, best)?;
        Ok(Self {
            arm: arm.name.clone(),
            goal: options.goal.name,
            against: against.name,
            laws: laws.iter().map(Law::words).collect(),
            seeds,
            held_out_seeds,
            combinations,
            rehearsals,
            candidates,
            held_out: held_out.collect(),
            simplified: rehearsals_held_out.first().map(|it| it.simplified.clone()).unwrap_or_default(),
            scenarios: titles,
            rehearsals_held_out,
            chosen: settings[best].clone(),
        })
    }

    /// The settings that were chosen. Empty: those of the configuration as it is.
    pub fn chosen(&self) -> impl Iterator<Item = (&SettingKey, &Value)> {
        self.chosen.iter().map(|(key, value)| (key, value))
    }

    /// Each scenario with the seeds that were held out, and the same whole.
    pub fn held_out(&self) -> impl Iterator<Item = (&HeldOut, &Rehearsal)> {
        self.held_out.iter().zip(&self.rehearsals_held_out)
    }

    /// Whether the chosen settings keep the laws on all seeds, also on those held out, and leave nothing behind.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let best = self.candidates.iter().find(|candidate| candidate.is_chosen);
        best.is_some_and(|best| best.violations == 0)
            && self.rehearsals_held_out.iter().all(|rehearsal| {
                let tuned = rehearsal.arms.iter().find(|arm| arm.arm == TUNED);
                tuned.is_some_and(|arm| arm.outcomes.iter().all(|it| !is_violated(rehearsal, TUNED, it)))
            })
    }

    /// The goal's figure and the one with which it competes.
    #[must_use]
    pub fn figures(&self) -> (&'static Figure, &'static Figure) {
        (named(self.goal), named(self.against))
    }

    /// What was chosen and why, as comments above a configuration.
    #[must_use]
    pub fn evidence(&self) -> String {
        let mut lines = vec![format!("Tuned by `windlass rehearse tune`: {} as low as possible, and", self.goal)];
        lines.extend(self.laws.iter().map(|law| format!("  {law}")));
        lines.push(format!(
            "in {}, with {} of {} combinations and seeds {}.",
            self.scenarios.iter().map(|title| format!("{title:?}")).collect::<Vec<_>>().join(", "),
            self.candidates.len().saturating_sub(1),
            self.combinations,
            range(&self.seeds),
        ));
        let set = |is_wanted: fn(&Candidate) -> bool| self.candidates.iter().find(|it| is_wanted(it));
        match (set(|it| it.is_unchanged), set(|it| it.is_chosen)) {
            (Some(before), Some(chosen)) if !chosen.is_unchanged => {
                for (before, chosen) in before.settings.iter().zip(&chosen.settings).filter(|(one, other)| one != other)
                {
                    let was = if before.value.is_empty() { "not set" } else { &before.value };
                    lines.push(format!("  {} = {} (was {was})", chosen.key, chosen.value));
                }
            }
            _ => lines.push("  Nothing was better than the configuration as it is.".to_owned()),
        }
        lines.push(format!(
            "On seeds {}, which the search had not seen, beside {:?}:",
            range(&self.held_out_seeds),
            self.arm
        ));
        for held_out in &self.held_out {
            for figure in [named(self.goal), named(self.against)] {
                let mean = |position: usize| {
                    let arm = held_out.arms.get(position)?;
                    arm.figures.iter().find(|it| it.figure == figure.name).map(|it| figure.words(it.mean))
                };
                let (Some(before), Some(tuned)) = (mean(0), mean(1)) else { continue };
                lines.push(format!("  {}: {} {tuned} instead of {before}", held_out.scenario, figure.title));
            }
        }
        // A title may have line breaks of its own.
        lines.iter().flat_map(|line| line.lines()).map(|line| format!("# {line}\n")).collect()
    }
}

/// Seeds for people: `1 to 8`.
pub(crate) fn range(seeds: &[u64]) -> String {
    match seeds {
        [first, .., last] => format!("{first} to {last}"),
        one => one.first().copied().unwrap_or_default().to_string(),
    }
}

fn named(name: &str) -> &'static Figure {
    Figure::named(name).unwrap_or(&FIGURES[0])
}

fn of_candidate(failure: RehearsalFailure, settings: &[Settings]) -> TuneFailure {
    let number = match &failure {
        RehearsalFailure::Arm { arm, .. } => arm.parse().unwrap_or_default(),
        _ => 0,
    };
    match settings.get::<usize>(number) {
        Some(settings) if !settings.is_empty() => {
            let settings = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>();
            TuneFailure::Candidate { settings: settings.join(", "), source: failure }
        }
        _ => failure.into(),
    }
}

/// Whether an outcome violates a law, left something behind, or has jobs that did not end.
fn is_violated(rehearsal: &Rehearsal, arm: &str, outcome: &Outcome) -> bool {
    let mut violations = rehearsal.laws.iter().flat_map(|law| &law.violations);
    !outcome.is_good() || violations.any(|it| it.arm == arm && it.seed == outcome.seed)
}

fn held_out(title: &str, rehearsal: &Rehearsal) -> HeldOut {
    let arm = |arm: &crate::run::ArmOutcomes| HeldOutArm { arm: arm.arm.clone(), figures: arm.figures.clone() };
    HeldOut {
        scenario: title.to_owned(),
        arms: rehearsal.arms.iter().map(arm).collect(),
        differences: rehearsal.differences.clone(),
        laws: rehearsal.laws.clone(),
    }
}

/// What was measured of each, the best first: those with more seeds are before the others, since they were kept.
fn candidates(
    arm: &NamedArm,
    search: &Search,
    settings: &[Settings],
    measured: &[Measured],
    best: usize,
) -> Result<Vec<Candidate>, SettingError> {
    let mut unchanged = Vec::new();
    for key in search.keys() {
        let value = arm.arm.setting(key)?.map(Value::to_string).unwrap_or_default();
        unchanged.push(Set { key: key.to_string(), value });
    }
    let set = |(key, value): &(SettingKey, Value)| Set { key: key.to_string(), value: value.to_string() };
    let mut all = BTreeMap::new();
    for (number, (settings, measured)) in settings.iter().zip(measured).enumerate() {
        let candidate = Candidate {
            settings: if number == 0 { unchanged.clone() } else { settings.iter().map(set).collect() },
            is_unchanged: number == 0,
            seeds: measured.seeds,
            violations: measured.violations,
            goal: measured.mean(measured.goal),
            against: measured.mean(measured.against),
            is_on_front: false,
            is_chosen: number == best,
        };
        all.insert(number, (measured.rank(), candidate));
    }
    let places: Vec<(f64, f64)> = all.values().map(|(_, it)| (it.goal, it.against)).collect();
    for (_, candidate) in all.values_mut() {
        let (goal, against) = (candidate.goal, candidate.against);
        let is_better = |(other, other_against): &(f64, f64)| {
            *other <= goal && *other_against <= against && (*other < goal || *other_against < against)
        };
        candidate.is_on_front = !places.iter().any(is_better);
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|(one_number, (one, of_one)), (other_number, (other, of_other))| {
        (of_other.is_chosen, of_other.seeds)
            .cmp(&(of_one.is_chosen, of_one.seeds))
            .then(one.0.total_cmp(&other.0))
            .then(one.1.total_cmp(&other.1))
            .then(one_number.cmp(other_number))
    });
    Ok(all.into_iter().map(|(_, (_, candidate))| candidate).collect())
}
