//! Calls from guests to granted capabilities: counted, bounded, recorded, and played back from a record.

mod excerpt;
pub(crate) mod link;
mod playback;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::{CallContext, Capability, Granted, GrantedCapability};
use crate::json_text::JsonText;
use crate::limits::Limits;

use excerpt::Kept;
pub(crate) use playback::Playback;

/// Why a call is refused that the account of the question cannot make.
const NOT_OF_ACCOUNT: &str = "the account that the question is about has no such capability";
/// How many refusals beyond `host_calls` a guest may hear before it is stopped.
const SPARE_REFUSALS: u64 = 8;

/// One call of a capability, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostCall {
    /// The interface, without its version.
    pub interface: String,
    pub function: String,
    /// The arguments, a list.
    pub arguments: JsonText,
    /// What the guest was answered.
    pub answer: JsonText,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// True when the call was not made, because a limit was reached or because nothing may be called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// True when the call was refused and only the beginnings of its arguments were kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shortened: bool,
    /// True when the answer was recorded without what looks like a secret, though the guest was given it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

/// A defect of a capability. Fails the policy's decision.
#[derive(Debug, thiserror::Error)]
#[error("{interface}#{function}: {problem}")]
pub(crate) struct HostCallFailed {
    interface: String,
    function: String,
    problem: String,
}

/// Where the answers come from.
pub(crate) enum Answers {
    /// From the capability; where there are some of another account, from these only.
    Live(Option<Granted>),
    /// Nowhere: every call is refused with these words. For dry runs.
    Refused(&'static str),
    /// From a record.
    Recorded(Playback),
}

/// The calls of one decision: what is left, and what was done.
pub(crate) struct HostCalls {
    answers: Answers,
    calls_left: u64,
    bytes_left: u64,
    time_left: Duration,
    /// How many refusals it may still hear before it is stopped: a guest that keeps calling would otherwise fill the
    /// record.
    refusals_left: u64,
    records: Vec<HostCall>,
}

/// A call on its way.
struct Call<'a> {
    capability: &'a dyn Capability,
    granted: &'a Arc<dyn GrantedCapability>,
    function: &'a str,
    began: Instant,
}

/// What the guest is answered.
struct Answered {
    answer: Value,
    refused: bool,
}

impl HostCalls {
    /// Whether capabilities are called, so that the decision is part of a task that waits.
    pub(crate) fn are_live(&self) -> bool {
        matches!(self.answers, Answers::Live(_))
    }

    pub(crate) fn new(limits: &Limits, answers: Answers) -> HostCalls {
        HostCalls {
            answers,
            calls_left: limits.host_calls,
            bytes_left: limits.host_call_bytes,
            time_left: Duration::from_millis(limits.host_call_time_ms),
            refusals_left: limits.host_calls.saturating_add(SPARE_REFUSALS),
            records: Vec::new(),
        }
    }

    pub(crate) fn into_records(self) -> Vec<HostCall> {
        self.records
    }

    /// Finds the answer, and records it with the call.
    async fn answer(&mut self, call: &Call<'_>, arguments: Vec<Value>) -> Result<Value, HostCallFailed> {
        let bytes = arguments.iter().map(json_bytes).sum();
        let (kept, answered) = match &mut self.answers {
            Answers::Refused(why) => (Kept::excerpt(&arguments, bytes), call.refused(why)),
            Answers::Recorded(playback) => {
                let answered = call.played_back(playback, &arguments);
                // What was accepted then was within the limits.
                let kept = if answered.refused { Kept::excerpt(&arguments, bytes) } else { Kept::whole(&arguments) };
                (kept, answered)
            }
            Answers::Live(granted) => {
                let own = |it: &&(Arc<dyn Capability>, _)| it.0.interface() == call.capability.interface();
                let granted = match granted {
                    None => Some(Arc::clone(call.granted)),
                    Some(granted) => granted.iter().find(own).map(|(_, granted)| Arc::clone(granted)),
                };
                match granted.ok_or_else(|| NOT_OF_ACCOUNT.to_owned()).and_then(|it| self.admit(bytes).map(|()| it)) {
                    Err(why) => (Kept::excerpt(&arguments, bytes), call.refused(&why)),
                    Ok(granted) => (Kept::whole(&arguments), self.make(call, &*granted, arguments).await?),
                }
            }
        };
        self.record(call, kept, &answered)?;
        Ok(answered.answer)
    }

    /// Takes the call off what is left, or says which limit is reached.
    fn admit(&mut self, bytes: u64) -> Result<(), String> {
        if self.calls_left == 0 {
            return Err("the decision has used up its host calls (`host_calls`)".into());
        }
        if self.bytes_left < bytes {
            return Err("the decision has used up its bytes (`host_call_bytes`)".into());
        }
        if self.time_left.is_zero() {
            return Err("the decision has used up its time for host calls (`host_call_time_ms`)".into());
        }
        self.calls_left -= 1;
        self.bytes_left -= bytes;
        Ok(())
    }

    /// Makes the call, within what is left.
    async fn make(
        &mut self,
        call: &Call<'_>,
        granted: &dyn GrantedCapability,
        arguments: Vec<Value>,
    ) -> Result<Answered, HostCallFailed> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(call.failed("capabilities need a tokio runtime"));
        }
        let context = CallContext { time_left: self.time_left, bytes_left: self.bytes_left };
        let made = granted.call(context, call.function, arguments);
        let answer = tokio::time::timeout(self.time_left, made).await;
        self.time_left = self.time_left.saturating_sub(call.began.elapsed());
        let Ok(answer) = answer else {
            self.time_left = Duration::ZERO;
            return Ok(call.refused("the call took longer than what was left of `host_call_time_ms`"));
        };
        let answer = answer.map_err(|error| call.failed(error.to_string()))?;
        let bytes = json_bytes(&answer);
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                Ok(Answered { answer, refused: false })
            }
            None => {
                let why = format!("the answer has {bytes} bytes, more than what is left of `host_call_bytes`");
                Ok(call.refused(&why))
            }
        }
    }

    fn record(&mut self, call: &Call<'_>, arguments: Kept, answered: &Answered) -> Result<(), HostCallFailed> {
        if answered.refused {
            self.refusals_left = self
                .refusals_left
                .checked_sub(1)
                .ok_or_else(|| call.failed("the policy goes on calling after its calls were used up"))?;
        }
        self.records.push(HostCall {
            interface: call.capability.interface().to_owned(),
            function: call.function.to_owned(),
            arguments: arguments.text,
            answer: JsonText::of(&answered.answer),
            duration_us: u64::try_from(call.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            refused: answered.refused,
            shortened: arguments.shortened,
            redacted: false,
        });
        Ok(())
    }
}

impl Call<'_> {
    fn failed(&self, problem: impl Into<String>) -> HostCallFailed {
        HostCallFailed {
            interface: self.capability.interface().to_owned(),
            function: self.function.to_owned(),
            problem: problem.into(),
        }
    }

    fn refused(&self, why: &str) -> Answered {
        Answered { answer: self.capability.refusal(self.function, why), refused: true }
    }

    /// The recorded answer. A policy that asks something else has changed, and gets no answer from anywhere.
    fn played_back(&self, playback: &mut Playback, arguments: &[Value]) -> Answered {
        match playback.take(self.capability.interface(), self.function, arguments) {
            Some(call) => Answered { answer: call.answer.value(), refused: call.refused },
            None => self.refused("no call is made now, and the record has no such call"),
        }
    }
}

/// The bytes of a value as JSON, counted without making it.
fn json_bytes(value: &Value) -> u64 {
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // A JSON value always can be written; what can't be counted counts as too much.
        Err(_) => u64::MAX,
    }
}
