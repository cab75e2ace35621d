//! Recorded decisions once more, a day of them at a time, grouped by what changes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use serde::Serialize;
use serde_json::Value as Json;
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionId, Host, ReplayAgainst, UnreadRecord};

use crate::diff::verdict_words;

/// So many decisions are taken at once.
const CHUNK: usize = 64;

/// What came of replaying many decisions.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct BulkReplay {
    /// How many were replayed.
    pub replayed: u64,
    /// How many got the same answer.
    pub same: u64,
    /// How many got the same verdicts for another reason.
    pub only_reasons: u64,
    /// How many got another verdict, which proves nothing: what the policies were given is not all on record, or the
    /// clock ended one of them.
    pub inconclusive: u64,
    /// The changes, the most frequent first.
    pub groups: Vec<ReplayGroup>,
    /// How policies failed that had not failed then, the most frequent first. What answered in their place may have
    /// answered the same.
    pub policy_failures: Vec<ReplayFailure>,
    /// Decisions that can't be replayed, by why, the most frequent first.
    pub failed: Vec<ReplayFailure>,
}

/// Decisions whose verdict changes in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReplayGroup {
    pub slot: SlotName,
    /// The recorded verdict: `wait`, `mapped: action none, report running`.
    pub recorded: String,
    /// The verdict now.
    pub now: String,
    /// How many decisions; in a batch, how many of its items.
    pub count: u64,
    /// The oldest of them.
    pub decision: DecisionId,
}

/// Decisions that can't be replayed, or in which a policy failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReplayFailure {
    pub problem: String,
    /// How many.
    pub count: u64,
    /// The oldest of them.
    pub decision: DecisionId,
}

/// Replays decisions on all threads: each against what `against` says for its slot; `None` leaves the slot out.
pub fn replay(
    host: &Host,
    records: &[UnreadRecord],
    against: &(dyn Fn(SlotName) -> Option<ReplayAgainst> + Sync),
    threads: NonZeroUsize,
) -> BulkReplay {
    let next = AtomicUsize::new(0);
    let together = Mutex::new(Found::default());
    let work = || {
        let mut found = Found::default();
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(chunk) = records.get(from..records.len().min(from + CHUNK)).filter(|chunk| !chunk.is_empty())
            else {
                break;
            };
            for record in chunk {
                found.look(host, record, against);
            }
        }
        together.lock().unwrap_or_else(PoisonError::into_inner).merge(found);
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(work);
        }
    });
    together.into_inner().unwrap_or_else(PoisonError::into_inner).report()
}

#[derive(Default)]
struct Found {
    totals: BulkReplay,
    groups: BTreeMap<(SlotName, String, String), (u64, DecisionId)>,
    policy_failures: BTreeMap<String, (u64, DecisionId)>,
    failed: BTreeMap<String, (u64, DecisionId)>,
}

impl Found {
    fn look(
        &mut self,
        host: &Host,
        unread: &UnreadRecord,
        against: &(dyn Fn(SlotName) -> Option<ReplayAgainst> + Sync),
    ) {
        let record = match unread.read() {
            Ok(record) => record,
            Err(error) => return self.fail(unread.id(), error.to_string()),
        };
        let Some(against) = against(record.slot) else { return };
        // Every call is answered from the record, so nothing waits.
        let replay = match host.replay(&record, &against).now_or_never() {
            Some(Ok(replay)) => replay,
            Some(Err(error)) => return self.fail(record.id, error.to_string()),
            None => return self.fail(record.id, "it waits for something".into()),
        };
        self.totals.replayed += 1;
        for failure in &replay.failed {
            count(&mut self.policy_failures, failure.to_string(), 1, record.id);
        }
        if replay.same {
            self.totals.same += 1;
            return;
        }
        let mut differs = false;
        let (recorded, now) = (each(&record.answer), each(&replay.answer));
        for (recorded, now) in recorded.iter().zip(now) {
            if recorded["verdict"] != now["verdict"] {
                differs = true;
                if replay.inconclusive.is_empty() {
                    let group = (record.slot, verdict_words(&recorded["verdict"]), verdict_words(&now["verdict"]));
                    count(&mut self.groups, group, 1, record.id);
                }
            }
        }
        match (differs, replay.inconclusive.is_empty()) {
            (false, _) => self.totals.only_reasons += 1,
            (true, false) => self.totals.inconclusive += 1,
            (true, true) => {}
        }
    }

    /// Errors name their decision; what they have in common is what comes after.
    fn fail(&mut self, decision: DecisionId, problem: String) {
        let problem = problem.replace(&decision.to_string(), "...");
        count(&mut self.failed, problem, 1, decision);
    }

    fn merge(&mut self, other: Found) {
        self.totals.replayed += other.totals.replayed;
        self.totals.same += other.totals.same;
        self.totals.only_reasons += other.totals.only_reasons;
        self.totals.inconclusive += other.totals.inconclusive;
        for (group, (more, decision)) in other.groups {
            count(&mut self.groups, group, more, decision);
        }
        for (problem, (more, decision)) in other.policy_failures {
            count(&mut self.policy_failures, problem, more, decision);
        }
        for (problem, (more, decision)) in other.failed {
            count(&mut self.failed, problem, more, decision);
        }
    }

    fn report(self) -> BulkReplay {
        let group = |((slot, recorded, now), (count, decision))| ReplayGroup { slot, recorded, now, count, decision };
        let failure = |(problem, (count, decision))| ReplayFailure { problem, count, decision };
        let mut report = BulkReplay {
            groups: self.groups.into_iter().map(group).collect(),
            policy_failures: self.policy_failures.into_iter().map(failure).collect(),
            failed: self.failed.into_iter().map(failure).collect(),
            ..self.totals
        };
        report.groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        report.policy_failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        report.failed.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        report
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, (u64, DecisionId)>, key: K, more: u64, decision: DecisionId) {
    let known = counts.entry(key).or_insert((0, decision));
    known.0 += more;
    known.1 = known.1.min(decision);
}

/// The answers of a batch, or the one answer.
fn each(answer: &Json) -> &[Json] {
    match answer {
        Json::Array(answers) => answers,
        one => std::slice::from_ref(one),
    }
}
