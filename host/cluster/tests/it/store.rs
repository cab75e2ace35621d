//! The laws of every store of clusters, and what only the one in a state directory has to bear.

use windlass_cluster::{Change, ClusterEventKind, ClusterName, ClusterStore, LogClusterStore};
use windlass_lifecycle::{Durability, Journal, StateDirectory};
use windlass_test_stores::clusters::{self as laws, begin};

struct Store {
    _folder: tempfile::TempDir,
    state: StateDirectory,
    store: LogClusterStore,
}

fn store() -> Store {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let store = LogClusterStore::of(&Journal::open(&state, Durability::Process).unwrap());
    Store { _folder: folder, state, store }
}

impl Store {
    fn other(&self) -> LogClusterStore {
        LogClusterStore::of(&Journal::open(&self.state, Durability::Full).unwrap())
    }
}

#[tokio::test]
async fn what_is_written_is_read_again_also_by_another_process() {
    let store = store();
    laws::what_is_written_is_read_again_also_by_another_process(&store.store, &store.other()).await;
}

#[tokio::test]
async fn a_node_keeps_everything_that_is_known_of_it() {
    laws::a_node_keeps_everything_that_is_known_of_it(&store().store).await;
}

#[tokio::test]
async fn what_a_recovery_is_to_do_is_read_as_it_was_written() {
    laws::what_a_recovery_is_to_do_is_read_as_it_was_written(&store().store).await;
}

#[tokio::test]
async fn one_operation_per_cluster_at_a_time() {
    laws::one_operation_per_cluster_at_a_time(&store().store).await;
}

#[tokio::test]
async fn of_two_that_begin_together_one_does() {
    let store = store();
    laws::of_two_that_begin_together_one_does(&store.store, &store.other()).await;
}

#[tokio::test]
async fn who_was_overtaken_can_write_no_more() {
    let store = store();
    laws::who_was_overtaken_can_write_no_more(&store.store, &store.other()).await;
}

#[tokio::test]
async fn a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history() {
    laws::a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history(&store().store).await;
}

#[tokio::test]
async fn a_request_to_cancel_ends_with_its_operation_and_one_to_delete_stays() {
    laws::a_request_to_cancel_ends_with_its_operation_and_one_to_delete_stays(&store().store).await;
}

#[tokio::test]
async fn what_is_cancelled_before_its_end_is_not_stored_as_done() {
    laws::what_is_cancelled_before_its_end_is_not_stored_as_done(&store().store).await;
}

#[tokio::test]
async fn a_request_to_delete_ends_with_whatever_begins_next() {
    laws::a_request_to_delete_ends_with_whatever_begins_next(&store().store).await;
}

#[tokio::test]
async fn old_operations_are_forgotten_with_their_events() {
    laws::old_operations_are_forgotten_with_their_events(&store().store, 100).await;
}

#[tokio::test]
async fn the_history_of_a_cluster_that_is_gone_is_forgotten_after_90_days_and_that_of_one_that_is_there_never() {
    const DAYS_90: u64 = 90 * 24 * 3_600 * 1_000;
    let Store { store, .. } = &store();
    let [gone, there]: [ClusterName; 2] = ["gone", "there"].map(|name| name.parse().unwrap());
    let begun = |name: &ClusterName, at: u64| {
        let mut begin = begin(None, &[]);
        (begin.cluster.name, begin.operation.began_at) = (name.clone(), at);
        begin.cluster.specification.name = name.clone();
        begin
    };
    for name in [&gone, &there] {
        let (fence, _) = store.begin(begun(name, 1_000)).await.unwrap();
        let change = Change {
            forget_cluster: *name == gone,
            events: vec![(1_000, ClusterEventKind::StoppingQuietly)],
            ..Change::default()
        };
        store.commit(name, fence, change).await.unwrap();
    }
    let kept = async |name: &ClusterName| {
        (store.operations(name, 10).await.unwrap().len(), store.events(name, None, 0, 10).await.unwrap().len())
    };
    store.begin(begun(&"another".parse().unwrap(), 1_000 + DAYS_90)).await.unwrap();
    assert_eq!((kept(&gone).await, kept(&there).await), ((1, 1), (1, 1)), "not before");
    store.begin(begun(&"third".parse().unwrap(), 1_001 + DAYS_90)).await.unwrap();
    assert_eq!((kept(&gone).await, kept(&there).await), ((0, 0), (1, 1)));
}

#[tokio::test]
async fn a_corrupt_row_is_named() {
    let Store { state, store, _folder } = store();
    let farm: ClusterName = laws::CLUSTER.parse().unwrap();
    store.begin(begin(None, &[1])).await.unwrap();
    let connection = rusqlite::Connection::open(state.path().join("journal.sqlite")).unwrap();
    connection.execute("update streams set document = '{\"role\": 1}' where family = 'cluster-node'", []).unwrap();
    let error = store.cluster(&farm).await.unwrap_err().to_string();
    assert!(error.contains("nodes") && error.contains("farm-web-1"), "{error}");
}
