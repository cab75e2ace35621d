//! SIGKILL of a real process at every request of create, cleanup and rollback, before and after its effect. The next
//! start must end clean.
//!
//! The child is this test binary again (see [`child`]). The parent serves the simulator on a socket, holds the child's
//! nth request by a delay, and kills the child while it waits: before the effect (the request is never served), or
//! after it (its answer never arrives).

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_lifecycle::{
    Control, Lifecycle, Limits, OperationFilter, OperationId, OperationKind, OperationState, Options, Target,
};
use windlass_policy::Host;
use windlass_scaleway::Client;
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{Spawned, World, everything, host_in, number, owner, real_time, settings};

const JOB: &str = "WINDLASS_TEST_JOB";
const URL: &str = "WINDLASS_TEST_URL";
const STATE: &str = "WINDLASS_TEST_STATE";
const POLICIES: &str = "WINDLASS_TEST_POLICIES";
const NETWORK: &str = "WINDLASS_TEST_NETWORK";
/// Simulated time runs so much faster.
const SCALE: f64 = 100.0;

fn quick() -> Limits {
    let mut limits = Limits::default();
    limits.settle = Duration::from_millis(20);
    limits.poll_interval = Duration::from_millis(20);
    limits
}

fn open(client: Client, state: &Path, host: std::sync::Arc<Host>) -> Lifecycle {
    let mut options = Options::new(client, host, windlass_lifecycle::StateDirectory::open(state).unwrap());
    options.owner = Some(owner());
    options.limits = quick();
    Lifecycle::open(options).unwrap()
}

/// What a killed process was: does the job that its environment names.
#[test]
#[ignore = "the killed process of other tests"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let of = |variable: &str| std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is missing"));
    real_time(async {
        let client = Client::new(settings().with_api_url(&of(URL)).unwrap()).unwrap();
        let lifecycle = open(client, Path::new(&of(STATE)), host_in(Path::new(&of(POLICIES))));
        match job.split_once(' ') {
            Some(("cleanup", operation)) => {
                let target = Target::Operation(OperationId::parse(operation).unwrap());
                lifecycle.cleanup(&target, &Control::new()).await.unwrap();
            }
            _ => drop(lifecycle.create_server(everything(&of(NETWORK)), &Control::new()).await),
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Create,
    Cleanup,
    /// A create whose power-on is refused, so that everything is undone.
    Rollback,
}

struct Case {
    job: Job,
    /// The request at which the child is killed; absent: it isn't.
    nth: Option<u64>,
    effect: Effect,
}

struct Ended {
    /// How many requests the child sent.
    requests: u64,
    /// How many of them change something.
    changes: usize,
    killed: bool,
    state: OperationState,
}

async fn play(case: &Case, policies_folder: &Path) -> Ended {
    let name = format!("{:?} killed at request {:?} {:?}", case.job, case.nth, case.effect);
    let world = World::with(windlass_simulator::Options {
        seed: 21,
        time_scale: SCALE,
        ..windlass_simulator::Options::default()
    })
    .await;
    let simulator = world.simulator.clone();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn({
        let simulator = simulator.clone();
        async move { simulator.serve(listener).await }
    });
    let host = host_in(policies_folder);
    let state = world.folder.path();
    let job = if case.job == Job::Cleanup {
        let lifecycle = open(world.client.clone(), state, host.clone());
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        format!("cleanup {}", created.operation)
    } else {
        "create".to_owned()
    };
    simulator.clear_requests();
    if let Some(nth) = case.nth {
        simulator
            .add_fault(FaultRule {
                method: None,
                path: "/**".into(),
                nth: Some(nth),
                kind: FaultKind::Delay(Duration::from_secs(60)),
                effect: case.effect,
            })
            .unwrap();
    }
    if case.job == Job::Rollback {
        // Met once: the rollback's own action gets through.
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
        simulator.add_fault(refused.nth(1)).unwrap();
    }
    let variables = [
        (JOB, job.as_ref()),
        (URL, url.as_ref()),
        (STATE, state.as_ref()),
        (POLICIES, policies_folder.as_ref()),
        (NETWORK, world.network.as_ref()),
    ];
    let killed = Spawned::start("kill::child", &variables).kill_when_caught(&simulator).await;
    let requests = simulator.requests();
    let changes = requests.iter().filter(|request| request.method != "GET").count();
    let requests = requests.len() as u64;
    simulator.clear_faults();
    // The next start.
    let next = open(world.client.clone(), state, host);
    let resumed = next.resume(&Control::new()).await.unwrap();
    assert!(resumed.is_clean() && resumed.busy.is_empty(), "{name}: {resumed:?}");
    world.assert_closed(&next, &name);
    let newest = next.journal().operations(&OperationFilter::default()).unwrap();
    let row = newest.first();
    let ended = row.map_or(OperationState::Undone, |row| row.state);
    let kind = row.map(|row| row.kind);
    match (case.job, ended) {
        // It was killed while it looked, before it began.
        (Job::Cleanup, _) if kind == Some(OperationKind::CreateServer) => world.assert_complete(&name).await,
        // Also of a rollback, when the child died before it knew that the power-on was refused.
        (Job::Create | Job::Rollback, OperationState::Done) => world.assert_complete(&name).await,
        _ => world.assert_empty(&name),
    }
    server.abort();
    Ended { requests, changes, killed, state: ended }
}

fn at_every_request(job: Job) {
    let policies_folder = tempfile::tempdir().unwrap();
    let clean = Case { job, nth: None, effect: Effect::Before };
    let clean = real_time(play(&clean, policies_folder.path()));
    let total = clean.requests;
    assert!(clean.changes >= 5, "{job:?}: {total} requests, {} of them change something", clean.changes);
    // Some requests more than a clean run has: polls vary.
    let cases: Vec<Case> = (1..=total + 2)
        .flat_map(|nth| [Effect::Before, Effect::After].map(|effect| Case { job, nth: Some(nth), effect }))
        .collect();
    let next = AtomicU64::new(0);
    let ended = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..number("WINDLASS_KILL_THREADS", 4) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let end = real_time(play(case, policies_folder.path()));
                    ended.lock().unwrap().push(end);
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap();
    let killed = ended.iter().filter(|end| end.killed).count();
    let finished = ended.iter().filter(|end| end.killed && end.state == OperationState::Done).count();
    println!(
        "{job:?}: {total} requests, {killed} kills, {finished} of them finished by the next start, the rest undone"
    );
    assert_eq!(ended.len(), cases.len());
    // The busier the machine, the fewer polls a run has; what it changes is the same in each.
    assert!(killed >= 2 * clean.changes, "only {killed} of {} were killed", cases.len());
    if job == Job::Rollback {
        // Only those that died between the power-on and the note of its refusal; polls shift a few more to that place.
        assert!(finished * 4 <= killed, "{finished} of {killed} rollbacks were turned into creations");
    }
}

#[test]
fn a_create_killed_at_any_request_is_finished_or_undone_by_the_next_start() {
    at_every_request(Job::Create);
}

#[test]
fn a_cleanup_killed_at_any_request_is_finished_by_the_next_start() {
    at_every_request(Job::Cleanup);
}

#[test]
fn a_rollback_killed_at_any_request_is_finished_by_the_next_start() {
    at_every_request(Job::Rollback);
}
