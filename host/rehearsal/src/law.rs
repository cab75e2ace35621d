//! Conditions on outcomes, in CEL: `wait_p95 > 300`, `cost > 1.2 * first.cost`.

use std::collections::HashMap;

use cel::{Context, Program, Value};
use serde::{Deserialize, Serialize};
use windlass_contract::meant;

use crate::figure::{FIGURES, Figure};
use crate::outcome::{ArmKind, Outcome};

/// The variable with the figures of the first arm, for the same seed.
const FIRST: &str = "first";
/// The longest condition, in bytes.
const MAX_BYTES: usize = 4_096;

/// A condition that no outcome may meet, or that every outcome must meet.
#[derive(Debug)]
pub struct Law {
    text: String,
    program: Program,
    is_never: bool,
    /// The figures that it names.
    names: Vec<&'static str>,
}

/// Why a condition cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LawError {
    /// It is not CEL.
    #[error("the condition `{0}` cannot be read: {1}")]
    Syntax(String, String),
    /// It names what no outcome has.
    #[error("the condition `{0}` names {1}")]
    Unknown(String, String),
    /// It has no value, or one that is not true or false.
    #[error("the condition `{0}` {1}")]
    Undecided(String, String),
}

/// What came of a law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LawResult {
    /// `never` or `always`, and the condition.
    pub law: String,
    /// Whether every outcome keeps it.
    pub holds: bool,
    /// The outcomes that do not.
    pub violations: Vec<Violation>,
}

/// An outcome that violates a law.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    pub arm: String,
    pub seed: u64,
    /// The figures that the law names, for people: `wait_p95 = 312.0`.
    pub because: Vec<String>,
}

impl Law {
    /// A condition that no outcome may meet.
    ///
    /// # Errors
    /// It is not a condition on figures.
    pub fn never(text: &str) -> Result<Self, LawError> {
        Self::read(text, true)
    }

    /// A condition that every outcome must meet.
    ///
    /// # Errors
    /// It is not a condition on figures.
    pub fn always(text: &str) -> Result<Self, LawError> {
        Self::read(text, false)
    }

    fn read(text: &str, is_never: bool) -> Result<Self, LawError> {
        let text = text.trim().to_owned();
        let syntax = |why: String| LawError::Syntax(text.clone(), why);
        if text.len() > MAX_BYTES {
            return Err(LawError::Syntax(
                format!("{}...", text.chars().take(40).collect::<String>()),
                "it is too long".into(),
            ));
        }
        let program = Program::compile(&text).map_err(|errors| {
            let first = errors.errors.first().map(|error| error.msg.clone());
            let words = first.unwrap_or_else(|| errors.to_string());
            syntax(windlass_policy::plain_cel(words.trim_start_matches("Syntax error: ")))
        })?;
        let mut variables = program.references().variables().into_iter().map(str::to_owned).collect::<Vec<_>>();
        variables.sort();
        let known = || FIGURES.iter().map(|figure| figure.name).chain([FIRST]);
        if let Some(unknown) = variables.iter().find(|name| known().all(|known| known != name.as_str())) {
            return Err(LawError::Unknown(
                text,
                format!("`{unknown}`, which is not a figure{}", meant(unknown, known())),
            ));
        }
        let is_named = |name: &&str| variables.iter().any(|variable| variable == name);
        let names = FIGURES.iter().map(|figure| figure.name).filter(is_named).collect();
        let law = Self { text, program, is_never, names };
        // What `first` has is only known when the condition is evaluated.
        law.is_met(None, &|_| 0.0, &|_| 0.0)?;
        Ok(law)
    }

    /// Refuses a condition on figures that such arms do not have.
    pub(crate) fn check(&self, kind: ArmKind) -> Result<(), LawError> {
        let is_foreign = |name: &&&str| Figure::named(name).is_some_and(|figure| !figure.is_of(kind));
        if let Some(foreign) = self.names.iter().find(is_foreign) {
            let known = Figure::all_of(kind).map(|figure| figure.name);
            let words = match kind {
                ArmKind::Group => "a runner's group does not have",
                ArmKind::Cluster => "a cluster does not have",
            };
            let words = format!("`{foreign}`, which {words}{}", meant(foreign, known));
            return Err(LawError::Unknown(self.text.clone(), words));
        }
        self.is_met(Some(kind), &|_| 0.0, &|_| 0.0).map(drop)
    }

    /// The law in words.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} {}", if self.is_never { "never" } else { "always" }, self.text)
    }

    fn is_met(
        &self,
        kind: Option<ArmKind>,
        value: &dyn Fn(&Figure) -> f64,
        first: &dyn Fn(&Figure) -> f64,
    ) -> Result<bool, LawError> {
        let undecided = |why: String| LawError::Undecided(self.text.clone(), why);
        let mut context = Context::default();
        let mut of_first: HashMap<String, Value> = HashMap::new();
        for figure in FIGURES.iter().filter(|figure| kind.is_none_or(|kind| figure.is_of(kind))) {
            context.add_variable_from_value(figure.name, value(figure));
            of_first.insert(figure.name.to_owned(), Value::Float(first(figure)));
        }
        context.add_variable_from_value(FIRST, of_first);
        match self.program.execute(&context) {
            Ok(Value::Bool(met)) => Ok(met),
            Ok(Value::Int(_) | Value::UInt(_) | Value::Float(_)) => {
                let text = &self.text;
                Err(undecided(format!("is a number and not true or false: compare it, as in `{text} > 300`")))
            }
            Ok(other) => Err(undecided(format!("is {} and not true or false", other.type_of()))),
            Err(error) if error.to_string().contains("no matching overload") => Err(undecided(
                "has no value: a figure is a number, and is compared with a number, without quotes".to_owned(),
            )),
            Err(error) => Err(undecided(format!("has no value: {error}"))),
        }
    }

    /// Whether an outcome keeps the law; beside it the outcome of the first arm for the same seed.
    ///
    /// # Errors
    /// The condition has no value for it.
    pub(crate) fn holds(&self, outcome: &Outcome, first: &Outcome) -> Result<bool, LawError> {
        let met = self.is_met(Some(outcome.kind()), &|figure| figure.of(outcome), &|figure| figure.of(first))?;
        Ok(met != self.is_never)
    }

    /// The figures that it names, with their values in an outcome.
    pub(crate) fn because(&self, outcome: &Outcome) -> Vec<String> {
        let is_named = |name: &str| self.names.contains(&name);
        let named = FIGURES.iter().filter(|figure| is_named(figure.name));
        named.map(|figure| format!("{} = {}", figure.name, round(figure.of(outcome)))).collect()
    }
}

/// A number without digits that mean nothing.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(text: &str, wait: f64, first_cost: f64) -> bool {
        let law = Law::never(text).unwrap();
        let value = |figure: &Figure| if figure.name == "wait_p95" { wait } else { 2.0 };
        let first = |figure: &Figure| if figure.name == "cost" { first_cost } else { 0.0 };
        law.is_met(None, &value, &first).unwrap()
    }

    #[test]
    fn whole_numbers_and_those_with_a_point_compare() {
        assert!(met("wait_p95 > 300", 300.1, 0.0) && !met("wait_p95 > 300", 300.0, 0.0));
        assert!(met("wait_p95 > 300.05", 300.1, 0.0) && met("left == 2", 0.0, 0.0) && !met("left != 2", 0.0, 0.0));
        assert!(met("300 < wait_p95 && jobs >= 2", 301.0, 0.0));
    }

    #[test]
    fn a_law_can_be_about_the_first_arm() {
        assert!(met("cost > 1.2 * first.cost", 0.0, 1.6) && !met("cost > 1.2 * first.cost", 0.0, 1.7));
    }

    #[test]
    fn a_condition_on_figures_of_the_other_kind_of_arms_is_refused() {
        let refused = |text: &str, kind: ArmKind| Law::never(text).unwrap().check(kind).unwrap_err().to_string();
        let words = refused("wait_p95 > 300", ArmKind::Cluster);
        assert!(words.contains("`wait_p95`, which a cluster does not have; there are `ready_create`"), "{words}");
        assert!(refused("repairs > 1", ArmKind::Group).contains("a runner's group does not have"));
        assert!(refused("cost > first.jobs", ArmKind::Cluster).contains("has no value"));
        Law::never("cost > first.cost && ready_p95 > 1").unwrap().check(ArmKind::Cluster).unwrap();
    }

    #[test]
    fn what_is_no_condition_on_figures_is_refused_with_what_was_probably_meant() {
        for (text, words) in [
            ("wait_p95 >", "cannot be read: it ends where more is expected"),
            ("wait_95 > 3", "`wait_95`, which is not a figure; did you mean `wait_p95`?"),
            ("cost", "is a number and not true or false: compare it, as in `cost > 300`"),
            ("cost > 'a lot'", "has no value: a figure is a number"),
            ("first.costs > 1", "has no value"),
            ("", "cannot be read"),
        ] {
            let error = Law::never(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
