//! The table of operation × stage × failing thing, generated. Every cell asserts the final state, the reasons, which
//! servers exist, and which hooks ran in which order; and that terminating afterwards leaves nothing.
//!
//! The failing thing is put exactly at the beginning of its step, by a store that acts when the step's beginning is
//! written. SIGKILL, which needs real processes, has its own file (`kill`).

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use windlass_cluster::{
    ClusterControl, ClusterEventKind, ClusterOutcome, ClusterState, ClusterStore, Error, OperationKind, OperationState,
    Requests, Stage,
};
use windlass_policy::Host;
use windlass_policy::slots::types::FailureClass;
use windlass_simulator::{Effect, FaultKind, FaultRule};
use windlass_test_guests::share;

use crate::support::{Behaviour, World, farm, host, quiet, run, scale, specification};

/// A step of an operation, and what can be broken in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) operation: OperationKind,
    pub(crate) stage: Stage,
    /// The step's words.
    step: &'static str,
    /// Method and path of a call that only this step (and what follows it) makes.
    call: Option<(&'static str, &'static str)>,
}

const TYPES: (&str, &str) = ("GET", "/instance/v1/zones/*/products/servers");
const CREATE_SERVER: (&str, &str) = ("POST", "/instance/v1/zones/*/servers");
const CREATE_IP: (&str, &str) = ("POST", "/instance/v1/zones/*/ips");
const ACTION: (&str, &str) = ("POST", "/instance/v1/zones/*/servers/*/action");
const LIST_SERVERS: (&str, &str) = ("GET", "/instance/v1/zones/*/servers");
const LIST_PRIVATE: (&str, &str) = ("GET", "/ipam/v1/regions/*/ips");
const DELETE_IP: (&str, &str) = ("DELETE", "/instance/v1/zones/*/ips/*");

const fn cell(
    operation: OperationKind,
    stage: Stage,
    step: &'static str,
    call: Option<(&'static str, &'static str)>,
) -> Cell {
    Cell { operation, stage, step, call }
}

use OperationKind::{Create, Scale, Terminate};

/// Every stage of every operation.
const CELLS: &[Cell] = &[
    cell(Create, Stage::Validate, "ask Scaleway", Some(TYPES)),
    cell(Create, Stage::Servers, "create servers", Some(CREATE_SERVER)),
    cell(Create, Stage::Servers, "create servers", Some(CREATE_IP)),
    cell(Create, Stage::Servers, "create servers", Some(ACTION)),
    cell(Create, Stage::Wait, "wait for servers", Some(LIST_SERVERS)),
    cell(Create, Stage::Prepare, "look up addresses", Some(LIST_PRIVATE)),
    cell(Create, Stage::Configure, "run the configure hook", None),
    cell(Create, Stage::Start, "run the start hook", None),
    cell(Scale, Stage::Validate, "ask Scaleway", Some(TYPES)),
    cell(Scale, Stage::Decommission, "run the decommission hook", None),
    cell(Scale, Stage::Resize, "remove servers", Some(DELETE_IP)),
    cell(Scale, Stage::Resize, "create servers", Some(CREATE_SERVER)),
    cell(Scale, Stage::Resize, "look up addresses", Some(LIST_PRIVATE)),
    cell(Scale, Stage::Configure, "run the configure hook", None),
    cell(Scale, Stage::Start, "run the start hook", None),
    cell(Terminate, Stage::Decommission, "run the decommission hook", None),
    cell(Terminate, Stage::Servers, "remove servers", Some(DELETE_IP)),
];

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(crate) enum Disturbance {
    Fault(FaultKind, Effect),
    Hook(Behaviour),
    Cancel,
    CancelFromElsewhere,
    Delete,
    /// The record vanishes from the store.
    Vanish,
}

impl Cell {
    /// The plain way to break the step: a refused call, or a hook that fails.
    fn plain(self) -> Disturbance {
        match self.call {
            Some(_) => Disturbance::Fault(FaultKind::PermissionDenied, Effect::Before),
            None => Disturbance::Hook(Behaviour::ExitCode(3)),
        }
    }

    /// What the failure says when Scaleway's answers are of this class.
    fn cause(self, class: FailureClass) -> (FailureClass, &'static str) {
        match self.step {
            // Several things may hold a server's remains: they are told, and no one class is theirs.
            "remove servers" => (FailureClass::Other, "could not be removed completely"),
            // The call that failed: what of its path comes after the last id.
            _ => (class, self.call.and_then(|(_, path)| path.rsplit('*').next()).unwrap()),
        }
    }

    fn hook(self) -> Option<&'static str> {
        match self.stage {
            Stage::Decommission => Some("decommission"),
            Stage::Configure => Some("configure"),
            Stage::Start => Some("start"),
            _ => None,
        }
    }

    /// The hooks that run until the step has failed, its own included.
    fn hooks(self) -> &'static [&'static str] {
        match (self.operation, self.stage) {
            (Create, Stage::Configure) => &["configure"],
            (Create, Stage::Start) => &["configure", "start"],
            (Scale, Stage::Decommission | Stage::Resize) | (Terminate, _) => &["decommission"],
            (Scale, Stage::Configure) => &["decommission", "configure"],
            (Scale, Stage::Start) => &["decommission", "configure", "start"],
            _ => &[],
        }
    }

    /// What the default policy leaves: the cluster's state, and the servers.
    fn recovered(self) -> (ClusterState, &'static [&'static str]) {
        match (self.operation, self.stage) {
            (Create, _) => (ClusterState::Error, &[]),
            (Scale, Stage::Validate) => (ClusterState::Active, BEFORE),
            (Scale, Stage::Decommission) => (ClusterState::Error, BEFORE),
            (Scale, Stage::Resize) => (ClusterState::Active, STAYING),
            (Scale, _) => (ClusterState::Error, SCALED),
            (Terminate, Stage::Decommission) => (ClusterState::Error, BEFORE),
            // Their servers go, and an address of each stays until it is terminated again.
            (Terminate, _) => (ClusterState::Error, &[]),
        }
    }
}

/// The cluster before a scaling and a termination: `db` grows by one and `web` shrinks by two.
const BEFORE: &[&str] = &["farm-db-1", "farm-web-1", "farm-web-2", "farm-web-3"];
const STAYING: &[&str] = &["farm-db-1", "farm-web-2"];
const SCALED: &[&str] = &["farm-db-1", "farm-db-2", "farm-web-2"];

/// The class of a failure that this kind makes.
fn class(kind: FaultKind) -> FailureClass {
    match kind {
        FaultKind::InternalServerError => FailureClass::ServerError,
        FaultKind::GatewayTimeout | FaultKind::GatewayUnavailable => FailureClass::Gateway,
        FaultKind::RateLimited => FailureClass::RateLimited,
        FaultKind::OutOfStock => FailureClass::OutOfStock,
        FaultKind::QuotaExceeded => FailureClass::QuotaExceeded,
        FaultKind::TransientState => FailureClass::TransientState,
        FaultKind::Locked => FailureClass::Locked,
        FaultKind::PreconditionFailed | FaultKind::PreconditionFailedBare => FailureClass::PreconditionFailed,
        FaultKind::PermissionDenied => FailureClass::PermissionDenied,
        FaultKind::NotFound => FailureClass::NotFound,
        FaultKind::DroppedConnection => FailureClass::Connection,
        FaultKind::MalformedBody => FailureClass::MalformedAnswer,
        other => panic!("{other} fails nothing"),
    }
}

pub(crate) struct Played {
    pub(crate) world: World,
    pub(crate) clusters: windlass_cluster::Clusters,
    pub(crate) ended: Result<ClusterOutcome, Error>,
    pub(crate) name: String,
    from_error: bool,
}

/// Plays one cell on a cluster that is active.
async fn play(cell: Cell, thing: &Disturbance, policies: Arc<Host>, seed: u64) -> Played {
    play_from(cell, thing, policies, seed, false).await
}

/// Plays one cell. Faults end when the recovery begins, so that only the stage fails. A cluster in `error` has a node
/// that was not configured.
async fn play_from(cell: Cell, thing: &Disturbance, policies: Arc<Host>, seed: u64, from_error: bool) -> Played {
    let name = format!("{} {} ({}): {thing:?} of {:?}", cell.operation, cell.stage, cell.step, cell.call);
    let world = World::new(seed).await;
    let mut wanted = specification(&[("db", 1), ("web", 3)]);
    for group in wanted.groups.values_mut() {
        group.private_networks = vec![world.network.clone()];
    }
    if cell.operation != Create {
        let web = "web".parse().unwrap();
        wanted.groups.get_mut(&web).unwrap().count = if from_error { 2 } else { 3 };
        let clusters = world.start();
        clusters.create(wanted.clone(), &quiet()).await.unwrap();
        if from_error {
            world.hooks.behave("configure", Behaviour::ExitCode(3));
            clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap_err();
            world.hooks.behaviours.lock().clear();
        }
        assert_eq!(world.servers(), BEFORE, "{name}");
        world.hooks.calls.lock().clear();
    }
    let control = ClusterControl::new();
    if let (Disturbance::Hook(behaviour), Some(hook)) = (thing, cell.hook()) {
        world.hooks.behave(hook, behaviour.clone());
    } else if let Some(hook) = cell.hook() {
        // Something else happens while the hook runs.
        world.hooks.behave(hook, Behaviour::Stuck);
    }
    let clusters = {
        let (simulator, control, thing) = (world.simulator.clone(), control.clone(), thing.clone());
        let (store, file) = (world.store(), world.folder.path().join("journal.sqlite"));
        let once = Arc::new(std::sync::atomic::AtomicBool::new(false));
        world.start_watched(
            policies,
            Box::new(move |event| {
                if matches!(event, ClusterEventKind::Recovering(_)) {
                    simulator.clear_faults();
                }
                let begins = matches!(event, ClusterEventKind::StepBegan { stage, step, .. }
                    if *stage == cell.stage && step == cell.step);
                if !begins || once.swap(true, std::sync::atomic::Ordering::Relaxed) {
                    return futures::future::ready(()).boxed();
                }
                // What comes from outside comes while a call of the step is under way.
                if let (Some((method, path)), false) = (cell.call, matches!(thing, Disturbance::Fault(..))) {
                    let slow = FaultKind::Delay(Duration::from_secs(10));
                    simulator.add_fault(FaultRule::new(method, path, slow)).unwrap();
                }
                let request = |requests| {
                    let store: Arc<dyn ClusterStore> = Arc::clone(&store);
                    async move {
                        let open = store.cluster(&farm()).await.unwrap().unwrap().open.unwrap().number;
                        assert!(store.request(&farm(), open, requests).await.unwrap());
                    }
                    .boxed()
                };
                match thing {
                    Disturbance::Fault(kind, effect) => {
                        let (method, path) = cell.call.unwrap();
                        let mut rule = FaultRule::new(method, path, kind);
                        rule.effect = effect;
                        simulator.add_fault(rule).unwrap();
                    }
                    Disturbance::Hook(_) => {}
                    Disturbance::Cancel => control.cancel(),
                    Disturbance::CancelFromElsewhere => return request(Requests { cancel: true, delete: false }),
                    Disturbance::Delete => return request(Requests { cancel: false, delete: true }),
                    Disturbance::Vanish => {
                        let connection = rusqlite::Connection::open(&file).unwrap();
                        connection
                            .execute_batch("delete from streams where family in ('cluster', 'cluster-node')")
                            .unwrap();
                    }
                }
                futures::future::ready(()).boxed()
            }),
        )
    };
    if matches!(thing, Disturbance::Delete | Disturbance::Vanish | Disturbance::CancelFromElsewhere) {
        // A hook that is stuck is ended by being dropped; the decommission hook of the termination that follows works.
        let hooks = world.hooks.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            hooks.behaviours.lock().clear();
        });
    }
    let ended = match cell.operation {
        Create => clusters.create(wanted, &control).await,
        Scale => clusters.scale(&farm(), &scale(&[("db", 2), ("web", 1)], &["farm-web-1"]), &control).await,
        Terminate => clusters.terminate(&farm(), false, &control).await,
    };
    Played { world, clusters, ended, name, from_error }
}

impl Played {
    /// The stage failed for this cause, in words of this kind, and the default policy's answer was carried out.
    async fn assert_recovered(&self, cell: Cell, cause: FailureClass, words: &str) {
        let name = &self.name;
        let (mut state, servers) = cell.recovered();
        // Before anything is changed, what did not serve still does not.
        if self.from_error && cell.stage == Stage::Validate {
            state = ClusterState::Error;
        }
        let Err(Error::Failed(failed)) = &self.ended else { panic!("{name}: {:?}", self.ended) };
        assert_eq!((failed.stage, failed.kind, failed.state), (cell.stage, cell.operation, Some(state)), "{name}");
        let status = self.clusters.status(&farm()).await.unwrap();
        assert_eq!(status.cluster.state, state, "{name}");
        assert_eq!(status.cluster.reasons, failed.reasons, "{name}: what the caller hears is what is stored");
        let first = format!("{} failed at the stage {}: ", cell.operation, cell.stage);
        assert!(failed.reasons[0].starts_with(&first), "{name}: {:?}", failed.reasons);
        assert_eq!(failed.cause.class, cause, "{name}: {:?}", failed.cause);
        assert!(!words.is_empty() && failed.reasons[0].contains(words), "{name}: {words} in {:?}", failed.reasons);
        assert!(
            failed.reasons.iter().any(|reason| reason.starts_with("provisioning of ")),
            "{name}: {:?}",
            failed.reasons
        );
        assert_eq!(self.world.servers(), servers, "{name}: {:?}", failed.reasons);
        let kept: Vec<String> = status
            .nodes
            .iter()
            .filter(|node| node.state != windlass_cluster::NodeState::Left)
            .map(|node| node.name.clone())
            .collect();
        assert_eq!(kept, servers, "{name}: the record knows what exists");
        assert!(status.operation.is_none(), "{name}: {:?}", status.operation);
        let operation = self.clusters.history(&farm()).await.unwrap().remove(0).operation;
        assert_eq!(operation.state, OperationState::Recovered, "{name}");
        if cell.operation != Terminate {
            self.world.assert_whole(name);
            assert_eq!(failed.left, Vec::<String>::new(), "{name}");
        }
    }

    fn assert_hooks(&self, hooks: &[&str]) {
        let mut ran = self.world.hooks.stages();
        // Attempts of one hook count once.
        ran.dedup();
        assert_eq!(ran, hooks, "{}", self.name);
    }

    /// Whatever happened, terminating leaves nothing.
    async fn assert_terminates(&self) {
        self.world.simulator.clear_faults();
        self.world.hooks.behaviours.lock().clear();
        match self.clusters.terminate(&farm(), false, &quiet()).await {
            Ok(_) | Err(Error::Unknown { .. }) => {}
            Err(error) => panic!("{}: terminating: {error}", self.name),
        }
        self.world.assert_empty(&self.name);
        // A removal that once left something is closed by the next start, which looks again.
        self.clusters.resume(&quiet()).await.unwrap();
        self.world.assert_closed(&self.name);
    }
}

#[test]
fn every_api_fault_at_every_stage_ends_as_the_table_says() {
    let faults = FaultKind::ALL.into_iter().flat_map(|kind| [(kind, Effect::Before), (kind, Effect::After)]);
    let called = CELLS.iter().filter(|cell| cell.call.is_some());
    let cases = called.flat_map(|cell| faults.clone().map(move |(kind, effect)| (cell, kind, effect)));
    for (cell, kind, effect) in share(cases) {
        run(async {
            let played = play(*cell, &Disturbance::Fault(kind, effect), host(), 7).await;
            let (method, path) = cell.call.unwrap();
            let creates = [CREATE_SERVER, CREATE_IP].contains(&(method, path));
            let believed = creates && kind.is_refusal() || method == "POST" && kind == FaultKind::RateLimited;
            if believed && effect == Effect::After {
                // It does not happen; should it, the cluster comes or not, and nothing is left in the end.
                return played.assert_terminates().await;
            }
            let only_late = matches!(kind, FaultKind::Delay(_));
            // What was done is found by looking, so a lost or wrong answer to a change fails nothing.
            let done_all_the_same = effect == Effect::After && method != "GET";
            if only_late || done_all_the_same {
                let outcome = played.ended.as_ref().unwrap_or_else(|error| panic!("{}: {error}", played.name));
                assert_eq!(outcome.state, OperationState::Done, "{}", played.name);
                let servers = match cell.operation {
                    Create => BEFORE,
                    Scale => SCALED,
                    Terminate => &[],
                };
                assert_eq!(played.world.servers(), servers, "{}", played.name);
            } else {
                let (cause, words) = cell.cause(class(kind));
                played.assert_recovered(*cell, cause, words).await;
                played.assert_hooks(cell.hooks());
            }
            played.assert_terminates().await;
        });
    }
}

#[test]
fn every_hook_that_fails_or_takes_too_long_ends_as_the_table_says() {
    for cell in CELLS.iter().filter(|cell| cell.hook().is_some()) {
        for (behaviour, cause, words) in [
            (Behaviour::ExitCode(3), FailureClass::HookFailed, "exit code 3"),
            // Asks to be tried again, until the retry policy's budget is spent.
            (Behaviour::ExitCode(75), FailureClass::HookFailed, "exit code 75"),
            (Behaviour::Hangs, FailureClass::HookTimedOut, "did not end within its time limit"),
            (Behaviour::OnlyGroup("none"), FailureClass::HookFailed, "exit code 1"),
        ] {
            run(async {
                let played = play(*cell, &Disturbance::Hook(behaviour.clone()), host(), 7).await;
                played.assert_recovered(*cell, cause, words).await;
                played.assert_hooks(cell.hooks());
                let attempts =
                    played.world.hooks.stages().iter().filter(|stage| Some(stage.as_str()) == cell.hook()).count();
                let again = matches!(behaviour, Behaviour::ExitCode(75));
                assert_eq!(attempts > 1, again, "{}: {attempts} attempts", played.name);
                played.assert_terminates().await;
            });
        }
    }
}

#[test]
fn every_stage_that_fails_in_a_cluster_in_error_ends_as_the_table_says() {
    for cell in CELLS.iter().filter(|cell| cell.operation != Create) {
        run(async {
            let played = play_from(*cell, &cell.plain(), host(), 7, true).await;
            let (cause, words) = match cell.plain() {
                Disturbance::Fault(kind, _) => cell.cause(class(kind)),
                _ => (FailureClass::HookFailed, "exit code 3"),
            };
            played.assert_recovered(*cell, cause, words).await;
            played.assert_hooks(cell.hooks());
            // What was not configured may hold data all the same.
            let decommissioned =
                played.world.hooks.log().iter().any(|line| line.contains("decommission farm-web-1 farm-web-3"));
            assert_eq!(decommissioned, cell.operation == Scale && cell.stage != Stage::Validate, "{}", played.name);
            played.assert_terminates().await;
        });
    }
}

#[test]
fn a_provisioning_policy_that_fails_in_any_way_changes_no_ending() {
    let behaviours = ["trap", "loop", "memory-bomb", "invalid-answer", "huge-answer"];
    for (position, behaviour) in behaviours.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let policies = crate::support::host_in(folder.path());
        let module = windlass_test_guests::HOSTILE.write_to(folder.path()).unwrap();
        let text = serde_json::json!({ "provisioning": { "path": module, "settings": { "behaviour": behaviour,
            "during": "odd-decisions" } } });
        policies.configure(&serde_json::from_value(text).unwrap()).unwrap();
        // Other cells for each behaviour.
        for cell in share(CELLS.iter().cycle().skip(position).take(CELLS.len())) {
            // It fails when the random word is odd, since one that always fails is refused when it is loaded.
            let named = (1..=16).any(|seed| {
                run(async {
                    let played = play(*cell, &cell.plain(), Arc::clone(&policies), seed).await;
                    let (cause, words) = match cell.plain() {
                        Disturbance::Fault(kind, _) => cell.cause(class(kind)),
                        _ => (FailureClass::HookFailed, "exit code 3"),
                    };
                    played.assert_recovered(*cell, cause, words).await;
                    played.assert_hooks(cell.hooks());
                    played.assert_terminates().await;
                    let Err(Error::Failed(failed)) = &played.ended else { unreachable!() };
                    failed.reasons.iter().any(|words| words.starts_with("provisioning: ") && words.contains("hostile"))
                })
            });
            assert!(named, "{cell:?} under {behaviour}: no reason names the policy that failed");
        }
    }
}

#[test]
fn calling_an_operation_off_at_any_stage_ends_as_the_table_says() {
    for thing in [Disturbance::Cancel, Disturbance::CancelFromElsewhere] {
        for cell in CELLS.iter().filter(|cell| cell.operation != Terminate) {
            run(async {
                let played = play(*cell, &thing, host(), 7).await;
                played.assert_recovered(*cell, FailureClass::Cancelled, "cancelled").await;
                played.assert_terminates().await;
            });
        }
    }
}

#[test]
fn a_termination_is_not_called_off() {
    for cell in CELLS.iter().filter(|cell| cell.operation == Terminate && cell.hook().is_none()) {
        for thing in [Disturbance::Cancel, Disturbance::CancelFromElsewhere, Disturbance::Delete] {
            run(async {
                let played = play(*cell, &thing, host(), 7).await;
                assert_eq!(played.ended.as_ref().unwrap().state, OperationState::Done, "{}", played.name);
                played.world.assert_empty(&played.name);
            });
        }
    }
}

#[test]
fn a_cluster_that_the_user_deletes_at_any_stage_stops_quietly_and_leaves_nothing() {
    for cell in CELLS.iter().filter(|cell| cell.operation != Terminate) {
        run(async {
            let played = play(*cell, &Disturbance::Delete, host(), 7).await;
            let outcome = played.ended.as_ref().unwrap_or_else(|error| panic!("{}: {error}", played.name));
            assert_eq!((outcome.state, &outcome.cluster), (OperationState::Cancelled, &None), "{}", played.name);
            played.world.assert_empty(&played.name);
            played.world.assert_closed(&played.name);
            assert!(played.clusters.list().await.unwrap().is_empty(), "{}", played.name);
            let history = played.clusters.history(&farm()).await.unwrap();
            let ended: Vec<_> = history.iter().take(2).map(|entry| entry.operation.state).collect();
            assert_eq!(ended, [OperationState::Done, OperationState::Cancelled], "{}", played.name);
            assert!(history[1].operation.recovery.is_none(), "{}: no policy was asked", played.name);
        });
    }
}

#[test]
fn a_cluster_whose_record_vanishes_at_any_stage_stops_quietly_and_leaves_nothing() {
    for cell in CELLS {
        run(async {
            let played = play(*cell, &Disturbance::Vanish, host(), 7).await;
            let outcome = played.ended.as_ref().unwrap_or_else(|error| panic!("{}: {error}", played.name));
            assert_eq!((outcome.state, &outcome.cluster), (OperationState::Cancelled, &None), "{}", played.name);
            // A creation that was journalled and never begun is closed by the next start; it made nothing.
            played.world.assert_empty(&played.name);
            played.clusters.resume(&quiet()).await.unwrap();
            played.world.assert_closed(&played.name);
        });
    }
}

/// What the default policy leaves of a scaling `db` 1 → 2, `web` 2 → 1, or of a creation, that failed at this stage.
pub(crate) fn recovered_servers(kind: OperationKind, stage: Stage, before: &[String]) -> (ClusterState, Vec<&str>) {
    let (state, _) = Cell { operation: kind, stage, step: "", call: None }.recovered();
    let servers = match (kind, stage) {
        (Create, _) => Vec::new(),
        (_, Stage::Validate | Stage::Decommission) => before.iter().map(String::as_str).collect(),
        (_, Stage::Resize) => vec!["farm-db-1", "farm-web-1"],
        _ => vec!["farm-db-1", "farm-db-2", "farm-web-1"],
    };
    (state, servers)
}
