//! Init: the checks, the state, and what an earlier process left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windlass_console::{Beside, ServeOptions};
use windlass_distribution::{Registries, RegistryOptions};
use windlass_lifecycle::{
    Clock, Durability, GroupMember, Lifecycle, Operation, OperationFilter, OperationId, OperationKind, OperationState,
    Options, Phase as EntryPhase, RequestedBy, Requester, ResourceKind, StateDirectory, Supervisor, Tasks,
    members_of_group, scaleway_capabilities,
};
use windlass_policy::{Asker, Brake, Compiler, Host, HostOptions, Policies};
use windlass_scaleway::{Client, InvalidLocation, Zone};

use super::addresses::LastAddresses;
use super::background;
use super::book::Book;
use super::check::{Learned, check};
use super::claim::{Lock, claim};
use super::closed::says_closed;
use super::entry::{Entry, Event, Phase};
use super::error::StartError;
use super::fleet::{Fleet, PARALLEL_CLEANUPS};
use super::ids::Ids;
use super::looks::Looks;
use super::places::{Place, Places};
use super::{suspend, takeover};
use crate::configuration::{Configuration, ConfigurationErrors, Problem};
use crate::connect::{Family, KeyPair};
use crate::observe::{self, Gauges};
use crate::protocol::ConnectorConfig;

/// What a group stands on beside its configuration.
pub struct Dependencies {
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
    /// The host's name, by which other hosts know whose the servers are.
    pub host: Option<String>,
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
    let console = console_of(configuration.console.as_ref(), &state, &client).await?;
    let key = key_of(&connector, &state)?;
    // Policies are compiled while Scaleway is being asked.
    let policies = tokio::task::spawn_blocking({
        let configuration = configuration.clone();
        let client = client.clone();
        let state = state.clone();
        move || {
            let Configuration { policies, policy_folder, .. } = &configuration;
            policy_host(
                Asker::Instances,
                policies,
                policy_folder,
                configuration.brake_of_each_zone(),
                &client,
                &state,
                compiler,
            )
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
    let dependencies =
        Dependencies { client, policies, clock: Clock::System, durability, seed: None, host: takeover::host_name() };
    begin(configuration, connector, dependencies, Claimed { state, lock, key, learned, watch, console }).await
}

/// Starts the group on this dependencies.
pub(super) async fn start_on(
    configuration: Configuration,
    connector: ConnectorConfig,
    dependencies: Dependencies,
) -> Result<Arc<Fleet>, StartError> {
    refuse_protocol(&connector)?;
    let (state, lock) = claim(&configuration).await?;
    let key = key_of(&connector, &state)?;
    let learned = check(&dependencies.client, &configuration).await?;
    begin(configuration, connector, dependencies, Claimed { state, lock, key, learned, watch: None, console: None })
        .await
}

/// The group's console, where one is configured. Its files are read on a thread for it.
pub(super) async fn console_of(
    options: Option<&ServeOptions>,
    state: &StateDirectory,
    client: &Client,
) -> Result<Option<Beside>, StartError> {
    let Some(options) = options.cloned() else { return Ok(None) };
    let (state, client) = (state.clone(), client.clone());
    let serving = tokio::task::spawn_blocking(move || observe::serve_console(&options, &state, client));
    serving.await?.map(Some).map_err(StartError::Console)
}

fn refuse_protocol(connector: &ConnectorConfig) -> Result<(), StartError> {
    match connector.protocol.as_str() {
        "" | "ssh" => Ok(()),
        other => Err(StartError::Protocol(other.to_owned())),
    }
}

fn key_of(connector: &ConnectorConfig, state: &StateDirectory) -> Result<Option<KeyPair>, StartError> {
    let key = if connector.use_static_credentials || !connector.key.is_empty() {
        (!connector.key.is_empty()).then(|| KeyPair::configured(connector.key.clone()))
    } else {
        Some(KeyPair::of_group(state.handle())?)
    };
    if key.as_ref().is_some_and(|key| key.tag().is_none()) {
        tracing::warn!(
            "the public part of the configured key cannot be told (it is no unencrypted OpenSSH key), so servers are \
             not given it: it must be among the project's SSH keys"
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
    console: Option<Beside>,
}

async fn begin(
    configuration: Configuration,
    connector: ConnectorConfig,
    dependencies: Dependencies,
    claimed: Claimed,
) -> Result<Arc<Fleet>, StartError> {
    let Claimed { state, lock, key, learned: Learned { family, architecture, places }, watch, console } = claimed;
    let Dependencies { client, policies, clock, durability, seed, host } = dependencies;
    refuse_windows(&connector, family)?;
    let members = members(&client, &configuration, &state).await?;
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state.clone());
    options.owner = takeover::owner(&configuration, &state, &members)?;
    options.host = host;
    options.clock = clock;
    options.durability = durability;
    options.seed = seed;
    let lifecycle = Lifecycle::open(options)?;
    lifecycle.check_history_in(&configuration.zones).await?;
    let adopted = ids(&state, takeover::FILE)?;
    takeover::settle(&configuration, &lifecycle, &state, &adopted, &members)?;
    let suspensions = ids(&state, suspend::FILE)?;
    let (book, vanished_candidates) = book_of_journal(&lifecycle, &configuration)?;
    let known_zones: BTreeSet<Zone> = book
        .iter()
        .map(|(_, entry)| &entry.place.zone)
        .chain(vanished_candidates.iter().map(|(_, place)| &place.zone))
        .cloned()
        .collect();
    let mut zones = configuration.zones.clone();
    for zone in known_zones.iter().filter(|zone| !configuration.zones.contains(zone)) {
        tracing::info!(%zone, "it is configured no more, and looked at for as long as something of the group is there");
        zones.push(zone.clone());
    }
    metrics::gauge!(observe::names::LEFT).set(book.left() as f64);
    let fleet = Arc::new(Fleet {
        creating: Semaphore::new(configuration.max_parallel_creates as usize),
        cleaning: Semaphore::new(PARALLEL_CLEANUPS),
        supervisor: Supervisor::new(lifecycle.clone(), background::supervision(&zones)),
        configuration,
        lifecycle,
        policies,
        client,
        connector,
        key,
        family,
        architecture,
        book: Mutex::new(book),
        controls: Mutex::default(),
        gauges: Gauges::new(places.iter().filter_map(|(place, price)| Some((place.clone(), (*price)?))).collect()),
        places: Mutex::new(Places::new(places)),
        zones,
        looked: Mutex::default(),
        closed: Mutex::default(),
        known_zones,
        suspensions,
        adopted,
        strangers: Mutex::default(),
        looks: Looks::default(),
        last_addresses: LastAddresses::default(),
        tasks: Tasks::default(),
        _lock: lock,
        _watch: watch,
        _console: console,
    });
    // In this order: what is open is ended first; only then is it seen what nothing explains.
    let working = Arc::clone(&fleet);
    fleet.tasks.spawn(async move {
        working.take_up().await;
        working.clean_up_vanished(vanished_candidates).await;
        working.spawn_supervision();
    });
    Ok(fleet)
}

/// Whoever's servers say that they are of the group, in each of its zones. Where the state is fresh each has to answer:
/// it decides now whether the group is alone, and never again. Otherwise one that does not takes no other with it: what
/// the journal does not know there is left alone whenever it is seen.
pub(super) async fn members(
    client: &Client,
    configuration: &Configuration,
    state: &StateDirectory,
) -> Result<Vec<GroupMember>, StartError> {
    let of_zones = configuration.zones.iter().map(|zone| members_of_group(client, zone, &configuration.group));
    let mut members = Vec::new();
    let mut silent = Vec::new();
    for (zone, answer) in configuration.zones.iter().zip(join_all(of_zones).await) {
        match answer {
            Ok(of_zone) => members.extend(of_zone),
            Err(error) => silent.push((zone, error)),
        }
    }
    // A closed zone cannot answer; what it shows one day is left alone.
    let must_answer = |error: &windlass_lifecycle::Error| state.is_fresh() && !says_closed(error);
    let all_silent = silent.len() == configuration.zones.len();
    if let Some(position) = silent.iter().position(|(_, error)| all_silent || must_answer(error)) {
        return Err(silent.swap_remove(position).1.into());
    }
    for (zone, error) in silent {
        tracing::warn!(
            %zone,
            error = &error as &dyn std::error::Error,
            "whether servers of another host are there cannot be seen; if so, they are left alone"
        );
    }
    Ok(members)
}

/// A list of instances in the group's folder.
pub(super) fn ids(state: &StateDirectory, file: &'static str) -> Result<Ids, StartError> {
    let directory = state
        .handle()
        .try_clone()
        .map_err(|source| windlass_lifecycle::Error::StateDirectory { path: state.path().to_owned(), source })?;
    Ok(Ids::open(directory, file))
}

/// An instance is reached by ssh, with a key that cloud-init lets in, which a Windows image does not have. With
/// credentials of their own, people know what they do.
fn refuse_windows(connector: &ConnectorConfig, family: Family) -> Result<(), StartError> {
    if family.operating_system != "windows" || connector.use_static_credentials {
        return Ok(());
    }
    let words = "it is a Windows image, which does not let the group's key in by ssh. Name a Linux image; or one of \
                 your own with an SSH server, and set use_static_credentials with its account in connector_config";
    let problem = Problem { place: "image".to_owned(), words: words.to_owned() };
    Err(ConfigurationErrors::of(vec![problem]).into())
}

pub(super) fn policy_host(
    asker: Asker,
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
    options.asker = Some(asker);
    options.brake = brake;
    options.capabilities = scaleway_capabilities(client);
    options.compiler = compiler;
    options.registries = Some(Arc::new(registries(policies, folder, state)?));
    let host = Host::new(options)?;
    host.configure(policies)?;
    Ok(host)
}

/// From where `path = "oci://..."` is fetched.
fn registries(policies: &Policies, folder: &Path, state: &StateDirectory) -> Result<Registries, StartError> {
    let mut options = RegistryOptions::of_service(
        policies.registries().clone(),
        policies.trust().cloned(),
        state.handle(),
        state.path(),
    )
    .map_err(|source| windlass_lifecycle::Error::StateDirectory { path: state.path().to_owned(), source })?;
    options.folder = folder.to_owned();
    Ok(Registries::new(options)?)
}

/// What the journal says there is: open operations, and machines that should exist. The latter are listed by Scaleway
/// as well; those that are not have lost their server while nobody looked.
fn book_of_journal(
    lifecycle: &Lifecycle,
    configuration: &Configuration,
) -> Result<(Book, Vec<(OperationId, Place)>), windlass_lifecycle::Error> {
    let mut book = Book::default();
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open, OperationState::Left];
    let unfinished = lifecycle.journal().operations(&filter)?;
    // Nobody here takes up what another owner's process left.
    let ours = |operation: &Operation| operation.owner == lifecycle.owner().as_str();
    // Oldest first, so that a removal comes after the creation it ends.
    for operation in unfinished.into_iter().rev().filter(ours) {
        let left = operation.state == OperationState::Left;
        let by = Some(operation.id.clone());
        let place = place_of(&operation)?;
        match operation.kind {
            OperationKind::CreateServer => {
                let phase = if left { Phase::Left { by } } else { Phase::Creating { unwanted: false } };
                book.insert(Entry::found(operation.id, place, phase));
            }
            OperationKind::CleanupServer => {
                let Some(creation) = creation_of(&operation) else { continue };
                let phase = if left { Phase::Left { by } } else { Phase::Removing { by } };
                // The creation's own row, which came first, may have said of which type.
                let place = book.get(creation.as_str()).map_or(place, |entry| entry.place.clone());
                book.insert(Entry::found(creation, place, phase));
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
    filter.not_ended = true;
    let done = lifecycle.journal().operations(&filter)?;
    let candidates = done
        .into_iter()
        .filter(|operation| ours(operation) && book.get(operation.id.as_str()).is_none())
        .map(|operation| Ok((operation.id.clone(), place_of(&operation)?)))
        .collect::<Result<_, windlass_lifecycle::Error>>()?;
    Ok((book, candidates))
}

/// Where an operation's server is. Of which type a creation made it is seen when it is listed; here it is the first
/// that was to be tried.
fn place_of(operation: &Operation) -> Result<Place, windlass_lifecycle::Error> {
    let unreadable = |error: InvalidLocation| windlass_lifecycle::Error::Specification {
        field: "zone",
        problem: format!("of operation {} in the journal: {error}", operation.id),
    };
    let zone = operation.zone.parse().map_err(unreadable)?;
    let server_type = operation.specification["types"][0].as_str().unwrap_or_default().to_owned();
    Ok(Place { zone, server_type })
}

/// The creation whose server a cleanup removes.
fn creation_of(cleanup: &Operation) -> Option<OperationId> {
    OperationId::parse(cleanup.specification.get("creation")?.as_str()?).ok()
}

impl Fleet {
    /// Whether the server of a creation that ended well is proven gone: that a list leaves it out is no proof.
    async fn is_gone(&self, creation: &OperationId, zone: &Zone) -> bool {
        let entries = match self.lifecycle.journal().entries(creation) {
            Ok(entries) => entries,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(instance = %creation, error, "it cannot be looked at");
                return false;
            }
        };
        let server = entries.into_iter().filter(|entry| entry.phase == EntryPhase::Outcome).find_map(|entry| {
            entry.resource.filter(|resource| resource.kind == ResourceKind::Server).map(|resource| resource.id)
        });
        let Some(server) = server else { return false };
        // What belonged to a kept server stays with whoever wanted it kept.
        if self.lifecycle.journal().is_kept(&server).unwrap_or(true) {
            return false;
        }
        match self.read_server(zone, &server).await {
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
    async fn clean_up_vanished(self: &Arc<Self>, candidates: Vec<(OperationId, Place)>) {
        let zones: BTreeSet<&Zone> = candidates.iter().map(|(_, place)| &place.zone).collect();
        let listed = join_all(zones.into_iter().map(|zone| async move { (zone.clone(), self.list(zone).await) })).await;
        let mut machines = BTreeMap::new();
        for (zone, listed) in listed {
            match listed {
                Ok(listed) => drop(machines.insert(zone, listed)),
                Err(failure) => tracing::warn!(
                    %zone,
                    "whether instances vanished cannot be seen now; the sweep removes what is left of them: {failure}"
                ),
            }
        }
        for (operation, place) in candidates {
            let Some(machines) = machines.get(&place.zone) else { continue };
            let listed = machines.iter().any(|machine| machine.operation.as_ref() == Some(&operation));
            if listed || !self.is_gone(&operation, &place.zone).await {
                continue;
            }
            let id = operation.to_string();
            let known = self.book.lock().get(&id).is_some();
            if !known {
                self.book.lock().insert(Entry::found(operation, place, Phase::Idle { suspended: false }));
                let why = "its server vanished while the plugin was not running";
                let requested_by = RequestedBy::new(Requester::Plugin, why);
                if let Err(error) = self.begin_cleanup(&id, &requested_by).await {
                    tracing::warn!(
                        instance = id,
                        error = &error as &dyn std::error::Error,
                        "its rest could not be removed"
                    );
                    self.apply(&id, &Event::Ended);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::family;

    #[test]
    fn a_windows_image_is_refused_unless_people_bring_credentials_of_their_own() {
        let connector = ConnectorConfig::default();
        let refused = refuse_windows(&connector, family("windows_server_2022")).unwrap_err().to_string();
        assert!(refused.contains("image") && refused.contains("use_static_credentials"), "{refused}");
        assert!(refuse_windows(&connector, family("ubuntu_noble")).is_ok());
        let own = ConnectorConfig { use_static_credentials: true, ..connector };
        assert!(refuse_windows(&own, family("windows_server_2022")).is_ok());
    }
}
