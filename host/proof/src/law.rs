//! Statements about every answer of a policy, and files of them.
//!
//! ```toml
//! slot = "release"
//!
//! [[law]]
//! name = "what its owner wants kept is kept"
//! always = "question.requested != 'keep' || verdict == 'keep'"
//!
//! [[law]]
//! name = "a physical host of a pool is never terminated unasked"
//! never = "verdict == 'terminate' && has(question.machine.pool_prefix) && question.requested != 'terminate'"
//! ```

use std::sync::Arc;

use serde::Deserialize;
use windlass_policy::slots::SlotName;
use windlass_policy::{LoadedPolicy, Mistake, read_toml};

use crate::expression::{Expression, ExpressionError};
use crate::slot::{ProvedSlot, same_verdicts};

/// What a law says.
#[derive(Clone, Debug)]
pub enum Statement {
    /// The policy answers: no trap, no limit reached, nothing malformed.
    NeverFails,
    /// Asked the same, it answers the same, the reason included.
    Pure,
    /// The answer passes the host's check of the slot.
    PassesCheck,
    /// The condition is true of every answer; in a batch of the answer about each item.
    Always(Arc<Expression>),
    /// The condition is true of no answer.
    Never(Arc<Expression>),
    /// The policy leaves the decision to the next one, or the condition is true.
    OnlyDefersOr(Arc<Expression>),
    /// This policy judges the same. Reasons don't matter.
    Equivalent(Arc<LoadedPolicy>),
}

/// A statement with its name.
#[derive(Clone, Debug)]
pub struct Law {
    /// For people: what reports call it.
    pub name: String,
    /// What it says.
    pub statement: Statement,
}

impl Law {
    /// What is expected of every policy: it answers, it is pure, and the host accepts its answers.
    pub fn of_every_policy() -> Vec<Law> {
        let law = |name: &str, statement| Law { name: name.to_owned(), statement };
        vec![
            law("never-fails", Statement::NeverFails),
            law("pure", Statement::Pure),
            law("passes-check", Statement::PassesCheck),
        ]
    }

    /// A law that is named by its condition.
    pub fn of_condition(keyword: &str, expression: Expression, statement: fn(Arc<Expression>) -> Statement) -> Law {
        Law { name: format!("{keyword} {}", expression.text()), statement: statement(Arc::new(expression)) }
    }

    /// Holds the law against the answer that was given. A failure of the policy is [`Statement::NeverFails`]'s affair
    /// and no other law's.
    ///
    /// # Errors
    /// The condition can't be decided.
    pub(crate) fn judge<S: ProvedSlot>(
        &self,
        policy: &LoadedPolicy,
        question: &S::Question,
        answer: &Result<S::Answer, String>,
    ) -> Result<Judgement, ExpressionError> {
        let answer = match (&self.statement, answer) {
            (Statement::NeverFails, Err(why)) => return Ok(Judgement::Violated(why.clone())),
            (Statement::NeverFails, Ok(_)) => return Ok(Judgement::Kept),
            (_, Err(_)) => return Ok(Judgement::NotEvaluated),
            (_, Ok(answer)) => answer,
        };
        let problem = match &self.statement {
            Statement::NeverFails => None,
            Statement::Pure => match policy.ask::<S>(question).answer {
                Ok(again) if again == *answer => None,
                Ok(_) => Some("asked once more, it answers otherwise".into()),
                Err((_, why)) => Some(format!("asked once more, it fails: {why}")),
            },
            Statement::PassesCheck => S::check(question, answer).err(),
            Statement::Always(condition) => {
                return of_each::<S>(question, answer, |item, one| {
                    Ok((!condition.is_true::<S>(question, item, one)?).then_some("the condition is false"))
                });
            }
            Statement::Never(condition) => {
                return of_each::<S>(question, answer, |item, one| {
                    Ok(condition.is_true::<S>(question, item, one)?.then_some("the condition is true"))
                });
            }
            Statement::OnlyDefersOr(condition) => {
                return of_each::<S>(question, answer, |item, one| {
                    let is_kept = S::defers(one) || condition.is_true::<S>(question, item, one)?;
                    Ok((!is_kept).then_some("it decides, and the condition is false"))
                });
            }
            Statement::Equivalent(other) => match other.ask::<S>(question).answer {
                Ok(others) if same_verdicts::<S>(question, answer, &others) => None,
                Ok(others) => {
                    let others = serde_json::to_string(&others).unwrap_or_default();
                    Some(format!("{} answers {others}", other.identity().name))
                }
                Err((_, why)) => Some(format!("{} fails: {why}", other.identity().name)),
            },
        };
        Ok(problem.map_or(Judgement::Kept, Judgement::Violated))
    }
}

/// Holds a condition against each answer of a batch, or the one answer.
fn of_each<S: ProvedSlot>(
    question: &S::Question,
    answer: &S::Answer,
    problem: impl Fn(Option<&S::Item>, &S::One) -> Result<Option<&'static str>, ExpressionError>,
) -> Result<Judgement, ExpressionError> {
    let mut judgement = Judgement::NotEvaluated;
    for (item, one) in S::each(question, answer) {
        judgement = match problem(item, one)? {
            Some(problem) => return Ok(Judgement::Violated(problem.into())),
            None => Judgement::Kept,
        };
    }
    Ok(judgement)
}

/// What a law says of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// There was nothing to evaluate it for: the policy failed, or the batch was empty.
    NotEvaluated,
    Kept,
    /// What is wrong.
    Violated(String),
}

/// A file of laws can't be used. All that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct LawsError(Vec<Mistake>);

/// The laws of one slot, from a file.
#[derive(Debug)]
pub struct Laws {
    /// Whose.
    pub slot: SlotName,
    /// In the order of the file.
    pub laws: Vec<Law>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    slot: SlotName,
    #[serde(default)]
    law: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    name: String,
    always: Option<String>,
    never: Option<String>,
    only_defers_or: Option<String>,
}

impl Laws {
    /// Reads a file of laws, and holds each condition against the contract.
    ///
    /// # Errors
    /// See [`LawsError`].
    pub fn parse(text: &str) -> Result<Laws, LawsError> {
        read_toml(text, Self::of).map_err(LawsError)
    }

    fn of(file: File) -> Result<Laws, Vec<Mistake>> {
        let (mut laws, mut mistakes): (Vec<Law>, Vec<Mistake>) = (Vec::with_capacity(file.law.len()), Vec::new());
        if file.law.is_empty() {
            let keys = "always, never, only-defers-or";
            mistakes.push(Mistake::new(
                "law",
                format!("it has no law: write [[law]] with a name and one of the keys {keys}"),
            ));
        }
        for (index, row) in file.law.into_iter().enumerate() {
            let Row { name, always, never, only_defers_or } = row;
            let mut wrong = |key: &str, words: String| {
                mistakes.push(Mistake::new(format!("law[{index}]{key}"), format!("the law `{name}` {words}")));
            };
            if laws.iter().any(|law| law.name == name) {
                wrong(".name", "stands twice".to_owned());
            }
            let given = [
                (".always", always, Statement::Always as fn(_) -> _),
                (".never", never, Statement::Never),
                (".only-defers-or", only_defers_or, Statement::OnlyDefersOr),
            ];
            let mut given = given.into_iter().filter_map(|(key, text, statement)| Some((key, text?, statement)));
            match (given.next(), given.next()) {
                (Some((key, text, statement)), None) => match Expression::parse(&text, file.slot) {
                    Ok(condition) => laws.push(Law { name, statement: statement(Arc::new(condition)) }),
                    Err(error) => wrong(key, format!("cannot be used: {error}")),
                },
                _ => wrong("", "must have exactly one of the keys always, never, only-defers-or".to_owned()),
            }
        }
        if mistakes.is_empty() { Ok(Laws { slot: file.slot, laws }) } else { Err(mistakes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_laws_is_held_against_the_contract() {
        let laws = Laws::parse("slot = \"retry\"\n[[law]]\nname = \"a\"\nnever = \"verdict == 'defer'\"\n").unwrap();
        assert_eq!((laws.slot, laws.laws.len()), (SlotName::Retry, 1));
        for (text, words) in [
            ("slot = \"retries\"", "retries"),
            ("slot = \"retry\"\nlaws = []", "laws"),
            ("slot = \"retry\"\n", "it has no law"),
            ("slot = \"retry\"\n[[law]]\nname = \"a\"", "exactly one"),
            ("slot = \"retry\"\n[[law]]\nname = \"a\"\nnever = \"true\"\nalways = \"true\"", "exactly one"),
            ("slot = \"retry\"\n[[law]]\nname = \"a\"\nnever = \"verdict == 'stop'\"", "`a`"),
            (
                "slot = \"retry\"\n[[law]]\nname = \"a\"\nnever = \"true\"\n[[law]]\nname = \"a\"\nnever = \"true\"",
                "`a` stands twice",
            ),
            (
                "slot = \"retry\"\n[[law]]\nname = \"a\"\n[[law]]\nname = \"b\"\nnever = \"verdict == 'stop'\"",
                "always, never, only-defers-or; law[1].never: the law `b`",
            ),
            ("slto = 1\n[[law]]\nname = 1\nevery = 2\n", "line 3: `name`"),
        ] {
            let error = Laws::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
