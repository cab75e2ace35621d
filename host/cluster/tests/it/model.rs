//! A model of clusters: random operations, each with something that may go wrong in it, from whatever state the one
//! before has left, `error` included. After each step what a user was promised is checked against the simulated
//! Scaleway and what the hooks were asked, which know nothing of the code's own records.
//!
//! A story is a seed. `WINDLASS_MODEL_SEEDS=10000 cargo test -p windlass-cluster --test it model` runs so many, and
//! `WINDLASS_MODEL_FROM=77 WINDLASS_MODEL_SEEDS=1` one; a failure names its seed and tells its story.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    Begin, Change, ClusterControl, ClusterEvent, ClusterName, ClusterOperation, ClusterOutcome, ClusterState,
    ClusterStatus, ClusterStore, Clusters, Error, Fence, NodeState, Requests, StoreError, StoredCluster,
};
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{Behaviour, World, farm, host, quiet, run, scale, specification, zone};

/// What is asked for.
#[derive(Clone, Debug)]
enum Act {
    Create {
        db: u32,
        web: u32,
    },
    Scale {
        db: u32,
        web: u32,
        remove: Option<usize>,
    },
    Terminate {
        force: bool,
    },
    Cancel,
    Resume,
    Refresh,
    /// Somebody deletes a server at Scaleway.
    DeleteServer(usize),
    /// Somebody gives a server's address to another server.
    MoveAddress(usize),
}

/// What goes wrong in it.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    None,
    Hook(&'static str, Behaviour),
    Fault {
        method: &'static str,
        path: &'static str,
        nth: u32,
        kind: FaultKind,
        after: bool,
    },
    /// At the nth write: it is called off, by its caller or by another process.
    Cancel {
        at: u64,
        elsewhere: bool,
    },
    /// At the nth write another process requests its deletion, and dies.
    Delete {
        at: u64,
    },
    /// At the nth write the process dies.
    Crash {
        at: u64,
    },
    /// At the nth write another process requests its deletion, and both die.
    DeleteThenCrash {
        at: u64,
    },
    /// At the nth write it is left to the next start.
    Leave {
        at: u64,
    },
    /// From the nth write on the disk is full.
    DiskFull {
        at: u64,
    },
}

const STAGES: [&str; 3] = ["decommission", "configure", "start"];
const CALLS: [(&str, &str); 7] = [
    ("GET", "/instance/v1/zones/*/products/servers"),
    ("POST", "/instance/v1/zones/*/servers"),
    ("POST", "/instance/v1/zones/*/ips"),
    ("POST", "/instance/v1/zones/*/servers/*/action"),
    ("GET", "/instance/v1/zones/*/servers"),
    ("DELETE", "/instance/v1/zones/*/ips/*"),
    ("DELETE", "/instance/v1/zones/*/servers/*"),
];
const KINDS: [FaultKind; 5] = [
    FaultKind::InternalServerError,
    FaultKind::PermissionDenied,
    FaultKind::QuotaExceeded,
    FaultKind::DroppedConnection,
    FaultKind::GatewayTimeout,
];

fn act(random: &mut StdRng) -> Act {
    match random.random_range(0..22) {
        0..4 => Act::Create { db: random.random_range(0..2), web: random.random_range(1..4) },
        4..13 => Act::Scale {
            db: random.random_range(0..3),
            web: random.random_range(0..4),
            remove: random.random_bool(0.2).then(|| random.random_range(0..4)),
        },
        13..15 => Act::Terminate { force: random.random_bool(0.3) },
        15 => Act::Cancel,
        16 => Act::Resume,
        17 | 18 => Act::DeleteServer(random.random_range(0..4)),
        19 => Act::MoveAddress(random.random_range(0..4)),
        _ => Act::Refresh,
    }
}

fn trouble(random: &mut StdRng) -> Trouble {
    let at = random.random_range(1..25);
    match random.random_range(0..20) {
        0..5 => Trouble::None,
        5..10 => {
            let stage = STAGES[random.random_range(0..STAGES.len())];
            let behaviour = match random.random_range(0..4) {
                0 => Behaviour::ExitCode(75),
                1 => Behaviour::OnlyGroup("db"),
                2 => Behaviour::Hangs,
                _ => Behaviour::ExitCode(3),
            };
            Trouble::Hook(stage, behaviour)
        }
        10..13 => {
            let (method, path) = CALLS[random.random_range(0..CALLS.len())];
            let kind = KINDS[random.random_range(0..KINDS.len())];
            // A refusal is believed.
            let after = random.random_bool(0.3) && !kind.is_refusal();
            Trouble::Fault { method, path, nth: random.random_range(1..4), kind, after }
        }
        13 => Trouble::Cancel { at, elsewhere: random.random_bool(0.5) },
        14 => Trouble::Delete { at },
        15 => Trouble::DeleteThenCrash { at },
        16 | 17 => Trouble::Crash { at },
        18 => Trouble::Leave { at },
        _ => Trouble::DiskFull { at },
    }
}

/// What a store does at its nth write.
#[derive(Default)]
pub(crate) struct Turning {
    writes: AtomicU64,
    pub(crate) trouble: parking_lot::Mutex<Option<Trouble>>,
    /// The process stands still from now on.
    pub(crate) dead: CancellationToken,
    control: ClusterControl,
}

/// A store that makes trouble at a write.
struct TroubledStore {
    inner: Arc<dyn ClusterStore>,
    turning: Arc<Turning>,
}

impl std::fmt::Debug for TroubledStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl TroubledStore {
    /// Before a write: whether it fails.
    fn is_full(&self) -> bool {
        let count = self.turning.writes.load(Ordering::Relaxed) + 1;
        matches!(*self.turning.trouble.lock(), Some(Trouble::DiskFull { at }) if count >= at)
    }

    /// After a write.
    async fn written(&self, name: &ClusterName) {
        let count = self.turning.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let trouble = self.turning.trouble.lock().clone();
        let request = async |requests| {
            let open = self.inner.cluster(name).await.unwrap().and_then(|stored| stored.open);
            if let Some(open) = open {
                self.inner.request(name, open.number, requests).await.unwrap();
            }
        };
        match trouble {
            Some(Trouble::Cancel { at, elsewhere: false }) if at == count => self.turning.control.cancel(),
            Some(Trouble::Cancel { at, elsewhere: true }) if at == count => {
                request(Requests { cancel: true, delete: false }).await;
            }
            Some(Trouble::Delete { at }) if at == count => request(Requests { cancel: false, delete: true }).await,
            Some(Trouble::Leave { at }) if at == count => self.turning.control.leave(),
            Some(Trouble::DeleteThenCrash { at }) if at == count => {
                request(Requests { cancel: false, delete: true }).await;
                self.turning.dead.cancel();
                std::future::pending::<()>().await;
            }
            Some(Trouble::Crash { at }) if at == count => {
                self.turning.dead.cancel();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
    }
}

fn full() -> StoreError {
    StoreError::Failed { what: "writing", problem: "the disk is full".to_owned() }
}

#[async_trait]
impl ClusterStore for TroubledStore {
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError> {
        self.inner.clusters().await
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError> {
        self.inner.cluster(name).await
    }

    async fn begin(&self, begin: Begin) -> Result<(Fence, u64), StoreError> {
        if self.is_full() {
            return Err(full());
        }
        let name = begin.cluster.name.clone();
        let begun = self.inner.begin(begin).await?;
        self.written(&name).await;
        Ok(begun)
    }

    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
        if self.is_full() {
            return Err(full());
        }
        let fence = self.inner.take_over(name, expected, runner).await?;
        self.written(name).await;
        Ok(fence)
    }

    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError> {
        if self.is_full() {
            return Err(full());
        }
        self.inner.commit(name, fence, change).await?;
        self.written(name).await;
        Ok(())
    }

    async fn request(&self, name: &ClusterName, operation: u64, requests: Requests) -> Result<bool, StoreError> {
        self.inner.request(name, operation, requests).await
    }

    async fn withdraw(&self, name: &ClusterName) -> Result<bool, StoreError> {
        self.inner.withdraw(name).await
    }

    async fn requests(&self, name: &ClusterName, fence: Fence) -> Result<Option<Requests>, StoreError> {
        self.inner.requests(name, fence).await
    }

    async fn operations(&self, name: &ClusterName, limit: u32) -> Result<Vec<ClusterOperation>, StoreError> {
        self.inner.operations(name, limit).await
    }

    async fn events(
        &self,
        name: &ClusterName,
        operation: Option<u64>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ClusterEvent>, StoreError> {
        self.inner.events(name, operation, after, limit).await
    }

    async fn runner_lives(&self, runner: &str) -> bool {
        self.inner.runner_lives(runner).await
    }
}

/// What a user knows: what was asked for, and what is at Scaleway.
struct Model {
    world: World,
    /// Everything that happened, for whoever reads of a failure.
    story: Vec<String>,
    /// Servers that somebody else deleted.
    deleted: BTreeSet<String>,
    /// Whether a creation has ever ended well since the cluster was gone.
    established: bool,
    /// Whether the user has asked for its end, and for nothing else since.
    end_asked: bool,
    /// Whether data may be lost: that was said.
    forced: bool,
}

/// A process whose store makes trouble.
pub(crate) fn process(world: &World, turning: &Arc<Turning>) -> Clusters {
    let store = TroubledStore { inner: world.store(), turning: Arc::clone(turning) };
    world.start_with(host(), Arc::new(store))
}

/// Servers by their ids.
type Servers = BTreeMap<String, String>;

impl Model {
    async fn new(seed: u64) -> Self {
        let world = World::new(seed).await;
        let _ = world.hooks.simulator.set(world.simulator.clone());
        Self { world, story: Vec::new(), deleted: BTreeSet::new(), established: false, end_asked: false, forced: false }
    }

    fn servers(&self) -> Servers {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.world.resources().servers.iter().map(|server| (text(&server["id"]), text(&server["name"]))).collect()
    }

    /// Fails the case with its story.
    #[track_caller]
    fn check(&self, holds: bool, words: impl FnOnce() -> String) {
        assert!(holds, "{}\n{}", words(), self.story.join("\n"));
    }

    async fn step(&mut self, act: &Act, trouble: &Trouble) {
        self.story.push(format!("{act:?} with {trouble:?}"));
        let before = self.servers();
        let status_before = self.world.start().status(&farm()).await.ok();
        match act {
            Act::DeleteServer(nth) => return self.delete_server(*nth).await,
            Act::MoveAddress(nth) => return self.move_address(*nth).await,
            Act::Create { .. } if status_before.as_ref().is_some_and(|status| status.nodes.is_empty()) => {
                self.established = false;
            }
            Act::Terminate { force } => {
                self.end_asked = true;
                self.forced |= *force;
            }
            _ => {}
        }
        let turning = Arc::new(Turning::default());
        *turning.trouble.lock() = Some(trouble.clone());
        match trouble {
            Trouble::Hook(stage, behaviour) => self.world.hooks.behave(stage, behaviour.clone()),
            Trouble::Fault { method, path, nth, kind, after } => {
                let mut rule = FaultRule::new(*method, *path, *kind).nth((*nth).into());
                if *after {
                    rule.effect = Effect::After;
                }
                self.world.simulator.add_fault(rule).unwrap();
            }
            Trouble::Delete { .. } | Trouble::DeleteThenCrash { .. } => self.end_asked = true,
            _ => {}
        }
        let clusters = process(&self.world, &turning);
        let ended = tokio::select! {
            biased;
            () = turning.dead.cancelled() => None,
            ended = self.act(&clusters, act, &turning.control) => Some(ended),
        };
        drop(clusters);
        self.world.simulator.clear_faults();
        self.world.hooks.behaviours.lock().clear();
        let words = match &ended {
            None => "the process died".to_owned(),
            Some(Ok(outcome)) => format!("{outcome:?}"),
            Some(Err(error)) => error.to_string(),
        };
        self.story.push(format!("    → {words}; servers {:?}", self.servers().values().collect::<Vec<_>>()));
        if let Some(Err(Error::Store(error))) = &ended {
            self.check(self.servers() == before, || format!("{error}: nothing touched, it says"));
        }
        if let Some(Ok(Some(outcome))) = &ended
            && matches!(act, Act::Terminate { .. })
            && outcome.cluster.is_none()
        {
            self.check(self.servers().is_empty(), || "a finished termination leaves nothing".to_owned());
        }
        // The next start ends what was left open: only then the rest can be told.
        let next = self.world.start();
        let _ = next.resume(&quiet()).await;
        let ended_well = matches!(ended, Some(Ok(_)));
        self.laws(&next, act, ended_well, &before, status_before.as_ref()).await;
    }

    async fn act(
        &self,
        clusters: &Clusters,
        act: &Act,
        control: &ClusterControl,
    ) -> Result<Option<ClusterOutcome>, Error> {
        match act {
            Act::Create { db, web } => {
                clusters.create(specification(&[("db", *db), ("web", *web)]), control).await.map(Some)
            }
            Act::Scale { db, web, remove } => {
                // As the command line does.
                let status = clusters.status(&farm()).await?;
                let _ = clusters.withdraw(&farm()).await?;
                let node = remove.and_then(|nth| status.nodes.get(nth % status.nodes.len().max(1)));
                let remove: Vec<&str> = node.map(|node| node.name.as_str()).into_iter().collect();
                let counts = if remove.is_empty() { vec![("db", *db), ("web", *web)] } else { Vec::new() };
                clusters.scale(&farm(), &scale(&counts, &remove), control).await.map(Some)
            }
            Act::Terminate { force } => clusters.terminate(&farm(), *force, control).await.map(Some),
            Act::Cancel => clusters.cancel(&farm()).await.map(|_| None),
            Act::Refresh => clusters.refresh(&farm()).await.map(|_| None),
            Act::Resume | Act::DeleteServer(_) | Act::MoveAddress(_) => clusters.resume(control).await.map(|_| None),
        }
    }

    async fn delete_server(&mut self, nth: usize) {
        let servers = self.servers();
        let Some(id) = servers.keys().nth(nth % servers.len().max(1)) else { return };
        let body = serde_json::json!({"action": "terminate"}).to_string();
        let path = format!("/instance/v1/zones/{}/servers/{id}/action", zone());
        self.world.client.send_raw("POST", &path, Some(body.into())).await.unwrap();
        tokio::time::sleep(Duration::from_secs(600)).await;
        if !self.servers().contains_key(id) {
            self.deleted.insert(id.clone());
        }
    }

    async fn move_address(&mut self, nth: usize) {
        let servers: Vec<String> = self.servers().into_keys().collect();
        if servers.len() < 2 {
            return;
        }
        let (from, to) = (&servers[nth % servers.len()], &servers[(nth + 1) % servers.len()]);
        let ips = self.world.resources().ips;
        let Some(ip) = ips.iter().find(|ip| ip["server"]["id"] == from.as_str()) else { return };
        let path = format!("/instance/v1/zones/{}/ips/{}", zone(), ip["id"].as_str().unwrap());
        let body = serde_json::json!({"server": to}).to_string();
        self.world.client.send_raw("PATCH", &path, Some(body.into())).await.unwrap();
    }

    /// What a user was promised.
    async fn laws(
        &mut self,
        clusters: &Clusters,
        act: &Act,
        ended_well: bool,
        before: &Servers,
        known: Option<&ClusterStatus>,
    ) {
        let after = self.servers();
        let status = clusters.status(&farm()).await.ok();
        let (began, done) = {
            let calls = self.world.hooks.calls.lock();
            let configures = calls.iter().filter(|input| format!("{:?}", input.stage) == "Configure");
            let began: BTreeSet<String> =
                configures.flat_map(|input| &input.nodes).map(|node| node.server_id.clone()).collect();
            (began, self.world.hooks.done.lock().clone())
        };
        let is_done = |stage: &str, server: &String| done.contains(&(stage.to_owned(), server.clone()));

        let lies = std::mem::take(&mut *self.world.hooks.lies.lock());
        self.check(lies.is_empty(), || lies.join("; "));

        // No node that may hold data is removed without decommission.
        let gone: Vec<&String> = before.keys().filter(|id| !after.contains_key(*id)).collect();
        for id in &gone {
            let excused = self.deleted.contains(*id) || self.forced || !self.established;
            self.check(excused || !began.contains(*id) || is_done("decommission", id), || {
                format!("{} ({id}) may have held data, and was removed without decommission", before[*id])
            });
        }
        // Nothing ends that nobody asked to end.
        if let (Act::Scale { db, web, remove: None }, Some(known), false) = (act, known, self.end_asked) {
            for (group, wanted) in [("db", *db), ("web", *web)] {
                let serving = |id: &String| {
                    known.nodes.iter().any(|node| {
                        node.group.as_str() == group && node.server.as_ref() == Some(id) && !node.is_spent()
                    })
                };
                let had = before.keys().filter(|id| serving(id)).count();
                let lost = gone.iter().filter(|id| serving(id) && !self.deleted.contains(**id)).count();
                self.check(lost <= had.saturating_sub(wanted as usize), || {
                    format!("a scaling to {wanted} removed {lost} of {had} nodes of {group}")
                });
            }
        }
        if matches!(act, Act::Resume | Act::Cancel | Act::Refresh)
            && known.is_some_and(|known| known.operation.is_none())
        {
            self.check(gone.is_empty() || self.end_asked, || format!("{act:?} removed {gone:?}"));
        }

        // What a look saw is what status says.
        if let (Act::Refresh, true, Some(status)) = (act, ended_well, &status) {
            for node in status.nodes.iter().filter(|node| node.state == NodeState::Running) {
                let id = node.server.clone().unwrap_or_default();
                self.check(after.contains_key(&id), || {
                    format!("{} is said to run after a look, and its server {id} does not exist", node.name)
                });
            }
        }

        // What status says is true of Scaleway.
        match &status {
            None => {
                self.check(after.is_empty(), || format!("there is no cluster, and servers: {after:?}"));
                (self.established, self.end_asked, self.forced) = (false, false, false);
            }
            Some(status) => {
                self.check(status.operation.is_none(), || format!("it is still open: {:?}", status.operation));
                let known: BTreeSet<&String> =
                    status.nodes.iter().filter(|node| node.exists()).filter_map(|node| node.server.as_ref()).collect();
                for (id, name) in &after {
                    self.check(known.contains(id), || format!("server {name} ({id}) is of no node"));
                }
                for node in status.nodes.iter().filter(|node| node.state == NodeState::Running) {
                    let id = node.server.clone().unwrap_or_default();
                    self.check(after.contains_key(&id) || self.deleted.contains(&id), || {
                        format!("{} is said to run, and its server {id} does not exist", node.name)
                    });
                }
                let state = status.cluster.state;
                self.check(matches!(state, ClusterState::Active | ClusterState::Error), || format!("it is {state}"));
                self.check(!status.deletion_requested, || "a request to delete outlives what it was made for".into());
                if state == ClusterState::Active {
                    for node in &status.nodes {
                        let id = node.server.clone().unwrap_or_default();
                        let serves = is_done("configure", &id) && is_done("start", &id);
                        self.check(serves && !is_done("decommission", &id), || {
                            format!("it is active, and {} does not serve", node.name)
                        });
                    }
                    self.established = true;
                } else {
                    self.check(!status.cluster.reasons.is_empty(), || "it does not say why it is in error".to_owned());
                }
                // A failed termination has ended; a forced one has removed what it could.
                self.end_asked = false;
                self.forced = false;
            }
        }
    }

    /// In the end: what is in error is repaired by a scaling to what it has, and a termination leaves nothing.
    async fn end(mut self) {
        let clusters = self.world.start();
        let Ok(status) = clusters.status(&farm()).await else { return };
        if status.cluster.state == ClusterState::Error {
            let counts: Vec<(String, u32)> = status
                .cluster
                .specification
                .groups
                .iter()
                .map(|(name, group)| (name.to_string(), group.count))
                .collect();
            let counts: Vec<(&str, u32)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
            self.story.push(format!("repair: {counts:?}"));
            let repaired = clusters.scale(&farm(), &scale(&counts, &[]), &quiet()).await;
            self.check(repaired.is_ok(), || format!("it cannot be repaired: {repaired:?}"));
            let status = clusters.status(&farm()).await.unwrap();
            self.check(status.cluster.state == ClusterState::Active, || format!("{:?}", status.cluster));
        }
        let before = self.servers();
        let known = clusters.status(&farm()).await.ok();
        let ended = clusters.terminate(&farm(), false, &quiet()).await;
        self.check(ended.is_ok(), || format!("it cannot be terminated: {ended:?}"));
        self.end_asked = true;
        self.laws(&clusters, &Act::Terminate { force: false }, true, &before, known.as_ref()).await;
        self.world.assert_empty("terminated");
    }
}

async fn play(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::new(seed).await;
    model.story.push(format!("seed {seed}"));
    // Most stories begin with a cluster.
    if random.random_bool(0.8) {
        model.step(&Act::Create { db: 1, web: 2 }, &Trouble::None).await;
    }
    for _ in 0..random.random_range(2..7) {
        let (act, trouble) = (act(&mut random), trouble(&mut random));
        model.step(&act, &trouble).await;
    }
    model.end().await;
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn what_a_user_was_promised_holds_after_every_step_of_every_story() {
    let (from, seeds) = (number("WINDLASS_MODEL_FROM", 0), number("WINDLASS_MODEL_SEEDS", 40));
    for seed in from..from + seeds {
        let reported = std::panic::AssertUnwindSafe(|| run(play(seed)));
        if let Err(problem) = std::panic::catch_unwind(reported) {
            eprintln!("WINDLASS_MODEL_FROM={seed} WINDLASS_MODEL_SEEDS=1");
            std::panic::resume_unwind(problem);
        }
    }
}

/// The story of a scaling during which the cluster is to be deleted, whose decommission hook fails then: the failed
/// deletion is over, and the scaling that repairs the cluster removes nothing.
#[test]
fn a_deletion_that_failed_is_not_carried_out_by_the_scaling_that_repairs_the_cluster() {
    run(async {
        let mut model = Model::new(1).await;
        model.step(&Act::Create { db: 0, web: 2 }, &Trouble::None).await;
        model.world.hooks.behave("decommission", Behaviour::ExitCode(1));
        model.world.hooks.behave("configure", Behaviour::Takes(Duration::from_secs(600)));
        let (scaling, ending) = (model.world.start(), model.world.start());
        let (farm, control) = (farm(), quiet());
        let asked = scale(&[("web", 3)], &[]);
        let scaled = scaling.scale(&farm, &asked, &control);
        let ended = async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            ending.terminate(&farm, false, &quiet()).await
        };
        let (scaled, ended) = futures::future::join(scaled, ended).await;
        assert!(matches!(&scaled, Err(Error::Failed(_))), "{scaled:?}");
        assert!(matches!(&ended, Err(Error::Failed(_))), "{ended:?}");
        let status = scaling.status(&farm).await.unwrap();
        assert!(!status.deletion_requested && status.operation.is_none(), "{status:?}");
        drop((scaling, ending));
        model.world.hooks.behaviours.lock().clear();
        // The repair that the documentation recommends.
        model.step(&Act::Scale { db: 0, web: 3, remove: None }, &Trouble::None).await;
        assert_eq!(model.world.servers(), ["farm-web-1", "farm-web-2", "farm-web-3"]);
        model.end().await;
    });
}

/// A request that comes when its operation has just ended is a request of nothing.
#[test]
fn a_request_to_delete_that_comes_too_late_is_not_kept() {
    run(async {
        let world = World::new(2).await;
        let clusters = world.start();
        let created = clusters.create(specification(&[("web", 1)]), &quiet()).await.unwrap();
        let (store, request) = (world.store(), Requests { cancel: false, delete: true });
        assert!(!store.request(&farm(), created.number, request).await.unwrap());
        clusters.resume(&quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-web-1"]);
    });
}
