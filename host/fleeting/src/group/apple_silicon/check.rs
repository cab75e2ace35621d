//! What Init asks Scaleway, all at once: whether the credentials are good and what is named exists.

use windlass_scaleway::types::apple_silicon::{ListOperatingSystems, ListServers, Server};
use windlass_scaleway::{Client, Error, ErrorClass};

use windlass_policy::Mistake;

use crate::configuration::{AppleSiliconConfiguration, ConfigurationErrors, OperatingSystem};
use crate::group::start::{PATIENCE, problem, words};

/// What was learned on the way.
pub(crate) struct Learned {
    pub(super) operating_system: Option<String>,
    /// The names of all hosts of the zone.
    pub(super) names: Vec<String>,
}

pub(super) async fn check(
    client: &Client,
    configuration: &AppleSiliconConfiguration,
) -> Result<Learned, ConfigurationErrors> {
    match tokio::time::timeout(PATIENCE, ask(client, configuration)).await {
        Ok(answer) => answer,
        Err(_) => Err(ConfigurationErrors::of(vec![problem(
            "endpoint",
            format!("{} did not answer within {} s", client.settings().api_url(), PATIENCE.as_secs()),
        )])),
    }
}

async fn ask(client: &Client, configuration: &AppleSiliconConfiguration) -> Result<Learned, ConfigurationErrors> {
    let api = client.apple_silicon(configuration.common.first_zone());
    let everything = ListServers::default();
    let (types, hosts) = tokio::join!(api.list_server_types(), api.list_servers(&everything));
    let mut problems = Vec::new();
    let unusable = |error: &Error| {
        let place = match error.class() {
            ErrorClass::AuthenticationDenied | ErrorClass::PermissionDenied => "secret_key",
            ErrorClass::NotFound => "zone",
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
                configuration.common.first_zone(),
                names.join(", ")
            ),
        ));
    }
    let hosts = hosts.unwrap_or_else(|error| {
        problems.push(unusable(&error));
        Vec::new()
    });
    let system = system(client, configuration, &hosts).await.unwrap_or_else(|problem| {
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
            pool = %pool, zone = %configuration.common.first_zone(),
            "no host has a name of this pool, and order = true is not set: nothing can be claimed until a host has \
             such a name"
        );
    }
    Ok(Learned { operating_system: system, names })
}

/// The operating system, proven to exist for the type, or on one of these hosts.
async fn system(
    client: &Client,
    configuration: &AppleSiliconConfiguration,
    hosts: &[Server],
) -> Result<Option<String>, Mistake> {
    let api = client.apple_silicon(configuration.common.first_zone());
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
                Err(problem("os_id", format!("there is no {id} in {}", configuration.common.first_zone())))
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
            let is_there =
                hosts.iter().filter_map(|host| host.os.as_ref()).any(|system| is(&system.name) || is(&system.family));
            if configuration.pool.is_some() && !configuration.order && is_there {
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
