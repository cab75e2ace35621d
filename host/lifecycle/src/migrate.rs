//! Moving a journal from one place to another.

use serde::Serialize;
use serde_json::Value;
use windlass_distribution::{LockFile, LockedTag, TagLock as _};

use crate::journal::Journal;
use crate::log::{Change, Condition, Durability, Log, Query, Target, Write};
use crate::state_directory::StateDirectory;
use crate::{Error, journal, shared_tags};

/// Streams, and entries, that are read and written together.
const BATCH: u32 = 200;

/// What a place says whose state was moved.
const MOVED: &str = "its state was moved to another place, by `state migrate`";

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// Operations, clusters, nodes and what else has a stream.
    pub streams: usize,
    /// Their entries.
    pub entries: usize,
    /// Tags of policies that are locked.
    pub tags: usize,
}

impl StateDirectory {
    /// Copies the journal, what is kept beside it in streams of `families`, the tags of policies that are locked, and
    /// the owner's name to another place, which has none. The history goes on there, and its old place refuses to be
    /// used from then on.
    ///
    /// Nothing else may use either place meanwhile. If it is interrupted, the old place stays in use, and the new one,
    /// which is not whole, refuses to be used.
    ///
    /// # Errors
    /// [`Error::Migration`] when the new place has a journal, or one of them is in use; the logs'.
    pub async fn migrate_to(&self, to: &Self, families: &'static [&'static str]) -> Result<Migrated, Error> {
        let refused = |problem: String| Error::Migration { problem };
        if let Some(evidence) = self.moved()? {
            return Err(refused(format!("{} cannot be relied on: {evidence}", self.location().display())));
        }
        let no_journal = || refused(format!("{} has no journal", self.location().display()));
        let owner = self.stored_owner()?.ok_or_else(no_journal)?;
        let history = self.history()?.ok_or_else(no_journal)?;
        if to.holds_other_files()? {
            let folder = to.location();
            return Err(refused(format!("{} holds other files; name an empty folder or a new one", folder.display())));
        }
        for (place, living) in [("the old place", self.living_runners()), ("the new place", to.living_runners())] {
            if living > 0 {
                return Err(refused(format!("{place} is in use by {living} other processes")));
            }
        }
        if !to.is_fresh() && !is_empty(&**Journal::read_only(to)?.log(), families)? {
            return Err(refused("the new place has a journal, or a part of one that was interrupted".to_owned()));
        }
        let source = Journal::read_only(self)?;
        // Before there is a journal: afterwards, a name is not taken any more.
        if to.is_fresh() {
            to.take_owner(&owner)?;
        }
        let target = Journal::open(to, Durability::Full)?;
        let mut migrated = copy(&**source.log(), &**target.log(), families).await?;
        migrated.tags = move_tags((self, &source), (to, &target))?;
        drop(source);
        // The last words: a place without a history, but with operations, is refused.
        to.continue_history(&target, &history)?;
        Journal::open(self, Durability::Full)?.note_set_back(MOVED)?;
        Ok(migrated)
    }

    /// Whether its state was [moved](StateDirectory::migrate_to) to another place.
    ///
    /// # Errors
    /// As [`StateDirectory::moved`].
    pub fn is_migrated(&self) -> Result<bool, Error> {
        Ok(self.moved()?.as_deref() == Some(MOVED))
    }
}

/// Tags are locked in a shared log, and else in the file of a service.
fn move_tags(from: (&StateDirectory, &Journal), to: (&StateDirectory, &Journal)) -> Result<usize, Error> {
    let file = |state: &StateDirectory| LockFile::of_service(state.path());
    let tags: Vec<LockedTag> = match from {
        (state, journal) if state.shared_log().is_some() => {
            shared_tags::read(&**journal.log(), Vec::new())?.into_iter().map(|shared| shared.tag).collect()
        }
        (state, _) => file(state).all()?,
    };
    match (to, to.0.shared_log()) {
        _ if tags.is_empty() => {}
        ((_, journal), Some(shared)) => {
            shared_tags::write(&**journal.log(), shared.host(), &tags, Target::Any)?;
        }
        ((state, _), None) => file(state).lock(&tags)?,
    }
    Ok(tags.len())
}

fn is_empty(log: &dyn Log, families: &'static [&'static str]) -> Result<bool, Error> {
    for family in families.iter().chain(journal::FAMILIES) {
        let found = Query { families: std::slice::from_ref(family), limit: Some(1), ..Query::default() };
        if !log.streams(&found)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn copy(from: &dyn Log, to: &dyn Log, families: &'static [&'static str]) -> Result<Migrated, Error> {
    let mut migrated = Migrated::default();
    for family in families.iter().chain(journal::FAMILIES) {
        let mut beyond: Option<String> = None;
        loop {
            let page = Query {
                families: std::slice::from_ref(family),
                limit: Some(BATCH),
                beyond: beyond.clone(),
                ..Query::default()
            };
            let streams = from.streams(&page)?;
            let Some(last) = streams.last() else { break };
            beyond = Some(last.id.clone());
            migrated.streams += streams.len();
            let change = |(id, document): (String, Value)| Change {
                takes: true,
                write: Write::Put(document),
                ..Change::of(family, id, Target::New)
            };
            append(to, streams.into_iter().map(|stream| change((stream.id, stream.document))).collect()).await?;
        }
        let mut after = 0;
        loop {
            let page = Query {
                families: std::slice::from_ref(family),
                all: vec![Condition::After(after)],
                limit: Some(BATCH),
                ..Query::default()
            };
            let entries = from.entries(&page)?;
            let Some(last) = entries.last() else { break };
            after = last.number;
            migrated.entries += entries.len();
            let change = |(id, document): (String, Value)| Change {
                entries: vec![document],
                ..Change::of(family, id, Target::Existing)
            };
            append(to, entries.into_iter().map(|entry| change((entry.id, entry.document))).collect()).await?;
        }
    }
    Ok(migrated)
}

async fn append(to: &dyn Log, changes: Vec<Change>) -> Result<(), Error> {
    match to.append(changes).await? {
        Some(_) => Ok(()),
        None => Err(Error::Migration { problem: "another process writes to the new place".to_owned() }),
    }
}
