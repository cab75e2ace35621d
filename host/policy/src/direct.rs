//! A policy asked by itself with a typed question, millions of times: for proofs, comparisons and measurements. Nothing
//! is recorded, compared or made into JSON.

use std::time::Duration;

use futures::FutureExt;

use crate::call::{self, Trace};
use crate::failure_kind::FailureKind;
use crate::guest::Failure;
use crate::host_calls::{Answers, HostCalls};
use crate::policy::LoadedPolicy;
use crate::slots::Slot;

/// What came of one question.
#[derive(Clone, Debug)]
pub struct Asked<A> {
    /// The answer as the policy gave it, not yet held to [`Slot::check`]; or how it failed and why.
    pub answer: Result<A, (FailureKind, String)>,
    /// How long it took, the fresh instance included.
    pub duration: Duration,
    /// The fuel that it used, where its limits say that fuel is counted.
    pub fuel: Option<u64>,
    /// Its linear memory at the end, in bytes.
    pub memory_bytes: u64,
}

impl LoadedPolicy {
    /// Puts a question to this policy alone, in a fresh instance within its limits, on the calling thread, which needs
    /// [`DECISION_STACK_BYTES`](crate::DECISION_STACK_BYTES). Capabilities are refused: a proof is about what a policy
    /// answers by itself. Failures don't count towards suspension.
    ///
    /// # Assumptions
    /// `S` is the policy's own slot. With another one, each question fails as a malformed answer does.
    pub fn ask<S: Slot>(&self, question: &S::Question) -> Asked<S::Answer> {
        let (answer, trace) = if self.may_wait {
            let calls = HostCalls::new(self.limits(), Answers::Refused("this is a proof: nothing is called"));
            // Refused calls wait for nothing.
            call::ask_waiting::<S>(self, question, calls).now_or_never().unwrap_or_else(|| {
                let reason = "it waits for something";
                (Err(Failure::new(FailureKind::HostCall, reason)), Trace::default())
            })
        } else {
            call::ask::<S>(self, question)
        };
        Asked {
            answer: answer.map_err(|failure| (failure.kind, failure.reason)),
            duration: trace.duration,
            fuel: trace.fuel,
            memory_bytes: trace.memory_bytes,
        }
    }
}
