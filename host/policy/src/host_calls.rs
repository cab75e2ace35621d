//! Calls from guests to granted capabilities: counted, bounded, recorded, and played back from a record.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Val, types};

use crate::call::{Guest, go_on};
use crate::capability::{CallContext, Capability, GrantedCapability};
use crate::limits::Limits;
use crate::values::{from_json, to_json};

/// How many refusals beyond `host_calls` a guest may hear before it is stopped.
const SPARE_REFUSALS: u64 = 8;

/// One call of a capability, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct HostCall {
    /// The interface, without its version.
    pub interface: String,
    /// The function.
    pub function: String,
    /// The arguments.
    pub arguments: Vec<Value>,
    /// What the guest was answered.
    pub answer: Value,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// True when the call was not made, because a limit was reached or because nothing may be called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
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
    /// From the capability.
    Live,
    /// Nowhere: every call is refused with these words. For dry runs.
    Refused(&'static str),
    /// From a record.
    Recorded(VecDeque<HostCall>),
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

impl HostCalls {
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
}

/// Offers the functions of a granted capability to a component. Its types are the component's own; what doesn't fit
/// them fails at the call.
pub(crate) fn link(
    linker: &mut Linker<Guest>,
    capability: &Arc<dyn Capability>,
    granted: &Arc<dyn GrantedCapability>,
) -> wasmtime::Result<()> {
    let mut instance = linker.instance(&format!("{}@{}", capability.interface(), capability.version()))?;
    for function in capability.functions() {
        let (capability, granted) = (capability.clone(), granted.clone());
        let name: Arc<str> = Arc::from(*function);
        instance.func_new_async(function, move |store, function_type, parameters, results| {
            let (capability, granted, name) = (capability.clone(), granted.clone(), name.clone());
            Box::new(
                async move { call(store, &*capability, &*granted, &name, &function_type, parameters, results).await },
            )
        })?;
    }
    Ok(())
}

async fn call(
    mut store: StoreContextMut<'_, Guest>,
    capability: &dyn Capability,
    granted: &dyn GrantedCapability,
    function: &str,
    function_type: &types::ComponentFunc,
    parameters: &[Val],
    results: &mut [Val],
) -> wasmtime::Result<()> {
    let started = Instant::now();
    let failed = |problem: String| {
        wasmtime::Error::from(HostCallFailed {
            interface: capability.interface().to_owned(),
            function: function.to_owned(),
            problem,
        })
    };
    let arguments = parameters.iter().map(to_json).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let bytes = arguments.iter().map(json_bytes).sum();

    store.data_mut().pause();
    let Some(calls) = store.data_mut().host_calls.as_deref_mut() else {
        return Err(failed("a policy that was granted nothing can't call".into()));
    };

    // A record is played back from its front: a pure policy makes the same calls in the same order. One that asks
    // something else has changed, and gets no answer from anywhere.
    let played_back = match &mut calls.answers {
        Answers::Recorded(records) => {
            let position = records.iter().position(|record| {
                record.interface == capability.interface()
                    && record.function == function
                    && record.arguments == arguments
            });
            position.and_then(|position| records.remove(position))
        }
        Answers::Live | Answers::Refused(_) => None,
    };
    let (answer, refused) = match (&calls.answers, played_back) {
        (Answers::Recorded(_), Some(record)) => (record.answer, record.refused),
        (Answers::Recorded(_), None) => (capability.refusal(function, "replay: the record has no such call"), true),
        (Answers::Refused(why), _) => (capability.refusal(function, why), true),
        (Answers::Live, _) => match calls.admit(bytes) {
            Err(why) => (capability.refusal(function, &why), true),
            Ok(()) => {
                let context = CallContext { time_left: calls.time_left, bytes_left: calls.bytes_left };
                let time_left = calls.time_left;
                if tokio::runtime::Handle::try_current().is_err() {
                    return Err(failed("capabilities need a tokio runtime".into()));
                }
                let answer = tokio::time::timeout(time_left, granted.call(context, function, arguments.clone())).await;
                let calls = store.data_mut().host_calls.as_deref_mut().ok_or_else(|| failed("no calls".into()))?;
                calls.time_left = time_left.saturating_sub(started.elapsed());
                match answer {
                    Err(_elapsed) => {
                        calls.time_left = Duration::ZERO;
                        let why = "the call took longer than what was left of `host_call_time_ms`";
                        (capability.refusal(function, why), true)
                    }
                    Ok(Err(error)) => return Err(failed(error.to_string())),
                    Ok(Ok(answer)) => {
                        let bytes = json_bytes(&answer);
                        match calls.bytes_left.checked_sub(bytes) {
                            Some(left) => {
                                calls.bytes_left = left;
                                (answer, false)
                            }
                            None => {
                                let why = format!(
                                    "the answer has {bytes} bytes, more than what is left of `host_call_bytes`"
                                );
                                (capability.refusal(function, &why), true)
                            }
                        }
                    }
                }
            }
        },
    };

    let mut expected = function_type.results();
    match (expected.next(), results.first_mut()) {
        (Some(expected), Some(result)) => {
            *result = from_json(&answer, &expected)
                .map_err(|problem| failed(format!("its answer does not fit: {problem}")))?;
        }
        (None, None) => {}
        _ => return Err(failed("its type has another number of results".into())),
    }

    let calls = store.data_mut().host_calls.as_deref_mut().ok_or_else(|| failed("no calls".into()))?;
    if refused {
        calls.refusals_left = calls
            .refusals_left
            .checked_sub(1)
            .ok_or_else(|| failed("the policy goes on calling after its calls were used up".into()))?;
    }
    calls.records.push(HostCall {
        interface: capability.interface().to_owned(),
        function: function.to_owned(),
        arguments,
        answer,
        duration_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        refused,
    });
    // The guest goes on with what was left of its time when it called.
    go_on(store);
    Ok(())
}

fn json_bytes(value: &Value) -> u64 {
    /// Counts without keeping.
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
