//! `/servers/{id}/action`: what moves a server from state to state.

use http::StatusCode;
use serde_json::json;
use windlass_scaleway::types::instance::ServerAction;

use super::checks::precondition;
use super::server;
use crate::answer::Answer;
use crate::api::endpoint::Outcome;
use crate::call::Call;
use crate::clock::offset_date;
use crate::offer::Boot;
use crate::options::Availability;
use crate::refusal::Refusal;
use crate::world::{Event, Image, Phase, RootVolume, ServerState, VolumeKind, World};

const SHOULD_BE_STOPPED: &str = "server should be stopped";
const SHOULD_BE_RUNNING: &str = "server should be running";

pub(super) fn list(world: &World, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    Ok(Answer::ok(&json!({"actions": server.allowed_actions()})))
}

pub(super) fn perform(world: &mut World, call: &Call, zone: &str, id: &str) -> Outcome {
    let server = server::find(world, zone, id)?;
    let state = server.state;
    let protected = server.protected;
    let fields = call.fields()?;
    let action = fields.required_text("action")?;
    if state == ServerState::Locked {
        // Assumption: no action on a locked server was ever recorded.
        return Err(Refusal::locked("instance_server", id));
    }
    let action = ServerAction::from(action);
    let stops = matches!(
        action,
        ServerAction::PowerOff | ServerAction::StopInPlace | ServerAction::Reboot | ServerAction::Terminate
    );
    if protected && stops {
        // Measured by others in fr-par-1: each of the four is answered 400. The body is assumed; the precondition's
        // name is real.
        return Err(precondition(world, "protected_resource", "server is protected"));
    }
    let mut result = format!("/servers/{id}");
    match action {
        ServerAction::PowerOn => power_on(world, id, state)?,
        ServerAction::PowerOff => {
            require_running(world, state)?;
            stop(world, id, "stopping", world.options.durations.power_off, Phase::Stopped);
        }
        ServerAction::StopInPlace => {
            // Listed among the allowed actions of a starting server, too (recorded 174 times).
            if !matches!(state, ServerState::Running | ServerState::Starting) {
                return Err(precondition(world, "resource_not_usable", SHOULD_BE_RUNNING));
            }
            stop(world, id, "stopping in place", world.options.durations.stop_in_place, Phase::StoppedInPlace);
        }
        ServerAction::Reboot => {
            require_running(world, state)?;
            let duration = world.options.durations.reboot;
            let phases = vec![(duration / 2, Phase::RestartingAfterReboot), (duration, Phase::Running)];
            world.begin(id, ServerState::Stopping, "rebooting", phases);
        }
        ServerAction::Terminate => {
            require_running(world, state)?;
            stop(world, id, "terminating", world.options.durations.terminate, Phase::Gone);
            // Recorded: a terminating server shows no flexible IP any more.
            if let Some(server) = world.servers.get_mut(id) {
                server.public_ips.clear();
            }
        }
        ServerAction::Backup => {
            if !matches!(state, ServerState::Stopped | ServerState::Running | ServerState::StoppedInPlace) {
                return Err(Refusal::transient_state("instance_server", id, state.as_str()));
            }
            result = format!("/images/{}", backup(world, id, fields.text("name")?));
        }
        // Every server has routed IPs by now.
        ServerAction::EnableRoutedIp => {}
        _ => return Err(Refusal::invalid("action")),
    }
    // With a duration of zero the phases are due already; the answer's next reader sees them.
    let started = offset_date(world.now());
    let task = json!({"task": {
        "id": "00000000-0000-0000-0000-000000000000",
        "description": "fake task",
        "status": "pending",
        "href_from": format!("/servers/{id}/action"),
        "href_result": result,
        "started_at": started,
        "terminated_at": null,
        "progress": 0,
        "zone": zone,
    }});
    Ok(Answer::json(StatusCode::ACCEPTED, &task))
}

fn require_running(world: &World, state: ServerState) -> Result<(), Refusal> {
    match state {
        ServerState::Running | ServerState::StoppedInPlace => Ok(()),
        // Real from a stopped server in the old shape; the current shape is assumed to be that of "should be stopped".
        _ => Err(precondition(world, "resource_not_usable", SHOULD_BE_RUNNING)),
    }
}

fn stop(world: &mut World, id: &str, detail: &str, duration: std::time::Duration, end: Phase) {
    world.begin(id, ServerState::Stopping, detail, vec![(duration, end)]);
}

fn power_on(world: &mut World, id: &str, state: ServerState) -> Result<(), Refusal> {
    let Some(server) = world.servers.get(id) else { return Ok(()) };
    let (zone, server_type) = (server.zone.clone(), server.commercial_type.clone());
    let has_local_volumes = server.has_local_volumes();
    match state {
        ServerState::Stopped => {
            if world.availability(&zone, &server_type) == Availability::Shortage {
                // Assumption: the Instance API's name for the resource; its `out_of_stock` was never recorded.
                return Err(Refusal::out_of_stock("instance_server"));
            }
            let Boot { duration, slowdown, fails } = world.draw_boot(&zone, &server_type, |offer| offer.boot);
            let durations = world.options.durations;
            let provision = if has_local_volumes { durations.provision } else { std::time::Duration::ZERO };
            let running = duration.unwrap_or(durations.power_on + provision).mul_f64(slowdown);
            // What is not the filling of volumes.
            let node = match duration {
                Some(_) => running,
                None => durations.power_on.mul_f64(slowdown),
            };
            let allocated = node / 2;
            // Recorded: servers with local volumes are seen long in "provisioning node"; once: others pass through it,
            // too.
            let provisioning = if has_local_volumes { allocated } else { node - node / 4 };
            let mut phases = vec![(provisioning, Phase::Provisioning)];
            if fails {
                // Assumption: what a server is whose start fails was not recorded. There is no state of errors.
                phases.push((running, Phase::Stopped));
                world.give_dynamic_ip(id);
                world.begin(id, ServerState::Starting, "allocating node", phases);
                return Ok(());
            }
            phases.push((running, Phase::Running));
            // Assumption: a dynamic IP is seen `pending` on a running server (recorded) and attached a little later.
            phases.push((running + allocated, Phase::DynamicIpAttached));
            world.give_dynamic_ip(id);
            world.begin(id, ServerState::Starting, "allocating node", phases);
            Ok(())
        }
        ServerState::StoppedInPlace => {
            let duration = world.options.durations.power_on;
            // Recorded: the server keeps its place and the detail "stopped in place" until it runs.
            world.begin(id, ServerState::Starting, "stopped in place", vec![(duration, Phase::Running)]);
            Ok(())
        }
        _ => Err(precondition(world, "resource_not_usable", SHOULD_BE_STOPPED)),
    }
}

/// Makes an image of the server's first volume.
fn backup(world: &mut World, id: &str, name: Option<String>) -> String {
    let image_id = world.random.id();
    let snapshot = world.random.id();
    let now = world.stamp();
    let Some(server) = world.servers.get(id).cloned() else { return image_id };
    let name = name.unwrap_or_else(|| format!("{}-backup", server.name));
    let root = match server.volumes.values().next() {
        Some(volume) if volume.kind == VolumeKind::Local => {
            let size = world.volumes.get(&volume.id).map_or(0, |volume| volume.size);
            super::volume::add_snapshot(world, &snapshot, &server.zone, &volume.id, &name, Vec::new());
            RootVolume::Local { snapshot, name: name.clone(), size }
        }
        volume => {
            let parent = volume.map(|volume| volume.id.clone());
            let size = parent.as_ref().and_then(|id| world.block_volumes.get(id)).map_or(0, |volume| volume.size);
            crate::api::block::add_snapshot(world, &snapshot, &server.zone, parent, &name, &server.project, Vec::new());
            RootVolume::Block { snapshot, size }
        }
    };
    let image = Image {
        id: image_id.clone(),
        zone: server.zone,
        name,
        arch: server.arch.to_owned(),
        organization: server.organization,
        project: server.project,
        public: false,
        root,
        from_server: server.id,
        state: "creating",
        tags: Vec::new(),
        created: now,
        modified: now,
    };
    world.images.insert(image_id.clone(), image);
    let delay = world.options.durations.snapshot;
    world.after(delay, Event::ImageReady { id: image_id.clone() });
    image_id
}
