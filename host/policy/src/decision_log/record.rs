//! One decision as it is recorded.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_distribution::KeyId;

use crate::call::Trace;
use crate::decision::{DecidedBy, DecisionId, PolicyIdentity};
use crate::failure_kind::FailureKind;
use crate::guest::{Failure, LogLine};
use crate::host_calls::HostCall;
use crate::slots::SlotName;

/// A recorded decision. `Q` and `A` are the slot's question and answer; read from the log they are JSON in the
/// contract's spelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionRecord<Q = Value, A = Value> {
    /// Its id. The first field, so that a reader can sort lines without parsing them.
    pub id: DecisionId,
    /// When, in milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    /// Which slot.
    pub slot: SlotName,
    /// The question. Null when the record was too large to keep it.
    pub question: Q,
    /// The answer, as the caller got it. Null when the record was too large to keep it.
    pub answer: A,
    /// The deciding policy's reason.
    pub reason: Option<String>,
    pub decided_by: DecidedBy,
    /// Every policy of the chain that was asked, in order.
    pub asked: Vec<LinkRecord>,
    /// What shadows would have decided. Records from before there were any have none.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<ShadowRecord<A>>,
    /// From the question to the answer, in nanoseconds.
    pub duration_ns: u64,
    /// How many records were lost before this one, because the queue was full or could not be written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_before: u64,
}

impl<Q, A> DecisionRecord<Q, A> {
    /// The part of the policy that decided an item of a batch, or the whole of another question. `None`: the host's
    /// last resort did.
    pub fn decider_of(&self, item: u32) -> Option<&LinkRecord> {
        let about = |link: &&LinkRecord| link.items.as_ref().is_none_or(|items| items.contains(&item));
        // A policy that is asked about it later finds it undecided.
        let last = self.asked.iter().rev().find(about)?;
        last.outcome.decides().then_some(last)
    }
}

/// One link's part in a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LinkRecord {
    pub policy: Arc<PolicyIdentity>,
    /// The trusted key that had signed it. Absent: `[policies.trust]` asked for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<KeyId>,
    /// In a batch: the items that it was asked about, when not about all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<u32>>,
    /// What came of it.
    pub outcome: Outcome,
    /// The rules that answered, in the order of their file; where they deferred, as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AppliedRule>,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// The fuel that it used, where fuel is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// The capabilities that it called, redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_calls: Vec<HostCall>,
    /// The lines that it logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// How many lines beyond its limit were dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub log_dropped: u64,
}

impl LinkRecord {
    pub(crate) fn new(
        policy: &Arc<PolicyIdentity>,
        items: Option<Vec<u32>>,
        outcome: Outcome,
        trace: Trace,
    ) -> LinkRecord {
        let mut rules = trace.rules;
        if matches!(outcome, Outcome::Fallback { .. }) {
            rules.clear();
        }
        // What was asked was a part of the question.
        if let Some(items) = &items {
            for position in rules.iter_mut().flat_map(|rule| &mut rule.items) {
                *position = items.get(*position as usize).copied().unwrap_or(*position);
            }
        }
        LinkRecord {
            policy: policy.clone(),
            signed_by: trace.signed_by,
            items,
            rules,
            outcome,
            duration_ns: u64::try_from(trace.duration.as_nanos()).unwrap_or(u64::MAX),
            fuel: trace.fuel,
            host_calls: trace.host_calls,
            log: trace.log,
            log_dropped: trace.log_dropped,
        }
    }
}

/// A rule that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AppliedRule {
    /// Its name; of one that has none, `rule` and its number.
    pub rule: Arc<str>,
    /// The positions of the servers, resources or places about which it answered. Empty where rules are about the
    /// question as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<u32>,
}

impl AppliedRule {
    /// The names of rules, as far as one reads them.
    pub fn names(rules: &[AppliedRule]) -> String {
        let mut words: Vec<&str> = rules.iter().take(MAX_TOLD_RULES).map(|applied| &*applied.rule).collect();
        let more = rules.len().saturating_sub(MAX_TOLD_RULES);
        let more = if more > 0 { format!("{more} more") } else { String::new() };
        words.extend((!more.is_empty()).then_some(more.as_str()));
        words.join(", ")
    }
}

impl LinkRecord {
    /// The names of the rules that answered, as far as one reads them; empty where it is not made of rules.
    pub fn rule_words(&self) -> String {
        AppliedRule::names(&self.rules)
    }

    /// The rule that answered about an item.
    pub fn rule_of(&self, item: u32) -> Option<&AppliedRule> {
        self.rules.iter().find(|applied| applied.items.contains(&item))
    }
}

/// More rules of one decision are not named in a line.
const MAX_TOLD_RULES: usize = 4;

/// A shadow's part in a decision: what it would have decided in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ShadowRecord<A = Value> {
    /// How it was asked, and what came of it. `items` are those that were undecided where it stands in the chain.
    pub asked: LinkRecord,
    /// Its answer, held against what was decided.
    pub agreement: Agreement,
    /// Where they differ: its answer, and for items that it deferred what was decided. Absent as well when the record
    /// was too large to keep it.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub answer: Option<A>,
}

impl<A> ShadowRecord<A> {
    /// The same without its answer.
    pub(super) fn without_answer(self) -> ShadowRecord<()> {
        ShadowRecord { asked: self.asked, agreement: self.agreement, answer: None }
    }
}

/// A shadow's answer, held against what was decided. Reasons don't count: they are for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Agreement {
    /// With it in force the decision would have been the same: it answered so, or deferred.
    Agreed,
    /// With it in force the decision would have been another.
    Differed,
    /// It failed.
    Failed,
    /// It made a look-up that nobody who decides had made, and shadows make none.
    NotComparable,
    /// It was not asked: shadows have no more time or room, or it failed too often.
    NotAsked,
}

impl Agreement {
    /// All of them.
    pub const ALL: [Agreement; 5] =
        [Agreement::Agreed, Agreement::Differed, Agreement::Failed, Agreement::NotComparable, Agreement::NotAsked];

    /// The word of records and metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What came of asking a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It decided all that it was asked.
    Decided,
    /// It decided some items of a batch and left so many to the next.
    #[serde(rename_all = "kebab-case")]
    DecidedPart {
        /// How many it left.
        deferred: u32,
    },
    /// It left the whole question to the next.
    Deferred,
    /// It failed, which counts as having deferred: a fallback.
    #[serde(rename_all = "kebab-case")]
    Fallback {
        /// How.
        kind: FailureKind,
        /// In words for people.
        reason: String,
    },
}

impl Outcome {
    /// Whether it decided something.
    pub fn decides(&self) -> bool {
        matches!(self, Outcome::Decided | Outcome::DecidedPart { .. })
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Outcome {
        Outcome::Fallback { kind: failure.kind, reason: failure.reason }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
