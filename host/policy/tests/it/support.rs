//! Hosts on temporary state folders.

use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::{Host, HostOptions};

/// A folder that goes with the test.
pub struct State {
    pub folder: tempfile::TempDir,
}

impl State {
    pub fn new() -> State {
        State { folder: tempfile::tempdir().unwrap() }
    }

    pub fn dir(&self) -> Dir {
        Dir::open_ambient_dir(self.folder.path(), ambient_authority()).unwrap()
    }

    pub fn options(&self) -> HostOptions {
        HostOptions::new(self.dir())
    }

    pub fn host(&self) -> Host {
        Host::new(self.options()).unwrap()
    }
}

/// Accepts every answer.
pub fn any<Q, A>(_: &Q, _: &A) -> Result<(), String> {
    Ok(())
}

/// Runs a future to its end on a runtime of its own.
pub fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// So that a component can be shared.
pub fn shared(bytes: &[u8]) -> Arc<[u8]> {
    bytes.into()
}
