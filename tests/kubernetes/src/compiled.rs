//! Compiled policies from one state folder for another: a hundred controllers start in a run, and each would compile
//! the same five for seconds. What they remember is the journal, which is never lent.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::Result;
use windlass_test_guests::{has_compiled, lend_compiled};

/// Puts what has been kept in `folder` into a state folder that is new.
pub(crate) fn lend(folder: &Path, state: &Path) -> Result<()> {
    let kept = folder.join("compiled");
    if kept.exists() && !has_compiled(state) {
        lend_compiled(&kept, state)?;
    }
    Ok(())
}

/// Keeps what the first controller that came to work has compiled.
pub(crate) fn keep(folder: &Path, state: &Path) -> Result<()> {
    let kept = folder.join("compiled");
    if kept.exists() || !has_compiled(state) {
        return Ok(());
    }
    let new = folder.join(format!("compiled-{}", uuid::Uuid::new_v4().simple()));
    lend_compiled(state, &new)?;
    match std::fs::rename(&new, &kept) {
        // Another came first.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            Ok(std::fs::remove_dir_all(&new)?)
        }
        renamed => Ok(renamed?),
    }
}
