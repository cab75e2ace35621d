//! The folder that holds what must survive us: the journal, the owner's name, and the locks.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, File, OpenOptions, OpenOptionsExt};

use crate::Error;
use crate::clock::Randomness;
use crate::identifier::OwnerName;
use crate::journal::Journal;
use crate::log::SharedLog;

const OWNER_FILE: &str = "owner";
const RUNNERS: &str = "runners";
pub(crate) const JOURNAL_FILE: &str = "journal.sqlite";

/// The open state directory.
///
/// Everything inside is opened relative to this handle (cap-std), so a name cannot lead outside. One exception: SQLite
/// opens the journal by its path, since it must make its own files beside it; the path is resolved once, here, and
/// SQLite must refuse symbolic links.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    directory: Arc<Dir>,
    path: PathBuf,
    /// Where the journal and the owner's name are, if not here.
    shared: Option<Arc<dyn SharedLog>>,
}

impl StateDirectory {
    /// Opens the directory, and makes it (mode 0700) where it does not exist.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when it cannot be made, is no directory, or cannot be read;
    /// [`Error::StateDirectoryIsUrl`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        if let Some((before, _)) = path.to_string_lossy().split_once("://") {
            let scheme = before.rsplit('/').next().unwrap_or_default();
            return Err(Error::StateDirectoryIsUrl { scheme: scheme.to_owned() });
        }
        let failed = |source| Error::StateDirectory { path: path.to_owned(), source };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|error| match error.kind() {
            // Said of a file that stands there; the same words as where it stands above.
            io::ErrorKind::AlreadyExists => failed(io::ErrorKind::NotADirectory.into()),
            _ => failed(error),
        })?;
        let directory = Dir::open_ambient_dir(path, ambient_authority()).map_err(failed)?;
        let path = std::fs::canonicalize(path).map_err(failed)?;
        Ok(Self { directory: Arc::new(directory), path, shared: None })
    }

    /// The same, with the journal and the owner's name in a log that several hosts share. What each host has for
    /// itself, such as compiled policies and the decision log, stays in the directory.
    #[must_use]
    pub fn with_shared_log(self, log: Arc<dyn SharedLog>) -> Self {
        Self { shared: Some(log), ..self }
    }

    /// The state directory of this name below this one, with a journal and an owner's name of its own: in its folder,
    /// or in a part of this one's shared log.
    ///
    /// # Errors
    /// As [`StateDirectory::open`].
    pub fn below(&self, name: &str) -> Result<Self, Error> {
        let below = Self::open(&self.path.join(name))?;
        Ok(match &self.shared {
            Some(shared) => below.with_shared_log(shared.part(name)),
            None => below,
        })
    }

    /// Where the journal is, for messages: the directory, or the shared log's location.
    #[must_use]
    pub fn location(&self) -> PathBuf {
        self.shared.as_ref().map_or_else(|| self.path.clone(), |shared| PathBuf::from(shared.location()))
    }

    /// The log that several hosts share. `None`: the journal is in this directory.
    #[must_use]
    pub fn shared_log(&self) -> Option<&Arc<dyn SharedLog>> {
        self.shared.as_ref()
    }

    /// The handle, for others who keep files here (the policy host keeps its cache and its decision log here).
    #[must_use]
    pub fn handle(&self) -> &Dir {
        &self.directory
    }

    /// The resolved path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, name: &str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.join(name);
        move |source| Error::StateDirectory { path, source }
    }

    /// The owner's name in the file `owner`; none where no owner was made yet.
    ///
    /// # Errors
    /// As [`StateDirectory::owner`].
    pub fn stored_owner(&self) -> Result<Option<OwnerName>, Error> {
        if self.shared.is_some() {
            return match Journal::read_only(self) {
                Ok(journal) => journal.owner(),
                Err(Error::JournalAbsent { .. }) => Ok(None),
                Err(error) => Err(error),
            };
        }
        match self.directory.open(OWNER_FILE) {
            Ok(file) => {
                let mut text = String::new();
                file.take(256).read_to_string(&mut text).map_err(self.failed(OWNER_FILE))?;
                text.trim().parse().map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(OWNER_FILE)(error)),
        }
    }

    /// The owner's name: `configured`, else the one in the file `owner`, else a random one that is written there.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when the file cannot be read or written, [`Error::Name`] when it holds no name.
    pub fn owner(&self, configured: Option<OwnerName>) -> Result<OwnerName, Error> {
        if let Some(owner) = configured {
            return Ok(owner);
        }
        if let Some(shared) = &self.shared {
            return match self.stored_owner()? {
                Some(owner) => Ok(owner),
                None => Journal::of(shared.open()?).take_owner(&Randomness::new(None).with(OwnerName::random)),
            };
        }
        // Made under another name and linked, so that of two processes that start together one wins and nobody ever
        // reads half a name.
        for _ in 0..2 {
            if let Some(owner) = self.stored_owner()? {
                return Ok(owner);
            }
            let owner = Randomness::new(None).with(OwnerName::random);
            let temporary = format!("{OWNER_FILE}.{owner}");
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let made = (|| {
                let mut file = self.directory.open_with(&temporary, &options)?;
                writeln!(file, "{owner}")?;
                file.sync_all()?;
                match self.directory.hard_link(&temporary, &self.directory, OWNER_FILE) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                    _ => Ok(()),
                }
            })();
            let removed = self.directory.remove_file(&temporary);
            made.and(removed).map_err(self.failed(OWNER_FILE))?;
        }
        Err(self.failed(OWNER_FILE)(io::Error::other("it vanished while it was being written")))
    }

    /// Whether nothing was ever done with it: there is no journal.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        if self.shared.is_none() {
            return !self.directory.exists(JOURNAL_FILE);
        }
        match Journal::read_only(self) {
            // Tags of policies may have been locked there already.
            Ok(journal) => matches!((journal.owner(), journal.history()), (Ok(None), Ok(None))),
            Err(error) => matches!(error, Error::JournalAbsent { .. }),
        }
    }

    /// Whether it is a folder of something else: it has files, and no host has ever opened it.
    pub(crate) fn holds_other_files(&self) -> Result<bool, Error> {
        if self.shared.is_some() || self.directory.exists(RUNNERS) || !self.is_fresh() {
            return Ok(false);
        }
        Ok(self.directory.entries().map_err(self.failed("."))?.next().is_some())
    }

    /// From now on the owner's name is this one, where none is configured: for who takes over what a lost state
    /// directory knew.
    ///
    /// # Errors
    /// [`Error::StateDirectory`] when the directory is not [fresh](Self::is_fresh), since its journal is of another
    /// owner's resources, or when the file cannot be written.
    pub fn take_owner(&self, owner: &OwnerName) -> Result<(), Error> {
        if !self.is_fresh() {
            let problem = "the state directory has a journal of another owner's resources";
            return Err(self.failed(OWNER_FILE)(io::Error::other(problem)));
        }
        if let Some(shared) = &self.shared {
            return Journal::of(shared.open()?).take_owner(owner).map(drop);
        }
        let temporary = format!("{OWNER_FILE}.{owner}");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = (|| {
            let mut file = self.directory.open_with(&temporary, &options)?;
            writeln!(file, "{owner}")?;
            file.sync_all()?;
            self.directory.rename(&temporary, &self.directory, OWNER_FILE)
        })();
        written.map_err(self.failed(OWNER_FILE))
    }

    /// A mark that the process of this name lives: a file with an exclusive lock that the kernel releases when the
    /// process ends, however it ends.
    pub(crate) fn register_runner(&self, name: &str) -> Result<RunnerMark, Error> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        match self.directory.create_dir_with(RUNNERS, &builder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.failed(RUNNERS)(error));
            }
            _ => {}
        }
        self.sweep_runners();
        let path = format!("{RUNNERS}/{name}");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = self.directory.open_with(&path, &options).map_err(self.failed(&path))?.into_std();
        // Waits: somebody who asks whether we live holds the lock for an instant.
        file.lock().map_err(self.failed(&path))?;
        Ok(RunnerMark { path, _lock: FileLock(file), directory: Arc::clone(&self.directory) })
    }

    /// Whether the process behind a runner's name still lives.
    ///
    /// A missing file means that it does not: the file is made before the name is used and removed after. In a shared log
    /// that cannot be read, it may live.
    #[must_use]
    pub fn runner_lives(&self, name: &str) -> bool {
        if let Some(shared) = &self.shared {
            return shared.read_only().map_or(true, |log| log.lives(name));
        }
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return false;
        }
        match self.directory.open(format!("{RUNNERS}/{name}")) {
            Ok(file) => locked(file),
            Err(_) => false,
        }
    }

    /// How many processes have this directory open for work.
    #[must_use]
    pub fn living_runners(&self) -> usize {
        if let Some(shared) = &self.shared {
            return shared.hosts().map_or(0, |hosts| hosts.iter().filter(|host| host.lives).count());
        }
        let Ok(marks) = self.directory.read_dir(RUNNERS) else { return 0 };
        let names = marks.filter_map(|mark| mark.ok()?.file_name().into_string().ok());
        names.filter(|name| self.runner_lives(name)).count()
    }

    /// Removes the marks of processes that died.
    fn sweep_runners(&self) {
        let Ok(entries) = self.directory.read_dir(RUNNERS) else {
            return;
        };
        for entry in entries.flatten() {
            if let Ok(file) = entry.open()
                && !locked(file)
            {
                // Its owner is between making and locking it, or dead. The first lasts microseconds; a runner whose
                // mark was taken away in that window only loses the mark, and the recovery lock is still before it.
                if old_enough(&entry) {
                    let _ = entry.remove_file();
                }
            }
        }
    }

    /// Takes the lock of this name, which is that of a file, and which one process at a time holds. `None` where
    /// another one does.
    pub(crate) fn lock(&self, name: &str) -> Result<Option<FileLock>, Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = self.directory.open_with(name, &options).map_err(self.failed(name))?.into_std();
        match file.try_lock() {
            Ok(()) => Ok(Some(FileLock(file))),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(self.failed(name)(error)),
        }
    }
}

/// A file's lock, held until dropped (the kernel lets it go when the process ends, however it ends).
#[derive(Debug)]
pub(crate) struct FileLock(std::fs::File);

impl Drop for FileLock {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child process that is being started meanwhile has it open, too, until
        // it is under way.
        let _ = self.0.unlock();
    }
}

fn locked(file: File) -> bool {
    let file = FileLock(file.into_std());
    matches!(file.0.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

fn old_enough(entry: &cap_std::fs::DirEntry) -> bool {
    entry
        .metadata()
        .and_then(|data| data.modified())
        .ok()
        .and_then(|time| time.into_std().elapsed().ok())
        .is_some_and(|age| age.as_secs() >= 60)
}

/// This process's mark in the state directory.
#[derive(Debug)]
pub(crate) struct RunnerMark {
    path: String,
    _lock: FileLock,
    directory: Arc<Dir>,
}

impl Drop for RunnerMark {
    fn drop(&mut self) {
        let _ = self.directory.remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(&folder.path().join("deep/state")).unwrap();
        let first = state.owner(None).unwrap();
        let again = StateDirectory::open(state.path()).unwrap();
        assert_eq!(again.owner(None).unwrap(), first);
        let chosen: OwnerName = "team-a".parse().unwrap();
        assert_eq!(state.owner(Some(chosen.clone())).unwrap(), chosen);
        assert_eq!(again.owner(None).unwrap(), first, "a configured owner is not stored");
    }

    #[test]
    fn an_owner_is_taken_over_by_a_fresh_directory_only() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let made = state.owner(None).unwrap();
        let lost: OwnerName = "lost".parse().unwrap();
        state.take_owner(&lost).unwrap();
        assert_eq!(state.owner(None).unwrap(), lost);
        state.handle().write(JOURNAL_FILE, "").unwrap();
        assert!(state.take_owner(&made).is_err());
        assert_eq!(state.owner(None).unwrap(), lost);
    }

    #[test]
    fn an_owner_file_that_holds_no_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        state.handle().write(OWNER_FILE, "a,b").unwrap();
        let error = state.owner(None).unwrap_err().to_string();
        assert!(error.contains("a,b"), "{error}");
    }

    #[test]
    fn a_runner_lives_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let other = StateDirectory::open(folder.path()).unwrap();
        let runner = state.register_runner("1-abc").unwrap();
        assert!(other.runner_lives("1-abc"));
        drop(runner);
        assert!(!other.runner_lives("1-abc"));
        assert!(!other.runner_lives("../owner"));
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let held = state.lock("recovery.lock").unwrap().unwrap();
        assert!(state.lock("recovery.lock").unwrap().is_none());
        // What a child process has open between its fork and its exec.
        let copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(state.lock("recovery.lock").unwrap().is_some());
        drop(copy);
    }
}
