//! A policy asked by itself, outside of every chain and every log: for the tests of a policy. And the questions and
//! answers of a slot as JSON, for whoever has only its name.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use windlass_contract::SlotShapes;

use crate::brake::Brake;
use crate::call::Trace;
use crate::chain::{Circumstances, ask_policy};
use crate::checked::Braking;
use crate::decision_log::{AppliedRule, LinkRecord, Outcome};
use crate::error::Error;
use crate::guest::LogLine;
use crate::host_calls::HostCall;
use crate::policy::LoadedPolicy;
use crate::slots::{Deferred, Slot, SlotName, with_slot};
use crate::text::one_line;

/// What a policy did with one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trial {
    /// Its whole answer in the contract's JSON, deferring or not. None: it failed.
    pub answer: Option<Value>,
    /// What came of it.
    pub outcome: Outcome,
    /// The rules that answered, where it is made of rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<AppliedRule>,
    /// How long it took, in nanoseconds.
    pub duration_ns: u64,
    /// The fuel that it used, where its limits say that fuel is counted. The same for the same component and question.
    pub fuel: Option<u64>,
    /// The capabilities that it called. Those for which there was no answer are `refused`.
    pub host_calls: Vec<HostCall>,
    /// The lines that it logged.
    pub log: Vec<LogLine>,
}

impl LoadedPolicy {
    /// Puts a question to this policy alone, within its limits, and holds the answer to [`Slot::check`] and to the
    /// default [`Brake`]. Capabilities aren't called: each of `calls` answers one call with its arguments, in any
    /// order, and any other call is refused. Nothing is recorded, and a failure doesn't count towards suspension.
    ///
    /// # Errors
    /// The question doesn't fit the slot: where, and what was expected. That the policy fails is an outcome.
    pub async fn try_question(self: &Arc<Self>, question: &Value, calls: &[HostCall]) -> Result<Trial, Error> {
        let slot = self.identity().slot;
        with_slot!(slot, S => {
            let question = read::<<S as Slot>::Question>(slot, "question", question)?;
            let answered = Trace { host_calls: calls.to_vec(), ..Trace::default() };
            let all = [LinkRecord::new(&self.identity, None, Outcome::Deferred, answered)];
            let circumstances = Circumstances::Replay { own: None, all: &all };
            let braking = Braking { brake: Brake::default(), whole: &question, removed: 0 };
            let (result, trace) = ask_policy::<S>(self, &question, &braking, &circumstances).await;
            let failed = result.is_err();
            let (answer, outcome) = match result {
                Ok(answer) => {
                    let outcome = match S::deferred(&answer) {
                        Deferred::Nothing => Outcome::Decided,
                        Deferred::Whole => Outcome::Deferred,
                        Deferred::Items(items) => {
                            Outcome::DecidedPart { deferred: u32::try_from(items.len()).unwrap_or(u32::MAX) }
                        }
                    };
                    (Some(to_json(&answer)), outcome)
                }
                Err(failure) => (None, Outcome::from(failure)),
            };
            Ok(Trial {
                answer,
                outcome,
                rules: if failed { Vec::new() } else { trace.rules },
                duration_ns: u64::try_from(trace.duration.as_nanos()).unwrap_or(u64::MAX),
                fuel: trace.fuel,
                host_calls: trace.host_calls,
                log: trace.log,
            })
        })
    }
}

impl SlotName {
    /// The slot's example question in the contract's JSON: [`Slot::example`].
    pub fn example_question(self) -> Value {
        with_slot!(self, S => to_json(&S::example()))
    }

    /// A question in the contract's JSON with every field that it may leave out.
    ///
    /// # Errors
    /// It doesn't fit the slot: where, and what was expected.
    pub fn whole_question(self, question: &Value) -> Result<Value, Error> {
        with_slot!(self, S => read::<<S as Slot>::Question>(self, "question", question).map(|read| to_json(&read)))
    }

    /// An answer in the contract's JSON with every field that it may leave out.
    ///
    /// # Errors
    /// As [`SlotName::whole_question`].
    pub fn whole_answer(self, answer: &Value) -> Result<Value, Error> {
        with_slot!(self, S => read::<<S as Slot>::Answer>(self, "answer", answer).map(|read| to_json(&read)))
    }
}

fn read<T: serde::de::DeserializeOwned>(slot: SlotName, what: &str, json: &Value) -> Result<T, Error> {
    serde_json::from_value(json.clone()).map_err(|error| {
        let shape = SlotShapes::of(slot.as_str())
            .map(|shapes| if what == "question" { shapes.question } else { shapes.answer });
        let misfits = shape.map(|shape| shape.misfits(json)).unwrap_or_default();
        let problems = if misfits.is_empty() { error.to_string() } else { misfits.join("; ") };
        Error::Configuration(format!("the {what} does not fit the slot {slot}: {}", one_line(&problems)))
    })
}

/// Questions and answers have no map with keys other than texts, and no number that JSON lacks: writing them can't
/// fail.
fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
