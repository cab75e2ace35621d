//! A guest while it runs: what it can reach, its limits, and the failure that comes of reaching one.

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Linker};
use wasmtime::{
    AsContextMut, PoolConcurrencyLimitError, ResourceLimiter, Store, StoreContextMut, Trap, UpdateDeadline,
};

use crate::engine::ticks;
use crate::failure_kind::FailureKind;
use crate::guest_time::GuestTime;
use crate::host_calls::{HostCallFailed, HostCalls};
use crate::limits::Limits;
use crate::slots::CONTRACT_VERSION;
use crate::text::{MAX_REASON_BYTES, one_line, without_controls};

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
    pub(crate) log: Vec<LogLine>,
    log_lines_left: u64,
    log_bytes_left: u64,
    pub(crate) log_dropped: u64,
    /// The last line at level `error`, also when the log was full: a panic says there what went wrong.
    last_error: Option<String>,
    pub(crate) host_calls: Option<Box<HostCalls>>,
}

impl Guest {
    /// What happens to it at a tick: it is stopped, goes on, or leaves the thread to others first.
    fn at_deadline(&mut self) -> UpdateDeadline {
        let was_measured = self.time.is_measured();
        let Some(left) = self.time.left() else { return UpdateDeadline::Interrupt };
        // What asks in the middle of a task holds a thread of the runtime, which others need as well.
        match &self.host_calls {
            Some(calls) if calls.are_live() && was_measured => {
                self.time.leave_thread();
                UpdateDeadline::Yield(1)
            }
            // At its second tick it has been measured, and can leave the thread.
            Some(calls) if calls.are_live() => UpdateDeadline::Continue(1),
            _ => UpdateDeadline::Continue(ticks(left)),
        }
    }

    /// One that began then.
    pub(crate) fn new(began: Instant, limits: &Limits, host_calls: Option<Box<HostCalls>>) -> Guest {
        Guest {
            limiter: Limiter { memory_left: limits.memory_bytes, table_left: limits.table_elements },
            time: GuestTime::since(began, limits.time_ms),
            log: Vec::new(),
            log_lines_left: limits.log_lines,
            log_bytes_left: limits.log_bytes,
            log_dropped: 0,
            last_error: None,
            host_calls,
        }
    }

    /// What is left of `memory_bytes`.
    pub(crate) fn memory_left(&self) -> u64 {
        self.limiter.memory_left
    }

    /// Ends its time, and returns how long it has run.
    pub(crate) fn computed(&mut self, limits: &Limits) -> Duration {
        self.time.end(Duration::from_millis(limits.time_ms))
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

/// Offers `windlass:policy/log`, which every policy may import.
pub(crate) fn link_log(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.instance(&format!("windlass:policy/log@{CONTRACT_VERSION}"))?.func_wrap(
        "write",
        |mut store: StoreContextMut<'_, Guest>, (level, message): (LogLevel, String)| {
            store.data_mut().log(level, &message);
            Ok(())
        },
    )
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

    /// The same of somebody's rules: the words of their evaluator name the rule, and how it ended is no matter of theirs.
    pub(crate) fn of_rules(error: &wasmtime::Error, limits: &Limits, guest: &Guest) -> Failure {
        let failure = Failure::from_engine(error, limits);
        match &guest.last_error {
            Some(words) if failure.kind == FailureKind::Trap => Failure::new(FailureKind::RuleFailed, words),
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
            if let Some(failure) = cause.downcast_ref::<HostCallFailed>() {
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

/// A store with all limits of the policy in force, for a guest that begins now.
pub(crate) fn new_store(engine: &wasmtime::Engine, limits: &Limits, guest: Guest) -> Store<Guest> {
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.limiter);
    store.epoch_deadline_callback(|mut store| Ok(store.data_mut().at_deadline()));
    store.set_epoch_deadline(1);
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
