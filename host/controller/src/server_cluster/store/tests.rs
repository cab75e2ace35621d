//! The laws of every store of clusters, and what only this one has to bear: conflicts, lost answers, an API server that
//! is away.

use std::sync::Arc;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_cluster::ClusterStore;
use windlass_test_stores::clusters as laws;

use super::*;

const PATH: &str = "/apis/infrastructure.windlass.dev/v1alpha1/namespaces/ci/serverclusters";

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Somebody else's write comes just before it.
    Overtaken,
    /// It is not done, and the API server says that it cannot now.
    Refused,
    /// It is done, and the answer is lost.
    LostAnswer,
    /// It is refused for good.
    Forbidden,
}

/// An API server with the objects of one kind in one namespace.
#[derive(Default)]
struct ApiServer {
    objects: Vec<Value>,
    version: u64,
    fates: Vec<Fate>,
    writes: u32,
    reads: u32,
}

type Answer = Result<Response<Body>, std::io::Error>;

fn answer(code: u16, body: &Value) -> Answer {
    let text = serde_json::to_vec(body).unwrap();
    Ok(Response::builder().status(code).header("content-type", "application/json").body(Body::from(text)).unwrap())
}

fn status(code: u16, reason: &str) -> Answer {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": reason,
        "code": code});
    answer(code, &body)
}

impl ApiServer {
    fn touch(&mut self, index: usize) {
        self.version += 1;
        self.objects[index]["metadata"]["resourceVersion"] = json!(self.version.to_string());
    }

    fn handle(&mut self, method: &Method, path: &str, body: &[u8]) -> Answer {
        let rest = path.strip_prefix(PATH).unwrap_or_else(|| panic!("{method} {path}")).trim_start_matches('/');
        let (name, part) = rest.split_once('/').unwrap_or((rest, ""));
        if name.is_empty() {
            let list = json!({"kind": "ServerClusterList", "apiVersion": "infrastructure.windlass.dev/v1alpha1",
                "metadata": {"resourceVersion": "1"}, "items": self.objects});
            return answer(200, &list);
        }
        let Some(index) = self.objects.iter().position(|object| object["metadata"]["name"] == name) else {
            return status(404, "NotFound");
        };
        if method == Method::GET {
            self.reads += 1;
            return answer(200, &self.objects[index]);
        }
        assert_eq!((method, part), (&Method::PUT, "status"), "only the status is written");
        let fate = (!self.fates.is_empty()).then(|| self.fates.remove(0));
        match fate {
            Some(Fate::Overtaken) => {
                self.objects[index]["metadata"]["annotations"] = json!({"touched": self.version.to_string()});
                self.touch(index);
            }
            Some(Fate::Refused) => return status(503, "ServiceUnavailable"),
            Some(Fate::Forbidden) => return status(403, "Forbidden"),
            Some(Fate::LostAnswer) | None => {}
        }
        let written: Value = serde_json::from_slice(body).unwrap();
        if written["metadata"]["resourceVersion"] != self.objects[index]["metadata"]["resourceVersion"] {
            return status(409, "Conflict");
        }
        self.writes += 1;
        self.objects[index]["status"] = written["status"].clone();
        self.touch(index);
        if fate == Some(Fate::LostAnswer) {
            return Err(std::io::Error::other("the connection was lost"));
        }
        answer(200, &self.objects[index])
    }
}

fn object(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ServerCluster",
        "metadata": {"name": name, "namespace": "ci", "uid": uid, "generation": 1, "resourceVersion": "0"},
        "spec": {"zone": "fr-par-1", "groups": [
            {"name": laws::GROUP, "count": 3, "types": ["DEV1-S"], "image": "ubuntu_noble"},
        ]},
    })
}

fn api_server() -> Arc<Mutex<ApiServer>> {
    Arc::new(Mutex::new(ApiServer { objects: vec![object(laws::CLUSTER, "uid-1")], ..ApiServer::default() }))
}

/// The store as one process has it.
fn store(server: &Arc<Mutex<ApiServer>>) -> KubernetesClusterStore {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            // As over a network: others have their turn meanwhile.
            tokio::time::sleep(Duration::from_millis(2)).await;
            server.lock().handle(&parts.method, parts.uri.path(), &bytes)
        }
    });
    let liveness = Liveness { identity: "me".into(), lease: None };
    KubernetesClusterStore::new(&Client::new(service, "ci"), "ci", liveness)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_read_again_also_by_another_process() {
    let server = api_server();
    laws::what_is_written_is_read_again_also_by_another_process(&store(&server), &store(&server)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_everything_that_is_known_of_it() {
    laws::a_node_keeps_everything_that_is_known_of_it(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_recovery_is_to_do_is_read_as_it_was_written() {
    laws::what_a_recovery_is_to_do_is_read_as_it_was_written(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn one_operation_per_cluster_at_a_time() {
    laws::one_operation_per_cluster_at_a_time(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_that_begin_together_one_does() {
    let server = api_server();
    laws::of_two_that_begin_together_one_does(&store(&server), &store(&server)).await;
}

#[tokio::test(start_paused = true)]
async fn who_was_overtaken_can_write_no_more() {
    let server = api_server();
    laws::who_was_overtaken_can_write_no_more(&store(&server), &store(&server)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history() {
    laws::a_cluster_that_is_gone_takes_no_writes_and_keeps_its_history(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_to_cancel_ends_with_its_operation_and_one_to_delete_stays() {
    laws::a_request_to_cancel_ends_with_its_operation_and_one_to_delete_stays(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_before_its_end_is_not_stored_as_done() {
    laws::what_is_cancelled_before_its_end_is_not_stored_as_done(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_to_delete_ends_with_whatever_begins_next() {
    laws::a_request_to_delete_ends_with_whatever_begins_next(&store(&api_server())).await;
}

#[tokio::test(start_paused = true)]
async fn old_operations_are_forgotten_with_their_events() {
    laws::old_operations_are_forgotten_with_their_events(&store(&api_server()), record::KEPT_OPERATIONS).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_comes_again_under_an_old_name_takes_no_writes_of_its_forerunner() {
    let server = api_server();
    let store = store(&server);
    let (old, _) = store.begin(laws::begin(None, &[1])).await.unwrap();
    server.lock().objects = vec![object(laws::CLUSTER, "uid-2")];
    let farm = laws::CLUSTER.parse().unwrap();
    assert!(matches!(store.commit(&farm, old, Change::default()).await, Err(StoreError::Gone)));
    let (new, number) = store.begin(laws::begin(None, &[])).await.unwrap();
    assert_eq!(number, 1);
    assert_ne!(old, new);
    assert!(matches!(store.commit(&farm, old, Change::default()).await, Err(StoreError::Overtaken)));
}

#[tokio::test(start_paused = true)]
async fn a_write_survives_conflicts_lost_answers_and_an_api_server_that_is_away() {
    for fates in [
        vec![Fate::Overtaken, Fate::Overtaken],
        vec![Fate::Refused; 4],
        vec![Fate::LostAnswer],
        vec![Fate::Refused, Fate::Overtaken, Fate::LostAnswer],
    ] {
        let server = api_server();
        let store = store(&server);
        server.lock().fates = fates.clone();
        // Begun once, though the answer was lost: done again it would find itself overtaken by itself.
        let (fence, _) =
            store.begin(laws::begin(None, &[1])).await.unwrap_or_else(|error| panic!("{fates:?}: {error}"));
        server.lock().fates = fates.clone();
        let what = windlass_cluster::ClusterEventKind::StoppingQuietly;
        let change = Change { events: vec![(7, what)], ..Change::default() };
        let farm = laws::CLUSTER.parse().unwrap();
        store.commit(&farm, fence, change).await.unwrap_or_else(|error| panic!("{fates:?}: {error}"));
        let events = store.events(&farm, None, 0, 10).await.unwrap();
        assert_eq!(events.len(), 1, "{fates:?}: written twice, or not at all");
        let touched = server.lock().objects[0]["metadata"]["annotations"]["touched"].is_string();
        assert_eq!(touched, fates.contains(&Fate::Overtaken), "the other's write stays");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_or_too_long_is_an_error_of_the_store() {
    let server = api_server();
    let store = store(&server);
    server.lock().fates = vec![Fate::Forbidden];
    let error = store.begin(laws::begin(None, &[])).await.unwrap_err();
    assert!(matches!(&error, StoreError::Failed { problem, .. } if problem.contains("Forbidden")), "{error}");
    for fate in [Fate::Refused, Fate::Overtaken] {
        server.lock().fates = vec![fate; 1_000];
        let began = Instant::now();
        let error = store.begin(laws::begin(None, &[])).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{fate:?}: {error}");
        assert!(began.elapsed() >= PATIENCE, "{fate:?}: patience is two minutes: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_come_together_are_put_into_one_and_each_is_there_when_it_returns() {
    let server = api_server();
    let store = Arc::new(store(&server));
    let numbers: Vec<u32> = (1..=200).collect();
    let (fence, _) = store.begin(laws::begin(None, &numbers)).await.unwrap();
    let (before, farm) = (server.lock().writes, laws::CLUSTER.parse::<ClusterName>().unwrap());
    let nodes = store.cluster(&farm).await.unwrap().unwrap().nodes;
    let writing = nodes.into_iter().map(|mut node| {
        let (store, farm, server) = (Arc::clone(&store), farm.clone(), Arc::clone(&server));
        async move {
            node.server = Some(format!("server of {}", node.name));
            let change = Change { nodes: vec![node.clone()], ..Change::default() };
            store.commit(&farm, fence, change).await.unwrap();
            let stored = server.lock().objects[0]["status"]["nodes"].to_string();
            assert!(stored.contains(&format!("\"server of {}\"", node.name)), "{} is not stored yet", node.name);
        }
    });
    futures::future::join_all(writing).await;
    let writes = server.lock().writes - before;
    assert!(writes <= 5, "200 changes at once cost {writes} writes");
}

#[tokio::test(start_paused = true)]
async fn an_open_operation_is_cancelled_by_its_number_and_deleted_with_its_object() {
    let server = api_server();
    let store = store(&server);
    let (fence, number) = store.begin(laws::begin(None, &[])).await.unwrap();
    let farm = laws::CLUSTER.parse().unwrap();
    let annotate = |value: &str| {
        server.lock().objects[0]["metadata"]["annotations"] = json!({"windlass.dev/cancel": value});
    };
    annotate("99");
    assert_eq!(store.requests(&farm, fence).await.unwrap(), Some(Requests::default()));
    annotate(&number.to_string());
    assert_eq!(store.requests(&farm, fence).await.unwrap(), Some(Requests { cancel: true, delete: false }));
    server.lock().objects[0]["metadata"]["deletionTimestamp"] = json!("2026-08-01T12:00:00Z");
    assert_eq!(store.requests(&farm, fence).await.unwrap(), Some(Requests { cancel: true, delete: true }));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_understood_is_named() {
    let server = api_server();
    let store = store(&server);
    store.begin(laws::begin(None, &[1])).await.unwrap();
    server.lock().objects[0]["status"]["nodes"][0]["state"] = json!("melted");
    let error = store.cluster(&laws::CLUSTER.parse().unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("nodes") && error.contains("farm-web-1") && error.contains("melted"), "{error}");
}

/// An API server that knows a Lease, or does not answer about it.
fn lease_server(holder: Option<&'static str>) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        match holder {
            Some(holder) => answer(
                200,
                &json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
                    "spec": {"holderIdentity": holder}}),
            ),
            None => Err(std::io::Error::other("no connection")),
        }
    });
    Client::new(service, "ci")
}

#[tokio::test(start_paused = true)]
async fn a_runner_lives_while_the_lease_names_it_and_nobody_is_declared_dead_without_looking() {
    let with = |lease: Option<Client>| {
        let lease = lease.map(|client| (Api::namespaced(client, "ci"), "l".to_owned()));
        let liveness = Liveness { identity: "me".into(), lease };
        KubernetesClusterStore::new(&lease_server(None), "ci", liveness)
    };
    assert_eq!(with(None).runner("1-abc"), "me");
    assert!(with(Some(lease_server(Some("other")))).runner_lives("other").await);
    assert!(!with(Some(lease_server(Some("me")))).runner_lives("other").await);
    assert!(with(Some(lease_server(None))).runner_lives("other").await, "the Lease cannot be read");
    assert!(!with(None).runner_lives("other").await, "nobody else can be at work");
}
