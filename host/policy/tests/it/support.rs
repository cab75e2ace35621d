//! Hosts on temporary state folders.

use std::sync::LazyLock;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::slots::SlotName;
use windlass_policy::{Compiler, Host, HostOptions, Link};

/// A folder that goes with the test.
pub(crate) struct State {
    pub(crate) folder: tempfile::TempDir,
}

/// The built-in defaults and what reads rules, compiled once for all tests.
static WARM: LazyLock<State> = LazyLock::new(|| {
    let state = State::cold();
    let rules = b"slot = 'retry'\n[[rules]]\nwhen = 'true'\nanswer = 'give-up'\n".to_vec();
    state.host().load(SlotName::Retry, &Link::contents("warm.rules.toml".as_ref(), rules)).unwrap();
    state
});

impl State {
    /// A state folder whose cache has the built-in defaults already, so that a test doesn't spend its time compiling.
    pub(crate) fn new() -> State {
        let state = State::cold();
        windlass_test_guests::lend_compiled(WARM.folder.path(), state.folder.path()).unwrap();
        state
    }

    /// An empty state folder.
    pub(crate) fn cold() -> State {
        State { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn dir(&self) -> Dir {
        Dir::open_ambient_dir(self.folder.path(), ambient_authority()).unwrap()
    }

    pub(crate) fn options(&self) -> HostOptions {
        let mut options = HostOptions::new(self.dir());
        options.compiler = Some(Compiler::this_process());
        options
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(self.options()).unwrap()
    }
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Waits for a thread of the host to notice: for far more looks than it takes, also on a busy machine.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never came to this: {what}");
}
