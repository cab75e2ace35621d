//! Undoing: look, ask the rollback slot, carry the plan out, look again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use windlass_policy::DecidedBy;
use windlass_policy::slots::rollback::{Action, Question, Resource, Step, Verdict};
use windlass_policy::slots::{Rollback, SlotName, types};

use crate::change::protected_words;
use crate::control::EventKind;
use crate::execute::{End, StepEnd, execute};
use crate::inventory::{Found, OwnedResource, Scope, Unseen, gather};
use crate::journal::note::Note;
use crate::journal::{Entry, OperationKind, ResourceKind, ResourceName};
use crate::report::{LeftResource, Report};
use crate::run::{Run, reasons_of};
use crate::stop::{StepFailure, Stop};

/// How often a plan is made anew for what the look at the end still finds, and what may go now that other steps have
/// ended.
const ROUNDS: u32 = 3;
/// No further round begins after this.
const ROUNDS_END: Duration = Duration::from_secs(900);

/// Why a volume is left that a server came with, and that cannot be looked for.
const UNPLACED: &str = "this version of Windlass does not know its type, and neither the Block Storage API nor the \
                        Instance API shows it; look for it in Scaleway's console";

/// Why something is left when no policy could be asked for a plan.
const UNDECIDED: &str = "no policy decided what to do, so Windlass touched nothing; it tries again";

fn kind_for_policy(kind: ResourceKind) -> types::ResourceKind {
    match kind {
        ResourceKind::Server => types::ResourceKind::Server,
        ResourceKind::Ip => types::ResourceKind::Ip,
        ResourceKind::BlockVolume => types::ResourceKind::BlockVolume,
        ResourceKind::LocalVolume => types::ResourceKind::LocalVolume,
        ResourceKind::Volume => types::ResourceKind::Other,
        ResourceKind::PrivateNic => types::ResourceKind::PrivateNic,
        ResourceKind::AppleSiliconServer => types::ResourceKind::AppleSiliconServer,
    }
}

fn question(run: &Run, found: &[Found], cause: Option<&StepFailure>) -> Question {
    let position = |id: &str| {
        found.iter().position(|resource| resource.name.id == id).and_then(|position| u32::try_from(position).ok())
    };
    Question {
        now: run.now(),
        random: run.shared.randomness.word(),
        operation: match run.kind {
            OperationKind::CreateServer => OperationKind::CreateServer,
            // To a policy a sweep is the deletion of something that nobody wants.
            OperationKind::CleanupServer | OperationKind::Sweep => OperationKind::CleanupServer,
            // Never undone by a plan.
            other @ (OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine) => {
                other
            }
        }
        .as_str()
        .to_owned(),
        subject: run.subject(None),
        cause: cause.map(|cause| cause.failure.clone()),
        failed_step: cause.map(|cause| cause.step.clone()),
        resources: found
            .iter()
            .map(|resource| Resource {
                kind: kind_for_policy(resource.name.kind),
                id: resource.name.id.clone(),
                name: resource.label.clone(),
                state: Some(resource.state.clone()).filter(|state| !state.is_empty()),
                attached_to: resource.attached_to.as_deref().and_then(position),
                owned: resource.owned(),
                evidence: resource.evidence,
            })
            .collect(),
    }
}

/// Makes everything in the scope cease to exist, as the rollback slot plans it, and proves it by a look at the end.
///
/// Never fails because something cannot be removed: the report says so.
pub(crate) async fn undo(run: &Run, scope: &mut Scope, cause: Option<&StepFailure>) -> Result<Report, Stop> {
    run.begin_undo();
    let began = Instant::now();
    let mut going = RemovalProgress::of(run.progress()?.effects.removed());
    let mut staying = KeptResources::default();
    let mut round = 0;
    loop {
        round += 1;
        let found = gather(run, scope).await?;
        let found = staying.take(found, scope, run.kind);
        let there = going.note(&found);
        let found = going.without_protected(found, &scope.unseen);
        let last = round > ROUNDS || (round > 1 && began.elapsed() > ROUNDS_END);
        if last || !going.may_go(&found) {
            return Ok(reported(going.ended(staying, &there, scope)));
        }
        if round > 1 {
            run.sleep("undo", Duration::from_secs(u64::from(round))).await?;
        }
        let Some(steps) = ask(run, &found, cause).await? else {
            going.undecided(&found);
            return Ok(reported(going.ended(staying, &there, scope)));
        };
        keep(run, scope, &mut staying, &found, &steps).await?;
        for end in execute(run, &scope.claims, &found, &steps).await? {
            if let Some(resource) = found.get(end.resource) {
                going.step_ended(run, resource, end);
            }
        }
    }
}

/// What stays: it was kept on purpose, by its mark or by the journal.
#[derive(Default)]
struct KeptResources {
    kept: Vec<ResourceName>,
}

impl KeptResources {
    /// Takes what stays out of what was found: also the NICs of servers that stay. The rest is to go.
    fn take(&mut self, found: Vec<Found>, scope: &Scope, kind: OperationKind) -> Vec<Found> {
        // Somebody who cleans a server up wants to be rid of what an earlier rollback kept, too.
        let marks_count = kind != OperationKind::CleanupServer;
        let kept: BTreeSet<String> = found
            .iter()
            .filter(|resource| {
                scope.kept.contains(&resource.name.id)
                    || (resource.kept && marks_count && !scope.spare.contains(&resource.name.id))
            })
            .map(|resource| resource.name.id.clone())
            .collect();
        let stays = |id: &String| kept.contains(id) || scope.spare.contains(id);
        let (stay, go): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|resource| {
            let with_its_server =
                resource.name.kind == ResourceKind::PrivateNic && resource.attached_to.as_ref().is_some_and(stays);
            stays(&resource.name.id) || with_its_server
        });
        for resource in stay {
            if kept.contains(&resource.name.id) && resource.owned() {
                self.keep(&resource.name);
            }
        }
        go
    }

    fn keep(&mut self, resource: &ResourceName) {
        if !self.kept.contains(resource) {
            self.kept.push(resource.clone());
        }
    }
}

/// What is to go: all of it that was ever seen, and what came in the way.
#[derive(Default)]
struct RemovalProgress {
    seen: BTreeMap<String, ResourceName>,
    problems: BTreeMap<String, String>,
    /// Those whose last step was tried for as long as the retry slot wanted.
    exhausted: BTreeSet<String>,
    /// Those whose last step waited for one that failed.
    skipped: BTreeSet<String>,
    /// Taken back by somebody while we were at it.
    taken: BTreeSet<String>,
}

impl RemovalProgress {
    /// One that goes on where an earlier process has removed something.
    fn of(removed: &[ResourceName]) -> Self {
        let seen = removed.iter().map(|resource| (resource.id.clone(), resource.clone())).collect();
        Self { seen, ..Self::default() }
    }

    /// Takes note of what is there of it now.
    fn note(&mut self, found: &[Found]) -> Vec<ResourceName> {
        let there: Vec<ResourceName> =
            found.iter().filter(|resource| resource.owned()).map(|resource| resource.name.clone()).collect();
        self.seen.extend(there.iter().map(|resource| (resource.id.clone(), resource.clone())));
        there
    }

    /// Takes out what somebody protected, with all that hangs on it: it is left, without a try. So is what hangs on a
    /// server that could not be read, since that may be protected as well.
    fn without_protected(&mut self, found: Vec<Found>, unseen: &Unseen) -> Vec<Found> {
        let mut parts: BTreeMap<String, String> = BTreeMap::new();
        for resource in &found {
            let OwnedResource::Server(server) = &resource.thing else { continue };
            let server = server.get();
            if server.protected {
                let of = |id: &String| (id.clone(), server.id.clone());
                parts.extend(server.volumes.values().map(|volume| of(&volume.id)));
                parts.extend(server.public_ips.iter().map(|ip| of(&ip.id)));
                parts.insert(server.id.clone(), server.id.clone());
            }
        }
        let stays = |server: &String| parts.contains_key(server) || unseen.holds(server);
        let attached = |resource: &Found| resource.attached_to.clone().filter(stays);
        let holder = |resource: &Found| parts.get(&resource.name.id).cloned().or_else(|| attached(resource));
        let (protected, rest): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|it| holder(it).is_some());
        for resource in protected {
            let Some(server) = holder(&resource) else { continue };
            let why = if resource.name.id == server {
                protected_words(&server, &resource.name.zone)
            } else if unseen.holds(&server) {
                format!("it belongs to server {server}, which could not be read")
            } else {
                format!("it belongs to server {server}, which is protected")
            };
            self.problems.insert(resource.name.id, why);
        }
        rest
    }

    /// Whether a round may remove some of what was found.
    fn may_go(&self, found: &[Found]) -> bool {
        let ids = || found.iter().filter(|resource| resource.owned()).map(|resource| &resource.name.id);
        let blocked = ids().any(|id| self.exhausted.contains(id));
        ids().any(|id| !(self.exhausted.contains(id) || blocked && self.skipped.contains(id)))
    }

    fn undecided(&mut self, found: &[Found]) {
        self.problems.extend(found.iter().map(|resource| (resource.name.id.clone(), UNDECIDED.to_owned())));
    }

    fn step_ended(&mut self, run: &Run, resource: &Found, end: StepEnd) {
        let id = &resource.name.id;
        if !matches!(end.end, End::Skipped) {
            self.exhausted.remove(id);
            self.skipped.remove(id);
        }
        match (end.action, end.end) {
            // Kept all the same: the journal says so, and the sweep asks it.
            (Action::Keep, End::Failed { why, .. }) => {
                tracing::warn!(operation = %run.id, resource = %resource.name, why, "cannot mark a kept resource as kept");
            }
            (_, End::Failed { why, exhausted }) => {
                self.problems.insert(id.clone(), why);
                if exhausted {
                    self.exhausted.insert(id.clone());
                }
            }
            (_, End::Skipped) => {
                self.problems.entry(id.clone()).or_insert_with(|| "a step that it waits for failed".to_owned());
                self.skipped.insert(id.clone());
            }
            (_, End::NotOurs) => {
                self.taken.insert(id.clone());
            }
            (_, End::Done) => {}
        }
    }

    /// The report of the look at the end: what it showed is left, and so is what could not be read.
    fn ended(self, staying: KeptResources, there: &[ResourceName], scope: &Scope) -> Report {
        let Self { seen, problems, taken, .. } = self;
        let unseen = &scope.unseen;
        let stays = |name: &ResourceName| scope.kept.contains(&name.id) || scope.spare.contains(&name.id);
        // A NIC shows with its server only.
        let could_be_read = |name: &ResourceName| {
            !unseen.holds(&name.id) && !name.server.as_deref().is_some_and(|server| unseen.holds(server))
        };
        // A NIC goes with its server only.
        let is_anothers = |name: &ResourceName| {
            scope.not_ours.iter().any(|it| *it == *name || name.server.as_deref() == Some(it.id.as_str()))
        };
        let shown = there.iter().map(|name| (name, "it was still there at the last look".to_owned()));
        let unread = unseen.resources().filter(|(name, _)| !stays(name));
        let unverified = unseen.list().or(unread.clone().map(|(_, why)| why).next()).cloned();
        let unread = unread.map(|(name, why)| (name, format!("cannot check whether it is gone: {why}")));
        let unplaced = scope.unplaced.iter().filter(|volume| !staying.kept.contains(volume));
        let left = shown
            .chain(unread)
            .map(|(name, why)| (name, problems.get(&name.id).cloned().unwrap_or(why)))
            .chain(unplaced.map(|volume| (volume, UNPLACED.to_owned())))
            .map(|(name, why)| LeftResource { resource: name.clone(), why })
            .collect();
        let removed = seen
            .into_values()
            .filter(|name| !taken.contains(&name.id) && !staying.kept.contains(name) && !there.contains(name))
            .filter(|name| !is_anothers(name) && could_be_read(name))
            .collect();
        let not_ours = scope.not_ours.iter().filter(|name| !stays(name)).cloned().collect();
        Report { removed, kept: staying.kept, left, not_ours, unverified, ..Report::default() }
    }
}

fn reported(report: Report) -> Report {
    metrics::counter!(crate::metric_names::LEFT_BEHIND).increment(report.left.len() as u64);
    report
}

/// Journals what the plan keeps before anything of it is done: from here on it stays kept, whatever becomes of its
/// mark, of this process, or of the rest of the plan.
async fn keep(
    run: &Run,
    scope: &mut Scope,
    staying: &mut KeptResources,
    found: &[Found],
    steps: &[Step],
) -> Result<(), Stop> {
    for step in steps.iter().filter(|step| step.action == Action::Keep) {
        let Some(resource) = found.get(step.resource as usize) else { continue };
        if resource.owned() {
            run.note(Note::Kept, Some(resource.name.clone())).await?;
            staying.keep(&resource.name);
            scope.kept.insert(resource.name.id.clone());
        } else {
            scope.spare.insert(resource.name.id.clone());
        }
    }
    Ok(())
}

/// Keeps everything in the scope, as the release slot decided.
pub(crate) async fn keep_all(run: &Run, scope: &mut Scope) -> Result<Report, Stop> {
    let found = gather(run, scope).await?;
    let mut staying = KeptResources::default();
    let found = staying.take(found, scope, run.kind);
    let steps: Vec<Step> = (0..)
        .zip(&found)
        .filter(|(_, resource)| resource.owned())
        .map(|(resource, _)| Step { resource, action: Action::Keep, after: Vec::new() })
        .collect();
    keep(run, scope, &mut staying, &found, &steps).await?;
    let mut going = RemovalProgress::default();
    for end in execute(run, &scope.claims, &found, &steps).await? {
        if let Some(resource) = found.get(end.resource) {
            going.step_ended(run, resource, end);
        }
    }
    Ok(reported(going.ended(staying, &[], scope)))
}

/// What these entries say was kept.
pub(crate) fn kept_by(entries: &[Entry]) -> impl Iterator<Item = &ResourceName> {
    entries.iter().filter_map(Entry::kept)
}

/// Asks for a plan. `None`: no policy could give one, so nothing is touched. What the host's last resort leaves is left
/// and not kept: a mark would say that somebody wanted it to stay, and nobody would ever try again.
async fn ask(run: &Run, found: &[Found], cause: Option<&StepFailure>) -> Result<Option<Vec<Step>>, Stop> {
    let decision = run.policies.decide::<Rollback>(question(run, found, cause)).await;
    run.warn_of_fallbacks("rollback", &decision.fallbacks);
    let steps = match (decision.answer.verdict, &decision.decided_by) {
        (Verdict::Plan(steps), DecidedBy::Policy(_)) => Some(steps),
        // A decision never defers.
        (Verdict::Plan(_) | Verdict::Defer, _) => None,
    };
    let planned = Note::Planned {
        decision: json!(decision.id),
        decided_by: decision.decided_by.to_string(),
        reason: decision.reason.clone(),
        steps: steps.clone(),
        reasons: reasons_of(SlotName::Rollback, None, &decision.fallbacks, decision.reason.as_deref()),
    };
    run.note(planned, None).await?;
    let resources = found.iter().map(|resource| resource.name.clone()).collect();
    let decided_by = decision.decided_by.to_string();
    // A caller that hears that a good creation is undone would count its server as one that goes.
    run.event(if cause.is_none() && run.kind == OperationKind::CreateServer {
        EventKind::RemovingDoubles { resources, decided_by }
    } else {
        let cause = cause.map(|cause| format!("{}: {}", cause.step, cause.failure.words()));
        EventKind::Undoing { cause, resources, decided_by, reason: decision.reason }
    });
    Ok(steps)
}
