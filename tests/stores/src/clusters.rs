//! What every store of clusters must keep.
//!
//! Each law is given a store in which nothing was ever kept under the name `farm`, which it may use.

use std::collections::BTreeMap;

use windlass_cluster::{
    Begin, Change, Cluster, ClusterEventKind, ClusterName, ClusterOperation, ClusterSpecification, ClusterState,
    ClusterStore, Counts, Fence, Node, NodeGroup, NodeGroupName, NodeRole, NodeState, OperationKind, OperationState,
    Recovery, Requests, Stage, StoreError,
};

/// The name of the cluster that the laws use.
pub const CLUSTER: &str = "farm";
/// Its group.
pub const GROUP: &str = "web";

fn farm() -> ClusterName {
    CLUSTER.parse().unwrap()
}

fn cluster() -> Cluster {
    let group: NodeGroupName = GROUP.parse().unwrap();
    let mut specification = ClusterSpecification::new(farm(), "fr-par-1".parse().unwrap());
    specification.groups.insert(group.clone(), NodeGroup::new(3, "DEV1-S", "ubuntu_noble"));
    Cluster {
        name: farm(),
        specification,
        state: ClusterState::Creating,
        reasons: Vec::new(),
        left: Vec::new(),
        last_index: BTreeMap::from([(group, 3)]),
        created_at: 1,
        updated_at: 1,
    }
}

fn operation(kind: OperationKind) -> ClusterOperation {
    ClusterOperation { policies: serde_json::json!([]), ..ClusterOperation::begun(kind, Stage::Validate, "1-abc", 1) }
}

/// The beginning of a creation with these nodes.
pub fn begin(expected: Option<Fence>, nodes: &[u32]) -> Begin {
    let cluster = cluster();
    let nodes = nodes.iter().map(|index| Node::planned(&cluster.name, &GROUP.parse().unwrap(), *index)).collect();
    Begin { expected, nodes, cluster, operation: operation(OperationKind::Create) }
}

fn closing(number: u64, state: OperationState) -> Change {
    Change {
        operation: Some(ClusterOperation { number, state, ..operation(OperationKind::Create) }),
        ..Change::default()
    }
}

/// `other` is the same store, as another process opens it.
pub async fn what_is_written_is_read_again_also_by_another_process(store: &dyn ClusterStore, other: &dyn ClusterStore) {
    let (fence, number) = store.begin(begin(None, &[2, 10, 1])).await.unwrap();
    assert_eq!(number, 1);
    let what = ClusterEventKind::StoppingQuietly;
    store.commit(&farm(), fence, Change { events: vec![(7, what.clone())], ..Change::default() }).await.unwrap();
    let stored = other.cluster(&farm()).await.unwrap().unwrap();
    let indexes: Vec<u32> = stored.nodes.iter().map(|node| node.index).collect();
    assert_eq!(indexes, [1, 2, 10], "in the order of their numbers, not of their digits");
    let open = stored.open.unwrap();
    assert_eq!((open.number, open.began_at, stored.fence), (1, 1, fence));
    assert_eq!((stored.cluster.state, stored.cluster.created_at), (ClusterState::Creating, 1));
    assert_eq!(stored.cluster.last_index, cluster().last_index);
    let events = other.events(&farm(), Some(1), 0, 10).await.unwrap();
    assert_eq!((events[0].at, &events[0].what), (7, &what));
    assert_eq!(other.events(&farm(), None, events[0].sequence, 10).await.unwrap(), []);
    let listed = other.clusters().await.unwrap();
    assert_eq!((listed.len(), listed[0].nodes.len()), (1, 0), "listed without its nodes");
}

pub async fn a_node_keeps_everything_that_is_known_of_it(store: &dyn ClusterStore) {
    let (fence, _) = store.begin(begin(None, &[1])).await.unwrap();
    let node = Node {
        role: NodeRole::Leaving,
        state: NodeState::Running,
        creation: windlass_lifecycle::OperationId::parse("farm-0123456789ab").ok(),
        server: Some("11111111-2222-4333-8444-555555555555".into()),
        server_type: Some("DEV1-S".into()),
        addresses: vec!["51.15.0.7".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        private_addresses: vec!["10.0.0.4".parse().unwrap()],
        decommission_began: true,
        decommissioned: true,
        configure_began: true,
        configured: true,
        started: true,
        problem: Some("why".into()),
        ..Node::planned(&farm(), &GROUP.parse().unwrap(), 1)
    };
    let change = Change { nodes: vec![node.clone()], ..Change::default() };
    store.commit(&farm(), fence, change).await.unwrap();
    assert_eq!(store.cluster(&farm()).await.unwrap().unwrap().nodes, [node]);
}

pub async fn what_a_recovery_is_to_do_is_read_as_it_was_written(store: &dyn ClusterStore) {
    use windlass_policy::slots::types::{Failure, FailureClass};
    let (fence, number) = store.begin(begin(None, &[1])).await.unwrap();
    let cause = Failure {
        class: FailureClass::HookFailed,
        message: "it ended with exit code 1".into(),
        method: None,
        path: None,
        status: Some(503),
        error_type: None,
        resource: None,
        ambiguous: true,
    };
    let recovery = Recovery {
        stage: Stage::Configure,
        cause,
        state: ClusterState::Error,
        delete: vec!["farm-web-1".into()],
        decided_by: "default".into(),
        reason: None,
        decision: "1".into(),
    };
    let mut change = closing(number, OperationState::Open);
    let group: NodeGroupName = GROUP.parse().unwrap();
    let wanted = change.operation.as_mut().unwrap();
    wanted.recovery = Some(recovery.clone());
    wanted.counts = BTreeMap::from([(group, Counts { before: 1, wanted: 3 })]);
    let wanted = wanted.clone();
    store.commit(&farm(), fence, change).await.unwrap();
    assert_eq!(store.cluster(&farm()).await.unwrap().unwrap().open, Some(wanted.clone()));
    // Also when it has ended: where the cluster stands follows from it.
    let ended = ClusterOperation { state: OperationState::Recovered, ended_at: Some(2), ..wanted };
    let change = Change { operation: Some(ended.clone()), ..Change::default() };
    store.commit(&farm(), fence, change).await.unwrap();
    assert_eq!(store.operations(&farm(), 1).await.unwrap(), [ended]);
}

pub async fn one_operation_per_cluster_at_a_time(store: &dyn ClusterStore) {
    let (fence, _) = store.begin(begin(None, &[])).await.unwrap();
    assert!(matches!(store.begin(begin(None, &[])).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.begin(begin(Some(fence), &[])).await, Err(StoreError::Overtaken)), "one is open");
    store.commit(&farm(), fence, closing(1, OperationState::Done)).await.unwrap();
    let (second, number) = store.begin(begin(Some(fence), &[])).await.unwrap();
    assert_eq!(number, 2);
    assert!(matches!(store.begin(begin(Some(fence), &[])).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.commit(&farm(), fence, Change::default()).await, Err(StoreError::Overtaken)));
    store.commit(&farm(), second, Change::default()).await.unwrap();
}

pub async fn of_two_that_begin_together_one_does(store: &dyn ClusterStore, other: &dyn ClusterStore) {
    let (one, two) = futures::future::join(store.begin(begin(None, &[])), other.begin(begin(None, &[]))).await;
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "{one:?} {two:?}");
    let lost = one.err().or(two.err());
    assert!(matches!(lost, Some(StoreError::Overtaken)), "{lost:?}");
}

/// `other` is the same store, as another process opens it.
pub async fn who_was_overtaken_can_write_no_more(store: &dyn ClusterStore, other: &dyn ClusterStore) {
    let (old, _) = store.begin(begin(None, &[1])).await.unwrap();
    let new = other.take_over(&farm(), old, "2-def").await.unwrap();
    let forgets = || Change { forget_nodes: vec!["farm-web-1".into()], ..Change::default() };
    assert!(matches!(store.commit(&farm(), old, forgets()).await, Err(StoreError::Overtaken)));
    assert!(matches!(store.take_over(&farm(), old, "3-ghi").await, Err(StoreError::Overtaken)));
    let stored = store.cluster(&farm()).await.unwrap().unwrap();
    assert_eq!((stored.nodes.len(), stored.open.unwrap().runner.as_str()), (1, "2-def"));
    other.commit(&farm(), new, forgets()).await.unwrap();
    assert_eq!(store.cluster(&farm()).await.unwrap().unwrap().nodes, []);
}

pub async fn a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history(store: &dyn ClusterStore) {
    let (first, _) = store.begin(begin(None, &[1])).await.unwrap();
    let mut change = closing(1, OperationState::Done);
    change.forget_cluster = true;
    change.events.push((9, ClusterEventKind::StoppingQuietly));
    store.commit(&farm(), first, change).await.unwrap();
    assert!(store.cluster(&farm()).await.unwrap().is_none());
    assert_eq!(store.clusters().await.unwrap(), []);
    assert!(matches!(store.commit(&farm(), first, Change::default()).await, Err(StoreError::Gone)));
    assert!(matches!(store.begin(begin(Some(first), &[])).await, Err(StoreError::Gone)));
    let operations = store.operations(&farm(), 10).await.unwrap();
    assert_eq!((operations.len(), operations[0].state), (1, OperationState::Done));
    assert_eq!(store.events(&farm(), None, 0, 10).await.unwrap().len(), 1);
    // A later cluster of the same name is another one: the old fence says nothing about it.
    let (second, number) = store.begin(begin(None, &[])).await.unwrap();
    assert_eq!((number, second == first), (2, false));
    assert_eq!(store.cluster(&farm()).await.unwrap().unwrap().nodes, [], "nothing of the first");
    assert!(matches!(store.commit(&farm(), first, Change::default()).await, Err(StoreError::Overtaken)));
}

pub async fn a_request_to_cancel_ends_with_its_operation_and_one_to_delete_stays(store: &dyn ClusterStore) {
    let (fence, number) = store.begin(begin(None, &[])).await.unwrap();
    assert!(store.request(&farm(), number, Requests { cancel: true, delete: false }).await.unwrap());
    assert!(store.request(&farm(), number, Requests { cancel: false, delete: true }).await.unwrap());
    assert_eq!(store.requests(&farm(), fence).await.unwrap(), Some(Requests { cancel: true, delete: true }));
    assert_eq!(store.requests(&farm(), Fence(999)).await.unwrap(), None);
    store.commit(&farm(), fence, closing(1, OperationState::Recovered)).await.unwrap();
    let requests = store.cluster(&farm()).await.unwrap().unwrap().requests;
    assert_eq!(requests, Requests { cancel: false, delete: true });
    assert!(!store.request(&"other".parse().unwrap(), 1, Requests::default()).await.unwrap());
}

pub async fn what_is_cancelled_before_its_end_is_not_stored_as_done(store: &dyn ClusterStore) {
    let (fence, number) = store.begin(begin(None, &[1])).await.unwrap();
    assert!(store.request(&farm(), number, Requests { cancel: true, delete: false }).await.unwrap());
    let refused = store.commit(&farm(), fence, closing(number, OperationState::Done)).await;
    assert!(matches!(refused, Err(StoreError::Cancelled)), "{refused:?}");
    let stored = store.cluster(&farm()).await.unwrap().unwrap();
    assert_eq!(stored.open.map(|open| open.state), Some(OperationState::Open), "nothing was written");
    store.commit(&farm(), fence, closing(number, OperationState::Recovered)).await.unwrap();
    assert!(store.cluster(&farm()).await.unwrap().unwrap().open.is_none());
}

pub async fn a_request_to_delete_ends_with_whatever_begins_next(store: &dyn ClusterStore) {
    const DELETE: Requests = Requests { cancel: false, delete: true };
    let nothing = Requests::default();
    let requests = async || store.cluster(&farm()).await.unwrap().unwrap().requests;
    let (fence, number) = store.begin(begin(None, &[])).await.unwrap();
    assert!(store.request(&farm(), number, DELETE).await.unwrap());
    store.commit(&farm(), fence, closing(number, OperationState::Recovered)).await.unwrap();
    assert_eq!(requests().await, DELETE, "until its termination begins");
    let (fence, number) = store.begin(begin(Some(fence), &[])).await.unwrap();
    assert_eq!(requests().await, nothing, "whatever begins takes its place");
    assert!(!store.request(&farm(), number - 1, DELETE).await.unwrap(), "what has ended takes no request");
    assert_eq!(requests().await, nothing);
    assert!(store.request(&farm(), number, DELETE).await.unwrap());
    assert!(store.withdraw(&farm()).await.unwrap());
    assert!(!store.withdraw(&farm()).await.unwrap(), "there is none any more");
    assert_eq!(requests().await, nothing);
    store.commit(&farm(), fence, closing(number, OperationState::Done)).await.unwrap();
    // A termination that fails has had its say.
    let mut terminate = begin(Some(fence), &[]);
    terminate.operation.kind = OperationKind::Terminate;
    let (fence, number) = store.begin(terminate).await.unwrap();
    store.request(&farm(), number, DELETE).await.unwrap();
    let mut failed = closing(number, OperationState::Recovered);
    failed.operation.as_mut().unwrap().kind = OperationKind::Terminate;
    store.commit(&farm(), fence, failed).await.unwrap();
    assert_eq!(requests().await, nothing);
    assert!(!store.withdraw(&"other".parse().unwrap()).await.unwrap());
}

/// `kept`: how many operations the store keeps of one name.
pub async fn old_operations_are_forgotten_with_their_events(store: &dyn ClusterStore, kept: u64) {
    let (mut fence, last) = (None, kept + 20);
    for number in 1..=last {
        let (next, _) = store.begin(begin(fence, &[])).await.unwrap();
        let mut change = closing(number, OperationState::Done);
        change.events.push((number, ClusterEventKind::StoppingQuietly));
        store.commit(&farm(), next, change).await.unwrap();
        fence = Some(next);
    }
    let operations = store.operations(&farm(), 1_000).await.unwrap();
    assert_eq!((operations.len() as u64, operations[0].number), (kept, last));
    assert_eq!(store.events(&farm(), None, 0, 1_000).await.unwrap()[0].operation, last - kept + 1);
}
