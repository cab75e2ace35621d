//! `/servers`: creation, lists, changes, deletion. Actions are in `action.rs`, volumes in `server_volume.rs`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::checks::{owner, precondition};
use super::server_volume::{self, Wanted};
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, part_of, within};
use crate::api::tag_filter::TagFilter;
use crate::call::{Call, Fields};
use crate::catalogue;
use crate::options::Availability;
use crate::paging;
use crate::refusal::{BadArgument, Reason, Refusal};
use crate::world::{Server, ServerState, World, sorted};

pub(super) fn find<'a>(world: &'a World, zone: &str, id: &str) -> Result<&'a Server, Refusal> {
    world.servers.get(id).filter(|server| server.zone == zone).ok_or_else(|| Refusal::not_found("instance_server", id))
}

pub(super) fn answer(world: &World, id: &str) -> Value {
    json!({"server": world.servers.get(id).map(|server| world.show_server(server))})
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, id)))
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let ids: BTreeSet<&str> = call.joined("servers").into_iter().collect();
    let networks = call.joined("private_networks");
    let (by_modification, newest_first) = match call.parameter("order") {
        None | Some("creation_date_desc") => (false, true),
        Some("creation_date_asc") => (false, false),
        Some("modification_date_desc") => (true, true),
        Some("modification_date_asc") => (true, false),
        Some(_) => return Err(Refusal::invalid("order")),
    };
    let flag = |name: &str| call.parameter(name).is_some_and(|value| value == "true");
    let has_ip = |server: &Server| !server.public_ips.is_empty() || server.dynamic_ip.is_some();
    let in_network =
        |server: &Server, network: &str| world.nics_of(&server.id).iter().any(|nic| nic.private_network == network);
    // Once, and not for each of thousands of servers.
    let [project, organization, name, kind, state, network, mac] =
        ["project", "organization", "name", "commercial_type", "state", "private_network", "private_nic_mac_address"]
            .map(|name| call.parameter(name));
    let (with_ip, without_ip) = (flag("with_ip"), flag("without_ip"));
    // Both in the order of ids.
    let named: Vec<&Server> = match ids.is_empty() {
        true => world.servers.values().collect(),
        false => ids.iter().filter_map(|id| world.servers.get(id)).collect(),
    };
    let chosen = named.into_iter().filter(|server| {
        server.zone == zone
            && world.lists(&server.id, server.created)
            && fits(project, &server.project)
            && fits(organization, &server.organization)
            && part_of(name, &server.name)
            && fits(kind, &server.commercial_type)
            && fits(state, server.state.as_str())
            && (!with_ip || has_ip(server))
            && (!without_ip || !has_ip(server))
            && network.is_none_or(|network| in_network(server, network))
            && networks.iter().all(|network| in_network(server, network))
            && mac.is_none_or(|mac| world.nics_of(&server.id).iter().any(|nic| nic.mac == mac))
            && tags.fits(&server.tags)
    });
    let servers = sorted(chosen, newest_first, |server| if by_modification { server.modified } else { server.created });
    paging::instance_texts(call, "servers", servers, |server| world.server_text(server))
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    required(&fields)?;
    let (project, organization) = owner(world, &fields)?;
    let commercial_type = fields.required_text("commercial_type")?;
    let kind = catalogue::server_type(zone, &commercial_type).ok_or_else(|| {
        // Assumption: the answer to an unknown type was not recorded; the words are those for a bad placement group.
        Refusal::invalid("commercial_type")
    })?;
    let image = match fields.text("image")? {
        None => None,
        Some(id) => Some(world.image(zone, &id).ok_or_else(|| Refusal::not_found("instance_image", &id))?),
    };
    if let Some(image) = &image
        && image.arch != kind.arch
    {
        // Assumption: the answer to the wrong architecture was not recorded.
        let help = format!("image is for {}, {commercial_type} is {}", image.arch, kind.arch);
        return Err(Refusal::invalid_argument("image", Reason::Constraint, help));
    }
    let boot_type = fields.text("boot_type")?.unwrap_or_else(|| "local".to_owned());
    if !matches!(boot_type.as_str(), "local" | "rescue" | "bootscript") {
        return Err(Refusal::invalid("boot_type"));
    }
    let public_ips = fields.texts("public_ips")?.unwrap_or_default();
    let public_ips = public_ips.iter().map(|id| free_ip(world, zone, id)).collect::<Result<Vec<_>, _>>()?;
    let security_group = reference(&fields, "security_group")?.flatten();
    if let Some(id) = &security_group {
        super::security_group::find(world, zone, id)?;
    }
    let placement_group = reference(&fields, "placement_group")?.flatten();
    if let Some(id) = &placement_group {
        super::placement_group::find(world, zone, id)?;
    }
    let wanted = server_volume::wanted(world, zone, &fields, image.as_ref(), kind)?;
    let name = fields.text("name")?;
    let tags = fields.texts("tags")?.unwrap_or_default();
    let protected = fields.flag("protected")?.unwrap_or(false);
    let dynamic_ip_required = fields.flag("dynamic_ip_required")?.unwrap_or(true);
    let ssh_key = fields.text("admin_password_encryption_ssh_key_id")?;

    within(world.options.quotas.servers, "ComputeServers", world.servers.len())?;
    server_volume::within_quotas(world, &wanted)?;
    if world.availability(zone, &commercial_type) == Availability::Shortage {
        // Assumption: the Instance API's name for the resource; its `out_of_stock` was never recorded.
        return Err(Refusal::out_of_stock("instance_server"));
    }

    let id = world.random.id();
    let mac = world.random.server_mac();
    let created = world.stamp();
    let security_group = match security_group {
        Some(group) => group,
        None => world.default_security_group(zone, &project),
    };
    let server = Server {
        id: id.clone(),
        zone: zone.to_owned(),
        // Assumption: the SDKs always send a name.
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("srv-{}", &id[..8])),
        commercial_type,
        arch: kind.arch,
        boot_type,
        organization,
        project,
        image: image.as_ref().map(|image| image.id.clone()),
        volumes: BTreeMap::new(),
        filesystems: Vec::new(),
        tags,
        state: ServerState::Stopped,
        detail: String::new(),
        protected,
        dynamic_ip_required,
        dynamic_ip: None,
        public_ips: Vec::new(),
        mac,
        created,
        modified: created,
        security_group,
        placement_group,
        location: None,
        admin_password_encryption_ssh_key_id: ssh_key,
        user_data: BTreeMap::new(),
        turn: 0,
    };
    world.servers.insert(id.clone(), server);
    for (number, volume) in wanted {
        server_volume::provide(world, &id, number, volume, image.as_ref());
    }
    for ip in public_ips {
        world.attach_ip(&ip, &id);
    }
    Ok(Answer::created(&call.path, &id, &answer(world, &id)))
}

/// The recorded refusal names all missing keys at once. An image makes up for missing volumes (the API takes them from
/// the image), a boot volume for a missing image.
fn required(fields: &Fields) -> Result<(), Refusal> {
    let boots_from_volume = fields
        .object("volumes")?
        .is_some_and(|volumes| volumes.0.values().any(|volume| volume.get("id").is_some_and(Value::is_string)));
    let present = |key: &str| match key {
        "image" => fields.has("image") || boots_from_volume,
        "volumes" => fields.has("volumes") || fields.has("image"),
        key => fields.has(key),
    };
    let missing: Vec<BadArgument> = ["commercial_type", "image", "volumes"]
        .into_iter()
        .filter(|key| !present(key))
        .map(BadArgument::missing)
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(Refusal::invalid_arguments(&missing)) }
}

/// An IP that no server has.
fn free_ip(world: &World, zone: &str, id: &str) -> Result<String, Refusal> {
    let id = super::ip::find(world, zone, id)?;
    if world.ips.get(&id).is_some_and(|ip| ip.server.is_some()) {
        // Assumption: the refusal of an IP of another server was recorded only in the era of NAT addresses.
        return Err(precondition(world, "resource_still_in_use", "ip is already attached to a server"));
    }
    Ok(id)
}

/// A reference to a group: absent, `null`, an id, or an object with an id (SDK's template).
fn reference(fields: &Fields, name: &str) -> Result<Option<Option<String>>, Refusal> {
    match fields.value(name) {
        None => Ok(None),
        Some(Value::Null) => Ok(Some(None)),
        Some(Value::String(id)) if id.is_empty() => Ok(Some(None)),
        Some(Value::String(id)) => well_formed(name, id).map(|id| Some(Some(id))),
        Some(Value::Object(group)) => match group.get("id") {
            Some(Value::String(id)) => well_formed(name, id).map(|id| Some(Some(id))),
            _ => Err(Refusal::invalid(name)),
        },
        Some(_) => Err(Refusal::invalid(name)),
    }
}

fn well_formed(name: &str, id: &str) -> Result<String, Refusal> {
    // Recorded: an id that is no UUID is "not a valid value", an unknown UUID is 404.
    if uuid::Uuid::parse_str(id).is_ok() { Ok(id.to_owned()) } else { Err(Refusal::invalid(name)) }
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let state = find(world, zone, id)?.state;
    let fields = call.fields()?;
    // Everything is checked before anything changes.
    let security_group = reference(&fields, "security_group")?;
    if let Some(Some(group)) = &security_group {
        super::security_group::find(world, zone, group)?;
    }
    let placement_group = reference(&fields, "placement_group")?;
    if let Some(Some(group)) = &placement_group {
        super::placement_group::find(world, zone, group)?;
    }
    let commercial_type = fields.text("commercial_type")?;
    if let Some(name) = &commercial_type {
        if catalogue::server_type(zone, name).is_none() {
            return Err(Refusal::invalid("commercial_type"));
        }
        if state != ServerState::Stopped {
            return Err(precondition(world, "resource_not_usable", "server should be stopped"));
        }
    }
    let public_ips = match fields.texts("public_ips")? {
        None => None,
        Some(ids) => {
            let mut found = Vec::new();
            for ip in ids {
                let ip = super::ip::find(world, zone, &ip)?;
                let holder = world.ips.get(&ip).and_then(|ip| ip.server.as_deref());
                if holder.is_some_and(|holder| holder != id) {
                    return Err(precondition(world, "resource_still_in_use", "ip is already attached to a server"));
                }
                found.push(ip);
            }
            Some(found)
        }
    };
    let volumes = server_volume::wanted_set(world, zone, id, &fields)?;
    let (name, tags) = (fields.text("name")?, fields.texts("tags")?);
    let (protected, dynamic) = (fields.flag("protected")?, fields.flag("dynamic_ip_required")?);
    let boot_type = fields.text("boot_type")?;

    let stamp = world.stamp();
    let default_group = match &security_group {
        Some(None) => {
            let project = world.servers.get(id).map(|server| server.project.clone()).unwrap_or_default();
            Some(world.default_security_group(zone, &project))
        }
        _ => None,
    };
    if let Some(server) = world.servers.get_mut(id) {
        server.modified = stamp;
        server.name = name.unwrap_or_else(|| server.name.clone());
        server.tags = tags.unwrap_or_else(|| server.tags.clone());
        server.protected = protected.unwrap_or(server.protected);
        server.dynamic_ip_required = dynamic.unwrap_or(server.dynamic_ip_required);
        server.boot_type = boot_type.unwrap_or_else(|| server.boot_type.clone());
        server.commercial_type = commercial_type.unwrap_or_else(|| server.commercial_type.clone());
        if let Some(group) = security_group.flatten().or(default_group) {
            server.security_group = group;
        }
        if let Some(group) = placement_group {
            server.placement_group = group;
        }
    }
    if let Some(public_ips) = public_ips {
        let current: Vec<String> = world.servers.get(id).map(|server| server.public_ips.clone()).unwrap_or_default();
        for ip in current.iter().filter(|ip| !public_ips.contains(ip)) {
            world.detach_ip(ip);
        }
        for ip in public_ips.iter().filter(|ip| !current.contains(ip)) {
            world.attach_ip(ip, id);
        }
    }
    if let Some(volumes) = volumes {
        server_volume::replace(world, id, volumes);
    }
    Ok(Answer::ok(&answer(world, id)))
}

/// Only a stopped server can be deleted (121 of 121 recorded states; reports of refusals otherwise), and one that is
/// protected can be as well (measured by others in fr-par-1: 204; assumption: protected-delete-accepted).
pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    let server = find(world, zone, id)?;
    match server.state {
        ServerState::Stopped => {}
        ServerState::Locked => return Err(Refusal::locked("instance_server", id)),
        // Assumption: the current shape of this refusal was not recorded; it is that of `poweron` on a running server.
        _ => return Err(precondition(world, "resource_not_usable", "server should be stopped")),
    }
    world.delete_server_now(id);
    Ok(Answer::no_content())
}

// Assumption: the SDK knows the key only; here it is every type of the same architecture.
pub(super) fn compatible_types(world: &World, zone: &str, id: &str) -> Outcome {
    let server = find(world, zone, id)?;
    let names: Vec<String> = catalogue::server_types(zone)
        .iter()
        .filter(|kind| kind.arch == server.arch && kind.name != server.commercial_type)
        .map(|kind| kind.name.clone())
        .collect();
    Ok(Answer::ok(&json!({"compatible_types": names})))
}

/// The volumes of a request by their number.
pub(super) fn numbered(fields: &Fields) -> Result<Option<BTreeMap<u32, Fields>>, Refusal> {
    let Some(volumes) = fields.object("volumes")? else { return Ok(None) };
    let mut numbered = BTreeMap::new();
    for (key, value) in volumes.0 {
        let number = key.parse().map_err(|_| Refusal::invalid(&format!("volumes.{key}")))?;
        match value {
            Value::Object(template) => {
                numbered.insert(number, Fields(template));
            }
            _ => return Err(Refusal::invalid(&format!("volumes.{key}"))),
        }
    }
    Ok(Some(numbered))
}

/// What a creation asks for, by the volume's number.
pub(super) type WantedVolumes = BTreeMap<u32, Wanted>;
