//! Init: the lock, the state, the checks, and what an earlier process left.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_lifecycle::{
    Clock, Durability, GroupName, Lifecycle, Operation, OperationFilter, OperationId, OperationKind, OperationState,
    Options, OwnerName, Phase, ResourceKind, StateDirectory, Supervisor, scaleway_capabilities,
};
use windlass_policy::{Brake, Compiler, Host, HostOptions, Policies};
use windlass_scaleway::Client;

use super::background;
use super::book::{Book, Entry, Work};
use super::check::{Learned, check};
use super::fleet::{Fleet, PARALLEL_CLEANUPS};
use super::pause::Pause;
use super::suspend::Suspensions;
use crate::configuration::{Configuration, ConfigurationErrors};
use crate::connect::{KeyError, KeyPair};
use crate::observe::{self, MetricsError};
use crate::protocol::ConnectorConfig;

/// The lock's file in the group's folder.
const LOCK: &str = "lock";
/// How long a process that is on its way out is waited for: the plugin of a runner that was killed notices within a
/// second and needs another to leave.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
/// The longest name of an owner, in bytes (a rule of the lifecycle, checked there again).
const LONGEST_OWNER: usize = 48;
/// Operations that are read from the journal at most.
const MOST_OPERATIONS: u32 = 100_000;

/// Why the group cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something configured is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationErrors),
    /// The runner's connector cannot be used with instances.
    #[error("connector_config.protocol is {0:?}: this plugin connects by ssh only")]
    Protocol(String),
    /// Another plugin process works on the same group.
    #[error(
        "another plugin process has the group {group} (it holds {}): each [[runners]] entry needs a `name` of its own in \
         plugin_config, or a state_dir of its own", path.display()
    )]
    Locked {
        /// The group.
        group: String,
        /// The lock.
        path: PathBuf,
    },
    /// The lock could not be tried.
    #[error("the lock {} cannot be used", path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The state or the journal cannot be used.
    #[error(transparent)]
    Lifecycle(#[from] windlass_lifecycle::Error),
    /// A policy was refused, or the policy host cannot work.
    #[error("policies: {0}")]
    Policies(#[from] windlass_policy::Error),
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] windlass_scaleway::Error),
    /// There is no key pair.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// A thread of ours broke down.
    #[error("the plugin has a defect: {0}")]
    Defect(#[from] tokio::task::JoinError),
}

/// The exclusive lock on a group, released by the kernel when the process ends, however it ends.
pub(crate) struct Lock(#[allow(dead_code, reason = "held, not used")] std::fs::File);

pub(super) async fn lock(state: &StateDirectory, group: &str) -> Result<Lock, StartError> {
    let path = state.path().join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = state
        .handle()
        .open_with(LOCK, &options)
        .map_err(|source| StartError::Lock { path: path.clone(), source })?
        .into_std();
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < patience => {
                tokio::time::sleep(LOCK_INTERVAL).await;
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(StartError::Locked { group: group.to_owned(), path });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(StartError::Lock { path, source }),
        }
    }
}

/// What a group stands on beside its configuration.
pub struct Ground {
    /// Speaks to Scaleway.
    pub client: Client,
    /// Judges.
    pub policies: Arc<Host>,
    /// What time it is.
    pub clock: Clock,
    /// What a journal write is proof against.
    pub durability: Durability,
    /// Makes ids and jitter reproducible. Absent: the operating system's randomness.
    pub seed: Option<u64>,
}

/// Starts the group.
///
/// Each group has a folder of its own in the state directory, with its journal, its owner's name, its key, its
/// policies' cache and its decision log; so one group never takes up the operations of another.
pub(super) async fn start(
    configuration: Configuration,
    connector: ConnectorConfig,
    compiler: Option<Compiler>,
) -> Result<Arc<Fleet>, StartError> {
    refuse_protocol(&connector)?;
    let client = Client::new(configuration.settings.clone())?;
    for notice in client.settings().notices() {
        tracing::warn!("{notice}");
    }
    let (state, lock) = claim(&configuration).await?;
    if let Some(address) = &configuration.metrics {
        observe::serve_metrics(address).await?;
    }
    let key = key_of(&connector, &state)?;
    // Policies are compiled while Scaleway is being asked.
    let policies = tokio::task::spawn_blocking({
        let configuration = configuration.clone();
        let client = client.clone();
        let state = state.clone();
        move || {
            let Configuration { policies, policy_folder, brake, .. } = &configuration;
            policy_host(policies, policy_folder, *brake, &client, &state, compiler)
        }
    });
    let (checked, policies) = tokio::join!(check(&client, &configuration), policies);
    let learned = checked?;
    let policies = Arc::new(policies??);
    let watch = match policies.watch() {
        Ok(watch) => Some(watch),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "policies are not reloaded when their files change"
            );
            None
        }
    };
    let durability = Durability::default();
    let ground = Ground { client, policies, clock: Clock::System, durability, seed: None };
    begin(configuration, connector, ground, Claimed { state, lock, key, learned, watch })
}

/// Starts the group on this ground.
pub(super) async fn start_on(
    configuration: Configuration,
    connector: ConnectorConfig,
    ground: Ground,
) -> Result<Arc<Fleet>, StartError> {
    refuse_protocol(&connector)?;
    let (state, lock) = claim(&configuration).await?;
    let key = key_of(&connector, &state)?;
    let learned = check(&ground.client, &configuration).await?;
    begin(configuration, connector, ground, Claimed { state, lock, key, learned, watch: None })
}

fn refuse_protocol(connector: &ConnectorConfig) -> Result<(), StartError> {
    match connector.protocol.as_str() {
        "" | "ssh" => Ok(()),
        other => Err(StartError::Protocol(other.to_owned())),
    }
}

/// The group's folder, for this process alone.
async fn claim(configuration: &Configuration) -> Result<(StateDirectory, Lock), StartError> {
    let folder = configuration.state_directory.join("fleeting").join(configuration.group.as_str());
    let state = StateDirectory::open(&folder)?;
    let lock = lock(&state, configuration.group.as_str()).await?;
    Ok((state, lock))
}

fn key_of(connector: &ConnectorConfig, state: &StateDirectory) -> Result<Option<KeyPair>, StartError> {
    let key = if connector.use_static_credentials || !connector.key.is_empty() {
        (!connector.key.is_empty()).then(|| KeyPair::configured(connector.key.clone()))
    } else {
        Some(KeyPair::of_group(state.handle())?)
    };
    if key.as_ref().is_some_and(|key| key.tag().is_none()) {
        tracing::warn!(
            "the public part of the configured key cannot be told (it is no unencrypted OpenSSH key), so servers are not \
             given it: it must be among the project's SSH keys"
        );
    }
    Ok(key)
}

/// What a start has in hand when everything is checked.
struct Claimed {
    state: StateDirectory,
    lock: Lock,
    key: Option<KeyPair>,
    learned: Learned,
    watch: Option<windlass_policy::Watch>,
}

fn begin(
    configuration: Configuration,
    connector: ConnectorConfig,
    ground: Ground,
    claimed: Claimed,
) -> Result<Arc<Fleet>, StartError> {
    let Claimed { state, lock, key, learned: Learned { family, architecture }, watch } = claimed;
    let Ground { client, policies, clock, durability, seed } = ground;
    let owner = configuration.owner.as_ref().map(|owner| owner_of_group(owner, &configuration.group)).transpose()?;
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state.clone());
    options.owner = owner;
    options.clock = clock;
    options.durability = durability;
    options.seed = seed;
    let lifecycle = Lifecycle::open(options)?;
    let suspensions = Suspensions::open(
        state
            .handle()
            .try_clone()
            .map_err(|source| windlass_lifecycle::Error::StateDirectory { path: state.path().to_owned(), source })?,
    );
    let (book, vanished_candidates) = book_of_journal(&lifecycle, &configuration)?;
    let fleet = Arc::new(Fleet {
        creating: Semaphore::new(configuration.max_parallel_creates as usize),
        cleaning: Semaphore::new(PARALLEL_CLEANUPS),
        supervisor: Supervisor::new(lifecycle.clone(), background::supervision(&configuration)),
        configuration,
        lifecycle,
        policies,
        client,
        connector,
        key,
        family,
        architecture,
        book: Mutex::new(book),
        handles: Mutex::default(),
        pause: Mutex::new(Pause::default()),
        suspensions,
        listing: tokio::sync::Mutex::new(None),
        left: Notify::new(),
        leaving: CancellationToken::new(),
        stopped: CancellationToken::new(),
        tasks: TaskTracker::new(),
        _lock: lock,
        _watch: watch,
    });
    // In this order: what is open is ended first; only then is it seen what nothing explains.
    let working = Arc::clone(&fleet);
    fleet.spawn(async move {
        working.take_up().await;
        working.clean_up_vanished(vanished_candidates).await;
        working.spawn_second_tries();
        working.spawn_supervision();
    });
    Ok(fleet)
}

/// Two groups of one owner must not sweep each other's resources, since each knows only its own journal.
pub(super) fn owner_of_group(owner: &OwnerName, group: &GroupName) -> Result<OwnerName, windlass_lifecycle::Error> {
    let name = format!("{owner}-{group}");
    if name.len() <= LONGEST_OWNER {
        return name.parse();
    }
    // Two long names are told apart by a mark of the whole.
    let mark = hex::encode(&Sha256::digest(name.as_bytes())[..5]);
    let kept = LONGEST_OWNER - mark.len() - 1;
    format!("{}-{mark}", name[..kept].trim_end_matches('-')).parse()
}

pub(super) fn policy_host(
    policies: &Policies,
    folder: &Path,
    brake: Brake,
    client: &Client,
    state: &StateDirectory,
    compiler: Option<Compiler>,
) -> Result<Host, StartError> {
    let directory = state
        .handle()
        .try_clone()
        .map_err(|source| windlass_lifecycle::Error::StateDirectory { path: state.path().to_owned(), source })?;
    let mut options = HostOptions::new(directory);
    options.policy_folder = folder.to_owned();
    options.brake = brake;
    options.capabilities = scaleway_capabilities(client);
    options.compiler = compiler;
    let host = Host::new(options)?;
    host.configure(policies)?;
    Ok(host)
}

/// What the journal says there is: open operations, and machines that should exist. The latter are listed by Scaleway
/// as well; those that are not have lost their server while nobody looked.
fn book_of_journal(
    lifecycle: &Lifecycle,
    configuration: &Configuration,
) -> Result<(Book, Vec<OperationId>), windlass_lifecycle::Error> {
    let mut book = Book::default();
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open, OperationState::Left];
    filter.limit = Some(MOST_OPERATIONS);
    let unfinished = lifecycle.journal().operations(&filter)?;
    // Oldest first, so that a removal comes after the creation it ends.
    for operation in unfinished.into_iter().rev() {
        match operation.kind {
            OperationKind::CreateServer => {
                let work = if operation.state == OperationState::Left { Work::Left } else { Work::Creating };
                let mut entry = Entry::found(operation.id.clone(), work);
                entry.left_by = (operation.state == OperationState::Left).then(|| operation.id.clone());
                book.insert(entry);
            }
            OperationKind::CleanupServer => {
                let Some(creation) = creation_of(&operation) else { continue };
                let work = if operation.state == OperationState::Left { Work::Left } else { Work::CleaningUp };
                let mut entry = Entry::found(creation, work);
                entry.left_by = Some(operation.id);
                book.insert(entry);
            }
            // Nothing of theirs is an instance of the group.
            OperationKind::Sweep
            | OperationKind::AdoptMachine
            | OperationKind::OrderMachine
            | OperationKind::ReleaseMachine => {}
        }
    }
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Done];
    filter.group = Some(configuration.group.to_string());
    filter.kind = Some(OperationKind::CreateServer);
    filter.limit = Some(MOST_OPERATIONS);
    let done = lifecycle.journal().operations(&filter)?;
    let candidates = done
        .into_iter()
        .filter(|operation| operation.ended_by.is_none() && book.get(operation.id.as_str()).is_none())
        .map(|operation| operation.id)
        .collect();
    Ok((book, candidates))
}

/// The creation whose server a cleanup removes.
fn creation_of(cleanup: &Operation) -> Option<OperationId> {
    OperationId::parse(cleanup.specification.get("creation")?.as_str()?).ok()
}

impl Fleet {
    /// Whether the server of a creation that ended well is proven gone: that a list leaves it out is no proof.
    async fn is_gone(&self, creation: &OperationId) -> bool {
        let entries = match self.lifecycle.journal().entries(creation) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(instance = %creation, error = &error as &dyn std::error::Error, "it cannot be looked at");
                return false;
            }
        };
        let server = entries.into_iter().filter(|entry| entry.phase == Phase::Outcome).find_map(|entry| {
            entry.resource.filter(|resource| resource.kind == ResourceKind::Server).map(|resource| resource.id)
        });
        let Some(server) = server else { return false };
        match self.read_server(&server).await {
            Ok(found) => found.is_none(),
            Err(error) => {
                tracing::warn!(
                    instance = %creation,
                    error = &error as &dyn std::error::Error,
                    "it was not listed and could not be looked at; if it is gone, the sweep removes what is left of it"
                );
                false
            }
        }
    }

    /// Removes the rest of instances whose servers vanished while no process of ours was there to see it.
    async fn clean_up_vanished(self: &Arc<Self>, candidates: Vec<OperationId>) {
        if candidates.is_empty() {
            return;
        }
        let zone = std::slice::from_ref(&self.configuration.zone);
        let machines = match self.lifecycle.machines(zone, Some(&self.configuration.group)).await {
            Ok(machines) => machines,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "whether instances vanished cannot be seen now; the sweep removes what is left of them"
                );
                return;
            }
        };
        for operation in candidates {
            let listed = machines.iter().any(|machine| machine.operation.as_ref() == Some(&operation));
            if listed || !self.is_gone(&operation).await {
                continue;
            }
            let id = operation.to_string();
            let known = self.book.lock().get(&id).is_some();
            if !known {
                self.book.lock().insert(Entry::found(operation, Work::Idle));
                if let Err(error) =
                    self.begin_cleanup(&id, "its server vanished while the plugin was not running").await
                {
                    tracing::warn!(
                        instance = id,
                        error = &error as &dyn std::error::Error,
                        "its rest could not be removed"
                    );
                    self.book.lock().set_work(&id, Work::Gone);
                }
            }
        }
    }
}
