//! Ids of instances that must survive the process. They are in the journal, so they move with it.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use windlass_lifecycle::{Error, Journal};

/// See the module.
pub(crate) struct Ids {
    journal: Journal,
    name: &'static str,
    ids: Mutex<BTreeSet<String>>,
    /// Held while the list is written, so that nobody waits for the journal who only asks.
    writing: Mutex<()>,
}

impl Ids {
    /// Reads what is known under this name.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn open(journal: &Journal, name: &'static str) -> Result<Self, Error> {
        let ids = Mutex::new(journal.list(name)?);
        Ok(Self { journal: journal.clone(), name, ids, writing: Mutex::default() })
    }

    /// Whether the instance is among them.
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.ids.lock().contains(id)
    }

    /// Puts instances among them.
    ///
    /// # Errors
    /// When that cannot be written; then they are not among them.
    pub(crate) fn remember<'a>(&self, all: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let _turn = self.writing.lock();
        let mut ids = self.ids.lock().clone();
        let before = ids.len();
        ids.extend(all.into_iter().map(str::to_owned));
        if ids.len() > before {
            self.journal.keep_list(self.name, &ids)?;
            *self.ids.lock() = ids;
        }
        Ok(())
    }

    /// Takes an instance out.
    pub(crate) fn forget(&self, id: &str) {
        let _turn = self.writing.lock();
        let mut ids = self.ids.lock().clone();
        if !ids.remove(id) {
            return;
        }
        if let Err(error) = self.journal.keep_list(self.name, &ids) {
            tracing::warn!(
                list = self.name,
                error = &error as &dyn std::error::Error,
                "a list of instances cannot be written"
            );
        }
        *self.ids.lock() = ids;
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
