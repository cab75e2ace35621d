//! Ids of instances that must survive the process, one in each line of a file.

use std::collections::BTreeSet;
use std::io::Write as _;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use parking_lot::Mutex;

/// More than a group can hold.
const MAX_FILE_BYTES: usize = 1024 * 1024;

/// See the module.
pub(crate) struct Ids {
    directory: Dir,
    file: &'static str,
    ids: Mutex<BTreeSet<String>>,
}

impl Ids {
    /// Reads what is known. An unreadable file counts as empty, which the log says.
    pub(crate) fn open(directory: Dir, file: &'static str) -> Self {
        let ids = match directory.read_to_string(file) {
            Ok(text) if text.len() <= MAX_FILE_BYTES => text.lines().map(str::to_owned).collect(),
            Ok(_) => {
                tracing::warn!(file, "the list of instances is too long to be ours and is ignored");
                BTreeSet::new()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                tracing::warn!(file, %error, "the list of instances cannot be read and is ignored");
                BTreeSet::new()
            }
        };
        Self { directory, file, ids: Mutex::new(ids) }
    }

    /// Whether the instance is among them.
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.ids.lock().contains(id)
    }

    /// Puts instances among them.
    ///
    /// # Errors
    /// When that cannot be written; then they count for this process only.
    pub(crate) fn remember<'a>(&self, all: impl IntoIterator<Item = &'a str>) -> std::io::Result<()> {
        let mut ids = self.ids.lock();
        let before = ids.len();
        ids.extend(all.into_iter().map(str::to_owned));
        if ids.len() > before { self.write(&ids) } else { Ok(()) }
    }

    /// Takes an instance out.
    pub(crate) fn forget(&self, id: &str) {
        let mut ids = self.ids.lock();
        if ids.remove(id)
            && let Err(error) = self.write(&ids)
        {
            tracing::warn!(file = self.file, %error, "the list of instances cannot be written");
        }
    }

    fn write(&self, ids: &BTreeSet<String>) -> std::io::Result<()> {
        let temporary = format!("{}.new", self.file);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = self.directory.open_with(&temporary, &options)?;
        for id in ids {
            writeln!(file, "{id}")?;
        }
        file.sync_all()?;
        self.directory.rename(&temporary, &self.directory, self.file)
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn what_is_remembered_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Ids::open(Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap(), "suspended");
        let ids = open();
        ids.remember(["a", "b"]).unwrap();
        ids.forget("a");
        let after = open();
        assert!(!after.holds("a") && after.holds("b"));
    }
}
