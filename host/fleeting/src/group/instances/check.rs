//! What Init asks Scaleway, all at once: whether the credentials are good and what is named exists.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use windlass_lifecycle::{AddressPool, ImageChoice, ServerSpecification, no_image, no_servers_in, volume_problems};
use windlass_scaleway::types::instance::{Architecture, IpType, ListImages, ListIps, ServerType};
use windlass_scaleway::{Client, ErrorClass, Zone};

use windlass_policy::Mistake;

use crate::configuration::{Configuration, ConfigurationErrors};
use crate::connect::{Family, family};
use crate::group::places::Place;
use crate::group::start::{PATIENCE, problem, words};

/// What was learned on the way.
pub(crate) struct Learned {
    pub(super) family: Family,
    /// In Go's words.
    pub(super) architecture: &'static str,
    /// The zones with those of the server types that each has, in the operator's order, with what an hour of each costs
    /// in euros.
    pub(crate) places: Vec<(Place, Option<f64>)>,
}

/// What was learned of one zone.
struct OfZone {
    family: Family,
    architecture: Architecture,
    /// The types that it has, with prices.
    types: Vec<(String, f64)>,
    /// Those of the pool's addresses, as they are named, that are in it.
    pooled: BTreeSet<String>,
}

/// Asks everything in parallel, of each zone.
///
/// A zone that cannot be asked does not keep the others from being used: what is configured for it counts as good.
pub(super) async fn check(client: &Client, configuration: &Configuration) -> Result<Learned, ConfigurationErrors> {
    for doubt in configuration.doubts() {
        tracing::warn!("{doubt}");
    }
    let asked = join_all(configuration.common.zones.iter().map(|zone| ask(client, configuration, zone))).await;
    let (mut problems, mut silent, mut of_zones) = (Vec::new(), Vec::new(), Vec::new());
    for (zone, answer) in configuration.common.zones.iter().zip(asked) {
        match answer {
            Ok(of_zone) => of_zones.push((zone, of_zone)),
            Err(Unchecked::Wrong(found)) => {
                // A mistake that is the same in all zones is reported once.
                let new = |problem: &Mistake| !problems.contains(problem);
                problems.extend(found.into_iter().filter(new).collect::<Vec<_>>());
            }
            Err(Unchecked::Silent(problem)) => silent.push((zone, problem)),
        }
    }
    if problems.is_empty() && of_zones.is_empty() {
        problems.extend(silent.drain(..).map(|(_, problem)| problem));
    }
    check_architecture(&of_zones, &mut problems);
    if silent.is_empty() && of_zones.len() == configuration.common.zones.len() && of_zones.len() > 1 {
        check_that_all_exist(&configuration.server, &of_zones, &mut problems);
    }
    let Some((_, first)) = of_zones.first().filter(|_| problems.is_empty()) else {
        return Err(ConfigurationErrors::of(problems));
    };
    for (zone, problem) in &silent {
        tracing::warn!(%zone, "this zone cannot be reached, so its configuration is not checked: {}", problem.words);
    }
    let architecture = match first.architecture {
        Architecture::Arm64 => "arm64",
        Architecture::Arm => "arm",
        _ => "amd64",
    };
    let family = first.family;
    Ok(Learned { family, architecture, places: places(configuration, of_zones) })
}

/// Why a zone was not found to be as configured.
enum Unchecked {
    /// It is not.
    Wrong(Vec<Mistake>),
    /// It could not be asked.
    Silent(Mistake),
}

async fn ask(client: &Client, configuration: &Configuration, zone: &Zone) -> Result<OfZone, Unchecked> {
    match tokio::time::timeout(PATIENCE, ask_of(client, configuration, zone)).await {
        Ok(answer) => answer,
        Err(_) => {
            let words = format!("{} did not answer within {} s", client.settings().api_url(), PATIENCE.as_secs());
            Err(Unchecked::Silent(problem("endpoint", words)))
        }
    }
}

async fn ask_of(client: &Client, configuration: &Configuration, zone: &Zone) -> Result<OfZone, Unchecked> {
    // The first answer proves the credentials; the others would only repeat the complaint.
    let types = match client.instance(zone).list_server_types().await {
        Ok(types) => types,
        Err(error) => {
            return Err(match error.class() {
                ErrorClass::AuthenticationDenied | ErrorClass::PermissionDenied => {
                    Unchecked::Wrong(vec![problem("secret_key", words(&error))])
                }
                // A zone that exists is there again tomorrow; a mistyped one never is.
                ErrorClass::NotFound if !Zone::KNOWN.contains(&zone.as_str()) => {
                    Unchecked::Wrong(vec![problem("zone", no_servers_in(zone))])
                }
                ErrorClass::NotFound => Unchecked::Silent(problem("zone", no_servers_in(zone))),
                _ => Unchecked::Silent(problem("endpoint", words(&error))),
            });
        }
    };
    let mut problems = Vec::new();
    let server = configuration.server_in(zone);
    let found = check_types(configuration, zone, &types, &mut problems);
    let (image, groups, networks, pool) = tokio::join!(
        check_image(client, &server, &found, &types),
        check_groups(client, &server),
        check_networks(client, &server),
        check_pool(client, &server, configuration.common.zones.len() > 1),
    );
    let family = image.map_err(|problem| problems.push(problem)).ok();
    problems.extend(groups);
    problems.extend(networks);
    let pooled = pool.map_err(|found| problems.extend(found)).unwrap_or_default();
    let architecture = found.first().map(|(_, server_type)| server_type.arch.clone());
    match (family, architecture) {
        (Some(family), Some(architecture)) if problems.is_empty() => {
            let types = found.iter().map(|(name, server_type)| (name.clone(), server_type.hourly_price)).collect();
            Ok(OfZone { family, architecture, types, pooled })
        }
        _ => Err(Unchecked::Wrong(problems)),
    }
}

/// The configured types that a zone has. They have one architecture. One that is missing is a problem where the group
/// has no other zone; otherwise only where none is left, or where no zone has it.
fn check_types<'a>(
    configuration: &Configuration,
    zone: &Zone,
    types: &'a BTreeMap<String, ServerType>,
    problems: &mut Vec<Mistake>,
) -> Vec<(String, &'a ServerType)> {
    let mut first: Option<(&str, &Architecture)> = None;
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in &configuration.server.types {
        let Some(server_type) = types.get(name) else {
            let near = windlass_policy::nearest(name, types.keys().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            missing.push(problem("server_type", format!("{name} does not exist in {zone}{hint}")));
            continue;
        };
        match first {
            Some((other, architecture)) if *architecture != server_type.arch => problems.push(problem(
                "server_type",
                format!(
                    "{name} is {} and {other} is {}; the runner expects one architecture",
                    server_type.arch.as_str(),
                    architecture.as_str()
                ),
            )),
            Some(_) => {}
            None => first = Some((name, &server_type.arch)),
        }
        problems.extend(
            volume_problems(&configuration.server, name, server_type)
                .into_iter()
                .map(|words| problem("extra_volumes", words)),
        );
        found.push((name.clone(), server_type));
    }
    if found.is_empty() || configuration.common.zones.len() == 1 {
        problems.append(&mut missing);
    }
    for problem in missing {
        tracing::warn!(%zone, "{}, so it is not used there", problem.words);
    }
    found
}

/// The types of all zones have one architecture.
fn check_architecture(of_zones: &[(&Zone, OfZone)], problems: &mut Vec<Mistake>) {
    let Some((zone, first)) = of_zones.first() else { return };
    for (other, of_zone) in &of_zones[1..] {
        if of_zone.architecture != first.architecture {
            let words = format!(
                "those of {other} are {} and those of {zone} are {}; the runner expects one architecture",
                of_zone.architecture.as_str(),
                first.architecture.as_str()
            );
            problems.push(problem("server_type", words));
        }
    }
}

/// What not every zone has to have is in one of them at least.
fn check_that_all_exist(server: &ServerSpecification, of_zones: &[(&Zone, OfZone)], problems: &mut Vec<Mistake>) {
    let exists = |name: &str| of_zones.iter().any(|(_, of_zone)| of_zone.types.iter().any(|(known, _)| known == name));
    for name in server.types.iter().filter(|name| !exists(name)) {
        problems.push(problem("server_type", format!("{name} exists in none of the zones")));
    }
    let Some(AddressPool::Ips(named)) = &server.address_pool else { return };
    for name in named.iter().filter(|name| !of_zones.iter().any(|(_, of_zone)| of_zone.pooled.contains(*name))) {
        problems.push(problem("reserved_ips", format!("there is no address {name} in any of the zones")));
    }
}

fn places(configuration: &Configuration, of_zones: Vec<(&Zone, OfZone)>) -> Vec<(Place, Option<f64>)> {
    let mut places = Vec::new();
    for zone in &configuration.common.zones {
        let place = |server_type: &String| Place { zone: zone.clone(), server_type: server_type.clone() };
        match of_zones.iter().find(|(asked, _)| *asked == zone) {
            Some((_, of_zone)) => {
                places.extend(of_zone.types.iter().map(|(name, price)| (place(name), Some(*price))));
            }
            None => places.extend(configuration.server.types.iter().map(|name| (place(name), None))),
        }
    }
    places
}

async fn check_image(
    client: &Client,
    server: &ServerSpecification,
    types: &[(String, &ServerType)],
    every_type: &BTreeMap<String, ServerType>,
) -> Result<Family, Mistake> {
    match &server.image {
        ImageChoice::Label(label) => {
            let storage = server.root_volume.kind.image_storage();
            let marketplace = client.marketplace();
            // Where no configured type exists, that the image does is asked by another: which of them fit is not known.
            if let (true, Some(any)) = (types.is_empty(), every_type.keys().next())
                && let Err(error) = marketplace.resolve_image(label, &server.zone, any, storage.clone()).await
                && error.is_not_found()
            {
                return Err(problem("image", no_image(client, label).await));
            }
            let resolved = join_all(
                types.iter().map(|(name, _)| marketplace.resolve_image(label, &server.zone, name, storage.clone())),
            )
            .await;
            for (resolved, (server_type, _)) in resolved.iter().zip(types) {
                match resolved {
                    Err(error) if error.is_not_found() => {
                        return Err(problem("image", no_image(client, label).await));
                    }
                    Err(error) => {
                        return Err(problem(
                            "image",
                            format!("for {server_type} in {}: {}", server.zone, words(error)),
                        ));
                    }
                    Ok(_) => {}
                }
            }
            Ok(family(label))
        }
        ImageChoice::Id(id) => match client.instance(&server.zone).get_image(id).await {
            Ok(image) => Ok(family(&image.name)),
            Err(error) if error.is_not_found() => {
                Err(problem("image", format!("there is no image {id} in {}", server.zone)))
            }
            Err(error) => Err(problem("image", words(&error))),
        },
        ImageChoice::Name(name) => check_own_image(client, server, types, &format!("called {name:?}")).await,
        ImageChoice::Tag(tag) => check_own_image(client, server, types, &format!("with the tag {tag:?}")).await,
    }
}

/// There is an image of the project's own, `what`, for each of the types. Which one is used is seen at each creation.
async fn check_own_image(
    client: &Client,
    server: &ServerSpecification,
    types: &[(String, &ServerType)],
    what: &str,
) -> Result<Family, Mistake> {
    let project = client.settings().project_id();
    let request = ListImages { project: project.map(str::to_owned), public: Some(false), arch: None };
    let images = client.instance(&server.zone).list_images(&request).await;
    let images = images.map_err(|error| problem("image", words(&error)))?;
    let mut newest = None;
    for (_, server_type) in types {
        newest = server.image.newest_of(&images, &server_type.arch, project);
        if newest.is_none() {
            let (architecture, zone) = (server_type.arch.as_str(), &server.zone);
            let whose =
                project.map_or_else(|| "this key's projects".to_owned(), |project| format!("project {project}"));
            let words = format!("{whose} has no image {what} for {architecture} in {zone} that is available");
            return Err(problem("image", words));
        }
    }
    // Types that do not exist are another problem.
    Ok(newest.map_or_else(|| family(""), |image| family(&image.name)))
}

/// What is said to be in the pool is there, and nobody else's. Answers which of the named addresses are in this zone:
/// all of them, unless there are other zones in which they can be.
async fn check_pool(
    client: &Client,
    server: &ServerSpecification,
    elsewhere: bool,
) -> Result<BTreeSet<String>, Vec<Mistake>> {
    let Some(pool) = &server.address_pool else { return Ok(BTreeSet::new()) };
    let zone = &server.zone;
    let key = match pool {
        AddressPool::Ips(_) => "reserved_ips",
        AddressPool::Tag(_) => "reserved_ip_tag",
    };
    let instance = client.instance(zone);
    let tags = match pool {
        AddressPool::Ips(_) => Vec::new(),
        AddressPool::Tag(tag) => vec![tag.clone()],
    };
    let listed = match instance.list_ips(&ListIps { tags, ..ListIps::default() }).await {
        Ok(ips) => ips,
        Err(error) => return Err(vec![problem(key, words(&error))]),
    };
    let named = match pool {
        AddressPool::Ips(named) => named,
        AddressPool::Tag(_) if listed.iter().any(|ip| pool.holds(ip)) => return Ok(BTreeSet::new()),
        AddressPool::Tag(tag) => {
            let words = format!(
                "no IPv4 address in {zone} has the tag {tag:?} (those that Windlass created for servers do not count)"
            );
            return Err(vec![problem(key, words)]);
        }
    };
    let mut problems = Vec::new();
    let mut ids: BTreeMap<String, &String> = BTreeMap::new();
    for name in named {
        let listed = listed.iter().find(|ip| ip.id == *name || ip.address.as_ref() == Some(name));
        // A list that leaves one out proves nothing.
        let found = match listed {
            Some(ip) => Ok(ip.clone()),
            None => instance.get_ip(name).await,
        };
        let words = match found {
            Err(error) if error.is_not_found() && elsewhere => continue,
            Err(error) if error.is_not_found() => format!("there is no address {name} in {zone}"),
            Err(error) => format!("{name}: {}", words(&error)),
            Ok(ip) if ip.ip_type != IpType::RoutedIpv4 => format!("{name} is no IPv4 address"),
            Ok(ip) if !pool.holds(&ip) => {
                format!("{name} was made for a server and goes with it; reserve one for the pool")
            }
            Ok(ip) => match ids.insert(ip.id, name) {
                Some(first) => format!("{name} and {first} are the same address"),
                None => continue,
            },
        };
        problems.push(problem(key, words));
    }
    if problems.is_empty() && ids.is_empty() {
        problems.push(problem(
            key,
            format!("none of them is in {zone}, so no server could be created there: add one, or remove the zone"),
        ));
    }
    if problems.is_empty() { Ok(ids.into_values().cloned().collect()) } else { Err(problems) }
}

async fn check_groups(client: &Client, server: &ServerSpecification) -> Vec<Mistake> {
    let instance = client.instance(&server.zone);
    let security = async {
        let id = server.security_group.as_ref()?;
        Some(("security_group", id, instance.get_security_group(id).await.err()?))
    };
    let placement = async {
        let id = server.placement_group.as_ref()?;
        Some(("placement_group", id, instance.get_placement_group(id).await.err()?))
    };
    let (security, placement) = tokio::join!(security, placement);
    [security, placement]
        .into_iter()
        .flatten()
        .map(|(key, id, error)| {
            if error.is_not_found() {
                problem(key, format!("there is no {} {id} in {}", key.replace('_', " "), server.zone))
            } else {
                problem(key, words(&error))
            }
        })
        .collect()
}

async fn check_networks(client: &Client, server: &ServerSpecification) -> Vec<Mistake> {
    let region = server.zone.region();
    let checked = join_all(server.private_networks.iter().map(|id| {
        let path = format!("/vpc/v2/regions/{region}/private-networks/{id}");
        async move { (id, client.send_raw("GET", &path, None).await) }
    }))
    .await;
    let mut problems = Vec::new();
    for (id, answer) in checked {
        match answer {
            Ok(answer) if answer.status == 404 => {
                problems.push(problem(
                    "private_networks",
                    format!("there is no private network {id} in {region}, where {} is", server.zone),
                ));
            }
            Ok(answer) if answer.status == 403 => tracing::warn!(
                network = id,
                "the credentials may not look at private networks, so this one is only tried when a server joins it"
            ),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                problems.push(problem(
                    "private_networks",
                    format!("there is no private network {id} in {region}, where {} is", server.zone),
                ));
            }
            Err(error) => tracing::warn!(network = id, error = &error as &dyn std::error::Error, "not checked"),
        }
    }
    problems
}
