//! One run: the processes, their disks, the simulated Scaleway, and how a story is carried out.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_lifecycle::{
    AddressKind, Clock, CloudInit, Control, Durability, Error, ExtraVolume, ImageChoice, Journal, Lifecycle,
    OperationId, Options, Part, Round, ServerSpecification, StateDirectory, Supervisor, SupervisorOptions,
    SweepRequest, Target, VolumeKind,
};
use windlass_policy::{Host, HostOptions};
use windlass_scaleway::{Client, Settings, Transport, TransportError, Zone};
use windlass_simulator::{Behaviour, FaultRule, Simulator};

use crate::disk::Disk;
use crate::laws;
use crate::story::{Oddity, PROCESSES, Shape, Story, What};
use crate::users::Users;

pub(crate) const ZONE: &str = "fr-par-1";
const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
const OWNER: &str = "team";
/// 2026-09-21T14:13:20Z.
const NOW: u64 = 1_790_000_000_000;
/// The disk that each process keeps its journal on.
const DISK_OF: [usize; PROCESSES] = [0, 1, 0];
const DISKS: usize = 2;
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

/// The built-in policies, compiled once for all runs.
fn policies() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let folder = folder();
        let state = StateDirectory::open(folder.path()).expect("a folder that was just made");
        let handle = state.handle().try_clone().expect("a file descriptor");
        (folder, Arc::new(Host::new(HostOptions::new(handle)).expect("the built-in policies load")))
    });
    Arc::clone(host)
}

/// The network of a process: nothing leaves it, and nothing arrives, once its disk has lost power.
struct Wire {
    inner: Arc<dyn Transport>,
    disk: Arc<Disk>,
}

impl Transport for Wire {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, TransportError>> {
        if self.disk.is_lost() {
            return futures::future::pending().boxed();
        }
        let (sent, disk) = (self.inner.send(request), Arc::clone(&self.disk));
        async move {
            let answer = sent.await;
            if disk.is_lost() {
                return futures::future::pending().await;
            }
            answer
        }
        .boxed()
    }
}

/// What a task of a process ended with.
enum Done {
    Created(Option<(OperationId, String)>),
    CleanedUp { server: String, clean: bool },
    Round(Box<Round>),
    Other,
}

struct Process {
    lifecycle: Lifecycle,
    supervisor: Supervisor,
    tasks: JoinSet<Done>,
    /// The supervisor at work by itself.
    supervision: JoinSet<()>,
    creations: Vec<Control>,
}

/// A temporary folder, in memory where there is such a place: nothing in it outlives the run.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a temporary folder")
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
    supervised: bool,
    origin: Instant,
    network: String,
    folders: Vec<tempfile::TempDir>,
    disks: Vec<Arc<Disk>>,
    processes: Vec<Option<Process>>,
    starts: u64,
    /// By server.
    pub(crate) given: BTreeMap<String, Given>,
    /// Servers whose cleanup somebody asked for.
    pub(crate) unwanted: Vec<String>,
    created: usize,
    /// Whether a round of the end had something to do.
    restless: Vec<String>,
    pub(crate) problems: Vec<String>,
    shapes: BTreeMap<OperationId, Shape>,
}

fn settings() -> Settings {
    let many = NonZeroU32::MAX;
    Settings::new(KEY.parse().expect("a UUID is a key")).with_limits(windlass_scaleway::Limits {
        calls_per_second: NonZeroU32::new(1_000_000).unwrap_or(many),
        burst: NonZeroU32::new(1_000_000).unwrap_or(many),
        concurrent_calls: NonZeroU32::new(512).unwrap_or(many),
        ..windlass_scaleway::Limits::default()
    })
}

fn zone() -> Zone {
    ZONE.parse().expect("a valid zone")
}

impl World {
    async fn new(story: &Story) -> Self {
        let seed = story.seed;
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
        let folders: Vec<_> = (0..DISKS).map(|_| folder()).collect();
        let disks = folders.iter().map(|folder| Arc::new(Disk::under(folder.path()).expect("a folder"))).collect();
        Self {
            users: Users::new(client, simulator.clone()),
            simulator,
            seed,
            supervised: story.supervised,
            origin: Instant::now(),
            network,
            folders,
            disks,
            processes: (0..PROCESSES).map(|_| None).collect(),
            starts: 0,
            given: BTreeMap::new(),
            unwanted: Vec::new(),
            created: 0,
            restless: Vec::new(),
            problems: Vec::new(),
            shapes: BTreeMap::new(),
        }
    }

    async fn carry_out(mut self, story: &Story) -> Ending {
        for process in 0..PROCESSES {
            self.start(process).await;
        }
        for event in &story.events {
            self.let_pass(Duration::from_millis(event.after)).await;
            self.happen(&event.what).await;
        }
        self.come_to_rest().await;
        let mut violations = std::mem::take(&mut self.problems);
        violations.extend(laws::violations(&self));
        let mut hasher = DefaultHasher::new();
        let requests = self.simulator.requests();
        for request in &requests {
            (request.at_ms, &request.method, &request.path, request.status).hash(&mut hasher);
        }
        let ending = Ending { violations, digest: hasher.finish(), calls: requests.len(), created: self.created };
        for process in 0..PROCESSES {
            self.kill(process).await;
        }
        ending
    }

    /// Lets time pass, and processes die with their disks at the moment at which these lose power.
    async fn let_pass(&mut self, time: Duration) {
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
        while let Some(done) = process.tasks.try_join_next() {
            match done {
                Ok(Done::Created(Some((operation, server)))) => {
                    self.created += 1;
                    let shape = self.shapes.get(&operation).copied().unwrap_or(Shape::Bare);
                    self.given.insert(server.clone(), Given { process: index, operation, server, shape });
                }
                Ok(Done::CleanedUp { server, clean: true }) => {
                    if laws::exists(&self.simulator.resources().servers, &server) {
                        self.problems.push(format!("a cleanup of server {server} ended clean, and it is there"));
                    }
                }
                Ok(Done::Round(round)) => self.restless.extend(work_of(index, &round)),
                Ok(_) => {}
                Err(error) if error.is_panic() => self.problems.push(format!("a task panicked: {error}")),
                Err(_) => {}
            }
        }
    }

    async fn kill(&mut self, index: usize) {
        self.collect(index);
        if let Some(mut process) = self.processes[index].take() {
            process.tasks.shutdown().await;
            process.supervision.shutdown().await;
        }
    }

    /// Starts a process that does not live; it resumes what an earlier one left.
    async fn start(&mut self, index: usize) {
        if self.processes[index].is_some() {
            return;
        }
        let disk = DISK_OF[index];
        if self.disks[disk].is_lost() {
            for process in (0..PROCESSES).filter(|process| DISK_OF[*process] == disk) {
                self.kill(process).await;
            }
            self.starts += 1;
            let seed = self.seed ^ (self.starts << 32);
            if let Err(error) = self.disks[disk].restart(seed) {
                self.problems.push(format!("the disk cannot be written: {error}"));
                return;
            }
        }
        self.starts += 1;
        let wire = Wire { inner: self.simulator.transport(), disk: Arc::clone(&self.disks[disk]) };
        let opened = (|| {
            let client = Client::with_transport(settings(), Arc::new(wire)).expect("valid settings");
            let state = StateDirectory::open(self.folders[disk].path())?;
            Lifecycle::open(Options {
                owner: Some(OWNER.parse()?),
                durability: Durability::FullInline,
                clock: Clock::Simulated { start: NOW, origin: self.origin },
                seed: Some(self.seed ^ (self.starts << 32)),
                ..Options::new(client, policies(), state)
            })
        })();
        match opened {
            Ok(lifecycle) => {
                let supervisor = Supervisor::new(lifecycle.clone(), supervision());
                let mut supervision = JoinSet::new();
                if self.supervised {
                    let supervisor = supervisor.clone();
                    supervision.spawn(async move { supervisor.run(&Control::new(), |_| {}).await });
                }
                let (tasks, creations) = (JoinSet::new(), Vec::new());
                self.processes[index] = Some(Process { lifecycle, supervisor, tasks, supervision, creations });
                self.round(index, &[Part::Resume]);
            }
            Err(error) if self.disks[disk].is_lost() => drop(error),
            Err(error) => self.problems.push(format!("process {index} cannot start: {error}")),
        }
    }

    /// A process's supervisor makes a round.
    fn round(&mut self, index: usize, parts: &'static [Part]) {
        if let Some(process) = &mut self.processes[index] {
            let supervisor = process.supervisor.clone();
            process.tasks.spawn(async move { Done::Round(Box::new(supervisor.round(parts, &Control::new()).await)) });
        }
    }

    async fn specification(&mut self, shape: Shape) -> ServerSpecification {
        let group = "ci".parse().expect("a valid group name");
        let mut wanted = ServerSpecification::new(group, zone(), "DEV1-S", ImageChoice::parse("ubuntu_noble"));
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
                if let Some(id) = self.users.make_volume().await {
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
        let Some(process) = &mut self.processes[index] else { return };
        let Ok(pending) = process.lifecycle.begin_create(wanted).await else { return };
        self.shapes.insert(pending.id().clone(), shape);
        let control = Control::new();
        process.creations.push(control.clone());
        process.tasks.spawn(async move {
            let operation = pending.id().clone();
            match pending.run(&control).await {
                Ok(created) => Done::Created(Some((operation, created.server.id))),
                Err(_) => Done::Created(None),
            }
        });
    }

    fn clean_up(&mut self, index: usize, chosen: usize) {
        let candidates: Vec<Given> = self
            .given
            .values()
            .filter(|given| DISK_OF[given.process] == DISK_OF[index] && !self.unwanted.contains(&given.server))
            .cloned()
            .collect();
        let Some(process) = &mut self.processes[index] else { return };
        if candidates.is_empty() {
            return;
        }
        let Given { operation, server, .. } = candidates[chosen % candidates.len()].clone();
        self.unwanted.push(server.clone());
        let lifecycle = process.lifecycle.clone();
        process.tasks.spawn(async move {
            match lifecycle.cleanup(&Target::Operation(operation), &Control::new()).await {
                Ok(cleaned) => {
                    Done::CleanedUp { server, clean: cleaned.report.is_clean() && cleaned.report.kept.is_empty() }
                }
                Err(Error::CleanupUnderWay { .. } | _) => Done::Other,
            }
        });
    }

    async fn happen(&mut self, what: &What) {
        match *what {
            What::Create { process, shape } => self.create(process, shape).await,
            What::CleanUp { process, chosen } => self.clean_up(process, chosen),
            What::CallOff { process, chosen } => {
                if let Some(process) = &self.processes[process]
                    && !process.creations.is_empty()
                {
                    process.creations[chosen % process.creations.len()].cancel();
                }
            }
            What::Resume { process } => self.round(process, &[Part::Resume]),
            What::Sweep { process } => self.round(process, &[Part::Sweep]),
            What::Fault { method, path, nth, kind, effect } => {
                let rule = FaultRule { method: Some(method.to_owned()), path: path.to_owned(), nth, kind, effect };
                if let Err(error) = self.simulator.add_fault(rule) {
                    self.problems.push(format!("the simulator refused a fault: {error}"));
                }
            }
            What::Behave { as_if } => self.behave(as_if),
            What::FaultsEnd => {
                self.simulator.clear_faults();
                self.simulator.clear_behaviours();
            }
            What::Kill { process } => self.kill(process).await,
            What::LosePower { process, at_sync, took_effect } => {
                self.disks[DISK_OF[process]].lose_power_at(at_sync, took_effect);
            }
            What::Start { process } => self.start(process).await,
            What::User(user) => {
                // Users are not met by the hosts' faults.
                let faults = self.simulator.faults();
                self.simulator.clear_faults();
                self.users.act(user).await;
                for fault in faults {
                    let spent = fault.rule.nth.is_some_and(|nth| fault.matched >= nth);
                    if !spent {
                        let nth = fault.rule.nth.map(|nth| nth - fault.matched);
                        let _ = self.simulator.add_fault(FaultRule { nth, ..fault.rule });
                    }
                }
            }
        }
    }

    fn behave(&mut self, as_if: Oddity) {
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
        self.simulator.clear_faults();
        self.simulator.clear_behaviours();
        for disk in &self.disks {
            disk.keep_power();
        }
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            for process in 0..PROCESSES {
                self.start(process).await;
            }
            self.let_pass(if quiet == 0 { SECOND_LOOK } else { GRACE }).await;
            for process in self.processes.iter_mut().flatten() {
                process.supervision.shutdown().await;
            }
            self.finish().await;
            self.restless.clear();
            for process in 0..PROCESSES {
                self.round(process, &Part::ALL);
                // One after the other: of two that share a journal, one may take things up.
                self.finish().await;
            }
            quiet = if self.restless.is_empty() { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
        }
        let last = self.restless.join("; ");
        self.problems.push(format!("after {ROUNDS} rounds there is still something to do: {last}"));
    }

    /// Waits until all tasks have ended.
    async fn finish(&mut self) {
        let until = Instant::now() + LONGEST;
        loop {
            (0..PROCESSES).for_each(|process| self.collect(process));
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

    /// The journals, by disk.
    pub(crate) fn journals(&self) -> Vec<(usize, Journal)> {
        let open = |folder: &tempfile::TempDir| Journal::read_only(&StateDirectory::open(folder.path())?);
        let journals = self.folders.iter().enumerate().filter_map(|(disk, folder)| match open(folder) {
            Err(Error::JournalAbsent { .. }) => None,
            journal => Some((disk, journal.expect("a journal that a process has just worked on"))),
        });
        journals.collect()
    }
}

/// What a process's supervisor does.
fn supervision() -> SupervisorOptions {
    SupervisorOptions {
        resume_interval: RESUME_INTERVAL,
        sweep: Some(SweepRequest::new(vec![zone()])),
        ..SupervisorOptions::default()
    }
}

/// What a round found to do, in words: nothing of it may be left when a world has come to rest.
fn work_of(process: usize, round: &Round) -> Vec<String> {
    let mut work = Vec::new();
    let mut add = |what: String| work.push(format!("process {process} {what}"));
    for resumed in &round.resumed {
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
