//! The durable record of operations: intent before effect, outcome after.
//!
//! Each operation is a stream of the [log](crate::Log), each entry of it one of the stream. What is read back is
//! untrusted: bounded, checked, and an error names the row.

mod course;
mod facts;
pub(crate) mod note;
pub(crate) mod progress;
mod record;
mod removals;
mod removed;
pub(crate) mod step;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_scaleway::Zone;

pub use course::{Course, OperationCount};
pub(crate) use facts::Facts;
use facts::Remembered;
use note::{ABANDONED, CANCELLED, KEPT, TAKEN_UP};
pub(crate) use record::Closing;
pub use record::{Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName};
use removals::RememberedRemovals;
pub(crate) use removals::Removals;
pub use removed::RemovedMachine;

use crate::Error;
use crate::clock::Randomness;
use crate::history::History;
use crate::identifier::{OperationId, OwnerName, push_digits};
use crate::log::{Change, Condition, Durability, Fence, Lease, Log, LogEntry, Query, SqliteLog, Stream, Target, Write};
use crate::state_directory::StateDirectory;

const OPERATIONS: &[&str] = &[OPERATION];
/// The families of streams that move with the journal.
pub(crate) const FAMILIES: &[&str] = &[OPERATION, LIST];
const OPERATION: &str = "operation";
/// Ids that are kept beside the operations.
const LIST: &str = "list";
/// The one stream that says which history the log is of.
const HISTORY: &str = "history";
/// The stream of the owner's name, in a log that hosts share.
const OWNER: &str = "owner";
/// Entries of one operation at most. A create with a hundred retries writes a few hundred.
const ENTRIES: u32 = 100_000;
/// Operations that one transaction of a prune removes at most: a tenth of a second, measured with 15 entries each.
const PRUNED_AT_ONCE: u32 = 1_000;
/// Between two of them. SQLite gives the lock to whoever asks in time, and waiting processes ask every 100 ms.
const PRUNE_PAUSE: Duration = Duration::from_millis(150);

/// The open journal. Clones share it.
#[derive(Clone, Debug)]
pub struct Journal {
    log: Arc<dyn Log>,
    /// The name of this machine, in a log that hosts share.
    host: Option<Arc<str>>,
    /// The operations that this process has opened or taken over, and not closed.
    held: Arc<Mutex<HashMap<OperationId, Fence>>>,
    remembered: Arc<Mutex<Remembered>>,
    remembered_removals: Arc<Mutex<RememberedRemovals>>,
}

/// This process, as the operations that it runs name it. It lives until this is dropped.
#[derive(Debug)]
pub(crate) struct Runner {
    name: String,
    _lease: Lease,
}

impl Runner {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Conditions of an entry with this step and phase.
fn step_is(step: &str, phase: Phase) -> Vec<Condition> {
    vec![Condition::is("step", step), Condition::is("phase", phase.as_str())]
}

fn unfinished() -> Condition {
    Condition::one_of("state", &OperationState::UNFINISHED)
}

fn operations_where(all: Vec<Condition>) -> Query {
    Query { families: OPERATIONS, all, newest_first: true, ..Query::default() }
}

impl OperationFilter {
    fn query(&self) -> Query {
        let mut all = Vec::new();
        if !self.states.is_empty() {
            all.push(Condition::one_of("state", &self.states));
        }
        all.extend(self.kind.map(|kind| Condition::is("kind", kind.as_str())));
        all.extend(self.group.as_deref().map(|group| Condition::is("group", group)));
        all.extend(self.host.as_deref().map(|host| Condition::is("host", host)));
        all.extend(self.tenant.as_deref().map(|tenant| {
            let asks = Condition::is("specification.requested_by.namespace", tenant);
            Condition::Any(vec![asks, Condition::is("specification.requested_by.object.namespace", tenant)])
        }));
        all.extend(self.since.map(|since| Condition::Any(vec![Condition::From("updated_at", since), unfinished()])));
        all.extend(self.not_ended.then(|| Condition::Known("ended_by").not()));
        let beyond = self.before.as_ref().map(ToString::to_string);
        Query { by: Some("created_at"), beyond, limit: self.limit, ..operations_where(all) }
    }
}

fn bounded(value: &Value, what: &'static str) -> Result<Value, Error> {
    let bytes = value.to_string().len();
    if bytes > record::MAX_JSON_LEN {
        return Err(Error::JournalTooLong { what, bytes, limit: record::MAX_JSON_LEN });
    }
    Ok(value.clone())
}

fn written(value: &impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(value).map_err(|error| Error::JournalWrite { problem: error.to_string() })
}

fn read_operation(stream: Stream) -> Result<Operation, Error> {
    let mut document = stream.document;
    if let Some(fields) = document.as_object_mut() {
        fields.insert("id".to_owned(), Value::from(stream.id.as_str()));
    }
    serde_json::from_value(document).map_err(|error| Error::journal_row("operations", stream.id, "document", error))
}

/// Those of one operation: each knows its place among them.
fn read_entries(found: Vec<LogEntry>) -> Result<Vec<Entry>, Error> {
    let read = |(sequence, LogEntry { id, document, .. })| {
        let read = serde_json::from_value(document).map(|entry| Entry { sequence, ..entry });
        read.map_err(|error| Error::journal_row("entries", format!("{id}/{sequence}"), "document", error))
    };
    (1..).zip(found).map(read).collect()
}

fn opening(new: &Operation) -> Result<Change, Error> {
    let unless = match new.kind {
        // In the transaction that opens it: another process may be about to do the same.
        OperationKind::CleanupServer => open_cleanup(&new.specification),
        _ => None,
    };
    bounded(&new.specification, "specification")?;
    bounded(&new.policies, "policies")?;
    let write = Write::Put(written(new)?);
    Ok(Change { unless, takes: true, write, ..Change::of(OPERATION, new.id.as_str(), Target::New) })
}

/// The open cleanups of the creation or of the server that this row of a cleanup names. `None`: it names nothing.
fn open_cleanup(specification: &Value) -> Option<Query> {
    let word = |key: &str| specification.get(key).and_then(Value::as_str);
    let mut same = Vec::new();
    if let Some(creation) = word("creation").or_else(|| word("tagged")) {
        same.push(Condition::is("specification.creation", creation));
        same.push(Condition::is("specification.tagged", creation));
    }
    same.extend(word("server").map(|server| Condition::is("specification.server", server)));
    let open = Condition::is("state", OperationState::Open.as_str());
    let kind = Condition::is("kind", OperationKind::CleanupServer.as_str());
    (!same.is_empty()).then(|| operations_where(vec![open, kind, Condition::Any(same)]))
}

fn noted(id: &OperationId, entry: &Entry) -> Result<Change, Error> {
    bounded(&entry.data, "entry")?;
    let Entry { sequence: _, step, phase, resource, data, at } = entry;
    let document = json!({ "step": step, "phase": phase, "resource": resource, "data": data, "at": at });
    Ok(Change { entries: vec![document], ..Change::of(OPERATION, id.as_str(), Target::Existing) })
}

fn closed(closing: &Closing) -> Result<Vec<Change>, Error> {
    let optional = |value: &Option<Value>, what| value.as_ref().map_or(Ok(Value::Null), |value| bounded(value, what));
    let mut change = Change::of(OPERATION, closing.operation.as_str(), Target::Existing).set([
        ("state", json!(closing.state)),
        ("cause", optional(&closing.cause, "cause")?),
        ("reasons", bounded(&json!(closing.reasons), "reasons")?),
        ("report", optional(&closing.report, "report")?),
        ("updated_at", json!(closing.at)),
        ("ended_at", json!(closing.at)),
        ("look_at", json!(closing.look_at)),
    ]);
    // A cancellation before this moment was confirmed: the operation must be undone.
    if closing.state == OperationState::Done {
        change.given.push(Condition::Has(step_is(CANCELLED, Phase::Note)).not());
    }
    let ended = closing.ends.iter().map(|ended| {
        let fields = [("ended_by", json!(closing.operation)), ("updated_at", json!(closing.at))];
        Change::of(OPERATION, ended.as_str(), Target::IfExisting).set(fields)
    });
    Ok(std::iter::once(change).chain(ended).collect())
}

/// Which operations ended before this time and explain nothing that may still exist: the oldest, so many at most.
///
/// Spared are an operation that made or claimed a machine, until another one has removed or released that machine, and
/// an operation that kept a resource on purpose: only the journal knows that a Mac was ordered, and whose a server is.
fn prunable(before: u64, most: u32) -> Query {
    let makers: Vec<_> = OperationKind::ALL.iter().filter(|kind| kind.acquires()).collect();
    let ended = || Condition::Known("ended_by");
    let explains_nothing = Condition::Any(vec![
        Condition::is("state", OperationState::Undone.as_str()),
        Condition::All(vec![Condition::one_of("state", &[OperationState::Abandoned, OperationState::Kept]), ended()]),
        Condition::All(vec![
            Condition::is("state", OperationState::Done.as_str()),
            Condition::Any(vec![Condition::one_of("kind", &makers).not(), ended()]),
        ]),
    ]);
    let kept = Condition::Has(step_is(KEPT, Phase::Note));
    let all = vec![
        Condition::Below("created_at", before),
        Condition::Below("updated_at", before),
        explains_nothing,
        kept.not(),
    ];
    Query { families: OPERATIONS, all, by: Some("created_at"), limit: Some(most), ..Query::default() }
}

impl Journal {
    /// Opens the journal for writing, and makes it where there is none.
    ///
    /// # Errors
    /// [`Error::JournalNewer`] when a newer version wrote it (it is left untouched), [`Error::JournalOpen`] when it is
    /// no journal or cannot be opened.
    pub fn open(state: &StateDirectory, durability: Durability) -> Result<Self, Error> {
        let (log, host) = match state.shared_log() {
            Some(shared) => (shared.open()?, Some(Arc::<str>::from(shared.host()))),
            None => (Arc::new(SqliteLog::open(state, durability)?) as Arc<dyn Log>, None),
        };
        Ok(Self { host, ..Self::of(log) })
    }

    /// Opens the journal for reading only: for `operation list`, while others write. Also on a disk that is full or
    /// read-only ([`Log::is_snapshot`]).
    ///
    /// # Errors
    /// [`Error::JournalAbsent`] where there is none, or an empty file; otherwise as [`Journal::open`].
    pub fn read_only(state: &StateDirectory) -> Result<Self, Error> {
        Ok(Self::of(match state.shared_log() {
            Some(shared) => shared.read_only()?,
            None => Arc::new(SqliteLog::read_only(state)?),
        }))
    }

    pub(crate) fn of(log: Arc<dyn Log>) -> Self {
        Self { log, host: None, held: Arc::default(), remembered: Arc::default(), remembered_removals: Arc::default() }
    }

    /// The name of this machine, where hosts share the log and it is open for writing.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Its log, for who keeps streams of their own in it: what belongs together is backed up and restored together.
    #[must_use]
    pub fn log(&self) -> &Arc<dyn Log> {
        &self.log
    }

    /// Says that this process lives.
    pub(crate) fn register(&self, randomness: &Randomness) -> Result<Runner, Error> {
        let mut name = format!("{}-", std::process::id());
        // Not from the seeded words: two processes with one seed must not share a name.
        push_digits(&mut name, Randomness::new(None).word() ^ randomness.word(), 10);
        Ok(Runner { _lease: self.log.register(&name)?, name })
    }

    /// Whether the process behind a runner's name still lives.
    #[must_use]
    pub fn runner_lives(&self, runner: &str) -> bool {
        self.log.lives(runner)
    }

    /// The owner's name, where it is kept in the log.
    pub(crate) fn owner(&self) -> Result<Option<OwnerName>, Error> {
        let found = self.log.streams(&Query { families: &[OWNER], ..Query::default() })?;
        let name = found.first().and_then(|stream| stream.document.get("name")).and_then(Value::as_str);
        name.map(str::parse).transpose()
    }

    /// From now on this is the owner's name, where there is none yet. Gives the one that counts.
    pub(crate) fn take_owner(&self, owner: &OwnerName) -> Result<OwnerName, Error> {
        let change = Change::of(OWNER, OWNER, Target::New).set([("name", json!(owner))]);
        match self.log.append_at_once(&[change])? {
            Some(_) => Ok(owner.clone()),
            None => Ok(self.owner()?.unwrap_or_else(|| owner.clone())),
        }
    }

    /// The ids that are kept under this name, beside the operations. They move with the journal.
    ///
    /// # Errors
    /// [`Error::JournalRead`].
    pub fn list(&self, name: &str) -> Result<BTreeSet<String>, Error> {
        let all = vec![Condition::is("id", name)];
        let found = self.log.streams(&Query { families: &[LIST], all, ..Query::default() })?;
        let ids = found.first().and_then(|stream| stream.document.get("ids")).and_then(Value::as_array);
        Ok(ids.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Keeps these ids under this name, and no others.
    ///
    /// # Errors
    /// [`Error::JournalWrite`].
    pub fn keep_list(&self, name: &str, ids: &BTreeSet<String>) -> Result<(), Error> {
        let change = Change::of(LIST, name, Target::Any).set([("ids", json!(ids))]);
        self.log.append_at_once(&[change]).map(drop)
    }

    fn history_field(&self, field: &str) -> Result<Option<Value>, Error> {
        let streams = self.log.streams(&Query { families: &[HISTORY], ..Query::default() })?;
        Ok(streams.into_iter().find_map(|stream| stream.document.get(field).filter(|it| !it.is_null()).cloned()))
    }

    /// The history that it belongs to. `None`: it is new, or not one that a process of ours has begun.
    pub(crate) fn history(&self) -> Result<Option<String>, Error> {
        Ok(self.history_field("id")?.as_ref().and_then(Value::as_str).map(str::to_owned))
    }

    /// From now on it belongs to this history, and what showed that it was set back counts no more; where it is `new`
    /// only, one that belongs to another one or has an operation is left as it is.
    pub(crate) fn belong_to(&self, history: &History, new: bool) -> Result<(), Error> {
        let target = if new { Target::New } else { Target::Any };
        let mut change =
            Change::of(HISTORY, HISTORY, target).set([("id", json!(history.id)), ("set_back", Value::Null)]);
        if history.place.database.is_some()
            && let Write::Set(fields) = &mut change.write
        {
            fields.insert("place".to_owned(), json!(history.place));
            fields.insert("taken_over_at".to_owned(), json!(history.taken_over_at));
        }
        let unless = new.then(|| Query { limit: Some(1), ..operations_where(Vec::new()) });
        self.log.append_at_once(&[Change { unless, ..change }]).map(drop)
    }

    /// The history with its place, where both are kept in the log.
    pub(crate) fn history_with_place(&self) -> Result<Option<History>, Error> {
        let streams = self.log.streams(&Query { families: &[HISTORY], ..Query::default() })?;
        let Some(stream) = streams.into_iter().next() else { return Ok(None) };
        let unreadable =
            |error: serde_json::Error| Error::journal_row("streams", HISTORY, "document", error.to_string());
        serde_json::from_value(stream.document).map(Some).map_err(unreadable)
    }

    /// What showed that it was set back to an earlier state, for people: until somebody takes the history over.
    pub(crate) fn set_back(&self) -> Result<Option<String>, Error> {
        Ok(self.history_field("set_back")?.as_ref().and_then(Value::as_str).map(str::to_owned))
    }

    pub(crate) fn note_set_back(&self, evidence: &str) -> Result<(), Error> {
        let change = Change::of(HISTORY, HISTORY, Target::IfExisting).set([("set_back", json!(evidence))]);
        self.log.append_at_once(&[change]).map(drop)
    }

    /// When the newest operation began that was forgotten, in milliseconds since 1970. A younger one that is not here
    /// was never written here.
    pub(crate) fn forgotten_until(&self) -> Result<u64, Error> {
        Ok(self.history_field("forgotten_until")?.as_ref().and_then(Value::as_u64).unwrap_or_default())
    }

    /// Writes about one operation, under the fence that this process has of it. Gives the new fence.
    async fn write(&self, id: &OperationId, mut changes: Vec<Change>) -> Result<Option<Fence>, Error> {
        let held = self.held.lock().get(id).copied();
        if let Some(change) = changes.first_mut() {
            change.fence = change.fence.or(held);
        }
        self.log.append(changes).await
    }

    /// Opens an operation. Of cleanups of one server one is open at a time, whoever begins them: the others fail with
    /// [`Error::CleanupUnderWay`].
    pub(crate) async fn begin(&self, new: Operation) -> Result<(), Error> {
        let new = Operation { host: self.host().map(str::to_owned), ..new };
        loop {
            if let Some(fence) = self.log.append(vec![opening(&new)?]).await? {
                self.held.lock().insert(new.id, fence);
                return Ok(());
            }
            if self.operation(&new.id).is_ok() {
                return Err(Error::OperationExists { operation: new.id });
            }
            let other = open_cleanup(&new.specification).map(|query| self.log.streams(&query)).transpose()?;
            if let Some(other) = other.and_then(|found| found.into_iter().next()) {
                return Err(Error::CleanupUnderWay { operation: OperationId::parse(&other.id)? });
            }
            // It has ended meanwhile.
        }
    }

    pub(crate) async fn append(&self, id: &OperationId, entry: Entry) -> Result<(), Error> {
        match self.write(id, vec![noted(id, &entry)?]).await? {
            Some(_) => Ok(()),
            None => self.operation(id).and(Err(Error::OperationTaken { operation: id.clone() })),
        }
    }

    /// The same while the operation is open. False, and nothing changes, once it has ended.
    pub(crate) async fn append_while_open(&self, id: &OperationId, entry: Entry) -> Result<bool, Error> {
        let mut change = noted(id, &entry)?;
        change.given.push(Condition::is("state", OperationState::Open.as_str()));
        match self.log.append(vec![change]).await? {
            Some(_) => Ok(true),
            None => self.operation(id).map(|_| false),
        }
    }

    /// Ends an operation. False, and nothing changes, where it was to be done and somebody has cancelled it.
    pub(crate) async fn close(&self, closing: Closing) -> Result<bool, Error> {
        let id = &closing.operation;
        if self.write(id, closed(&closing)?).await?.is_some() {
            self.held.lock().remove(id);
            return Ok(true);
        }
        self.operation(id)?;
        match closing.state == OperationState::Done && !self.cancelled(std::slice::from_ref(id))?.is_empty() {
            true => Ok(false),
            false => Err(Error::OperationTaken { operation: closing.operation }),
        }
    }

    /// Closes a cleanup that had left something, since another operation has removed all of it. Nothing changes where
    /// somebody has taken it up meanwhile.
    pub(crate) async fn settle(&self, id: &OperationId, by: &OperationId, report: Value, at: u64) -> Result<(), Error> {
        let mut change = Change::of(OPERATION, id.as_str(), Target::IfExisting).set([
            ("state", json!(OperationState::Done)),
            ("report", bounded(&report, "report")?),
            ("ended_by", json!(by)),
            ("updated_at", json!(at)),
            ("ended_at", json!(at)),
        ]);
        change.given.push(Condition::is("state", OperationState::Left.as_str()));
        self.log.append(vec![change]).await.map(drop)
    }

    /// Those of these operations that somebody has cancelled.
    pub(crate) fn cancelled(&self, operations: &[OperationId]) -> Result<Vec<OperationId>, Error> {
        let ids = Condition::one_of("id", operations);
        let found = self.found(step_is(CANCELLED, Phase::Note).into_iter().chain([ids]).collect(), false)?;
        let is_cancelled = |id: &&OperationId| found.iter().any(|entry| entry.id == id.as_str());
        Ok(operations.iter().filter(is_cancelled).cloned().collect())
    }

    /// Closes an operation as abandoned, opening it before where it never was open. False when another process has
    /// taken it over, or has ended it.
    pub(crate) async fn abandon(
        &self,
        opened: Option<&Operation>,
        from: &str,
        closing: Closing,
        notes: Vec<Entry>,
    ) -> Result<bool, Error> {
        let mut changes = vec![match opened {
            Some(new) => opening(new)?,
            None => taking(&closing.operation, from),
        }];
        changes.extend(notes.iter().map(|note| noted(&closing.operation, note)).collect::<Result<Vec<_>, _>>()?);
        changes.extend(closed(&closing)?);
        Ok(self.log.append(changes).await?.is_some())
    }

    /// Takes an operation over from a runner that died. False when somebody else was quicker.
    pub(crate) async fn claim(&self, operation: &Operation, to: &str, at: u64) -> Result<bool, Error> {
        let fields = [
            ("runner", json!(to)),
            ("host", json!(self.host())),
            ("updated_at", json!(at)),
            ("state", json!(OperationState::Open)),
            ("ended_at", Value::Null),
        ];
        let fence = self.log.append(vec![taking(&operation.id, &operation.runner).set(fields)]).await?;
        self.held.lock().extend(fence.map(|fence| (operation.id.clone(), fence)));
        Ok(fence.is_some())
    }

    /// Forgets operations that ended before `before` (milliseconds since 1970) and explain nothing that may still
    /// exist. Returns how many. A few at a time, with pauses, so that other processes can write meanwhile.
    ///
    /// # Errors
    /// When the journal cannot be written. What was forgotten until then stays so.
    pub async fn prune(&self, before: u64) -> Result<usize, Error> {
        let mut pruned = 0;
        loop {
            let step = self.prune_some(before).await?;
            pruned += step;
            if step < PRUNED_AT_ONCE as usize {
                return Ok(pruned);
            }
            tokio::time::sleep(PRUNE_PAUSE).await;
        }
    }

    /// The same for the oldest of them, in one transaction.
    pub(crate) async fn prune_some(&self, before: u64) -> Result<usize, Error> {
        let mut query = prunable(before, PRUNED_AT_ONCE);
        let found = self.log.streams(&query)?;
        let Some(until) = found.last().and_then(|last| last.document["created_at"].as_u64()) else { return Ok(0) };
        // First, so that none is ever missing that was made before this time and not forgotten.
        let mut note = Change::of(HISTORY, HISTORY, Target::IfExisting).set([("forgotten_until", json!(until))]);
        note.given.push(Condition::Any(vec![
            Condition::Known("forgotten_until").not(),
            Condition::Below("forgotten_until", until),
        ]));
        self.log.append(vec![note]).await?;
        query.all.push(Condition::Below("created_at", until.saturating_add(1)));
        self.log.forget(query).await
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn operations(&self, filter: &OperationFilter) -> Result<Vec<Operation>, Error> {
        self.matching(&filter.query())
    }

    fn matching(&self, query: &Query) -> Result<Vec<Operation>, Error> {
        self.log.streams(query)?.into_iter().map(read_operation).collect()
    }

    /// How many operations of each state there are; of a state without any there is no entry.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn counts(&self) -> Result<BTreeMap<OperationState, u64>, Error> {
        let count = |state: &OperationState| {
            let query = operations_where(vec![Condition::is("state", state.as_str())]);
            self.log.count(&query).map(|count| (*state, count))
        };
        let counted: BTreeMap<_, _> = OperationState::ALL.iter().map(count).collect::<Result<_, _>>()?;
        Ok(counted.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// One operation.
    ///
    /// # Errors
    /// [`Error::OperationUnknown`] when there is none of that id.
    pub fn operation(&self, id: &OperationId) -> Result<Operation, Error> {
        let found = self.matching(&operations_where(vec![Condition::is("id", id.as_str())]))?.pop();
        found.ok_or_else(|| Error::OperationUnknown { operation: id.as_str().to_owned() })
    }

    /// The entries of an operation, in the order of writing.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn entries(&self, id: &OperationId) -> Result<Vec<Entry>, Error> {
        let all = vec![Condition::is("id", id.as_str())];
        let query = Query { families: OPERATIONS, all, limit: Some(ENTRIES), ..Query::default() };
        read_entries(self.log.entries(&query)?)
    }

    /// Entries of any operation, or the last one alone.
    fn found(&self, all: Vec<Condition>, last: bool) -> Result<Vec<LogEntry>, Error> {
        let limit = last.then_some(1);
        self.log.entries(&Query { families: OPERATIONS, all, newest_first: last, limit, ..Query::default() })
    }

    /// How often an operation was taken up, and when it is tried again, where it was.
    pub(crate) fn last_try(&self, id: &OperationId) -> Result<Option<(u32, u64)>, Error> {
        let noted = step_is(TAKEN_UP, Phase::Note).into_iter().chain([Condition::is("id", id.as_str())]).collect();
        let Some(LogEntry { document, .. }) = self.found(noted, true)?.pop() else { return Ok(None) };
        let number = |key: &str| document["data"].get(key).and_then(Value::as_u64);
        match (number("tries").and_then(|tries| u32::try_from(tries).ok()), number("next-try")) {
            (Some(tries), Some(next_try)) => Ok(Some((tries, next_try))),
            _ => Err(Error::journal_row("entries", id.as_str(), "data", "no tries, or no next-try")),
        }
    }

    /// The servers that the outcomes of a creation name.
    pub(crate) fn servers_made(&self, id: &OperationId) -> Result<Vec<String>, Error> {
        let mut made = step_is("create-server", Phase::Outcome);
        made.push(Condition::is("resource.kind", ResourceKind::Server.as_str()));
        made.push(Condition::is("id", id.as_str()));
        Ok(resources(&self.found(made, false)?).collect())
    }

    /// The creations of servers whose id, name or address this is, the newest first.
    pub(crate) fn creations_named(&self, text: &str) -> Result<Vec<Operation>, Error> {
        let mut named = vec![Condition::is("id", text), Condition::is("specification.name", text)];
        // Only an address is looked for among the entries, which are many.
        if text.parse::<IpAddr>().is_ok() {
            let mut made = step_is("create-ip", Phase::Outcome);
            made.push(Condition::is("data.address", text));
            named.push(self.of_entries(made)?);
        }
        let kind = Condition::is("kind", OperationKind::CreateServer.as_str());
        self.matching(&operations_where(vec![kind, Condition::Any(named)]))
    }

    /// The operations of which an entry is one of these.
    fn of_entries(&self, all: Vec<Condition>) -> Result<Condition, Error> {
        let ids: HashSet<String> = self.found(all, false)?.into_iter().map(|entry| entry.id).collect();
        Ok(Condition::In("id", ids.into_iter().collect()))
    }

    /// Whether an entry says which API holds this volume.
    pub(crate) fn has_placed(&self, volume: &str) -> Result<bool, Error> {
        let kinds = Condition::one_of("resource.kind", &[ResourceKind::BlockVolume, ResourceKind::LocalVolume]);
        Ok(!self.found(vec![Condition::is("resource.id", volume), kinds], true)?.is_empty())
    }

    /// Whether an operation has kept this resource on purpose, whatever became of its mark.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn is_kept(&self, resource_id: &str) -> Result<bool, Error> {
        let mut kept = step_is(KEPT, Phase::Note);
        kept.push(Condition::is("resource.id", resource_id));
        Ok(!self.found(kept, true)?.is_empty())
    }

    /// Operations that were abandoned, and no other one has removed what they made.
    fn left_alone(&self, also: Option<Condition>) -> Result<Vec<Stream>, Error> {
        let abandoned = Condition::is("state", OperationState::Abandoned.as_str());
        let all = [abandoned, Condition::Known("ended_by").not()].into_iter().chain(also);
        self.log.streams(&operations_where(all.collect()))
    }

    /// The operation that was abandoned with this resource, while no other operation has removed what that one made.
    pub(crate) fn abandoned_by(&self, resource_id: &str) -> Result<Option<OperationId>, Error> {
        let mut noted = step_is(ABANDONED, Phase::Note);
        noted.push(Condition::is("resource.id", resource_id));
        let of = self.of_entries(noted)?;
        self.left_alone(Some(of))?.first().map(|stream| OperationId::parse(&stream.id)).transpose()
    }

    /// What was abandoned and no other operation has removed, by id.
    pub(crate) fn abandoned(&self) -> Result<HashSet<String>, Error> {
        self.abandoned_with(self.left_alone(None)?.into_iter().map(|stream| stream.id).collect())
    }

    /// What these operations were abandoned with, by id.
    fn abandoned_with(&self, operations: Vec<String>) -> Result<HashSet<String>, Error> {
        let noted = step_is(ABANDONED, Phase::Note).into_iter().chain([Condition::In("id", operations)]);
        Ok(resources(&self.found(noted.collect(), false)?).collect())
    }

    /// The operations whose entries speak of this resource, the newest first by the order of writing, and not by the
    /// clock, which may have been set back between two processes.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn operations_of_resource(&self, resource_id: &str) -> Result<Vec<Operation>, Error> {
        let of = self.of_entries(vec![Condition::is("resource.id", resource_id)])?;
        self.matching(&operations_where(vec![of]))
    }

    /// The operations on the Mac with this id of Scaleway's, or with this claim, the newest first. A claim is found
    /// also where no host was seen yet.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn operations_of_machine(&self, text: &str) -> Result<Vec<Operation>, Error> {
        use OperationKind::{AdoptMachine, OrderMachine, ReleaseMachine};
        let of = self.of_entries(vec![
            Condition::is("resource.id", text),
            Condition::is("resource.kind", ResourceKind::AppleSiliconServer.as_str()),
        ])?;
        let kinds = Condition::one_of("kind", &[AdoptMachine, OrderMachine, ReleaseMachine]);
        let claimed = Condition::is("specification.claim", text);
        self.matching(&operations_where(vec![kinds, Condition::Any(vec![of, claimed])]))
    }

    /// The hosts of a zone that this owner has claimed or ordered, and that were neither released nor abandoned.
    pub(crate) fn claimed_hosts(&self, owner: &OwnerName, zone: &Zone) -> Result<BTreeSet<String>, Error> {
        let claims = operations_where(vec![
            Condition::one_of("kind", &[OperationKind::AdoptMachine, OperationKind::OrderMachine]),
            Condition::one_of("state", &[OperationState::Done, OperationState::Kept]),
            Condition::Known("ended_by").not(),
            Condition::is("owner", owner.as_str()),
            Condition::is("zone", zone.as_str()),
        ]);
        let claims = self.log.streams(&claims)?.into_iter().map(|stream| stream.id).collect();
        let seen = vec![
            Condition::In("id", claims),
            Condition::is("resource.kind", ResourceKind::AppleSiliconServer.as_str()),
        ];
        // A claim that others were quicker with went on to another host: the last one counts.
        let mut hosts = BTreeMap::new();
        for entry in self.found(seen, false)? {
            let host = resources(std::slice::from_ref(&entry)).next();
            hosts.extend(host.map(|host| (entry.id, host)));
        }
        let abandoned = self.abandoned()?;
        Ok(hosts.into_values().filter(|host| !abandoned.contains(host)).collect())
    }
}

/// Takes an unfinished operation from this runner.
fn taking(id: &OperationId, from: &str) -> Change {
    let given = vec![Condition::is("runner", from), unfinished()];
    Change { given, takes: true, ..Change::of(OPERATION, id.as_str(), Target::Existing) }
}

/// The ids of the resources that these entries are about.
fn resources(entries: &[LogEntry]) -> impl Iterator<Item = String> {
    entries.iter().filter_map(|entry| entry.document.pointer("/resource/id")?.as_str().map(str::to_owned))
}
