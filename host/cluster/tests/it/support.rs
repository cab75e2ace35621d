//! A simulated Scaleway with clusters on it, all from one seed, and hooks that know simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    Begin, Captured, Change, ClusterControl, ClusterEvent, ClusterEventKind, ClusterName, ClusterOperation,
    ClusterOptions, ClusterSpecification, ClusterStore, Clusters, Fence, Hook, HookAction, HookFailure, HookInput,
    HookOutput, HookProblem, HookSet, LogClusterStore, NodeGroup, ProgramHook, Requests, RunHooks, ScaleRequest,
    StoreError, StoredCluster,
};
use windlass_lifecycle::{
    Clock, Durability, Journal, Lifecycle, OperationFilter, OperationState as JournalState, Options, OwnerName,
    StateDirectory,
};
use windlass_policy::{Compiler, Host, HostOptions};
use windlass_scaleway::{Client, Settings, Zone};
use windlass_simulator::{Resources, Simulator};
use windlass_test_guests::cache_dir;

pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
/// 2026-09-21T14:13:20Z.
const NOW: u64 = 1_790_000_000_000;
pub(crate) const OWNER: &str = "team";

/// The built-in policies, compiled once for all cases.
pub(crate) fn host() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        (folder, host)
    });
    Arc::clone(host)
}

pub(crate) fn host_in(folder: &std::path::Path) -> Arc<Host> {
    let state = StateDirectory::open(folder).unwrap();
    let mut options = HostOptions::new(state.handle().try_clone().unwrap());
    options.compiler = Some(Compiler::this_process());
    options.cache_dir = Some(Dir::open_ambient_dir(cache_dir().unwrap(), ambient_authority()).unwrap());
    Arc::new(Host::new(options).unwrap())
}

/// Runs a case on one thread under paused time.
pub(crate) fn run<F: Future>(case: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(case)
}

pub(crate) fn zone() -> Zone {
    "fr-par-1".parse().unwrap()
}

pub(crate) fn owner() -> OwnerName {
    OWNER.parse().unwrap()
}

/// Limits that never make a test wait for our own rate.
pub(crate) fn settings() -> Settings {
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = windlass_scaleway::Limits::default();
    limits.calls_per_second = many;
    limits.burst = many;
    limits.concurrent_calls = NonZeroU32::new(512).unwrap();
    Settings::new(KEY.parse().unwrap()).with_limits(limits)
}

/// How a hook behaves at a stage.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Ends well after so long.
    Takes(Duration),
    /// Ends with this exit code.
    ExitCode(i32),
    /// Ends well only for the nodes of this group, and with an exit code for the others.
    OnlyGroup(&'static str),
    /// Never ends by itself: its time limit does.
    Hangs,
    /// Takes an hour, whatever the time limit, unless it is dropped.
    Stuck,
    /// Takes so long for each node, one after the other.
    OneByOne(Duration),
    /// Ends with this exit code after so long.
    TakesThenExitCode(Duration, i32),
}

/// Hooks that do nothing and tell what they were asked.
#[derive(Debug, Default)]
pub(crate) struct FakeHooks {
    pub(crate) behaviours: Mutex<BTreeMap<String, Behaviour>>,
    pub(crate) calls: Mutex<Vec<HookInput>>,
    /// Stage and server of each node for which a hook has ended well.
    pub(crate) done: Mutex<BTreeSet<(String, String)>>,
    /// Scaleway, so that it can be seen whether what a hook is told is true.
    pub(crate) simulator: OnceLock<Simulator>,
    /// What hooks were told that is not true.
    pub(crate) lies: Mutex<Vec<String>>,
}

fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

impl FakeHooks {
    pub(crate) fn behave(&self, stage: &str, behaviour: Behaviour) {
        self.behaviours.lock().insert(stage.to_owned(), behaviour);
    }

    /// What was run, in order: `configure farm-web-1 farm-web-2`.
    pub(crate) fn log(&self) -> Vec<String> {
        let line = |input: &HookInput| {
            let nodes: Vec<&str> = input.nodes.iter().map(|node| node.name.as_str()).collect();
            format!("{} {}", word(input.stage), nodes.join(" "))
        };
        self.calls.lock().iter().map(line).collect()
    }

    /// Notes addresses of nodes that are not their servers'.
    fn compare(&self, input: &HookInput) {
        let Some(simulator) = self.simulator.get() else { return };
        let addresses = simulator.resources().ips;
        for node in input.nodes.iter().chain(&input.others) {
            for reported in &node.public_addresses {
                let theirs = addresses.iter().find(|ip| ip["address"] == reported.to_string());
                if theirs.is_none_or(|ip| ip["server"]["id"] != node.server_id.as_str()) {
                    let stage = word(input.stage);
                    self.lies
                        .lock()
                        .push(format!("{stage}: {} is told to have {reported}, which is not its", node.name));
                }
            }
        }
    }

    fn note_done<'n>(&self, input: &HookInput, nodes: impl IntoIterator<Item = &'n String>) {
        let nodes: BTreeSet<&String> = nodes.into_iter().collect();
        let servers = input.nodes.iter().filter(|node| nodes.contains(&node.name));
        self.done.lock().extend(servers.map(|node| (word(input.stage), node.server_id.clone())));
    }

    pub(crate) fn stages(&self) -> Vec<String> {
        self.calls.lock().iter().map(|input| word(input.stage)).collect()
    }
}

#[async_trait]
impl RunHooks for FakeHooks {
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        self.calls.lock().push(input.clone());
        self.compare(input);
        let behaviour = self.behaviours.lock().get(&word(input.stage)).cloned();
        let failed = |problem, output| Err(Box::new(HookFailure { hook: hook.to_string(), problem, output }));
        match behaviour {
            None => {}
            Some(Behaviour::Takes(time)) => tokio::time::sleep(time).await,
            Some(Behaviour::ExitCode(code)) => return failed(HookProblem::ExitCode(code), HookOutput::default()),
            Some(Behaviour::OnlyGroup(group)) => {
                let nodes = input.nodes.iter().map(|node| windlass_cluster::NodeOutput {
                    node: node.name.clone(),
                    succeeded: node.group == group,
                    stdout: Captured::default(),
                    stderr: Captured::default(),
                    host_key: None,
                });
                let output = HookOutput { nodes: nodes.collect(), ..HookOutput::default() };
                self.note_done(input, &output.succeeded());
                return failed(HookProblem::ExitCode(1), output);
            }
            Some(Behaviour::Hangs) => {
                tokio::time::sleep(hook.time_limit).await;
                return failed(HookProblem::TimedOut(hook.time_limit), HookOutput::default());
            }
            Some(Behaviour::OneByOne(time)) => {
                for node in &input.nodes {
                    tokio::time::sleep(time).await;
                    self.note_done(input, [&node.name]);
                }
            }
            Some(Behaviour::TakesThenExitCode(time, code)) => {
                tokio::time::sleep(time).await;
                return failed(HookProblem::ExitCode(code), HookOutput::default());
            }
            Some(Behaviour::Stuck) => tokio::time::sleep(Duration::from_secs(3_600)).await,
        }
        self.note_done(input, input.nodes.iter().map(|node| &node.name));
        let text = format!("{} nodes\n", input.nodes.len());
        Ok(HookOutput { stdout: Captured { text, dropped: 0 }, ..HookOutput::default() })
    }

    async fn run_until(
        &self,
        hook: &Hook,
        input: &HookInput,
        stop: &CancellationToken,
    ) -> Result<HookOutput, Box<HookFailure>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            ended = self.run(hook, input) => return ended,
        }
        let done = self.done.lock();
        let nodes = input.nodes.iter().map(|node| windlass_cluster::NodeOutput {
            node: node.name.clone(),
            succeeded: done.contains(&(word(input.stage), node.server_id.clone())),
            stdout: Captured::default(),
            stderr: Captured::default(),
            host_key: None,
        });
        let output = HookOutput { nodes: nodes.collect(), ..HookOutput::default() };
        Err(Box::new(HookFailure { hook: hook.to_string(), problem: HookProblem::CalledOff, output }))
    }
}

/// What is done at an event, before the operation goes on.
pub(crate) type OnEvent = Box<dyn Fn(&ClusterEventKind) -> BoxFuture<'static, ()> + Send + Sync>;

/// What is awaited before a store says whether a process lives.
pub(crate) type BeforeLook = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What is awaited after each write of a store.
pub(crate) type AfterWrite = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A store that does something at events, so that a failure can be put exactly at the beginning of a stage, and before
/// a look at another process, so that the other can be let end between two looks.
pub(crate) struct WatchedStore {
    pub(crate) inner: Arc<dyn ClusterStore>,
    pub(crate) on_event: OnEvent,
    pub(crate) before_look: BeforeLook,
    pub(crate) after_write: AfterWrite,
}

fn nothing() -> Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync> {
    Box::new(|| Box::pin(async {}))
}

impl WatchedStore {
    pub(crate) fn new(inner: Arc<dyn ClusterStore>, on_event: OnEvent) -> Self {
        Self { inner, on_event, before_look: nothing(), after_write: nothing() }
    }
}

impl std::fmt::Debug for WatchedStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(formatter)
    }
}

#[async_trait]
impl ClusterStore for WatchedStore {
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError> {
        self.inner.clusters().await
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError> {
        self.inner.cluster(name).await
    }

    async fn begin(&self, begin: Begin) -> Result<(Fence, u64), StoreError> {
        let begun = self.inner.begin(begin).await?;
        (self.after_write)().await;
        Ok(begun)
    }

    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
        let fence = self.inner.take_over(name, expected, runner).await?;
        (self.after_write)().await;
        Ok(fence)
    }

    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError> {
        let events = change.events.clone();
        self.inner.commit(name, fence, change).await?;
        for (_, event) in &events {
            (self.on_event)(event).await;
        }
        (self.after_write)().await;
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
        (self.before_look)().await;
        self.inner.runner_lives(runner).await
    }
}

pub(crate) struct World {
    pub(crate) simulator: Simulator,
    pub(crate) client: Client,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) hooks: Arc<FakeHooks>,
    pub(crate) network: String,
    seed: u64,
    starts: std::cell::Cell<u64>,
}

impl World {
    /// An empty Scaleway with one private network.
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with(windlass_simulator::Options { seed, ..windlass_simulator::Options::default() }).await
    }

    pub(crate) async fn with(options: windlass_simulator::Options) -> Self {
        let seed = options.seed;
        let simulator = Simulator::new(options);
        let client = Client::with_transport(settings(), simulator.transport()).unwrap();
        let network = make_network(&client).await;
        simulator.clear_requests();
        let folder = tempfile::tempdir().unwrap();
        Self { simulator, client, folder, hooks: Arc::default(), network, seed, starts: std::cell::Cell::new(0) }
    }

    pub(crate) fn state(&self) -> StateDirectory {
        StateDirectory::open(self.folder.path()).unwrap()
    }

    pub(crate) fn store(&self) -> Arc<dyn ClusterStore> {
        Arc::new(LogClusterStore::of(&Journal::open(&self.state(), Durability::Process).unwrap()))
    }

    /// A process start, on what an earlier one may have left.
    pub(crate) fn start(&self) -> Clusters {
        self.start_under(host())
    }

    pub(crate) fn start_under(&self, host: Arc<Host>) -> Clusters {
        self.start_with(host, self.store())
    }

    /// A process start whose store tells each event that is written.
    pub(crate) fn start_watched(&self, host: Arc<Host>, on_event: OnEvent) -> Clusters {
        self.start_with(host, Arc::new(WatchedStore::new(self.store(), on_event)))
    }

    /// A process start that awaits something before each look at whether another process lives.
    pub(crate) fn start_looking(&self, before_look: BeforeLook) -> Clusters {
        let store = WatchedStore { before_look, ..WatchedStore::new(self.store(), Box::new(|_| Box::pin(async {}))) };
        self.start_with(host(), Arc::new(store))
    }

    pub(crate) fn start_with(&self, host: Arc<Host>, store: Arc<dyn ClusterStore>) -> Clusters {
        self.start_on(self.lifecycle(&host), host, store)
    }

    pub(crate) fn start_on(&self, lifecycle: Lifecycle, host: Arc<Host>, store: Arc<dyn ClusterStore>) -> Clusters {
        let mut options = ClusterOptions::new(lifecycle, self.client.clone(), host, store);
        options.hooks = self.hooks.clone();
        Clusters::new(options)
    }

    /// The lifecycle of a further process.
    pub(crate) fn lifecycle(&self, host: &Arc<Host>) -> Lifecycle {
        let start = self.starts.get() + 1;
        self.starts.set(start);
        let mut options = Options::new(self.client.clone(), Arc::clone(host), self.state());
        options.owner = Some(owner());
        options.durability = Durability::Process;
        options.clock = Clock::simulated(NOW + start * 3_600_000);
        options.seed = Some(self.seed ^ (start << 32));
        Lifecycle::open(options).unwrap()
    }

    pub(crate) fn resources(&self) -> Resources {
        self.simulator.resources()
    }

    /// The names of the servers that exist, sorted.
    pub(crate) fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.resources().servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    pub(crate) fn assert_empty(&self, case: &str) {
        let resources = self.resources();
        assert!(
            resources.is_empty(),
            "{case}: still there: servers {:?}, {} addresses, {} volumes, {} interfaces",
            self.servers(),
            resources.ips.len(),
            resources.volumes.len(),
            resources.private_nics.len()
        );
    }

    /// Each server with its address and its root volume, and nothing beside them.
    pub(crate) fn assert_whole(&self, case: &str) {
        let resources = self.resources();
        let servers = resources.servers.len();
        assert_eq!((resources.ips.len(), resources.volumes.len()), (servers, servers), "{case}: {:?}", self.servers());
        for ip in &resources.ips {
            assert!(ip["server"].is_object(), "{case}: an address is attached to nothing");
        }
    }

    /// Nothing is open in the journal.
    pub(crate) fn assert_closed(&self, case: &str) {
        let journal = windlass_lifecycle::Journal::read_only(&self.state()).unwrap();
        let mut filter = OperationFilter::default();
        filter.states = vec![JournalState::Open, JournalState::Left];
        let open = journal.operations(&filter).unwrap();
        assert!(open.is_empty(), "{case}: the journal is open: {open:?}");
    }
}

pub(crate) async fn make_network(client: &Client) -> String {
    let body = Some(r#"{"name":"test","tags":[],"subnets":[]}"#.into());
    let answer = client.send_raw("POST", "/vpc/v2/regions/fr-par/private-networks", body).await.unwrap();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    body["id"].as_str().unwrap().to_owned()
}

pub(crate) fn farm() -> ClusterName {
    "farm".parse().unwrap()
}

/// A cluster `farm` with these groups and every hook.
pub(crate) fn specification(groups: &[(&str, u32)]) -> ClusterSpecification {
    let mut specification = ClusterSpecification::new(farm(), zone());
    for (name, count) in groups {
        specification.groups.insert(name.parse().unwrap(), NodeGroup::new(*count, "DEV1-S", "ubuntu_noble"));
    }
    let hook = |name: &str| Some(Hook::new(HookAction::Program(ProgramHook::new(name))));
    specification.hooks =
        HookSet { decommission: hook("decommission"), configure: hook("configure"), start: hook("start") };
    specification
}

pub(crate) fn scale(counts: &[(&str, u32)], remove: &[&str]) -> ScaleRequest {
    ScaleRequest {
        counts: counts.iter().map(|(group, count)| (group.parse().unwrap(), *count)).collect(),
        remove: remove.iter().map(|&name| name.to_owned()).collect(),
        ..ScaleRequest::default()
    }
}

pub(crate) fn quiet() -> ClusterControl {
    ClusterControl::new()
}
