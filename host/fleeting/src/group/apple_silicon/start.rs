//! Init: the lock, the state, the checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_lifecycle::{Control, Durability, Lifecycle, Options, StateDirectory};
use windlass_policy::{Compiler, Host};
use windlass_scaleway::types::apple_silicon::{ListOperatingSystems, ListServers};
use windlass_scaleway::{Client, Error, ErrorClass};

use super::Hosts;
use crate::configuration::{AppleSiliconConfiguration, ConfigurationErrors, OperatingSystem, Problem};
use crate::group::book::Book;
use crate::group::pause::Pause;
use crate::group::start::{StartError, lock, owner_of_group, policy_host};
use crate::observe;
use crate::protocol::{ConnectorConfig, Failure};

/// The runner gives a minute to everything; an API that doesn't answer must be told as such.
const PATIENCE: Duration = Duration::from_secs(10);
/// One listing of the zone serves all that look within this time. The runner looks every two seconds at most.
const LISTING_SERVES: Duration = Duration::from_secs(2);
/// Hexadecimal digits of the owner's mark in names.
const MARK_BYTES: usize = 3;

/// Starts the group.
pub(in crate::group) async fn start(
    configuration: AppleSiliconConfiguration,
    connector: ConnectorConfig,
    compiler: Option<Compiler>,
) -> Result<Arc<Hosts>, StartError> {
    let client = Client::new(configuration.settings.clone())?;
    let given = Given { client, compiler, policies: None, durability: Durability::default() };
    start_with(given, configuration, connector).await
}

/// What a test gives in another way.
pub(super) struct Given {
    pub(super) client: Client,
    pub(super) compiler: Option<Compiler>,
    /// Absent: those of the configuration.
    pub(super) policies: Option<Arc<Host>>,
    /// Under paused time the journal must be written without its thread.
    pub(super) durability: Durability,
}

pub(super) async fn start_with(
    given: Given,
    configuration: AppleSiliconConfiguration,
    connector: ConnectorConfig,
) -> Result<Arc<Hosts>, StartError> {
    let Given { client, compiler, policies, durability } = given;
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
    // Policies are compiled while Scaleway is being asked.
    let policies = tokio::task::spawn_blocking({
        let (configured, folder) = (configuration.policies.clone(), configuration.policy_folder.clone());
        let brake = configuration.brake;
        let (client, state) = (client.clone(), state.clone());
        move || match policies {
            Some(given) => Ok(given),
            None => policy_host(&configured, &folder, brake, &client, &state, compiler).map(Arc::new),
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
    let mut options = Options::new(client.clone(), Arc::clone(&policies), state);
    options.owner =
        configuration.owner.as_ref().map(|owner| owner_of_group(owner, &configuration.group)).transpose()?;
    options.limits.machine_interval = LISTING_SERVES;
    options.durability = durability;
    let lifecycle = Lifecycle::open(options)?;
    let mark = hex::encode(&Sha256::digest(lifecycle.owner().as_str().as_bytes())[..MARK_BYTES]);
    let claims = format!("{}-{mark}-", configuration.group);
    tell_of_others(&configuration, &claims, &names);
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
        known_since: Mutex::new(BTreeMap::new()),
        pause: Mutex::new(Pause::default()),
        last_look: tokio::sync::Mutex::new(None),
        control: Control::new(),
        leaving: CancellationToken::new(),
        tasks: TaskTracker::new(),
        _lock: lock,
        _watch: watch,
    });
    hosts.spawn_supervision();
    Ok(hosts)
}

/// Hosts that look like this group's and are not: another state directory claimed them. They cost, and nobody but
/// people can tell whether somebody still works on them.
fn tell_of_others(configuration: &AppleSiliconConfiguration, claims: &str, names: &[String]) {
    let group = format!("{}-", configuration.group);
    let looks_alike = |name: &&String| {
        let mut parts = name.strip_prefix(&group).unwrap_or_default().split('-');
        let (mark, unique, more) = (parts.next(), parts.next(), parts.next());
        let hexadecimal =
            |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        mark.is_some_and(|mark| hexadecimal(mark, 2 * MARK_BYTES))
            && unique.is_some_and(|unique| hexadecimal(unique, 12))
            && more.is_none()
            && !name.starts_with(claims)
    };
    let others: Vec<&String> = names.iter().filter(looks_alike).collect();
    if !others.is_empty() {
        tracing::warn!(
            hosts = ?others,
            "hosts carry the name of this group and the mark of another owner: they were claimed with another state_dir or \
             owner, and are left alone. If that is lost, give them back by hand; with `owner` in plugin_config it does not \
             happen again"
        );
    }
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
            "the pool has no host now: until one carries such a name, nothing can be claimed, and order = true is not set"
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
