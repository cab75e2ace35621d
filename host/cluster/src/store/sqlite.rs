//! The store on one machine: tables of its own in the journal's file.
//!
//! One file, since the two make one history: the journal says what became of each node, so neither is ever restored or
//! copied without the other.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_lifecycle::{Database, DatabaseError, Journal, StateDirectory};

use super::{Begin, Change, ClusterStore, Fence, Requests, StoreError, StoredCluster};
use crate::failure::short;
use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEvent, ClusterOperation, Node, OperationKind, OperationState};

/// Operations of one cluster name that are kept, with their events.
const KEPT_OPERATIONS: u64 = 100;
/// How long the history of a cluster is kept that is gone: 90 days, in milliseconds.
const KEPT_AFTER_THE_END: u64 = 90 * 24 * 3_600 * 1_000;

const TABLES: &str = "
create table cluster_fences (last integer not null) strict;
insert into cluster_fences values (0);
create table clusters (
    name             text primary key not null,
    fence            integer not null,
    open             integer,
    cancel_requested integer not null default 0,
    delete_requested integer not null default 0,
    document         text not null
) strict;
create table cluster_nodes (
    cluster          text not null,
    name             text not null,
    grouping         text not null,
    position         integer not null,
    document         text not null,
    primary key (cluster, name)
) strict, without rowid;
create table cluster_operations (
    cluster          text not null,
    number           integer not null,
    document         text not null,
    primary key (cluster, number)
) strict, without rowid;
create table cluster_events (
    sequence         integer primary key autoincrement,
    cluster          text not null,
    operation        integer not null,
    at               integer not null,
    what             text not null
) strict;
create index cluster_events_by_operation on cluster_events (cluster, operation, sequence);
";

/// The store in a state directory.
#[derive(Debug)]
pub struct SqliteClusterStore {
    database: Arc<Database>,
    state: StateDirectory,
}

fn failed(what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| StoreError::Failed { what, problem: error.to_string() }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        Self::Failed { what: "writing", problem: error.to_string() }
    }
}

impl SqliteClusterStore {
    /// The store of this journal's directory. Makes its tables where there are none.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when they cannot be made.
    pub fn open(state: &StateDirectory, journal: &Journal) -> Result<Self, StoreError> {
        if Self::read_only(state, journal)?.is_none() {
            // Two processes may start together: who comes second finds the tables made.
            let make = |connection: &Connection| match has_tables(connection)? {
                true => Ok(()),
                false => connection.execute_batch(TABLES),
            };
            journal.database().write_at_once(make).map_err(failed("making the clusters' tables"))?;
        }
        Ok(Self { database: Arc::clone(journal.database()), state: state.clone() })
    }

    /// The store, to look at it: nothing is made or changed. `None` where there never was a cluster.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the journal cannot be read.
    pub fn read_only(state: &StateDirectory, journal: &Journal) -> Result<Option<Self>, StoreError> {
        let database = journal.database();
        let there = database.read(|connection| has_tables(connection).map_err(failed("looking for clusters")))?;
        Ok(there.then(|| Self { database: Arc::clone(database), state: state.clone() }))
    }
}

fn has_tables(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let find = "select exists (select 1 from sqlite_schema where type = 'table' and name = 'clusters')";
    connection.query_row(find, [], |row| row.get(0))
}

fn write<T: Serialize>(table: &'static str, row: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Row {
        table,
        row: row.to_owned(),
        problem: error.to_string(),
    })
}

/// A cluster with the URLs of its webhooks: the file is its owner's alone.
fn write_cluster(row: &str, cluster: &Cluster) -> Result<String, StoreError> {
    let whole = || {
        let mut document = serde_json::to_value(cluster)?;
        document["specification"] = cluster.specification.with_secrets()?;
        serde_json::to_string(&document)
    };
    whole().map_err(|error| StoreError::Row { table: "clusters", row: row.to_owned(), problem: error.to_string() })
}

fn read<T: DeserializeOwned>(table: &'static str, row: &str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Row {
        table,
        row: row.chars().take(80).collect(),
        problem: short(error.to_string()),
    })
}

fn new_fence(connection: &Connection) -> Result<Fence, StoreError> {
    connection
        .query_row("update cluster_fences set last = last + 1 returning last", [], |row| row.get::<_, i64>(0))
        .map(|last| Fence(last.cast_unsigned()))
        .map_err(failed("giving a fence"))
}

/// The fence that is stored, or that none is.
fn stored_fence(connection: &Connection, name: &str) -> Result<Option<Fence>, StoreError> {
    connection
        .query_row("select fence from clusters where name = ?1", [name], |row| row.get::<_, i64>(0))
        .optional()
        .map(|fence| fence.map(|fence| Fence(fence.cast_unsigned())))
        .map_err(failed("reading a cluster"))
}

fn put_nodes(connection: &Connection, cluster: &str, nodes: &[Node]) -> Result<(), StoreError> {
    let mut statement = connection
        .prepare_cached(
            "insert or replace into cluster_nodes (cluster, name, grouping, position, document) values (?1, ?2, ?3, ?4, ?5)",
        )
        .map_err(failed("writing a node"))?;
    for node in nodes {
        let document = write("cluster_nodes", &node.name, node)?;
        statement
            .execute(params![cluster, node.name, node.group.as_str(), node.index, document])
            .map_err(failed("writing a node"))?;
    }
    Ok(())
}

fn put_operation(connection: &Connection, cluster: &str, operation: &ClusterOperation) -> Result<(), StoreError> {
    let row = format!("{cluster}/{}", operation.number);
    connection
        .execute(
            "insert or replace into cluster_operations (cluster, number, document) values (?1, ?2, ?3)",
            params![cluster, operation.number.cast_signed(), write("cluster_operations", &row, operation)?],
        )
        .map(drop)
        .map_err(failed("writing an operation"))
}

fn open_number(connection: &Connection, cluster: &str) -> Result<Option<u64>, StoreError> {
    connection
        .query_row("select open from clusters where name = ?1", [cluster], |row| row.get::<_, Option<i64>>(0))
        .optional()
        .map(|open| open.flatten().map(i64::cast_unsigned))
        .map_err(failed("reading a cluster"))
}

fn operation(connection: &Connection, cluster: &str, number: u64) -> Result<Option<ClusterOperation>, StoreError> {
    let text: Option<String> = connection
        .query_row(
            "select document from cluster_operations where cluster = ?1 and number = ?2",
            params![cluster, number.cast_signed()],
            |row| row.get(0),
        )
        .optional()
        .map_err(failed("reading an operation"))?;
    text.map(|text| read("cluster_operations", &format!("{cluster}/{number}"), &text)).transpose()
}

fn load(connection: &Connection, name: &str, with_nodes: bool) -> Result<Option<StoredCluster>, StoreError> {
    let row = connection
        .query_row(
            "select fence, open, cancel_requested, delete_requested, document from clusters where name = ?1",
            [name],
            |row| {
                Ok((
                    row.get::<_, i64>(0)?,
                    row.get::<_, Option<i64>>(1)?,
                    row.get::<_, bool>(2)?,
                    row.get::<_, bool>(3)?,
                    row.get::<_, String>(4)?,
                ))
            },
        )
        .optional()
        .map_err(failed("reading a cluster"))?;
    let Some((fence, open, cancel, delete, document)) = row else { return Ok(None) };
    let open = match open {
        Some(number) => operation(connection, name, number.cast_unsigned())?,
        None => None,
    };
    let mut nodes = Vec::new();
    if with_nodes {
        let mut statement = connection
            .prepare_cached("select name, document from cluster_nodes where cluster = ?1 order by grouping, position")
            .map_err(failed("reading nodes"))?;
        let mut rows = statement.query([name]).map_err(failed("reading nodes"))?;
        while let Some(row) = rows.next().map_err(failed("reading nodes"))? {
            let node: String = row.get(0).map_err(failed("reading nodes"))?;
            let text: String = row.get(1).map_err(failed("reading nodes"))?;
            nodes.push(read("cluster_nodes", &node, &text)?);
        }
    }
    Ok(Some(StoredCluster {
        cluster: read("clusters", name, &document)?,
        nodes,
        open,
        requests: Requests { cancel, delete },
        fence: Fence(fence.cast_unsigned()),
    }))
}

fn begin(connection: &Connection, mut begin: Begin) -> Result<(Fence, u64), StoreError> {
    let name = begin.cluster.name.to_string();
    match (begin.expected, stored_fence(connection, &name)?) {
        (None, None) => {}
        (Some(expected), Some(stored)) if expected == stored && open_number(connection, &name)?.is_none() => {}
        (Some(_), None) => return Err(StoreError::Gone),
        _ => return Err(StoreError::Overtaken),
    }
    let fence = new_fence(connection)?;
    let number: i64 = connection
        .query_row("select coalesce(max(number), 0) + 1 from cluster_operations where cluster = ?1", [&name], |row| {
            row.get(0)
        })
        .map_err(failed("numbering an operation"))?;
    begin.operation.number = number.cast_unsigned();
    begin.operation.state = OperationState::Open;
    put_operation(connection, &name, &begin.operation)?;
    connection
        .execute(
            "insert into clusters (name, fence, open, document) values (?1, ?2, ?3, ?4)
             on conflict (name) do update
             set fence = ?2, open = ?3, cancel_requested = 0, delete_requested = 0, document = ?4",
            params![name, fence.0.cast_signed(), number, write_cluster(&name, &begin.cluster)?],
        )
        .map_err(failed("beginning an operation"))?;
    put_nodes(connection, &name, &begin.nodes)?;
    let oldest = begin.operation.number.saturating_sub(KEPT_OPERATIONS).cast_signed();
    for sql in [
        "delete from cluster_events where cluster = ?1 and operation <= ?2",
        "delete from cluster_operations where cluster = ?1 and number <= ?2",
    ] {
        connection.execute(sql, params![name, oldest]).map_err(failed("forgetting old operations"))?;
    }
    forget_gone(connection, begin.operation.began_at)?;
    Ok((fence, begin.operation.number))
}

/// Forgets the histories of clusters that have been gone for long.
fn forget_gone(connection: &Connection, now: u64) -> Result<(), StoreError> {
    let before = now.saturating_sub(KEPT_AFTER_THE_END).cast_signed();
    let forgotten = connection
        .execute(
            "delete from cluster_operations where cluster not in (select name from clusters) and cluster not in
                (select cluster from cluster_operations where json_extract(document, '$.began_at') >= ?1)",
            [before],
        )
        .map_err(failed("forgetting old operations"))?;
    if forgotten > 0 {
        connection
            .execute("delete from cluster_events where cluster not in (select cluster from cluster_operations)", [])
            .map_err(failed("forgetting old events"))?;
    }
    Ok(())
}

fn commit(connection: &Connection, name: &str, fence: Fence, change: &Change) -> Result<(), StoreError> {
    match stored_fence(connection, name)? {
        None => return Err(StoreError::Gone),
        Some(stored) if stored != fence => return Err(StoreError::Overtaken),
        Some(_) => {}
    }
    if change.ends_well() {
        let is_cancelled = connection
            .query_row("select cancel_requested from clusters where name = ?1", [name], |row| row.get(0))
            .map_err(failed("reading requests"))?;
        if is_cancelled {
            return Err(StoreError::Cancelled);
        }
    }
    let number = open_number(connection, name)?.unwrap_or_default();
    if let Some(cluster) = &change.cluster {
        connection
            .execute("update clusters set document = ?2 where name = ?1", params![name, write_cluster(name, cluster)?])
            .map_err(failed("writing a cluster"))?;
    }
    put_nodes(connection, name, &change.nodes)?;
    for node in &change.forget_nodes {
        connection
            .execute("delete from cluster_nodes where cluster = ?1 and name = ?2", params![name, node])
            .map_err(failed("forgetting a node"))?;
    }
    if let Some(operation) = &change.operation {
        put_operation(connection, name, operation)?;
        if operation.state != OperationState::Open {
            connection
                .execute(
                    "update clusters set open = null, cancel_requested = 0,
                                         delete_requested = delete_requested and not ?2 where name = ?1",
                    // A termination is itself what was requested.
                    params![name, operation.kind == OperationKind::Terminate],
                )
                .map_err(failed("ending an operation"))?;
        }
    }
    for (at, what) in &change.events {
        let what = write("cluster_events", name, what)?;
        connection
            .prepare_cached("insert into cluster_events (cluster, operation, at, what) values (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| statement.execute(params![name, number.cast_signed(), at.cast_signed(), what]))
            .map_err(failed("writing an event"))?;
    }
    if change.forget_cluster {
        for sql in ["delete from cluster_nodes where cluster = ?1", "delete from clusters where name = ?1"] {
            connection.execute(sql, [name]).map_err(failed("forgetting a cluster"))?;
        }
    }
    Ok(())
}

fn take_over(connection: &Connection, name: &str, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
    match stored_fence(connection, name)? {
        None => return Err(StoreError::Gone),
        Some(stored) if stored != expected => return Err(StoreError::Overtaken),
        Some(_) => {}
    }
    let number = open_number(connection, name)?.ok_or(StoreError::Overtaken)?;
    let Some(mut operation) = operation(connection, name, number)? else { return Err(StoreError::Gone) };
    operation.runner = runner.to_owned();
    put_operation(connection, name, &operation)?;
    let fence = new_fence(connection)?;
    connection
        .execute("update clusters set fence = ?2 where name = ?1", params![name, fence.0.cast_signed()])
        .map_err(failed("taking an operation over"))?;
    Ok(fence)
}

#[async_trait]
impl ClusterStore for SqliteClusterStore {
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError> {
        self.database.read(|connection| {
            let names: Vec<String> = connection
                .prepare_cached("select name from clusters order by name")
                .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
                .map_err(failed("listing clusters"))?;
            let mut clusters = Vec::new();
            for name in names {
                clusters.extend(load(connection, &name, false)?);
            }
            Ok(clusters)
        })
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError> {
        let name = name.to_string();
        self.database.read(move |connection| {
            // One transaction, so that cluster, nodes and operation are of one moment.
            let transaction = connection.unchecked_transaction().map_err(failed("reading a cluster"))?;
            load(&transaction, &name, true)
        })
    }

    async fn begin(&self, beginning: Begin) -> Result<(Fence, u64), StoreError> {
        self.database.write(move |connection| begin(connection, beginning)).await
    }

    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
        let (name, runner) = (name.to_string(), runner.to_owned());
        self.database.write(move |connection| take_over(connection, &name, expected, &runner)).await
    }

    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError> {
        let name = name.to_string();
        self.database.write(move |connection| commit(connection, &name, fence, &change)).await
    }

    async fn request(&self, name: &ClusterName, operation: u64, requests: Requests) -> Result<bool, StoreError> {
        let name = name.to_string();
        self.database
            .write(move |connection| {
                connection
                    .execute(
                        "update clusters set cancel_requested = max(cancel_requested, ?3),
                                         delete_requested = max(delete_requested, ?4) where name = ?1 and open = ?2",
                        params![name, operation.cast_signed(), requests.cancel, requests.delete],
                    )
                    .map(|changed| changed == 1)
                    .map_err(failed("writing a request"))
            })
            .await
    }

    async fn withdraw(&self, name: &ClusterName) -> Result<bool, StoreError> {
        let name = name.to_string();
        self.database
            .write(move |connection| {
                connection
                    .execute(
                        "update clusters set delete_requested = 0 where name = ?1 and delete_requested = 1",
                        [name],
                    )
                    .map(|changed| changed == 1)
                    .map_err(failed("withdrawing a request"))
            })
            .await
    }

    async fn requests(&self, name: &ClusterName, fence: Fence) -> Result<Option<Requests>, StoreError> {
        let name = name.to_string();
        self.database.read(move |connection| {
            connection
                .query_row(
                    "select cancel_requested, delete_requested from clusters where name = ?1 and fence = ?2",
                    params![name, fence.0.cast_signed()],
                    |row| Ok(Requests { cancel: row.get(0)?, delete: row.get(1)? }),
                )
                .optional()
                .map_err(failed("reading requests"))
        })
    }

    async fn operations(&self, name: &ClusterName, limit: u32) -> Result<Vec<ClusterOperation>, StoreError> {
        let name = name.to_string();
        self.database.read(move |connection| {
            let rows: Vec<(i64, String)> = connection
                .prepare_cached(
                    "select number, document from cluster_operations where cluster = ?1 order by number desc limit ?2",
                )
                .and_then(|mut statement| {
                    statement.query_map(params![name, limit], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
                })
                .map_err(failed("reading operations"))?;
            rows.iter().map(|(number, text)| read("cluster_operations", &format!("{name}/{number}"), text)).collect()
        })
    }

    async fn events(
        &self,
        name: &ClusterName,
        operation: Option<u64>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ClusterEvent>, StoreError> {
        let cluster = name.clone();
        self.database.read(move |connection| {
            let rows: Vec<(i64, i64, i64, String)> = connection
                .prepare_cached(
                    "select sequence, operation, at, what from cluster_events
                     where cluster = ?1 and (?2 is null or operation = ?2) and sequence > ?3 \
                     order by sequence limit ?4",
                )
                .and_then(|mut statement| {
                    statement
                        .query_map(
                            params![cluster.as_str(), operation.map(u64::cast_signed), after.cast_signed(), limit],
                            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
                        )?
                        .collect()
                })
                .map_err(failed("reading events"))?;
            rows.into_iter()
                .map(|(sequence, operation, at, what)| {
                    Ok(ClusterEvent {
                        sequence: sequence.cast_unsigned(),
                        cluster: cluster.clone(),
                        operation: operation.cast_unsigned(),
                        at: at.cast_unsigned(),
                        what: read("cluster_events", &sequence.to_string(), &what)?,
                    })
                })
                .collect()
        })
    }

    async fn runner_lives(&self, runner: &str) -> bool {
        self.state.runner_lives(runner)
    }
}
