//! Ids of instances that must survive the process. The journal keeps them, so that whoever has it has them.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use windlass_lifecycle::{Error, Journal};

/// See the module.
pub(crate) struct Ids {
    journal: Journal,
    name: &'static str,
    ids: Mutex<BTreeSet<String>>,
}

impl Ids {
    /// Reads what is known under this name.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn open(journal: &Journal, name: &'static str) -> Result<Self, Error> {
        Ok(Self { ids: Mutex::new(journal.list(name)?), journal: journal.clone(), name })
    }

    /// Whether the instance is among them.
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.ids.lock().contains(id)
    }

    /// Puts instances among them.
    ///
    /// # Errors
    /// When that cannot be written; then they count for this process only.
    pub(crate) fn remember<'a>(&self, all: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let mut ids = self.ids.lock();
        let before = ids.len();
        ids.extend(all.into_iter().map(str::to_owned));
        if ids.len() > before { self.journal.keep_list(self.name, &ids) } else { Ok(()) }
    }

    /// Takes an instance out.
    pub(crate) fn forget(&self, id: &str) {
        let mut ids = self.ids.lock();
        if ids.remove(id)
            && let Err(error) = self.journal.keep_list(self.name, &ids)
        {
            tracing::warn!(
                list = self.name,
                error = &error as &dyn std::error::Error,
                "a list of instances cannot be written"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_lifecycle::{Durability, StateDirectory};

    use super::*;

    #[test]
    fn what_is_remembered_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let journal = Journal::open(&StateDirectory::open(folder.path()).unwrap(), Durability::Process).unwrap();
            Ids::open(&journal, "suspended").unwrap()
        };
        let ids = open();
        ids.remember(["a", "b"]).unwrap();
        ids.forget("a");
        drop(ids);
        let after = open();
        assert!(!after.holds("a") && after.holds("b"));
    }
}
