//! Init: the lock, the state, the checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use windlass_lifecycle::{
    Clock, Durability, Lifecycle, Operation, OperationFilter, OperationKind, Options, StateDirectory, Tasks,
};
use windlass_policy::{Asker, Compiler, Host};
use windlass_scaleway::types::apple_silicon::{ListOperatingSystems, ListServers};
use windlass_scaleway::{Client, Error, ErrorClass};

use super::Hosts;
use crate::configuration::{AppleSiliconConfiguration, ConfigurationErrors, OperatingSystem, Problem};
use crate::group::book::Book;
use crate::group::claim::{lock, owner_of_group};
use crate::group::error::StartError;
use crate::group::ids::Ids;
use crate::group::looks::Looks;
use crate::group::pause::Pause;
use crate::group::start::{console_of, ids, policy_host};
use crate::observe::{self, Gauges};
use crate::protocol::{ConnectorConfig, Failure};

/// The runner gives a minute to everything; an API that doesn't answer must be told as such.
const PATIENCE: Duration = Duration::from_secs(10);
/// One listing of the zone serves all that look within this time. The runner looks every two seconds at most.
const LISTING_SERVES: Duration = Duration::from_secs(2);
/// Hexadecimal digits of the owner's mark in names.
const MARK_BYTES: usize = 3;
/// The file with the claims of this state directory that hosts carry.
const CLAIMED: &str = "claimed";
/// Hexadecimal digits of the rest of a name.
pub(super) const UNIQUE_DIGITS: usize = 12;

/// Starts the group.
pub(in crate::group) async fn start(
    configuration: AppleSiliconConfiguration,
    connector: ConnectorConfig,
    compiler: Option<Compiler>,
) -> Result<Arc<Hosts>, StartError> {
    let client = Client::new(configuration.settings.clone())?;
    let (clock, durability) = (Clock::System, Durability::default());
    let given = Given { client, compiler, policies: None, clock, durability };
    start_with(given, configuration, connector).await
}

/// What a test gives in another way.
pub(super) struct Given {
    pub(super) client: Client,
    pub(super) compiler: Option<Compiler>,
    /// Absent: those of the configuration.
    pub(super) policies: Option<Arc<Host>>,
    pub(super) clock: Clock,
    /// Under paused time the journal must be written without its thread.
    pub(super) durability: Durability,
}

pub(super) async fn start_with(
    given: Given,
    configuration: AppleSiliconConfiguration,
    connector: ConnectorConfig,
) -> Result<Arc<Hosts>, StartError> {
    let Given { client, compiler, policies, clock, durability } = given;
    if !matches!(connector.protocol.as_str(), "" | "ssh") {
        return Err(StartError::Protocol(connector.protocol.clone()));
    }
    for notice in client.settings().notices() {
        tracing::warn!("{notice}");
    }
    let folder = configuration.state_directory.join("fleeting").join(configuration.group.as_str());
    let state = StateDirectory::open(&folder)?;
    let lock = lock(&state, configuration.group.as_str()).await?;
    if let Some(address) = &configuration.metrics {
        observe::serve_metrics(address).await?;
    }
    let console = console_of(configuration.console.as_ref(), &state, &client).await?;
    // Policies are compiled while Scaleway is being asked.
    let policies = tokio::task::spawn_blocking({
        let (configured, folder) = (configuration.policies.clone(), configuration.policy_folder.clone());
        let brake = configuration.brake;
        let (client, state) = (client.clone(), state.clone());
        move || match policies {
            Some(given) => Ok(given),
            None => policy_host(Asker::Macs, &configured, &folder, brake, &client, &state, compiler).map(Arc::new),
        }
    });
    let (checked, policies) = tokio::join!(check(&client, &configuration), policies);
    let Learned { operating_system, names } = checked?;
    let policies = policies??;
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
    let folder = state.clone();
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state);
    options.owner =
        configuration.owner.as_ref().map(|owner| owner_of_group(owner, &configuration.group)).transpose()?;
    options.limits.machine_interval = LISTING_SERVES;
    options.clock = clock;
    options.durability = durability;
    let lifecycle = Lifecycle::open(options)?;
    lifecycle.check_history()?;
    let claims = claims_of(&configuration, &lifecycle);
    let known = ids(&folder, CLAIMED)?;
    settle(&configuration, &lifecycle, &folder, &known, &claims, &names)?;
    let hosts = Arc::new(Hosts {
        configuration,
        operating_system,
        lifecycle,
        policies,
        client,
        connector,
        claims,
        book: Mutex::new(Book::default()),
        released: Mutex::new(BTreeSet::new()),
        known,
        strangers: Mutex::default(),
        known_since: Mutex::new(BTreeMap::new()),
        pause: Mutex::new(Pause::default()),
        gauges: Gauges::new(BTreeMap::new()),
        looks: Looks::default(),
        tasks: Tasks::default(),
        _lock: lock,
        _watch: watch,
        _console: console,
    });
    hosts.spawn_supervision();
    Ok(hosts)
}

/// What the names of the group's hosts begin with.
fn claims_of(configuration: &AppleSiliconConfiguration, lifecycle: &Lifecycle) -> String {
    let mark = hex::encode(&Sha256::digest(lifecycle.owner().as_str().as_bytes())[..MARK_BYTES]);
    format!("{}-{mark}-", configuration.group)
}

/// Takes over the hosts of a group, and begins nothing.
pub(in crate::group) async fn adopt(
    configuration: &AppleSiliconConfiguration,
    client: Client,
    policies: Arc<Host>,
) -> Result<Vec<String>, StartError> {
    let folder = configuration.state_directory.join("fleeting").join(configuration.group.as_str());
    let state = StateDirectory::open(&folder)?;
    let _lock = lock(&state, configuration.group.as_str()).await?;
    let Learned { names, .. } = check(&client, configuration).await?;
    let mut options = Options::new(client, policies, state.clone());
    options.owner =
        configuration.owner.as_ref().map(|owner| owner_of_group(owner, &configuration.group)).transpose()?;
    let lifecycle = Lifecycle::open(options)?;
    lifecycle.check_history()?;
    let claims = claims_of(configuration, &lifecycle);
    settle(configuration, &lifecycle, &state, &ids(&state, CLAIMED)?, &claims, &names)
}

/// Whose the hosts are that carry the group's name: those that our journal claimed are ours. What carries our mark and
/// was claimed by another state directory somebody with our owner works on, or worked on and lost his; what carries
/// another mark is another owner's. Which of the two it is only people can tell. Answers the names of those that were
/// taken over.
///
/// # Errors
/// [`StartError::StrangeHosts`] where nothing is configured, or where hosts of another owner are to be taken over.
fn settle(
    configuration: &AppleSiliconConfiguration,
    lifecycle: &Lifecycle,
    state: &StateDirectory,
    known: &Ids,
    claims: &str,
    names: &[String],
) -> Result<Vec<String>, StartError> {
    let (mut unknown, mut others) = (Vec::new(), Vec::new());
    for name in names {
        if name.starts_with(claims) {
            if is_claim(name, claims) && !known.holds(name) && !was_claimed(lifecycle, name)? {
                unknown.push(name.as_str());
            }
        } else if is_of_another_owner(name, configuration.group.as_str()) {
            others.push(name.as_str());
        }
    }
    let strange = |others: bool, found: &[&str]| StartError::StrangeHosts {
        group: configuration.group.to_string(),
        zone: configuration.zone.to_string(),
        state: state.path().to_owned(),
        remedy: if others { OF_ANOTHER_OWNER } else { OF_OUR_OWNER },
        found: found.join(", "),
    };
    match configuration.adopt {
        _ if unknown.is_empty() && others.is_empty() => Ok(Vec::new()),
        Some(false) => {
            let found = [unknown, others].concat();
            tracing::info!(hosts = ?found, "left to whoever claimed them, as `adopt = false` says");
            Ok(Vec::new())
        }
        _ if !others.is_empty() => Err(strange(true, &others)),
        None => Err(strange(false, &unknown)),
        Some(true) => {
            tracing::warn!(hosts = ?unknown, "taking over, as `adopt` says");
            known.remember(unknown.iter().copied()).map_err(|source| windlass_lifecycle::Error::StateDirectory {
                path: state.path().join(CLAIMED),
                source,
            })?;
            Ok(unknown.into_iter().map(str::to_owned).collect())
        }
    }
}

/// What helps where hosts carry our owner's mark.
const OF_OUR_OWNER: &str = "If another host with the same `owner` works on them, this group needs a `name` of its own, \
    or adopt = false, which leaves them alone. If their state_dir was lost, adopt = true takes them over";
/// What helps where they carry another's.
const OF_ANOTHER_OWNER: &str = "They carry the mark of another `owner` or state_dir: if that still works, this group \
    needs a `name` of its own, or adopt = false, which leaves them alone. If it is lost, give them the name of a pool \
    by hand, after a wipe; with `owner` in plugin_config it does not happen again";

/// The part of a name that no two claims share.
fn is_unique_part(text: &str) -> bool {
    text.len() == UNIQUE_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_claim(name: &str, claims: &str) -> bool {
    name.strip_prefix(claims).is_some_and(is_unique_part)
}

/// Whether a name is a claim of this group under some mark.
fn is_of_another_owner(name: &str, group: &str) -> bool {
    let rest = name.strip_prefix(group).and_then(|rest| rest.strip_prefix('-'));
    let Some((mark, unique)) = rest.and_then(|rest| rest.split_once('-')) else { return false };
    mark.len() == 2 * MARK_BYTES && mark.bytes().all(|b| b.is_ascii_hexdigit()) && is_unique_part(unique)
}

/// Whether our journal says that a host was to get this name: also one whose order was not answered.
pub(super) fn was_claimed(lifecycle: &Lifecycle, claim: &str) -> Result<bool, windlass_lifecycle::Error> {
    for kind in [OperationKind::AdoptMachine, OperationKind::OrderMachine] {
        let mut filter = OperationFilter::default();
        filter.kind = Some(kind);
        let ours = |operation: &Operation| operation.owner == lifecycle.owner().as_str();
        let operations = lifecycle.journal().operations(&filter)?;
        if operations.iter().any(|operation| ours(operation) && operation.specification["claim"] == claim) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What was learned on the way.
struct Learned {
    operating_system: Option<String>,
    /// Of all hosts of the zone.
    names: Vec<String>,
}

fn problem(place: &str, words: impl Into<String>) -> Problem {
    Problem { place: place.to_owned(), words: words.into() }
}

fn words(error: &Error) -> String {
    Failure::from_error(error).0
}

async fn check(client: &Client, configuration: &AppleSiliconConfiguration) -> Result<Learned, ConfigurationErrors> {
    match tokio::time::timeout(PATIENCE, ask(client, configuration)).await {
        Ok(answer) => answer,
        Err(_) => Err(ConfigurationErrors::of(vec![problem(
            "endpoint",
            format!("{} did not answer within {} s", client.settings().api_url(), PATIENCE.as_secs()),
        )])),
    }
}

async fn ask(client: &Client, configuration: &AppleSiliconConfiguration) -> Result<Learned, ConfigurationErrors> {
    let api = client.apple_silicon(&configuration.zone);
    let everything = ListServers::default();
    let (types, hosts, system) =
        tokio::join!(api.list_server_types(), api.list_servers(&everything), system(client, configuration));
    let mut problems = Vec::new();
    let unusable = |error: &Error| {
        let place = match error.class() {
            ErrorClass::AuthenticationDenied | ErrorClass::PermissionDenied => "secret_key",
            _ => "endpoint",
        };
        problem(place, words(error))
    };
    let types = match types {
        Ok(types) => types,
        // The others would only repeat the complaint.
        Err(error) => return Err(ConfigurationErrors::of(vec![unusable(&error)])),
    };
    if !types.iter().any(|known| known.name == configuration.server_type) {
        let names: Vec<&str> = types.iter().map(|known| known.name.as_str()).collect();
        problems.push(problem(
            "server_type",
            format!(
                "{} does not exist in {}; there are {}",
                configuration.server_type,
                configuration.zone,
                names.join(", ")
            ),
        ));
    }
    let hosts = hosts.unwrap_or_else(|error| {
        problems.push(unusable(&error));
        Vec::new()
    });
    let system = system.unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    if !problems.is_empty() {
        return Err(ConfigurationErrors::of(problems));
    }
    let names: Vec<String> = hosts.into_iter().map(|host| host.name).collect();
    if let Some(pool) = &configuration.pool
        && !configuration.order
        && !names.iter().any(|name| name.starts_with(pool.as_str()))
    {
        tracing::warn!(
            pool = %pool, zone = %configuration.zone,
            "the pool has no host now: until one carries such a name, nothing can be claimed, and order = true is not \
             set"
        );
    }
    Ok(Learned { operating_system: system, names })
}

/// The operating system, proven to exist for the type.
async fn system(client: &Client, configuration: &AppleSiliconConfiguration) -> Result<Option<String>, Problem> {
    let api = client.apple_silicon(&configuration.zone);
    match &configuration.operating_system {
        OperatingSystem::Any => Ok(None),
        OperatingSystem::Id(id) => match api.get_os(id).await {
            Ok(system) if system.compatible_server_types.contains(&configuration.server_type) => Ok(Some(system.name)),
            Ok(system) => Err(problem(
                "os_id",
                format!(
                    "{} does not run on {}; it runs on {}",
                    system.name,
                    configuration.server_type,
                    system.compatible_server_types.join(", ")
                ),
            )),
            Err(error) if error.is_not_found() => {
                Err(problem("os_id", format!("there is no {id} in {}", configuration.zone)))
            }
            Err(error) => Err(problem("os_id", words(&error))),
        },
        OperatingSystem::Named(wanted) => {
            let filter = ListOperatingSystems {
                server_type: Some(configuration.server_type.clone()),
                ..ListOperatingSystems::default()
            };
            let systems = api.list_os(&filter).await.map_err(|error| problem("operating_system", words(&error)))?;
            let is = |text: &str| !text.is_empty() && text.eq_ignore_ascii_case(wanted);
            if systems.iter().any(|system| is(&system.name) || is(&system.family)) {
                return Ok(Some(wanted.clone()));
            }
            let names: Vec<&str> = systems.iter().map(|system| system.name.as_str()).collect();
            // A pool may still hold hosts with a system that Scaleway installs no more.
            if configuration.pool.is_some() && !configuration.order {
                tracing::warn!(
                    operating_system = wanted,
                    offered = names.join(", "),
                    "Scaleway does not install this system now; only hosts that have it already can be claimed"
                );
                return Ok(Some(wanted.clone()));
            }
            Err(problem(
                "operating_system",
                format!("{wanted:?} does not exist for {}; there are {}", configuration.server_type, names.join(", ")),
            ))
        }
    }
}
