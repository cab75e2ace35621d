//! `/servers` of Apple silicon.

use serde_json::Value;

use crate::answer::Answer;
use crate::api::endpoint::{Outcome, fits, within};
use crate::call::Call;
use crate::catalogue::apple_silicon as catalogue;
use crate::clock::{Micros, instant, micros};
use crate::options::Availability;
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{AppleServer, AppleStatus, Commitment, DeletionCause, Event, NewAppleServer, World, sorted};

/// Thirty-one days: what `renewed_monthly` added to `deletable_at` when it was recorded.
const MONTH: std::time::Duration = std::time::Duration::from_secs(31 * 24 * 60 * 60);

/// Recorded 30 of 30 times: a server that is not there is 403, never 404.
fn find<'a>(world: &'a World, zone: &str, id: &str, action: &str) -> Result<&'a AppleServer, Refusal> {
    world
        .apple_servers
        .get(id)
        .filter(|server| server.zone == zone)
        .ok_or_else(|| Refusal::permissions_denied(action, "server"))
}

fn answer(world: &World, id: &str, sealed: bool) -> Answer {
    Answer::ok(&world.apple_servers.get(id).map(|server| world.show_apple_host(server, sealed)).into())
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let newest_first = match call.parameter("order_by") {
        None | Some("created_at_asc") => false,
        Some("created_at_desc") => true,
        Some(_) => return Err(Refusal::invalid("order_by")),
    };
    let servers = world.apple_servers.values().filter(|server| {
        server.zone == zone
            && world.lists(&server.id, Micros::try_from(server.created).unwrap_or_default())
            && fits(call.parameter("project_id"), &server.project)
            && fits(call.parameter("organization_id"), &server.organization)
    });
    let servers = sorted(servers, newest_first, |server| server.created);
    // Assumption: whether a list seals the passwords was not recorded; the simulator does.
    paging::newer_list(call, "servers", servers.into_iter().map(|server| world.show_apple_host(server, true)).collect())
}

pub(super) fn create(world: &mut World, call: &Call, zone: &str) -> Outcome {
    let fields = call.fields()?;
    let server_type = fields.required_text("type")?;
    let Some(bandwidth) = catalogue::default_bandwidth(&server_type) else { return Err(Refusal::invalid("type")) };
    let bandwidth = match fields.number("public_bandwidth_bps")?.filter(|asked| *asked > 0) {
        None => bandwidth,
        Some(asked) if catalogue::has_bandwidth(&server_type, asked) => asked,
        Some(_) => return Err(Refusal::invalid("public_bandwidth_bps")),
    };
    let os = match fields.text("os_id")?.filter(|id| !id.is_empty()) {
        None => catalogue::default_os(world.options.seed, &server_type),
        Some(id) => match catalogue::runs_on(world.options.seed, &id, &server_type) {
            Some(true) => id,
            Some(false) => return Err(Refusal::invalid("os_id")),
            None => return Err(Refusal::not_found("os", &id)),
        },
    };
    let commitment = match fields.text("commitment_type")?.as_deref() {
        None => Commitment::Duration24h,
        Some(text) => text.parse().map_err(|_| Refusal::invalid("commitment_type"))?,
    };
    let (enable_vpc, enable_kext) = (fields.flag("enable_vpc")?, fields.flag("enable_kext")?);
    let name = fields.text("name")?;
    let project = fields.text("project_id")?;
    within(world.options.quotas.apple_silicon_servers, "AppleSiliconServers", world.apple_servers.len())?;
    if world.availability(zone, &server_type) == Availability::Shortage {
        return Err(Refusal::out_of_stock("server"));
    }
    match world.apple_stock.get_mut(&server_type) {
        None => {}
        Some(0) => return Err(Refusal::out_of_stock("server")),
        Some(left) => *left -= 1,
    }
    let durations = world.options.durations;
    let span = match server_type.starts_with("M1-") {
        true => durations.apple_silicon_create_m1,
        false => durations.apple_silicon_create,
    };
    let id = world.add_apple_server(NewAppleServer {
        zone: zone.to_owned(),
        name,
        server_type,
        os,
        project,
        enable_vpc: enable_vpc.unwrap_or(false),
        enable_kext: enable_kext.unwrap_or(false),
        commitment,
        public_bandwidth_bps: bandwidth,
        age: std::time::Duration::ZERO,
    });
    world.begin_apple(&id, AppleStatus::Starting, span, |offer| offer.boot);
    Ok(answer(world, &id, true))
}

pub(super) fn get(world: &World, zone: &str, id: &str) -> Outcome {
    find(world, zone, id, "read")?;
    Ok(answer(world, id, false))
}

/// All fields are optional; an empty object is accepted (recorded).
pub(super) fn update(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let kind = find(world, zone, id, "write")?.server_type.clone();
    let fields = call.fields()?;
    let bandwidth = fields.number("public_bandwidth_bps")?;
    if bandwidth.is_some_and(|bandwidth| !catalogue::has_bandwidth(&kind, bandwidth)) {
        return Err(Refusal::invalid("public_bandwidth_bps"));
    }
    let commitment = match fields.object("commitment_type")? {
        None => None,
        Some(nested) => {
            let text = nested.required_text("commitment_type")?;
            Some(text.parse().map_err(|_| Refusal::invalid("commitment_type"))?)
        }
    };
    let (name, enable_vpc) = (fields.text("name")?, fields.flag("enable_vpc")?);
    let schedule = fields.flag("schedule_deletion")?;
    let stamp = world.stamp();
    let name = name.filter(|name| !name.is_empty());
    if let Some(name) = &name {
        match world.behaviours.late_rename() {
            None => world.rename_apple_server(id, name.clone()),
            Some(by) => world.after(by, Event::AppleRename { id: id.to_owned(), name: name.clone() }),
        }
    }
    if let Some(server) = world.apple_servers.get_mut(id) {
        server.updated = instant(stamp);
        server.enable_vpc = enable_vpc.unwrap_or(server.enable_vpc);
        server.public_bandwidth_bps = bandwidth.unwrap_or(server.public_bandwidth_bps);
        server.deletion_scheduled = schedule.unwrap_or(server.deletion_scheduled);
        if let Some(commitment) = commitment {
            server.commitment = commitment;
            if commitment == Commitment::RenewedMonthly {
                server.deletable = instant(stamp.saturating_add(micros(MONTH)));
            }
        }
    }
    let mut shown: Value = world.apple_servers.get(id).map(|server| world.show_apple_host(server, true)).into();
    if let Some(name) = name {
        // Also where it will be read only later.
        shown["name"] = name.into();
    }
    // A new commitment moves the date of a deletion that was scheduled before.
    if schedule.is_some() || commitment.is_some() {
        world.schedule_apple_deletion(id);
    }
    Ok(Answer::ok(&shown))
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    // Not `now`: two calls of the same microsecond still come one after the other.
    let present = instant(world.stamp());
    let server = find(world, zone, id, "delete")?;
    if present < server.deletable {
        return Err(Refusal::too_early(world.options.apple_silicon.floor_refusal, server.deletable));
    }
    if server.status == AppleStatus::Locked {
        return Err(Refusal::locked("server", id));
    }
    world.remove_apple_server(id, DeletionCause::Deleted);
    Ok(Answer::no_content())
}

/// Assumption: while a host is busy with something else it answers `transient_state`, and one that is locked `locked`;
/// no recording shows the attempt. One in `error` can be helped by both.
fn able(world: &World, zone: &str, id: &str) -> Result<(), Refusal> {
    let server = find(world, zone, id, "write")?;
    match server.status {
        AppleStatus::Ready | AppleStatus::Error => Ok(()),
        AppleStatus::Locked => Err(Refusal::locked("server", id)),
        busy => Err(Refusal::transient_state("server", id, busy.as_str())),
    }
}

pub(super) fn reboot(world: &mut World, zone: &str, id: &str) -> Outcome {
    able(world, zone, id)?;
    if let Some(server) = world.apple_servers.get_mut(id) {
        server.history.reboots += 1;
    }
    world.begin_apple(id, AppleStatus::Rebooting, world.options.durations.apple_silicon_reboot, |_| None);
    Ok(answer(world, id, true))
}

// Assumption: `reinstall` was never recorded; by the SDK it answers the server, and without a system the type's default
// one is installed.
pub(super) fn reinstall(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    able(world, zone, id)?;
    let kind = find(world, zone, id, "write")?.server_type.clone();
    let fields = call.fields()?;
    let os = match fields.text("os_id")?.filter(|id| !id.is_empty()) {
        None => catalogue::default_os(world.options.seed, &kind),
        Some(os) if catalogue::runs_on(world.options.seed, &os, &kind) == Some(true) => os,
        Some(_) => return Err(Refusal::invalid("os_id")),
    };
    let enable_kext = fields.flag("enable_kext")?.unwrap_or(false);
    match world.behaviours.late_reinstall() {
        None => world.reinstall_apple_server(id, os, enable_kext),
        Some(by) => world.after(by, Event::AppleReinstall { id: id.to_owned(), os, enable_kext }),
    }
    Ok(answer(world, id, true))
}
