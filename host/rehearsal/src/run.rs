//! Every arm with every seed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize};
use windlass_contract::nearest;
use windlass_fleeting::{Arm, Counted, IncidentKind, RehearsalError, Rehearser, Scenario};

use crate::comparison::{Difference, Parting, differences, parting};
use crate::figure::{Figure, Spread, Word, figure_name};
use crate::law::{Law, LawError, LawResult, Violation};
use crate::outcome::{ArmKind, Outcome};

/// What a report says of its error where it knows nothing.
pub const NOT_CALIBRATED: &str =
    "Not calibrated: the scenario has no [observed], so the error of this rehearsal is unknown.";

/// A configuration with the name that people give it.
#[derive(Clone)]
pub struct NamedArm<A = Arm> {
    pub name: String,
    pub arm: A,
}

/// A configuration that can be rehearsed.
pub trait RehearsedArm: Sync {
    /// What it configures.
    const KIND: ArmKind;

    /// The time zone in which its days begin, where it names one.
    fn time_zone(&self) -> Option<String>;

    /// What comes of it in a scenario with a seed.
    ///
    /// # Errors
    /// Something in it is wrong; and when it was interrupted.
    fn rehearse(&self, scenario: &Scenario, seed: u64, rehearser: &Rehearser) -> Result<Outcome, RehearsalError>;
}

impl RehearsedArm for Arm {
    const KIND: ArmKind = ArmKind::Group;

    fn time_zone(&self) -> Option<String> {
        self.time_zone()
    }

    fn rehearse(&self, scenario: &Scenario, seed: u64, rehearser: &Rehearser) -> Result<Outcome, RehearsalError> {
        rehearser.rehearse(scenario, self, seed).map(Outcome::from)
    }
}

/// What came of a scenario under every arm. Fields are only ever added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The scenario's title. Empty: it has none.
    pub title: String,
    /// For how many hours jobs came, or the cluster was wanted.
    pub hours: u32,
    /// In milliseconds since 1970.
    pub starts_at: u64,
    pub time_zone: String,
    /// What went wrong, in the scenario's order.
    pub incidents: Vec<ToldIncident>,
    /// How clusters were scaled, in the scenario's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<ToldScale>,
    pub seeds: Vec<u64>,
    /// In the order in which they were given.
    pub arms: Vec<ArmOutcomes>,
    /// Every arm but the first against the first.
    pub differences: Vec<Difference>,
    /// Where they first did different things, for the first seed.
    pub partings: Vec<Parting>,
    pub laws: Vec<LawResult>,
    /// The first arm beside what the scenario says was observed.
    pub calibration: Vec<Calibrated>,
    /// In what a rehearsal differs from what will be.
    pub simplified: Vec<String>,
}

/// An incident, as the scenario has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldIncident {
    #[serde(deserialize_with = "incident_kind")]
    pub kind: Word,
    /// In milliseconds since 1970.
    pub starts_at: u64,
    pub ends_at: u64,
    /// Null: every zone.
    pub zone: Option<String>,
    /// Null: every type.
    pub server_type: Option<String>,
}

/// A scaling, as the scenario has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldScale {
    /// In milliseconds since 1970.
    pub at: u64,
    /// How many nodes each of these groups was to have.
    pub groups: BTreeMap<String, u32>,
}

impl ToldScale {
    /// For people: `scale to web = 5`.
    #[must_use]
    pub fn words(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(|(name, count)| format!("{name} = {count}")).collect();
        format!("scale to {}", groups.join(", "))
    }
}

fn incident_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    IncidentKind::deserialize(deserializer).map(IncidentKind::as_str)
}

/// A figure of the first arm, on average over the seeds, beside what was observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    #[serde(deserialize_with = "figure_name")]
    pub figure: Word,
    pub observed: f64,
    pub rehearsed: f64,
    /// How far the rehearsal is off, as a share of what was observed. Null: that is zero.
    pub error: Option<f64>,
}

impl Calibrated {
    /// For people: `waiting p95: 93.0 s observed, 88.4 s rehearsed (-5 %)`.
    #[must_use]
    pub fn words(&self) -> String {
        let Some(figure) = Figure::named(self.figure) else { return String::new() };
        let error = self.error.map(|error| format!(" ({:+.0} %)", error * 100.0)).unwrap_or_default();
        let [observed, rehearsed] = [self.observed, self.rehearsed].map(|value| figure.words(value));
        format!("{}: {observed} observed, {rehearsed} rehearsed{error}", figure.title)
    }
}

/// What came of an arm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmOutcomes {
    pub arm: String,
    /// Each figure over all seeds.
    pub figures: Vec<Spread>,
    /// In the order of the seeds.
    pub outcomes: Vec<Outcome>,
}

impl ArmOutcomes {
    /// The figures that it has.
    pub fn figures(&self) -> impl Iterator<Item = &'static Figure> {
        self.figures.iter().filter_map(|spread| Figure::named(spread.figure))
    }

    /// What its outcomes tell beside figures: notes, and why creations and operations failed.
    #[must_use]
    pub fn notes(&self) -> BTreeSet<String> {
        let mut notes: BTreeSet<String> = self.outcomes.iter().flat_map(|outcome| outcome.notes.clone()).collect();
        let operations = |outcome: &'_ Outcome| -> Vec<Counted> {
            outcome.cluster.as_ref().map(|cluster| cluster.failed_operations.clone()).unwrap_or_default()
        };
        notes.extend(self.failed("creations", |outcome| outcome.failures.clone()));
        notes.extend(self.failed("operations", operations));
        notes
    }

    /// For each reason, how many failed with each seed.
    fn failed(&self, what: &str, of: impl Fn(&Outcome) -> Vec<Counted>) -> Vec<String> {
        let mut seeds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for outcome in &self.outcomes {
            for Counted { name, count } in of(outcome) {
                seeds.entry(name).or_default().push(format!("{count} with seed {}", outcome.seed));
            }
        }
        seeds.iter().map(|(name, seeds)| format!("failed {what} ({name}): {}", seeds.join(", "))).collect()
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalFailure {
    /// An arm cannot be rehearsed.
    #[error("arm {arm}")]
    Arm {
        arm: String,
        #[source]
        source: Box<RehearsalError>,
    },
    /// What was observed is none of the arms' figures.
    #[error("observed.{name} is no figure{}", .nearest.map(|it| format!("; did you mean {it}?")).unwrap_or_default())]
    Observed { name: String, nearest: Option<&'static str> },
    /// A law cannot be decided.
    #[error(transparent)]
    Law(#[from] LawError),
}

impl Rehearsal {
    /// Rehearses the scenario under every arm with every seed, as many at a time as there are processors. `ended` is
    /// called after each.
    ///
    /// # Errors
    /// An arm cannot be rehearsed, a law has no value, or what was observed is no figure.
    pub fn run<A: RehearsedArm>(
        scenario: &Scenario,
        arms: &[NamedArm<A>],
        seeds: &[u64],
        laws: &[Law],
        rehearser: &Rehearser,
        ended: &(dyn Fn() + Sync),
    ) -> Result<Self, RehearsalFailure> {
        laws.iter().try_for_each(|law| law.check(A::KIND))?;
        let names: Vec<&'static str> = Figure::all_of(A::KIND).map(|figure| figure.name).collect();
        if let Some(name) = scenario.observed.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(RehearsalFailure::Observed { name: name.clone(), nearest: nearest(name, names) });
        }
        let mut scenario = scenario.clone();
        // Their days begin at the same moment.
        if scenario.time_zone.is_none() {
            scenario.time_zone = arms.iter().find_map(|named| named.arm.time_zone());
        }
        let pairs: VecDeque<(usize, u64)> =
            (0..arms.len()).flat_map(|arm| seeds.iter().map(move |seed| (arm, *seed))).collect();
        let (total, queue) = (pairs.len(), Mutex::new((0..).zip(pairs).collect::<VecDeque<(usize, (usize, u64))>>()));
        let results: Mutex<Vec<Option<Result<Outcome, RehearsalError>>>> =
            Mutex::new((0..total).map(|_| None).collect());
        let work = || {
            loop {
                let Some((place, (arm, seed))) = queue.lock().pop_front() else { return };
                let result = arms[arm].arm.rehearse(&scenario, seed, rehearser);
                if result.is_err() {
                    queue.lock().clear();
                }
                results.lock()[place] = Some(result);
                ended();
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(total);
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let mut all = Vec::with_capacity(total);
        for (place, result) in results.into_inner().into_iter().enumerate() {
            match result {
                Some(Ok(outcome)) => all.push(outcome),
                Some(Err(source)) => {
                    let arm = arms[place / seeds.len().max(1)].name.clone();
                    return Err(RehearsalFailure::Arm { arm, source: Box::new(source) });
                }
                // It was not tried, because another one failed that stands behind it.
                None => {}
            }
        }
        let mut outcomes = all.into_iter();
        let arms = arms
            .iter()
            .map(|named| {
                let outcomes: Vec<Outcome> = outcomes.by_ref().take(seeds.len()).collect();
                let figures = Figure::all_of(A::KIND).map(|figure| Spread::of(figure, &outcomes)).collect();
                ArmOutcomes { arm: named.name.clone(), figures, outcomes }
            })
            .collect();
        Self::of(&scenario, seeds, arms, laws)
    }

    fn of(
        scenario: &Scenario,
        seeds: &[u64],
        mut arms: Vec<ArmOutcomes>,
        laws: &[Law],
    ) -> Result<Self, RehearsalFailure> {
        let mut simplified = Vec::new();
        for outcome in arms.iter_mut().flat_map(|arm| &mut arm.outcomes) {
            simplified = std::mem::take(&mut outcome.simplified);
        }
        let (mut differences_of_all, mut partings) = (Vec::new(), Vec::new());
        let mut results = Vec::new();
        if let Some((first, others)) = arms.split_first() {
            for other in others {
                differences_of_all.extend(differences(first, other));
                if let (Some(one), Some(another)) = (first.outcomes.first(), other.outcomes.first()) {
                    partings.extend(parting(&other.arm, one, another));
                }
            }
            for law in laws {
                let mut violations = Vec::new();
                for arm in &arms {
                    for (outcome, of_first) in arm.outcomes.iter().zip(&first.outcomes) {
                        if !law.holds(outcome, of_first)? {
                            let because = law.because(outcome);
                            violations.push(Violation { arm: arm.arm.clone(), seed: outcome.seed, because });
                        }
                    }
                }
                results.push(LawResult { law: law.words(), holds: violations.is_empty(), violations });
            }
        }
        let calibration = arms.first().map(|arm| calibration(scenario, arm)).unwrap_or_default();
        let any = arms.iter().flat_map(|arm| &arm.outcomes).next();
        let starts_at = any.map_or(0, |outcome| outcome.starts_at);
        let after = |time: std::time::Duration| starts_at.saturating_add(u64::try_from(time.as_millis()).unwrap_or(0));
        let incident = |incident: &windlass_fleeting::Incident| ToldIncident {
            kind: incident.kind.as_str(),
            starts_at: after(incident.at.0),
            ends_at: after(incident.at.0 + incident.lasts.unwrap_or_default().0),
            zone: incident.zone.clone(),
            server_type: incident.server_type.clone(),
        };
        let scale =
            |scale: &windlass_fleeting::Scale| ToldScale { at: after(scale.at.0), groups: scale.groups.clone() };
        Ok(Self {
            title: scenario.title.clone(),
            hours: scenario.hours,
            starts_at,
            time_zone: any.map(|outcome| outcome.time_zone.clone()).unwrap_or_default(),
            incidents: scenario.incidents.iter().map(incident).collect(),
            scales: scenario.scales.iter().map(scale).collect(),
            seeds: seeds.to_vec(),
            arms,
            differences: differences_of_all,
            partings,
            laws: results,
            calibration,
            simplified,
        })
    }

    /// What the first arm was compared with, and the name of that arm.
    #[must_use]
    pub fn calibrated(&self) -> Option<(&str, &[Calibrated])> {
        let first = self.arms.first()?;
        (!self.calibration.is_empty()).then_some((first.arm.as_str(), self.calibration.as_slice()))
    }

    /// Whether every law holds, everything that was created is gone, and every job has ended.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let mut outcomes = self.arms.iter().flat_map(|arm| &arm.outcomes);
        self.laws.iter().all(|law| law.holds) && outcomes.all(|outcome| outcome.is_good())
    }

    /// The day of a time in its time zone, as `Monday 3 August 2026, 00:00`.
    #[must_use]
    pub fn local_day(&self, at: u64) -> String {
        self.formatted(at, "%A %-d %B %Y, %H:%M")
    }

    /// A time of it in its time zone, as `Mon 09:30`.
    #[must_use]
    pub fn local(&self, at: u64) -> String {
        self.formatted(at, "%a %H:%M")
    }

    fn formatted(&self, at: u64, format: &str) -> String {
        let zone = TimeZone::get(&self.time_zone).unwrap_or(TimeZone::UTC);
        let at = Timestamp::from_millisecond(i64::try_from(at).unwrap_or(i64::MAX)).unwrap_or_default();
        at.to_zoned(zone).strftime(format).to_string()
    }
}

fn calibration(scenario: &Scenario, arm: &ArmOutcomes) -> Vec<Calibrated> {
    let calibrated = |spread: &Spread| {
        let observed = *scenario.observed.get(spread.figure)?;
        let error = (observed != 0.0).then(|| (spread.mean - observed) / observed);
        Some(Calibrated { figure: spread.figure, observed, rehearsed: spread.mean, error })
    };
    arm.figures.iter().filter_map(calibrated).collect()
}
