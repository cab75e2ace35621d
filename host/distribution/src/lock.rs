//! The digest that each tag had when it was first used, in a lock file or elsewhere. A tag that is moved later changes
//! nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::digest::ContentDigest;
use crate::error::Error;
use crate::files::{read_bounded, write_atomically};
use crate::printable::printable;
use crate::reference::Reference;

/// The longest lock file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
const VERSION: u32 = 1;
/// How often, and after which pause, a writer tries while another one writes: five seconds together.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);
const HEADER: &str = "# The digest of each tag when it was first used. To have a tag looked up again, remove its entry and restart the\n\
     # program. For the command line, and with state in a database, run `windlass policy lock --update` instead.\n";

/// Where tags are locked. A tag that is locked by several processes at a time is locked to one digest for all of them.
pub trait TagLock: Send + Sync {
    /// The digest of a tag, where it is locked.
    ///
    /// # Errors
    /// What is locked can't be read.
    fn get(&self, reference: &Reference) -> Result<Option<ContentDigest>, Error>;

    /// Locks these tags, whatever they are locked to, besides those that are.
    ///
    /// # Errors
    /// What is locked can't be read or written.
    fn lock(&self, tags: &[LockedTag]) -> Result<(), Error>;

    /// Locks a tag unless it is locked already, by whomever, and returns the digest that it is locked to.
    ///
    /// # Errors
    /// What is locked can't be read or written.
    fn lock_first(&self, tag: &LockedTag) -> Result<ContentDigest, Error>;
}

/// A lock file, which need not be there yet.
#[derive(Clone, Debug)]
pub struct LockFile {
    path: PathBuf,
}

/// A tag and its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedTag {
    /// With a tag, and without a digest.
    pub reference: Reference,
    /// The digest of the manifest.
    pub digest: ContentDigest,
}

/// Held by the only writer. Unlocked, and not only closed: a child process that was started meanwhile may have it open.
struct Alone(File);

impl Drop for Alone {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    #[serde(default)]
    artifact: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    reference: String,
    digest: String,
}

impl LockFile {
    pub fn at(path: impl Into<PathBuf>) -> LockFile {
        LockFile { path: path.into() }
    }

    /// That of a service, in the state directory at this path.
    pub fn of_service(state: &Path) -> LockFile {
        LockFile::at(state.join("policies.lock"))
    }

    /// All tags that are locked.
    ///
    /// # Errors
    /// The file is there and can't be used.
    pub fn all(&self) -> Result<Vec<LockedTag>, Error> {
        let locked = self.read()?.into_iter();
        locked.map(|(reference, digest)| Ok(LockedTag { reference: reference.parse()?, digest })).collect()
    }

    /// Keeps other writers away until it is dropped. The file itself is replaced by each, so its folder is what is
    /// locked.
    fn alone(&self) -> Result<Alone, Error> {
        let folder = self.open().and_then(|(folder, _)| folder.open("."));
        let folder = folder.map_err(|error| self.unwritable(&error))?;
        for _ in 0..TRIES {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Alone(folder)),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
                Err(error) => return Err(self.unwritable(&error.into())),
            }
        }
        Err(self.problem("another process has been writing it for seconds"))
    }

    fn write(&self, locked: BTreeMap<String, ContentDigest>) -> Result<(), Error> {
        let artifact = locked.into_iter().map(|(reference, digest)| Entry { reference, digest: digest.to_string() });
        let document = Document { version: VERSION, artifact: artifact.collect() };
        let text = toml::to_string(&document).map_err(|error| self.problem(&error.to_string()))?;
        let (folder, name) = self.open().map_err(|error| self.unwritable(&error))?;
        write_atomically(&folder, &name, format!("{HEADER}{text}").as_bytes()).map_err(|error| self.unwritable(&error))
    }

    fn read(&self) -> Result<BTreeMap<String, ContentDigest>, Error> {
        let read = self.open().and_then(|(folder, name)| read_bounded(&folder, name, MAX_BYTES));
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(self.problem(&error.to_string())),
        };
        let text = String::from_utf8(bytes).map_err(|_| self.problem("it is not UTF-8 text"))?;
        let document: Document = toml::from_str(&text).map_err(|error| self.problem(&error.to_string()))?;
        if document.version != VERSION {
            return Err(
                self.problem(&format!("it is of version {}, and this program reads {VERSION}", document.version))
            );
        }
        let mut locked = BTreeMap::new();
        for entry in document.artifact {
            let reference: Reference =
                entry.reference.parse().map_err(|error: Error| self.problem(&error.to_string()))?;
            let digest = entry.digest.parse().map_err(|expected| self.problem(&format!("{reference}: {expected}")))?;
            if reference.tag().is_none() || reference.digest().is_some() {
                return Err(self.problem(&format!("{reference}: expected a reference with a tag and without a digest")));
            }
            if locked.insert(reference.to_string(), digest).is_some() {
                return Err(self.problem(&format!("{reference} stands there twice")));
            }
        }
        Ok(locked)
    }

    /// The folder, and the name in it: a symbolic link in its place leads nowhere outside of the folder.
    fn open(&self) -> std::io::Result<(Dir, String)> {
        let invalid = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "the path names no file");
        let name = self.path.file_name().and_then(|name| name.to_str()).ok_or_else(invalid)?.to_owned();
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(std::path::Path::new("."));
        Ok((Dir::open_ambient_dir(folder, ambient_authority())?, name))
    }

    fn unwritable(&self, error: &std::io::Error) -> Error {
        self.problem(&format!("it cannot be written ({error}); name the artifact by its digest instead of by a tag"))
    }

    fn problem(&self, problem: &str) -> Error {
        Error::Lock { place: self.path.display().to_string(), problem: printable(problem) }
    }
}

impl TagLock for LockFile {
    fn get(&self, reference: &Reference) -> Result<Option<ContentDigest>, Error> {
        Ok(self.read()?.remove(&reference.to_string()))
    }

    fn lock(&self, tags: &[LockedTag]) -> Result<(), Error> {
        let _alone = self.alone()?;
        let mut locked = self.read()?;
        locked.extend(tags.iter().map(|tag| (tag.reference.to_string(), tag.digest)));
        self.write(locked)
    }

    fn lock_first(&self, tag: &LockedTag) -> Result<ContentDigest, Error> {
        let _alone = self.alone()?;
        let mut locked = self.read()?;
        let reference = tag.reference.to_string();
        if let Some(digest) = locked.get(&reference) {
            return Ok(*digest);
        }
        locked.insert(reference, tag.digest);
        self.write(locked)?;
        Ok(tag.digest)
    }
}
