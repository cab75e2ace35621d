//! Holds laws against every answer that a policy gives within stated bounds, and against answers beyond them.
//!
//! First every question of the [space](crate::space), or so many of them, drawn from it, where there are more than were
//! asked for. Then, from the wider space, questions such that every two values of any two places come together, and
//! questions at random, from a seed that the result states.

mod shrink;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use windlass_policy::slots::{Slot, SlotName};
use windlass_policy::{LoadedPolicy, with_slot};

use crate::expression::ExpressionError;
use crate::fixture::{Expect, Fixture, changes};
use crate::law::{Judgement, Law, Statement};
use crate::slot::ProvedSlot;
use crate::space::{Bound, BoundsError, Space, Values};
use crate::work::{self, Plan, Progress, Tally};

/// How much is asked.
#[derive(Clone, Debug)]
pub struct ProofOptions {
    /// At most so many questions of the bounded space. Where it has more, so many are drawn from it, each choice of a
    /// place as likely as any other. Default 20 million.
    pub enumerated: u64,
    /// So many questions at random. Default 100,000.
    pub random: u64,
    /// From which questions are drawn. Default 0.
    pub seed: u64,
    /// Values in place of the tables'.
    pub bounds: Vec<(String, Values)>,
    /// Whether to ask nothing more once a law is violated. Default false.
    pub stop_at_violation: bool,
    /// Threads that ask. Default: as many as there are cores.
    pub threads: NonZeroUsize,
    /// Says meanwhile how far it is.
    pub progress: Arc<Progress>,
}

impl Default for ProofOptions {
    fn default() -> ProofOptions {
        ProofOptions {
            enumerated: 20_000_000,
            random: 100_000,
            seed: 0,
            bounds: Vec::new(),
            stop_at_violation: false,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            progress: Arc::default(),
        }
    }
}

/// Why nothing could be proved or refuted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The bounds can't be used.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// No host can ask any question like these, or none was wanted.
    #[error("no question was asked, so nothing is known: ask more of them, or within wider bounds")]
    NothingAsked,
    /// A condition can't be decided for a question and its answer.
    #[error("the law `{law}`: {source}; with the question {question}")]
    Undecided {
        law: String,
        source: ExpressionError,
        /// For which question: the changes to the slot's example.
        question: Json,
    },
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    pub slot: SlotName,
    /// How many combinations of values there are within the bounds; `u64::MAX` where there are more.
    pub space: u64,
    /// How many questions of them were asked.
    pub enumerated: u64,
    /// Whether those were all that a host can ask.
    pub exhaustive: bool,
    /// Whether each was drawn, since there are more combinations than were to be asked; one may have been drawn twice.
    /// Otherwise they were asked in order.
    pub drawn: bool,
    /// In an exhaustive proof, how many of the combinations were left out, since no host can ask them: a position that
    /// leads nowhere, something twice that is there once.
    pub impossible: u64,
    /// How many questions were asked beyond the bounds so that every two values of any two places came together.
    pub pairwise: u64,
    /// How many such pairs were left out, since no host can ask them: none of a thousand questions with both was possible.
    pub impossible_pairs: u64,
    /// How many more pairs there are, of which none was asked: there are too many.
    pub untried_pairs: u64,
    /// How many questions were asked at random.
    pub random: u64,
    /// From which the random ones were drawn.
    pub seed: u64,
    /// The bounds. What has none has all its values.
    pub bounds: Vec<Bound>,
    /// Each law and whether it holds.
    pub laws: Vec<Finding>,
}

impl Proof {
    /// Whether every law holds within the bounds.
    pub fn holds(&self) -> bool {
        self.laws.iter().all(Finding::holds)
    }
}

/// What was found of one law.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub law: String,
    /// For how many questions it was evaluated: not where the policy failed, nor for a batch without items.
    pub evaluated: u64,
    /// How many questions violate it.
    pub violations: u64,
    /// The number of the first of them, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The first of them, made as like the slot's example as can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<Counterexample>,
}

impl Finding {
    /// Whether it was evaluated, and no question violates it.
    pub fn holds(&self) -> bool {
        self.evaluated > 0 && self.violations == 0
    }
}

/// A question that shows that a law is violated.
#[derive(Clone, Debug, Serialize)]
pub struct Counterexample {
    /// The whole question.
    pub question: Json,
    /// What of it is other than in the slot's example.
    pub changes: Json,
    /// The answer; null where the policy failed.
    pub answer: Json,
    /// What is wrong with it.
    pub problem: String,
    /// A fixture that fails as long as the law is violated.
    pub fixture: Json,
}

/// Asks the policy, and holds the laws against its answers.
///
/// # Errors
/// The bounds can't be used, or a condition can't be decided.
pub fn prove(policy: &LoadedPolicy, laws: &[Law], options: &ProofOptions) -> Result<Proof, ProofError> {
    with_slot!(policy.identity().slot, S => prove_slot::<S>(policy, laws, options))
}

fn prove_slot<S: ProvedSlot>(policy: &LoadedPolicy, laws: &[Law], options: &ProofOptions) -> Result<Proof, ProofError> {
    let within = Space::within(S::NAME, &options.bounds)?;
    let beyond = Space::beyond(S::NAME, &options.bounds)?;
    let plan = Plan::new::<S>(&within, &beyond, options.enumerated, options.random, options.seed, &options.progress);
    let undecided = |law: &Law, source: ExpressionError, question: &S::Question| ProofError::Undecided {
        law: law.name.clone(),
        source,
        question: changes_of(S::NAME, &to_json(question)),
    };
    let stop = AtomicBool::new(false);
    let counts = Counts(vec![Count::default(); laws.len()]);
    let look = |number, question: &S::Question, counts: &mut Counts| {
        let answer = answer_of::<S>(policy, question);
        for (law, count) in laws.iter().zip(&mut counts.0) {
            match law.judge::<S>(policy, question, &answer) {
                Ok(Judgement::NotEvaluated) => {}
                Ok(Judgement::Kept) => count.evaluated += 1,
                Ok(Judgement::Violated(_)) => {
                    count.violated(number);
                    stop.fetch_or(options.stop_at_violation, Ordering::Relaxed);
                }
                Err(source) => return Err(undecided(law, source, question)),
            }
        }
        Ok(())
    };
    let (counts, asked) = work::run::<S, _, _>(&plan, options.threads, &options.progress, &stop, counts, look)?;
    if asked.all() == 0 {
        return Err(ProofError::NothingAsked);
    }
    let exhaustive = plan.is_exhaustive() && !stop.into_inner();
    let mut findings = Vec::with_capacity(laws.len());
    for (law, count) in laws.iter().zip(&counts.0) {
        let counterexample = match count.first.and_then(|number| plan.question::<S>(number, &mut Vec::new())) {
            Some(question) => Some(
                counterexample::<S>(policy, law, &within, &question)
                    .map_err(|source| undecided(law, source, &question))?,
            ),
            None => None,
        };
        findings.push(Finding {
            law: law.name.clone(),
            evaluated: count.evaluated,
            violations: count.violations,
            first: count.first.map(|number| number + 1),
            counterexample,
        });
    }
    Ok(Proof {
        slot: S::NAME,
        space: within.size(),
        enumerated: asked.within.questions,
        exhaustive,
        drawn: !plan.is_exhaustive(),
        impossible: if exhaustive { asked.within.impossible } else { 0 },
        pairwise: asked.pairs.questions,
        impossible_pairs: asked.pairs.impossible,
        untried_pairs: plan.untried_pairs(),
        random: asked.random.questions,
        seed: options.seed,
        bounds: within.bounds().to_vec(),
        laws: findings,
    })
}

/// How often a law was evaluated and violated, and by which question first.
#[derive(Clone, Debug, Default)]
struct Count {
    evaluated: u64,
    violations: u64,
    first: Option<u64>,
}

impl Count {
    fn violated(&mut self, number: u64) {
        self.evaluated += 1;
        self.violations += 1;
        self.first = Some(self.first.map_or(number, |first| first.min(number)));
    }
}

/// By law.
struct Counts(Vec<Count>);

impl Tally for Counts {
    fn empty(&self) -> Counts {
        Counts(vec![Count::default(); self.0.len()])
    }

    fn merge(&mut self, other: Counts) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            mine.evaluated += others.evaluated;
            mine.violations += others.violations;
            mine.first = match (mine.first, others.first) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
}

fn answer_of<S: Slot>(policy: &LoadedPolicy, question: &S::Question) -> Result<S::Answer, String> {
    policy.ask::<S>(question).answer.map_err(|(_, why)| why)
}

/// The smallest question that violates the law in its way: none of its differences from the example can be taken back.
fn counterexample<S: ProvedSlot>(
    policy: &LoadedPolicy,
    law: &Law,
    space: &Space,
    question: &S::Question,
) -> Result<Counterexample, ExpressionError> {
    let problem = |json: &Json| -> Option<(Option<S::Answer>, String)> {
        let question: S::Question = serde_json::from_value(json.clone()).ok()?;
        if !S::is_possible(&question) {
            return None;
        }
        let answer = answer_of::<S>(policy, &question);
        match law.judge::<S>(policy, &question, &answer) {
            Ok(Judgement::Violated(problem)) => Some((answer.ok(), problem)),
            _ => None,
        }
    };
    let example = S::NAME.example_question();
    let question = shrink::shrink(to_json(question), &example, &space.full(), |json| problem(json).is_some());
    // Shrinking keeps what violates the law; a law that is violated now and then only is the purity's.
    let (answer, problem) = problem(&question)
        .unwrap_or_else(|| (None, "it was violated, and no longer is: the policy is not pure".into()));
    let expect = expectation::<S>(law, &question);
    let changes = changes_of(S::NAME, &question);
    let fixture = Fixture {
        schema: None,
        about: Some(format!("A counterexample to the law: {}", law.name)),
        slot: S::NAME,
        // Those of rules are the rules themselves, which a test reads from their file.
        settings: if policy.identity().are_rules() { Map::new() } else { policy.settings().clone() },
        question: changes.as_object().cloned().unwrap_or_default(),
        host_calls: Vec::new(),
        expect,
    };
    Ok(Counterexample {
        question,
        changes,
        answer: answer.map_or(Json::Null, |answer| to_json(&answer)),
        problem,
        fixture: to_json(&fixture),
    })
}

/// What a policy's answer must be for the law to hold. That it answers, and passes the check, every fixture expects.
fn expectation<S: ProvedSlot>(law: &Law, question: &Json) -> Expect {
    match &law.statement {
        Statement::NeverFails | Statement::Pure | Statement::PassesCheck => Expect::default(),
        Statement::Always(condition) => Expect { holds: Some(condition.text().to_owned()), ..Expect::default() },
        Statement::Never(condition) => Expect { holds: Some(format!("!({})", condition.text())), ..Expect::default() },
        Statement::OnlyDefersOr(condition) => {
            Expect { holds: Some(format!("verdict == 'defer' || ({})", condition.text())), ..Expect::default() }
        }
        Statement::Equivalent(other) => Expect { verdict: verdicts_of::<S>(other, question), ..Expect::default() },
    }
}

/// The verdict of a policy; in a batch the list of them.
fn verdicts_of<S: ProvedSlot>(policy: &Arc<LoadedPolicy>, question: &Json) -> Option<Json> {
    let question: S::Question = serde_json::from_value(question.clone()).ok()?;
    let answer = policy.ask::<S>(&question).answer.ok()?;
    let verdicts: Vec<Json> = S::each(&question, &answer).map(|(_, one)| to_json(S::verdict(one))).collect();
    match S::NAME {
        SlotName::StateMapping => Some(Json::Array(verdicts)),
        _ => verdicts.into_iter().next(),
    }
}

fn changes_of(slot: SlotName, question: &Json) -> Json {
    changes(&slot.example_question(), question).unwrap_or_else(|| json!({}))
}

/// Questions and answers have no map with keys other than texts, and no number that JSON lacks.
fn to_json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or_else(|_| Json::Object(Map::new()))
}
