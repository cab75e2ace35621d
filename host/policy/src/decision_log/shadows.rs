//! What the log says of shadows: how often each would have decided as it was decided, and where not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Agreement, DecisionReader, Outcome, ShadowRecord};
use crate::decision::{DecisionId, PolicyIdentity};
use crate::error::Error;
use crate::failure_kind::FailureKind;
use crate::slots::SlotName;
use crate::text::short;

/// The most groups of differences of one shadow. What doesn't belong to any of them is counted as one more.
const MAX_GROUPS: usize = 64;
/// The words of that one.
const OTHERS: &str = "others";

/// Which decisions to look at.
#[derive(Clone, Debug, Default)]
pub struct ShadowFilter {
    /// Only those since this instant, in milliseconds since 1970-01-01T00:00:00Z.
    pub since_ms: u64,
    /// Only those of this slot.
    pub slot: Option<SlotName>,
    /// Only shadows of this name.
    pub policy: Option<String>,
}

/// How shadows compare with what was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowReport {
    /// Each shadow that stands in the log, by slot and name. Another version is another shadow.
    pub shadows: Vec<ShadowAgreement>,
    /// Lines that can't be read: torn by a crash, or written by something else.
    pub unreadable: usize,
}

/// How one shadow compares with what was decided. Counts are of decisions; a decision that it was not reached in,
/// because all was decided before its place in the chain, counts nowhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowAgreement {
    /// The shadow.
    pub policy: PolicyIdentity,
    /// With it in force they would have been the same.
    pub agreed: u64,
    /// With it in force they would have been others.
    pub differed: u64,
    /// It failed.
    pub failed: u64,
    /// It made look-ups that nobody who decides had made.
    pub not_comparable: u64,
    /// It was not asked, for want of time or room, or since it failed too often.
    pub not_asked: u64,
    /// Where it differed, the most frequent first.
    pub differences: Vec<ShadowDifference>,
    /// How it failed, the most frequent first.
    pub failures: Vec<ShadowFailure>,
}

/// Differences of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowDifference {
    /// The verdict that was decided, in the contract's words without amounts.
    pub decided: String,
    /// The shadow's. Equal to the other where only amounts differ.
    pub shadow: String,
    /// How often; in a batch each item counts.
    pub count: u64,
    /// The latest decision of the kind.
    pub example: DecisionId,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowFailure {
    /// How it failed.
    pub kind: FailureKind,
    /// How often.
    pub count: u64,
    /// The latest decision in which it did.
    pub example: DecisionId,
    /// Why, in that decision.
    pub reason: String,
}

/// What of a record is read. The question, by far the longest, is skipped.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Compared {
    id: DecisionId,
    at_ms: u64,
    slot: SlotName,
    #[serde(default)]
    answer: Value,
    #[serde(default)]
    shadows: Vec<ShadowRecord>,
}

#[derive(Default)]
struct Tally {
    counts: BTreeMap<Agreement, u64>,
    /// By the words of both sides: how often, and the latest.
    differences: BTreeMap<(String, String), (u64, Option<DecisionId>)>,
    failures: Vec<ShadowFailure>,
}

impl DecisionReader {
    /// Compares what shadows answered with what was decided.
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn shadows(&self, filter: &ShadowFilter) -> Result<ShadowReport, Error> {
        let segments = self.of_shadows()?.segments()?;
        let mut tallies: Vec<(PolicyIdentity, Tally)> = Vec::new();
        let mut unreadable = 0;
        for line in segments.iter().flat_map(|segment| segment.lines()).filter(|line| !line.is_empty()) {
            let Ok(record) = serde_json::from_str::<Compared>(line) else {
                unreadable += 1;
                continue;
            };
            if record.at_ms < filter.since_ms || filter.slot.is_some_and(|slot| slot != record.slot) {
                continue;
            }
            for shadow in &record.shadows {
                let policy = &shadow.asked.policy;
                if filter.policy.as_deref().is_some_and(|name| name != &*policy.name) {
                    continue;
                }
                let known = tallies.iter().position(|(known, _)| *known == **policy).unwrap_or_else(|| {
                    tallies.push((PolicyIdentity::clone(policy), Tally::default()));
                    tallies.len() - 1
                });
                tallies[known].1.add(record.id, &record.answer, shadow);
            }
        }
        tallies.sort_by(|(one, _), (other, _)| {
            (one.slot, &one.name, &one.version).cmp(&(other.slot, &other.name, &other.version))
        });
        let shadows = tallies.into_iter().map(|(policy, tally)| tally.finish(policy)).collect();
        Ok(ShadowReport { shadows, unreadable })
    }
}

impl Tally {
    fn add(&mut self, id: DecisionId, decided: &Value, shadow: &ShadowRecord) {
        *self.counts.entry(shadow.agreement).or_default() += 1;
        match (shadow.agreement, &shadow.asked.outcome) {
            (Agreement::Differed, _) => {
                for (decided, shadow) in differences(decided, shadow) {
                    self.differs(id, decided, shadow);
                }
            }
            (Agreement::Failed, Outcome::Fallback { kind, reason }) => {
                let known = self.failures.iter().position(|failure| failure.kind == *kind).unwrap_or_else(|| {
                    let failure = ShadowFailure { kind: *kind, count: 0, example: id, reason: reason.clone() };
                    self.failures.push(failure);
                    self.failures.len() - 1
                });
                let failure = &mut self.failures[known];
                failure.count += 1;
                if id > failure.example {
                    (failure.example, failure.reason) = (id, reason.clone());
                }
            }
            _ => {}
        }
    }

    fn differs(&mut self, id: DecisionId, decided: String, shadow: String) {
        let mut group = (decided, shadow);
        if self.differences.len() >= MAX_GROUPS && !self.differences.contains_key(&group) {
            group = (OTHERS.into(), OTHERS.into());
        }
        let (count, example) = self.differences.entry(group).or_default();
        *count += 1;
        *example = (*example).max(Some(id));
    }

    fn finish(self, policy: PolicyIdentity) -> ShadowAgreement {
        let count = |agreement| self.counts.get(&agreement).copied().unwrap_or_default();
        let mut differences: Vec<ShadowDifference> = self
            .differences
            .iter()
            .filter_map(|((decided, shadow), (count, example))| {
                let (decided, shadow) = (decided.clone(), shadow.clone());
                Some(ShadowDifference { decided, shadow, count: *count, example: (*example)? })
            })
            .collect();
        differences.sort_by_key(|difference| std::cmp::Reverse(difference.count));
        let mut failures = self.failures.clone();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        ShadowAgreement {
            policy,
            agreed: count(Agreement::Agreed),
            differed: count(Agreement::Differed),
            failed: count(Agreement::Failed),
            not_comparable: count(Agreement::NotComparable),
            not_asked: count(Agreement::NotAsked),
            differences,
            failures,
        }
    }
}

/// What was decided and what the shadow answered, wherever they differ: once, or for each such item of a batch.
fn differences(decided: &Value, shadow: &ShadowRecord) -> Vec<(String, String)> {
    match (decided, &shadow.answer) {
        (Value::Array(decided), Some(Value::Array(answers))) => answers
            .iter()
            .enumerate()
            .filter_map(|(index, answer)| {
                let item = match &shadow.asked.items {
                    None => index,
                    Some(items) => usize::try_from(*items.get(index)?).ok()?,
                };
                let (decided, answer) = (verdict(decided.get(item)?), verdict(answer));
                (decided != answer).then(|| (summary(decided), summary(answer)))
            })
            .collect(),
        (decided, Some(answer)) => vec![(summary(verdict(decided)), summary(verdict(answer)))],
        // The record was too large to keep it.
        (decided, None) => vec![(summary(verdict(decided)), summary(&Value::Null))],
    }
}

fn verdict(answer: &Value) -> &Value {
    answer.get("verdict").unwrap_or(&Value::Null)
}

/// A verdict without amounts: its case, and the words of its payload where that is made of words alone.
fn summary(verdict: &Value) -> String {
    match verdict {
        Value::String(case) => short(case).into(),
        Value::Object(map) => {
            let Some((case, payload)) = map.iter().next() else { return "nothing".into() };
            let fields = payload.as_object().filter(|fields| fields.values().all(Value::is_string));
            let words = fields
                .into_iter()
                .flat_map(|fields| fields.iter())
                .filter_map(|(name, word)| Some(format!("{} {}", short(name), short(word.as_str()?))));
            let words: Vec<String> = words.collect();
            match words.is_empty() {
                true => short(case).into(),
                false => format!("{} ({})", short(case), words.join(", ")),
            }
        }
        _ => "not on record".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_verdict_is_told_by_its_case_and_words_without_amounts() {
        for (verdict, expected) in [
            (json!("give-up"), "give-up"),
            (json!({"wait": 1000}), "wait"),
            (json!({"mapped": {"action": "reap", "report": "none"}}), "mapped (action reap, report none)"),
            (json!({"plan": [{"resource": 0}]}), "plan"),
            (Value::Null, "not on record"),
        ] {
            assert_eq!(summary(&verdict), expected);
        }
    }

    #[test]
    fn differences_of_more_kinds_than_are_kept_are_counted_together() {
        let id: DecisionId = "1-2-3".parse().unwrap();
        let mut tally = Tally::default();
        for kind in 0..MAX_GROUPS + 7 {
            tally.differs(id, "wait".into(), format!("kind {kind}"));
        }
        assert_eq!(tally.differences.len(), MAX_GROUPS + 1);
        assert_eq!(tally.differences[&(OTHERS.to_owned(), OTHERS.to_owned())].0, 7);
    }
}
