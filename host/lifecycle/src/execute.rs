//! Carries a checked plan out: bounded parallelism, "not there" is done, every error collected.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::time::Instant;
use windlass_policy::slots::rollback::{Action, Step};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::Patch;
use windlass_scaleway::types::block::{BlockVolume, UpdateBlockVolume};
use windlass_scaleway::types::instance::{
    Ip, PrivateNic, Server, ServerAction, ServerState, UpdateIp, UpdateServer, UpdateVolume, Volume,
};

use crate::failure::{self, AttemptFailure};
use crate::inventory::{Found, Thing};
use crate::journal::ResourceKind;
use crate::run::{Run, Stop};
use crate::tags::{self, Owned};

/// How long a server may take to go or to stop: ten times the longest recorded, 118 s, would be too long to wait for; this
/// is five times it.
const SERVER_GOES: Duration = Duration::from_secs(600);
/// How long a volume may take to leave its server: 6 s is the longest recorded.
const VOLUME_LEAVES: Duration = Duration::from_secs(120);
/// How often a server may come back to a standing state before its deletion is given up.
const SERVER_PASSES: u32 = 5;

/// How one step of a plan ended.
pub(crate) struct StepEnd {
    pub(crate) resource: usize,
    pub(crate) action: Action,
    /// In words, where it failed.
    pub(crate) error: Option<String>,
}

/// Runs the plan. Steps that wait for a failed one are not begun, and say so.
pub(crate) async fn execute(run: &Run, found: &[Found], steps: &[Step]) -> Result<Vec<StepEnd>, Stop> {
    // A server whose local volumes are to stay must not be terminated.
    let keeps_local_volumes = |server: &str| {
        steps.iter().any(|step| {
            step.action == Action::Keep
                && found.get(step.resource as usize).is_some_and(|resource| {
                    resource.name.kind == ResourceKind::LocalVolume && resource.attached_to.as_deref() == Some(server)
                })
        })
    };
    let mut ended: BTreeMap<usize, bool> = BTreeMap::new();
    let mut ends = Vec::new();
    let mut begun = vec![false; steps.len()];
    let mut running = FuturesUnordered::new();
    loop {
        for (position, step) in steps.iter().enumerate() {
            if begun[position]
                || running.len() >= run.shared.limits.parallel_steps
                || !step.after.iter().all(|after| ended.contains_key(&(*after as usize)))
            {
                continue;
            }
            begun[position] = true;
            let index = step.resource as usize;
            let Some(resource) = found.get(index) else {
                continue;
            };
            if step.after.iter().any(|after| ended.get(&(*after as usize)) == Some(&false)) {
                ended.insert(position, false);
                ends.push(StepEnd {
                    resource: index,
                    action: step.action,
                    error: Some("a step that it waits for failed".to_owned()),
                });
                continue;
            }
            let keep_local = keeps_local_volumes(&resource.name.id);
            let action = step.action;
            running.push(async move { (position, index, action, act(run, resource, action, keep_local).await) });
        }
        // A step that was skipped may have been the last that another waited for.
        let Some((position, index, action, result)) = running.next().await else {
            if begun.iter().all(|begun| *begun) || !progress(&begun, steps, &ended) {
                break;
            }
            continue;
        };
        let error = match result {
            Ok(()) => None,
            Err(Stop::Failed(failed)) => Some(format!("{}: {}", failed.step, failure::words(&failed.failure))),
            Err(other) => return Err(other),
        };
        ended.insert(position, error.is_none());
        ends.push(StepEnd { resource: index, action, error });
    }
    Ok(ends)
}

/// Whether some step can begin now.
fn progress(begun: &[bool], steps: &[Step], ended: &BTreeMap<usize, bool>) -> bool {
    steps
        .iter()
        .zip(begun)
        .any(|(step, begun)| !begun && step.after.iter().all(|after| ended.contains_key(&(*after as usize))))
}

async fn act(run: &Run, resource: &Found, action: Action, keep_local: bool) -> Result<(), Stop> {
    let step = format!("{}-{}", verb(action), resource.name.kind);
    run.intend(&step, Some(resource.name.clone()), json!({})).await?;
    match (action, &resource.thing) {
        (Action::Delete, Thing::Server(server)) => delete_server(run, &step, server, keep_local).await?,
        (Action::Delete, Thing::Ip(ip)) => delete_ip(run, &step, ip).await?,
        (Action::Delete, Thing::BlockVolume(volume)) => delete_block_volume(run, &step, volume).await?,
        (Action::Delete, Thing::LocalVolume(volume)) => delete_local_volume(run, &step, volume).await?,
        (Action::Delete | Action::Detach, Thing::PrivateNic(nic)) => delete_private_nic(run, &step, nic).await?,
        (Action::PowerOff, Thing::Server(server)) => power_off(run, &step, server).await?,
        (Action::Detach, Thing::Ip(ip)) => detach_ip(run, &step, ip).await?,
        (Action::Detach, _) => detach_volume(run, &step, resource).await?,
        (Action::Keep, _) => mark_kept(run, &step, &resource.thing).await?,
        (Action::Delete | Action::PowerOff, _) => {
            return Err(Stop::failed(
                &step,
                failure::of_class(
                    FailureClass::InvalidArguments,
                    "this resource does not carry the owner tag, or cannot be treated so",
                ),
            ));
        }
    }
    run.conclude(&step, Some(resource.name.clone()), json!({})).await
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Delete => "delete",
        Action::Detach => "detach",
        Action::PowerOff => "power-off",
        Action::Keep => "keep",
    }
}

/// "Not there" is what a deletion wants.
#[expect(clippy::result_large_err, reason = "the retry slot takes the failure whole, once per failed attempt")]
fn gone_is_done<T>(result: Result<T, windlass_scaleway::Error>) -> Result<(), AttemptFailure> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What was told to a server, or why nothing had to be.
enum Told {
    Gone,
    /// It goes away by itself now.
    Going,
    /// It stops now, and needs another look then.
    Stopping,
}

/// Reads the server again, and the proof with it. `None`: there is none.
async fn read_again(run: &Run, id: &str) -> Result<Option<Owned<Server>>, AttemptFailure> {
    match run.shared.client.instance(&run.zone).get_server(id).await {
        Ok(server) => match Owned::by_tag(server, &run.shared.owner) {
            Some(owned) => Ok(Some(owned)),
            None => Err(failure::of_class(
                FailureClass::PreconditionFailed,
                format!("server {id} no longer carries the owner tag, so it is left alone"),
            )
            .into()),
        },
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Tells a server what its state asks for.
async fn tell_to_go(run: &Run, server: &Owned<Server>, keep_local: bool) -> Result<Told, AttemptFailure> {
    let server = server.get();
    let instance = run.shared.client.instance(&run.zone);
    if server.state_detail == "terminating" {
        return Ok(Told::Going);
    }
    match &server.state {
        ServerState::Running | ServerState::StoppedInPlace => {
            let action = if keep_local { ServerAction::PowerOff } else { ServerAction::Terminate };
            match instance.server_action(&server.id, action).await {
                Ok(_) if keep_local => Ok(Told::Stopping),
                Ok(_) => Ok(Told::Going),
                // Gone, or a wrong answer: the look that follows tells.
                Err(error) if error.is_not_found() => Ok(Told::Going),
                Err(error) => Err(error.into()),
            }
        }
        ServerState::Stopped => match instance.delete_server(&server.id).await {
            Ok(()) => Ok(Told::Going),
            Err(error) if error.is_not_found() => Ok(Told::Going),
            Err(error) => Err(error.into()),
        },
        ServerState::Locked => Err(failure::of_class(
            FailureClass::Locked,
            format!("server {} is locked by Scaleway and cannot be deleted; its support can unlock it", server.id),
        )
        .into()),
        // Starting, stopping, or a word we don't know: it will stand in a state that can be left.
        _ => Ok(Told::Stopping),
    }
}

/// Deletes a server from whatever state it is in.
///
/// Scaleway knows two ways (recorded): `terminate` takes a running server together with its local volumes, DELETE takes
/// a stopped one and leaves them; the plan then deletes these after it.
async fn delete_server(run: &Run, step: &str, server: &Owned<Server>, keep_local: bool) -> Result<(), Stop> {
    let id = server.get().id.clone();
    let deadline = Instant::now() + SERVER_GOES;
    let mut latest = Some(server.clone());
    for _ in 0..SERVER_PASSES {
        let id = &id;
        let first = latest.take();
        let told = run
            .attempt(step, |attempt| {
                let known = first.clone().filter(|_| attempt == 1);
                async move {
                    let server = match known {
                        Some(server) => server,
                        None => match read_again(run, id).await? {
                            Some(server) => server,
                            None => return Ok(Told::Gone),
                        },
                    };
                    tell_to_go(run, &server, keep_local).await
                }
            })
            .await?;
        let going = match told {
            Told::Gone => return Ok(()),
            Told::Going => true,
            Told::Stopping => false,
        };
        let mut looks = 0_u32;
        let gone = run
            .shared
            .poller
            .wait(run, step, id, deadline, |server| {
                let Some(server) = server else {
                    return Some(Ok(true));
                };
                looks += 1;
                match server.state {
                    ServerState::Stopped | ServerState::Locked => Some(Ok(false)),
                    // Told to go, and it still stands there after a while: tell it again.
                    ServerState::Running | ServerState::StoppedInPlace if !going || looks > 3 => Some(Ok(false)),
                    _ => None,
                }
            })
            .await?;
        if gone {
            return Ok(());
        }
    }
    Err(Stop::failed(
        step,
        failure::of_class(
            FailureClass::Other,
            format!("server {id} came back to a standing state {SERVER_PASSES} times after it was told to go"),
        ),
    ))
}

async fn power_off(run: &Run, step: &str, server: &Owned<Server>) -> Result<(), Stop> {
    let id = &server.get().id;
    let deadline = Instant::now() + SERVER_GOES;
    run.attempt(step, |_| async move {
        let Some(server) = read_again(run, id).await? else {
            return Ok(());
        };
        if server.get().state != ServerState::Running {
            return Ok(());
        }
        let instance = run.shared.client.instance(&run.zone);
        gone_is_done(instance.server_action(id, ServerAction::PowerOff).await)
    })
    .await?;
    run.shared
        .poller
        .wait(run, step, id, deadline, |server| match server {
            None => Some(Ok(())),
            Some(server) => match server.state {
                ServerState::Stopped | ServerState::StoppedInPlace => Some(Ok(())),
                ServerState::Locked => Some(Err(failure::of_class(
                    FailureClass::Locked,
                    format!("server {} is locked by Scaleway", server.id),
                ))),
                _ => None,
            },
        })
        .await
}

async fn delete_ip(run: &Run, step: &str, ip: &Owned<Ip>) -> Result<(), Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &ip.get().id;
    run.attempt(step, |_| async move { gone_is_done(instance.delete_ip(id).await) }).await
}

async fn detach_ip(run: &Run, step: &str, ip: &Owned<Ip>) -> Result<(), Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &ip.get().id;
    run.attempt(step, |_| async move {
        let update = UpdateIp { server: Patch::Clear, ..UpdateIp::default() };
        gone_is_done(instance.update_ip(id, &update).await)
    })
    .await
}

/// Deletes a Block Storage volume, when it has left its server.
async fn delete_block_volume(run: &Run, step: &str, volume: &Owned<BlockVolume>) -> Result<(), Stop> {
    let block = &run.shared.client.block(&run.zone);
    let id = &volume.get().id;
    let deadline = Instant::now() + VOLUME_LEAVES;
    run.attempt(step, |_| async move {
        loop {
            // Which error the deletion of a volume in use gets is not recorded, so it is not tried.
            match block.get_volume(id).await {
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(AttemptFailure::from(error)),
                Ok(volume) if volume.references.is_empty() => break,
                Ok(_) if Instant::now() >= deadline => break,
                Ok(_) => run.pause(run.shared.limits.poll_interval).await?,
            }
        }
        gone_is_done(block.delete_volume(id).await)
    })
    .await
}

async fn delete_local_volume(run: &Run, step: &str, volume: &Owned<Volume>) -> Result<(), Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &volume.get().id;
    run.attempt(step, |_| async move { gone_is_done(instance.delete_volume(id).await) }).await
}

/// Detaching a NIC is deleting it: it has no life of its own.
async fn delete_private_nic(run: &Run, step: &str, nic: &Owned<PrivateNic>) -> Result<(), Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let (server, id) = (&nic.get().server_id, &nic.get().id);
    run.attempt(step, |_| async move { gone_is_done(instance.delete_private_nic(server, id).await) }).await
}

/// Volumes, ours or not, and addresses that are not ours.
async fn detach_volume(run: &Run, step: &str, resource: &Found) -> Result<(), Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let Some(server) = resource.attached_to.as_deref() else {
        return Ok(());
    };
    let id = resource.name.id.as_str();
    run.attempt(step, |_| async move {
        match instance.detach_server_volume(server, id).await {
            // Already apart (recorded: "Volume <id> is not attached to this server").
            Err(error) if error.body().is_some_and(|body| body.contains("not attached")) => Ok(()),
            other => gone_is_done(other),
        }
    })
    .await
}

/// Marks what stays on purpose. What is not ours is not touched.
async fn mark_kept(run: &Run, step: &str, thing: &Thing) -> Result<(), Stop> {
    let marked = |tags: &[String]| {
        let mut tags = tags.to_vec();
        if !tags::is_kept(&tags) {
            tags.push(tags::KEPT.to_owned());
        }
        tags
    };
    let with_ours = |tags: &[String]| {
        let mut tags = marked(tags);
        for tag in tags::all(&run.shared.owner, &run.group, &run.id) {
            if !tags.iter().any(|other| tags::same_key(other, &tag)) {
                tags.push(tag);
            }
        }
        tags
    };
    let instance = &run.shared.client.instance(&run.zone);
    let block = &run.shared.client.block(&run.zone);
    match thing {
        Thing::Server(server) => {
            let server = server.get();
            let update = &UpdateServer { tags: Some(marked(&server.tags)), ..UpdateServer::default() };
            run.attempt(step, |_| async move { gone_is_done(instance.update_server(&server.id, update).await) }).await
        }
        Thing::Ip(ip) => {
            let ip = ip.get();
            let update = &UpdateIp { tags: Some(marked(&ip.tags)), ..UpdateIp::default() };
            run.attempt(step, |_| async move { gone_is_done(instance.update_ip(&ip.id, update).await) }).await
        }
        Thing::BlockVolume(volume) => {
            let volume = volume.get();
            let update = &UpdateBlockVolume { tags: Some(with_ours(&volume.tags)), ..UpdateBlockVolume::default() };
            run.attempt(step, |_| async move { gone_is_done(block.update_volume(&volume.id, update).await) }).await
        }
        Thing::LocalVolume(volume) => {
            let volume = volume.get();
            let update = &UpdateVolume { tags: Some(with_ours(&volume.tags)), ..UpdateVolume::default() };
            run.attempt(step, |_| async move { gone_is_done(instance.update_volume(&volume.id, update).await) }).await
        }
        // A NIC stays with its server, which carries the mark; what is foreign gets none.
        Thing::PrivateNic(_) | Thing::Foreign => Ok(()),
    }
}
