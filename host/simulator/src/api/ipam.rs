//! IPAM API v1: the addresses of private NICs and of flexible IPs.

use std::net::Ipv6Addr;

use serde_json::{Value, json};

use super::endpoint::{Outcome, fits, method};
use super::tag_filter::TagFilter;
use crate::answer::Answer;
use crate::call::Call;
use crate::clock::{Micros, zulu_date};
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{IpKind, IpamIp, World, sorted};

pub(super) fn route(world: &mut World, call: &Call, region: &str, path: &[&str]) -> Outcome {
    match (method(call), path) {
        ("GET", ["ips"]) => list(world, call, region),
        ("POST", ["ips"]) => book(world, call, region),
        ("GET", ["ips", id]) => get(world, region, id),
        ("DELETE", ["ips", id]) => release(world, region, id),
        _ => Err(Refusal::unknown_path()),
    }
}

fn show(world: &World, ip: &IpamIp) -> Value {
    let nic = ip.private_nic.as_ref().and_then(|id| world.private_nics.get(id));
    let resource = nic.map(|nic| {
        json!({
            "type": "instance_private_nic",
            "id": nic.id,
            "mac_address": nic.mac,
            "name": world.servers.get(&nic.server).map(|server| server.name.as_str()),
        })
    });
    json!({
        "id": ip.id,
        "address": ip.address,
        "project_id": ip.project,
        "is_ipv6": ip.is_ipv6,
        "created_at": zulu_date(ip.created),
        "updated_at": zulu_date(ip.updated),
        "source": {"subnet_id": ip.subnet},
        "resource": resource,
        "tags": ip.tags,
        "reverses": [],
        "region": ip.region,
        "zone": null,
    })
}

fn list(world: &World, call: &Call, region: &str) -> Outcome {
    let tags = TagFilter::any(world, call);
    let nic_of = |ip: &IpamIp| ip.private_nic.as_ref().and_then(|id| world.private_nics.get(id));
    let private = world.ipam_ips.values().filter(|ip| {
        ip.region == region
            && world.lists(&ip.id, ip.created)
            && fits(call.parameter("project_id"), &ip.project)
            && fits(call.parameter("private_network_id"), &ip.private_network)
            && call.parameter("resource_id").is_none_or(|id| ip.private_nic.as_deref() == Some(id))
            && call
                .parameter("resource_type")
                .is_none_or(|kind| ip.private_nic.is_some() && kind == "instance_private_nic")
            && call.parameter("mac_address").is_none_or(|mac| nic_of(ip).is_some_and(|nic| nic.mac == mac))
            && call.parameter("attached").is_none_or(|wanted| (wanted == "true") == ip.private_nic.is_some())
            && call.parameter("is_ipv6").is_none_or(|wanted| (wanted == "true") == ip.is_ipv6)
            && call.parameter("zonal").is_none()
            && tags.fits(&ip.tags)
    });
    let mut entries: Vec<(Micros, Value)> = private.map(|ip| (ip.created, show(world, ip))).collect();
    let narrowed =
        ["private_network_id", "resource_type", "mac_address"].iter().any(|key| call.parameter(key).is_some());
    if !narrowed {
        entries.extend(flexible(world, call, region));
    }
    let newest_first = call.parameter("order_by").is_none_or(|order| order != "created_at_asc");
    let entries = sorted(entries, newest_first, |entry| entry.0);
    paging::newer_list(call, "ips", entries.into_iter().map(|entry| entry.1).collect())
}

// Assumption: flexible IPs as IPAM shows them follow the SDK's types; no such list was recorded.
fn flexible(world: &World, call: &Call, region: &str) -> Vec<(Micros, Value)> {
    let tags = TagFilter::any(world, call);
    world
        .ips
        .values()
        .filter(|ip| {
            ip.zone.starts_with(region)
                && world.lists(&ip.id, ip.created)
                && fits(call.parameter("project_id"), &ip.project)
                && fits(call.parameter("zonal"), &ip.zone)
                && call.parameter("resource_id").is_none_or(|id| ip.server.as_deref() == Some(id))
                && call.parameter("attached").is_none_or(|wanted| (wanted == "true") == ip.server.is_some())
                && tags.fits(&ip.tags)
        })
        .map(|ip| {
            let (address, is_ipv6) = match ip.kind {
                IpKind::V4 { address } => (format!("{address}/32"), false),
                IpKind::V6 { prefix, .. } => (format!("{prefix}/64"), true),
            };
            let server = ip.server.as_ref().and_then(|id| world.servers.get(id));
            let resource = server.map(|server| {
                json!({"type": "instance_server", "id": server.id, "mac_address": server.mac, "name": server.name})
            });
            let view = json!({
                "id": ip.id, "address": address, "project_id": ip.project, "is_ipv6": is_ipv6,
                "created_at": zulu_date(ip.created), "updated_at": zulu_date(ip.created), "source": {"zonal": ip.zone},
                "resource": resource, "tags": ip.tags, "reverses": [], "region": region, "zone": ip.zone,
            });
            (ip.created, view)
        })
        .collect()
}

fn find<'a>(world: &'a World, region: &str, id: &str) -> Result<&'a IpamIp, Refusal> {
    world.ipam_ips.get(id).filter(|ip| ip.region == region).ok_or_else(|| Refusal::not_found("ip", id))
}

fn get(world: &World, region: &str, id: &str) -> Outcome {
    Ok(Answer::ok(&show(world, find(world, region, id)?)))
}

fn book(world: &mut World, call: &Call, region: &str) -> Outcome {
    let fields = call.fields()?;
    let source = fields.object("source")?.ok_or_else(|| Refusal::invalid("source"))?;
    let network = match (source.text("private_network_id")?, source.text("subnet_id")?) {
        (Some(network), _) => network,
        (None, Some(subnet)) => world
            .private_networks
            .values()
            .find(|network| network.subnets.iter().any(|candidate| candidate.id == subnet))
            .map(|network| network.id.clone())
            .ok_or_else(|| Refusal::not_found("subnet", &subnet))?,
        // Zonal and regional addresses are the Instance API's flexible IPs here.
        (None, None) => return Err(Refusal::invalid("source")),
    };
    if world.private_networks.get(&network).is_none_or(|found| found.region != region) {
        return Err(Refusal::not_found("private_network", &network));
    }
    let is_ipv6 = fields.flag("is_ipv6")?.unwrap_or(false);
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = add(world, &network, is_ipv6, None, tags)?;
    Ok(Answer::ok(&show(world, find(world, region, &id)?)))
}

fn release(world: &mut World, region: &str, id: &str) -> Outcome {
    if find(world, region, id)?.private_nic.is_some() {
        // Assumption: after the pattern of other products.
        return Err(Refusal::precondition(
            http::StatusCode::PRECONDITION_FAILED,
            "resource_still_in_use",
            "IP is attached to a resource",
        ));
    }
    world.ipam_ips.remove(id);
    Ok(Answer::no_content())
}

/// Gives a new NIC its addresses: the booked ones it names, or a new IPv4 and a new IPv6 address (recorded, in this
/// order).
pub(super) fn take(world: &mut World, network: &str, nic: &str, booked: Vec<String>) -> Result<Vec<String>, Refusal> {
    for id in &booked {
        match world.ipam_ips.get(id) {
            Some(ip) if ip.private_network == network && ip.private_nic.is_none() => {}
            Some(_) => return Err(Refusal::invalid("ipam_ip_ids")),
            None => return Err(Refusal::not_found("ip", id)),
        }
    }
    for id in &booked {
        if let Some(ip) = world.ipam_ips.get_mut(id) {
            ip.private_nic = Some(nic.to_owned());
        }
    }
    if booked.is_empty() {
        let v4 = add(world, network, false, Some(nic), Vec::new())?;
        let v6 = add(world, network, true, Some(nic), Vec::new())?;
        return Ok(vec![v4, v6]);
    }
    Ok(booked)
}

fn add(
    world: &mut World,
    network: &str,
    is_ipv6: bool,
    nic: Option<&str>,
    tags: Vec<String>,
) -> Result<String, Refusal> {
    let id = world.random.id();
    let created = world.stamp();
    let host = world.random.ipv6_in(Ipv6Addr::UNSPECIFIED).segments();
    let Some(network) = world.private_networks.get_mut(network) else {
        return Err(Refusal::not_found("private_network", network));
    };
    let [v4, v6] = &network.subnets;
    let (subnet, address) = if is_ipv6 {
        let prefix = v6.range.trim_end_matches("::/64");
        let [.., e, f, g, h] = host;
        (v6.id.clone(), format!("{prefix}:{e:x}:{f:x}:{g:x}:{h:x}/64"))
    } else {
        let base = v4.range.trim_end_matches("/22").parse::<std::net::Ipv4Addr>().map_or(0, u32::from);
        // A /22 has 1,022 hosts; the first one is the gateway.
        let address = std::net::Ipv4Addr::from(base + network.next_host.min(1_022));
        network.next_host += 1;
        (v4.id.clone(), format!("{address}/22"))
    };
    let ip = IpamIp {
        id: id.clone(),
        region: network.region.clone(),
        address,
        is_ipv6,
        project: network.project.clone(),
        subnet,
        private_network: network.id.clone(),
        private_nic: nic.map(str::to_owned),
        booked: nic.is_none(),
        tags,
        created,
        updated: created,
    };
    world.ipam_ips.insert(id.clone(), ip);
    Ok(id)
}
