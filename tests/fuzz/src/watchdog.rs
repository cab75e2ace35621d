//! Ends a search whose input takes too long, or too much memory, and keeps that input.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest that one input may take. A thousand times what the slowest of the corpora takes.
const SLOW: Duration = Duration::from_secs(30);
/// The most memory that the process may have.
const MEMORY_BYTES: u64 = 3 << 30;
const LOOKS: Duration = Duration::from_millis(200);

#[derive(Default)]
struct State {
    input: Vec<u8>,
    since: Option<Instant>,
    is_over: bool,
}

/// Looks after the inputs of one search, until it is dropped.
pub(crate) struct Watchdog {
    state: Arc<(Mutex<State>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchdog {
    pub(crate) fn start(findings: &Path) -> Self {
        let state = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let (watched, findings) = (state.clone(), findings.to_owned());
        let thread = std::thread::spawn(move || watch(&watched, &findings));
        Self { state, thread: Some(thread) }
    }

    pub(crate) fn begins(&self, input: &[u8]) {
        let mut state = locked(&self.state.0);
        state.input.clear();
        state.input.extend_from_slice(input);
        state.since = Some(Instant::now());
    }

    pub(crate) fn ended(&self) {
        locked(&self.state.0).since = None;
    }
}

fn watch(watched: &(Mutex<State>, Condvar), findings: &Path) {
    let mut state = locked(&watched.0);
    while !state.is_over {
        if let Some(since) = state.since {
            let problem = if since.elapsed() > SLOW {
                "takes too long"
            } else if memory().is_some_and(|bytes| bytes > MEMORY_BYTES) {
                "takes too much memory"
            } else {
                ""
            };
            if !problem.is_empty() {
                eprintln!("an input {problem}");
                crate::inputs::keep(findings, &state.input);
                // The thread that reads it cannot be stopped.
                std::process::exit(1);
            }
        }
        state = watched.1.wait_timeout(state, LOOKS).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// What the process has in memory now; nothing where the system does not tell.
fn memory() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        locked(&self.state.0).is_over = true;
        self.state.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
