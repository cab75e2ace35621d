//! VPC API v2: as much as private NICs need.

use http::StatusCode;
use serde_json::{Value, json};

use super::endpoint::{Outcome, fits, method, part_of};
use super::tag_filter::TagFilter;
use crate::answer::Answer;
use crate::call::Call;
use crate::clock::zulu_date;
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{PrivateNetwork, Subnet, Vpc, World, sorted};

pub(super) fn route(world: &mut World, call: &Call, region: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["vpcs"]) => list_vpcs(world, call, region),
        ("POST", ["vpcs"]) => create_vpc(world, call, region),
        ("GET", ["vpcs", id]) => get_vpc(world, region, id),
        ("PATCH", ["vpcs", id]) => update_vpc(world, call, region, id),
        ("DELETE", ["vpcs", id]) => delete_vpc(world, region, id),
        ("GET", ["private-networks"]) => list_networks(world, call, region),
        ("POST", ["private-networks"]) => create_network(world, call, region),
        ("GET", ["private-networks", id]) => get_network(world, region, id),
        ("PATCH", ["private-networks", id]) => update_network(world, call, region, id),
        ("DELETE", ["private-networks", id]) => delete_network(world, region, id),
        _ => Err(Refusal::unknown_path()),
    }
}

fn find_vpc<'a>(world: &'a World, region: &str, id: &str) -> Result<&'a Vpc, Refusal> {
    world.vpcs.get(id).filter(|vpc| vpc.region == region).ok_or_else(|| Refusal::not_found("vpc", id))
}

fn find_network<'a>(world: &'a World, region: &str, id: &str) -> Result<&'a PrivateNetwork, Refusal> {
    world
        .private_networks
        .get(id)
        .filter(|network| network.region == region)
        .ok_or_else(|| Refusal::not_found("private_network", id))
}

fn show_vpc(world: &World, vpc: &Vpc) -> Value {
    json!({
        "id": vpc.id,
        "name": vpc.name,
        "tags": vpc.tags,
        "organization_id": vpc.organization,
        "created_at": zulu_date(vpc.created),
        "updated_at": zulu_date(vpc.updated),
        "project_id": vpc.project,
        "is_default": vpc.is_default,
        "private_network_count": world.private_networks.values().filter(|network| network.vpc == vpc.id).count(),
        // Recorded: on, although the request said no.
        "routing_enabled": true,
        "custom_routes_propagation_enabled": true,
        "transitivity_enabled": false,
        "s3_integration_enabled": false,
        "region": vpc.region,
    })
}

fn show_network(network: &PrivateNetwork) -> Value {
    let subnets: Vec<Value> = network
        .subnets
        .iter()
        .map(|subnet| {
            json!({
                "id": subnet.id,
                "created_at": zulu_date(network.created),
                "updated_at": zulu_date(network.created),
                "subnet": subnet.range,
                "project_id": network.project,
                "private_network_id": network.id,
                "vpc_id": network.vpc,
                "region": network.region,
            })
        })
        .collect();
    json!({
        "id": network.id,
        "name": network.name,
        "tags": network.tags,
        "organization_id": network.organization,
        "created_at": zulu_date(network.created),
        "updated_at": zulu_date(network.updated),
        "project_id": network.project,
        "subnets": subnets,
        "vpc_id": network.vpc,
        "dhcp_enabled": true,
        "default_route_propagation_enabled": network.default_route_propagation,
        "has_s3_integration": false,
        "region": network.region,
    })
}

fn list_vpcs(world: &World, call: &Call, region: &str) -> Outcome {
    let tags = TagFilter::any(world, call);
    let vpcs = world.vpcs.values().filter(|vpc| {
        vpc.region == region
            && world.lists(&vpc.id, vpc.created)
            && fits(call.parameter("project_id"), &vpc.project)
            && part_of(call.parameter("name"), &vpc.name)
            && call.parameter("is_default").is_none_or(|wanted| (wanted == "true") == vpc.is_default)
            && tags.fits(&vpc.tags)
    });
    let vpcs = sorted(vpcs, false, |vpc| vpc.created);
    paging::newer_list(call, "vpcs", vpcs.into_iter().map(|vpc| show_vpc(world, vpc)).collect())
}

fn create_vpc(world: &mut World, call: &Call, region: &str) -> Outcome {
    let fields = call.fields()?;
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    let name = fields.text("name")?.unwrap_or_else(|| "vpc".to_owned());
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = add_vpc(world, region, name, project, tags, false);
    get_vpc(world, region, &id)
}

fn add_vpc(world: &mut World, region: &str, name: String, project: String, tags: Vec<String>, default: bool) -> String {
    let id = world.random.id();
    let created = world.stamp();
    let organization = world.organization_of(&project);
    let vpc = Vpc {
        id: id.clone(),
        region: region.to_owned(),
        name,
        organization,
        project,
        tags,
        is_default: default,
        created,
        updated: created,
    };
    world.vpcs.insert(id.clone(), vpc);
    id
}

fn get_vpc(world: &World, region: &str, id: &str) -> Outcome {
    Ok(Answer::ok(&show_vpc(world, find_vpc(world, region, id)?)))
}

fn update_vpc(world: &mut World, call: &Call, region: &str, id: &str) -> Outcome {
    find_vpc(world, region, id)?;
    let fields = call.fields()?;
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let stamp = world.stamp();
    if let Some(vpc) = world.vpcs.get_mut(id) {
        vpc.updated = stamp;
        vpc.name = name.unwrap_or_else(|| vpc.name.clone());
        vpc.tags = tags.unwrap_or_else(|| vpc.tags.clone());
    }
    get_vpc(world, region, id)
}

fn delete_vpc(world: &mut World, region: &str, id: &str) -> Outcome {
    find_vpc(world, region, id)?;
    if world.private_networks.values().any(|network| network.vpc == id) {
        // Assumption: after the pattern of private networks.
        let help = "VPC must be empty to be deleted";
        return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "resource_still_in_use", help));
    }
    world.vpcs.remove(id);
    Ok(Answer::no_content())
}

fn list_networks(world: &World, call: &Call, region: &str) -> Outcome {
    let tags = TagFilter::any(world, call);
    let ids = call.repeated("private_network_ids");
    let networks = world.private_networks.values().filter(|network| {
        network.region == region
            && world.lists(&network.id, network.created)
            && fits(call.parameter("project_id"), &network.project)
            && fits(call.parameter("vpc_id"), &network.vpc)
            && part_of(call.parameter("name"), &network.name)
            && (ids.is_empty() || ids.contains(&network.id.as_str()))
            && tags.fits(&network.tags)
    });
    let networks = sorted(networks, false, |network| network.created);
    paging::newer_list(call, "private_networks", networks.into_iter().map(show_network).collect())
}

fn create_network(world: &mut World, call: &Call, region: &str) -> Outcome {
    let fields = call.fields()?;
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    let tags = fields.texts("tags")?.unwrap_or_default();
    let propagation = fields.flag("default_route_propagation_enabled")?.unwrap_or(false);
    let name = fields.text("name")?.unwrap_or_else(|| "pn".to_owned());
    let vpc = match fields.text("vpc_id")? {
        Some(id) => find_vpc(world, region, &id)?.id.clone(),
        None => {
            let default = world
                .vpcs
                .values()
                .find(|vpc| vpc.region == region && vpc.project == project && vpc.is_default)
                .map(|vpc| vpc.id.clone());
            match default {
                Some(id) => id,
                None => add_vpc(world, region, "default".to_owned(), project.clone(), Vec::new(), true),
            }
        }
    };
    let id = world.random.id();
    let block = world.random.number(16_384);
    let v4 = format!("10.{}.{}.0/22", block / 64, (block % 64) * 4);
    let v6 = {
        let [_, _, a, b, ..] = world.random.ipv6_prefix().segments();
        format!("fd5f:519c:{a:x}:{b:x}::/64")
    };
    let subnets = [Subnet { id: world.random.id(), range: v4 }, Subnet { id: world.random.id(), range: v6 }];
    let created = world.stamp();
    let organization = world.organization_of(&project);
    let network = PrivateNetwork {
        id: id.clone(),
        region: region.to_owned(),
        name,
        organization,
        project,
        tags,
        vpc,
        default_route_propagation: propagation,
        subnets,
        next_host: 2,
        created,
        updated: created,
    };
    world.private_networks.insert(id.clone(), network);
    get_network(world, region, &id)
}

fn get_network(world: &World, region: &str, id: &str) -> Outcome {
    Ok(Answer::ok(&show_network(find_network(world, region, id)?)))
}

fn update_network(world: &mut World, call: &Call, region: &str, id: &str) -> Outcome {
    find_network(world, region, id)?;
    let fields = call.fields()?;
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let stamp = world.stamp();
    if let Some(network) = world.private_networks.get_mut(id) {
        network.updated = stamp;
        network.name = name.unwrap_or_else(|| network.name.clone());
        network.tags = tags.unwrap_or_else(|| network.tags.clone());
    }
    get_network(world, region, id)
}

fn delete_network(world: &mut World, region: &str, id: &str) -> Outcome {
    find_network(world, region, id)?;
    if world.private_nics.values().any(|nic| nic.private_network == id) {
        // Recorded 68 times, with these words.
        let help = "Private Network must be empty to be deleted";
        return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "resource_still_in_use", help));
    }
    world.private_networks.remove(id);
    world.ipam_ips.remove_where(|ip| ip.private_network == id);
    Ok(Answer::no_content())
}
