//! One run: the processes, their disks, the simulated Scaleway, and how a story is carried out.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_cluster::{ClusterControl, ClusterStatus, Clusters};
use windlass_fleeting::{Dependencies, ScalewayGroup};
use windlass_lifecycle::{
    Abandonment, AddressKind, Aftermath, Cancellation, Clock, CloudInit, Control, Durability, Error, ExtraVolume,
    ImageChoice, Journal, Lifecycle, OperationFilter, OperationId, OperationKind, OperationState, Options, Part, Round,
    ServerSpecification, StateDirectory, Supervisor, SupervisorOptions, SweepRequest, Target, VolumeKind,
};
use windlass_policy::{DecisionLogOptions, Host, HostOptions};
use windlass_scaleway::Client;
use windlass_simulator::{Behaviour, Fault, FaultKind, FaultRule, Simulator};

use crate::account::{OWNER, ZONE, settings, zone};
use crate::disk::Disk;
use crate::runner::{GroupShape, Runner};
use crate::story::{CLUSTERS, Cast, Oddity, PROCESSES, RUNNER, SEATS, Shape, Story, What};
use crate::users::Users;
use crate::wire::{Between, Ledger, Sender, Wire};
use crate::{farm, laws, runner};

/// 2026-09-21T14:13:20Z.
const NOW: u64 = 1_790_000_000_000;
/// The disk that each process keeps its journal on.
const DISK_OF: [usize; SEATS] = [0, 1, 0, 1, 2];
const DISKS: usize = 3;
/// How often a supervisor that works beside the story takes up what is open.
const RESUME_INTERVAL: Duration = Duration::from_secs(300);
/// Between two rounds of the end: what was on its way has arrived, and second looks are due.
const SECOND_LOOK: Duration = Duration::from_secs(700);
/// Before the last round: nobody any longer spares what it does not know for being young.
const GRACE: Duration = Duration::from_secs(2 * 3_600);
/// Longer than any operation may take with all its retries.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);
/// Rounds that a world may need until it rests.
const ROUNDS: usize = 12;
/// The round in which users take the protection off servers, and an operator abandons what a restored journal leaves
/// alone.
const RELEASE: usize = 2;
/// Within this time a process hears that another one has cancelled its operation.
pub(crate) const HEARD: Duration = Duration::from_secs(3);
/// How long a process on a copy is asked for things.
const ON_COPY: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The laws that were broken, in words. Empty: none.
    pub violations: Vec<String>,
    /// A digest of all calls with their times and answers: equal for equal runs.
    pub digest: u64,
    /// How many calls there were.
    pub calls: usize,
    /// How many creations ended with a server.
    pub created: usize,
}

/// Carries a story out, in this thread, under simulated time.
///
/// # Panics
/// When a temporary folder, a thread or a policy cannot be had; never because of what happens in the story.
#[must_use]
pub fn run(story: &Story) -> Ending {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing but memory and a file descriptor")
        .block_on(async { World::new(story).await.carry_out(story).await })
}

/// The built-in policies, for all runs.
fn policies() -> Arc<Host> {
    static HOST: OnceLock<Arc<Host>> = OnceLock::new();
    Arc::clone(HOST.get_or_init(|| Arc::new(policy_host())))
}

/// Where compiled policies are kept for all hosts of this process.
static COMPILED: OnceLock<(Option<tempfile::TempDir>, StateDirectory)> = OnceLock::new();

/// Keeps compiled policies in this folder, from one process to the next. To be called before anything else; otherwise
/// they are kept as long as this process lives.
///
/// # Errors
/// The folder cannot be used.
pub fn keep_compiled_policies(path: &std::path::Path) -> Result<(), Error> {
    let state = StateDirectory::open(path)?;
    COMPILED.get_or_init(|| (None, state));
    Ok(())
}

/// A host with the built-in policies, which are compiled once for all hosts.
pub(crate) fn policy_host() -> Host {
    let (_, state) = COMPILED.get_or_init(|| {
        let folder = folder();
        let state = StateDirectory::open(folder.path()).expect("a folder that was just made");
        (Some(folder), state)
    });
    let handle = state.handle().try_clone().expect("a file descriptor");
    // Nobody reads what was decided.
    let mut decision_log = DecisionLogOptions::default();
    decision_log.queue_records = 0;
    let mut options = HostOptions::new(handle);
    options.decision_log = decision_log;
    Host::new(options).expect("the built-in policies load")
}

/// What a task of a process ended with.
enum Done {
    Created(OperationId, String),
    /// A creation ended so.
    Failed(OperationId, Aftermath),
    CleanedUp {
        creation: OperationId,
        server: String,
        clean: bool,
    },
    Round(Box<Round>),
    /// What a round of the clusters' end found to do.
    Clusters(Vec<String>),
    Other,
}

/// What a process is.
enum Role {
    /// It creates servers and cleans them up.
    Servers { lifecycle: Lifecycle, supervisor: Supervisor, creations: Vec<Control> },
    /// It has clusters.
    Clusters(Clusters),
    /// It is a runner's plugin.
    Runner(Arc<ScalewayGroup>),
}

struct Process {
    role: Role,
    /// What a signal ends of what it resumes.
    control: Control,
    /// Work that ends.
    tasks: JoinSet<Done>,
    /// Work that goes on by itself: a supervisor's, or the runner's.
    ongoing: JoinSet<()>,
}

impl Process {
    fn new(role: Role) -> Self {
        Self { role, control: Control::new(), tasks: JoinSet::new(), ongoing: JoinSet::new() }
    }

    fn lifecycle(&self) -> Option<&Lifecycle> {
        match &self.role {
            Role::Servers { lifecycle, .. } => Some(lifecycle),
            _ => None,
        }
    }
}

/// The disk that a process keeps its journal on.
pub(crate) fn disk_of(process: usize) -> usize {
    DISK_OF[process]
}

/// The folder of a disk, with its state directory.
fn folder_of(disk: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().to_owned();
    let state = if disk == DISK_OF[RUNNER] { runner::folder_of_group(path) } else { path };
    let state = StateDirectory::open(&state).expect("a folder that was just made").path().to_owned();
    (folder, state)
}

/// A temporary folder, in memory where there is such a place: nothing in it outlives the run.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

/// As `cp -a` does.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// A server that somebody was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) process: usize,
    pub(crate) operation: OperationId,
    pub(crate) server: String,
    pub(crate) shape: Shape,
}

pub(crate) struct World {
    pub(crate) simulator: Simulator,
    pub(crate) users: Users,
    seed: u64,
    pub(crate) cast: Cast,
    supervised: bool,
    origin: Instant,
    network: String,
    policies: Arc<Host>,
    /// One for each disk, and the state directory in it that holds a journal.
    folders: Vec<(tempfile::TempDir, PathBuf)>,
    disks: Vec<Arc<Disk>>,
    /// The clock of each disk's machine.
    clocks: Vec<Arc<AtomicU64>>,
    /// What unknown operations' resources are spared for being young, however far a clock is ahead.
    grace: Duration,
    backups: Vec<Option<tempfile::TempDir>>,
    /// Disks on which a backup was restored that nobody has taken over.
    on_copy: [bool; DISKS],
    /// Disks on which a backup was restored, ever.
    pub(crate) restored: [bool; DISKS],
    pub(crate) ledger: Arc<Ledger>,
    between: Arc<Mutex<Between>>,
    /// Whether lists or single answers were wrong, so that nobody can know what there is.
    pub(crate) misled: bool,
    /// Creations whose journal said that they are cancelled, with their disks, and since when.
    pub(crate) cancelled: BTreeMap<OperationId, (usize, Duration)>,
    processes: Vec<Option<Process>>,
    starts: u64,
    pub(crate) runner: Arc<Mutex<Runner>>,
    /// As they are in the end.
    pub(crate) clusters: Vec<ClusterStatus>,
    /// By server.
    pub(crate) given: BTreeMap<String, Given>,
    /// Servers whose cleanup somebody asked for.
    pub(crate) unwanted: Vec<String>,
    /// Those of them whose cleanup was accepted.
    pub(crate) accepted: Vec<String>,
    created: usize,
    /// Whether the end has begun.
    resting: bool,
    /// What the last round of the end had to do.
    restless: Vec<String>,
    pub(crate) problems: Vec<String>,
    shapes: BTreeMap<OperationId, Shape>,
}

impl World {
    async fn new(story: &Story) -> Self {
        let mut world = Self::of(story.seed, story.cast, story.supervised, policies()).await;
        let ahead = story.events.iter().map(|event| match event.what {
            What::SetClock { ahead, .. } => ahead,
            _ => 0,
        });
        // What tells how young something is are two clocks, of who made it and of who sweeps.
        world.grace += Duration::from_millis(ahead.max().unwrap_or(0));
        world
    }

    /// A world in which nobody lives yet.
    pub(crate) async fn of(seed: u64, cast: Cast, supervised: bool, policies: Arc<Host>) -> Self {
        let options = windlass_simulator::Options {
            seed,
            latency: windlass_simulator::Latency { base_ms: 20, jitter_ms: 200 },
            ..windlass_simulator::Options::default()
        };
        let simulator = Simulator::new(options);
        let client = Client::with_transport(settings(), simulator.transport()).expect("valid settings");
        let body = r#"{"name":"test","tags":[],"subnets":[]}"#;
        let made = client.send_raw("POST", "/vpc/v2/regions/fr-par/private-networks", Some(body.into())).await;
        let network = made
            .ok()
            .and_then(|answer| serde_json::from_slice::<serde_json::Value>(&answer.body).ok())
            .and_then(|network| network["id"].as_str().map(str::to_owned))
            .expect("the simulator makes a network");
        let folders: Vec<_> = (0..DISKS).map(folder_of).collect();
        let disks = folders.iter().map(|(_, state)| Arc::new(Disk::under(state).expect("a folder"))).collect();
        let origin = Instant::now();
        Self {
            users: Users::new(client, simulator.clone(), origin),
            simulator,
            seed,
            cast,
            supervised,
            origin,
            network,
            policies,
            folders,
            disks,
            clocks: (0..DISKS).map(|_| Arc::new(AtomicU64::new(NOW))).collect(),
            grace: SweepRequest::new(Vec::new()).grace,
            backups: (0..DISKS).map(|_| None).collect(),
            on_copy: [false; DISKS],
            restored: [false; DISKS],
            ledger: Arc::new(Ledger::new(origin)),
            between: Arc::default(),
            misled: false,
            cancelled: BTreeMap::new(),
            processes: (0..SEATS).map(|_| None).collect(),
            starts: 0,
            runner: Arc::default(),
            clusters: Vec::new(),
            given: BTreeMap::new(),
            unwanted: Vec::new(),
            accepted: Vec::new(),
            created: 0,
            resting: false,
            restless: Vec::new(),
            problems: Vec::new(),
            shapes: BTreeMap::new(),
        }
    }

    async fn carry_out(mut self, story: &Story) -> Ending {
        for seat in self.cast.seats() {
            self.start(seat).await;
        }
        for event in &story.events {
            self.let_pass(Duration::from_millis(event.after)).await;
            self.happen(&event.what).await;
        }
        self.come_to_rest().await;
        let mut violations = std::mem::take(&mut self.problems);
        violations.extend(laws::violations(&self));
        let (digest, calls) = self.digest();
        let ending = Ending { violations, digest, calls, created: self.created };
        for seat in self.cast.seats() {
            self.kill(seat).await;
        }
        ending
    }

    /// A digest of all calls with their times and answers, and how many there were.
    pub(crate) fn digest(&self) -> (u64, usize) {
        let mut hasher = DefaultHasher::new();
        let requests = self.simulator.requests();
        for request in &requests {
            (request.at_ms, &request.method, &request.path, request.status).hash(&mut hasher);
        }
        (hasher.finish(), requests.len())
    }

    /// How long the world has been there.
    pub(crate) fn age(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Lets time pass, and processes die with their disks at the moment at which these lose power.
    pub(crate) async fn let_pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            for (process, disk) in DISK_OF.into_iter().enumerate() {
                if self.disks[disk].is_lost() {
                    self.kill(process).await;
                }
                self.collect(process);
            }
            let now = Instant::now();
            if now >= until {
                return;
            }
            // Where no disk can lose its power, nothing has to be looked at before.
            let step = if self.disks.iter().any(|disk| disk.may_lose_power()) { Duration::from_secs(5) } else { time };
            tokio::time::sleep((until - now).min(step)).await;
        }
    }

    /// Takes note of what a process's tasks have ended with.
    fn collect(&mut self, index: usize) {
        let Some(process) = &mut self.processes[index] else { return };
        let ended: Vec<_> = std::iter::from_fn(|| process.tasks.try_join_next()).collect();
        for done in ended {
            match done {
                Ok(Done::Created(operation, server)) => {
                    self.created += 1;
                    let shape = self.shapes.get(&operation).copied().unwrap_or(Shape::Bare);
                    self.given.insert(server.clone(), Given { process: index, operation, server, shape });
                }
                Ok(Done::Failed(operation, aftermath)) => {
                    let said = laws::what_is_said_of_a_failure_is_so(self, index, &operation, &aftermath);
                    self.problems.extend(said);
                }
                Ok(Done::CleanedUp { creation, server, clean: true }) => {
                    let said = laws::what_a_cleanup_says_is_so(self, index, &creation, &server);
                    self.problems.extend(said);
                }
                Ok(Done::Round(round)) => self.restless.extend(work_of(index, &round)),
                Ok(Done::Clusters(work)) => self.restless.extend(work),
                Ok(_) => {}
                Err(error) if error.is_panic() => self.problems.push(format!("a task panicked: {error}")),
                Err(_) => {}
            }
        }
    }

    /// The journal of a process that creates servers, while it lives.
    pub(crate) fn journal_of(&self, index: usize) -> Option<&Journal> {
        self.processes[index].as_ref().and_then(Process::lifecycle).map(Lifecycle::journal)
    }

    pub(crate) async fn kill(&mut self, index: usize) {
        self.collect(index);
        if let Some(mut process) = self.processes[index].take() {
            process.tasks.shutdown().await;
            process.ongoing.shutdown().await;
            if let Role::Runner(group) = &process.role {
                group.stop().await;
            }
        }
    }

    /// Starts a process that does not live; it resumes what an earlier one left.
    async fn start(&mut self, index: usize) {
        if self.processes[index].is_some() {
            return;
        }
        let disk = DISK_OF[index];
        if !self.power_on(disk).await {
            return;
        }
        self.starts += 1;
        match self.open(index).await {
            Ok(process) => {
                self.processes[index] = Some(process);
                self.round(index, &[Part::Resume]);
            }
            Err(error) if self.disks[disk].is_lost() => drop(error),
            // The plugin asks Scaleway whether what is configured exists: an operator would start it again.
            Err(_) if index == RUNNER && !self.resting => {}
            Err(error) => self.problems.push(format!("process {index} cannot start: {error}")),
        }
    }

    /// Gives a disk that has lost its power what survived. False where that cannot be done.
    async fn power_on(&mut self, disk: usize) -> bool {
        if !self.disks[disk].is_lost() {
            return true;
        }
        for process in (0..SEATS).filter(|process| DISK_OF[*process] == disk) {
            self.kill(process).await;
        }
        self.starts += 1;
        let restarted = self.disks[disk].restart(self.seed ^ (self.starts << 32));
        if let Err(error) = &restarted {
            self.problems.push(format!("the disk cannot be written: {error}"));
        }
        restarted.is_ok()
    }

    /// What a process stands on.
    fn dependencies(&self, index: usize) -> Dependencies {
        let machine = DISK_OF[index];
        let wire = Wire {
            inner: self.simulator.transport(),
            by: Sender { seat: index, start: self.starts, on_copy: self.on_copy[machine] },
            disk: Arc::clone(&self.disks[machine]),
            random: Mutex::new(ChaCha8Rng::seed_from_u64(self.seed ^ (self.starts << 40))),
            ledger: Arc::clone(&self.ledger),
            between: Arc::clone(&self.between),
        };
        Dependencies {
            client: Client::with_transport(settings(), Arc::new(wire)).expect("valid settings"),
            policies: Arc::clone(&self.policies),
            clock: Clock::Simulated { start: Arc::clone(&self.clocks[machine]), origin: self.origin },
            durability: Durability::FullInline,
            seed: Some(self.seed ^ (self.starts << 32)),
            host: None,
        }
    }

    /// Prepares the start of a plugin whose loop is elsewhere: with these policies, on the disk as it is. Nothing where
    /// the disk cannot be read any more.
    pub(crate) async fn prepare_group(&mut self, policies: Arc<Host>) -> Option<(PathBuf, Dependencies)> {
        self.kill(RUNNER).await;
        let disk = DISK_OF[RUNNER];
        if !self.power_on(disk).await {
            return None;
        }
        self.starts += 1;
        self.policies = policies;
        self.runner.lock().restart();
        Some((self.folders[disk].0.path().to_owned(), self.dependencies(RUNNER)))
    }

    /// The plugin has started.
    pub(crate) fn seat_group(&mut self, group: Arc<ScalewayGroup>) {
        self.processes[RUNNER] = Some(Process::new(Role::Runner(group)));
    }

    /// The plugin's group, while it lives.
    pub(crate) fn group(&self) -> Option<Arc<ScalewayGroup>> {
        match self.processes[RUNNER].as_ref().map(|process| &process.role) {
            Some(Role::Runner(group)) => Some(Arc::clone(group)),
            _ => None,
        }
    }

    /// The disk that a process keeps its journal on.
    pub(crate) fn disk_of(&self, index: usize) -> &Disk {
        &self.disks[DISK_OF[index]]
    }

    /// Opens what a process works with, and lets it work.
    async fn open(&mut self, index: usize) -> anyhow::Result<Process> {
        let disk = DISK_OF[index];
        if index == RUNNER {
            self.runner.lock().restart();
        }
        let (folder, state) = (self.folders[disk].0.path().to_owned(), self.folders[disk].1.clone());
        let (dependencies, runner) = (self.dependencies(index), Arc::clone(&self.runner));
        self.open_on(index, &folder, &state, dependencies, runner).await
    }

    /// The same on this folder, with the state directory in it that holds the journal.
    async fn open_on(
        &self,
        index: usize,
        folder: &Path,
        state: &Path,
        dependencies: Dependencies,
        runner: Arc<Mutex<Runner>>,
    ) -> anyhow::Result<Process> {
        if index == RUNNER {
            let shape = GroupShape::default();
            let group = Arc::new(runner::start(folder.to_owned(), &shape, dependencies).await?);
            let mut process = Process::new(Role::Runner(Arc::clone(&group)));
            process.ongoing.spawn(runner::work(group, runner));
            return Ok(process);
        }
        let Dependencies { client, policies, clock, durability, seed, .. } = dependencies;
        let state = StateDirectory::open(state)?;
        let mut options = Options::new(client.clone(), Arc::clone(&policies), state.clone());
        options.owner = Some(OWNER.parse()?);
        options.durability = durability;
        options.clock = clock;
        options.seed = seed;
        let lifecycle = Lifecycle::open(options)?;
        if index == CLUSTERS {
            let clusters = farm::open(lifecycle, client, policies);
            return Ok(Process::new(Role::Clusters(clusters)));
        }
        let supervisor = Supervisor::new(lifecycle.clone(), supervision(self.grace));
        let creations = Vec::new();
        let mut process = Process::new(Role::Servers { lifecycle, supervisor: supervisor.clone(), creations });
        if self.supervised {
            let control = process.control.clone();
            process.ongoing.spawn(async move { supervisor.run(&control, |_| {}).await });
        }
        Ok(process)
    }

    /// A process's supervisor makes a round; one with clusters takes up what is open of them, too.
    fn round(&mut self, index: usize, parts: &'static [Part]) {
        let Some(process) = &mut self.processes[index] else { return };
        match &process.role {
            Role::Servers { supervisor, .. } => {
                let (supervisor, control) = (supervisor.clone(), process.control.clone());
                let round = async move { Done::Round(Box::new(supervisor.round(parts, &control).await)) };
                process.tasks.spawn(round);
            }
            Role::Clusters(clusters) => {
                let clusters = clusters.clone();
                process.tasks.spawn(async move {
                    let _ = clusters.resume(&ClusterControl::new()).await;
                    Done::Other
                });
            }
            // It has a supervisor of its own.
            Role::Runner(_) => {}
        }
    }

    fn cluster(&mut self, what: &What) {
        let Some(Process { role: Role::Clusters(clusters), tasks, .. }) = &mut self.processes[CLUSTERS] else { return };
        let (clusters, what) = (clusters.clone(), what.clone());
        tasks.spawn(async move {
            let control = ClusterControl::new();
            match what {
                What::CreateCluster { chosen, count } => {
                    let _ = clusters.create(farm::specification(chosen, count), &control).await;
                }
                What::ScaleCluster { chosen, count } => {
                    let _ = clusters.scale(&farm::name(chosen), &farm::scaling(count), &control).await;
                }
                What::TerminateCluster { chosen, force } => {
                    let _ = clusters.terminate(&farm::name(chosen), force, &control).await;
                }
                What::CancelCluster { chosen } => {
                    let _ = clusters.cancel(&farm::name(chosen)).await;
                }
                _ => {}
            }
            Done::Other
        });
    }

    async fn specification(&mut self, shape: Shape) -> ServerSpecification {
        let mut wanted = plain_specification();
        match shape {
            Shape::Bare => {}
            Shape::Everything => {
                wanted.addresses = vec![AddressKind::Ipv4, AddressKind::Ipv6];
                wanted.volumes = vec![ExtraVolume::New {
                    kind: VolumeKind::Block,
                    size: 10_000_000_000,
                    operations_per_second: None,
                }];
                wanted.private_networks = vec![self.network.clone()];
                wanted.cloud_init = Some(CloudInit::new("#cloud-config\n"));
            }
            Shape::Local => {
                wanted.addresses = vec![AddressKind::Ipv4];
                wanted.root_volume.kind = VolumeKind::Local;
            }
            Shape::WithExisting => {
                let faults = self.suspend_faults();
                let volume = self.users.make_volume(ZONE).await;
                self.restore_faults(faults);
                if let Some(id) = volume {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    wanted.volumes = vec![ExtraVolume::Existing { id }];
                }
            }
        }
        wanted
    }

    async fn create(&mut self, index: usize, shape: Shape) {
        if self.processes[index].is_none() {
            return;
        }
        let wanted = self.specification(shape).await;
        let Some(Process { role: Role::Servers { lifecycle, creations, .. }, tasks, .. }) = &mut self.processes[index]
        else {
            return;
        };
        let Ok(pending) = lifecycle.begin_create(wanted).await else { return };
        self.shapes.insert(pending.id().clone(), shape);
        let control = Control::new();
        creations.push(control.clone());
        tasks.spawn(async move {
            let operation = pending.id().clone();
            match pending.run(&control).await {
                Ok(created) => Done::Created(operation, created.server.id),
                Err(error) => Done::Failed(operation, error.aftermath()),
            }
        });
    }

    async fn clean_up(&mut self, index: usize, chosen: usize) {
        let candidates: Vec<Given> = self
            .given
            .values()
            .filter(|given| DISK_OF[given.process] == DISK_OF[index] && !self.unwanted.contains(&given.server))
            .cloned()
            .collect();
        let Some(process) = &mut self.processes[index] else { return };
        let Some(lifecycle) = process.lifecycle().filter(|_| !candidates.is_empty()).cloned() else { return };
        let Given { operation, server, .. } = candidates[chosen % candidates.len()].clone();
        self.unwanted.push(server.clone());
        // Where it was not accepted, it may have been written down all the same.
        let creation = operation.clone();
        let Ok(pending) = lifecycle.begin_cleanup(&Target::Operation(operation)).await else { return };
        self.accepted.push(server.clone());
        process.tasks.spawn(async move {
            match pending.run(&Control::new()).await {
                Ok(cleaned) => {
                    let clean = cleaned.report.is_clean() && cleaned.report.kept.is_empty();
                    Done::CleanedUp { creation, server, clean }
                }
                Err(_) => Done::Other,
            }
        });
    }

    pub(crate) async fn happen(&mut self, what: &What) {
        match *what {
            What::Create { process, shape } => self.create(process, shape).await,
            What::CleanUp { process, chosen } => self.clean_up(process, chosen).await,
            What::CallOff { process, chosen } => {
                if let Some(Process { role: Role::Servers { creations, .. }, .. }) = &self.processes[process]
                    && !creations.is_empty()
                {
                    creations[chosen % creations.len()].cancel();
                }
            }
            What::Resume { process } => self.round(process, &[Part::Resume]),
            What::Sweep { process } => self.round(process, &[Part::Sweep]),
            What::Fault { method, path, nth, kind, effect } => {
                self.misled |= matches!(
                    kind,
                    FaultKind::Omit(_) | FaultKind::OmitKeepTotal(_) | FaultKind::NotFound | FaultKind::Late(_)
                );
                let rule = FaultRule { method: Some(method.to_owned()), path: path.to_owned(), nth, kind, effect };
                if let Err(error) = self.simulator.add_fault(rule) {
                    self.problems.push(format!("the simulator refused a fault: {error}"));
                }
            }
            What::Behave { as_if } => self.behave(as_if),
            What::FaultsEnd => self.end_faults(),
            What::Kill { process } => self.kill(process).await,
            What::LosePower { process, at_sync, took_effect } => {
                self.disks[DISK_OF[process]].lose_power_at(at_sync, took_effect);
            }
            What::Start { process } => self.start(process).await,
            What::Demand { count } => self.runner.lock().demand = count,
            What::CreateCluster { .. }
            | What::ScaleCluster { .. }
            | What::TerminateCluster { .. }
            | What::CancelCluster { .. } => self.cluster(what),
            What::User(user) => {
                let faults = self.suspend_faults();
                self.users.act(user).await;
                self.restore_faults(faults);
            }
            What::Cancel { process, chosen } => self.cancel(process, chosen).await,
            What::Signal { process } => self.signal(process).await,
            What::SetClock { process, ahead } => {
                self.clocks[DISK_OF[process]].store(NOW + ahead, Ordering::Relaxed);
            }
            What::Copy { process } => self.work_on_copy(process).await,
            What::BackUp { process } => {
                let disk = DISK_OF[process];
                let backup = folder();
                if copy(self.folders[disk].0.path(), backup.path()).is_ok() && !self.on_copy[disk] {
                    self.backups[disk] = Some(backup);
                }
            }
            What::Restore { process } => self.restore(DISK_OF[process]).await,
            What::TakeOver { process } => self.take_over(DISK_OF[process]).await,
            What::Outage { endpoint, kind } => self.between.lock().outages.push((endpoint, kind)),
        }
    }

    fn end_faults(&self) {
        self.simulator.clear_faults();
        self.simulator.clear_behaviours();
        *self.between.lock() = Between::default();
    }

    /// The creations that a process's journal holds open.
    fn open_creations(&self, index: usize) -> Vec<OperationId> {
        let Some(journal) = self.journal_of(index) else { return Vec::new() };
        let open = journal.operations(&in_state(OperationState::Open)).unwrap_or_default();
        let creations = open.into_iter().filter(|operation| operation.kind == OperationKind::CreateServer);
        creations.map(|operation| operation.id).collect()
    }

    async fn cancel(&mut self, index: usize, chosen: usize) {
        let open = self.open_creations(index);
        let Some(lifecycle) = self.processes[index].as_ref().and_then(Process::lifecycle).cloned() else { return };
        if open.is_empty() {
            return;
        }
        let id = &open[chosen % open.len()];
        if let Ok(Cancellation::Noted) = lifecycle.cancel(id, "somebody").await {
            self.are_cancelled(index, vec![id.clone()]);
        }
    }

    async fn signal(&mut self, index: usize) {
        let open = self.open_creations(index);
        let Some(Process { role: Role::Servers { lifecycle, creations, .. }, control, .. }) =
            &mut self.processes[index]
        else {
            return;
        };
        let mut controls = std::mem::take(creations);
        // What this process resumes later is another signal's.
        controls.push(std::mem::take(control));
        let runner = lifecycle.runner();
        let is_own = |id: &OperationId| lifecycle.journal().operation(id).is_ok_and(|it| it.runner == runner);
        let own: Vec<OperationId> = open.into_iter().filter(is_own).collect();
        let mut durable = true;
        for control in controls {
            durable &= control.cancel_durably("SIGTERM").await.is_ok();
        }
        if durable {
            self.are_cancelled(index, own);
        }
    }

    /// The journal says so of those of them that had not ended before.
    fn are_cancelled(&mut self, index: usize, ids: Vec<OperationId>) {
        let open = self.open_creations(index);
        let (disk, now) = (DISK_OF[index], self.age());
        let cancelled = ids.into_iter().filter(|id| open.contains(id) && !self.disks[disk].is_lost());
        self.cancelled.extend(cancelled.map(|id| (id, (disk, now))));
    }

    /// A process like this one on a copy of its state directory, which is asked for everything.
    async fn work_on_copy(&mut self, index: usize) {
        let disk = DISK_OF[index];
        let folder = folder();
        if copy(self.folders[disk].0.path(), folder.path()).is_err() {
            return;
        }
        self.starts += 1;
        let was = std::mem::replace(&mut self.on_copy[disk], true);
        let dependencies = self.dependencies(index);
        self.on_copy[disk] = was;
        let path = folder.path().to_owned();
        let state = if index == RUNNER { runner::folder_of_group(path.clone()) } else { path.clone() };
        let runner = Arc::new(Mutex::new(Runner::wanting(2)));
        let work = async {
            let Ok(mut process) = self.open_on(index, &path, &state, dependencies, runner).await else { return };
            match &process.role {
                Role::Servers { lifecycle, supervisor, .. } => {
                    let control = Control::new();
                    supervisor.round(&Part::ALL, &control).await;
                    for given in self.given.values().filter(|given| DISK_OF[given.process] == disk) {
                        let _ = lifecycle.cleanup(&Target::Operation(given.operation.clone()), &control).await;
                    }
                    let wanted = plain_specification();
                    let _ = lifecycle.create_server(wanted, &control).await;
                }
                Role::Clusters(clusters) => {
                    let control = ClusterControl::new();
                    let _ = clusters.resume(&control).await;
                    for chosen in 0..2 {
                        let _ = clusters.terminate(&farm::name(chosen), true, &control).await;
                        let _ = clusters.create(farm::specification(chosen, 1), &control).await;
                    }
                }
                Role::Runner(group) => {
                    tokio::time::sleep(ON_COPY / 2).await;
                    group.stop().await;
                }
            }
            process.ongoing.shutdown().await;
        };
        let _ = tokio::time::timeout(ON_COPY, work).await;
    }

    /// Puts the last backup in the place of a state directory, and starts its processes again.
    async fn restore(&mut self, disk: usize) {
        let seats: Vec<usize> = self.cast.seats().into_iter().filter(|seat| DISK_OF[*seat] == disk).collect();
        let Some(backup) = &self.backups[disk] else { return };
        let (backup, folder) = (backup.path().to_owned(), self.folders[disk].0.path().to_owned());
        for &seat in &seats {
            self.kill(seat).await;
        }
        let replaced = (|| {
            for entry in std::fs::read_dir(&folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                } else {
                    std::fs::remove_file(entry.path())?;
                }
            }
            copy(&backup, &folder)
        })();
        if let Err(error) = replaced {
            self.problems.push(format!("the backup cannot be restored: {error}"));
        }
        self.disks[disk].replaced();
        (self.on_copy[disk], self.restored[disk]) = (true, true);
        // What the journal heard since then it has forgotten.
        let given = &self.given;
        self.accepted.retain(|server| given.get(server).is_none_or(|given| DISK_OF[given.process] != disk));
        self.cancelled.retain(|_, (of, _)| *of != disk);
        for &seat in &seats {
            self.start(seat).await;
        }
    }

    async fn take_over(&mut self, disk: usize) {
        if !std::mem::take(&mut self.on_copy[disk]) {
            return;
        }
        let seats: Vec<usize> = self.cast.seats().into_iter().filter(|seat| DISK_OF[*seat] == disk).collect();
        for &seat in &seats {
            self.kill(seat).await;
        }
        let clock = Clock::Simulated { start: Arc::clone(&self.clocks[disk]), origin: self.origin };
        let taken = StateDirectory::open(&self.folders[disk].1).and_then(|it| it.take_history_over(clock.now()));
        if let Err(error) = taken {
            self.problems.push(format!("the restored state directory cannot be taken over: {error}"));
        }
        for &seat in &seats {
            self.start(seat).await;
        }
    }

    /// An operator lets go what a restored journal does not dare to undo.
    async fn abandon_what_was_started_elsewhere(&mut self) {
        for disk in (0..DISKS).filter(|disk| self.restored[*disk]) {
            let Some(seat) = (0..PROCESSES).find(|seat| DISK_OF[*seat] == disk) else { continue };
            let Some(lifecycle) = self.processes[seat].as_ref().and_then(Process::lifecycle).cloned() else { continue };
            let left = lifecycle.journal().operations(&in_state(OperationState::Left)).unwrap_or_default();
            let elsewhere = |report: &serde_json::Value| report.to_string().contains("not by this journal");
            for operation in left.iter().filter(|operation| operation.report.as_ref().is_some_and(elsewhere)) {
                let by = Abandonment { by: "an operator".to_owned(), reason: None };
                if let Ok(pending) = lifecycle.begin_abandon(&operation.id).await {
                    let _ = pending.run(&by).await;
                }
            }
        }
    }

    /// Users are not met by the hosts' faults.
    fn suspend_faults(&self) -> Vec<Fault> {
        let faults = self.simulator.faults();
        self.simulator.clear_faults();
        faults
    }

    fn restore_faults(&self, faults: Vec<Fault>) {
        for fault in faults {
            let spent = fault.rule.nth.is_some_and(|nth| fault.matched >= nth);
            if !spent {
                let nth = fault.rule.nth.map(|nth| nth - fault.matched);
                let _ = self.simulator.add_fault(FaultRule { nth, ..fault.rule });
            }
        }
    }

    fn behave(&mut self, as_if: Oddity) {
        self.misled |= as_if != Oddity::NewVolumeType;
        let behaviour = match as_if {
            Oddity::FilterIgnored => Behaviour::TagFilterIgnored,
            Oddity::FilterEmpty => Behaviour::TagFilterEmpty,
            Oddity::FilterWithoutEquals => Behaviour::TagFilterWithoutEquals,
            Oddity::FilterNeedsProject => Behaviour::TagFilterNeedsProject,
            Oddity::LateListing { after } => Behaviour::LateListing(Duration::from_millis(after)),
            Oddity::UnfilteredTotal => Behaviour::UnfilteredTotal,
            Oddity::TotalOff => Behaviour::TotalOff,
            Oddity::GoneForbidden => Behaviour::GoneForbidden,
            Oddity::UserDataBody => Behaviour::UserDataBody,
            Oddity::NewVolumeType => {
                self.between.lock().new_volume_type = true;
                return;
            }
            Oddity::Forbidden { server } => {
                let server = self.users.server_of_ours(server);
                let Some(id) = server.as_ref().and_then(|server| server["id"].as_str()) else { return };
                Behaviour::Forbidden(id.to_owned())
            }
        };
        if let Err(error) = self.simulator.set_behaviour(behaviour) {
            self.problems.push(format!("the simulator refused a behaviour: {error}"));
        }
    }

    /// The same end for every story: faults end, everybody lives, and their supervisors make rounds until none has
    /// anything to do any more.
    async fn come_to_rest(&mut self) {
        self.end_faults();
        for disk in &self.disks {
            disk.keep_power();
        }
        self.resting = true;
        for disk in 0..DISKS {
            self.take_over(disk).await;
        }
        let seats = self.cast.seats();
        let mut quiet = 0;
        for number in 0..ROUNDS {
            for &seat in &seats {
                self.start(seat).await;
            }
            if number == RELEASE {
                self.problems.extend(laws::what_users_took_is_theirs(self));
                self.users.unprotect().await;
            }
            self.let_pass(if quiet == 0 { SECOND_LOOK } else { GRACE }).await;
            for process in self.processes.iter_mut().flatten().filter(|process| process.lifecycle().is_some()) {
                process.ongoing.shutdown().await;
            }
            self.finish().await;
            self.restless.clear();
            // What the runner still waits for is no work of a round, but time goes on for it.
            self.restless.extend(self.runner.lock().unsettled().filter(|_| self.cast.runner));
            for &seat in &seats {
                match &mut self.processes[seat] {
                    Some(Process { role: Role::Clusters(clusters), tasks, .. }) => {
                        let clusters = clusters.clone();
                        // An operator who tries to mend something, at first.
                        let repair = number < 2;
                        tasks.spawn(async move { Done::Clusters(farm::round(&clusters, repair).await) });
                    }
                    _ => self.round(seat, &Part::ALL),
                }
                // One after the other: of two that share a journal, one may take things up.
                self.finish().await;
            }
            if number >= RELEASE {
                self.abandon_what_was_started_elsewhere().await;
            }
            quiet = if self.restless.is_empty() { quiet + 1 } else { 0 };
            // What somebody protected is to go as well, afterwards.
            if quiet >= 2 && !self.users.protect_something() {
                break;
            }
        }
        if quiet < 2 {
            let last = self.restless.join("; ");
            self.problems.push(format!("after {ROUNDS} rounds there is still something to do: {last}"));
        }
        if let Some(Process { role: Role::Clusters(clusters), .. }) = &self.processes[CLUSTERS] {
            self.clusters = farm::states(clusters).await;
        }
    }

    /// Waits until all tasks have ended.
    async fn finish(&mut self) {
        let until = Instant::now() + LONGEST;
        loop {
            (0..SEATS).for_each(|seat| self.collect(seat));
            let Some(process) = self.processes.iter_mut().flatten().find(|process| !process.tasks.is_empty()) else {
                return;
            };
            if Instant::now() >= until {
                let tasks = process.tasks.len();
                self.problems.push(format!("a process is still at work on {tasks} things after {LONGEST:?}"));
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// The journals that can be read, by disk, and why the others cannot.
    pub(crate) fn journals(&self) -> (Vec<(usize, Journal)>, Vec<String>) {
        let open = |state: &PathBuf| Journal::read_only(&StateDirectory::open(state)?);
        let (mut journals, mut unreadable) = (Vec::new(), Vec::new());
        for (disk, (_, state)) in self.folders.iter().enumerate() {
            match open(state) {
                Ok(journal) => journals.push((disk, journal)),
                Err(Error::JournalAbsent { .. }) => {}
                Err(error) => unreadable.push(format!("journal {disk} cannot be read: {error}")),
            }
        }
        (journals, unreadable)
    }
}

fn in_state(state: OperationState) -> OperationFilter {
    let mut filter = OperationFilter::default();
    filter.states.push(state);
    filter
}

fn plain_specification() -> ServerSpecification {
    let group = "ci".parse().expect("a valid group name");
    ServerSpecification::new(group, zone(), "DEV1-S", ImageChoice::parse("ubuntu_noble"))
}

/// What a process's supervisor does.
fn supervision(grace: Duration) -> SupervisorOptions {
    let mut options = SupervisorOptions::default();
    options.resume_interval = RESUME_INTERVAL;
    let mut sweep = SweepRequest::new(vec![zone()]);
    sweep.grace = grace;
    options.sweep = Some(sweep);
    options
}

/// What a round found to do, in words: nothing of it may be left when a world has come to rest.
fn work_of(process: usize, round: &Round) -> Vec<String> {
    let mut work = Vec::new();
    let mut add = |what: String| work.push(format!("process {process} {what}"));
    if let Some(resumed) = &round.resumed {
        resumed.operations.iter().for_each(|it| add(format!("took operation {} up: {}", it.operation, it.state)));
        resumed.unverified.iter().for_each(|it| add(format!("looks at operation {} again", it.operation)));
        resumed.busy.iter().for_each(|it| add(format!("finds operation {it} under way")));
    }
    for cleaned in round.sweep.iter().flat_map(|sweep| &sweep.cleanups) {
        add(format!("swept: {}", cleaned.report.words()));
    }
    round.problems.iter().for_each(|problem| add(format!("could not {}: {}", problem.part, problem.error)));
    work
}
