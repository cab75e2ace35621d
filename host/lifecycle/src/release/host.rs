//! Releasing a host, a Mac: every end of it can be repeated.
//!
//! A release goes through stages ([`stage`](super::stage)): a pure function says which one follows, and here each is
//! carried out.

use std::sync::Arc;

use serde_json::json;
use tokio::time::Instant;
use tracing::Instrument;
use windlass_policy::slots::Release;
use windlass_policy::slots::release::{self, Machine, MachineKind, Question, Refusal, Trigger, Verdict};
use windlass_policy::slots::types::Subject;
use windlass_policy::{DecidedBy, PinnedPolicies};
use windlass_scaleway::types::apple_silicon::Server;

use super::request::{ASKINGS, ReleaseOutcome, ReleaseRequest, ReleaseSpecification, Released, instant};
use super::stage::{self, Action, Stage};
use super::{Answer, Asking, ReleaseReport, question};
use crate::control::{Control, EventKind};
use crate::journal::note::Note;
use crate::journal::{Closing, Operation, OperationKind, OperationState, Phase};
use crate::lifecycle::{Lifecycle, left_open};
use crate::machines::actions::{self, End, Given, MARK_STEP, Progress};
use crate::machines::group;
use crate::machines::host::{Presence, Refused, presence, resource};
use crate::machines::lock::{HELD, lock, lock_to_begin};
use crate::machines::names::{ClaimName, is_returning};
use crate::machines::origin::ended_claims;
use crate::machines::restart::Restart;
use crate::machines::steps::PENDING_STEP;
use crate::run::Run;
use crate::shared::{Active, Shared};
use crate::stop::Stop;
use crate::subject::SubjectOf;
use crate::{Error, OperationId};

impl Lifecycle {
    /// Releases a host. The flow, beside that of [`Lifecycle::release`]:
    /// 1. The host is read. One that is gone, or whose name is neither the claim nor one that an earlier release of
    ///    ours gave it, ends the release at once.
    /// 2. The slot is asked; what it says is done under the lock, to the host as it is read there once more.
    /// 3. A refusal (the billing floor: 412) is put to the slot at once, a bounded number of times. Everything that
    ///    asks for patience is answered as [`ReleaseOutcome::AskAgain`], so this never waits long.
    pub(super) async fn release_host(&self, request: ReleaseRequest, control: &Control) -> Result<Released, Error> {
        self.shared.check_history()?;
        if let Some(prefix) = &request.pool_prefix {
            request.claim.check_against(prefix)?;
        }
        let shared = &self.shared;
        let span = tracing::info_span!("release-machine", host = request.host, claim = %request.claim);
        let policies = shared.pin(&request.requested_by, None);
        let specification = ReleaseSpecification { request };
        async move {
            let mut releasing = Releasing::new(shared, specification, policies, control.clone())?;
            let ended = releasing.perform().await;
            releasing.close(ended).await
        }
        .instrument(span)
        .await
    }
}

/// The release of this claim that kept the host, unless the host was claimed since.
pub(crate) fn kept(shared: &Shared, host: &str, claim: &ClaimName) -> Result<Option<OperationId>, Error> {
    // The newest comes first.
    for operation in shared.journal.operations_of_resource(host)? {
        if operation.specification["claim"].as_str() != Some(claim.as_str()) {
            continue;
        }
        if operation.kind != OperationKind::ReleaseMachine {
            break;
        }
        if shared.journal.entries(&operation.id)?.iter().any(|entry| entry.kept().is_some()) {
            return Ok(Some(operation.id));
        }
    }
    Ok(None)
}

/// What the journal knows of a host and its claim.
#[derive(Default)]
struct Known {
    given: Given,
    progress: Progress,
    /// Earlier releases of the same host that this one carries on.
    earlier: Vec<Operation>,
    /// A restart for recovery since the host was claimed.
    restart: Option<Restart>,
}

impl Known {
    fn read(shared: &Shared, request: &ReleaseRequest) -> Result<Self, Error> {
        let mut known = Self::default();
        // The newest comes first. What was done to the host before it was claimed for the last time is no news of this
        // claim's.
        let mut since_claimed = true;
        for operation in shared.journal.operations_of_resource(&request.host)? {
            if operation.specification["claim"].as_str() != Some(request.claim.as_str()) {
                continue;
            }
            let entries = shared.journal.entries(&operation.id)?;
            let of_host = |entry: &&crate::Entry| {
                entry.phase == Phase::Intent
                    && entry.resource.as_ref().is_some_and(|resource| resource.id == request.host)
            };
            let names = |step: &'static str, key: &'static str| {
                entries
                    .iter()
                    .filter(of_host)
                    .filter(move |entry| entry.step == step)
                    .filter_map(move |entry| entry.data[key].as_str().map(str::to_owned))
            };
            match operation.kind {
                OperationKind::AdoptMachine => {
                    known.given.pending.extend(names(PENDING_STEP, "name"));
                    since_claimed = false;
                }
                OperationKind::ReleaseMachine => {
                    if since_claimed && known.restart.is_none() {
                        known.restart = Restart::of(&operation, &entries, &request.host);
                    }
                    known.given.pool.extend(names(MARK_STEP, "pool"));
                    if operation.state.has_work_left() {
                        // The newest comes first, and what it did counts.
                        if known.earlier.is_empty() {
                            known.progress = Progress::from_entries(&entries);
                        }
                        known.earlier.push(operation);
                    }
                }
                _ => {}
            }
        }
        Ok(known)
    }
}

/// A release under way. Its [`Stage`] says what comes next; this carries it out.
pub(crate) struct Releasing<'s> {
    shared: &'s Arc<Shared>,
    specification: ReleaseSpecification,
    policies: PinnedPolicies,
    control: Control,
    known: Known,
    reported: ReleaseReport,
    /// The slot's last answer, until it is journalled.
    answer: Option<Answer>,
    /// Whether the host was on its way into the pool when it was read last.
    returning: bool,
    /// The operation, once there is something to do.
    opened: Option<(Run, Active)>,
}

impl<'s> Releasing<'s> {
    pub(crate) fn new(
        shared: &'s Arc<Shared>,
        specification: ReleaseSpecification,
        policies: PinnedPolicies,
        control: Control,
    ) -> Result<Self, Error> {
        let known = Known::read(shared, &specification.request)?;
        let (reported, answer, returning, opened) = (ReleaseReport::default(), None, false, None);
        Ok(Self { shared, specification, policies, control, known, reported, answer, returning, opened })
    }

    /// Goes on with the operation that the journal holds.
    pub(crate) fn of(mut self, run: Run, active: Active) -> Self {
        self.known.earlier.retain(|earlier| earlier.id != run.id);
        self.opened = Some((run, active));
        self
    }

    /// Goes from stage to stage until it has ended.
    pub(crate) async fn perform(&mut self) -> Result<ReleaseOutcome, ReleaseError> {
        let mut stage = Stage::Look;
        let mut askings = 0;
        loop {
            stage = match stage {
                Stage::Look => {
                    let seen = self
                        .look()
                        .await
                        .map_err(|error| Error::scaleway("reading the host that is to be released", error))?;
                    stage::after_look(
                        &self.specification,
                        &self.known.given,
                        &self.known.progress,
                        self.restart(),
                        seen,
                    )
                }
                Stage::Ask { .. } if askings == ASKINGS => Stage::exhausted(),
                Stage::Ask { request, host, refusal } => {
                    let attempt = request.attempt.max(1).saturating_add(askings);
                    askings += 1;
                    let (verdict, decided_by) = self.ask(&request, &host, refusal, attempt).await?;
                    let last_resort = decided_by == DecidedBy::Keep;
                    stage::after_answer(request, host, verdict, last_resort, &self.known.progress)
                }
                Stage::Act { request, host, action } => {
                    let end = self.act(&host, &action).await?;
                    stage::after_action(request, host, end)
                }
                Stage::LookAgain { request, host, action, refused } => {
                    let words = format!("{}: {}", word(action), refused.failure.words());
                    self.reported.refused = Some((words, refused.failure.class));
                    // As before where it cannot be read.
                    let seen = self.look().await.ok();
                    stage::after_refusal(request, host, (action, refused), seen)
                }
                Stage::Ended { outcome, reason } => {
                    self.reported.reason = reason.or(self.reported.reason.take());
                    return Ok(outcome);
                }
            };
        }
    }

    fn restart(&self) -> Option<&Restart> {
        self.known.restart.as_ref()
    }

    async fn look(&mut self) -> Result<Presence, windlass_scaleway::Error> {
        let request = &self.specification.request;
        let seen = presence(self.shared, &self.control, &request.zone, &request.host).await?;
        if let Presence::Here(host) = &seen {
            self.returning = is_returning(&host.name);
        }
        Ok(seen)
    }

    async fn ask(
        &mut self,
        request: &ReleaseRequest,
        host: &Server,
        refusal: Option<(release::Action, Refused)>,
        attempt: u32,
    ) -> Result<(Verdict, DecidedBy), Stop> {
        if self.control.left().is_cancelled() {
            return Err(Stop::Left);
        }
        let refused_with = refusal.as_ref().map(|(_, refused)| refused.failure.words());
        let refusal = refusal.map(|(action, refused)| Refusal {
            action,
            failure: refused.failure,
            not_before: refused.not_before,
        });
        let question = question_now(self.shared, request, host, attempt, refusal);
        let decision = self.policies.decide::<Release>(question).await;
        self.reported.decision(&decision);
        self.answer = Some(Answer::of(&decision, None, refused_with));
        Ok((decision.answer.verdict, decision.decided_by))
    }

    /// Does it under the lock, and takes into account what it did.
    async fn act(&mut self, host: &Server, action: &Action) -> Result<End, ReleaseError> {
        let shared = self.shared;
        let _held = match self.opened {
            Some(_) => lock(shared, &self.control).await?,
            None => lock_to_begin(shared, &self.control).await?,
        };
        let begun = match self.opened.take() {
            Some(opened) => opened,
            None => self.begin().await?,
        };
        let (run, _) = self.opened.insert(begun);
        // The time for each begins anew.
        run.deadline = Some(Instant::now() + HELD);
        if let Some(answer) = self.answer.take() {
            run.note(Note::ReleaseDecided(answer), Some(resource(&run.zone, &host.id))).await?;
        }
        let (specification, Known { given, progress, .. }) = (&self.specification, &mut self.known);
        let end = match action {
            Action::ReturnToPool { prefix, system } => {
                actions::return_to_pool(run, specification, prefix, system.as_deref(), given, progress).await?
            }
            Action::Terminate => actions::terminate(run, specification, given).await?,
            Action::ScheduleDeletion => actions::schedule_deletion(run, specification, given).await?,
            Action::Reboot => actions::reboot(run, specification, given).await?,
            Action::TakeBack => {
                let end = actions::unmark(run, specification, host).await?;
                self.returning &= end != Some(ReleaseOutcome::Kept);
                End::Done(end.unwrap_or_else(stage::ask_again))
            }
        };
        // A wipe that was taken is not asked for again.
        progress.absorb(Progress::from_entries(&shared.journal.entries(&run.id)?));
        Ok(end)
    }

    /// Puts the release into the journal.
    async fn begin(&self) -> Result<(Run, Active), Error> {
        let zone = &self.specification.request.zone;
        let row = json!(self.specification);
        let (id, active) =
            self.shared.begin(OperationKind::ReleaseMachine, &group(), zone, row, &self.policies).await?;
        let run = Run::new(
            Arc::clone(self.shared),
            id,
            OperationKind::ReleaseMachine,
            group(),
            zone.clone(),
            self.policies.clone(),
            self.control.clone(),
            Some(HELD),
        );
        run.event(EventKind::Opened);
        Ok((run, active))
    }

    /// Closes the operation, where one was opened, and what it carried on.
    pub(crate) async fn close(mut self, ended: Result<ReleaseOutcome, ReleaseError>) -> Result<Released, Error> {
        let outcome = match (ended, &self.opened) {
            (Ok(outcome), _) => outcome,
            (Err(ReleaseError::Stop(stop)), Some((run, active))) => return Err(left_open(run, active, stop)),
            (Err(ReleaseError::Error(error)), Some((run, active))) => {
                // Not closed: the next start takes it up.
                drop(left_open(run, active, Stop::Left));
                return Err(error);
            }
            (Err(ReleaseError::Stop(Stop::Journal(error)) | ReleaseError::Error(error)), None) => return Err(error),
            (Err(ReleaseError::Stop(_)), None) => return Err(Error::NotBegun),
        };
        let request = &self.specification.request;
        let ends = ended_claims(self.shared, request, &outcome)?;
        // After a failed set-up it stays with its owner. After a refusal the policy only gives up for now: whoever owns
        // the claim asks again. Else it has left its owner, and nobody may take it up again.
        let keeps = outcome == ReleaseOutcome::Kept
            && request.trigger != Trigger::BootstrapFailed
            && self.reported.refused.is_none();
        if self.opened.is_none() && (keeps || !ends.is_empty()) {
            self.opened = Some(self.begin().await?);
        }
        if keeps && let Some((run, active)) = &self.opened {
            let kept = Some(resource(&run.zone, &request.host));
            run.note(Note::Kept, kept).await.map_err(|stop| left_open(run, active, stop))?;
        }
        let operation = self.opened.as_ref().map(|(run, _)| run.id.clone());
        let state = match &outcome {
            // It still lacks its name in the pool, which the next start gives it.
            ReleaseOutcome::ReturnedToPool { name } if is_returning(name) => OperationState::Left,
            // It is on its way into the pool, and somebody has to go on.
            ReleaseOutcome::AskAgain { .. } if self.returning => OperationState::Left,
            ReleaseOutcome::AskAgain { .. } => OperationState::Undone,
            _ => OperationState::Done,
        };
        if let Some((run, active)) = self.opened.take() {
            let refused = self.reported.refused.as_ref().filter(|_| state != OperationState::Done);
            let why = refused.map(|(words, _)| words.clone());
            // The entries have those of the answers that were carried out.
            let mut reasons = run.reasons();
            for reason in self.reported.reasons.drain(..) {
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            let closing = Closing {
                operation: run.id.clone(),
                state,
                cause: why.as_ref().map(|words| json!(words)),
                reasons,
                report: Some(json!(outcome)),
                ends,
                look_at: None,
                at: self.shared.clock.now(),
            };
            self.shared.journal.close(closing).await?;
            active.ended(state.as_str());
            run.closed(state, why.as_deref());
            run.event(EventKind::Closed { state });
        }
        // What earlier askings left open has ended with this one, unless this one has not: then theirs stay, too.
        let carried_on = matches!(state, OperationState::Done) || operation.is_some();
        for earlier in self.known.earlier.iter().filter(|_| carried_on) {
            let runs = earlier.state == OperationState::Open
                && (self.shared.active.contains(&earlier.id)
                    || (earlier.runner != self.shared.runner.name()
                        && self.shared.journal.runner_lives(&earlier.runner)));
            if runs {
                continue;
            }
            let words = match &operation {
                Some(operation) => format!("carried on by {operation}"),
                None => "found ended by a later asking".to_owned(),
            };
            let closing = Closing {
                operation: earlier.id.clone(),
                state: OperationState::Done,
                cause: None,
                reasons: earlier.reasons.iter().cloned().chain([words]).collect(),
                report: Some(json!(outcome)),
                ends: Vec::new(),
                look_at: None,
                at: self.shared.clock.now(),
            };
            self.shared.journal.close(closing).await?;
        }
        Ok(self.reported.released(outcome, operation))
    }
}

/// What keeps a release from an outcome.
pub(crate) enum ReleaseError {
    Stop(Stop),
    Error(Error),
}

impl From<Stop> for ReleaseError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Error> for ReleaseError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// An action of the slot, for people.
fn word(action: release::Action) -> &'static str {
    match action {
        release::Action::ReturnToPool => "return to pool",
        release::Action::Terminate => "terminate",
        release::Action::ScheduleDeletion => "schedule deletion",
        release::Action::Reboot => "reboot",
        release::Action::Other => "another action",
    }
}

/// What is asked about a host now.
pub(crate) fn question_now(
    shared: &Shared,
    request: &ReleaseRequest,
    host: &Server,
    attempt: u32,
    refusal: Option<Refusal>,
) -> Question {
    let subject = shared.subject(SubjectOf { requested_by: Some(&request.requested_by), ..SubjectOf::default() });
    let now = (shared.clock.now(), shared.randomness.word());
    question_of(now, subject, request, host, attempt, refusal)
}

/// What is asked about a host. `now` and `random`: see [`Question`].
pub(crate) fn question_of(
    (now, random): (u64, u64),
    subject: Subject,
    request: &ReleaseRequest,
    host: &Server,
    attempt: u32,
    refusal: Option<Refusal>,
) -> Question {
    let asking = Asking {
        trigger: request.trigger,
        requested: request.requested,
        bootstrap_failures: request.bootstrap_failures,
        rebooted: request.rebooted,
        activity: request.activity,
        attempt,
    };
    question(now, random, subject, &asking, machine(request, host), refusal)
}

fn machine(request: &ReleaseRequest, host: &Server) -> Machine {
    Machine {
        kind: MachineKind::AppleSiliconServer,
        id: host.id.clone(),
        name: host.name.clone(),
        zone: request.zone.to_string(),
        machine_type: host.server_type.clone(),
        status: host.status.as_str().to_owned(),
        operating_system: host.os.as_ref().map(|os| os.name.clone()).filter(|name| !name.is_empty()),
        pool_prefix: request.pool_prefix.as_ref().map(ToString::to_string),
        adopted: request.adopted,
        created_at: instant(host.created_at()).unwrap_or_default(),
        deletable_at: instant(host.deletable_at()),
        deletion_scheduled: host.deletion_scheduled,
        bootstrap_failures: request.bootstrap_failures,
        rebooted: request.rebooted,
        price_per_hour: None,
        activity: request.activity,
    }
}

/// After a restart: the release goes on where it stood, under the policies with which it began.
pub(super) async fn resume(
    shared: &Arc<Shared>,
    specification: ReleaseSpecification,
    run: Run,
    active: Active,
) -> Result<(), Error> {
    run.event(EventKind::Opened);
    let entries = shared.journal.entries(&run.id)?;
    let (policies, control) = (run.policies.clone(), run.control.clone());
    let mut releasing = Releasing::new(shared, specification, policies, control)?;
    releasing.known.progress = Progress::from_entries(&entries);
    let mut releasing = releasing.of(run, active);
    let last = entries.iter().rev().find(|entry| entry.phase != Phase::Note && entry.phase != Phase::Failure);
    let ended = match last {
        // Its owner has not heard of it and asks again; then the host shows whether it was restarted.
        Some(entry) if entry.step == actions::REBOOT_STEP && entry.phase == Phase::Intent => {
            Ok(ReleaseOutcome::AskAgain { after: 0 })
        }
        _ => releasing.perform().await,
    };
    releasing.close(ended).await.map(drop)
}
