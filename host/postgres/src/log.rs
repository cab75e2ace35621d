//! The log in a PostgreSQL database.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use windlass_concurrency::{Bounds, GroupCommit};
use windlass_lifecycle::Error;
use windlass_lifecycle::log::{
    Change, Fence, Key, Lease, Log, LogEntry, MAX_DOCUMENT_LEN, Query, Stream, Tally, Target, Write,
};

use crate::client::{Client, Failure, Transaction};
use crate::connection::{Connection, Worker};
use crate::holder::{Holder, RENEWAL, is_held, seems_held};
use crate::settings::{Part, Settings};
use crate::sql::{Bound, Sql};
use crate::tables::{self, Found};

const BOUNDS: Bounds = Bounds { queue: 1024, batch: 256 };

/// Makes a change within its savepoint. False: the change is taken back.
type Work = Box<dyn FnOnce(&mut Transaction<'_>) -> bool + Send>;

/// An open log.
#[derive(Debug)]
pub struct PostgresLog {
    part: Part,
    session: Arc<Session>,
}

/// The connections of a process to one schema, and its row there. The logs of all parts can have one.
pub(crate) struct Session {
    place: String,
    reader: Worker,
    writing: Option<Writing>,
}

/// The side that writes.
struct Writing {
    /// Dropped first, so that what waits is written while the holder has its row.
    writer: GroupCommit<Work, Result<(), String>>,
    holder: Arc<Holder>,
    /// Renews the holder's row, and takes and gives names.
    keeper: Arc<Worker>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens it for writing, and makes the tables where there are none.
    pub(crate) fn open(settings: &Settings, host: &str) -> Result<Self, Error> {
        let mut connection = Connection::new(settings.clone());
        let schema = settings.schema.clone();
        let entered = (|| {
            let client = connection.client()?;
            let found = tables::prepare(client, &schema)?;
            if found > tables::VERSION {
                return Ok(Err(found));
            }
            match Holder::enter(client, host)? {
                Some(holder) => Ok(Ok(holder)),
                // Another process has just taken the tables to this version.
                None => tables::found(client).map(|found| Err(found.number())),
            }
        })();
        let holder = match entered.map_err(|error| unopened(settings, &error.to_string()))? {
            Ok(holder) => Arc::new(holder),
            Err(found) => return Err(newer(settings, found)),
        };
        let thread = |error: std::io::Error| unopened(settings, &error.to_string());
        let renewed = Arc::clone(&holder);
        let renew = Box::new(move |connection: &mut Connection| renewed.renew(connection));
        let keeper = Worker::start("windlass-lease", connection, Some((RENEWAL, renew))).map_err(thread)?;
        let (mut connection, writes) = (Connection::new(settings.clone()), Arc::clone(&holder));
        let commit = move |works| commit(&mut connection, &writes, works);
        let writer = GroupCommit::start("windlass-journal", BOUNDS, commit).map_err(thread)?;
        let reader = Worker::start("windlass-reader", Connection::new(settings.clone()), None).map_err(thread)?;
        let writing = Some(Writing { writer, holder, keeper: Arc::new(keeper) });
        Ok(Self { place: settings.place.clone(), reader, writing })
    }

    /// Opens it for reading: nothing is made or changed.
    pub(crate) fn read_only(settings: &Settings) -> Result<Self, Error> {
        let mut connection = Connection::new(settings.clone());
        match connection.ask(tables::found).map_err(|error| unopened(settings, &error.to_string()))? {
            Found::Nothing => return Err(Error::JournalAbsent { path: PathBuf::from(&settings.place) }),
            Found::Version(found) if found != tables::VERSION => return Err(newer(settings, found)),
            Found::Version(_) => {}
        }
        let reader = Worker::start("windlass-reader", connection, None);
        let reader = reader.map_err(|error| unopened(settings, &error.to_string()))?;
        Ok(Self { place: settings.place.clone(), reader, writing: None })
    }

    /// Whether another process is known to have taken this one for dead.
    pub(crate) fn is_lost(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.holder.is_lost())
    }
}

impl PostgresLog {
    pub(crate) fn new(part: Part, session: Arc<Session>) -> Self {
        Self { part, session }
    }

    fn writing(&self) -> Result<&Writing, Error> {
        self.session.writing.as_ref().ok_or(Error::JournalClosed)
    }

    /// Does something, whole or not at all, and returns when it is committed. What gives an error or nothing is taken
    /// back, and no other work with it.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<Option<T>, Error> + Send + 'static,
    ) -> Result<Option<T>, Error> {
        let (work, answer) = answering(work);
        let committed = self.writing()?.writer.write(work).await.map_err(|_| Error::JournalClosed)?;
        committed.map_err(|problem| Error::JournalWrite { problem })?;
        let done = answer.lock().take();
        done.ok_or(Error::JournalClosed)?
    }

    fn read<T: Send + 'static>(
        &self,
        sql: Sql,
        read: impl Fn(&Row) -> Result<T, Error> + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let rows = self.session.reader.call(move |connection| {
            let rows = connection.ask(|client| client.query_typed(&sql.text, &sql.parameters())).map_err(unread)?;
            rows.iter().map(read).collect()
        });
        rows.ok_or(Error::JournalClosed)?
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(Writing { writer, holder, keeper }) = self.writing.take() else { return };
        drop(writer);
        // What cannot be reached expires.
        let _ = keeper.call(move |connection| connection.ask(|client| holder.leave(client)));
    }
}

#[async_trait]
impl Log for PostgresLog {
    async fn append(&self, changes: Vec<Change>) -> Result<Option<Fence>, Error> {
        let part = self.part.clone();
        self.write(move |transaction| append(transaction, &part, &changes)).await
    }

    fn append_at_once(&self, changes: &[Change]) -> Result<Option<Fence>, Error> {
        let Writing { holder, keeper, .. } = self.writing()?;
        let (part, changes, holder) = (self.part.clone(), changes.to_vec(), Arc::clone(holder));
        let (work, answer) = answering(move |transaction| append(transaction, &part, &changes));
        let committed = keeper.call(move |connection| commit(connection, &holder, vec![work]).pop());
        let committed = committed.flatten().ok_or(Error::JournalClosed)?;
        committed.map_err(|problem| Error::JournalWrite { problem })?;
        let done = answer.lock().take();
        done.ok_or(Error::JournalClosed)?
    }

    fn streams(&self, query: &Query) -> Result<Vec<Stream>, Error> {
        let part = self.part.clone();
        self.read(Sql::of(&self.part, "select family, id, fence, document::text from streams", query), move |row| {
            let (family, id): (String, String) = (part.name(get(row, 0)?), get(row, 1)?);
            let fence = Fence(get::<i64>(row, 2)?.cast_unsigned());
            Ok(Stream { document: document(row, 3, "operations", &id)?, family, id, fence })
        })
    }

    fn count(&self, query: &Query) -> Result<u64, Error> {
        let counted = self.read(Sql::count(&self.part, query), |row| get::<i64>(row, 0))?;
        Ok(counted.first().copied().unwrap_or_default().cast_unsigned())
    }

    fn tally(&self, query: &Query, by: &[Key]) -> Result<Vec<Tally>, Error> {
        let keys = by.len();
        self.read(Sql::tally(&self.part, query, by), move |row| {
            let value = |column| match get::<Option<String>>(row, column)? {
                None => Ok(Value::Null),
                Some(text) => match serde_json::from_str(&text) {
                    Ok(value @ (Value::String(_) | Value::Number(_))) => Ok(value),
                    Ok(value) => Ok(Value::String(value.to_string())),
                    Err(error) => Err(Error::JournalRead { problem: error.to_string() }),
                },
            };
            Ok(Tally {
                values: (0..keys).map(value).collect::<Result<_, Error>>()?,
                count: get::<i64>(row, keys)?.cast_unsigned(),
            })
        })
    }

    fn entries(&self, query: &Query) -> Result<Vec<LogEntry>, Error> {
        self.read(Sql::of(&self.part, "select id, number, document::text from entries", query), |row| {
            let (id, number): (String, i64) = (get(row, 0)?, get(row, 1)?);
            Ok(LogEntry {
                document: document(row, 2, "entries", &format!("{id}/{number}"))?,
                id,
                number: number.cast_unsigned(),
            })
        })
    }

    async fn forget(&self, query: Query) -> Result<usize, Error> {
        let part = self.part.clone();
        let forgotten = self.write(move |transaction| {
            let sql = Sql::of(&part, "select family, id from streams", &query);
            let found = transaction.query_typed(&sql.text, &sql.parameters()).map_err(unwritten)?;
            for row in &found {
                remove(transaction, &get::<String>(row, 0)?, &get::<String>(row, 1)?)?;
            }
            Ok(Some(found.len()))
        });
        Ok(forgotten.await?.unwrap_or_default())
    }

    fn register(&self, name: &str) -> Result<Lease, Error> {
        let problem = || Error::JournalWrite { problem: format!("another process has the name {name}") };
        self.lock(name)?.ok_or_else(problem)
    }

    fn lives(&self, name: &str) -> bool {
        let (name, Session { reader, writing, .. }) = (self.part.stored(name), &*self.session);
        let asked = match writing {
            Some(writing) => writing.keeper.call(move |connection| connection.ask(|client| is_held(&name, client))),
            None => reader.call(move |connection| connection.ask(|client| seems_held(&name, client))),
        };
        match asked {
            Some(Ok(lives)) => lives,
            // Nothing of a process is taken over that may live.
            Some(Err(_)) | None => true,
        }
    }

    fn lock(&self, name: &str) -> Result<Option<Lease>, Error> {
        let Writing { holder, keeper, .. } = self.writing()?;
        let name = self.part.stored(name);
        let (taker, wanted) = (Arc::clone(holder), name.clone());
        let taken = keeper.call(move |connection| connection.ask(|client| taker.take(&wanted, client)));
        let is_taken = taken.ok_or(Error::JournalClosed)?.map_err(unwritten)?;
        let held = || Held { name, holder: Arc::clone(holder), keeper: Arc::clone(keeper) };
        Ok(is_taken.then(|| Box::new(held()) as Lease))
    }

    fn is_overtaken(&self) -> bool {
        self.session.is_lost()
    }

    fn is_snapshot(&self) -> bool {
        false
    }
}

/// A name that this process holds.
struct Held {
    name: String,
    holder: Arc<Holder>,
    keeper: Arc<Worker>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Held").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (name, holder) = (std::mem::take(&mut self.name), Arc::clone(&self.holder));
        let _ = self.keeper.call(move |connection| connection.ask(|client| holder.give(&name, client)));
    }
}

type Answer<T> = Arc<Mutex<Option<Result<Option<T>, Error>>>>;

/// Work that keeps what it gives.
fn answering<T: Send + 'static>(
    work: impl FnOnce(&mut Transaction<'_>) -> Result<Option<T>, Error> + Send + 'static,
) -> (Work, Answer<T>) {
    let answer = Answer::default();
    let answered = Arc::clone(&answer);
    let work: Work = Box::new(move |transaction| {
        let done = work(transaction);
        let stays = matches!(done, Ok(Some(_)));
        *answered.lock() = Some(done);
        stays
    });
    (work, answer)
}

/// One transaction for all, one savepoint for each: a write that fails takes no other with it.
fn commit(connection: &mut Connection, holder: &Holder, works: Vec<Work>) -> Vec<Result<(), String>> {
    let count = works.len();
    let committed = try_commit(connection, holder, works).inspect_err(|problem| {
        tracing::error!(error = problem, "the journal could not be written");
    });
    vec![committed; count]
}

fn try_commit(connection: &mut Connection, holder: &Holder, works: Vec<Work>) -> Result<(), String> {
    const TAKEN: &str = "another host took this process for dead: restart it";
    // A connection that was lost while nothing was written shows at the first statement.
    connection.ask(|client| client.batch_execute("")).map_err(|error| error.to_string())?;
    let lost = {
        let client = connection.client().map_err(|error| error.to_string())?;
        let mut transaction = client.transaction().map_err(|error| error.to_string())?;
        let write = holder.begin(&mut transaction).map_err(|error| error.to_string())?.ok_or(TAKEN)?;
        for work in works {
            let mut savepoint = transaction.savepoint().map_err(|error| error.to_string())?;
            if work(&mut savepoint) {
                savepoint.commit().map_err(|error| error.to_string())?;
            }
        }
        match transaction.commit() {
            Ok(()) => return Ok(()),
            Err(error) if error.is_lost() => (write, error),
            Err(error) => return Err(error.to_string()),
        }
    };
    // The commit may have reached the server: the holder's row says so.
    let (write, error) = lost;
    connection.drop_client();
    let is_written = connection.client().and_then(|client| holder.has_written(write, client));
    match is_written {
        Ok(true) => Ok(()),
        Ok(false) => Err(error.to_string()),
        Err(_) => Err(format!("{error}; whether it was written is not known")),
    }
}

fn append(transaction: &mut Transaction<'_>, part: &Part, changes: &[Change]) -> Result<Option<Fence>, Error> {
    let mut fence = None;
    for change in changes {
        if change.takes && fence.is_none() {
            let next = transaction.query_one("update fences set last = last + 1 returning last", &[]);
            fence = Some(Fence(get::<i64>(&next.map_err(unwritten)?, 0)?.cast_unsigned()));
        }
        if !make(transaction, part, change, fence)? {
            return Ok(None);
        }
    }
    Ok(Some(fence.unwrap_or_default()))
}

/// Makes one change. False where a condition of it does not hold.
fn make(transaction: &mut Transaction<'_>, part: &Part, change: &Change, fence: Option<Fence>) -> Result<bool, Error> {
    let (family, id) = (part.stored(change.family), &change.id);
    let mut run = |sql: Sql| transaction.query_typed(&sql.text, &sql.parameters()).map_err(unwritten);
    let key = || vec![Bound::text(&family), Bound::text(id)];
    if let Some(query) = &change.unless
        && !run(Sql::of(part, "select 1 from streams", &Query { limit: Some(1), ..query.clone() }))?.is_empty()
    {
        return Ok(false);
    }
    let mut sql = Sql::new("select fence, ", key());
    sql.all(&change.given);
    sql.text.push_str(" from streams where family = $1 and id = $2");
    let stored = match run(sql)?.first() {
        Some(row) => Some((get::<i64>(row, 0)?, get::<Option<bool>>(row, 1)?.unwrap_or_default())),
        None => None,
    };
    match (stored, change.target) {
        (Some(_), Target::New) | (None, Target::Existing) => return Ok(false),
        (None, Target::IfExisting) => return Ok(true),
        (Some((stored, _)), _) if change.fence.is_some_and(|fence| fence.0 != stored.cast_unsigned()) => {
            return Ok(false);
        }
        (Some((_, false)), _) => return Ok(false),
        _ => {}
    }
    let stored = stored.map(|(stored, _)| stored);
    let taken = fence.filter(|_| change.takes).map(|fence| fence.0.cast_signed());
    let (document, is_empty) = match &change.write {
        Write::Remove => {
            remove(transaction, &family, id)?;
            return Ok(true);
        }
        Write::Put(document) => (written(document)?, false),
        Write::Set(fields) => (written(&Value::Object(fields.clone()))?, fields.is_empty()),
    };
    // A change of nothing but its entries leaves the stream as it is.
    if stored.is_none() || taken.is_some() || !is_empty {
        let statement = match (stored, &change.write) {
            (None, _) => "insert into streams (family, id, document, fence) values ($1, $2, $3::text::jsonb, $4)",
            (Some(_), Write::Set(_)) => {
                "update streams set document = document || $3::text::jsonb, fence = $4 where family = $1 and id = $2"
            }
            (Some(_), _) => "update streams set document = $3::text::jsonb, fence = $4 where family = $1 and id = $2",
        };
        let mut bound = key();
        bound.extend([Bound::Text(document), Bound::Number(taken.or(stored).unwrap_or_default())]);
        run(Sql::new(statement, bound))?;
    }
    for entry in &change.entries {
        let mut bound = key();
        bound.push(Bound::Text(written(entry)?));
        run(Sql::new("insert into entries (family, id, document) values ($1, $2, $3::text::jsonb)", bound))?;
    }
    Ok(true)
}

fn remove(client: &mut Client, family: &str, id: &str) -> Result<(), Error> {
    for statement in
        ["delete from entries where family = $1 and id = $2", "delete from streams where family = $1 and id = $2"]
    {
        client.execute(statement, &[&family, &id]).map_err(unwritten)?;
    }
    Ok(())
}

/// A document as text.
fn written(document: &Value) -> Result<String, Error> {
    let text = document.to_string();
    if text.len() > MAX_DOCUMENT_LEN {
        return Err(Error::JournalTooLong { what: "document", bytes: text.len(), limit: MAX_DOCUMENT_LEN });
    }
    // PostgreSQL keeps no text with this character.
    Ok(if text.contains("\\u0000") { without_null(document.clone()).to_string() } else { text })
}

fn without_null(value: Value) -> Value {
    let text = |text: String| text.replace('\0', "\u{fffd}");
    match value {
        Value::String(string) => Value::String(text(string)),
        Value::Array(values) => Value::Array(values.into_iter().map(without_null).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (text(name), without_null(value))).collect())
        }
        other => other,
    }
}

fn document(row: &Row, column: usize, table: &'static str, name: &str) -> Result<Value, Error> {
    let text: &str = row.try_get(column).map_err(unread)?;
    let fault =
        |problem: String| Error::JournalRow { table, row: name.to_owned(), column: "document".to_owned(), problem };
    // The database writes more spaces than were read.
    if text.len() > 2 * MAX_DOCUMENT_LEN {
        return Err(fault(format!("{} bytes, more than {}", text.len(), 2 * MAX_DOCUMENT_LEN)));
    }
    serde_json::from_str(text).map_err(|error| fault(error.to_string()))
}

fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(unread)
}

fn unopened(settings: &Settings, problem: &str) -> Error {
    Error::JournalOpen { path: PathBuf::from(&settings.place), problem: problem.to_owned() }
}

pub(crate) fn newer(settings: &Settings, found: i32) -> Error {
    let path = PathBuf::from(&settings.place);
    Error::JournalNewer { path, found: found.into(), known: tables::VERSION.into() }
}

fn unread(error: impl Into<Failure>) -> Error {
    Error::JournalRead { problem: error.into().to_string() }
}

fn unwritten(error: Failure) -> Error {
    Error::JournalWrite { problem: error.to_string() }
}

/// What names the place of a database: a copy or a restored dump has another one.
pub(crate) fn place(client: &mut Client) -> Result<String, Failure> {
    let place = "select system_identifier::text || '/' || (select oid from pg_database where datname = current_database()) \
                 || '/' || current_schema()::regnamespace::oid from pg_control_system()";
    client.query_one(place, &[]).map(|row| row.get(0))
}
