//! What changes from one policy to another: over the questions within bounds, and over those that were really asked.
//!
//! Decisions are compared, as a chain of the policy and the built-in default makes them: what a policy defers, the default
//! decides. In a chain with other policies behind it, they decide; it is counted how often that matters.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde_json::{Value as Json, json};
use windlass_policy::slots::{Deferred, SlotName};
use windlass_policy::{DecisionId, LoadedPolicy, UnreadRecord, with_slot};

use crate::fixture::changes;
use crate::prove::{ProofError, ProofOptions};
use crate::slot::ProvedSlot;
use crate::space::{Bound, Space};
use crate::work::{self, Plan, Tally};

/// What changes.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub slot: SlotName,
    /// How many questions both policies were asked.
    pub asked: u64,
    /// How many of them were recorded.
    pub recorded: u64,
    /// Whether these were, beside the recorded ones, all questions within the bounds.
    pub exhaustive: bool,
    pub bounds: Vec<Bound>,
    /// Recorded decisions that could not be asked: their question is not on record, or no question of the slot.
    pub unreadable: u64,
    /// How many of the answers before were deferred; in a batch, answers about items.
    pub deferred_before: u64,
    /// The same of the answers after.
    pub deferred_after: u64,
    /// How many answers exactly one of both policies deferred: they are compared as if the next policy were the built-in
    /// default, and another one could decide otherwise.
    pub deferred_by_one: u64,
    /// For how many questions the policy before failed, or gave an answer that a host refuses.
    pub failed_before: u64,
    /// The same of the policy after.
    pub failed_after: u64,
    /// For how many questions only the reason changes.
    pub only_reasons: u64,
    /// The changes, the most frequent first.
    pub groups: Vec<Group>,
}

/// Questions for which the verdict changes in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The verdict before: `wait`, `mapped: action none, report running`. `fails`: the policy gives no answer that a host
    /// takes, whatever decides in its place.
    pub before: String,
    /// The verdict after.
    pub after: String,
    /// How many questions; in a batch, how many of its items.
    pub count: u64,
    /// The decision of the example, if it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionId>,
    /// One of the questions: its changes to the slot's example.
    pub question: Json,
    /// The decision before; null where the policy failed.
    pub answer_before: Json,
    /// The decision after.
    pub answer_after: Json,
    /// Whether the policy before deferred the example, or items of it, so that the built-in default decided.
    pub deferred_before: bool,
    /// The same of the policy after.
    pub deferred_after: bool,
}

/// The two policies, and what decides where one of them defers.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'p> {
    pub before: &'p LoadedPolicy,
    pub after: &'p LoadedPolicy,
    /// The built-in default.
    pub default: &'p LoadedPolicy,
}

/// Asks both policies.
///
/// # Errors
/// The bounds can't be used, or no question was asked.
///
/// # Assumptions
/// All decide the same slot.
pub fn diff(
    policies: Compared<'_>,
    recorded: &[UnreadRecord],
    options: &ProofOptions,
) -> Result<Difference, ProofError> {
    with_slot!(policies.before.identity().slot, S => diff_slot::<S>(policies, recorded, options))
}

fn diff_slot<S: ProvedSlot>(
    policies: Compared<'_>,
    recorded: &[UnreadRecord],
    options: &ProofOptions,
) -> Result<Difference, ProofError> {
    let within = Space::within(S::NAME, &options.bounds)?;
    let beyond = Space::beyond(S::NAME, &options.bounds)?;
    let plan = Plan::new::<S>(&within, &beyond, options.enumerated, options.random, options.seed, &options.progress);
    let look = |number: u64, question: &S::Question, changes: &mut Changes| {
        compare::<S>(policies, question, Origin::Number(number), changes);
        Ok::<(), ProofError>(())
    };
    let stop = AtomicBool::new(false);
    let (mut changes, asked) =
        work::run::<S, _, _>(&plan, options.threads, &options.progress, &stop, Changes::default(), look)?;
    let (mut unreadable, mut of_record) = (0, 0);
    for record in recorded {
        let question = record.read().ok().filter(|read| read.slot == S::NAME).map(|read| read.question);
        let Some(question) = question else { continue };
        match serde_json::from_value::<S::Question>(question) {
            Ok(question) => {
                of_record += 1;
                compare::<S>(policies, &question, Origin::Decision(record.clone()), &mut changes);
            }
            Err(_) => unreadable += 1,
        }
    }
    if asked.all() + of_record == 0 {
        return Err(ProofError::NothingAsked);
    }
    let mut groups: Vec<Group> = Vec::with_capacity(changes.groups.len());
    for ((one, other), (count, origin)) in changes.groups {
        let (question, decision): (Option<S::Question>, _) = match &origin {
            Origin::Number(number) => (plan.question::<S>(*number, &mut Vec::new()), None),
            Origin::Decision(record) => {
                (record.read().ok().and_then(|read| serde_json::from_value(read.question).ok()), Some(record.id()))
            }
        };
        let decision_of = |policy: &LoadedPolicy| {
            let answer = question.as_ref().and_then(|question| Some((question, answer_of::<S>(policy, question)?)));
            answer.map_or((Json::Null, false), |(question, answer)| {
                let deferred = S::deferred(&answer) != Deferred::Nothing;
                (to_json(&decided::<S>(policies.default, question, answer)), deferred)
            })
        };
        let (answer_before, deferred_before) = decision_of(policies.before);
        let (answer_after, deferred_after) = decision_of(policies.after);
        groups.push(Group {
            before: one,
            after: other,
            count,
            decision,
            answer_before,
            answer_after,
            deferred_before,
            deferred_after,
            question: question.as_ref().map_or(Json::Null, |question| {
                self::changes(&S::NAME.example_question(), &to_json(question)).unwrap_or_else(|| json!({}))
            }),
        });
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(Difference {
        slot: S::NAME,
        asked: asked.all() + of_record,
        recorded: of_record,
        exhaustive: plan.is_exhaustive(),
        bounds: within.bounds().to_vec(),
        unreadable,
        deferred_before: changes.deferred_before,
        deferred_after: changes.deferred_after,
        deferred_by_one: changes.deferred_by_one,
        failed_before: changes.failed_before,
        failed_after: changes.failed_after,
        only_reasons: changes.only_reasons,
        groups,
    })
}

/// Where a question comes from.
#[derive(Clone, Debug)]
enum Origin {
    Number(u64),
    Decision(UnreadRecord),
}

impl Origin {
    /// Recorded ones are what people know; after them, the first.
    fn better(self, other: Origin) -> Origin {
        match (&self, &other) {
            (Origin::Decision(_), _) => self,
            (_, Origin::Decision(_)) => other,
            (Origin::Number(one), Origin::Number(another)) if one <= another => self,
            _ => other,
        }
    }
}

#[derive(Debug, Default)]
struct Changes {
    deferred_before: u64,
    deferred_after: u64,
    deferred_by_one: u64,
    failed_before: u64,
    failed_after: u64,
    only_reasons: u64,
    groups: BTreeMap<(String, String), (u64, Origin)>,
}

impl Changes {
    fn add(&mut self, group: (String, String), count: u64, origin: Origin) {
        match self.groups.remove(&group) {
            Some((known, first)) => self.groups.insert(group, (known + count, first.better(origin))),
            None => self.groups.insert(group, (count, origin)),
        };
    }
}

impl Tally for Changes {
    fn empty(&self) -> Changes {
        Changes::default()
    }

    fn merge(&mut self, other: Changes) {
        self.deferred_before += other.deferred_before;
        self.deferred_after += other.deferred_after;
        self.deferred_by_one += other.deferred_by_one;
        self.failed_before += other.failed_before;
        self.failed_after += other.failed_after;
        self.only_reasons += other.only_reasons;
        for (group, (count, origin)) in other.groups {
            self.add(group, count, origin);
        }
    }
}

/// The answer of a policy. None: it failed, or the host's check refuses it.
fn answer_of<S: ProvedSlot>(policy: &LoadedPolicy, question: &S::Question) -> Option<S::Answer> {
    policy.ask::<S>(question).answer.ok().filter(|answer| S::check(question, answer).is_ok())
}

/// What is decided when a policy answers so, and the default is next.
fn decided<S: ProvedSlot>(default: &LoadedPolicy, question: &S::Question, mut answer: S::Answer) -> S::Answer {
    let by_default = |question: &S::Question| answer_of::<S>(default, question).unwrap_or_else(|| S::keep(question));
    match S::deferred(&answer) {
        Deferred::Nothing => answer,
        Deferred::Whole => by_default(question),
        Deferred::Items(items) => {
            S::merge(&mut answer, &items, by_default(&S::part(question, &items)));
            answer
        }
    }
}

fn compare<S: ProvedSlot>(policies: Compared<'_>, question: &S::Question, origin: Origin, changes: &mut Changes) {
    let before = answer_of::<S>(policies.before, question);
    let after = answer_of::<S>(policies.after, question);
    let deferred = |answer: &Option<S::Answer>| {
        answer.as_ref().map_or(0, |answer| S::each(question, answer).filter(|(_, one)| S::defers(one)).count() as u64)
    };
    changes.deferred_before += deferred(&before);
    changes.deferred_after += deferred(&after);
    if let (Some(before), Some(after)) = (&before, &after) {
        let both = S::each(question, before).zip(S::each(question, after));
        changes.deferred_by_one +=
            both.filter(|((_, one), (_, other))| S::defers(one) != S::defers(other)).count() as u64;
    }
    changes.failed_before += u64::from(before.is_none());
    changes.failed_after += u64::from(after.is_none());
    let is_deferred =
        |answer: &Option<S::Answer>| answer.as_ref().is_some_and(|answer| S::deferred(answer) == Deferred::Whole);
    if before == after || is_deferred(&before) && is_deferred(&after) {
        return;
    }
    let decided = |answer| decided::<S>(policies.default, question, answer);
    let (one, other) = match (before.map(decided), after.map(decided)) {
        (Some(one), Some(other)) if one == other => return,
        (Some(one), Some(other)) => (one, other),
        (one, other) => {
            let words = |answer: Option<S::Answer>| match answer {
                Some(answer) => words_of_all::<S>(question, &answer),
                None => "fails".to_owned(),
            };
            return changes.add((words(one), words(other)), 1, origin);
        }
    };
    let mut differs = false;
    for ((_, one), (_, other)) in S::each(question, &one).zip(S::each(question, &other)) {
        if S::verdict(one) != S::verdict(other) {
            differs = true;
            let group = (verdict_words(&to_json(S::verdict(one))), verdict_words(&to_json(S::verdict(other))));
            changes.add(group, 1, origin.clone());
        }
    }
    if !differs {
        changes.only_reasons += 1;
    }
}

fn words_of_all<S: ProvedSlot>(question: &S::Question, answer: &S::Answer) -> String {
    let mut words: Vec<String> =
        S::each(question, answer).map(|(_, one)| verdict_words(&to_json(S::verdict(one)))).collect();
    words.dedup();
    words.join("; ")
}

/// A verdict in so few words that those alike are the same: its case, the words of its payload, and how long its lists
/// are. `wait`, `mapped: action none, report running`, `recover: 2 of delete, state error`, `plan of 5`.
pub(crate) fn verdict_words(verdict: &Json) -> String {
    match verdict {
        Json::String(case) => case.clone(),
        Json::Object(case) => case.iter().map(|(case, payload)| payload_words(case, payload)).collect(),
        other => other.to_string(),
    }
}

fn payload_words(case: &str, payload: &Json) -> String {
    match payload {
        Json::Array(items) => format!("{case} of {}", items.len()),
        Json::Object(fields) => {
            let field = |(name, value): (&String, &Json)| match value {
                Json::String(word) => Some(format!("{name} {word}")),
                Json::Array(items) => Some(format!("{} of {name}", items.len())),
                _ => None,
            };
            let words: Vec<String> = fields.iter().filter_map(field).collect();
            if words.is_empty() { case.to_owned() } else { format!("{case}: {}", words.join(", ")) }
        }
        _ => case.to_owned(),
    }
}

/// Questions and answers have no map with keys other than texts, and no number that JSON lacks.
fn to_json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_that_are_alike_have_the_same_words() {
        for (verdict, words) in [
            (json!("give-up"), "give-up"),
            (json!({ "wait": 500 }), "wait"),
            (json!({ "mapped": { "report": "running", "action": "none" } }), "mapped: action none, report running"),
            (json!({ "plan": [1, 2] }), "plan of 2"),
            (json!({ "recover": { "state": "error", "delete": [3] } }), "recover: 1 of delete, state error"),
            (json!({ "return-to-pool": { "operating-system": null } }), "return-to-pool"),
        ] {
            assert_eq!(verdict_words(&verdict), words);
        }
    }
}
