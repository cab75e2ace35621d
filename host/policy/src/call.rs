//! One call of one policy: a fresh instance within its limits, and what it did.

use std::time::{Duration, Instant};

use wasmtime::Store;
use wasmtime::component::{Instance, TypedFunc};
use windlass_distribution::KeyId;

use crate::decision_log::AppliedRule;
use crate::guest::{Failure, Guest, LogLine, new_store};
use crate::host_calls::{HostCall, HostCalls};
use crate::policy::LoadedPolicy;
use crate::shares::SLOW;
use crate::slots::Slot;

/// What a call used and did.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) duration: Duration,
    /// How long the policy computed, to the next tick: without what it waited for calls or for the processor.
    pub(crate) computed: Duration,
    pub(crate) fuel: Option<u64>,
    pub(crate) memory_bytes: u64,
    pub(crate) log: Vec<LogLine>,
    pub(crate) log_dropped: u64,
    pub(crate) host_calls: Vec<HostCall>,
    /// The rules that answered.
    pub(crate) rules: Vec<AppliedRule>,
    /// The key that had signed the policy.
    pub(crate) signed_by: Option<KeyId>,
}

impl Trace {
    /// That of a policy that was not asked.
    pub(crate) fn unasked(policy: &LoadedPolicy) -> Trace {
        Trace { signed_by: policy.signed_by, ..Trace::default() }
    }
}

/// The slot's function, typed.
type Decide<'q, S> = TypedFunc<(&'q <S as Slot>::Question,), (<S as Slot>::Answer,)>;

/// The slot's function of an instance.
fn decide<'q, S: Slot>(
    policy: &LoadedPolicy,
    store: &mut Store<Guest>,
    instance: &Instance,
) -> wasmtime::Result<Decide<'q, S>> {
    instance.get_typed_func::<(&S::Question,), (S::Answer,)>(store, policy.decide_export())
}

/// Asks a policy that was granted nothing that waits. On the caller's thread, from start to end.
pub(crate) fn ask<S: Slot>(policy: &LoadedPolicy, question: &S::Question) -> (Result<S::Answer, Failure>, Trace) {
    let started = Instant::now();
    let mut store = new_store(policy.engine(), policy.limits(), Guest::new(started, policy.limits(), None));
    let mut rules = Vec::new();
    let answer = policy.instance_pre().instantiate(&mut store).and_then(|instance| {
        let (answer,) = decide::<S>(policy, &mut store, &instance)?.call(&mut store, (question,))?;
        if let Some(file) = policy.rules() {
            rules = file.applied(&mut store, &instance);
        }
        Ok(answer)
    });
    finish(policy, started, store, answer, rules)
}

/// Asks a policy that may wait for a capability: on a stack of its own, so that the caller's thread is free meanwhile.
pub(crate) async fn ask_waiting<S: Slot>(
    policy: &LoadedPolicy,
    question: &S::Question,
    host_calls: HostCalls,
) -> (Result<S::Answer, Failure>, Trace) {
    let started = Instant::now();
    let guest = Guest::new(started, policy.limits(), Some(Box::new(host_calls)));
    let mut store = new_store(policy.engine(), policy.limits(), guest);
    let answer = match policy.instance_pre().instantiate_async(&mut store).await {
        Ok(instance) => match decide::<S>(policy, &mut store, &instance) {
            Ok(function) => function.call_async(&mut store, (question,)).await.map(|(answer,)| answer),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // Rules import nothing, so they never wait.
    finish(policy, started, store, answer, Vec::new())
}

fn finish<A>(
    policy: &LoadedPolicy,
    started: Instant,
    store: Store<Guest>,
    answer: wasmtime::Result<A>,
    rules: Vec<AppliedRule>,
) -> (Result<A, Failure>, Trace) {
    let fuel = policy.limits().fuel.map(|given| given.saturating_sub(store.get_fuel().unwrap_or_default()));
    let mut guest = store.into_data();
    let failure = if policy.rules.is_some() { Failure::of_rules } else { Failure::of_guest };
    let answer = answer.map_err(|error| failure(&error, policy.limits(), &guest));
    let duration = started.elapsed();
    let trace = Trace {
        duration,
        computed: if duration < SLOW { duration } else { guest.computed(policy.limits()) },
        fuel,
        memory_bytes: policy.limits().memory_bytes.saturating_sub(guest.memory_left()),
        log: guest.log,
        log_dropped: guest.log_dropped,
        host_calls: guest.host_calls.map(|calls| calls.into_records()).unwrap_or_default(),
        rules,
        signed_by: policy.signed_by,
    };
    (answer, trace)
}
