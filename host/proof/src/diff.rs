//! What changes from one policy to another: over the questions within bounds, and over those that were really asked.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde_json::{Value as Json, json};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionId, LoadedPolicy, UnreadRecord, with_slot};

use crate::fixture::changes;
use crate::prove::ProofOptions;
use crate::slot::ProvedSlot;
use crate::space::{Bound, BoundsError, Space};
use crate::work::{self, Plan, Tally};

/// What changes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
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
    /// For how many questions only the reason changes.
    pub only_reasons: u64,
    /// The changes, the most frequent first.
    pub groups: Vec<Group>,
}

/// Questions for which the verdict changes in the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Group {
    /// The verdict before: `wait`, `mapped: action none, report running`.
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
    /// What was answered before; null where the policy failed.
    pub answer_before: Json,
    /// What is answered after.
    pub answer_after: Json,
}

/// Asks both policies.
///
/// # Errors
/// The bounds can't be used.
///
/// # Assumptions
/// Both decide the same slot.
pub fn diff(
    before: &LoadedPolicy,
    after: &LoadedPolicy,
    recorded: &[UnreadRecord],
    options: &ProofOptions,
) -> Result<Difference, BoundsError> {
    with_slot!(before.identity().slot, S => diff_slot::<S>(before, after, recorded, options))
}

fn diff_slot<S: ProvedSlot>(
    before: &LoadedPolicy,
    after: &LoadedPolicy,
    recorded: &[UnreadRecord],
    options: &ProofOptions,
) -> Result<Difference, BoundsError> {
    let within = Space::within(S::NAME, &options.bounds)?;
    let beyond = Space::beyond(S::NAME, &options.bounds)?;
    let plan = Plan::new(&within, &beyond, options.enumerated, options.random, options.seed);
    let look = |number: u64, question: &S::Question, changes: &mut Changes| {
        changes.asked += 1;
        compare::<S>(before, after, question, Origin::Number(number), changes);
        Ok::<(), BoundsError>(())
    };
    let (mut changes, _) =
        work::run::<S, _, _>(&plan, options.threads, &AtomicBool::new(false), Changes::default(), look)?;
    let (mut unreadable, mut of_record) = (0, 0);
    for record in recorded {
        let question = record.read().ok().filter(|read| read.slot == S::NAME).map(|read| read.question);
        let Some(question) = question else { continue };
        match serde_json::from_value::<S::Question>(question) {
            Ok(question) => {
                of_record += 1;
                changes.asked += 1;
                compare::<S>(before, after, &question, Origin::Decision(record.clone()), &mut changes);
            }
            Err(_) => unreadable += 1,
        }
    }
    let mut groups: Vec<Group> = Vec::with_capacity(changes.groups.len());
    for ((one, other), (count, origin)) in changes.groups {
        let (question, decision): (Option<S::Question>, _) = match &origin {
            Origin::Number(number) => (Some(plan.question(*number)), None),
            Origin::Decision(record) => {
                (record.read().ok().and_then(|read| serde_json::from_value(read.question).ok()), Some(record.id()))
            }
        };
        let answer_of = |policy: &LoadedPolicy| {
            let answer = question.as_ref().and_then(|question| policy.ask::<S>(question).answer.ok());
            answer.map_or(Json::Null, |answer| to_json(&answer))
        };
        groups.push(Group {
            before: one,
            after: other,
            count,
            decision,
            answer_before: answer_of(before),
            answer_after: answer_of(after),
            question: question.as_ref().map_or(Json::Null, |question| {
                self::changes(&S::NAME.example_question(), &to_json(question)).unwrap_or_else(|| json!({}))
            }),
        });
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    Ok(Difference {
        slot: S::NAME,
        asked: changes.asked,
        recorded: of_record,
        exhaustive: plan.is_exhaustive(),
        bounds: within.bounds().to_vec(),
        unreadable,
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
    asked: u64,
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
        self.asked += other.asked;
        self.only_reasons += other.only_reasons;
        for (group, (count, origin)) in other.groups {
            self.add(group, count, origin);
        }
    }
}

fn compare<S: ProvedSlot>(
    before: &LoadedPolicy,
    after: &LoadedPolicy,
    question: &S::Question,
    origin: Origin,
    changes: &mut Changes,
) {
    let answers = (before.ask::<S>(question).answer, after.ask::<S>(question).answer);
    let (one, other) = match &answers {
        (Ok(one), Ok(other)) if one == other => return,
        (Ok(one), Ok(other)) => (one, other),
        (one, other) => {
            let words = |answer: &Result<S::Answer, _>| match answer {
                Ok(answer) => words_of_all::<S>(question, answer),
                Err(_) => "fails".to_owned(),
            };
            let group = (words(one), words(other));
            if group.0 != group.1 {
                changes.add(group, 1, origin);
            }
            return;
        }
    };
    let mut differs = false;
    for ((_, one), (_, other)) in S::each(question, one).zip(S::each(question, other)) {
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
