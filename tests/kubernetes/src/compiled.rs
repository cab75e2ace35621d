//! Compiled policies from one state folder for another: a hundred controllers start in a run, and each would compile the same five for
//! seconds. What they remember is the journal, which is never lent.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;

/// The compiled policies, and the key by which a host knows them for its own.
const CACHE: &str = "cache";
const KEY: &str = "cache.key";

/// Puts what has been kept in `folder` into a state folder that is new.
pub(crate) fn lend(folder: &Path, state: &Path) -> Result<()> {
    let kept = folder.join("compiled");
    if kept.exists() && !state.join(KEY).exists() {
        copy(&kept, state)?;
    }
    Ok(())
}

/// Keeps what the first controller that came to work has compiled.
pub(crate) fn keep(folder: &Path, state: &Path) -> Result<()> {
    let kept = folder.join("compiled");
    if kept.exists() || !state.join(KEY).exists() {
        return Ok(());
    }
    let new = folder.join(format!("compiled-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&new)?;
    copy(state, &new)?;
    match std::fs::rename(&new, &kept) {
        // Another came first.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
            Ok(std::fs::remove_dir_all(&new)?)
        }
        renamed => Ok(renamed?),
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.join(CACHE))?;
    // As the host makes it: it refuses what others could read.
    std::fs::set_permissions(to.join(CACHE), PermissionsExt::from_mode(0o700))?;
    for entry in std::fs::read_dir(from.join(CACHE))? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(CACHE).join(entry.file_name()))?;
    }
    std::fs::copy(from.join(KEY), to.join(KEY))?;
    Ok(())
}
