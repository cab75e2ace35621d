//! `/ips`: flexible IPs.

use serde_json::{Value, json};

use super::checks::{owner, precondition};
use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, within};
use crate::api::tag_filter::TagFilter;
use crate::call::{Call, wrong_type};
use crate::paging;
use crate::refusal::{BadArgument, Reason, Refusal};
use crate::world::{Ip, IpKind, World, sorted};

/// The id of an IP given by id or by address (recorded: paths accept both).
pub(super) fn find(world: &World, zone: &str, id_or_address: &str) -> Result<String, Refusal> {
    let found = world.ips.values().find(|ip| {
        ip.zone == zone
            && (ip.id == id_or_address
                || matches!(ip.kind, IpKind::V4 { address } if address.to_string() == id_or_address))
    });
    found.map(|ip| ip.id.clone()).ok_or_else(|| Refusal::not_found("instance_ip", id_or_address))
}

fn answer(world: &World, id: &str) -> Value {
    json!({"ip": world.ips.get(id).map(|ip| world.show_ip(ip))})
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let tags = TagFilter::all(world, call);
    let ips = world.ips.values().filter(|ip| {
        let address = match ip.kind {
            IpKind::V4 { address } => address.to_string(),
            IpKind::V6 { prefix, .. } => format!("{prefix}/64"),
        };
        ip.zone == zone
            && world.lists(&ip.id, ip.created)
            && fits(call.parameter("project"), &ip.project)
            && fits(call.parameter("organization"), &ip.organization)
            && fits(call.parameter("type"), ip.kind.as_str())
            && call.parameter("name").is_none_or(|name| address.contains(name))
            && tags.fits(&ip.tags)
    });
    paging::instance_list_of(call, "ips", sorted(ips, true, |ip| ip.created), |ip| world.show_ip(ip))
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let (project, organization) = owner(world, &fields)?;
    let tags = fields.texts("tags")?.unwrap_or_default();
    let server = fields.text("server")?;
    let kind = match fields.text("type")?.as_deref() {
        // Recorded: routed_ipv4 when no type is given.
        None | Some("routed_ipv4") => IpKind::V4 { address: world.random.ipv4() },
        Some("routed_ipv6") => {
            let prefix = world.random.ipv6_prefix();
            IpKind::V6 { prefix, host: world.random.ipv6_in(prefix) }
        }
        Some(_) => return Err(Refusal::invalid("type")),
    };
    within(world.options.quotas.ips, "ComputeIps", world.ips.len())?;
    if let Some(server) = &server {
        super::server::find(world, zone, server)?;
    }
    let id = world.random.id();
    let created = world.stamp();
    let ip = Ip {
        id: id.clone(),
        zone: zone.to_owned(),
        kind,
        reverse: None,
        server: None,
        organization,
        project,
        tags,
        created,
    };
    world.ips.insert(id.clone(), ip);
    if let Some(server) = server {
        world.attach_ip(&id, &server);
    }
    Ok(Answer::created(&call.path, &id, &answer(world, &id)))
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    let id = find(world, zone, id)?;
    Ok(Answer::ok(&answer(world, &id)))
}

pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let id = find(world, zone, id)?;
    let fields = call.fields()?;
    if let Some(reverse) = fields.text("reverse")? {
        // Recorded: a reverse that does not resolve to the address is refused. Nothing resolves to a simulated address.
        let address = match world.ips.get(&id).map(|ip| ip.kind) {
            Some(IpKind::V4 { address }) => address.to_string(),
            Some(IpKind::V6 { host, .. }) => host.to_string(),
            None => String::new(),
        };
        return Err(Refusal::invalid_arguments(&[BadArgument::new(
            "reverse",
            Reason::Constraint,
            format!(
                "Your reverse must resolve. Ensure the command 'dig +short {reverse}' matches your IP address \
                 '{address}'. If it does, please contact our support."
            ),
        )]));
    }
    let tags = fields.texts("tags")?;
    match fields.value("server") {
        None => {}
        Some(Value::Null) => world.detach_ip(&id),
        Some(Value::String(server)) => {
            super::server::find(world, zone, server)?;
            let attached_to = world.ips.get(&id).and_then(|ip| ip.server.clone());
            match attached_to {
                Some(current) if current == *server => {}
                // Assumption: an attached IP must be detached first; no recording shows the attempt.
                Some(_) => {
                    return Err(precondition(world, "resource_still_in_use", "ip is already attached to a server"));
                }
                None => world.attach_ip(&id, server),
            }
        }
        Some(_) => return Err(wrong_type("server", "a server id or null")),
    }
    if let (Some(tags), Some(ip)) = (tags, world.ips.get_mut(&id)) {
        ip.tags = tags;
    }
    Ok(Answer::ok(&answer(world, &id)))
}

// Assumption: an attached IP can be deleted, as Scaleway's own Cluster API provider does; it vanishes from its server.
pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    let id = find(world, zone, id)?;
    world.detach_ip(&id);
    if let Some(Ip { kind: IpKind::V4 { address }, .. }) = world.ips.remove(&id) {
        world.random.free_ipv4(address);
    }
    Ok(Answer::no_content())
}
