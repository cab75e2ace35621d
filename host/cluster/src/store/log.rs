//! The store in a log: that of the journal, since the two make one history. The journal says what became of each node,
//! so neither is ever restored or copied without the other.
//!
//! A cluster is a stream of its name. Its nodes and operations are streams under that name, and its events are entries
//! of its operations. What a cluster has been stays when it is gone, so that its operations are numbered on.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use windlass_lifecycle::Journal;
use windlass_lifecycle::log::{self, Condition, Log, LogEntry, Query, Stream, Target, Write};

use super::{Begin, Change, ClusterStore, Fence, Requests, StoreError, StoredCluster};
use crate::failure::short;
use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEvent, ClusterEventKind, ClusterOperation, Node, OperationKind, OperationState};

/// Operations of one cluster name that are kept, with their events.
const KEPT_OPERATIONS: u64 = 100;
/// How long the history of a cluster is kept that is gone: 90 days, in milliseconds.
const KEPT_AFTER_THE_END: u64 = 90 * 24 * 3_600 * 1_000;

const CLUSTER: &str = "cluster";
const NODE: &str = "cluster-node";
const OPERATION: &str = "cluster-operation";
/// [`OperationState::Open`].
const OPEN: &str = "open";

#[derive(Debug)]
pub struct LogClusterStore {
    log: Arc<dyn Log>,
}

impl From<windlass_lifecycle::Error> for StoreError {
    fn from(error: windlass_lifecycle::Error) -> Self {
        use windlass_lifecycle::Error::JournalRow;
        match error {
            JournalRow { table, row, problem, .. } => Self::Row { table, row, problem },
            error => Self::Failed { what: "clusters", problem: error.to_string() },
        }
    }
}

/// What the stream of a cluster says beside it.
struct Head {
    fence: Fence,
    cluster: Value,
    /// The number of the operation that is open.
    open: Option<u64>,
    /// The number of the last one.
    last: u64,
    requests: Requests,
}

impl Head {
    fn of(stream: Stream) -> Self {
        let number = |field: &str| stream.document[field].as_u64();
        let flag = |field: &str| stream.document[field].as_bool().unwrap_or_default();
        let requests = Requests { cancel: flag("cancel"), delete: flag("delete") };
        let (open, last) = (number("open"), number("last").unwrap_or_default());
        Self { fence: stream.fence, open, last, requests, cluster: stream.document["cluster"].clone() }
    }
}

fn write<T: Serialize>(table: &'static str, row: &str, value: &T) -> Result<Value, StoreError> {
    serde_json::to_value(value).map_err(|error| StoreError::Row {
        table,
        row: row.to_owned(),
        problem: error.to_string(),
    })
}

/// A cluster with the URLs of its webhooks: the log is its owner's alone.
fn write_cluster(cluster: &Cluster) -> Result<Value, StoreError> {
    let whole = || {
        let mut document = serde_json::to_value(cluster)?;
        document["specification"] = cluster.specification.with_secrets()?;
        Ok(document)
    };
    whole().map_err(|error: serde_json::Error| StoreError::Row {
        table: "clusters",
        row: cluster.name.to_string(),
        problem: error.to_string(),
    })
}

fn read<T: DeserializeOwned>(table: &'static str, row: &str, document: Value) -> Result<T, StoreError> {
    serde_json::from_value(document).map_err(|error| StoreError::Row {
        table,
        row: row.chars().take(80).collect(),
        problem: short(error.to_string()),
    })
}

fn under(name: &ClusterName) -> String {
    format!("{name}/")
}

/// In the order of their numbers.
fn operation_id(name: &ClusterName, number: u64) -> String {
    format!("{name}/{number:020}")
}

fn head(name: &ClusterName, target: Target) -> log::Change {
    log::Change::of(CLUSTER, name.as_str(), target)
}

fn put(family: &'static str, id: String, document: Value) -> log::Change {
    log::Change { write: Write::Put(document), ..log::Change::of(family, id, Target::Any) }
}

fn put_nodes(name: &ClusterName, nodes: &[Node]) -> Result<Vec<log::Change>, StoreError> {
    let put = |node: &Node| {
        let document = write("nodes", &node.name, node)?;
        Ok(put(NODE, under(name) + &node.name, document))
    };
    nodes.iter().map(put).collect()
}

fn put_operation(name: &ClusterName, operation: &ClusterOperation) -> Result<log::Change, StoreError> {
    let id = operation_id(name, operation.number);
    let document = write("operations", &id, operation)?;
    Ok(put(OPERATION, id, document))
}

/// What is stored of clusters, out of the streams of one or of all.
fn stored(streams: Vec<Stream>) -> Result<Vec<StoredCluster>, StoreError> {
    let of_family = |family: &'static str| streams.iter().filter(move |stream| stream.family == family);
    let mut clusters = Vec::new();
    for stream in of_family(CLUSTER) {
        let Head { fence, cluster, open, requests, .. } = Head::of(stream.clone());
        if cluster.is_null() {
            continue;
        }
        let cluster: Cluster = read("clusters", &stream.id, cluster)?;
        let open = open.map(|number| operation_id(&cluster.name, number));
        let open = of_family(OPERATION).find(|operation| open.as_ref() == Some(&operation.id));
        let open = open.map(|stream| read("operations", &stream.id, stream.document.clone())).transpose()?;
        let nodes = of_family(NODE).map(|node| read("nodes", &node.id, node.document.clone()));
        let mut nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        nodes.sort_by_key(|node| (node.group.clone(), node.index));
        clusters.push(StoredCluster { cluster, nodes, open, requests, fence });
    }
    Ok(clusters)
}

impl LogClusterStore {
    /// The families of its streams in a log.
    pub const FAMILIES: &[&str] = &[CLUSTER, NODE, OPERATION];

    /// The store in this journal's log.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        Self { log: Arc::clone(journal.log()) }
    }

    fn head(&self, name: &ClusterName) -> Result<Option<Head>, StoreError> {
        let all = vec![Condition::is("id", name.as_str())];
        let found = self.log.streams(&Query { families: &[CLUSTER], all, ..Query::default() })?;
        Ok(found.into_iter().next().map(Head::of))
    }

    /// Writes, under the conditions of the first change, which is that of the cluster's own stream.
    async fn write(&self, name: &ClusterName, changes: Vec<log::Change>) -> Result<Fence, StoreError> {
        match self.log.append(changes).await? {
            Some(fence) => Ok(fence),
            None if self.head(name)?.is_none_or(|head| head.cluster.is_null()) => Err(StoreError::Gone),
            None => Err(StoreError::Overtaken),
        }
    }

    /// Forgets operations up to this one with their events, and the histories of clusters that have been gone for long.
    async fn forget(&self, name: &ClusterName, oldest: u64, now: u64) -> Result<(), StoreError> {
        let operations = |all| Query { families: &[OPERATION], all, ..Query::default() };
        let old = vec![Condition::Under(under(name)), Condition::Below("number", oldest.saturating_add(1))];
        self.log.forget(operations(old)).await?;
        let before = now.saturating_sub(KEPT_AFTER_THE_END);
        let all = vec![Condition::Known("cluster").not(), Condition::Below("began_at", before)];
        let gone = Query { families: &[CLUSTER], all, ..Query::default() };
        for Stream { id, .. } in self.log.streams(&gone)? {
            self.log.forget(operations(vec![Condition::Under(format!("{id}/"))])).await?;
        }
        self.log.forget(gone).await?;
        Ok(())
    }
}

#[async_trait]
impl ClusterStore for LogClusterStore {
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError> {
        let all = vec![Condition::Any(vec![Condition::Known("cluster"), Condition::is("state", OPEN)])];
        let mut clusters =
            stored(self.log.streams(&Query { families: &[CLUSTER, OPERATION], all, ..Query::default() })?)?;
        clusters.sort_by(|one, other| one.cluster.name.cmp(&other.cluster.name));
        Ok(clusters)
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError> {
        // Its nodes, which have a role, and the operation that is open.
        let of_it = Condition::Any(vec![Condition::Known("role"), Condition::is("state", OPEN)]);
        let of_it = Condition::All(vec![Condition::Under(under(name)), of_it]);
        let all = vec![Condition::Any(vec![Condition::is("id", name.as_str()), of_it])];
        let streams = self.log.streams(&Query { families: &[CLUSTER, NODE, OPERATION], all, ..Query::default() })?;
        Ok(stored(streams)?.pop())
    }

    async fn begin(&self, begin: Begin) -> Result<(Fence, u64), StoreError> {
        let name = begin.cluster.name.clone();
        let number = 1 + self.head(&name)?.map_or(0, |head| head.last);
        let operation = ClusterOperation { number, state: OperationState::Open, ..begin.operation };
        let cluster = head(&name, if begin.expected.is_some() { Target::Existing } else { Target::Any }).set([
            ("cluster", write_cluster(&begin.cluster)?),
            ("open", json!(number)),
            ("last", json!(number)),
            ("cancel", json!(false)),
            ("delete", json!(false)),
            ("began_at", json!(operation.began_at)),
        ]);
        let exists = Condition::Known("cluster");
        let given = match begin.expected {
            Some(_) => vec![exists, Condition::Known("open").not()],
            None => vec![exists.not()],
        };
        let mut changes = vec![log::Change { given, fence: begin.expected, takes: true, ..cluster }];
        changes.push(put_operation(&name, &operation)?);
        changes.extend(put_nodes(&name, &begin.nodes)?);
        let fence = self.write(&name, changes).await?;
        self.forget(&name, number.saturating_sub(KEPT_OPERATIONS), operation.began_at).await?;
        Ok((fence, number))
    }

    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
        let open = self.head(name)?.ok_or(StoreError::Gone)?.open.ok_or(StoreError::Overtaken)?;
        let taken = head(name, Target::Existing);
        let given = vec![Condition::is("open", open)];
        let operation = log::Change::of(OPERATION, operation_id(name, open), Target::Existing);
        let operation = operation.set([("runner", json!(runner))]);
        self.write(name, vec![log::Change { given, fence: Some(expected), takes: true, ..taken }, operation]).await
    }

    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError> {
        let ends_well = change.ends_well();
        let stored = self.head(name)?.ok_or(StoreError::Gone)?;
        let mut fields = Map::new();
        let mut set = |field: &str, value: Value| fields.insert(field.to_owned(), value);
        if let Some(cluster) = &change.cluster {
            set("cluster", write_cluster(cluster)?);
        }
        let mut changes = put_nodes(name, &change.nodes)?;
        let remove = |id| log::Change { write: Write::Remove, ..log::Change::of(NODE, id, Target::IfExisting) };
        changes.extend(change.forget_nodes.iter().map(|node| remove(under(name) + node)));
        if let Some(operation) = &change.operation {
            changes.push(put_operation(name, operation)?);
            if operation.state != OperationState::Open {
                set("open", Value::Null);
                set("cancel", json!(false));
                // A termination is itself what was requested.
                if operation.kind == OperationKind::Terminate {
                    set("delete", json!(false));
                }
            }
        }
        if !change.events.is_empty() {
            let event = |(at, what): &(u64, ClusterEventKind)| {
                write("events", name.as_str(), &json!({ "at": at, "what": what }))
            };
            let entries = change.events.iter().map(event).collect::<Result<_, _>>()?;
            let number = stored.open.unwrap_or(stored.last);
            let operation = log::Change::of(OPERATION, operation_id(name, number), Target::Existing);
            changes.push(log::Change { entries, ..operation });
        }
        if change.forget_cluster {
            for field in ["cluster", "open", "cancel", "delete"] {
                set(field, Value::Null);
            }
            let nodes = Query { families: &[NODE], all: vec![Condition::Under(under(name))], ..Query::default() };
            changes.extend(self.log.streams(&nodes)?.into_iter().map(|node| remove(node.id)));
        }
        let mut given = vec![Condition::Known("cluster")];
        given.extend(ends_well.then(|| Condition::is("cancel", false)));
        let write = Write::Set(fields);
        changes.insert(0, log::Change { given, fence: Some(fence), write, ..head(name, Target::Existing) });
        let written = self.write(name, changes).await.map(drop);
        if ends_well
            && matches!(written, Err(StoreError::Overtaken))
            && self.head(name)?.is_some_and(|head| head.fence == fence && head.requests.cancel)
        {
            return Err(StoreError::Cancelled);
        }
        written
    }

    async fn request(&self, name: &ClusterName, operation: u64, requests: Requests) -> Result<bool, StoreError> {
        let requested = [("cancel", requests.cancel), ("delete", requests.delete)].into_iter().filter(|(_, is)| *is);
        let write = Write::Set(requested.map(|(field, is)| (field.to_owned(), json!(is))).collect());
        let given = vec![Condition::is("open", operation)];
        Ok(self.log.append(vec![log::Change { given, write, ..head(name, Target::Existing) }]).await?.is_some())
    }

    async fn withdraw(&self, name: &ClusterName) -> Result<bool, StoreError> {
        let withdrawn = head(name, Target::Existing).set([("delete", json!(false))]);
        let given = vec![Condition::is("delete", true)];
        Ok(self.log.append(vec![log::Change { given, ..withdrawn }]).await?.is_some())
    }

    async fn requests(&self, name: &ClusterName, fence: Fence) -> Result<Option<Requests>, StoreError> {
        let head = self.head(name)?.filter(|head| head.fence == fence && !head.cluster.is_null());
        Ok(head.map(|head| head.requests))
    }

    async fn operations(&self, name: &ClusterName, limit: u32) -> Result<Vec<ClusterOperation>, StoreError> {
        let all = vec![Condition::Under(under(name))];
        let query = Query { families: &[OPERATION], all, newest_first: true, limit: Some(limit), ..Query::default() };
        let found = self.log.streams(&query)?.into_iter();
        found.map(|stream| read("operations", &stream.id, stream.document)).collect()
    }

    async fn events(
        &self,
        name: &ClusterName,
        operation: Option<u64>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ClusterEvent>, StoreError> {
        let of = match operation {
            Some(number) => Condition::is("id", operation_id(name, number)),
            None => Condition::Under(under(name)),
        };
        let all = vec![of, Condition::After(after)];
        let query = Query { families: &[OPERATION], all, limit: Some(limit), ..Query::default() };
        let event = |LogEntry { id, number: sequence, mut document }: LogEntry| {
            let row = sequence.to_string();
            let operation = id.rsplit('/').next().and_then(|number| number.parse().ok()).unwrap_or_default();
            let what = read("events", &row, document["what"].take())?;
            let at = read("events", &row, document["at"].take())?;
            Ok(ClusterEvent { sequence, cluster: name.clone(), operation, at, what })
        };
        self.log.entries(&query)?.into_iter().map(event).collect()
    }

    async fn runner_lives(&self, runner: &str) -> bool {
        self.log.lives(runner)
    }
}
