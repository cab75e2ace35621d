use std::io::Result;
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

/// Copies what a host has compiled into another state directory, which is made where it is missing: a test that starts
/// a program then spends no time on compiling. What the host remembers, the journal above all, is not copied.
///
/// # Errors
/// As those of `std::fs`.
pub fn lend_compiled(from: &Path, to: &Path) -> Result<()> {
    // As the host makes it: it refuses what others could read.
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(to.join(CACHE))?;
    for entry in std::fs::read_dir(from.join(CACHE))? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(CACHE).join(entry.file_name()))?;
    }
    std::fs::copy(from.join(KEY), to.join(KEY)).map(drop)
}
