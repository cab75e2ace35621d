//! The digests of policies' tags in a log that several hosts share.
//!
//! What one host locks holds for all; who locks a tag last decides. A host's own lock file says what a tag is locked to
//! where nobody has locked it in the log. Otherwise it follows the log, so that the host keeps its policies when it
//! leaves the log.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_distribution::{ContentDigest, LockFile, LockedTag, Reference, TagLock};

use crate::Error;
use crate::clock::Clock;
use crate::log::{Change, Condition, Log, Query, SharedLog, Target, Write};

/// Of the streams of tags, each of which has the tag's reference as its id.
const FAMILY: &str = "policy-tag";
/// More than any configuration names.
const MAX_TAGS: u32 = 10_000;

/// A tag that is locked in a shared log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedTag {
    pub tag: LockedTag,
    pub by: LockedBy,
}

/// Who locked a tag, and when.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LockedBy {
    /// The name of the machine.
    pub host: String,
    pub process: u32,
    /// In milliseconds since 1970.
    pub at: u64,
}

#[derive(Deserialize)]
struct Document {
    digest: String,
    #[serde(flatten)]
    by: LockedBy,
}

/// Where tags of policies are locked: in the log that hosts share, which this host's lock file follows, or else in that
/// file alone.
#[must_use]
pub fn tag_lock(shared: Option<Arc<dyn SharedLog>>, file: LockFile) -> Arc<dyn TagLock> {
    match shared {
        Some(shared) => Arc::new(SharedTags { shared, file }),
        None => Arc::new(file),
    }
}

/// The tags that are locked in a shared log.
///
/// # Errors
/// The log cannot be read, or has something else in their place.
pub fn shared_tags(shared: &dyn SharedLog) -> Result<Vec<SharedTag>, Error> {
    match opened(shared)? {
        Some(log) => read(&*log, Vec::new()),
        None => Ok(Vec::new()),
    }
}

/// The log for reading. `None` where there is none yet.
fn opened(shared: &dyn SharedLog) -> Result<Option<Arc<dyn Log>>, Error> {
    match shared.read_only() {
        Ok(log) => Ok(Some(log)),
        Err(Error::JournalAbsent { .. }) => Ok(None),
        // Policies are loaded before anything else, and so before the log of an older version is upgraded.
        Err(Error::JournalNewer { found, known, .. }) if found < known => shared.open().map(Some),
        Err(error) => Err(error),
    }
}

/// The tags in a log of which all of this holds.
pub(crate) fn read(log: &dyn Log, all: Vec<Condition>) -> Result<Vec<SharedTag>, Error> {
    let query = Query { families: &[FAMILY], all, limit: Some(MAX_TAGS), ..Query::default() };
    log.streams(&query)?.into_iter().map(|stream| shared_tag(&stream.id, stream.document)).collect()
}

fn shared_tag(id: &str, document: Value) -> Result<SharedTag, Error> {
    let unusable = |column: &str, problem: &dyn std::fmt::Display| Error::journal_row(FAMILY, id, column, problem);
    let document = serde_json::from_value::<Document>(document);
    let Document { digest, by } = document.map_err(|error| unusable("document", &error))?;
    let reference = id.parse::<Reference>().map_err(|error| unusable("id", &error))?;
    let digest = digest.parse::<ContentDigest>().map_err(|expected| unusable("digest", &expected))?;
    Ok(SharedTag { tag: LockedTag { reference, digest }, by })
}

/// Locks tags in a log, in the name of this host. False where one is locked that must be [new](Target::New); then none
/// is.
pub(crate) fn write(log: &dyn Log, host: &str, tags: &[LockedTag], target: Target) -> Result<bool, Error> {
    let at = Clock::System.now();
    let change = |tag: &LockedTag| {
        let digest = tag.digest.to_string();
        let document = json!({ "digest": digest, "host": host, "process": std::process::id(), "at": at });
        Change { write: Write::Put(document), ..Change::of(FAMILY, tag.reference.to_string(), target) }
    };
    let changes: Vec<Change> = tags.iter().map(change).collect();
    Ok(log.append_at_once(&changes)?.is_some())
}

/// Tags that are locked in a shared log.
struct SharedTags {
    shared: Arc<dyn SharedLog>,
    /// This host's own.
    file: LockFile,
}

impl SharedTags {
    fn found(
        &self,
        log: &dyn Log,
        reference: &Reference,
    ) -> Result<Option<ContentDigest>, windlass_distribution::Error> {
        let found = read(log, vec![Condition::is("id", reference.to_string())]).map_err(|error| self.failed(&error))?;
        Ok(found.first().map(|found| found.tag.digest))
    }

    fn failed(&self, error: &Error) -> windlass_distribution::Error {
        windlass_distribution::Error::Lock { place: self.shared.location().to_owned(), problem: error.to_string() }
    }

    /// Has this host's own file say the same, where it can be written.
    fn follow(&self, tag: &LockedTag) {
        if matches!(self.file.get(&tag.reference), Ok(Some(digest)) if digest == tag.digest) {
            return;
        }
        if let Err(error) = self.file.lock(std::slice::from_ref(tag)) {
            tracing::debug!(%error, "the lock file does not have what the database has");
        }
    }
}

impl TagLock for SharedTags {
    fn get(&self, reference: &Reference) -> Result<Option<ContentDigest>, windlass_distribution::Error> {
        let log = opened(&*self.shared).map_err(|error| self.failed(&error))?;
        let found = match log {
            Some(log) => self.found(&*log, reference)?,
            None => None,
        };
        let tag = |digest| LockedTag { reference: reference.clone(), digest };
        if let Some(digest) = found {
            self.follow(&tag(digest));
            return Ok(found);
        }
        self.file.get(reference)?.map(|digest| self.lock_first(&tag(digest))).transpose()
    }

    fn lock(&self, tags: &[LockedTag]) -> Result<(), windlass_distribution::Error> {
        let written = self.shared.open().and_then(|log| write(&*log, self.shared.host(), tags, Target::Any));
        written.map_err(|error| self.failed(&error))?;
        tags.iter().for_each(|tag| self.follow(tag));
        Ok(())
    }

    fn lock_first(&self, tag: &LockedTag) -> Result<ContentDigest, windlass_distribution::Error> {
        let log = self.shared.open().map_err(|error| self.failed(&error))?;
        let written = write(&*log, self.shared.host(), std::slice::from_ref(tag), Target::New);
        let digest = match written.map_err(|error| self.failed(&error))? {
            true => tag.digest,
            // Nobody unlocks a tag, so whoever was first is still there.
            false => self.found(&*log, &tag.reference)?.unwrap_or(tag.digest),
        };
        self.follow(&LockedTag { reference: tag.reference.clone(), digest });
        Ok(digest)
    }
}
