//! What an operation writes down beside its steps, as types: on some of it recovery depends.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_policy::slots::rollback;
use windlass_policy::slots::types::Failure;

use super::record::{Entry, Phase, ResourceName};
use super::step::{self, Step};
use crate::Error;
use crate::release::Answer;

/// The key under which the word of a note stands in its serialized form.
const WORD: &str = "note";
const WORDS: [&str; 11] = [
    "undo-begun",
    "look",
    PLAN,
    "kept",
    "left-alone",
    "taken-up",
    "abandoned",
    CANCELLED,
    "started-elsewhere",
    RELEASE_DECIDED,
    "settled",
];

/// A step that has failed for good: the cause of an undo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cause {
    pub(crate) step: String,
    pub(crate) failure: Failure,
}

/// A note. The journal keeps its word as the step, its fields as the data, and the resource that it is about as that
/// of the entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(crate) enum Note {
    /// The operation is to be undone. Written before the first look: whoever takes the operation over undoes it, and
    /// never finishes it.
    UndoBegun { because: Cause },
    /// What a look has found.
    #[serde(rename = "look")]
    Looked {
        /// Proven by the outcome of the step that made it: also when it carries no tag.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        made: Vec<ResourceName>,
        /// Proven by its tag and more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tagged: Vec<ResourceName>,
        /// On our servers, and not proven ours.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<ResourceName>,
    },
    /// What the rollback slot wants done.
    #[serde(rename = "plan")]
    Planned {
        decision: Value,
        decided_by: String,
        reason: Option<String>,
        steps: Option<Vec<rollback::Step>>,
        /// What policies said, and which of them failed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reasons: Vec<String>,
    },
    /// The entry's resource was kept on purpose. It stays kept, whatever becomes of its mark.
    Kept,
    /// The entry's resource was no longer ours when its turn came.
    LeftAlone,
    /// A process has taken the operation up to end it.
    TakenUp {
        /// How often that was done, this time included.
        tries: u32,
        /// When it is tried again if it does not end, in milliseconds since 1970.
        next_try: u64,
    },
    /// Somebody decided to leave the entry's resource alone, or whatever the operation made where it names none.
    Abandoned { by: String, reason: Option<String> },
    /// Somebody cancelled the operation. Written before this is confirmed to them: the operation is undone, and never
    /// finished.
    Cancelled { by: String },
    /// The entry's resource, the server of an interrupted creation, was started, and not by this journal. The creation
    /// is neither finished nor undone by a start, whatever state the server is in later.
    StartedElsewhere,
    /// What the release slot answered about the entry's resource: the server of a cleanup, or a Mac, of which only the
    /// answers that were carried out are noted.
    ReleaseDecided(Answer),
    /// The entry's resource, a host that was being wiped, restarted or delivered, was listed with this status, and no
    /// longer as busy.
    Settled {
        status: String,
        /// When it was listed as busy for the last time, in milliseconds since 1970.
        busy_at: u64,
    },
}

impl Note {
    /// The word and the data, as the journal keeps them.
    pub(crate) fn parts(&self) -> (String, Value) {
        step::parts(WORD, self)
    }

    /// `None`: a note about a step, or one of machines.
    fn read(word: &str, data: &Value) -> Result<Option<Self>, String> {
        if !WORDS.contains(&word) {
            return Ok(None);
        }
        let mut fields = data.as_object().cloned().unwrap_or_default();
        fields.insert(WORD.to_owned(), Value::from(word));
        serde_json::from_value(Value::Object(fields)).map(Some).map_err(|error| error.to_string())
    }
}

/// An entry as a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Before the call leaves the process.
    Begun(Step),
    /// The effect took place.
    Done(Step),
    /// An attempt at this step failed. The failure stands here when it was the last attempt.
    Failed {
        step: String,
        gave_up: Option<Failure>,
    },
    Noted(Note),
    /// Something about this step: what came of a call is not known, or it was not sent.
    About {
        step: String,
    },
}

impl Entry {
    /// The entry as a type.
    pub(crate) fn record(&self) -> Result<Record, Error> {
        let fault = |problem: String| {
            let problem = format!("{} {}: {problem}", self.phase, self.step);
            Error::journal_row("entries", self.sequence.to_string(), "data", problem)
        };
        let step = || Step::read(&self.step, &self.data).map_err(fault);
        Ok(match self.phase {
            Phase::Intent => Record::Begun(step()?),
            Phase::Outcome => Record::Done(step()?),
            Phase::Failure => {
                let last = self.data.get("wait").is_some_and(Value::is_null);
                let failure = self.data.get("failure").filter(|_| last).cloned();
                let gave_up = failure
                    .map(serde_json::from_value)
                    .transpose()
                    .map_err(|error: serde_json::Error| fault(error.to_string()))?;
                Record::Failed { step: self.step.clone(), gave_up }
            }
            Phase::Note => match Note::read(&self.step, &self.data).map_err(fault)? {
                Some(note) => Record::Noted(note),
                None => Record::About { step: self.step.clone() },
            },
        })
    }

    /// The failure of an attempt, where the entry tells of one that can be read.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let failure = self.data.get("failure").filter(|_| self.phase == Phase::Failure)?;
        Failure::deserialize(failure).ok()
    }

    /// The resource that was kept, where the entry says that one was.
    pub(crate) fn kept(&self) -> Option<&ResourceName> {
        match (self.phase, self.step == KEPT) {
            (Phase::Note, true) => self.resource.as_ref(),
            _ => None,
        }
    }
}

/// The word of [`Note::Kept`].
pub(super) const KEPT: &str = "kept";
/// The word of [`Note::TakenUp`].
pub(super) const TAKEN_UP: &str = "taken-up";
/// The word of [`Note::Abandoned`].
pub(super) const ABANDONED: &str = "abandoned";
/// The word of [`Note::Planned`].
pub(super) const PLAN: &str = "plan";
/// The word of [`Note::ReleaseDecided`].
pub(super) const RELEASE_DECIDED: &str = "release-decided";
/// The word of [`Note::Cancelled`].
pub(super) const CANCELLED: &str = "cancelled";

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_policy::slots::release::Verdict;
    use windlass_policy::slots::types::FailureClass;

    use super::*;

    fn all() -> Vec<Note> {
        let name = ResourceName {
            kind: super::super::ResourceKind::Ip,
            id: "a".into(),
            zone: "fr-par-1".into(),
            server: None,
        };
        let failure = crate::failure::of_class(FailureClass::Cancelled, "called off");
        vec![
            Note::UndoBegun { because: Cause { step: "power-on".into(), failure } },
            Note::Looked { made: vec![name.clone()], tagged: vec![name.clone()], attached: vec![name] },
            Note::Planned {
                decision: json!("d"),
                decided_by: "default".into(),
                reason: None,
                steps: Some(vec![]),
                reasons: vec![],
            },
            Note::Kept,
            Note::LeftAlone,
            Note::TakenUp { tries: 3, next_try: 5 },
            Note::Abandoned { by: "somebody".into(), reason: Some("the zone is closed".into()) },
            Note::Cancelled { by: "SIGTERM".into() },
            Note::StartedElsewhere,
            Note::ReleaseDecided(Answer {
                decision: json!("d"),
                decided_by: "default".into(),
                reason: None,
                verdict: Verdict::RetryAfter(5),
                policy_failures: Vec::new(),
                until: Some(5),
                refused_with: None,
            }),
            Note::Settled { status: "ready".into(), busy_at: 5 },
        ]
    }

    fn entry(phase: Phase, step: &str, data: Value) -> Entry {
        Entry { sequence: 7, step: step.into(), phase, resource: None, data, at: 0 }
    }

    #[test]
    fn every_note_is_read_as_it_was_written() {
        let words: Vec<String> = all().iter().map(|note| note.parts().0).collect();
        assert_eq!(words, WORDS);
        for note in all() {
            let (word, data) = note.parts();
            assert_eq!(entry(Phase::Note, &word, data).record().unwrap(), Record::Noted(note));
        }
    }

    #[test]
    fn a_note_of_another_shape_is_an_error_that_names_it() {
        let error = entry(Phase::Note, "undo-begun", json!({ "because": "so" })).record().unwrap_err().to_string();
        assert!(error.contains("undo-begun") && error.contains('7'), "{error}");
    }

    #[test]
    fn what_is_no_note_of_its_own_is_about_a_step() {
        let about = entry(Phase::Note, "create-ip", json!({ "ambiguous": {} })).record().unwrap();
        assert_eq!(about, Record::About { step: "create-ip".into() });
    }

    #[test]
    fn only_the_last_failure_of_a_step_gives_it_up() {
        let failure = crate::failure::of_class(FailureClass::ServerError, "no");
        let read = |wait: Value| {
            entry(Phase::Failure, "power-on", json!({ "failure": failure, "wait": wait })).record().unwrap()
        };
        let step = "power-on".to_owned();
        assert_eq!(read(json!(5)), Record::Failed { step: step.clone(), gave_up: None });
        assert_eq!(read(Value::Null), Record::Failed { step, gave_up: Some(failure.clone()) });
    }
}
