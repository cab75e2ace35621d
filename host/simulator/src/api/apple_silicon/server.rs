//! `/servers` of Apple silicon.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Outcome, catalogue};
use crate::answer::Answer;
use crate::api::{fits, within};
use crate::call::Call;
use crate::clock::{Micros, go_date, micros, zulu_date};
use crate::options::Availability;
use crate::paging;
use crate::refusal::Refusal;
use crate::world::{AppleServer, AppleStatus, Commitment, Event, World, sorted};

/// What stands where a secret would in every answer but that of GET (recorded).
const SEALED: &str = "<sealed>";
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

pub(crate) fn show(world: &World, server: &AppleServer, sealed: bool) -> Value {
    let (password, vnc_url) = if sealed {
        (SEALED.to_owned(), SEALED.to_owned())
    } else {
        (server.password.clone(), format!("vnc://m1:{}@{}:59010", server.password, server.ip))
    };
    json!({
        "id": server.id,
        "type": server.server_type,
        "name": server.name,
        "project_id": server.project,
        "organization_id": server.organization,
        "ip": server.ip,
        "vnc_url": vnc_url,
        "ssh_username": "m1",
        "sudo_password": password,
        "vnc_port": 59010,
        "os": catalogue::os_of_server(world, &server.os),
        "status": server.status.as_str(),
        "created_at": zulu_date(server.created),
        "updated_at": zulu_date(server.updated),
        "deletable_at": zulu_date(server.deletable),
        "deletion_scheduled": server.deletion_scheduled,
        "zone": server.zone,
        "delivered": server.delivered,
        "vpc_status": if server.enable_vpc { "vpc_enabled" } else { "vpc_disabled" },
        "commitment": {"type": server.commitment.as_str(), "cancelled": false},
        "public_bandwidth_bps": server.public_bandwidth_bps,
        "runner_configuration": null,
        "tags": [],
        "applied_runner_configuration_ids": [],
    })
}

fn answer(world: &World, id: &str, sealed: bool) -> Answer {
    Answer::ok(&world.apple_servers.get(id).map(|server| show(world, server, sealed)).into())
}

pub(super) fn list(world: &World, call: &Call, zone: &str) -> Outcome {
    let newest_first = match call.parameter("order_by") {
        None | Some("created_at_asc") => false,
        Some("created_at_desc") => true,
        Some(_) => return Err(Refusal::invalid("order_by")),
    };
    let servers = world.apple_servers.values().filter(|server| {
        server.zone == zone
            && fits(call.parameter("project_id"), &server.project)
            && fits(call.parameter("organization_id"), &server.organization)
    });
    let servers = sorted(servers, newest_first, |server| server.created);
    // Assumption: whether a list seals the passwords was not recorded; the simulator does.
    paging::newer_list(call, "servers", servers.into_iter().map(|server| show(world, server, true)).collect())
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
        None => catalogue::default_os(world, &server_type),
        Some(id) => match catalogue::runs_on(world, &id, &server_type) {
            Some(true) => id,
            Some(false) => return Err(Refusal::invalid("os_id")),
            None => return Err(Refusal::not_found("os", &id)),
        },
    };
    let commitment = match fields.text("commitment_type")?.as_deref() {
        None => Commitment::Duration24h,
        Some(text) => Commitment::parse(text).ok_or_else(|| Refusal::invalid("commitment_type"))?,
    };
    let (enable_vpc, enable_kext) = (fields.flag("enable_vpc")?, fields.flag("enable_kext")?);
    let name = fields.text("name")?;
    let project = fields.text("project_id")?.unwrap_or_else(|| world.options.default_project.clone());
    within(world.options.quotas.apple_silicon_servers, "AppleSiliconServers", world.apple_servers.len())?;
    if world.stock.get(&server_type) == Some(&Availability::Shortage) {
        return Err(Refusal::out_of_stock("server"));
    }
    let id = world.random.id();
    let ip = world.random.ipv4().to_string();
    let password = world.random.id()[..8].to_owned();
    let created = world.stamp();
    // Assumption: a customer's server can be deleted 24 hours after its creation; the recorded organization was exempt
    // and its commitment came back as `none` although 24 hours were asked for.
    let floor = world.options.apple_silicon_commitment;
    let commitment =
        if floor.is_zero() && commitment == Commitment::Duration24h { Commitment::None } else { commitment };
    let server = AppleServer {
        id: id.clone(),
        zone: zone.to_owned(),
        name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("as-{}", &id[..8])),
        server_type,
        os,
        organization: world.organization_of(&project),
        project,
        ip,
        password,
        status: AppleStatus::Starting,
        delivered: false,
        enable_vpc: enable_vpc.unwrap_or(false),
        enable_kext: enable_kext.unwrap_or(false),
        commitment,
        public_bandwidth_bps: bandwidth,
        created,
        updated: created,
        deletable: created.saturating_add(micros(floor)),
        deletion_scheduled: false,
        turn: 0,
        deletion_turn: 0,
    };
    world.apple_servers.insert(id.clone(), server);
    let delay = world.options.durations.apple_silicon_create;
    world.after(delay, Event::AppleReady { id: id.clone(), turn: 0 });
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
            Some(Commitment::parse(&text).ok_or_else(|| Refusal::invalid("commitment_type"))?)
        }
    };
    let (name, enable_vpc) = (fields.text("name")?, fields.flag("enable_vpc")?);
    let schedule = fields.flag("schedule_deletion")?;
    let now = world.now();
    let stamp = world.stamp();
    let mut goes: Option<(Micros, u64)> = None;
    if let Some(server) = world.apple_servers.get_mut(id) {
        server.updated = stamp;
        server.name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| server.name.clone());
        server.enable_vpc = enable_vpc.unwrap_or(server.enable_vpc);
        server.public_bandwidth_bps = bandwidth.unwrap_or(server.public_bandwidth_bps);
        if let Some(commitment) = commitment {
            server.commitment = commitment;
            if commitment == Commitment::RenewedMonthly {
                server.deletable = stamp.saturating_add(micros(MONTH));
            }
        }
        if let Some(schedule) = schedule {
            // Assumption: the SDK says "automatic deletion depending on deletable_at date"; nothing was recorded.
            server.deletion_scheduled = schedule;
            server.deletion_turn += 1;
            goes = schedule.then_some((server.deletable.max(now), server.deletion_turn));
        }
    }
    let shown = answer(world, id, true);
    if let Some((at, turn)) = goes {
        world.agenda.add(at, Event::AppleDeletion { id: id.to_owned(), turn });
    }
    Ok(shown)
}

pub(super) fn delete(world: &mut World, zone: &str, id: &str) -> Outcome {
    let server = find(world, zone, id, "delete")?;
    if world.now() < server.deletable {
        // Recorded, with these words.
        let help = format!("this server cannot be deleted before {}", go_date(server.deletable));
        return Err(Refusal::precondition(StatusCode::PRECONDITION_FAILED, "unknown_precondition", &help));
    }
    world.apple_servers.remove(id);
    Ok(Answer::no_content())
}

fn begin(world: &mut World, id: &str, status: AppleStatus, duration: std::time::Duration) {
    let stamp = world.stamp();
    let Some(server) = world.apple_servers.get_mut(id) else { return };
    server.turn += 1;
    server.status = status;
    server.updated = stamp;
    let turn = server.turn;
    world.after(duration, Event::AppleReady { id: id.to_owned(), turn });
}

/// Assumption: while a server is busy with something else it answers `transient_state`; no recording shows the attempt.
fn ready(world: &World, zone: &str, id: &str) -> Result<(), Refusal> {
    let server = find(world, zone, id, "write")?;
    match server.status {
        AppleStatus::Ready => Ok(()),
        busy => Err(Refusal::transient_state("server", id, busy.as_str())),
    }
}

pub(super) fn reboot(world: &mut World, zone: &str, id: &str) -> Outcome {
    ready(world, zone, id)?;
    begin(world, id, AppleStatus::Rebooting, world.options.durations.apple_silicon_reboot);
    Ok(answer(world, id, true))
}

// Assumption: `reinstall` was never recorded; by the SDK it answers the server.
pub(super) fn reinstall(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    ready(world, zone, id)?;
    let kind = find(world, zone, id, "write")?.server_type.clone();
    let fields = call.fields()?;
    let os = match fields.text("os_id")?.filter(|id| !id.is_empty()) {
        None => catalogue::default_os(world, &kind),
        Some(os) if catalogue::runs_on(world, &os, &kind) == Some(true) => os,
        Some(_) => return Err(Refusal::invalid("os_id")),
    };
    let enable_kext = fields.flag("enable_kext")?.unwrap_or(false);
    let password = world.random.id()[..8].to_owned();
    if let Some(server) = world.apple_servers.get_mut(id) {
        server.os = os;
        server.enable_kext = enable_kext;
        server.password = password;
    }
    begin(world, id, AppleStatus::Reinstalling, world.options.durations.apple_silicon_reinstall);
    Ok(answer(world, id, true))
}
