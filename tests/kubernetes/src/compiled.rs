//! Compiled policies from one state folder for another: a hundred controllers start in a run, and each would compile
//! the same five for seconds. What they remember is the journal, which is never lent.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::LazyLock;

use anyhow::Result;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::{self, MutexGuard};
use windlass_test_guests::{has_compiled, lend_compiled, return_compiled};

use crate::process::remove_at_the_end;

/// The folder of this process, with the guard that removes it, and whether something is kept in it.
static KEPT: LazyLock<Mutex<Option<Kept>>> = LazyLock::new(Mutex::default);

struct Kept {
    folder: PathBuf,
    _remover: Child,
}

impl Kept {
    fn new() -> Result<Self> {
        let folder = TempDir::with_prefix("windlass-compiled-")?.keep();
        Ok(Self { _remover: remove_at_the_end(&folder)?, folder })
    }
}

/// Whoever is to compile for all others, one at a time, until something is kept.
pub(crate) async fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: sync::Mutex<()> = sync::Mutex::const_new(());
    let is_kept = || KEPT.lock().is_some();
    if is_kept() {
        return None;
    }
    let turn = TURN.lock().await;
    (!is_kept()).then_some(turn)
}

/// Puts what has been kept into a state folder that is new.
pub(crate) fn lend(state: &Path) -> Result<()> {
    match KEPT.lock().as_ref() {
        Some(kept) if !has_compiled(state) => Ok(lend_compiled(&kept.folder, state)?),
        _ => Ok(()),
    }
}

/// Keeps what a controller has compiled.
pub(crate) fn keep(state: &Path) -> Result<()> {
    if !has_compiled(state) {
        return Ok(());
    }
    let mut kept = KEPT.lock();
    match kept.as_ref() {
        Some(kept) => Ok(return_compiled(state, &kept.folder)?),
        None => {
            let new = Kept::new()?;
            lend_compiled(state, &new.folder)?;
            *kept = Some(new);
            Ok(())
        }
    }
}
