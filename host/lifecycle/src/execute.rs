//! Carries a checked plan out: bounded parallelism, "not there" is done, every error collected.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};
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
use crate::journal::note::Note;
use crate::journal::step;
use crate::ownership::{Claims, Owned, volume_kind};
use crate::run::Run;
use crate::stop::Stop;
use crate::tags;

/// How long a server may take to go or to stop: ten times the longest recorded, 118 s, would be too long to wait for;
/// this is five times it.
const SERVER_GOES: Duration = Duration::from_secs(600);
/// How long a volume may take to leave its server: 6 s is the longest recorded.
const VOLUME_LEAVES: Duration = Duration::from_secs(120);
/// How often a server may come back to a standing state before its deletion is given up.
const SERVER_PASSES: u32 = 5;

/// How one step of a plan ended.
pub(crate) struct StepEnd {
    pub(crate) resource: usize,
    pub(crate) action: Action,
    pub(crate) end: End,
}

/// See [`StepEnd`].
#[derive(Debug)]
pub(crate) enum End {
    Done,
    /// It was no longer ours when its turn came, so it was left alone.
    NotOurs,
    /// In words.
    Failed(String),
}

/// Whether a resource was still ours when it was read again, right before the change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Made,
    NotOurs,
}

/// Runs the plan. Steps that wait for a failed one are not begun, and say so.
pub(crate) async fn execute(run: &Run, claims: &Claims, found: &[Found], steps: &[Step]) -> Result<Vec<StepEnd>, Stop> {
    // Only these may go with their server. Any other local disk on it, kept or somebody's, forbids to terminate it.
    let local_going: BTreeSet<&str> = steps
        .iter()
        .filter(|step| step.action == Action::Delete)
        .filter_map(|step| found.get(step.resource as usize))
        .filter(|resource| resource.name.kind == ResourceKind::LocalVolume && resource.owned())
        .map(|resource| resource.name.id.as_str())
        .collect();
    let local_going = &local_going;
    let mut stands = vec![Stand::Waiting; steps.len()];
    let mut ends = Vec::new();
    let mut running = FuturesUnordered::new();
    loop {
        // Again after each skipped step: it may have been the last that another waited for.
        loop {
            let skipped = begin_or_skip(steps, &mut stands, |position, step| {
                if running.len() >= run.shared.limits.parallel_steps.max(1) {
                    return false;
                }
                if let Some(resource) = found.get(step.resource as usize) {
                    // Once a step has ended, time has passed since everything was looked at.
                    let end = act(run, claims, resource, step.action, local_going, ends.is_empty());
                    running.push(async move { (position, end.await) });
                }
                true
            });
            let Some(position) = skipped else { break };
            let end = End::Failed("a step that it waits for failed".to_owned());
            ends.push(StepEnd { resource: steps[position].resource as usize, action: steps[position].action, end });
        }
        // What then still waits, waits in a circle, which no checked plan has.
        let Some((position, result)) = running.next().await else {
            return Ok(ends);
        };
        let end = match result {
            Ok(Change::Made) => End::Done,
            Ok(Change::NotOurs) => End::NotOurs,
            Err(Stop::Failed(failed)) => End::Failed(format!("{}: {}", failed.step, failure::words(&failed.failure))),
            Err(other) => return Err(other),
        };
        stands[position] = if matches!(end, End::Done) { Stand::Done } else { Stand::Failed };
        ends.push(StepEnd { resource: steps[position].resource as usize, action: steps[position].action, end });
    }
}

/// Where a step of a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Waiting,
    Running,
    Done,
    Failed,
}

/// Begins the steps whose predecessors are all done, as far as `begin` takes them. The first one that waits for a
/// failed step is skipped, which counts as failed, and given back.
fn begin_or_skip(steps: &[Step], stands: &mut [Stand], mut begin: impl FnMut(usize, &Step) -> bool) -> Option<usize> {
    for (position, step) in steps.iter().enumerate() {
        if stands[position] != Stand::Waiting {
            continue;
        }
        let before = |stand| step.after.iter().filter_map(|after| stands.get(*after as usize)).any(|&it| it == stand);
        if before(Stand::Waiting) || before(Stand::Running) {
            continue;
        }
        if before(Stand::Failed) {
            stands[position] = Stand::Failed;
            return Some(position);
        }
        if begin(position, step) {
            stands[position] = Stand::Running;
        }
    }
    None
}

async fn act(
    run: &Run,
    claims: &Claims,
    resource: &Found,
    action: Action,
    local_going: &BTreeSet<&str>,
    just_read: bool,
) -> Result<Change, Stop> {
    let step = step::Step::Plan(action, resource.name.kind).word();
    run.intend(&step, Some(resource.name.clone()), json!({})).await?;
    // Several of one name run at once: this is the one that has just begun.
    let span = run.trace.find(&step).unwrap_or_else(Span::none);
    change(run, claims, resource, action, &step, local_going, just_read).instrument(span).await
}

async fn change(
    run: &Run,
    claims: &Claims,
    resource: &Found,
    action: Action,
    step: &str,
    local_going: &BTreeSet<&str>,
    just_read: bool,
) -> Result<Change, Stop> {
    let change = match (action, &resource.thing) {
        (Action::Delete, Thing::Server(server)) => {
            delete_server(run, claims, step, server, local_going, just_read).await?
        }
        (Action::Delete, Thing::Ip(ip)) => delete_ip(run, claims, step, ip).await?,
        (Action::Delete, Thing::BlockVolume(volume)) => delete_block_volume(run, claims, step, volume).await?,
        (Action::Delete, Thing::LocalVolume(volume)) => delete_local_volume(run, claims, step, volume).await?,
        (Action::Delete | Action::Detach, Thing::PrivateNic(nic)) => delete_private_nic(run, claims, step, nic).await?,
        (Action::PowerOff, Thing::Server(server)) => power_off(run, claims, step, server).await?,
        (Action::Detach, Thing::Ip(ip)) => detach_ip(run, claims, step, ip).await?,
        (Action::Detach, Thing::Attached(server)) => {
            detach_volume(run, step, &server.get().id, &resource.name.id).await?
        }
        (Action::Detach, Thing::BlockVolume(_) | Thing::LocalVolume(_)) => match &resource.attached_to {
            Some(server) => detach_volume(run, step, server, &resource.name.id).await?,
            None => Change::Made,
        },
        (Action::Keep, thing) => mark_kept(run, step, thing).await?,
        (Action::Delete | Action::PowerOff | Action::Detach, _) => {
            return Err(Stop::failed(
                step,
                failure::of_class(
                    FailureClass::InvalidArguments,
                    "this resource is not proven ours, or cannot be treated so",
                ),
            ));
        }
    };
    match change {
        Change::Made => run.conclude(step, Some(resource.name.clone()), json!({})).await?,
        Change::NotOurs => {
            tracing::warn!(operation = %run.id, step, resource = %resource.name, "it is no longer ours: left alone");
            run.note(Note::LeftAlone, Some(resource.name.clone())).await?;
        }
    }
    Ok(change)
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
    /// Nothing: it is no longer ours.
    NotOurs,
    /// It goes away by itself now.
    Going,
    /// It stops now, and needs another look then.
    Stopping,
}

/// What reading something again right before its change told.
enum Again<T> {
    Gone,
    NotOurs,
    Ours(T),
}

/// Reads something again, and the proof with it.
#[expect(clippy::result_large_err, reason = "the retry slot takes the failure whole, once per failed attempt")]
fn again<T, O>(
    read: Result<T, windlass_scaleway::Error>,
    prove: impl FnOnce(T) -> Option<Owned<O>>,
) -> Result<Again<Owned<O>>, AttemptFailure> {
    match read {
        Ok(resource) => Ok(prove(resource).map_or(Again::NotOurs, Again::Ours)),
        Err(error) if error.is_not_found() => Ok(Again::Gone),
        Err(error) => Err(error.into()),
    }
}

async fn server_again(run: &Run, claims: &Claims, id: &str) -> Result<Again<Owned<Server>>, AttemptFailure> {
    again(run.shared.client.instance(&run.zone).get_server(id).await, |server| claims.server(server))
}

/// Tells a server what its state asks for.
async fn tell_to_go(run: &Run, server: &Owned<Server>, local_going: &BTreeSet<&str>) -> Result<Told, AttemptFailure> {
    let server = server.get();
    let keep_local = server.volumes.values().any(|volume| {
        volume_kind(&volume.volume_type) == ResourceKind::LocalVolume && !local_going.contains(volume.id.as_str())
    });
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
/// a stopped one and leaves them; the plan then deletes these after it. So a server that holds a local volume that is
/// to stay is stopped and deleted. What is attached to it is told by the server as it is now: it is read again unless
/// it was `just_read`.
async fn delete_server(
    run: &Run,
    claims: &Claims,
    step: &str,
    server: &Owned<Server>,
    local_going: &BTreeSet<&str>,
    just_read: bool,
) -> Result<Change, Stop> {
    let id = server.get().id.clone();
    let deadline = Instant::now() + SERVER_GOES;
    let mut latest = just_read.then(|| server.clone());
    for _ in 0..SERVER_PASSES {
        let id = &id;
        let first = latest.take();
        let told = run
            .attempt(step, |attempt| {
                let known = first.clone().filter(|_| attempt == 1);
                async move {
                    let server = match known {
                        Some(server) => server,
                        None => match server_again(run, claims, id).await? {
                            Again::Ours(server) => server,
                            Again::NotOurs => return Ok(Told::NotOurs),
                            Again::Gone => return Ok(Told::Gone),
                        },
                    };
                    tell_to_go(run, &server, local_going).await
                }
            })
            .await?;
        let going = match told {
            Told::Gone => return Ok(Change::Made),
            Told::NotOurs => return Ok(Change::NotOurs),
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
            return Ok(Change::Made);
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

async fn power_off(run: &Run, claims: &Claims, step: &str, server: &Owned<Server>) -> Result<Change, Stop> {
    let id = &server.get().id;
    let deadline = Instant::now() + SERVER_GOES;
    let change = run
        .attempt(step, |_| async move {
            let server = match server_again(run, claims, id).await? {
                Again::Ours(server) => server,
                Again::NotOurs => return Ok(Change::NotOurs),
                Again::Gone => return Ok(Change::Made),
            };
            if server.get().state != ServerState::Running {
                return Ok(Change::Made);
            }
            let instance = run.shared.client.instance(&run.zone);
            gone_is_done(instance.server_action(id, ServerAction::PowerOff).await).map(|()| Change::Made)
        })
        .await?;
    if change == Change::NotOurs {
        return Ok(change);
    }
    run.shared
        .poller
        .wait(run, step, id, deadline, |server| match server {
            None => Some(Ok(Change::Made)),
            Some(server) => match server.state {
                ServerState::Stopped | ServerState::StoppedInPlace => Some(Ok(Change::Made)),
                ServerState::Locked => Some(Err(failure::of_class(
                    FailureClass::Locked,
                    format!("server {} is locked by Scaleway", server.id),
                ))),
                _ => None,
            },
        })
        .await
}

async fn delete_ip(run: &Run, claims: &Claims, step: &str, ip: &Owned<Ip>) -> Result<Change, Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &ip.get().id;
    run.attempt(step, |_| async move {
        match again(instance.get_ip(id).await, |ip| claims.ip(ip))? {
            Again::Gone => Ok(Change::Made),
            Again::NotOurs => Ok(Change::NotOurs),
            Again::Ours(_) => gone_is_done(instance.delete_ip(id).await).map(|()| Change::Made),
        }
    })
    .await
}

async fn detach_ip(run: &Run, claims: &Claims, step: &str, ip: &Owned<Ip>) -> Result<Change, Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &ip.get().id;
    run.attempt(step, |_| async move {
        match again(instance.get_ip(id).await, |ip| claims.ip(ip))? {
            Again::Gone => Ok(Change::Made),
            Again::NotOurs => Ok(Change::NotOurs),
            Again::Ours(_) => {
                let update = UpdateIp { server: Patch::Clear, ..UpdateIp::default() };
                gone_is_done(instance.update_ip(id, &update).await).map(|()| Change::Made)
            }
        }
    })
    .await
}

/// Deletes a Block Storage volume, when it has left its server.
async fn delete_block_volume(
    run: &Run,
    claims: &Claims,
    step: &str,
    volume: &Owned<BlockVolume>,
) -> Result<Change, Stop> {
    let block = &run.shared.client.block(&run.zone);
    let id = &volume.get().id;
    let deadline = Instant::now() + VOLUME_LEAVES;
    run.attempt(step, |_| async move {
        loop {
            // Which error the deletion of a volume in use gets is not recorded, so it is not tried.
            match again(block.get_volume(id).await, |volume| claims.block_volume(volume))? {
                Again::Gone => return Ok(Change::Made),
                Again::NotOurs => return Ok(Change::NotOurs),
                Again::Ours(volume) if volume.get().references.is_empty() => break,
                Again::Ours(_) if Instant::now() >= deadline => break,
                Again::Ours(_) => run.pause(run.shared.limits.poll_interval).await?,
            }
        }
        gone_is_done(block.delete_volume(id).await).map(|()| Change::Made)
    })
    .await
}

async fn delete_local_volume(run: &Run, claims: &Claims, step: &str, volume: &Owned<Volume>) -> Result<Change, Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let id = &volume.get().id;
    run.attempt(step, |_| async move {
        match again(instance.get_volume(id).await, |volume| claims.local_volume(volume))? {
            Again::Gone => Ok(Change::Made),
            Again::NotOurs => Ok(Change::NotOurs),
            Again::Ours(_) => gone_is_done(instance.delete_volume(id).await).map(|()| Change::Made),
        }
    })
    .await
}

/// Detaching a NIC is deleting it: it has no life of its own.
async fn delete_private_nic(run: &Run, claims: &Claims, step: &str, nic: &Owned<PrivateNic>) -> Result<Change, Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    let (server, id) = (&nic.get().server_id, &nic.get().id);
    run.attempt(step, |_| async move {
        match server_again(run, claims, server).await? {
            // It went with its server.
            Again::Gone => Ok(Change::Made),
            Again::NotOurs => Ok(Change::NotOurs),
            Again::Ours(_) => gone_is_done(instance.delete_private_nic(server, id).await).map(|()| Change::Made),
        }
    })
    .await
}

/// Takes a volume, ours or not, off a server of ours.
async fn detach_volume(run: &Run, step: &str, server: &str, id: &str) -> Result<Change, Stop> {
    let instance = &run.shared.client.instance(&run.zone);
    run.attempt(step, |_| async move {
        match instance.detach_server_volume(server, id).await {
            // Already apart (recorded: "Volume <id> is not attached to this server").
            Err(error) if error.body().is_some_and(|body| body.contains("not attached")) => Ok(Change::Made),
            other => gone_is_done(other).map(|()| Change::Made),
        }
    })
    .await
}

/// Marks what stays on purpose. What is not ours is not touched.
async fn mark_kept(run: &Run, step: &str, thing: &Thing) -> Result<Change, Stop> {
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
            run.attempt(step, |_| async move { gone_is_done(instance.update_server(&server.id, update).await) })
                .await?;
        }
        Thing::Ip(ip) => {
            let ip = ip.get();
            let update = &UpdateIp { tags: Some(marked(&ip.tags)), ..UpdateIp::default() };
            run.attempt(step, |_| async move { gone_is_done(instance.update_ip(&ip.id, update).await) }).await?;
        }
        Thing::BlockVolume(volume) => {
            let volume = volume.get();
            let update = &UpdateBlockVolume { tags: Some(with_ours(&volume.tags)), ..UpdateBlockVolume::default() };
            run.attempt(step, |_| async move { gone_is_done(block.update_volume(&volume.id, update).await) }).await?;
        }
        Thing::LocalVolume(volume) => {
            let volume = volume.get();
            let update = &UpdateVolume { tags: Some(with_ours(&volume.tags)), ..UpdateVolume::default() };
            run.attempt(step, |_| async move { gone_is_done(instance.update_volume(&volume.id, update).await) })
                .await?;
        }
        // A NIC stays with its server, which carries the mark; what is not ours gets none.
        Thing::PrivateNic(_) | Thing::Attached(_) => {}
    }
    Ok(Change::Made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(after: &[u32]) -> Step {
        Step { resource: 0, action: Action::Delete, after: after.to_vec() }
    }

    #[test]
    fn a_step_begins_when_all_before_it_are_done_and_is_skipped_when_one_failed() {
        let steps = [step(&[]), step(&[0]), step(&[0]), step(&[1, 2]), step(&[3])];
        let mut stands = vec![Stand::Waiting; steps.len()];
        let mut begun = Vec::new();
        let mut next = |stands: &mut Vec<Stand>| {
            begun.clear();
            let skipped = begin_or_skip(&steps, stands, |position, _| {
                begun.push(position);
                true
            });
            (begun.clone(), skipped)
        };
        assert_eq!(next(&mut stands), (vec![0], None));
        assert_eq!(next(&mut stands), (vec![], None), "it runs");
        stands[0] = Stand::Done;
        assert_eq!(next(&mut stands), (vec![1, 2], None));
        stands[1] = Stand::Failed;
        assert_eq!(next(&mut stands), (vec![], None), "the other one may still be at it");
        stands[2] = Stand::Done;
        assert_eq!(next(&mut stands), (vec![], Some(3)));
        assert_eq!(next(&mut stands), (vec![], Some(4)));
        assert_eq!(next(&mut stands), (vec![], None));
    }

    #[test]
    fn what_is_not_taken_begins_later_and_a_circle_never() {
        let steps = [step(&[]), step(&[]), step(&[3]), step(&[2])];
        let mut stands = vec![Stand::Waiting; steps.len()];
        assert_eq!(begin_or_skip(&steps, &mut stands, |position, _| position == 0), None);
        assert_eq!(stands, [Stand::Running, Stand::Waiting, Stand::Waiting, Stand::Waiting]);
        stands[0] = Stand::Failed;
        assert_eq!(begin_or_skip(&steps, &mut stands, |_, _| true), None);
        assert_eq!(stands, [Stand::Failed, Stand::Running, Stand::Waiting, Stand::Waiting]);
    }
}
