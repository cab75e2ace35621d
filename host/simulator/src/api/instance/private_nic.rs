//! Private NICs: `/servers/{id}/private_nics`, and the same things as `/private-network-interfaces` of API v2alpha1.

use serde_json::{Value, json};

use super::server;
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits};
use crate::api::ipam;
use crate::api::tag_filter::TagFilter;
use crate::call::{Call, Fields};
use crate::paging;
use crate::refusal::{Reason, Refusal};
use crate::world::{Event, PrivateNic, ServerState, World, sorted};

fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a PrivateNic, Refusal> {
    world
        .private_nics
        .get(id)
        .filter(|nic| nic.zone == zone)
        .ok_or_else(|| Refusal::not_found("instance_private_nic", id))
}

fn find_on<'a>(world: &'a World, zone: &str, server: &str, id: &str) -> Result<&'a PrivateNic, Refusal> {
    server::find(world, zone, server)?;
    find(world, zone, id).and_then(|nic| {
        if nic.server == server { Ok(nic) } else { Err(Refusal::not_found("instance_private_nic", id)) }
    })
}

/// Makes a NIC; `ips` are addresses booked in IPAM, without them new ones are taken.
fn attach(world: &mut World, zone: &str, server: &str, fields: &Fields, ips: Vec<String>) -> Result<String, Refusal> {
    let holder = server::find(world, zone, server)?;
    let (project, stopped) = (holder.project.clone(), holder.state == ServerState::Stopped);
    let network = fields.required_text("private_network_id")?;
    // `fr-par` of `fr-par-1`.
    let region = zone.rsplit_once('-').map_or(zone, |(region, _)| region);
    if world.private_networks.get(&network).is_none_or(|found| found.region != region) {
        return Err(Refusal::not_found("private_network", &network));
    }
    if world.nics_of(server).iter().any(|nic| nic.private_network == network) {
        // Assumption: the refusal of a second NIC in one network was not recorded.
        let help = "server is already attached to this private network";
        return Err(Refusal::invalid_argument("private_network_id", Reason::Constraint, help));
    }
    let tags = fields.texts("tags")?.unwrap_or_default();
    let id = world.random.id();
    let mac = world.random.private_nic_mac();
    let created = world.stamp();
    let ips = ipam::take(world, &network, &id, ips)?;
    let nic = PrivateNic {
        id: id.clone(),
        zone: zone.to_owned(),
        server: server.to_owned(),
        private_network: network,
        project,
        mac,
        tags,
        ips,
        // Recorded: 3 of 3 on stopped servers are there at once, 3 of 3 on running ones after a while.
        attaching: !stopped,
        created,
        modified: created,
    };
    world.private_nics.insert(id.clone(), nic);
    let delay = world.options.durations.private_nic_attach;
    world.after(delay, Event::PrivateNicReady { id: id.clone() });
    Ok(id)
}

fn answer(world: &World, id: &str) -> Value {
    json!({"private_nic": world.private_nics.get(id).map(|nic| world.show_private_nic(nic))})
}

pub(super) fn list(world: &World, call: &Call, zone: &str, server: &str) -> Outcome {
    server::find(world, zone, server)?;
    let tags = TagFilter::any_joined(world, call);
    let shown = |nic: &&PrivateNic| world.lists(&nic.id, nic.created) && tags.fits(&nic.tags);
    let nics = world.nics_of(server).into_iter().filter(shown);
    paging::instance_list(call, "private_nics", nics.map(|nic| world.show_private_nic(nic)).collect())
}

/// 201, and no `Location` (recorded).
pub(super) fn create(world: &mut World, call: &Call, zone: &str, server: &str) -> Outcome {
    let fields = call.fields()?;
    let ips = fields.texts("ipam_ip_ids")?.or(fields.texts("ip_ids")?).unwrap_or_default();
    let id = attach(world, zone, server, &fields, ips)?;
    Ok(Answer::json(http::StatusCode::CREATED, &answer(world, &id)))
}

pub(super) fn get(world: &World, zone: &str, server: &str, id: &str) -> Outcome {
    find_on(world, zone, server, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, server: &str, id: &str) -> Outcome {
    find_on(world, zone, server, id)?;
    change(world, call, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

fn change(world: &mut World, call: &Call, id: &str) -> Result<(), Refusal> {
    let tags = call.fields()?.texts("tags")?;
    let stamp = world.stamp();
    if let (Some(tags), Some(nic)) = (tags, world.private_nics.get_mut(id)) {
        nic.tags = tags;
        nic.modified = stamp;
    }
    Ok(())
}

pub(super) fn delete(world: &mut World, zone: &str, server: &str, id: &str) -> Outcome {
    find_on(world, zone, server, id)?;
    world.remove_private_nic(id);
    Ok(Answer::no_content())
}

pub(super) fn list_v2(world: &World, call: &Call, zone: &str) -> Outcome {
    let servers: Vec<&str> = call.joined("server_ids");
    let networks: Vec<&str> = call.joined("private_network_ids");
    let newest_first = call.parameter("order_by").is_none_or(|order| order != "created_at_asc");
    let tags = TagFilter::any(world, call);
    let nics = world.private_nics.values().filter(|nic| {
        nic.zone == zone
            && world.lists(&nic.id, nic.created)
            && fits(call.parameter("project_id"), &nic.project)
            && (servers.is_empty() || servers.contains(&nic.server.as_str()))
            && (networks.is_empty() || networks.contains(&nic.private_network.as_str()))
            && tags.fits(&nic.tags)
    });
    let nics = sorted(nics, newest_first, |nic| nic.created);
    let views = nics.into_iter().map(|nic| world.show_interface(nic)).collect();
    paging::newer_list(call, "private_network_interfaces", views)
}

pub(super) fn create_v2(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let server = fields.required_text("server_id")?;
    let ips = fields.texts("ip_ids")?.unwrap_or_default();
    let id = attach(world, zone, &server, &fields, ips)?;
    Ok(Answer::ok(&world.private_nics.get(&id).map(|nic| world.show_interface(nic)).into()))
}

pub(super) fn get_v2(world: &World, zone: &str, id: &str) -> Outcome {
    let nic = find(world, zone, id)?;
    Ok(Answer::ok(&world.show_interface(nic)))
}

pub(super) fn update_v2(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    change(world, call, id)?;
    get_v2(world, zone, id)
}

pub(super) fn delete_v2(world: &mut World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    world.remove_private_nic(id);
    Ok(Answer::no_content())
}
