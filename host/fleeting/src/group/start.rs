//! Init: the checks, the state, and what an earlier process left.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_console::{Beside, ServeOptions};
use windlass_lifecycle::{Clock, Durability, Options, Runtime, RuntimeOptions, StateDirectory, Supervisor, Tasks};
use windlass_policy::{Compiler, Host, Mistake};
use windlass_scaleway::Client;

use super::claim::{Lock, claim};
use super::error::StartError;
use super::fleet::Fleet;
use super::kind::{Begun, MachineKind, Opened};
use super::looks::Looks;
use super::places::Places;
use crate::observe::{self, Gauges};
use crate::protocol::{ConnectorConfig, Failure};

/// How long a check waits: the runner gives a minute to everything; an API that doesn't answer must be reported as
/// such.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn problem(place: &str, words: impl Into<String>) -> Mistake {
    Mistake { place: place.to_owned(), words: words.into() }
}

pub(super) fn words(error: &windlass_scaleway::Error) -> String {
    Failure::from_error(error).0
}

/// What a group stands on beside its configuration.
pub struct Dependencies {
    pub client: Client,
    pub policies: Arc<Host>,
    pub clock: Clock,
    /// What a journal write is proof against.
    pub durability: Durability,
    /// Makes ids, names of claims and jitter reproducible. Absent: the operating system's randomness. Each start of a
    /// group of Macs needs another one, since no claim's name may come twice.
    pub seed: Option<u64>,
    /// The host's name, by which other hosts know whose the servers are.
    pub host: Option<String>,
}

/// Starts a group.
///
/// Each group has a folder of its own in the state directory, with its journal, its owner's name, its key, its
/// policies' cache and its decision log; so one group never takes up the operations of another.
pub(super) async fn start<K: MachineKind>(
    configuration: K::Configuration,
    connector: ConnectorConfig,
    compiler: Option<Compiler>,
) -> Result<Arc<Fleet<K>>, StartError> {
    refuse_protocol(&connector)?;
    let common = configuration.as_ref();
    let client = Client::new(common.settings.clone())?;
    for notice in client.settings().notices() {
        tracing::warn!("{notice}");
    }
    let (state, lock) = claim(common).await?;
    if let Some(address) = &common.metrics {
        observe::serve_metrics(address).await?;
    }
    let console = console_of(common.console.as_ref(), &state, &client).await?;
    // Policies are compiled while Scaleway is being asked.
    let mut options = RuntimeOptions::new(client.clone(), state.clone(), K::ASKER);
    (options.policies, options.policy_folder) = (common.policies.clone(), common.policy_folder.clone());
    (options.brake, options.compiler) = (common.brake_of_each_zone(), compiler);
    let runtime = tokio::task::spawn_blocking(move || Runtime::build(options));
    let (checked, runtime) = tokio::join!(K::check(&client, &configuration, &connector), runtime);
    let (learned, runtime) = (checked?, runtime??);
    let (watch, policies, durability) = (runtime.watch(), runtime.policies, Durability::default());
    let dependencies = Dependencies {
        client,
        policies,
        clock: Clock::System,
        durability,
        seed: None,
        host: windlass_process::host_name(),
    };
    begin(configuration, connector, dependencies, Claimed { state, lock, learned, watch, console }).await
}

/// Starts a group on these dependencies.
pub(super) async fn start_on<K: MachineKind>(
    configuration: K::Configuration,
    connector: ConnectorConfig,
    dependencies: Dependencies,
) -> Result<Arc<Fleet<K>>, StartError> {
    refuse_protocol(&connector)?;
    let (state, lock) = claim(configuration.as_ref()).await?;
    let learned = K::check(&dependencies.client, &configuration, &connector).await?;
    begin(configuration, connector, dependencies, Claimed { state, lock, learned, watch: None, console: None }).await
}

/// Takes over the machines of a group, and begins nothing. Answers their ids.
pub(super) async fn adopt<K: MachineKind>(
    configuration: &K::Configuration,
    client: Client,
    policies: Arc<Host>,
) -> Result<Vec<String>, StartError> {
    let (state, _lock) = claim(configuration.as_ref()).await?;
    Ok(K::open(configuration, Options::new(client, policies, state), None).await?.taken_over)
}

/// The group's console, where one is configured. Its files are read on a thread for it.
async fn console_of(
    options: Option<&ServeOptions>,
    state: &StateDirectory,
    client: &Client,
) -> Result<Option<Beside>, StartError> {
    let Some(options) = options.cloned() else { return Ok(None) };
    let (state, client) = (state.clone(), client.clone());
    let serving = tokio::task::spawn_blocking(move || observe::serve_console(&options, &state, client));
    serving.await?.map(Some).map_err(StartError::Console)
}

pub(super) fn refuse_protocol(connector: &ConnectorConfig) -> Result<(), StartError> {
    match connector.protocol.as_str() {
        "" | "ssh" => Ok(()),
        other => Err(StartError::Protocol(other.to_owned())),
    }
}

/// What a start has in hand when everything is checked.
struct Claimed<K: MachineKind> {
    state: StateDirectory,
    lock: Lock,
    learned: K::Learned,
    watch: Option<windlass_policy::Watch>,
    console: Option<Beside>,
}

async fn begin<K: MachineKind>(
    configuration: K::Configuration,
    connector: ConnectorConfig,
    dependencies: Dependencies,
    claimed: Claimed<K>,
) -> Result<Arc<Fleet<K>>, StartError> {
    let Claimed { state, lock, learned, watch, console } = claimed;
    let Dependencies { client, policies, clock, durability, seed, host } = dependencies;
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state.clone());
    (options.host, options.clock, options.durability, options.seed) = (host, clock, durability, seed);
    let Opened { lifecycle, known, lease, .. } = K::open(&configuration, options, Some(&learned)).await?;
    let Begun { kind, book, left, known_zones, places } =
        K::begin(&configuration, &connector, &state, &lifecycle, learned)?;
    let mut zones = configuration.as_ref().zones.clone();
    for zone in known_zones.iter().filter(|zone| !configuration.as_ref().zones.contains(zone)) {
        tracing::info!(%zone, "it is not configured any more, and is watched until nothing of the group is there");
        zones.push(zone.clone());
    }
    metrics::gauge!(observe::names::LEFT).set(book.left() as f64);
    let priced = places.iter().filter_map(|(place, price)| Some((place.clone(), (*price)?)));
    let fleet = Arc::new(Fleet {
        kind,
        supervisor: Supervisor::new(lifecycle.clone(), K::supervision(&zones)),
        configuration,
        lifecycle,
        policies,
        client,
        connector,
        book: Mutex::new(book),
        gauges: Gauges::new(priced.collect()),
        places: Mutex::new(Places::new(places)),
        zones,
        looked: Mutex::default(),
        closed: Mutex::default(),
        known_zones,
        known,
        strangers: Mutex::default(),
        looks: Looks::default(),
        tasks: Tasks::default(),
        _lease: lease,
        _lock: lock,
        _watch: watch,
        _console: console,
    });
    fleet.tasks.spawn(K::work(Arc::clone(&fleet), left));
    Ok(fleet)
}
