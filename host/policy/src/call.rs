//! One call of one policy: a fresh instance within its limits, and what it did.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Instance, Lift, Linker, TypedFunc};
use wasmtime::{
    AsContextMut, PoolConcurrencyLimitError, ResourceLimiter, Store, StoreContextMut, Trap, UpdateDeadline,
};

use crate::decision::FailureKind;
use crate::engine::ticks;
use crate::guest_time::GuestTime;
use crate::host_calls::HostCalls;
use crate::limits::Limits;
use crate::policy::LoadedPolicy;
use crate::slots::Slot;
use crate::text::{MAX_REASON_BYTES, one_line, without_controls};

pub use crate::host_calls::HostCall;

/// How much a log line matters. The guest chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// For the policy's author.
    #[component(name = "debug")]
    Debug,
    /// For the operator, on request.
    #[component(name = "info")]
    Info,
    /// For the operator.
    #[component(name = "warn")]
    Warn,
    /// For the operator, at once.
    #[component(name = "error")]
    Error,
}

/// A line that a policy wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The line, without control characters.
    pub message: String,
}

/// What a guest can reach: the data of its store.
pub(crate) struct Guest {
    limiter: Limiter,
    time: GuestTime,
    log: Vec<LogLine>,
    log_lines_left: u64,
    log_bytes_left: u64,
    log_dropped: u64,
    /// The last line at level `error`, also when the log was full: a panic says there what went wrong.
    last_error: Option<String>,
    pub(crate) host_calls: Option<Box<HostCalls>>,
}

impl Guest {
    pub(crate) fn new(limits: &Limits, host_calls: Option<Box<HostCalls>>) -> Guest {
        Guest {
            limiter: Limiter { memory_left: limits.memory_bytes, table_left: limits.table_elements },
            time: GuestTime::of(limits.time_ms),
            log: Vec::new(),
            log_lines_left: limits.log_lines,
            log_bytes_left: limits.log_bytes,
            log_dropped: 0,
            last_error: None,
            host_calls,
        }
    }

    /// Whether it has written a line.
    pub(crate) fn has_logged(&self) -> bool {
        !self.log.is_empty() || self.log_dropped > 0
    }

    /// What it runs from here on is no longer its own time, until it [goes on](go_on).
    pub(crate) fn pause(&mut self) {
        self.time.pause();
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        if level == LogLevel::Error {
            self.last_error = Some(without_controls(message, MAX_REASON_BYTES));
        }
        if self.log_lines_left == 0 || self.log_bytes_left == 0 {
            self.log_dropped += 1;
            return;
        }
        let message = without_controls(message, usize::try_from(self.log_bytes_left).unwrap_or(usize::MAX));
        self.log_lines_left -= 1;
        self.log_bytes_left -= (message.len() as u64).min(self.log_bytes_left);
        self.log.push(LogLine { level, message });
    }
}

/// Offers `windlass:policy/log`, which every policy may import, under the name of each version. It has been the same in
/// all of them so far.
pub(crate) fn link_log(linker: &mut Linker<Guest>, versions: &[&str]) -> wasmtime::Result<()> {
    for version in versions {
        linker.instance(&format!("windlass:policy/log@{version}"))?.func_wrap(
            "write",
            |mut store: StoreContextMut<'_, Guest>, (level, message): (LogLevel, String)| {
                store.data_mut().log(level, &message);
                Ok(())
            },
        )?;
    }
    Ok(())
}

/// Memory and tables, each counted over all that the component has. Growth beyond is a trap, so that the reason is on
/// record; a guest can't be expected to handle it.
struct Limiter {
    memory_left: u64,
    table_left: u64,
}

/// The limit that stopped a guest.
#[derive(Debug)]
struct LimitReached(FailureKind, &'static str);

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }
}

impl std::error::Error for LimitReached {}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _most: Option<usize>) -> wasmtime::Result<bool> {
        match self.memory_left.checked_sub(desired.saturating_sub(current) as u64) {
            Some(left) => self.memory_left = left,
            None => {
                return Err(LimitReached(FailureKind::MemoryLimit, "it needs more memory than `memory_bytes`").into());
            }
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _most: Option<usize>) -> wasmtime::Result<bool> {
        match self.table_left.checked_sub(desired.saturating_sub(current) as u64) {
            Some(left) => self.table_left = left,
            None => {
                return Err(LimitReached(
                    FailureKind::TableLimit,
                    "it needs more table elements than `table_elements`",
                )
                .into());
            }
        }
        Ok(true)
    }
}

/// A policy's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
}

impl Failure {
    /// The reason in one line, and cut: it may quote a guest, or what a capability was answered.
    pub(crate) fn new(kind: FailureKind, reason: impl AsRef<str>) -> Failure {
        Failure { kind, reason: one_line(reason.as_ref()).into() }
    }

    /// What the engine reports, and what the guest said of it before.
    pub(crate) fn of_guest(error: &wasmtime::Error, limits: &Limits, guest: &Guest) -> Failure {
        let failure = Failure::from_engine(error, limits);
        match &guest.last_error {
            Some(words) if failure.kind == FailureKind::Trap => {
                Failure::new(failure.kind, format!("{}: {words}", failure.reason))
            }
            _ => failure,
        }
    }

    /// Names what the engine reports. It has types for some of it and texts for the rest; the tests with hostile guests
    /// hold both to what is expected here.
    fn from_engine(error: &wasmtime::Error, limits: &Limits) -> Failure {
        for cause in error.chain() {
            if let Some(LimitReached(kind, reason)) = cause.downcast_ref() {
                return Failure::new(*kind, reason);
            }
            if let Some(failure) = cause.downcast_ref::<crate::host_calls::HostCallFailed>() {
                return Failure::new(FailureKind::HostCall, failure.to_string());
            }
            if cause.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
                return Failure::new(FailureKind::HostBusy, "the host has no room for another instance just now");
            }
            if let Some(trap) = cause.downcast_ref::<Trap>() {
                return match trap {
                    Trap::Interrupt => {
                        let reason = format!("it ran longer than `time_ms` allows ({} ms)", limits.time_ms);
                        Failure::new(FailureKind::TimeLimit, reason)
                    }
                    Trap::OutOfFuel => {
                        let fuel = limits.fuel.unwrap_or_default();
                        Failure::new(FailureKind::FuelLimit, format!("it needs more than its fuel of {fuel}"))
                    }
                    Trap::StackOverflow => Failure::new(FailureKind::StackLimit, "its stack overflowed"),
                    trap => Failure::new(FailureKind::Trap, trap.to_string()),
                };
            }
        }
        let text = format!("{:#}", error);
        if text.contains("fuel allocated for hostcalls") {
            let reason = format!("what it passed to the host is larger than `answer_bytes` ({})", limits.answer_bytes);
            return Failure::new(FailureKind::AnswerLimit, reason);
        }
        if text.contains("store handle limit") {
            return Failure::new(FailureKind::HandleLimit, format!("it holds more than {} handles", limits.handles));
        }
        Failure::new(FailureKind::MalformedAnswer, text)
    }
}

/// What a call used and did.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) duration: Duration,
    pub(crate) fuel: Option<u64>,
    pub(crate) memory_bytes: u64,
    pub(crate) log: Vec<LogLine>,
    pub(crate) log_dropped: u64,
    pub(crate) host_calls: Vec<HostCall>,
}

/// A store with all limits of the policy in force.
pub(crate) fn new_store(engine: &wasmtime::Engine, limits: &Limits, guest: Guest) -> Store<Guest> {
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.epoch_deadline_callback(|mut store| {
        Ok(store.data_mut().time.left().map_or(UpdateDeadline::Interrupt, |left| UpdateDeadline::Continue(ticks(left))))
    });
    go_on(&mut store);
    store.set_hostcall_fuel(usize::try_from(limits.answer_bytes).unwrap_or(usize::MAX));
    store.set_max_component_handles(usize::try_from(limits.handles).unwrap_or(usize::MAX));
    if let Some(fuel) = limits.fuel {
        // Fails only in an engine without fuel, and a policy with a fuel limit lives in the engine that has it.
        let _ = store.set_fuel(fuel);
    }
    store
}

/// Lets a guest run, in this thread, for as long as it has time left.
pub(crate) fn go_on(mut store: impl AsContextMut<Data = Guest>) {
    let mut store = store.as_context_mut();
    store.data_mut().time.go_on();
    store.set_epoch_deadline(1);
}

/// Gives a guest its whole time anew.
pub(crate) fn renew(store: &mut Store<Guest>, limits: &Limits) {
    store.data_mut().time = GuestTime::of(limits.time_ms);
    go_on(store);
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
    let mut store = new_store(policy.engine(), policy.limits(), Guest::new(policy.limits(), None));
    let answer = policy.instance_pre().instantiate(&mut store).and_then(|instance| match policy.adapter::<S>() {
        None => decide::<S>(policy, &mut store, &instance)?.call(&mut store, (question,)).map(|(answer,)| answer),
        Some(adapter) => (adapter.call)(&mut store, &instance, policy.decide_export(), question),
    });
    finish(policy, started, store, answer)
}

/// Asks a policy that may wait for a capability: on a stack of its own, so that the caller's thread is free meanwhile.
pub(crate) async fn ask_waiting<S: Slot>(
    policy: &LoadedPolicy,
    question: &S::Question,
    host_calls: HostCalls,
) -> (Result<S::Answer, Failure>, Trace) {
    let started = Instant::now();
    let guest = Guest::new(policy.limits(), Some(Box::new(host_calls)));
    let mut store = new_store(policy.engine(), policy.limits(), guest);
    let answer = match policy.instance_pre().instantiate_async(&mut store).await {
        Ok(instance) => match policy.adapter::<S>() {
            None => match decide::<S>(policy, &mut store, &instance) {
                Ok(function) => function.call_async(&mut store, (question,)).await.map(|(answer,)| answer),
                Err(error) => Err(error),
            },
            Some(adapter) => (adapter.call_waiting)(&mut store, &instance, policy.decide_export(), question).await,
        },
        Err(error) => Err(error),
    };
    finish(policy, started, store, answer)
}

fn finish<A>(
    policy: &LoadedPolicy,
    started: Instant,
    store: Store<Guest>,
    answer: wasmtime::Result<A>,
) -> (Result<A, Failure>, Trace) {
    let fuel = policy.limits().fuel.map(|given| given.saturating_sub(store.get_fuel().unwrap_or_default()));
    let guest = store.into_data();
    let answer = answer.map_err(|error| Failure::of_guest(&error, policy.limits(), &guest));
    let trace = Trace {
        duration: started.elapsed(),
        fuel,
        memory_bytes: policy.limits().memory_bytes.saturating_sub(guest.limiter.memory_left),
        log: guest.log,
        log_dropped: guest.log_dropped,
        host_calls: guest.host_calls.map(|calls| calls.into_records()).unwrap_or_default(),
    };
    (answer, trace)
}
