//! What Init asks Scaleway, all at once: whether the credentials are good and what is named exists.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use windlass_lifecycle::{AddressPool, Catalogue, ServerSpecification, look_up, no_servers_in, volume_problems};
use windlass_scaleway::types::instance::{Architecture, IpType, ListIps, ServerType};
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
    // What is out of stock today is back tomorrow.
    let catalogue = Catalogue { types, stock: BTreeMap::new() };
    let found = check_types(configuration, zone, &catalogue.types, &mut problems);
    let ((image, missing), pool) = tokio::join!(
        look_up(client, &server, &catalogue),
        check_pool(client, &server, configuration.common.zones.len() > 1),
    );
    for missing in missing {
        // The key of a runner often sees no networks: this one is tried when a server joins it.
        if missing.field == "private_networks" && !missing.is_certain() {
            tracing::warn!(%zone, "not checked: {missing}");
        } else {
            problems.push(problem(missing.field, missing.failure.words()));
        }
    }
    let pooled = pool.map_err(|found| problems.extend(found)).unwrap_or_default();
    let architecture = found.first().map(|(_, server_type)| server_type.arch.clone());
    match (image, architecture) {
        (Some(image), Some(architecture)) if problems.is_empty() => {
            let types = found.iter().map(|(name, server_type)| (name.clone(), server_type.hourly_price)).collect();
            Ok(OfZone { family: family(&image), architecture, types, pooled })
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
