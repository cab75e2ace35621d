//! Where a state directory's history takes place.
//!
//! A journal says what was done with this directory, and so what may be undone. In a copy it stops being true: what the
//! original does next, the copy does not know, and what the copy holds open may have ended well. So a file beside the
//! journal says which files the two are, by inode and time of birth, and which machine this is. A copy of the
//! directory, or a backup that was put in its place, has other files; a clone of the machine has another machine id.
//! The journal holds the history's id as well, so it is not taken for a new one where it was restored without that
//! file.
//!
//! A snapshot of a file system or machine that is rolled back, or started a second time, and a backup that is written
//! into the existing files keep all of this. What shows them is at Scaleway: each server carries the history's id, and
//! one whose operation the journal neither knows nor has forgotten was made with a later state of it. Before
//! anything is removed or taken over, its zone is looked at once, and the journal keeps what was found.
//!
//! # Limits
//! A directory that was set back is not noticed where no server was made after the state that it has now, where those
//! servers are gone, or where the zone cannot be listed. Then as ever, nothing that runs is undone which this journal
//! neither powered on nor cancelled.

use std::io::{self, Read, Write};
use std::time::{Duration, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass_scaleway::types::instance::ListServers;
use windlass_scaleway::{Client, Zone};

use crate::clock::Randomness;
use crate::identifier::{OwnerName, push_digits};
use crate::journal::Journal;
use crate::log::Durability;
use crate::shared::Shared;
use crate::state_directory::{JOURNAL_FILE, StateDirectory};
use crate::{Error, tags};

/// The file that names itself.
pub(crate) const FILE: &str = "history";
/// A file of this kind is shorter.
const MAX_BYTES: u64 = 4_096;
/// When a zone is looked at again that could not be listed.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A history and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Names the history. A copy that was taken over has another one than its original.
    pub id: String,
    /// Where it takes place.
    pub place: Place,
    /// When it was taken over from a copy or a restored backup, in milliseconds since 1970. What began before may have
    /// gone on elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_at: Option<u64>,
}

/// One file on one file system, however it is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    pub inode: u64,
    /// Its time of birth, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<u64>,
}

impl FileMark {
    /// A file system gives the inode of a file that is gone to another one, so the time of birth counts where both are
    /// known.
    fn is_same(&self, other: &Self) -> bool {
        self.inode == other.inode && !matches!((self.born, other.born), (Some(one), Some(other)) if one != other)
    }
}

/// A place. What a system does not tell is absent, and says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file that names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<FileMark>,
    /// The database that the journal is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<FileMark>,
    /// The machine's id (`/etc/machine-id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl Place {
    /// What shows that a history of this place is now at `here`: for people. `None` where nothing does.
    #[must_use]
    pub fn moved(&self, here: &Self) -> Option<String> {
        let differs = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        };
        let same = |one: &Option<FileMark>, other: &Option<FileMark>| match (one, other) {
            (Some(one), Some(other)) => one.is_same(other),
            _ => true,
        };
        if differs(&self.machine, &here.machine) {
            Some("it was last used on another machine".to_owned())
        } else if differs(&self.database, &here.database) || !same(&self.own, &here.own) {
            Some("it is a copy, or a backup that was restored".to_owned())
        } else if !same(&self.journal, &here.journal) {
            Some("its journal was replaced, as by a backup that was restored".to_owned())
        } else {
            None
        }
    }
}

impl History {
    /// A new one, in a database that several hosts share.
    fn in_database(place: String) -> Self {
        let place = Place { database: Some(place), ..Place::default() };
        Self { id: new_id(), place, taken_over_at: None }
    }
}

fn new_id() -> String {
    let mut id = String::new();
    push_digits(&mut id, Randomness::new(None).word(), 12);
    id
}

impl StateDirectory {
    /// The history of this directory. `None` where no process has opened it for writing yet.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when the file cannot be read or is none.
    pub fn history(&self) -> Result<Option<History>, Error> {
        self.read_history().map(|read| read.map(|(history, _)| history))
    }

    /// What shows that the history of this directory took place elsewhere: for people. `None`: it is this one's, as far
    /// as can be seen.
    ///
    /// # Errors
    /// As [`StateDirectory::history`].
    pub fn moved(&self) -> Result<Option<String>, Error> {
        match Journal::read_only(self) {
            Ok(journal) => self.moved_with(Some(&journal)),
            // It may show in the directory itself, whatever is wrong with the journal.
            Err(error) => match (self.moved_with(None)?, error) {
                (None, error) if !matches!(error, Error::JournalAbsent { .. }) => Err(error),
                (moved, _) => Ok(moved),
            },
        }
    }

    /// The same for who has the journal of this directory open. `None`: there is none.
    ///
    /// # Errors
    /// As [`StateDirectory::history`].
    pub fn moved_with(&self, journal: Option<&Journal>) -> Result<Option<String>, Error> {
        let moved = self.read_history()?.map(|(history, here)| (history.place.moved(&here), Some(history.id)));
        let (moved, history) = moved.unwrap_or_default();
        match journal {
            Some(journal) if moved.is_none() => shown_by_journal(journal, history.as_deref()),
            _ => Ok(moved),
        }
    }

    /// Looks in a zone whether the directory was set back to an earlier state: whether there is a server of this
    /// history whose operation the journal neither knows nor has forgotten. Gives what shows it, for people. Changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed; otherwise as [`StateDirectory::moved`].
    pub async fn set_back_in(&self, owner: &OwnerName, client: &Client, zone: &Zone) -> Result<Option<String>, Error> {
        let Some(history) = self.history()? else { return Ok(None) };
        match Journal::read_only(self) {
            Ok(journal) => of_a_later_state(&journal, &history.id, owner, client, zone).await,
            Err(Error::JournalAbsent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Says that the history of this directory goes on here, under another id, from `now` on (milliseconds since 1970):
    /// for a copy or a restored backup whose original is used no more.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when the file cannot be written; the journal's.
    pub fn take_history_over(&self, now: u64) -> Result<(), Error> {
        let journal = if self.is_fresh() { None } else { Some(Journal::open(self, Durability::FullInline)?) };
        if let Some(shared) = self.shared_log() {
            let history = History { taken_over_at: Some(now), ..History::in_database(shared.place()?) };
            return journal.map_or(Ok(()), |journal| journal.belong_to(&history, false));
        }
        let history = self
            .write_history(new_id(), Some(now), |directory, temporary| directory.rename(temporary, directory, FILE))?;
        journal.map_or(Ok(()), |journal| journal.belong_to(&history, false))
    }

    /// Begins the history, where none was begun. Gives it, and what shows that it took place elsewhere.
    pub(crate) fn begin_history(&self, journal: &Journal) -> Result<(History, Option<String>), Error> {
        if let Some(shared) = self.shared_log() {
            if journal.history()?.is_none() {
                journal.belong_to(&History::in_database(shared.place()?), true)?;
            }
        } else if !self.handle().exists(FILE) {
            // If two processes start at once, one wins.
            self.write_history(new_id(), None, |directory, temporary| {
                let linked = directory.hard_link(temporary, directory, FILE);
                directory.remove_file(temporary)?;
                linked.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
            })?;
        }
        let vanished = || self.history_failed(io::Error::other("it vanished while it was being written"));
        let (history, here) = self.read_history()?.ok_or_else(vanished)?;
        if journal.history()?.is_none() {
            journal.belong_to(&history, true)?;
        }
        let moved = match history.place.moved(&here) {
            None => shown_by_journal(journal, Some(&history.id))?,
            moved => moved,
        };
        Ok((history, moved))
    }

    /// Written under another name first, which keeps the inode: nobody ever reads half of it.
    fn write_history(
        &self,
        id: String,
        taken_over_at: Option<u64>,
        place: impl FnOnce(&Dir, &str) -> io::Result<()>,
    ) -> Result<History, Error> {
        let directory = self.handle();
        let temporary = format!("{FILE}.{id}");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = (|| {
            let mut file = directory.open_with(&temporary, &options)?;
            let history = History { id: id.clone(), place: self.place(&file)?, taken_over_at };
            writeln!(file, "{}", serde_json::to_string(&history)?)?;
            file.sync_all()?;
            place(directory, &temporary)?;
            Ok(history)
        })();
        written.map_err(|error| self.history_failed(error))
    }

    /// The history of another place goes on here: for who has copied its journal to this one.
    pub(crate) fn continue_history(&self, journal: &Journal, history: &History) -> Result<(), Error> {
        let history = match self.shared_log() {
            Some(shared) => {
                let here = History::in_database(shared.place()?);
                History { place: here.place, ..history.clone() }
            }
            None => {
                let (id, taken_over_at) = (history.id.clone(), history.taken_over_at);
                self.write_history(id, taken_over_at, |directory, temporary| {
                    directory.rename(temporary, directory, FILE)
                })?
            }
        };
        journal.belong_to(&history, false)
    }

    fn read_history(&self) -> Result<Option<(History, Place)>, Error> {
        if let Some(shared) = self.shared_log() {
            let history = match Journal::read_only(self) {
                Ok(journal) => journal.history_with_place()?,
                Err(Error::JournalAbsent { .. }) => None,
                Err(error) => return Err(error),
            };
            let Some(history) = history else { return Ok(None) };
            return Ok(Some((history, Place { database: Some(shared.place()?), ..Place::default() })));
        }
        let file = match self.handle().open(FILE) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.history_failed(error)),
        };
        let here = self.place(&file).map_err(|error| self.history_failed(error))?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| self.history_failed(error))?;
        let history = serde_json::from_str(&text).map_err(|error| self.history_failed(error.into()))?;
        Ok(Some((history, here)))
    }

    fn place(&self, own: &cap_std::fs::File) -> io::Result<Place> {
        // Not opened: to close it would release the locks of this process's other connections.
        let journal = match self.handle().metadata(JOURNAL_FILE) {
            Ok(metadata) => Some(mark(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Place { own: Some(mark(&own.metadata()?)), journal, machine: machine(), ..Place::default() })
    }

    fn history_failed(&self, source: io::Error) -> Error {
        Error::StateDirectory { path: self.path().join(FILE), source }
    }
}

impl Shared {
    /// See [`Lifecycle::began_elsewhere`](crate::Lifecycle::began_elsewhere).
    pub(crate) fn began_elsewhere(&self, began_at: u64) -> bool {
        self.history.taken_over_at.is_some_and(|taken_over_at| began_at < taken_over_at)
    }

    /// Looks in these zones whether the state directory was set back: see [`StateDirectory::set_back_in`]. A zone is
    /// looked at until it has shown nothing.
    ///
    /// A zone that cannot be listed holds nothing up.
    pub(crate) async fn check_not_set_back(&self, zones: impl Iterator<Item = &Zone>) -> Result<(), Error> {
        self.check_history()?;
        let mut looked_at = self.not_set_back.lock().await;
        for zone in zones {
            match looked_at.get(zone) {
                Some(None) => continue,
                Some(Some(failed_at)) if failed_at.elapsed() < LOOK_AGAIN => continue,
                _ => {}
            }
            let failed_at =
                match of_a_later_state(&self.journal, &self.history.id, &self.owner, &self.client, zone).await {
                    Ok(None) => None,
                    Ok(Some(evidence)) => {
                        self.journal.note_set_back(&evidence)?;
                        *self.moved.lock() = Some(evidence);
                        break;
                    }
                    Err(error @ Error::Scaleway { .. }) => {
                        tracing::warn!(%zone, %error, "cannot check whether the state directory was set back");
                        Some(Instant::now())
                    }
                    Err(error) => return Err(error),
                };
            looked_at.insert(zone.clone(), failed_at);
        }
        self.check_history()
    }
}

/// What shows that this history has a later state than this journal: a server in the zone whose operation the journal
/// neither knows nor has forgotten.
async fn of_a_later_state(
    journal: &Journal,
    history: &str,
    owner: &OwnerName,
    client: &Client,
    zone: &Zone,
) -> Result<Option<String>, Error> {
    let wanted = vec![tags::owner_tag(owner), tags::history_tag(history)];
    let request = ListServers { tags: wanted.clone(), ..ListServers::default() };
    let listed = client.instance(zone).list_servers(&request).await;
    let listed = listed.map_err(|error| Error::scaleway("looking for servers of a later state", error))?;
    for server in listed.into_iter().filter(|server| server.has_all_tags(&wanted)) {
        if let Some(operation) = tags::operation_of(&server.tags)
            && matches!(journal.operation(&operation), Err(Error::OperationUnknown { .. }))
            // Read last: the operation may have been forgotten since the listing.
            && operation.made_at() > journal.forgotten_until()?
        {
            return Ok(Some(format!(
                "it was set back to an earlier state, or its machine runs twice: server {} of zone {zone} was made \
                 with it by operation {operation}, which its journal does not know",
                server.id
            )));
        }
    }
    Ok(None)
}

/// What the journal shows: that the directory was set back, as was seen before, or that the journal belongs to another
/// history.
fn shown_by_journal(journal: &Journal, history: Option<&str>) -> Result<Option<String>, Error> {
    match journal.set_back()? {
        None => other_history(journal, history),
        found => Ok(found),
    }
}

/// What shows that a journal belongs to another history than this one: for people.
fn other_history(journal: &Journal, history: Option<&str>) -> Result<Option<String>, Error> {
    let of_journal = journal.history()?;
    let is_new = of_journal.is_none() && journal.counts()?.is_empty();
    Ok((!is_new && of_journal.as_deref() != history).then(|| {
        format!(
            "its journal belongs to another history than its file {FILE}: it was restored or copied without that \
             file, or the file was removed"
        )
    }))
}

fn mark(metadata: &Metadata) -> FileMark {
    let born = metadata.created().ok().and_then(|born| born.into_std().duration_since(UNIX_EPOCH).ok());
    FileMark { inode: metadata.ino(), born: born.and_then(|born| u64::try_from(born.as_nanos()).ok()) }
}

/// The machine's id. A container has none, as a rule, so a volume may move from one to another.
fn machine() -> Option<String> {
    let folder = Dir::open_ambient_dir("/etc", ambient_authority()).ok()?;
    let mut text = String::new();
    folder.open("machine-id").ok()?.take(64).read_to_string(&mut text).ok()?;
    let id = text.trim();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(path: &std::path::Path) -> StateDirectory {
        StateDirectory::open(path).unwrap()
    }

    fn begin(path: &std::path::Path) {
        let state = state(path);
        let journal = Journal::open(&state, Durability::Process).unwrap();
        state.begin_history(&journal).unwrap();
    }

    /// As `cp -a` and a restore do.
    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).unwrap();
        std::fs::copy(from.join(FILE), to.join(FILE)).unwrap();
    }

    #[test]
    fn a_history_stays_in_its_place_from_one_process_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(folder.path()).history().unwrap(), None);
        begin(folder.path());
        let first = state(folder.path()).history().unwrap();
        assert!(first.is_some());
        begin(folder.path());
        assert_eq!(state(folder.path()).history().unwrap(), first);
        assert_eq!(state(folder.path()).moved().unwrap(), None);
        // A directory that is moved on its file system is the same one.
        let moved = folder.path().with_extension("moved");
        std::fs::rename(folder.path(), &moved).unwrap();
        assert_eq!(state(&moved).moved().unwrap(), None);
        std::fs::rename(&moved, folder.path()).unwrap();
    }

    #[test]
    fn a_copy_and_a_restored_backup_are_noticed_until_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (original, backup) = (folder.path().join("original"), folder.path().join("backup"));
        begin(&original);
        let first = state(&original).history().unwrap().unwrap();
        copy(&original, &backup);
        assert!(state(&backup).moved().unwrap().is_some());
        std::fs::remove_dir_all(&original).unwrap();
        copy(&backup, &original);
        begin(&original);
        assert!(state(&original).moved().unwrap().is_some());
        state(&original).take_history_over(0).unwrap();
        assert_ne!(state(&original).history().unwrap().unwrap().id, first.id);
        assert_eq!(state(&original).moved().unwrap(), None);
        assert!(state(&backup).moved().unwrap().is_some());
    }

    #[test]
    fn a_journal_that_was_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join(JOURNAL_FILE);
        begin(folder.path());
        assert_eq!(state(folder.path()).moved().unwrap(), None);
        // As rsync does.
        let new = folder.path().join("new");
        std::fs::copy(&journal, &new).unwrap();
        std::fs::rename(&new, &journal).unwrap();
        assert!(state(folder.path()).moved().unwrap().unwrap().contains("its journal was replaced"));
    }

    #[test]
    fn a_journal_without_its_file_of_the_history_is_noticed_until_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (original, restored) = (folder.path().join("original"), folder.path().join("restored"));
        begin(&original);
        std::fs::create_dir_all(&restored).unwrap();
        std::fs::copy(original.join(JOURNAL_FILE), restored.join(JOURNAL_FILE)).unwrap();
        std::fs::remove_file(original.join(FILE)).unwrap();
        for path in [&original, &restored] {
            assert!(state(path).moved().unwrap().is_some());
            begin(path);
            assert!(state(path).moved().unwrap().unwrap().contains("another history"));
            state(path).take_history_over(0).unwrap();
            assert_eq!(state(path).moved().unwrap(), None);
            begin(path);
            assert_eq!(state(path).moved().unwrap(), None);
        }
    }

    #[test]
    fn what_a_system_does_not_tell_is_no_evidence() {
        let file = |inode, born| FileMark { inode, born };
        let own = |inode, born| Some(file(inode, born));
        let full = Place { own: own(1, Some(5)), journal: own(2, Some(5)), machine: Some("a".into()), database: None };
        let bare = Place { own: own(1, None), ..Place::default() };
        assert_eq!((full.moved(&bare), bare.moved(&full)), (None, None));
        let elsewhere = Place { machine: Some("b".into()), ..full.clone() };
        assert!(full.moved(&elsewhere).unwrap().contains("another machine"));
        assert!(full.moved(&Place { own: own(1, Some(6)), ..full.clone() }).is_some());
        assert!(bare.moved(&Place { own: own(2, None), ..bare.clone() }).is_some());
    }
}
