use std::io::{ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The compiled policies, and the key by which a host knows them for its own (host/policy's cache).
const CACHE: &str = "cache";
const KEY: &str = "cache.key";

/// Whether a host that worked in this state directory has compiled something.
#[must_use]
pub fn has_compiled(state: &Path) -> bool {
    state.join(KEY).exists()
}

/// A cache folder for all hosts of all tests, so that each policy is compiled once. It is made where it is missing.
///
/// # Errors
/// As those of `std::fs`.
pub fn cache_dir() -> Result<&'static Path> {
    let folder = Path::new(concat!(env!("OUT_DIR"), "/compiled"));
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    Ok(folder)
}

/// Gives another state directory, which is made where it is missing, what a host has compiled: a test that starts a
/// program then spends no time on compiling. What the host remembers, the journal above all, is not given.
///
/// # Errors
/// As those of `std::fs`.
pub fn lend_compiled(from: &Path, to: &Path) -> Result<()> {
    // As the host makes it: it refuses what others could read.
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(to.join(CACHE))?;
    give_entries(from, to)?;
    std::fs::copy(from.join(KEY), to.join(KEY)).map(drop)
}

/// Gives what was compiled in a state directory back to the one that lent to it, so that no test compiles it again.
///
/// # Errors
/// As those of `std::fs`.
pub fn return_compiled(from: &Path, to: &Path) -> Result<()> {
    // What was signed with another key is of no use there.
    if std::fs::read(from.join(KEY)).ok() == std::fs::read(to.join(KEY)).ok() { give_entries(from, to) } else { Ok(()) }
}

/// An entry is the same file in both: a host replaces one by renaming, and never writes into it.
fn give_entries(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from.join(CACHE))? {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        let there = to.join(CACHE).join(name);
        if path.extension().is_some_and(|extension| extension == "cwasm") && !there.exists() {
            match std::fs::hard_link(&path, &there) {
                Err(error) if error.kind() == ErrorKind::CrossesDevices => drop(std::fs::copy(&path, &there)?),
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
