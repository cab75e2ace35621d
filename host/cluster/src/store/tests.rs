use std::collections::BTreeMap;

use windlass_lifecycle::{Durability, StateDirectory};

use super::*;
use crate::record::{ClusterState, OperationKind, OperationState, Stage};
use crate::specification::ClusterSpecification;

fn cluster(name: &str) -> Cluster {
    let name: ClusterName = name.parse().unwrap();
    Cluster {
        specification: ClusterSpecification::new(name.clone(), "fr-par-1".parse().unwrap()),
        name,
        state: ClusterState::Creating,
        reasons: Vec::new(),
        left: Vec::new(),
        last_index: BTreeMap::new(),
        created_at: 1,
        updated_at: 1,
    }
}

fn operation(kind: OperationKind) -> ClusterOperation {
    ClusterOperation {
        number: 0,
        kind,
        state: OperationState::Open,
        stage: Stage::Validate,
        runner: "1-abc".into(),
        policies: serde_json::json!([]),
        counts: BTreeMap::new(),
        force: false,
        recovery: None,
        reasons: Vec::new(),
        began_at: 1,
        ended_at: None,
    }
}

fn begin(name: &str, expected: Option<Fence>, nodes: &[u32]) -> Begin {
    let cluster = cluster(name);
    let nodes = nodes.iter().map(|index| Node::planned(&cluster.name, &"web".parse().unwrap(), *index)).collect();
    Begin { expected, nodes, cluster, operation: operation(OperationKind::Create) }
}

fn closing(number: u64, state: OperationState) -> Change {
    Change {
        operation: Some(ClusterOperation { number, state, ..operation(OperationKind::Create) }),
        ..Change::default()
    }
}

struct Store {
    _folder: tempfile::TempDir,
    state: StateDirectory,
    store: SqliteClusterStore,
    farm: ClusterName,
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let store = SqliteClusterStore::open(&state, Durability::Process).unwrap();
    Store { _folder: folder, state, store, farm: "farm".parse().unwrap() }
}

#[tokio::test]
async fn what_is_written_is_read_again_also_by_another_process() {
    let Store { state, store, farm, _folder } = store();
    let (fence, number) = store.begin(begin("farm", None, &[2, 10, 1])).await.unwrap();
    assert_eq!(number, 1);
    let what = ClusterHappening::StoppingQuietly;
    store.commit(&farm, fence, Change { events: vec![(7, what.clone())], ..Change::default() }).await.unwrap();
    let other = SqliteClusterStore::open(&state, Durability::Full).unwrap();
    let stored = other.cluster(&farm).await.unwrap().unwrap();
    let indexes: Vec<u32> = stored.nodes.iter().map(|node| node.index).collect();
    assert_eq!(indexes, [1, 2, 10], "in the order of their numbers, not of their digits");
    assert_eq!((stored.open.unwrap().number, stored.fence), (1, fence));
    let events = other.events(&farm, Some(1), 0, 10).await.unwrap();
    assert_eq!((events[0].at, &events[0].what), (7, &what));
    assert_eq!(other.events(&farm, None, events[0].sequence, 10).await.unwrap(), []);
}

#[tokio::test]
async fn one_operation_per_cluster_at_a_time() {
    let Store { store, farm, _folder, .. } = store();
    let (fence, _) = store.begin(begin("farm", None, &[])).await.unwrap();
    assert!(matches!(store.begin(begin("farm", None, &[])).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.begin(begin("farm", Some(fence), &[])).await, Err(StoreError::Overtaken)), "one is open");
    store.commit(&farm, fence, closing(1, OperationState::Done)).await.unwrap();
    let (second, number) = store.begin(begin("farm", Some(fence), &[])).await.unwrap();
    assert_eq!(number, 2);
    assert!(matches!(store.begin(begin("farm", Some(fence), &[])).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.commit(&farm, fence, Change::default()).await, Err(StoreError::Overtaken)));
    store.commit(&farm, second, Change::default()).await.unwrap();
}

#[tokio::test]
async fn who_was_overtaken_can_write_no_more() {
    let Store { store, farm, _folder, .. } = store();
    let (old, _) = store.begin(begin("farm", None, &[1])).await.unwrap();
    let new = store.take_over(&farm, old, "2-def").await.unwrap();
    let forgets = || Change { forget_nodes: vec!["farm-web-1".into()], ..Change::default() };
    assert!(matches!(store.commit(&farm, old, forgets()).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.take_over(&farm, old, "3-ghi").await, Err(StoreError::Overtaken)));
    let stored = store.cluster(&farm).await.unwrap().unwrap();
    assert_eq!((stored.nodes.len(), stored.open.unwrap().runner.as_str()), (1, "2-def"));
    store.commit(&farm, new, forgets()).await.unwrap();
    assert_eq!(store.cluster(&farm).await.unwrap().unwrap().nodes, []);
}

#[tokio::test]
async fn a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history() {
    let Store { store, farm, _folder, .. } = store();
    let (first, _) = store.begin(begin("farm", None, &[1])).await.unwrap();
    let mut change = closing(1, OperationState::Done);
    change.forget_cluster = true;
    change.events.push((9, ClusterHappening::StoppingQuietly));
    store.commit(&farm, first, change).await.unwrap();
    assert!(store.cluster(&farm).await.unwrap().is_none());
    assert!(matches!(store.commit(&farm, first, Change::default()).await, Err(StoreError::Gone)));
    assert!(matches!(store.begin(begin("farm", Some(first), &[])).await, Err(StoreError::Gone)));
    assert_eq!(store.operations(&farm, 10).await.unwrap().len(), 1);
    assert_eq!(store.events(&farm, None, 0, 10).await.unwrap().len(), 1);
    // A later cluster of the same name is another one: the old fence says nothing about it.
    let (second, number) = store.begin(begin("farm", None, &[])).await.unwrap();
    assert_eq!((number, second == first), (2, false));
    assert!(matches!(store.commit(&farm, first, Change::default()).await, Err(StoreError::Overtaken)));
}

#[tokio::test]
async fn a_wish_to_cancel_ends_with_its_operation_and_one_to_delete_stays() {
    let Store { store, farm, _folder, .. } = store();
    let (fence, _) = store.begin(begin("farm", None, &[])).await.unwrap();
    assert!(store.wish(&farm, Wishes { cancel: true, delete: false }).await.unwrap());
    assert!(store.wish(&farm, Wishes { cancel: false, delete: true }).await.unwrap());
    assert_eq!(store.wishes(&farm, fence).await.unwrap(), Some(Wishes { cancel: true, delete: true }));
    assert_eq!(store.wishes(&farm, Fence(999)).await.unwrap(), None);
    store.commit(&farm, fence, closing(1, OperationState::Done)).await.unwrap();
    assert_eq!(store.cluster(&farm).await.unwrap().unwrap().wishes, Wishes { cancel: false, delete: true });
    assert!(!store.wish(&"other".parse().unwrap(), Wishes::default()).await.unwrap());
}

#[tokio::test]
async fn old_operations_are_forgotten_with_their_events() {
    let Store { store, farm, _folder, .. } = store();
    let mut fence = None;
    for number in 1..=120 {
        let (next, _) = store.begin(begin("farm", fence, &[])).await.unwrap();
        let mut change = closing(number, OperationState::Done);
        change.events.push((number, ClusterHappening::StoppingQuietly));
        store.commit(&farm, next, change).await.unwrap();
        fence = Some(next);
    }
    let operations = store.operations(&farm, 1_000).await.unwrap();
    assert_eq!((operations.len(), operations[0].number), (100, 120));
    assert_eq!(store.events(&farm, None, 0, 1_000).await.unwrap()[0].operation, 21);
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused_untouched() {
    let Store { state, store, _folder, .. } = store();
    drop(store);
    let file = state.path().join("clusters.sqlite");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteClusterStore::open(&state, Durability::Process).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_spoilt_row_is_named() {
    let Store { state, store, farm, _folder } = store();
    store.begin(begin("farm", None, &[1])).await.unwrap();
    let connection = rusqlite::Connection::open(state.path().join("clusters.sqlite")).unwrap();
    connection.execute("update nodes set document = '{'", []).unwrap();
    let error = store.cluster(&farm).await.unwrap_err().to_string();
    assert!(error.contains("nodes") && error.contains("farm-web-1"), "{error}");
}
