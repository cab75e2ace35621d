//! Recorded decisions once more: under the same policies, to prove that they are pure, or under others, to see what
//! they would have decided.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::chain::{ChainLink, Circumstances, PendingDecision, PinnedPolicies};
use crate::decision::{DecidedBy, Fallback, PolicyIdentity};
use crate::decision_log::{DecisionRecord, LinkRecord, Outcome};
use crate::error::Error;
use crate::failure_kind::FailureKind;
use crate::host::Host;
use crate::policy::LoadedPolicy;
use crate::slots::{Slot, with_slot};
use crate::text::{one_line, short};

/// How many differences are listed.
const MAX_DIFFERENCES: usize = 20;

/// What a record is replayed against.
#[derive(Clone, Debug)]
pub enum ReplayAgainst {
    /// The policies that were asked then, by their digests.
    TheSame,
    /// A candidate, followed by the built-in default.
    Policy(Arc<LoadedPolicy>),
    /// The chains of this pin.
    Pinned(PinnedPolicies),
}

/// What came of a replay.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Replay {
    /// Whether the answer is the recorded one. Reasons count: they are part of the answer.
    pub same: bool,
    /// The answer now.
    pub answer: Value,
    /// Who decided now.
    pub decided_by: DecidedBy,
    /// Every policy that was asked now.
    pub asked: Vec<LinkRecord>,
    /// Where the answers differ: `verdict.wait: recorded 1000, replayed 2000`. The first twenty.
    pub differences: Vec<String>,
    /// Policies that failed now and had not failed then: one that was not asked then, too. What answered in their place
    /// may have answered the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Fallback>,
    /// Why another answer proves nothing against the policies that were asked then: what they were given is not all on
    /// record, or the clock ended one of them now. Empty: it proves that one of them is not pure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inconclusive: Vec<String>,
}

impl Host {
    /// Puts a recorded question again. Capabilities aren't called: to a policy that was asked then, its own recorded
    /// answers are played back in their order, to another one those of all. A call that the record doesn't have is
    /// refused. Nothing is recorded, and failures don't count towards suspension. What the caller, the host or the
    /// clock did to a policy then is taken from the record. Shadows are not asked: what they answered then decided
    /// nothing.
    ///
    /// # Errors
    /// The record has no question (it was too large), its question doesn't fit the slot, or a policy that was asked
    /// then is no longer in the state folder.
    pub async fn replay(&self, record: &DecisionRecord, against: &ReplayAgainst) -> Result<Replay, Error> {
        let failed = |problem: String| Error::Record { id: record.id.to_string(), problem };
        let pin = match against {
            ReplayAgainst::Pinned(pin) => pin.clone(),
            ReplayAgainst::Policy(policy) => self.pin_only(policy.clone()),
            ReplayAgainst::TheSame => {
                let identities: Vec<_> =
                    record.asked.iter().map(|asked| PolicyIdentity::clone(&asked.policy)).collect();
                let pin = self.pinned(&identities);
                for (link, asked) in pin.generation.chain(record.slot).iter().zip(&record.asked) {
                    if let ChainLink::Unavailable(identity, why) | ChainLink::Lost(identity, why) = link
                        && failure_of(asked).is_none_or(|(kind, _)| kind != FailureKind::Unavailable)
                    {
                        return Err(failed(format!(
                            "it was asked of {identity}, which can't be loaded any more: {why}"
                        )));
                    }
                }
                pin
            }
        };
        if record.question.is_null() {
            return Err(failed("its question was too large to be recorded".into()));
        }
        with_slot!(record.slot, S => pin.replay::<S>(record).await).map_err(failed)
    }
}

fn failure_of(asked: &LinkRecord) -> Option<(FailureKind, &str)> {
    match &asked.outcome {
        Outcome::Fallback { kind, reason } => Some((*kind, reason)),
        _ => None,
    }
}

/// Finds the record of each link of a chain: the same policy may stand in it twice.
struct RecordedLinks<'a> {
    left: Vec<&'a LinkRecord>,
}

impl<'a> RecordedLinks<'a> {
    fn take(&mut self, identity: &PolicyIdentity) -> Option<&'a LinkRecord> {
        let position = self.left.iter().position(|link| *link.policy == *identity)?;
        Some(self.left.remove(position))
    }
}

impl PinnedPolicies {
    async fn replay<S: Slot>(&self, record: &DecisionRecord) -> Result<Replay, String> {
        let question: S::Question = serde_json::from_value(record.question.clone()).map_err(|error| {
            format!("its question does not fit the slot {}: {}", S::NAME, one_line(&error.to_string()))
        })?;
        let mut recorded = RecordedLinks { left: record.asked.iter().collect() };
        let chain = self.generation.chain(S::NAME);
        let mut pending = PendingDecision::<S>::new(chain.len(), self.deciding.brake);
        let (mut inconclusive, mut failed) = (Vec::new(), Vec::new());
        for link in chain {
            let own = recorded.take(link.identity());
            let circumstances = Circumstances::Replay { own, all: &record.asked };
            let goes_on = pending.ask(link, &question, &circumstances).await;
            let Some(now) = pending.asked.last() else { continue };
            let excused = own.and_then(|own| excuse(own, now));
            if let (Some((kind, reason)), None) = (failure_of(now), &excused)
                && own.is_none_or(|own| failure_of(own).is_none())
            {
                failed.push(Fallback { policy: Arc::clone(&now.policy), kind, reason: reason.to_owned() });
            }
            inconclusive.extend(excused);
            if !goes_on {
                break;
            }
        }
        let (answer, decided_by) = pending.close(&question);
        let answer = serde_json::to_value(answer).map_err(|error| error.to_string())?;
        let mut differences = Vec::new();
        compare("", &record.answer, &answer, &mut differences);
        let same = differences.is_empty();
        if same {
            inconclusive.clear();
        }
        Ok(Replay { same, answer, decided_by, asked: pending.asked, differences, failed, inconclusive })
    }
}

/// Why a policy may decide otherwise than it did and be pure all the same.
fn excuse(then: &LinkRecord, now: &LinkRecord) -> Option<String> {
    let policy = &then.policy;
    if let Some(call) = then.host_calls.iter().find(|call| call.redacted) {
        let function = short(&call.function);
        return Some(format!(
            "the recorded answer of `{function}` is redacted, so {policy} may answer differently in a replay"
        ));
    }
    match (failure_of(then), failure_of(now)) {
        (Some((kind, _)), _) if kind.depends_on_the_moment() => None,
        (_, Some((kind, reason))) if kind.depends_on_the_moment() => {
            Some(format!("{policy} failed in the replay for a reason that did not occur then: {reason}"))
        }
        _ => None,
    }
}

/// Collects the places where two values differ.
fn compare(place: &str, recorded: &Value, replayed: &Value, differences: &mut Vec<String>) {
    if recorded == replayed || differences.len() >= MAX_DIFFERENCES {
        return;
    }
    match (recorded, replayed) {
        (Value::Object(one), Value::Object(other)) => {
            let absent = Value::Null;
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                let key_words = short(key);
                let place = if place.is_empty() { key_words.into() } else { format!("{place}.{key_words}") };
                compare(&place, one.get(key).unwrap_or(&absent), other.get(key).unwrap_or(&absent), differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{place}[{index}]"), one, other, differences);
            }
        }
        _ => differences.push(format!("{place}: recorded {recorded}, replayed {replayed}")),
    }
}
