//! What laws and fixtures say of an answer: conditions in CEL (<https://cel.dev>), held against the contract when they
//! are read.
//!
//! | variable | what it is |
//! |---|---|
//! | `question` | the question: `question.failure.class`, `question.machine.pool_prefix` |
//! | `server` | in `state-mapping`, one server of the question; the condition is about each of them |
//! | `answer` | the answer: `answer.verdict`, `answer.reason`, and the payload of a verdict under its own name |
//! | `verdict` | the same as `answer.verdict` |
//!
//! Fields have the contract's names with `_` for `-`. Cases of enums are texts, with their dashes: `'out-of-stock'`.
//! So is a verdict: `verdict == 'wait'`. Its payload is null where the verdict is another: `answer.wait`,
//! `answer.return_to_pool.operating_system`, `answer.mapped.report`, `answer.plan`, `answer.recover.delete`.
//!
//! What is absent is null, and so is everything below it: `question.refusal.action == 'reboot'` is false where there is
//! no refusal. `has(question.refusal)` and `question.refusal != null` both ask whether it is there. An order (`<`) with
//! null is an error, so ask first: `!has(answer.wait) || answer.wait <= 30000`. Numbers are CEL's `int`; those above
//! 9223372036854775807 are `uint`, which compare with `int` and don't calculate with it.
//!
//! A misspelt variable, field, case or function is refused with the nearest one, and so is what compares things that
//! are never equal.

mod pick;

use std::sync::{Arc, LazyLock};

use cel::common::types::{CelBool, CelNull};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::parser::Expression as Ast;
use cel::{Context, Env};
use serde_json::Value as Json;
use windlass_contract::{Reader, Root, Scope, Shape, variable_at};
use windlass_policy::slots::{Slot, SlotName};
use windlass_policy::with_slot;

use crate::slot::{ProvedSlot, shapes};
use pick::{Found, PickError, Wanted, pick};

/// The most of an expression that is quoted, in bytes.
const MAX_QUOTED_BYTES: usize = 1 << 10;

/// A condition on a question and its answer.
pub struct Expression {
    text: String,
    slot: SlotName,
    ast: Ast,
    needs: Needs,
    env: Arc<Env>,
}

/// What an expression needs to be evaluated. The values of its variables have their positions.
#[derive(Debug, Default)]
struct Needs {
    question: Wanted,
    server: Wanted,
    answer: Wanted,
    variables: usize,
    /// The positions of those that say whether something is there.
    presences: Vec<usize>,
}

/// Why an expression can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// It can't be read, or says something that the contract doesn't have.
    #[error("the condition `{expression}` for the slot {slot}: {problem}")]
    Invalid {
        /// As it was written.
        expression: String,
        /// The slot that it is about.
        slot: SlotName,
        /// What is wrong, and what was probably meant.
        problem: String,
    },
    /// It has no value for this question and answer.
    #[error("the condition `{expression}` can't be decided: {problem}")]
    Undecided {
        /// As it was written.
        expression: String,
        /// Why: an order with null, a division by zero, an item that isn't there.
        problem: String,
    },
    /// The question or the answer isn't one of the slot.
    #[error("the {what} does not fit the slot {slot}: {problem}")]
    WrongJson {
        /// `question` or `answer`.
        what: &'static str,
        slot: SlotName,
        /// Where, and what was expected.
        problem: String,
    },
}

impl Expression {
    /// Reads a condition and holds it against the contract of the slot.
    ///
    /// # Errors
    /// It is no CEL, names what the slot doesn't have, or is not true or false.
    pub fn parse(text: &str, slot: SlotName) -> Result<Expression, ExpressionError> {
        static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
        let shapes = shapes(slot);
        let mut scope = Scope { answer: Some(shapes.one_answer()), ..Scope::of(shapes.question) };
        if let (SlotName::StateMapping, Some(Shape::List(server))) = (slot, shapes.question.field("servers")) {
            scope = scope.about("server", *server);
        }
        let mut reader = Reader::default();
        let (ast, _) = reader.condition(text, &scope).map_err(|problem| ExpressionError::Invalid {
            expression: windlass_policy::cut(text.trim(), MAX_QUOTED_BYTES),
            slot,
            problem: windlass_policy::plain_cel(&problem),
        })?;
        let mut needs = Needs { variables: reader.variables.len(), ..Needs::default() };
        for (position, variable) in reader.variables.into_iter().enumerate() {
            let wanted = match variable.root {
                Root::Question => &mut needs.question,
                Root::Item => &mut needs.server,
                Root::Answer => &mut needs.answer,
            };
            let wanted = wanted.at(variable.path.iter().map(|(_, name)| *name));
            if variable.presence {
                wanted.presence = Some(position);
                needs.presences.push(position);
            } else {
                wanted.value = Some(position);
            }
        }
        Ok(Expression { text: text.trim().to_owned(), slot, ast, needs, env: STANDARD.clone() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The slot that it is about.
    pub fn slot(&self) -> SlotName {
        self.slot
    }

    /// Whether it is true of this question and answer, given as JSON in the contract's words; in `state-mapping`, of
    /// every server and its answer.
    ///
    /// # Errors
    /// The JSON doesn't fit the slot, or the condition can't be decided.
    pub fn holds(&self, question: &Json, answer: &Json) -> Result<bool, ExpressionError> {
        with_slot!(self.slot, S => {
            let question = self.typed::<<S as Slot>::Question>("question", question)?;
            let answer = self.typed::<<S as Slot>::Answer>("answer", answer)?;
            self.holds_for_all::<S>(&question, &answer)
        })
    }

    fn typed<T: serde::de::DeserializeOwned>(&self, what: &'static str, json: &Json) -> Result<T, ExpressionError> {
        serde::Deserialize::deserialize(json).map_err(|error| ExpressionError::WrongJson {
            what,
            slot: self.slot,
            problem: error.to_string(),
        })
    }

    /// The same for typed ones. `S` is the slot that the expression was parsed for.
    ///
    /// # Errors
    /// The condition can't be decided.
    pub fn holds_for_all<S: ProvedSlot>(
        &self,
        question: &S::Question,
        answer: &S::Answer,
    ) -> Result<bool, ExpressionError> {
        for (item, one) in S::each(question, answer) {
            if !self.is_true::<S>(question, item, one)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether it is true of one answer.
    pub(crate) fn is_true<S: ProvedSlot>(
        &self,
        question: &S::Question,
        item: Option<&S::Item>,
        one: &S::One,
    ) -> Result<bool, ExpressionError> {
        let undecided = |problem: String| ExpressionError::Undecided { expression: self.text.clone(), problem };
        let values = self.values::<S>(question, item, one).map_err(|error| undecided(error.to_string()))?;
        let variables = Variables(values);
        let mut context = Context::with_env(self.env.clone());
        context.set_variable_resolver(&variables);
        let value = cel::Value::resolve(&self.ast, &context).map_err(|error| undecided(plain_error(&error)))?;
        match value {
            cel::Value::Bool(value) => Ok(value),
            other => Err(undecided(format!("it is {} and not true or false", other.type_of()))),
        }
    }

    fn values<S: ProvedSlot>(
        &self,
        question: &S::Question,
        item: Option<&S::Item>,
        one: &S::One,
    ) -> Result<Found, PickError> {
        let mut values: Found = Vec::new();
        values.resize_with(self.needs.variables, || None);
        for place in &self.needs.presences {
            values[*place] = Some(Box::new(CelBool::from(false)));
        }
        pick(&self.needs.question, question, &mut values)?;
        if let Some(item) = item {
            pick(&self.needs.server, item, &mut values)?;
        }
        pick(&self.needs.answer, one, &mut values)?;
        Ok(values)
    }
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("slot", &self.slot).field("text", &self.text).finish()
    }
}

/// CEL's own words name types that are none of the contract's.
fn plain_error(error: &cel::ExecutionError) -> String {
    match error {
        cel::ExecutionError::NoSuchOverload(of) if of.argument_types().iter().any(|kind| kind == "null_type") => {
            "an absent value cannot be compared; ask `has(...)` first".into()
        }
        other => other.to_string(),
    }
}

/// The values of the variables into which paths were rewritten.
struct Variables(Found);

impl VariableResolver for Variables {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        static NULL: CelNull = CelNull;
        let value: &'b (dyn Val + 'b) = match self.0.get(variable_at(variable)?)? {
            Some(value) => value.as_ref(),
            None => &NULL,
        };
        Some(CowVal::Borrowed(value))
    }
}

#[cfg(test)]
mod tests;
