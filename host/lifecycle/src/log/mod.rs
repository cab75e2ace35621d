//! The log: what hosts write down before and after they act.
//!
//! A log holds streams. A stream is a document with the entries that belong to it, in the order of writing: an operation
//! and its steps, a cluster, a node. The fields of documents are their writers'; a log only compares and sets them.
//! [`Journal`](crate::Journal) and the store of clusters are made of it, so each place where a log can be kept is one
//! implementation of [`Log`].

mod sqlite;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

pub use sqlite::{Durability, SqliteLog};

use crate::Error;

/// The longest document, in bytes, when writing and when reading.
pub const MAX_DOCUMENT_LEN: usize = 4 * 1024 * 1024;

/// The right to write to a stream. It changes when another process takes the stream, so whoever was overtaken can write
/// no more. Never given twice in the life of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fence(pub u64);

/// Keeps streams.
///
/// # Guarantees that an implementation must give
/// - *All or nothing*: what one call writes is there whole or not at all, also after a crash, and it is there when the
///   call returns.
/// - *Conditions hold at the moment of writing*, whatever other processes write meanwhile.
/// - *A read is of one moment.* What it returns is untrusted, and bounded.
///
/// A read blocks the thread, whose other tasks go on elsewhere where the runtime has several threads.
#[async_trait]
pub trait Log: fmt::Debug + Send + Sync {
    /// Writes these changes in their order. Gives the fence of the streams that were taken, and `None` where a condition
    /// of one change does not hold: then nothing is written.
    async fn append(&self, changes: Vec<Change>) -> Result<Option<Fence>, Error>;

    /// The same on the caller's thread, for what comes before every other write.
    fn append_at_once(&self, changes: &[Change]) -> Result<Option<Fence>, Error>;

    /// The streams that match.
    fn streams(&self, query: &Query) -> Result<Vec<Stream>, Error>;

    /// How many streams match.
    fn count(&self, query: &Query) -> Result<u64, Error>;

    /// How many streams match, of each combination of these values.
    fn tally(&self, query: &Query, by: &[Key]) -> Result<Vec<Tally>, Error>;

    /// The entries that match, of any stream.
    fn entries(&self, query: &Query) -> Result<Vec<LogEntry>, Error>;

    /// Removes the streams that match, with their entries. Gives how many.
    async fn forget(&self, query: Query) -> Result<usize, Error>;

    /// Says that this process lives, under a name that no other one has.
    fn register(&self, name: &str) -> Result<Lease, Error>;

    /// Whether the process behind a name lives.
    fn lives(&self, name: &str) -> bool;

    /// Takes a lock that one process at a time holds. `None` where another one does.
    fn lock(&self, name: &str) -> Result<Option<Lease>, Error>;

    /// Whether another process took this one for dead, so that it can write nothing more.
    fn is_overtaken(&self) -> bool {
        false
    }

    /// Which streams changed since a mark that an earlier call gave, and the mark of now. [`Changed::Unknown`] where any
    /// may have: a log need not notice what others write.
    fn changed_since(&self, _: Option<u64>) -> (u64, Changed) {
        (0, Changed::Unknown)
    }

    /// Whether it shows what it held when it was opened, since nothing can be written where it is, and is to be opened
    /// again for each look.
    fn is_snapshot(&self) -> bool;
}

/// What changed in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The streams with these ids, and no others.
    Streams {
        /// Those that were made, set, taken or removed.
        written: BTreeSet<String>,
        /// Those that got entries and stayed as they were otherwise.
        appended: BTreeSet<String>,
    },
    Unknown,
}

/// Where several hosts keep a log that they share, such as a database.
pub trait SharedLog: fmt::Debug + Send + Sync {
    /// The location, for messages: without a secret.
    fn location(&self) -> &str;

    /// The name of this machine, for the others to see.
    fn host(&self) -> &str;

    /// Opens the log for writing, and makes it where there is none.
    ///
    /// # Errors
    /// [`Error::JournalNewer`] when a newer version wrote it (it is left untouched), [`Error::JournalOpen`] when it
    /// cannot be opened.
    fn open(&self) -> Result<Arc<dyn Log>, Error>;

    /// Opens the log for reading only: nothing is made or changed.
    ///
    /// # Errors
    /// [`Error::JournalAbsent`] where there is none; otherwise as [`SharedLog::open`].
    fn read_only(&self) -> Result<Arc<dyn Log>, Error>;

    /// A part of it under this name, which has no colon: its log sees nothing of other parts, and they see nothing of
    /// it.
    fn part(&self, name: &str) -> Arc<dyn SharedLog>;

    /// Names the place of the log: a copy of it, or a backup that was restored elsewhere, has another one.
    ///
    /// # Errors
    /// [`Error::JournalOpen`] when it cannot be reached.
    fn place(&self) -> Result<String, Error>;

    /// The processes that have it open for writing.
    ///
    /// # Errors
    /// [`Error::JournalOpen`] when it cannot be reached.
    fn hosts(&self) -> Result<Vec<SharingHost>, Error>;

    /// The process that holds a [lock](Log::lock).
    ///
    /// # Errors
    /// [`Error::JournalOpen`] when it cannot be reached.
    fn holder(&self, lock: &str) -> Result<Option<SharingHost>, Error>;

    /// What a [downgrade](SharedLog::downgrade) to this version would do. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Downgrade`] when its tables have an older version, [`Error::JournalAbsent`] where there are none;
    /// otherwise as [`SharedLog::open`].
    fn plan_downgrade(&self, to: u32) -> Result<Downgrade, Error>;

    /// Takes its tables back to an older version, whole or not at all, so that an older program can open it. Whoever
    /// opens it with this program upgrades it again.
    ///
    /// # Errors
    /// [`Error::Downgrade`] when a process lives that has it open for writing, when its tables changed since it was
    /// planned, or when the database refuses.
    fn downgrade(&self, planned: &Downgrade) -> Result<(), Error>;
}

/// A way back to an older version of a shared log's tables.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Downgrade {
    /// The version that they have.
    pub from: u32,
    /// The version to go back to. 0: no tables.
    pub to: u32,
    /// What is removed for good, in words for people.
    pub loses: Vec<String>,
}

/// A process that has a shared log open for writing.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SharingHost {
    /// The name of its machine.
    pub host: String,
    pub process: u32,
    /// When it last said that it lives, in milliseconds since 1970.
    pub renewed_at: u64,
    /// Whether it said so lately.
    pub lives: bool,
}

/// After so long without a renewal, a process that shares a log with other hosts may be taken for dead.
pub const LEASE: Duration = Duration::from_secs(30);

/// Held until it is dropped, or its process ends, however it ends.
pub type Lease = Box<dyn fmt::Debug + Send + Sync>;

/// A stream without its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    pub family: String,
    /// Unique in its family.
    pub id: String,
    pub fence: Fence,
    pub document: Value,
}

/// An entry of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The stream's.
    pub id: String,
    /// Grows from entry to entry, over all streams.
    pub number: u64,
    pub document: Value,
}

/// What one write does to one stream.
#[derive(Clone, Debug)]
pub struct Change {
    pub family: &'static str,
    pub id: String,
    pub target: Target,
    /// What must hold of the stream, where it exists.
    pub given: Vec<Condition>,
    /// The fence that it must have, where it exists.
    pub fence: Option<Fence>,
    /// No stream may match this.
    pub unless: Option<Query>,
    /// Whether it gets a new fence.
    pub takes: bool,
    pub write: Write,
    /// Entries to append.
    pub entries: Vec<Value>,
}

/// Whether the stream of a change exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It must not, and is made.
    New,
    /// It must.
    Existing,
    /// Where it does not, the change does nothing.
    IfExisting,
    /// Where it does not, it is made.
    Any,
}

/// What becomes of a stream's document.
#[derive(Clone, Debug)]
pub enum Write {
    /// These fields change, each as a whole.
    Set(Map<String, Value>),
    /// It is replaced.
    Put(Value),
    /// The stream and its entries are removed.
    Remove,
}

impl Change {
    /// One that changes nothing yet.
    #[must_use]
    pub fn of(family: &'static str, id: impl Into<String>, target: Target) -> Self {
        Self {
            family,
            id: id.into(),
            target,
            given: Vec::new(),
            fence: None,
            unless: None,
            takes: false,
            write: Write::Set(Map::new()),
            entries: Vec::new(),
        }
    }

    /// The same, and it sets these fields.
    #[must_use]
    pub fn set<const N: usize>(self, fields: [(&str, Value); N]) -> Self {
        let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value));
        Self { write: Write::Set(fields.collect()), ..self }
    }

    /// Whether it leaves the stream itself as it is, and appends entries at most.
    fn appends_only(&self) -> bool {
        let sets_nothing = matches!(&self.write, Write::Set(fields) if fields.is_empty());
        sets_nothing && !self.takes && matches!(self.target, Target::Existing | Target::IfExisting)
    }
}

/// Which streams, or which entries.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Those of these families.
    pub families: &'static [&'static str],
    /// All of this holds.
    pub all: Vec<Condition>,
    /// The field that orders them; those of one value, and all where it is absent, in the order of writing.
    pub by: Option<&'static str>,
    /// Whether the last come first.
    pub newest_first: bool,
    /// Only those that come after the stream of this id, in the order of the query. It is of the first family.
    pub beyond: Option<String>,
    /// So many at most.
    pub limit: Option<u32>,
}

/// What streams are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The value of this field: a text, a number, null where it is absent, and else its JSON as a text.
    Field(&'static str),
    /// The number in this field, divided by this one and rounded down.
    Span(&'static str, u64),
}

/// Streams that are alike, counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    /// In the order of the keys.
    pub values: Vec<Value>,
    pub count: u64,
}

/// What holds of a stream, or of an entry. A field is named by its path in the document (`resource.id`), and `id` is the
/// stream's. Nothing holds of a field that is absent.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The field is this text, number or truth.
    Is(&'static str, Value),
    /// The field is one of these texts.
    In(&'static str, Vec<String>),
    /// The field is there.
    Known(&'static str),
    /// The field is a number below this.
    Below(&'static str, u64),
    /// The field is this number or a higher one.
    From(&'static str, u64),
    /// The id begins so.
    Under(String),
    /// The entry has a higher number.
    After(u64),
    /// The stream has an entry of which all of this holds.
    Has(Vec<Condition>),
    Not(Box<Condition>),
    Any(Vec<Condition>),
    All(Vec<Condition>),
}

impl Condition {
    /// [`Condition::Is`].
    pub fn is(field: &'static str, value: impl Into<Value>) -> Self {
        Self::Is(field, value.into())
    }

    /// [`Condition::In`].
    pub fn one_of<T: ToString>(field: &'static str, values: &[T]) -> Self {
        Self::In(field, values.iter().map(ToString::to_string).collect())
    }

    /// The opposite.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "it is written after what it negates")]
    pub fn not(self) -> Self {
        Self::Not(Box::new(self))
    }
}
