//! What each listing of servers asks of the journal. It is remembered for as long as the log knows what changed, which
//! it does in simulated time: there, a group is listed tens of thousands of times a day.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use parking_lot::MutexGuard;

use super::note::KEPT;
use super::{Condition, Journal, OperationState, Phase, ResourceKind, step_is};
use crate::Error;
use crate::identifier::OperationId;
use crate::log::Changed;

/// Creations and servers that are remembered at most.
const MAX_REMEMBERED: usize = 100_000;

/// The creation of a server, as far as listings ask.
#[derive(Debug)]
pub(crate) struct Creation {
    /// The servers that its outcomes name.
    pub(crate) made: Vec<String>,
    /// `None`: this journal has no such operation, or cannot read it.
    pub(crate) standing: Option<OperationStatus>,
    is_stale: bool,
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationStatus {
    pub(crate) state: OperationState,
    pub(crate) is_left_alone: bool,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    mark: Option<u64>,
    /// Every entry up to this number is taken into account.
    last_entry: u64,
    /// By the id of the operation.
    creations: HashMap<String, Creation>,
    /// By the id of the server.
    kept: HashMap<String, bool>,
}

/// The journal's answers, all of one moment unless it is written meanwhile.
pub(crate) struct Facts<'j> {
    journal: &'j Journal,
    remembered: MutexGuard<'j, Remembered>,
}

impl Journal {
    /// Answers for one listing.
    pub(crate) fn facts(&self) -> Result<Facts<'_>, Error> {
        let mut remembered = self.remembered.lock();
        let (mark, changed) = self.log.changed_since(remembered.mark.take());
        match changed {
            Changed::Streams { written, appended }
                if remembered.creations.len() + remembered.kept.len() <= MAX_REMEMBERED =>
            {
                self.take_in(&mut remembered, &written, &appended)?;
            }
            _ => {
                *remembered = Remembered { last_entry: self.last_entry()?, ..Remembered::default() };
            }
        }
        remembered.mark = Some(mark);
        Ok(Facts { journal: self, remembered })
    }

    /// Brings what is remembered up to date with these streams, which were written, or appended to.
    fn take_in(
        &self,
        remembered: &mut Remembered,
        written: &BTreeSet<String>,
        appended: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if written.is_empty() && appended.is_empty() {
            return Ok(());
        }
        // Before those up to it are read, so that none that is written meanwhile counts as read.
        let last_entry = self.last_entry()?;
        let mut made = step_is("create-server", Phase::Outcome);
        made.push(Condition::is("resource.kind", ResourceKind::Server.as_str()));
        let either = Condition::Any(vec![Condition::All(made), Condition::All(step_is(KEPT, Phase::Note))]);
        for entry in self.found(vec![Condition::After(remembered.last_entry), either], false)? {
            let Some(resource) = entry.document.pointer("/resource/id").and_then(|id| id.as_str()) else { continue };
            if entry.document["step"] == KEPT {
                remembered.kept.insert(resource.to_owned(), true);
            } else if let Some(creation) = remembered.creations.get_mut(&entry.id)
                && !creation.made.iter().any(|made| made == resource)
            {
                creation.made.push(resource.to_owned());
            }
        }
        remembered.last_entry = last_entry;
        // Entries change nothing of where an operation stands.
        for id in written {
            if let Some(creation) = remembered.creations.get_mut(id) {
                creation.is_stale = true;
            }
        }
        Ok(())
    }

    /// The number of the last entry of any operation.
    fn last_entry(&self) -> Result<u64, Error> {
        Ok(self.found(Vec::new(), true)?.first().map_or(0, |entry| entry.number))
    }

    fn standing(&self, id: &OperationId) -> Option<OperationStatus> {
        let operation = self.operation(id).ok()?;
        Some(OperationStatus { state: operation.state, is_left_alone: operation.is_left_alone() })
    }
}

impl Facts<'_> {
    /// What the journal says of this operation.
    pub(crate) fn creation(&mut self, id: &OperationId) -> Result<&Creation, Error> {
        let creation = match self.remembered.creations.entry(id.to_string()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let made = self.journal.servers_made(id)?;
                entry.insert(Creation { made, standing: None, is_stale: true })
            }
        };
        if creation.is_stale {
            (creation.standing, creation.is_stale) = (self.journal.standing(id), false);
        }
        Ok(creation)
    }

    /// Whether an operation has kept this server on purpose.
    pub(crate) fn is_kept(&mut self, server: &str) -> Result<bool, Error> {
        if let Some(kept) = self.remembered.kept.get(server) {
            return Ok(*kept);
        }
        let is_kept = self.journal.is_kept(server)?;
        self.remembered.kept.insert(server.to_owned(), is_kept);
        Ok(is_kept)
    }
}
