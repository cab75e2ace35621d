//! Carries a checked plan out: bounded parallelism, "not there" is done, every error collected.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};
use windlass_policy::slots::rollback::{Action, Step};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::Patch;
use windlass_scaleway::types::block::{BlockVolume, UpdateBlockVolume};
use windlass_scaleway::types::instance::{
    Ip, Server, ServerAction, ServerState, ServerVolume, UpdateIp, UpdateServer, UpdateVolume, Volume, VolumeType,
};

use crate::change::{
    BlockVolumeChange, Changeable, IpChange, Outcome, ServerChange, VolumeChange, change, delete_private_nic, protected,
};
use crate::failure::{self, AttemptFailure};
use crate::inventory::{Found, OwnedResource};
use crate::journal::note::Note;
use crate::journal::step;
use crate::ownership::Claims;
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
    Failed {
        /// In words.
        why: String,
        /// Whether it was tried for as long as the retry slot wanted, and may pass by itself only.
        exhausted: bool,
    },
    /// A step that it waits for failed.
    Skipped,
}

/// What became of a step's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Made,
    /// Read again, right before the change, the resource was no longer ours.
    NotOurs,
}

/// Runs the plan. Steps that wait for a failed one are not begun, and say so.
pub(crate) async fn execute(run: &Run, claims: &Claims, found: &[Found], steps: &[Step]) -> Result<Vec<StepEnd>, Stop> {
    // Only these may go with their server. Any other local disk on it, kept or somebody's, forbids to terminate it.
    let going: BTreeSet<&str> = steps
        .iter()
        .filter(|step| step.action == Action::Delete)
        .filter_map(|step| found.get(step.resource as usize))
        .filter(|resource| resource.owned())
        .map(|resource| resource.name.id.as_str())
        .collect();
    let going = &going;
    let mut states = vec![StepState::Waiting; steps.len()];
    let mut ends = Vec::new();
    let mut running = FuturesUnordered::new();
    loop {
        // Again after each skipped step: it may have been the last that another waited for.
        loop {
            let skipped = begin_or_skip(steps, &mut states, |position, step| {
                if running.len() >= run.shared.limits.parallel_steps.max(1) {
                    return false;
                }
                if let Some(resource) = found.get(step.resource as usize) {
                    let end = act(run, claims, resource, step.action, going);
                    running.push(async move { (position, end.await) });
                }
                true
            });
            let Some(position) = skipped else { break };
            let (resource, action) = (steps[position].resource as usize, steps[position].action);
            ends.push(StepEnd { resource, action, end: End::Skipped });
        }
        // What then still waits, waits in a circle, which no checked plan has.
        let Some((position, result)) = running.next().await else {
            return Ok(ends);
        };
        let end = match result {
            Ok(Change::Made) => End::Done,
            Ok(Change::NotOurs) => End::NotOurs,
            Err(Stop::Failed(failed)) => End::Failed {
                why: format!("{}: {}", failed.step, failed.failure.words()),
                exhausted: passes_by_itself(failed.failure.class),
            },
            Err(other) => return Err(other),
        };
        states[position] = if matches!(end, End::Done) { StepState::Done } else { StepState::Failed };
        ends.push(StepEnd { resource: steps[position].resource as usize, action: steps[position].action, end });
    }
}

/// Whether a failure of this class passes by itself, if at all. Any other one was tried once, as a rule, and may pass
/// when other steps have ended.
fn passes_by_itself(class: FailureClass) -> bool {
    use FailureClass as Class;
    matches!(
        class,
        Class::RateLimited
            | Class::ServerError
            | Class::Gateway
            | Class::Timeout
            | Class::Connection
            | Class::MalformedAnswer
            | Class::Locked
    )
}

/// Where a step of a plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepState {
    Waiting,
    Running,
    Done,
    Failed,
}

/// Begins the steps whose predecessors are all done, as far as `begin` takes them. The first one that waits for a
/// failed step is skipped, which counts as failed, and given back.
fn begin_or_skip(
    steps: &[Step],
    states: &mut [StepState],
    mut begin: impl FnMut(usize, &Step) -> bool,
) -> Option<usize> {
    for (position, step) in steps.iter().enumerate() {
        if states[position] != StepState::Waiting {
            continue;
        }
        let before = |stand| step.after.iter().filter_map(|after| states.get(*after as usize)).any(|&it| it == stand);
        if before(StepState::Waiting) || before(StepState::Running) {
            continue;
        }
        if before(StepState::Failed) {
            states[position] = StepState::Failed;
            return Some(position);
        }
        if begin(position, step) {
            states[position] = StepState::Running;
        }
    }
    None
}

async fn act(
    run: &Run,
    claims: &Claims,
    resource: &Found,
    action: Action,
    going: &BTreeSet<&str>,
) -> Result<Change, Stop> {
    let planned = step::Step::Plan(action, resource.name.kind);
    let step = planned.word();
    run.begin(planned, Some(resource.name.clone())).await?;
    // Several of one name run at once: this is the one that has just begun.
    let span = run.trace.find(&step).unwrap_or_else(Span::none);
    carry_out(&PlanStep { run, claims, step: &step }, resource, action, going).instrument(span).await
}

async fn carry_out(
    step: &PlanStep<'_>,
    resource: &Found,
    action: Action,
    going: &BTreeSet<&str>,
) -> Result<Change, Stop> {
    let id = resource.name.id.as_str();
    let change = match (action, &resource.thing) {
        (Action::Delete, OwnedResource::Server(_)) => step.delete_server(id, going).await?,
        (Action::Delete, OwnedResource::Ip(_)) => step.change::<Ip>(id, |_| Some(IpChange::Delete)).await?,
        (Action::Delete, OwnedResource::BlockVolume(_)) => step.delete_block_volume(id).await?,
        (Action::Delete, OwnedResource::LocalVolume(_)) => {
            step.change::<Volume>(id, |_| Some(VolumeChange::Delete)).await?
        }
        (Action::Delete | Action::Detach, OwnedResource::PrivateNic(nic)) => {
            step.delete_private_nic(&nic.get().server_id, id).await?
        }
        (Action::PowerOff, OwnedResource::Server(_)) => step.power_off(id).await?,
        (Action::Detach, OwnedResource::Ip(_)) => {
            let detached = UpdateIp { server: Patch::Clear, ..UpdateIp::default() };
            step.change::<Ip>(id, |_| Some(IpChange::Update(detached.clone()))).await?
        }
        (Action::Detach, OwnedResource::Attached(server)) => step.detach_volume(&server.get().id, id).await?,
        (Action::Detach, OwnedResource::BlockVolume(_) | OwnedResource::LocalVolume(_)) => {
            match &resource.attached_to {
                Some(server) => step.detach_volume(server, id).await?,
                None => Change::Made,
            }
        }
        (Action::Keep, thing) => step.mark_kept(id, thing).await?,
        (Action::Delete | Action::PowerOff | Action::Detach, _) => {
            return Err(Stop::failed(
                step.step,
                failure::of_class(
                    FailureClass::InvalidArguments,
                    "Windlass cannot prove that it owns this resource, or the action does not apply to it",
                ),
            ));
        }
    };
    let (run, step) = (step.run, step.step);
    match change {
        Change::Made => {
            let planned = step::Step::Plan(action, resource.name.kind);
            run.done(planned, Some(resource.name.clone())).await?;
        }
        Change::NotOurs => {
            tracing::warn!(operation = %run.id, step, resource = %resource.name, "the resource is no longer owned and is left alone");
            run.note(Note::LeftAlone, Some(resource.name.clone())).await?;
        }
    }
    Ok(change)
}

/// The action that was sent to a server, or why none was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerCommand {
    /// To go, or it goes already.
    Going,
    /// To stop, or it changes by itself: it needs another look then.
    Stopping,
    /// Nothing: Scaleway has locked it.
    Locked,
}

/// The action that removes a server in its current state.
fn to_go(server: &Server, going: &BTreeSet<&str>) -> (Option<ServerChange>, ServerCommand) {
    if server.state_detail == "terminating" {
        return (None, ServerCommand::Going);
    }
    // What is not known to outlive its server may be lost with it.
    let outlives = |volume: &ServerVolume| volume.volume_type == VolumeType::BlockStorage;
    let keep_local = server.volumes.values().any(|it| !outlives(it) && !going.contains(it.id.as_str()));
    match &server.state {
        ServerState::Running | ServerState::StoppedInPlace if keep_local => {
            (Some(ServerChange::Act(ServerAction::PowerOff)), ServerCommand::Stopping)
        }
        ServerState::Running | ServerState::StoppedInPlace => {
            (Some(ServerChange::Act(ServerAction::Terminate)), ServerCommand::Going)
        }
        ServerState::Stopped => (Some(ServerChange::Delete), ServerCommand::Going),
        ServerState::Locked => (None, ServerCommand::Locked),
        // Starting, stopping, or a word we don't know: it will stand in a state that can be left.
        _ => (None, ServerCommand::Stopping),
    }
}

fn locked(server: &str) -> AttemptFailure {
    let words = format!("server {server} is locked by Scaleway and cannot be deleted; its support can unlock it");
    failure::of_class(FailureClass::Locked, words).into()
}

/// A step of a plan that has begun.
struct PlanStep<'a> {
    run: &'a Run,
    claims: &'a Claims,
    /// Its name in the journal.
    step: &'a str,
}

impl PlanStep<'_> {
    /// Reads the resource and does to it what `what` says, until that works or the retry slot gives up. That it has
    /// gone is what was wanted.
    async fn change<T: Changeable>(&self, id: &str, what: impl Fn(&T) -> Option<T::Change>) -> Result<Change, Stop> {
        let (run, claims, what) = (self.run, self.claims, &what);
        let judge = |resource: &T| (what(resource), ());
        let outcome = run.attempt(self.step, |_| change(&run.shared.client, &run.zone, claims, id, judge)).await?;
        self.ended(id, outcome)
    }

    /// Whether it is gone is for the look at the end to prove. An accepted deletion is the first half of that.
    fn ended<R>(&self, id: &str, outcome: Outcome<R>) -> Result<Change, Stop> {
        match outcome {
            Outcome::Gone | Outcome::Judged(_) => Ok(Change::Made),
            Outcome::Deleted(_) => {
                self.run.absences.deleted(id);
                Ok(Change::Made)
            }
            Outcome::NotOurs => Ok(Change::NotOurs),
            Outcome::Protected(server) => Err(Stop::failed(self.step, protected(&server, self.run.zone.as_str()))),
            // Only a termination takes volumes, and `delete_server` sends none with this one again.
            Outcome::WouldTake(_) => Ok(Change::NotOurs),
        }
    }

    /// Deletes a server from whatever state it is in.
    ///
    /// Scaleway knows two ways (recorded): `terminate` takes a running server together with its local volumes, DELETE
    /// takes a stopped one and leaves them; the plan then deletes these after it. So a server that holds a local volume
    /// that is to stay is stopped and deleted.
    async fn delete_server(&self, id: &str, going: &BTreeSet<&str>) -> Result<Change, Stop> {
        let (run, claims) = (self.run, self.claims);
        let deadline = Instant::now() + SERVER_GOES;
        for _ in 0..SERVER_PASSES {
            let outcome = run
                .attempt(self.step, |_| async move {
                    let mut going = going.clone();
                    loop {
                        let judge = |server: &Server| to_go(server, &going);
                        match change(&run.shared.client, &run.zone, claims, id, judge).await? {
                            Outcome::Judged(ServerCommand::Locked) => return Err(locked(id)),
                            // It was in the plan, and is no longer ours: the server is stopped and deleted instead.
                            Outcome::WouldTake(volume) if going.remove(volume.as_str()) => {}
                            outcome => return Ok(outcome),
                        }
                    }
                })
                .await?;
            let reported = match outcome {
                Outcome::Judged(reported) => reported,
                Outcome::Deleted(reported) => {
                    run.absences.deleted(id);
                    reported
                }
                outcome => return self.ended(id, outcome),
            };
            let mut looks = 0_u32;
            let gone = run
                .shared
                .poller
                .wait(run, self.step, id, deadline, |server| {
                    let Some(server) = server else {
                        return Some(Ok(true));
                    };
                    looks += 1;
                    match server.state {
                        ServerState::Stopped | ServerState::Locked => Some(Ok(false)),
                        // Told to go, and it still stands there after a while: tell it again.
                        ServerState::Running | ServerState::StoppedInPlace
                            if reported == ServerCommand::Stopping || looks > 3 =>
                        {
                            Some(Ok(false))
                        }
                        _ => None,
                    }
                })
                .await?;
            if gone {
                return Ok(Change::Made);
            }
        }
        Err(Stop::failed(
            self.step,
            failure::of_class(
                FailureClass::Other,
                format!(
                    "Windlass requested the removal of server {id} {SERVER_PASSES} times, and it was running or stopped again each time"
                ),
            ),
        ))
    }

    async fn power_off(&self, id: &str) -> Result<Change, Stop> {
        let deadline = Instant::now() + SERVER_GOES;
        let running = |server: &Server| server.state == ServerState::Running;
        let off = |server: &Server| running(server).then_some(ServerChange::Act(ServerAction::PowerOff));
        if self.change::<Server>(id, off).await? == Change::NotOurs {
            return Ok(Change::NotOurs);
        }
        self.run
            .shared
            .poller
            .wait(self.run, self.step, id, deadline, |server| match server {
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

    /// Deletes a Block Storage volume, when it has left its server.
    async fn delete_block_volume(&self, id: &str) -> Result<Change, Stop> {
        let (run, claims) = (self.run, self.claims);
        let deadline = Instant::now() + VOLUME_LEAVES;
        let outcome = run
            .attempt(self.step, |_| async move {
                loop {
                    // Which error the deletion of a volume in use gets is not recorded, so it is not tried.
                    let leave = |volume: &BlockVolume| {
                        let left = volume.references.is_empty() || Instant::now() >= deadline;
                        (left.then_some(BlockVolumeChange::Delete), left)
                    };
                    match change(&run.shared.client, &run.zone, claims, id, leave).await? {
                        Outcome::Judged(false) => run.pause(run.shared.limits.poll_interval).await?,
                        outcome => return Ok::<_, AttemptFailure>(outcome),
                    }
                }
            })
            .await?;
        self.ended(id, outcome)
    }

    async fn delete_private_nic(&self, server: &str, id: &str) -> Result<Change, Stop> {
        let (run, claims) = (self.run, self.claims);
        let outcome =
            run.attempt(self.step, |_| delete_private_nic(&run.shared.client, &run.zone, claims, server, id)).await?;
        self.ended(id, outcome)
    }

    /// Takes a volume, ours or not, off a server of ours.
    async fn detach_volume(&self, server: &str, id: &str) -> Result<Change, Stop> {
        let detach = |server: &Server| {
            let attached = server.volumes.values().any(|volume| volume.id == id);
            attached.then(|| ServerChange::DetachVolume(id.to_owned()))
        };
        self.change::<Server>(server, detach).await
    }

    /// Marks what stays on purpose. What is not ours is not touched.
    async fn mark_kept(&self, id: &str, thing: &OwnedResource) -> Result<Change, Stop> {
        let marked = |tags: &[String]| {
            let mut tags = tags.to_vec();
            if !tags::is_kept(&tags) {
                tags.push(tags::KEPT.to_owned());
            }
            tags
        };
        let with_ours = |tags: &[String]| {
            let mut tags = marked(tags);
            for tag in tags::all(&self.run.shared.owner, &self.run.group, &self.run.id) {
                if !tags.iter().any(|other| tags::same_key(other, &tag)) {
                    tags.push(tag);
                }
            }
            tags
        };
        match thing {
            OwnedResource::Server(_) => {
                let update = |tags| Box::new(UpdateServer { tags: Some(tags), ..UpdateServer::default() });
                self.change::<Server>(id, |it| Some(ServerChange::Update(update(marked(&it.tags))))).await
            }
            OwnedResource::Ip(_) => {
                let update = |tags| UpdateIp { tags: Some(tags), ..UpdateIp::default() };
                self.change::<Ip>(id, |it| Some(IpChange::Update(update(marked(&it.tags))))).await
            }
            OwnedResource::BlockVolume(_) => {
                let update = |tags| UpdateBlockVolume { tags: Some(tags), ..UpdateBlockVolume::default() };
                let mark = |it: &BlockVolume| Some(BlockVolumeChange::Update(update(with_ours(&it.tags))));
                self.change::<BlockVolume>(id, mark).await
            }
            OwnedResource::LocalVolume(_) => {
                let update = |tags| UpdateVolume { tags: Some(tags), ..UpdateVolume::default() };
                self.change::<Volume>(id, |it| Some(VolumeChange::Update(update(with_ours(&it.tags))))).await
            }
            // A NIC stays with its server, which carries the mark; what is not ours gets none.
            OwnedResource::PrivateNic(_) | OwnedResource::Attached(_) => Ok(Change::Made),
        }
    }
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
        let mut states = vec![StepState::Waiting; steps.len()];
        let mut begun = Vec::new();
        let mut next = |states: &mut Vec<StepState>| {
            begun.clear();
            let skipped = begin_or_skip(&steps, states, |position, _| {
                begun.push(position);
                true
            });
            (begun.clone(), skipped)
        };
        assert_eq!(next(&mut states), (vec![0], None));
        assert_eq!(next(&mut states), (vec![], None), "it runs");
        states[0] = StepState::Done;
        assert_eq!(next(&mut states), (vec![1, 2], None));
        states[1] = StepState::Failed;
        assert_eq!(next(&mut states), (vec![], None), "the other one may still be at it");
        states[2] = StepState::Done;
        assert_eq!(next(&mut states), (vec![], Some(3)));
        assert_eq!(next(&mut states), (vec![], Some(4)));
        assert_eq!(next(&mut states), (vec![], None));
    }

    #[test]
    fn what_is_not_taken_begins_later_and_a_circle_never() {
        let steps = [step(&[]), step(&[]), step(&[3]), step(&[2])];
        let mut states = vec![StepState::Waiting; steps.len()];
        assert_eq!(begin_or_skip(&steps, &mut states, |position, _| position == 0), None);
        assert_eq!(states, [StepState::Running, StepState::Waiting, StepState::Waiting, StepState::Waiting]);
        states[0] = StepState::Failed;
        assert_eq!(begin_or_skip(&steps, &mut states, |_, _| true), None);
        assert_eq!(states, [StepState::Failed, StepState::Running, StepState::Waiting, StepState::Waiting]);
    }
}
