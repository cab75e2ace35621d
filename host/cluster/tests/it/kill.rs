//! SIGKILL of a real process after each write of its store, so between any two steps of every operation. The next start
//! must end what it finds: through the same handler, as the table says.
//!
//! The child is this test binary again (see [`child`]); its store stands still after the nth write and says so by a
//! file, and the parent kills it. Scaleway is simulated in the parent, on a socket.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use parking_lot::Mutex;
use windlass_cluster::{ClusterOptions, ClusterState, Clusters, Error, LogClusterStore, OperationKind, OperationState};
use windlass_lifecycle::{Lifecycle, Options, StateDirectory};
use windlass_policy::Host;
use windlass_scaleway::Client;

use crate::support::{
    AfterWrite, FakeHooks, WatchedStore, World, farm, host_in, owner, quiet, scale, settings, specification,
};
use crate::table::recovered_servers;

const JOB: &str = "WINDLASS_TEST_JOB";
const URL: &str = "WINDLASS_TEST_URL";
const STATE: &str = "WINDLASS_TEST_STATE";
const POLICIES: &str = "WINDLASS_TEST_POLICIES";
/// After how many writes the child stands still.
const STAND_STILL: &str = "WINDLASS_TEST_STAND_STILL";
const STANDS: &str = "stands-still";
/// Simulated time runs so much faster.
const SCALE: f64 = 200.0;

fn open(client: Client, state: &Path, policies: Arc<Host>, after_write: AfterWrite) -> Clusters {
    let state = StateDirectory::open(state).unwrap();
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state.clone());
    options.owner = Some(owner());
    options.limits.settle = Duration::from_millis(20);
    options.limits.poll_interval = Duration::from_millis(20);
    let lifecycle = Lifecycle::open(options).unwrap();
    let inner = Arc::new(LogClusterStore::of(lifecycle.journal()));
    let watched = WatchedStore::new(inner, Box::new(|_| futures::future::ready(()).boxed()));
    let store = Arc::new(WatchedStore { after_write, ..watched });
    let mut options = ClusterOptions::new(lifecycle, client, policies, store);
    options.hooks = Arc::new(FakeHooks::default());
    options.limits.watch_interval = Duration::from_millis(50);
    options.limits.poll_interval = Duration::from_millis(20);
    Clusters::new(options)
}

fn unwatched() -> AfterWrite {
    Box::new(|| futures::future::ready(()).boxed())
}

/// Runs a case on one thread in real time, and no longer than far more than any takes, also on a busy machine.
fn real_time<F: Future>(case: F) -> F::Output {
    const LIMIT: Duration = Duration::from_secs(300);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let case = runtime.block_on(async { tokio::time::timeout(LIMIT, case).await });
    case.unwrap_or_else(|_| panic!("the case has not ended within {LIMIT:?}"))
}

async fn perform(clusters: &Clusters, operation: &str) -> Result<(), Error> {
    match operation {
        "create" => clusters.create(specification(&[("db", 1), ("web", 2)]), &quiet()).await.map(drop),
        "scale" => clusters.scale(&farm(), &scale(&[("db", 2), ("web", 1)], &[]), &quiet()).await.map(drop),
        _ => clusters.terminate(&farm(), false, &quiet()).await.map(drop),
    }
}

/// What a killed process was: does the job that its environment names.
#[test]
#[ignore = "the killed process of other tests"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let of = |variable: &str| std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is missing"));
    let (state, nth) = (of(STATE), of(STAND_STILL).parse::<u64>().unwrap());
    let mark = Path::new(&state).join(STANDS);
    let count = AtomicU64::new(0);
    let stand_still: AfterWrite = Box::new(move || {
        if count.fetch_add(1, Ordering::Relaxed) + 1 < nth {
            return futures::future::ready(()).boxed();
        }
        std::fs::write(&mark, "").unwrap();
        // With all its tasks: nothing of it moves any more. The parent kills it, or its own end ends this.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    });
    real_time(async {
        let client = Client::new(settings().with_api_url(&of(URL)).unwrap()).unwrap();
        let clusters = open(client, Path::new(&state), host_in(Path::new(&of(POLICIES))), stand_still);
        perform(&clusters, &job).await.unwrap();
    });
}

/// A child that the test kills, and that never outlives it.
struct Spawned(Child);

impl Spawned {
    fn start(job: &str, nth: u64, url: &str, state: &Path, policies: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "kill::child", "--nocapture", "--test-threads=1"])
            .env(JOB, job)
            .env(STAND_STILL, nth.to_string())
            .env(URL, url)
            .env(STATE, state)
            .env(POLICIES, policies)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Kills it when it stands still. False when it ended by itself: there were not so many writes.
    async fn kill_when_still(&mut self, state: &Path) -> bool {
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "the child failed: {status}");
                return false;
            }
            if state.join(STANDS).exists() {
                self.0.kill().unwrap();
                assert_eq!(self.0.wait().unwrap().signal(), Some(9));
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the next start found and left.
#[derive(Debug)]
struct Ended {
    operation: OperationState,
    stage: String,
}

async fn play(job: &str, nth: u64, policies_folder: &Path) -> Option<Ended> {
    let name = format!("{job} killed after write {nth}");
    let world = World::with(windlass_simulator::Options {
        seed: 21,
        time_scale: SCALE,
        ..windlass_simulator::Options::default()
    })
    .await;
    let simulator = world.simulator.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move { simulator.serve(listener).await });
    let policies = host_in(policies_folder);
    let state = world.folder.path();
    if job != "create" {
        let clusters = open(world.client.clone(), state, Arc::clone(&policies), unwatched());
        perform(&clusters, "create").await.unwrap();
    }
    let before = world.servers();
    let killed = Spawned::start(job, nth, &url, state, policies_folder).kill_when_still(state).await;
    if !killed {
        server.abort();
        return None;
    }
    let next = open(world.client.clone(), state, policies, unwatched());
    let resumed = next.resume(&quiet()).await.unwrap();
    assert!(resumed.len() <= 1, "{name}: {resumed:?}");
    let operation = next.history(&farm()).await.unwrap().remove(0).operation;
    let status = next.status(&farm()).await;
    match operation.kind {
        OperationKind::Terminate => {
            assert_eq!(operation.state, OperationState::Done, "{name}: {resumed:?}");
            assert!(status.is_err(), "{name}: {status:?}");
            world.assert_empty(&name);
        }
        kind => {
            let status = status.unwrap();
            assert!(status.operation.is_none(), "{name}: still open: {:?}", status.operation);
            let servers = if operation.state == OperationState::Done {
                assert_eq!(status.cluster.state, ClusterState::Active, "{name}");
                if kind == OperationKind::Create {
                    vec!["farm-db-1", "farm-web-1", "farm-web-2"]
                } else {
                    vec!["farm-db-1", "farm-db-2", "farm-web-1"]
                }
            } else {
                let recovery = operation.recovery.clone().unwrap();
                let words = &status.cluster.reasons[0];
                assert!(words.contains("the process that ran the operation ended before it did"), "{name}: {words}");
                let (state, servers) = recovered_servers(kind, recovery.stage, &before);
                assert_eq!(status.cluster.state, state, "{name}: {:?}", status.cluster.reasons);
                servers
            };
            assert_eq!(world.servers(), servers, "{name}: {:?}", operation.reasons);
            world.assert_whole(&name);
            let known: Vec<&str> = status.nodes.iter().map(|node| node.name.as_str()).collect();
            assert_eq!(known, servers, "{name}");
        }
    }
    world.assert_closed(&name);
    // Whatever was left, terminating leaves nothing.
    if next.status(&farm()).await.is_ok() {
        next.terminate(&farm(), false, &quiet()).await.unwrap();
        world.assert_empty(&name);
    }
    server.abort();
    Some(Ended { operation: operation.state, stage: operation.stage.to_string() })
}

fn after_every_write(job: &str) {
    let policies_folder = tempfile::tempdir().unwrap();
    // Compiles the policies, once for all processes.
    drop(host_in(policies_folder.path()));
    let (next, over) = (AtomicU64::new(1), AtomicU64::new(u64::MAX));
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= over.load(Ordering::Relaxed) {
                        break;
                    }
                    match real_time(play(job, nth, policies_folder.path())) {
                        Some(end) => ended.lock().push((nth, end)),
                        None => drop(over.fetch_min(nth, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    let ended = ended.into_inner();
    let of = |state| ended.iter().filter(|(_, end)| end.operation == state).count();
    let mut stages: Vec<&str> = ended.iter().map(|(_, end)| end.stage.as_ref()).collect();
    stages.sort_unstable();
    stages.dedup();
    println!(
        "{job}: {} kills at {stages:?}: {} done, {} recovered",
        ended.len(),
        of(OperationState::Done),
        of(OperationState::Recovered)
    );
    assert!(ended.len() >= 8, "{job}: only {} kills", ended.len());
    let last = ended.iter().max_by_key(|(nth, _)| *nth).unwrap();
    assert_eq!(last.1.operation, OperationState::Done, "killed after its last write, it had ended: {last:?}");
}

#[test]
fn a_creation_killed_after_any_write_is_undone_by_the_next_start() {
    after_every_write("create");
}

#[test]
fn a_scaling_killed_after_any_write_is_recovered_by_the_next_start() {
    after_every_write("scale");
}

#[test]
fn a_termination_killed_after_any_write_is_finished_by_the_next_start() {
    after_every_write("terminate");
}
