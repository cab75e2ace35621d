//! Which branches an input takes, as LLVM's counters tell, where the crates were built with them (`rustc`).
#![allow(unsafe_code, reason = "LLVM's counters are memory between two addresses; nothing of this is shipped")]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// The counters of each part of the program. Before `main`, each part calls in.
static COUNTERS: Mutex<Vec<&'static [AtomicU8]>> = Mutex::new(Vec::new());

/// What LLVM's instrumentation calls: <https://clang.llvm.org/docs/SanitizerCoverage.html#inline-8bit-counters>.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(start: *const AtomicU8, stop: *const AtomicU8) {
    let length = stop.addr().saturating_sub(start.addr());
    let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    // Each object file names the counters of the whole program.
    if length == 0 || counters.iter().any(|known| std::ptr::eq(known.as_ptr(), start)) {
        return;
    }
    // SAFETY: LLVM lays the counters out between these addresses, one byte each, for as long as the program runs.
    // Whoever else writes them is instrumented code that counts; they are read and cleared as atomics, which have the
    // layout of bytes.
    counters.push(unsafe { std::slice::from_raw_parts(start, length) });
}

/// What has been reached so far.
pub(crate) struct Coverage {
    counters: Vec<&'static [AtomicU8]>,
    /// Of each counter: the orders of magnitude that it has had.
    seen: Vec<Vec<u8>>,
}

impl Coverage {
    pub(crate) fn of_process() -> Self {
        let counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seen = counters.iter().map(|part| vec![0; part.len()]).collect();
        Self { counters, seen }
    }

    /// To be called before an input is tried.
    pub(crate) fn reset(&self) {
        for counter in self.counters.iter().copied().flatten() {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the input took a branch that none has taken before, or more often by an order of magnitude.
    pub(crate) fn take_new(&mut self) -> bool {
        let mut is_new = false;
        for (part, seen) in self.counters.iter().zip(&mut self.seen) {
            for (counter, seen) in part.iter().zip(seen) {
                let count = counter.load(Ordering::Relaxed);
                if count != 0 && *seen & magnitude(count) == 0 {
                    *seen |= magnitude(count);
                    is_new = true;
                }
            }
        }
        is_new
    }

    /// How many branches have been taken.
    pub(crate) fn reached(&self) -> usize {
        self.seen.iter().flatten().filter(|seen| **seen != 0).count()
    }
}

/// One, two, three, some, many: a bit for each.
fn magnitude(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}
