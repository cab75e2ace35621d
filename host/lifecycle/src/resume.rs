//! After a restart: what the journal holds open is finished or undone, under the policies it began with.
//!
//! What was interrupted is ended at once. What was tried before and did not end is a left-over: it is tried again at a
//! pace of its own ([`next_try`]), which the journal keeps, so that nothing new waits for it and no restart hurries it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use serde::Serialize;
use tracing::Instrument;
use windlass_policy::PolicyIdentity;
use windlass_policy::slots::SlotName;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::cleanup::{CleanupSpecification, clean_up};
use crate::control::{Control, EventKind};
use crate::create::Creation;
use crate::identifier::GroupName;
use crate::journal::note::Note;
use crate::journal::progress::Progress;
use crate::journal::{Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceName};
use crate::lifecycle::{Lifecycle, claims_of_creation, fail, left_open, parse_zone, succeed};
use crate::report::{LeftResource, Report};
use crate::run::{Run, milliseconds};
use crate::shared::{Active, Shared};
use crate::specification::ServerSpecification;
use crate::stop::stored_cause;
use crate::stop::{StepFailure, Stop};
use crate::supervisor::JOURNAL_KEEPS;
use crate::sweep::{self, SweepSpecification};
use crate::undo::kept_by;
use crate::{Error, failure, machines, tags};

/// The slots that an operation asks. Which server is made of which type is decided before it begins.
const ASKED: [SlotName; 3] = [SlotName::Retry, SlotName::Rollback, SlotName::Release];
/// Policies that no open operation needs are forgotten after this.
const POLICY_GRACE: Duration = Duration::from_secs(24 * 3600);
/// The first wait before something that is left is tried again. Each later one is twice as long.
const FIRST_PACE: Duration = Duration::from_secs(10);
/// The longest of these waits.
const MAX_PACE: Duration = Duration::from_secs(3_600);
/// A wait is shorter by up to this share of it, so that what was left together is not tried again together.
const PACE_JITTER: u64 = 5;
/// Left-overs that are tried in one pass at their own pace, those that are due for longest first.
const MAX_TRIES: usize = 16;
/// Left-overs that are tried at a time.
const PARALLEL_TRIES: usize = 4;
/// Held by the process that takes over what dead ones left.
const RECOVERY_LOCK: &str = "recovery.lock";
/// How long one try of a left-over may take. Then it ends at its next safe point, and the next try goes on.
const MAX_TRY: Duration = Duration::from_secs(300);

/// When something that was tried so often and did not end is tried again.
fn next_try(tries: u32, at: u64, random: u64) -> u64 {
    let wait = milliseconds(FIRST_PACE.saturating_mul(1 << tries.min(16)).min(MAX_PACE));
    at.saturating_add(wait - random % (wait / PACE_JITTER + 1))
}

/// Whether something waits for a time that was set at most `longest` ahead. One that is further ahead was set by a clock
/// that was wrong then, or is now: it is due.
fn is_ahead(at: u64, now: u64, longest: Duration) -> bool {
    at > now && at - now <= milliseconds(longest)
}

/// Which operations are taken up.
#[derive(Clone, Copy, Debug)]
enum Taking<'a> {
    /// All that nobody works on.
    All,
    /// Those that were interrupted: open, and not tried before.
    Interrupted,
    /// The same, and what is due: left-overs whose next try has come, and second looks.
    Due,
    /// Those of these creations.
    Of(&'a BTreeSet<crate::OperationId>),
}

/// What a resume did.
#[derive(Debug, Default, Serialize)]
pub struct Resumed {
    /// Operations that were taken over, in the order in which they began.
    pub operations: Vec<ResumedOperation>,
    /// Operations that a living process works on: not touched.
    pub busy: Vec<crate::OperationId>,
    /// Operations that failed and left nothing as far as could be seen, whose second look is not due yet.
    pub unverified: Vec<UnverifiedOperation>,
    /// Operations that left something behind and whose next try is not due yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingOperation>,
    /// Whether another process works on one that is busy.
    #[serde(skip)]
    pub(crate) is_elsewhere: bool,
}

/// An operation that left something behind and is tried again later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingOperation {
    pub operation: crate::OperationId,
    pub kind: OperationKind,
    /// The zone in which something is left.
    pub zone: String,
    /// How often it was taken up without an end.
    pub tries: u32,
    /// When it is tried again, in milliseconds since 1970.
    pub next_try: u64,
}

/// An operation whose lost call may still take effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnverifiedOperation {
    pub operation: crate::OperationId,
    pub kind: OperationKind,
    /// The zone in which it is looked.
    pub zone: String,
    /// When, in milliseconds since 1970.
    pub look_at: u64,
}

impl Resumed {
    /// Whether nothing is open any more that was taken over.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.operations.iter().all(|operation| !operation.state.has_work_left())
    }
}

/// One operation that was taken over.
#[derive(Debug, Serialize)]
pub struct ResumedOperation {
    pub operation: crate::OperationId,
    pub kind: OperationKind,
    /// Where it stands now: `done` means finished, `undone` that everything it had made is gone.
    pub state: OperationState,
    /// What was removed, kept and left, where something was undone.
    pub report: Option<Report>,
    /// Why it could not be ended, where it could not.
    pub problem: Option<String>,
}

impl Lifecycle {
    /// Takes over every operation that no living process works on, and ends it: one that was left open by a process
    /// that died or by a failed write of the journal, one whose undo left something behind, and one whose second look
    /// is due.
    ///
    /// # Expected flow
    /// - A *create* that had begun to power its server on is finished: everything about the server was settled
    ///   before. (It gets its whole deadline again.) Any earlier one is undone: the journal does not keep the
    ///   cloud-init, since that may hold secrets. One that cannot be finished is undone.
    /// - A *create* whose server runs although this journal neither powered it on nor called the creation off is left
    ///   as it is, for good: somebody else finished it, and it may be in use.
    /// - A *cleanup* or *sweep* is finished.
    /// - Where the call of a creating step may have been sent and its effect was not seen, it is looked once that has
    ///   had the time to arrive ([`Limits::settle`](crate::Limits::settle)), and again after
    ///   [`Limits::second_look`](crate::Limits::second_look): until then the operation is *unverified*.
    ///
    /// # Guarantees
    /// An operation is taken over by one process at a time (file lock and journal), and decides under the policies it
    /// began with. Where one of them is not there any more as it was, the operation waits ([`Error::PolicyLost`]). One
    /// whose signer is not trusted any more counts as failed, and the decision records that.
    ///
    /// # Errors
    /// [`Error::RecoveryRunning`] while another process takes operations over, [`Error::HistoryMoved`] where the state
    /// directory is a copy. What fails about a single operation
    /// stands in its `problem`.
    pub async fn resume(&self, control: &Control) -> Result<Resumed, Error> {
        self.resume_these(Taking::All, control).await
    }

    /// As [`Lifecycle::resume`], for operations that were interrupted: those that are open and that nobody has tried to
    /// end yet. For who is about to begin new work, which never waits for what is left for longer.
    ///
    /// It also forgets some of the operations that ended thirty days ago and explain nothing any more, since nothing
    /// else may run where this is called.
    ///
    /// # Errors
    /// As there.
    pub async fn resume_interrupted(&self, control: &Control) -> Result<Resumed, Error> {
        let resumed = self.resume_these(Taking::Interrupted, control).await?;
        self.forget_some().await;
        Ok(resumed)
    }

    /// Forgets some of the operations that ended thirty days ago and explain nothing any more: for who begins new work
    /// and runs no supervisor.
    pub async fn forget_some(&self) {
        let before = self.now().saturating_sub(milliseconds(JOURNAL_KEEPS));
        if let Err(error) = self.shared.journal.prune_some(before).await {
            tracing::warn!(%error, "cannot prune old operations");
        }
    }

    /// As [`Lifecycle::resume`], for what is due: operations that were interrupted, second looks, and left-overs whose
    /// next try has come. For who works on its own, again and again.
    ///
    /// # Guarantees
    /// A left-over is tried again after 10 s, and each time after twice the time, up to an hour; the journal counts
    /// the tries, whoever makes them. One call tries a bounded number of them, each for a bounded time.
    ///
    /// # Errors
    /// As there.
    pub async fn resume_due(&self, control: &Control) -> Result<Resumed, Error> {
        self.resume_these(Taking::Due, control).await
    }

    /// As [`Lifecycle::resume`], for these creations and the removals of what they made.
    ///
    /// # Errors
    /// As there.
    pub async fn resume_creations(
        &self,
        creations: &BTreeSet<crate::OperationId>,
        control: &Control,
    ) -> Result<Resumed, Error> {
        self.resume_these(Taking::Of(creations), control).await
    }

    async fn resume_these(&self, taking: Taking<'_>, control: &Control) -> Result<Resumed, Error> {
        let mut resumed = Resumed::default();
        let claimed = self.claim(taking, &mut resumed).await?;
        let shared = &self.shared;
        let paced = matches!(taking, Taking::Due);
        let (left, rest): (Vec<_>, Vec<_>) = claimed.into_iter().partition(|taken| paced && taken.is_left_over);
        let end = |taken: Taken, limit| async move {
            let span = tracing::info_span!("resume", operation = %taken.operation.id, kind = %taken.operation.kind);
            resume_one(shared, taken, limit, control).instrument(span).await
        };
        let rest = stream::iter(rest)
            .map(|taken| end(taken, None))
            .buffer_unordered(shared.limits.parallel_operations.max(1))
            .collect::<Vec<_>>();
        let left = stream::iter(left)
            .map(|taken| end(taken, Some(MAX_TRY)))
            .buffer_unordered(PARALLEL_TRIES)
            .collect::<Vec<_>>();
        let (mut operations, left) = futures::join!(rest, left);
        operations.extend(left);
        operations.sort_by(|a: &ResumedOperation, b| a.operation.cmp(&b.operation));
        resumed.unverified.extend(operations.iter().filter_map(|ended| shared.unverified(&ended.operation)));
        resumed.waiting.extend(operations.iter().filter_map(|ended| shared.waiting(&ended.operation)));
        resumed.operations = operations;
        // Who begins new work shows nothing: what that leaves is not counted before the next look.
        self.look_at_unfinished(!matches!(taking, Taking::Interrupted));
        Ok(resumed)
    }

    async fn claim(&self, taking: Taking<'_>, resumed: &mut Resumed) -> Result<Vec<Taken>, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let _turn = shared.taking_over.lock().await;
        let running = || Error::RecoveryRunning { path: shared.state_directory.path().join(RECOVERY_LOCK) };
        let _lock = shared.journal.log().lock(RECOVERY_LOCK)?.ok_or_else(running)?;
        let mut open = shared.journal.operations(&OperationFilter {
            states: OperationState::UNFINISHED.to_vec(),
            ..OperationFilter::default()
        })?;
        open.reverse();
        let now = shared.clock.now();
        let mut due = Vec::new();
        for operation in open {
            if let Taking::Of(creations) = taking
                && !creations.contains(&operation.id)
                && !removes_one_of(&operation, creations)
            {
                continue;
            }
            if operation.owner != shared.owner.as_str() {
                tracing::warn!(operation = %operation.id, owner = operation.owner,
                    "left alone: it belongs to another owner than the configured one");
                resumed.busy.push(operation.id);
                continue;
            }
            if let Some(unverified) = shared.awaits_second_look(&operation) {
                resumed.unverified.push(unverified);
                continue;
            }
            let running = operation.state == OperationState::Open && shared.is_worked_on(&operation);
            if running {
                resumed.is_elsewhere |= operation.runner != shared.runner.name();
                resumed.busy.push(operation.id);
                continue;
            }
            let waiting = shared.pace_of(&operation)?;
            match (taking, &waiting) {
                (Taking::Due, Some(waiting)) if is_ahead(waiting.next_try, now, MAX_PACE) => {
                    resumed.waiting.push(waiting.clone());
                    continue;
                }
                (Taking::Interrupted, Some(_)) => continue,
                (Taking::Interrupted, None) if operation.state != OperationState::Open => continue,
                _ => {}
            }
            due.push((waiting, operation));
        }
        if matches!(taking, Taking::Due) {
            // The longest due first; what is interrupted comes before all.
            due.sort_by_key(|(waiting, _)| waiting.as_ref().map_or(0, |waiting| waiting.next_try));
        }
        let zones: BTreeSet<Zone> = due.iter().filter_map(|(_, operation)| operation.zone.parse().ok()).collect();
        shared.check_not_set_back(zones.iter()).await?;
        let mut claimed = Vec::new();
        let mut tries_left = MAX_TRIES;
        for (waiting, operation) in due {
            if let (Taking::Due, Some(waiting)) = (taking, &waiting) {
                if tries_left == 0 {
                    resumed.waiting.push(waiting.clone());
                    continue;
                }
                tries_left -= 1;
            }
            let Some(active) = Active::new(shared, &operation.id, operation.kind) else {
                resumed.busy.push(operation.id);
                continue;
            };
            if shared.journal.claim(&operation, shared.runner.name(), now).await? {
                let is_left_over = waiting.is_some();
                let tries = waiting.map_or(0, |waiting| waiting.tries).saturating_add(1);
                shared.note_try(&operation.id, tries).await?;
                let on_request = matches!(taking, Taking::All | Taking::Of(_));
                claimed.push(Taken { operation, active, tries, is_left_over, on_request });
            } else {
                resumed.busy.push(operation.id);
            }
        }
        Ok(claimed)
    }

    /// Lets the policy host forget policies that no open operation needs. The metrics show what is open where it
    /// `is_shown`.
    fn look_at_unfinished(&self, is_shown: bool) {
        let open = self
            .shared
            .journal
            .operations(&OperationFilter { states: OperationState::UNFINISHED.to_vec(), ..OperationFilter::default() });
        let Ok(open) = open else { return };
        if is_shown {
            self.shared.outstanding.unfinished(&open);
        }
        let in_use: Vec<PolicyIdentity> = open.iter().flat_map(identities).collect();
        if let Err(error) = self.shared.policies.retain_policies(&in_use, POLICY_GRACE) {
            tracing::warn!(%error, "cannot remove unused policies");
        }
    }
}

impl UnverifiedOperation {
    fn of(operation: &Operation) -> Option<Self> {
        (operation.state == OperationState::Unverified).then(|| Self {
            operation: operation.id.clone(),
            kind: operation.kind,
            zone: operation.zone.clone(),
            look_at: operation.look_at.unwrap_or_default(),
        })
    }
}

/// An operation that this process has taken over.
struct Taken {
    /// As it was before.
    operation: Operation,
    active: Active,
    /// How often it was taken up, this time included.
    tries: u32,
    /// Whether something was left, or an earlier try did not end it.
    is_left_over: bool,
    /// Whether somebody asked for it to be tried now.
    on_request: bool,
}

/// Whether an operation removes what one of these creations made.
fn removes_one_of(operation: &Operation, creations: &BTreeSet<crate::OperationId>) -> bool {
    operation.kind == OperationKind::CleanupServer
        && serde_json::from_value::<CleanupSpecification>(operation.specification.clone()).is_ok_and(|specification| {
            // One that the journal does not know is known by its tag.
            [specification.creation, specification.tagged].iter().flatten().any(|creation| creations.contains(creation))
        })
}

impl Shared {
    /// How an operation waits that did not end: one that is left, or was taken up before. `None`: it was interrupted,
    /// and nobody has tried to end it yet, or it is unverified, which has a time of its own.
    fn pace_of(&self, operation: &Operation) -> Result<Option<WaitingOperation>, Error> {
        let waiting = |tries, next_try| WaitingOperation {
            operation: operation.id.clone(),
            kind: operation.kind,
            zone: operation.zone.clone(),
            tries,
            next_try,
        };
        Ok(match (operation.state, self.journal.last_try(&operation.id)?) {
            (OperationState::Open | OperationState::Left, Some((tries, next_try))) => Some(waiting(tries, next_try)),
            (OperationState::Left, None) => Some(waiting(0, next_try(0, operation.updated_at, 0))),
            _ => None,
        })
    }

    /// The same of an operation by its id, once it was tried.
    fn waiting(&self, id: &crate::OperationId) -> Option<WaitingOperation> {
        self.pace_of(&self.journal.operation(id).ok()?).ok().flatten()
    }

    /// Journals that an operation is taken up, and when it is tried again if it does not end.
    async fn note_try(&self, id: &crate::OperationId, tries: u32) -> Result<(), Error> {
        let now = self.clock.now();
        let taken_up = Note::TakenUp { tries, next_try: next_try(tries, now, self.randomness.word()) };
        let (step, data) = taken_up.parts();
        let entry = Entry { sequence: 0, step, phase: Phase::Note, resource: None, data, at: now };
        self.journal.append(id, entry).await
    }

    /// The operation, where it is unverified and its second look is still to come.
    pub(crate) fn awaits_second_look(&self, operation: &Operation) -> Option<UnverifiedOperation> {
        let is_to_come = |it: &UnverifiedOperation| is_ahead(it.look_at, self.clock.now(), self.limits.second_look);
        UnverifiedOperation::of(operation).filter(is_to_come)
    }

    fn unverified(&self, id: &crate::OperationId) -> Option<UnverifiedOperation> {
        self.journal.operation(id).ok().as_ref().and_then(UnverifiedOperation::of)
    }
}

fn identities(operation: &Operation) -> Vec<PolicyIdentity> {
    serde_json::from_value(operation.policies.clone()).unwrap_or_default()
}

async fn resume_one(
    shared: &Arc<Shared>,
    Taken { operation, active, tries, is_left_over: _, on_request }: Taken,
    limit: Option<Duration>,
    control: &Control,
) -> ResumedOperation {
    let (id, kind) = (operation.id.clone(), operation.kind);
    let own = control.child();
    let ending = resume_as(shared, operation, active, on_request, &own);
    tokio::pin!(ending);
    let ended = match limit {
        None => ending.await,
        Some(limit) => match tokio::time::timeout(limit, &mut ending).await {
            Ok(ended) => ended,
            Err(_) => {
                own.leave();
                ending.await
            }
        },
    };
    // What it says is what the journal says.
    let row = shared.journal.operation(&id);
    let state = row.as_ref().map_or(OperationState::Open, |row| row.state);
    // The wait counts from the end of a try. A failed write leaves the time that was noted at its beginning.
    if state.has_work_left()
        && let Err(error) = shared.note_try(&id, tries).await
    {
        tracing::warn!(operation = %id, %error, "cannot journal the time of the next attempt");
    }
    let report = row.ok().and_then(|row| row.report).and_then(|report| serde_json::from_value(report).ok());
    ResumedOperation { operation: id, kind, state, report, problem: ended.err().map(|error| error.to_string()) }
}

async fn resume_as(
    shared: &Arc<Shared>,
    operation: Operation,
    active: Active,
    on_request: bool,
    control: &Control,
) -> Result<(), Error> {
    let zone = parse_zone(&operation.zone)?;
    let group: GroupName = operation.group.parse()?;
    let policies = shared.policies.pinned(&identities(&operation));
    let lost = policies.lost(&ASKED);
    if !lost.is_empty() {
        return Err(Error::PolicyLost { operation: operation.id.clone(), lost: lost.join("; ") });
    }
    let new_run = |deadline| {
        Run::new(
            Arc::clone(shared),
            operation.id.clone(),
            operation.kind,
            group.clone(),
            zone.clone(),
            policies.clone(),
            control.clone(),
            deadline,
        )
        .going_on(&operation, on_request)
    };
    let corrupt =
        |error: serde_json::Error| Error::journal_row("operations", operation.id.as_str(), "specification", error);
    match operation.kind {
        OperationKind::CreateServer => {
            let specification: ServerSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            let run = new_run(Some(Duration::from_millis(specification.deadline_milliseconds)));
            let traced = run.trace.operation();
            resume_create(&run, &active, &operation, &specification).instrument(traced).await
        }
        OperationKind::CleanupServer => {
            let specification: CleanupSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            let run = new_run(None);
            clean_up(&run, &active, &specification).instrument(run.trace.operation()).await.map(drop)
        }
        OperationKind::Sweep => {
            let specification: SweepSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            let entries = shared.journal.entries(&operation.id)?;
            let mut scope = specification.scope(&shared.owner);
            scope.claims.learn(&entries)?;
            scope.kept = kept_by(&entries).map(|name| name.id.clone()).collect();
            let run = new_run(None);
            sweep::remove(&run, &active, &specification, scope).instrument(run.trace.operation()).await.map(drop)
        }
        OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine => {
            let run = new_run(None);
            let traced = run.trace.operation();
            machines::resume(shared, &operation, run, active).instrument(traced).await
        }
    }
}

async fn resume_create(
    run: &Run,
    active: &Active,
    operation: &Operation,
    specification: &ServerSpecification,
) -> Result<(), Error> {
    run.event(EventKind::Opened);
    let shared = &run.shared;
    let entries = shared.journal.entries(&operation.id)?;
    let progress = Progress::of(&entries)?;
    let undo = operation.cause.as_ref().and_then(stored_cause).or_else(|| progress.clone().cause());
    if operation.state == OperationState::Open
        && undo.is_none()
        && let Some(server) = &progress.powering_on
    {
        let creation = Creation { run, specification, pooled_ip: None };
        match creation.start(server).await {
            Ok(server) => return succeed(run, active, specification, server).await.map(drop),
            Err(Stop::Failed(cause)) => return ended(fail(run, active, specification, *cause).await),
            Err(stop) => return Err(left_open(run, active, stop)),
        }
    }
    // A cleanup that somebody asked for has removed it: what is left to do is to see that nothing is left.
    if operation.ended_by.is_none() && undo.is_none() && progress.powering_on.is_none() {
        match started_elsewhere(run, &progress).await {
            Ok(None) => {}
            Ok(Some(server)) => return leave_started(run, active, &server, specification, &entries).await,
            Err(stop) => return Err(left_open(run, active, stop)),
        }
    }
    let cause = undo.unwrap_or_else(|| StepFailure {
        step: entries
            .iter()
            .rfind(|entry| entry.phase != Phase::Note)
            .map_or_else(|| "begin".to_owned(), |entry| entry.step.clone()),
        failure: failure::of_class(FailureClass::Interrupted, "the process that ran the operation ended before it did"),
    });
    ended(fail(run, active, specification, cause).await)
}

/// The server of a creation that was neither called off nor had come to powering its server on, where it was started
/// all the same: somebody has finished what this journal holds open, as when the journal is an old copy, or uses the
/// server. A creation does not boot (recorded).
async fn started_elsewhere(run: &Run, progress: &Progress) -> Result<Option<ResourceName>, Stop> {
    if let Some(server) = &progress.started_elsewhere {
        return Ok(Some(server.clone()));
    }
    let instance = run.shared.client.instance(&run.zone);
    for server in &progress.servers {
        let seen = run.look_one("get-server", &server.id, || instance.get_server(&server.id)).await?;
        let was_started = |server: Server| {
            matches!(
                server.state,
                ServerState::Starting | ServerState::Running | ServerState::StoppedInPlace | ServerState::Stopping
            ) && tags::carries_owner(&server.tags, &run.shared.owner)
        };
        if seen.is_some_and(was_started) {
            run.note(Note::StartedElsewhere, Some(server.clone())).await?;
            return Ok(Some(server.clone()));
        }
    }
    Ok(None)
}

/// Closes a creation whose server was started elsewhere: all that it made is left as it is.
async fn leave_started(
    run: &Run,
    active: &Active,
    server: &ResourceName,
    specification: &ServerSpecification,
    entries: &[Entry],
) -> Result<(), Error> {
    let why = format!(
        "server {} was started, and not by this journal: somebody may use it, so Windlass removes nothing of this \
         creation. To remove it, delete the server",
        server.id
    );
    let claims = claims_of_creation(&run.shared, &run.id, specification, entries)?;
    let left = claims.known().map(|resource| LeftResource { resource: resource.clone(), why: why.clone() }).collect();
    tracing::warn!(operation = %run.id, "{why}");
    let report = Report { left, ..Report::default() };
    run.shared.close(run, active, OperationState::Left, None, Some(&report), Vec::new()).await.map(drop)
}

/// That the create failed was known; that it is undone is what was wanted.
fn ended(error: Error) -> Result<(), Error> {
    match error {
        Error::Failed(_) => Ok(()),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_a_left_over_doubles_up_to_an_hour() {
        let waits: Vec<u64> = (0..12).map(|tries| next_try(tries, 0, 0) / 1_000).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600, 3_600]);
        assert_eq!(next_try(u32::MAX, 0, 0), 3_600_000);
        assert_eq!(next_try(0, u64::MAX, 0), u64::MAX);
        for random in [1, 1_999, 2_000, 2_001, u64::MAX] {
            assert!((8_000..=10_000).contains(&next_try(0, 0, random)), "{random}");
        }
    }
}
