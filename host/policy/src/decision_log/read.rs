//! The reading side. Works beside running hosts and after crashes: a torn last line is skipped.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use cap_std::fs::Dir;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DecisionRecord, FOLDER, LinkRecord, Outcome, SHADOWS, SUFFIX};
use crate::decision::{DecidedBy, DecisionId};
use crate::error::Error;
use crate::slots::{SlotName, provisioning, release, rollback, state_mapping};
use crate::text::one_line;
use windlass_distribution::files::read_bounded;

/// A segment that is longer than this was not written by us.
pub(super) const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// Reads the decision log of a state folder.
#[derive(Debug)]
pub struct DecisionReader {
    pub(super) folder: Option<Dir>,
    /// What shadows answered.
    pub(super) shadows: Option<Dir>,
}

/// Which decisions to list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DecisionFilter {
    /// Only of this slot.
    pub slot: Option<SlotName>,
    /// Only those in which a policy failed.
    pub only_fallbacks: bool,
    /// Only those in which a policy of this name was asked.
    pub policy: Option<String>,
    /// Only those that remove or wipe something ([`DecisionSummary::removes`]).
    pub only_removals: bool,
    /// Only those from this instant on, in milliseconds since 1970-01-01T00:00:00Z.
    pub since_ms: Option<u64>,
    /// At most so many; 0 means all.
    pub limit: usize,
    /// Where pages are read: no further file of the log is read once so many bytes were. Default: 32 MiB.
    pub most_bytes: Option<usize>,
}

/// Decisions, newest first.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionList {
    /// The decisions that the filter lets through.
    pub decisions: Vec<DecisionSummary>,
    /// Lines that can't be read: torn by a crash, or written by something else.
    pub unreadable: usize,
    /// Whether the limit left older lines unread.
    #[serde(skip)]
    pub is_cut: bool,
}

/// Decisions of the log, oldest first, that nobody has parsed yet: many threads can do that.
#[derive(Debug, Default)]
pub struct UnreadRecords {
    /// One for each decision.
    pub records: Vec<UnreadRecord>,
    /// Lines that have no id: torn by a crash, or written by something else.
    pub unreadable: usize,
}

/// The line of one decision.
#[derive(Clone, Debug)]
pub struct UnreadRecord {
    id: DecisionId,
    segment: Arc<str>,
    line: Range<usize>,
}

impl UnreadRecord {
    /// Which decision it is.
    pub fn id(&self) -> DecisionId {
        self.id
    }

    /// Parses it.
    ///
    /// # Errors
    /// The line is no record.
    pub fn read(&self) -> Result<DecisionRecord<Value, Value>, Error> {
        serde_json::from_str(&self.segment[self.line.clone()]).map_err(|error| Error::Record {
            id: self.id.to_string(),
            problem: format!("its record can't be read: {}", one_line(&error.to_string())),
        })
    }
}

/// A decision as a list shows it. Its written form leaves out the question and the answer, which can be large.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DecisionSummary {
    pub id: DecisionId,
    /// When, in milliseconds since 1970-01-01T00:00:00Z.
    pub at_ms: u64,
    /// Which slot.
    pub slot: SlotName,
    /// The question. Null when the record was too large to keep it.
    #[serde(skip_serializing)]
    pub question: Value,
    /// The answer. Null when the record was too large to keep it.
    #[serde(skip_serializing)]
    pub answer: Value,
    /// The deciding policy's reason.
    pub reason: Option<String>,
    /// Who decided, in a batch the last of it.
    pub decided_by: DecidedBy,
    /// Every policy of the chain that was asked.
    pub asked: Vec<LinkRecord>,
    /// From the question to the answer, in nanoseconds.
    pub duration_ns: u64,
    /// How many records are missing before this one.
    #[serde(default)]
    pub lost_before: u64,
}

impl DecisionSummary {
    /// The parts of the policies that decided: in a batch each that decided something of it. None: the host's last
    /// resort did.
    pub fn deciders(&self) -> impl Iterator<Item = &LinkRecord> {
        self.asked.iter().filter(|link| link.outcome.decides())
    }

    /// Whether something is removed or wiped by it: a server reaped, a resource or a node deleted, a machine deleted or
    /// returned to its pool. False where the answer was not kept, or is of another version of the contract.
    pub fn removes(&self) -> bool {
        fn is<A: DeserializeOwned>(answer: &Value, removes: impl Fn(A) -> bool) -> bool {
            A::deserialize(answer).is_ok_and(removes)
        }
        match self.slot {
            SlotName::StateMapping => is(&self.answer, |answers: Vec<state_mapping::Answer>| {
                use state_mapping::{Action, Verdict};
                answers.iter().any(|answer| matches!(&answer.verdict, Verdict::Mapped(to) if to.action == Action::Reap))
            }),
            SlotName::Rollback => is(&self.answer, |answer: rollback::Answer| match answer.verdict {
                rollback::Verdict::Plan(steps) => steps.iter().any(|step| step.action == rollback::Action::Delete),
                rollback::Verdict::Defer => false,
            }),
            SlotName::Release => is(&self.answer, |answer: release::Answer| {
                use release::Verdict;
                matches!(answer.verdict, Verdict::Terminate | Verdict::ScheduleDeletion | Verdict::ReturnToPool(_))
            }),
            SlotName::Provisioning => is(&self.answer, |answer: provisioning::Answer| match answer.verdict {
                provisioning::Verdict::Recover(recovery) => !recovery.delete.is_empty(),
                provisioning::Verdict::Defer => false,
            }),
            SlotName::Retry | SlotName::Placement => false,
        }
    }

    /// Whether a policy failed in it.
    pub fn is_fallback(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked.outcome, Outcome::Fallback { .. }))
    }
}

impl DecisionReader {
    /// Opens the log of a state folder. One that has none yet reads as empty.
    ///
    /// # Errors
    /// The folder is there and can't be opened.
    pub fn open(state: &Dir) -> Result<DecisionReader, Error> {
        let open = |name: &str| match state.open_dir(name) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::StateFolder { what: format!("open the folder {name}"), source }),
        };
        Ok(DecisionReader { folder: open(FOLDER)?, shadows: open(SHADOWS)? })
    }

    /// The log of what shadows answered.
    pub(super) fn of_shadows(&self) -> Result<DecisionReader, Error> {
        let again = |folder: &Dir| folder.try_clone();
        let folder = self.shadows.as_ref().map(again).transpose();
        let folder = folder.map_err(|source| Error::StateFolder { what: "open the folder shadows".into(), source })?;
        Ok(DecisionReader { folder, shadows: None })
    }

    /// The record with what shadows answered.
    fn with_shadows(&self, mut record: DecisionRecord) -> Result<DecisionRecord, Error> {
        if let Some(later) = self.of_shadows()?.line_of(record.id)? {
            record.shadows = later.shadows;
        }
        Ok(record)
    }

    /// Lists decisions, newest first.
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn list(&self, filter: &DecisionFilter) -> Result<DecisionList, Error> {
        let segments = self.segments()?;
        let mut unreadable = 0;
        // Lines begin with the id and ids sort by time, so only lines that are shown need to be parsed.
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for line in segments.iter().flat_map(|segment| segment.lines()).filter(|line| !line.is_empty()) {
            match id_of(line) {
                Some(id) => lines.push((id, line)),
                None => unreadable += 1,
            }
        }
        lines.sort_unstable_by(|one, other| other.0.cmp(one.0));
        let (mut decisions, mut is_cut) = (Vec::new(), false);
        for (_, line) in lines {
            if filter.limit > 0 && decisions.len() == filter.limit {
                is_cut = true;
                break;
            }
            match serde_json::from_str::<DecisionSummary>(line) {
                Ok(decision) if filter.lets_through(&decision) => decisions.push(decision),
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
        Ok(DecisionList { decisions, unreadable, is_cut })
    }

    /// Every decision since this instant, in milliseconds since 1970-01-01T00:00:00Z. Holds the whole log in memory as
    /// text, which is as large as [`DecisionLogOptions`](super::DecisionLogOptions) let it become.
    ///
    /// # Errors
    /// A segment can't be read.
    pub fn since(&self, at_ms: u64) -> Result<UnreadRecords, Error> {
        let mut found = UnreadRecords::default();
        for segment in self.segments()? {
            let segment: Arc<str> = segment.into();
            let mut end = 0;
            for whole in segment.split_inclusive('\n') {
                let (begin, line) = (end, whole.trim_end());
                end += whole.len();
                match id_of(line).and_then(|id| id.parse::<DecisionId>().ok()) {
                    Some(id) if id.at_ms() >= at_ms => {
                        let line = begin..begin + line.len();
                        found.records.push(UnreadRecord { id, segment: segment.clone(), line });
                    }
                    Some(_) => {}
                    None => found.unreadable += usize::from(!line.is_empty()),
                }
            }
        }
        found.records.sort_unstable_by_key(UnreadRecord::id);
        Ok(found)
    }

    /// One decision, whole. `id` may be cut short where it still names one.
    ///
    /// # Errors
    /// There is no such decision, or several, or its line can't be read.
    pub fn show(&self, id: &str) -> Result<DecisionRecord<Value, Value>, Error> {
        let failed = |problem: String| Error::Record { id: id.to_owned(), problem };
        if let Ok(whole) = id.parse()
            && let Some(record) = self.line_of(whole)?
        {
            return self.with_shadows(record);
        }
        let segments = self.segments()?;
        let mut found = segments
            .iter()
            .flat_map(|segment| segment.lines())
            .filter(|line| id_of(line).is_some_and(|its_id| !id.is_empty() && its_id.starts_with(id)));
        let line = found.next().ok_or_else(|| failed("there is no such decision in the log".into()))?;
        if found.next().is_some() {
            return Err(failed("more than one decision begins so; write more of the id".into()));
        }
        let record = serde_json::from_str(line)
            .map_err(|error| failed(format!("its record can't be read: {}", one_line(&error.to_string()))))?;
        self.with_shadows(record)
    }

    pub(super) fn segments(&self) -> Result<Vec<String>, Error> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| Error::StateFolder { what, source }
        };
        let mut segments = Vec::new();
        for entry in folder.entries().map_err(failed("list the folder decisions"))? {
            let name = entry.map_err(failed("list the folder decisions"))?.file_name();
            if !name.to_string_lossy().ends_with(SUFFIX) {
                continue;
            }
            match read_bounded(folder, &name, MAX_SEGMENT_BYTES) {
                Ok(bytes) => segments.push(text_of(bytes)),
                // Removed by a host meanwhile, to make room.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(failed("read a segment of the decision log")(source)),
            }
        }
        Ok(segments)
    }
}

impl DecisionFilter {
    /// Whether the line of a decision that the filter lets through may look so. Cheaper than to read it.
    pub(super) fn may_let_through(&self, line: &str) -> bool {
        self.slot.is_none_or(|slot| line.contains(slot.as_str()))
            && (!self.only_fallbacks || line.contains("fallback"))
            && self.policy.as_deref().is_none_or(|name| line.contains(name))
    }

    pub(super) fn lets_through(&self, decision: &DecisionSummary) -> bool {
        self.slot.is_none_or(|slot| slot == decision.slot)
            && self.since_ms.is_none_or(|since| decision.at_ms >= since)
            && (!self.only_fallbacks || decision.is_fallback())
            && (!self.only_removals || decision.removes())
            && self.policy.as_deref().is_none_or(|name| decision.asked.iter().any(|asked| &*asked.policy.name == name))
    }
}

/// A segment as text. A torn line can end within a character; all others are taken as they are, without a copy.
pub(super) fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|torn| String::from_utf8_lossy(torn.as_bytes()).into_owned())
}

/// The id at the beginning of a line.
pub(super) fn id_of(line: &str) -> Option<&str> {
    line.strip_prefix("{\"id\":\"")?.split_once('"').map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(slot: SlotName, answer: Value) -> DecisionSummary {
        DecisionSummary {
            id: DecisionId::of(1_000, 0, 0),
            at_ms: 1_000,
            slot,
            question: Value::Null,
            answer,
            reason: None,
            decided_by: DecidedBy::Keep,
            asked: Vec::new(),
            duration_ns: 1,
            lost_before: 0,
        }
    }

    #[test]
    fn a_removal_is_what_deletes_or_wipes_something() {
        let step = |action: &str| {
            let step = json!({"resource": 0, "action": action, "after": []});
            json!({"verdict": {"plan": [step]}, "reason": null})
        };
        let reported =
            |action: &str| json!([{"verdict": {"mapped": {"report": "running", "action": action}}, "reason": null}]);
        let recovery =
            |delete: Value| json!({"verdict": {"recover": {"delete": delete, "state": "error"}}, "reason": null});
        let release = |verdict: Value| json!({"verdict": verdict, "reason": null});
        let cases = [
            (SlotName::StateMapping, reported("reap"), true),
            (SlotName::StateMapping, reported("none"), false),
            (SlotName::Rollback, step("delete"), true),
            (SlotName::Rollback, step("keep"), false),
            (SlotName::Release, release(json!("terminate")), true),
            (SlotName::Release, release(json!("schedule-deletion")), true),
            (SlotName::Release, release(json!({"return-to-pool": {"operating-system": null}})), true),
            (SlotName::Release, release(json!("keep")), false),
            (SlotName::Provisioning, recovery(json!([0])), true),
            (SlotName::Provisioning, recovery(json!([])), false),
            (SlotName::Retry, json!({"verdict": "give-up", "reason": null}), false),
            (SlotName::Rollback, Value::Null, false),
        ];
        for (slot, answer, removes) in cases {
            assert_eq!(decision(slot, answer.clone()).removes(), removes, "{slot}: {answer}");
        }
    }

    #[test]
    fn a_period_begins_with_its_first_instant() {
        let from = |since_ms| DecisionFilter { since_ms: Some(since_ms), ..DecisionFilter::default() };
        let decision = decision(SlotName::Retry, Value::Null);
        assert!(from(1_000).lets_through(&decision) && !from(1_001).lets_through(&decision));
    }
}
