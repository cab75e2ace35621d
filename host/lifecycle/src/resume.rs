//! After a restart: what the journal holds open is finished or undone, under the policies it began with.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use serde::Serialize;
use tracing::Instrument;
use windlass_policy::PolicyIdentity;
use windlass_policy::slots::types::FailureClass;

use crate::cleanup::{CleanupSpecification, clean_up};
use crate::control::{Control, Happening};
use crate::create::Creation;
use crate::identifier::GroupName;
use crate::journal::note::{Note, Record};
use crate::journal::step::{Create, Step};
use crate::journal::{Entry, Operation, OperationFilter, OperationKind, OperationState};
use crate::lifecycle::{Lifecycle, fail, left_open, parse_zone, succeed};
use crate::report::Report;
use crate::run::Run;
use crate::shared::{Active, Shared};
use crate::specification::ServerSpecification;
use crate::stop::stored_cause;
use crate::stop::{StepFailure, Stop};
use crate::sweep::{self, SweepSpecification};
use crate::undo::kept_by;
use crate::{Error, failure, in_flight, machines};

/// Open operations in one pass at most. What is more than that waits for the next.
const MOST: u32 = 10_000;
/// Policies that no open operation needs are forgotten after this.
const POLICY_GRACE: Duration = Duration::from_secs(24 * 3600);

/// What a resume did.
#[derive(Debug, Default, Serialize)]
pub struct Resumed {
    /// Operations that were taken over, in the order in which they began.
    pub operations: Vec<ResumedOperation>,
    /// Operations that a living process works on: not touched.
    pub busy: Vec<crate::OperationId>,
    /// Operations that failed and left nothing as far as could be seen, whose second look is not due yet.
    pub unverified: Vec<UnverifiedOperation>,
}

/// An operation whose lost call may still take effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnverifiedOperation {
    /// The operation.
    pub operation: crate::OperationId,
    /// Its kind.
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
        self.operations.iter().all(|operation| !matches!(operation.state, OperationState::Open | OperationState::Left))
    }
}

/// One operation that was taken over.
#[derive(Debug, Serialize)]
pub struct ResumedOperation {
    /// The operation.
    pub operation: crate::OperationId,
    /// Its kind.
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
    /// - A *cleanup* or *sweep* is finished.
    /// - Where the call of a creating step may have been sent and its effect was not seen, it is looked once that has
    ///   had the time to arrive ([`Limits::settle`](crate::Limits::settle)), and again after
    ///   [`Limits::second_look`](crate::Limits::second_look): until then the operation is *unverified*.
    ///
    /// # Guarantees
    /// An operation is taken over by one process at a time (file lock and journal), and decides under the policies it
    /// began with; what of them cannot be loaded any more is replaced by the default, and the decision records that.
    ///
    /// # Errors
    /// [`Error::RecoveryRunning`] while another process takes operations over. What fails about a single operation
    /// stands in its `problem`.
    pub async fn resume(&self, control: &Control) -> Result<Resumed, Error> {
        let mut resumed = Resumed::default();
        let claimed = self.claim(&mut resumed).await?;
        let shared = &self.shared;
        let mut operations: Vec<ResumedOperation> = stream::iter(claimed)
            .map(|(operation, active)| async move {
                let span = tracing::info_span!("resume", operation = %operation.id, kind = %operation.kind);
                resume_one(shared, operation, active, control).instrument(span).await
            })
            .buffer_unordered(shared.limits.parallel_operations.max(1))
            .collect()
            .await;
        operations.sort_by(|a, b| a.operation.cmp(&b.operation));
        resumed.unverified.extend(operations.iter().filter_map(|ended| shared.unverified(&ended.operation)));
        resumed.operations = operations;
        self.forget_policies();
        Ok(resumed)
    }

    async fn claim(&self, resumed: &mut Resumed) -> Result<Vec<(Operation, Active)>, Error> {
        let shared = &self.shared;
        let _lock = shared.state_directory.lock_recovery()?;
        let mut open = shared.journal.operations(&OperationFilter {
            states: vec![OperationState::Open, OperationState::Left, OperationState::Unverified],
            limit: Some(MOST),
            ..OperationFilter::default()
        })?;
        open.reverse();
        let now = shared.clock.now();
        let mut claimed = Vec::new();
        for operation in open {
            if operation.owner != shared.owner.as_str() {
                tracing::warn!(operation = %operation.id, owner = operation.owner,
                    "left alone: it belongs to another owner than the configured one");
                resumed.busy.push(operation.id);
                continue;
            }
            if let Some(unverified) = UnverifiedOperation::of(&operation).filter(|waits| waits.look_at > now) {
                resumed.unverified.push(unverified);
                continue;
            }
            let ours = operation.runner == shared.runner.name();
            let running = operation.state == OperationState::Open
                && if ours {
                    shared.active.contains(&operation.id)
                } else {
                    shared.state_directory.runner_lives(&operation.runner)
                };
            let Some(active) = (!running).then(|| Active::new(shared, &operation.id, operation.kind)).flatten() else {
                resumed.busy.push(operation.id);
                continue;
            };
            if shared.journal.claim(&operation, shared.runner.name(), shared.clock.now()).await? {
                claimed.push((operation, active));
            } else {
                resumed.busy.push(operation.id);
            }
        }
        Ok(claimed)
    }

    /// Lets the policy host forget policies that no open operation needs.
    fn forget_policies(&self) {
        let open = self.shared.journal.operations(&OperationFilter {
            states: vec![OperationState::Open, OperationState::Left, OperationState::Unverified],
            limit: Some(MOST),
            ..OperationFilter::default()
        });
        let Ok(open) = open else { return };
        let in_use: Vec<PolicyIdentity> = open.iter().flat_map(identities).collect();
        if let Err(error) = self.shared.policies.retain_policies(&in_use, POLICY_GRACE) {
            tracing::warn!(%error, "policies that nobody needs could not be removed");
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

impl Shared {
    /// The operation, where it is unverified.
    fn unverified(&self, id: &crate::OperationId) -> Option<UnverifiedOperation> {
        self.journal.operation(id).ok().as_ref().and_then(UnverifiedOperation::of)
    }
}

fn identities(operation: &Operation) -> Vec<PolicyIdentity> {
    serde_json::from_value(operation.policies.clone()).unwrap_or_default()
}

async fn resume_one(shared: &Arc<Shared>, operation: Operation, active: Active, control: &Control) -> ResumedOperation {
    let (id, kind) = (operation.id.clone(), operation.kind);
    let ended = resume_as(shared, operation, active, control).await;
    // What it says is what the journal says.
    let row = shared.journal.operation(&id);
    let state = row.as_ref().map_or(OperationState::Open, |row| row.state);
    let report = row.ok().and_then(|row| row.report).and_then(|report| serde_json::from_value(report).ok());
    ResumedOperation { operation: id, kind, state, report, problem: ended.err().map(|error| error.to_string()) }
}

async fn resume_as(shared: &Arc<Shared>, operation: Operation, active: Active, control: &Control) -> Result<(), Error> {
    let zone = parse_zone(&operation.zone)?;
    let group: GroupName = operation.group.parse()?;
    let policies = shared.policies.pinned(&identities(&operation));
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
        .going_on(&operation)
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
            sweep::remove(&run, &active, scope).instrument(run.trace.operation()).await.map(drop)
        }
        OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine => {
            let run = new_run(None);
            let traced = run.trace.operation();
            machines::resume(shared, &operation, run, active).instrument(traced).await
        }
    }
}

/// What the entries of a create say about how it is to be ended.
#[derive(Default)]
struct Stand {
    /// Its server, when it had begun to power it on: everything else was settled before.
    settled: Option<String>,
    /// Why it is to be undone. What was called off stays called off.
    undo: Option<StepFailure>,
}

impl Stand {
    fn of(operation: &Operation, entries: &[Entry]) -> Result<Self, Error> {
        let mut stand = Self::default();
        let mut given_up = None;
        for entry in entries {
            match entry.record()? {
                Record::Begun(Step::Create(Create::PowerOn)) => {
                    stand.settled = entry.resource.as_ref().map(|resource| resource.id.clone());
                }
                Record::Noted(Note::UndoBegun { because }) => {
                    let cause = StepFailure { step: because.step, failure: because.failure };
                    stand.undo.get_or_insert(cause);
                }
                // Died between giving a step up and saying that it is to be undone.
                Record::Failed { step, gave_up: Some(failure) } => given_up = Some(StepFailure { step, failure }),
                _ => {}
            }
        }
        let stored = operation.cause.as_ref().and_then(stored_cause);
        stand.undo = stored.or(stand.undo).or(given_up);
        Ok(stand)
    }
}

async fn resume_create(
    run: &Run,
    active: &Active,
    operation: &Operation,
    specification: &ServerSpecification,
) -> Result<(), Error> {
    run.event(Happening::Opened);
    let shared = &run.shared;
    let entries = shared.journal.entries(&operation.id)?;
    let stand = Stand::of(operation, &entries)?;
    let lost = in_flight::lost_by(operation, &entries, &shared.limits);
    if operation.state == OperationState::Open
        && stand.undo.is_none()
        && let Some(server) = stand.settled
    {
        let creation = Creation { run, specification, made: BTreeSet::new(), pooled_ip: None, resumed: true };
        // A successor cannot know whether the dead process saw lost answers, so the doubles are looked for.
        run.suspect();
        match creation.start(&server).await {
            Ok(server) => return succeed(run, active, specification, server).await.map(drop),
            Err(Stop::Failed(cause)) => return ended(fail(run, active, specification, *cause, lost).await),
            Err(stop) => return Err(left_open(run, active, stop)),
        }
    }
    let cause = stand.undo.unwrap_or_else(|| StepFailure {
        step: entries.last().map_or_else(|| "begin".to_owned(), |entry| entry.step.clone()),
        failure: failure::of_class(FailureClass::Interrupted, "the process that ran the operation ended before it did"),
    });
    ended(fail(run, active, specification, cause, lost).await)
}

/// That the create failed was known; that it is undone is what was wanted.
fn ended(error: Error) -> Result<(), Error> {
    match error {
        Error::Failed(_) => Ok(()),
        other => Err(other),
    }
}
