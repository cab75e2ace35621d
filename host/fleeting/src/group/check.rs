//! What Init asks Scaleway, all at once: whether the credentials are good and what is named exists.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use windlass_lifecycle::{ImageChoice, VolumeKind};
use windlass_scaleway::types::instance::{Architecture, ServerType};
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Error, ErrorClass};

use crate::configuration::{Configuration, ConfigurationErrors, Problem};
use crate::connect::{Family, family};

/// The runner gives a minute to everything; an API that doesn't answer must be told as such.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was learned on the way.
pub(super) struct Learned {
    pub(super) family: Family,
    /// In Go's words.
    pub(super) architecture: &'static str,
}

fn problem(place: &str, words: impl Into<String>) -> Problem {
    Problem { place: place.to_owned(), words: words.into() }
}

fn words(error: &Error) -> String {
    crate::protocol::Failure::from_error(error).0
}

/// Asks everything in parallel.
pub(super) async fn check(client: &Client, configuration: &Configuration) -> Result<Learned, ConfigurationErrors> {
    match tokio::time::timeout(PATIENCE, ask(client, configuration)).await {
        Ok(answer) => answer,
        Err(_) => Err(ConfigurationErrors::of(vec![problem(
            "endpoint",
            format!("{} did not answer within {} s", client.settings().api_url(), PATIENCE.as_secs()),
        )])),
    }
}

async fn ask(client: &Client, configuration: &Configuration) -> Result<Learned, ConfigurationErrors> {
    let instance = client.instance(&configuration.zone);
    // The first answer proves the credentials; the others would only repeat the complaint.
    let types = match instance.list_server_types().await {
        Ok(types) => types,
        Err(error) => {
            let place = match error.class() {
                ErrorClass::AuthenticationDenied | ErrorClass::PermissionDenied => "secret_key",
                _ => "endpoint",
            };
            return Err(ConfigurationErrors::of(vec![problem(place, words(&error))]));
        }
    };
    let mut problems = Vec::new();
    let architecture = check_types(configuration, &types, &mut problems);
    let (image, groups, networks) = tokio::join!(
        check_image(client, configuration),
        check_groups(client, configuration),
        check_networks(client, configuration),
    );
    let family = match image {
        Ok(family) => Some(family),
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    problems.extend(groups);
    problems.extend(networks);
    match (family, architecture) {
        (Some(family), Some(architecture)) if problems.is_empty() => Ok(Learned { family, architecture }),
        _ => Err(ConfigurationErrors::of(problems)),
    }
}

/// The types exist and have one architecture, which is answered in Go's words.
fn check_types(
    configuration: &Configuration,
    types: &BTreeMap<String, ServerType>,
    problems: &mut Vec<Problem>,
) -> Option<&'static str> {
    let before = problems.len();
    let mut first: Option<(&str, &Architecture)> = None;
    for name in &configuration.server.types {
        let Some(found) = types.get(name) else {
            let near = types
                .keys()
                .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            let hint = near.map_or_else(String::new, |(_, near)| format!("; did you mean {near}?"));
            problems.push(problem("server_type", format!("{name} does not exist in {}{hint}", configuration.zone)));
            continue;
        };
        match first {
            Some((other, architecture)) if *architecture != found.arch => problems.push(problem(
                "server_type",
                format!(
                    "{name} is {} and {other} is {}; the runner expects one architecture",
                    found.arch.as_str(),
                    architecture.as_str()
                ),
            )),
            Some(_) => {}
            None => first = Some((name, &found.arch)),
        }
    }
    if problems.len() > before {
        return None;
    }
    Some(match first?.1 {
        Architecture::Arm64 => "arm64",
        Architecture::Arm => "arm",
        _ => "amd64",
    })
}

async fn check_image(client: &Client, configuration: &Configuration) -> Result<Family, Problem> {
    match &configuration.server.image {
        ImageChoice::Label(label) => {
            let storage = match configuration.server.root_volume.kind {
                VolumeKind::Block => ImageStorage::BlockStorage,
                VolumeKind::Local => ImageStorage::Local,
            };
            let marketplace = client.marketplace();
            let resolved = join_all(configuration.server.types.iter().map(|server_type| {
                marketplace.resolve_image(label, &configuration.zone, server_type, storage.clone())
            }))
            .await;
            for (resolved, server_type) in resolved.iter().zip(&configuration.server.types) {
                match resolved {
                    Err(error) if error.is_not_found() => {
                        return Err(problem("image", format!("there is no image with the label {label:?}")));
                    }
                    Err(error) => return Err(problem("image", format!("for {server_type}: {}", words(error)))),
                    Ok(_) => {}
                }
            }
            Ok(family(label))
        }
        ImageChoice::Id(id) => match client.instance(&configuration.zone).get_image(id).await {
            Ok(image) => Ok(family(&image.name)),
            Err(error) if error.is_not_found() => {
                Err(problem("image", format!("there is no image {id} in {}", configuration.zone)))
            }
            Err(error) => Err(problem("image", words(&error))),
        },
    }
}

async fn check_groups(client: &Client, configuration: &Configuration) -> Vec<Problem> {
    let instance = client.instance(&configuration.zone);
    let security = async {
        let id = configuration.server.security_group.as_ref()?;
        Some(("security_group", id, instance.get_security_group(id).await.err()?))
    };
    let placement = async {
        let id = configuration.server.placement_group.as_ref()?;
        Some(("placement_group", id, instance.get_placement_group(id).await.err()?))
    };
    let (security, placement) = tokio::join!(security, placement);
    [security, placement]
        .into_iter()
        .flatten()
        .map(|(key, id, error)| {
            if error.is_not_found() {
                problem(key, format!("there is no {id} in {}", configuration.zone))
            } else {
                problem(key, words(&error))
            }
        })
        .collect()
}

async fn check_networks(client: &Client, configuration: &Configuration) -> Vec<Problem> {
    let region = configuration.zone.region();
    let checked = join_all(configuration.server.private_networks.iter().map(|id| {
        let path = format!("/vpc/v2/regions/{region}/private-networks/{id}");
        async move { (id, client.send_raw("GET", &path, None).await) }
    }))
    .await;
    let mut problems = Vec::new();
    for (id, answer) in checked {
        match answer {
            Ok(answer) if answer.status == 404 => {
                problems.push(problem("private_networks", format!("there is no {id} in {region}")));
            }
            Ok(answer) if answer.status == 403 => tracing::warn!(
                network = id,
                "the credentials may not look at private networks, so this one is only tried when a server joins it"
            ),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                problems.push(problem("private_networks", format!("there is no {id} in {region}")));
            }
            Err(error) => tracing::warn!(network = id, error = &error as &dyn std::error::Error, "not checked"),
        }
    }
    problems
}
