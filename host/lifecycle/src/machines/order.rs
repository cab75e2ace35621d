//! Ordering a host, when the pool is empty and the operator allows it: it costs a day at least.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::{CreateServer, ListOperatingSystems, ListServers, Server};

use super::adopt::{AdoptedMachine, fresh};
use super::group;
use super::host::{Presence, presence, resource};
use super::lock::lock_to_begin;
use super::lost_order::{LostOrder, lost_orders, second_look};
use super::names::{ClaimName, PoolPrefix, is_between};
use super::steps::ORDER_STEP;
use crate::control::{Control, EventKind};
use crate::journal::{Operation, OperationKind, OperationState, Phase};
use crate::lifecycle::{Lifecycle, failed, left_open};
use crate::report::{LeftResource, Report};
use crate::run::{Run, cancelled};
use crate::shared::Active;
use crate::stop::stored_cause;
use crate::stop::{StepFailure, Stop};
use crate::{Error, RequestedBy, failure};

/// No further attempt begins after this: the lock is held, since hosts are counted.
const HELD: std::time::Duration = std::time::Duration::from_secs(60);

/// A host to order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRequest {
    pub zone: Zone,
    /// The name that it gets.
    pub claim: ClaimName,
    /// Scaleway's type: `M4-S`.
    pub machine_type: String,
    /// The operating system, by its name or its family. Absent: the type's default.
    pub operating_system: Option<String>,
    /// How many hosts there may be after it; 0 orders none.
    pub limit: usize,
    /// What the names of the hosts begin with that are counted against the limit, beside those between a pool and a
    /// claim: of all claims of this installation. Must not be empty.
    pub claim_prefix: String,
    /// Hosts of this pool are counted as well.
    pub pool_prefix: Option<PoolPrefix>,
    /// For whom it is ordered, and why.
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub requested_by: RequestedBy,
}

impl Lifecycle {
    /// Orders a host under the claim's name. It is `starting` when this returns, and `ready` some minutes later.
    ///
    /// # Guarantees
    /// A host that carries the claim already is answered and none is ordered. With all that share the state directory,
    /// never more than the limit; an order that may still be delivered counts. After a lost answer none is ordered in
    /// its place: the host is looked for by its name, at once and until
    /// [`Limits::second_look`](crate::Limits::second_look), and only then is the order known to have failed. What was
    /// ordered is never deleted by this: only a release does that, by the slot's verdict. Where the order is cancelled
    /// and the host comes all the same, it keeps its claim, and the error and the journal name it as left.
    ///
    /// # Errors
    /// [`Error::MachineLimit`] when there are as many as may be; [`Error::Failed`] when Scaleway refused (out of stock,
    /// quota), or when no host came of an order whose answer was lost; [`Error::OrderUnverified`] while that is not
    /// known: ask again; the lock's and the journal's errors.
    pub async fn order_machine(&self, request: &OrderRequest, control: &Control) -> Result<AdoptedMachine, Error> {
        self.shared.check_history()?;
        if let Some(prefix) = &request.pool_prefix {
            request.claim.check_against(prefix)?;
        }
        let full = |existing: usize| Error::MachineLimit { existing, limit: request.limit };
        if request.claim_prefix.is_empty() || !request.claim.as_str().starts_with(&request.claim_prefix) {
            return Err(Error::MachineName {
                what: "claim",
                name: request.claim.to_string(),
                problem: format!(
                    "it does not begin with the claims' prefix {:?}, so the limit would not count it",
                    request.claim_prefix
                ),
            });
        }
        if request.limit == 0 {
            return Err(full(0));
        }
        let shared = &self.shared;
        let _held = lock_to_begin(shared, control).await?;
        let hosts = fresh(shared, control, &request.zone).await?;
        let carries = |host: &&Server| host.name == request.claim.as_str() && !host.deletion_scheduled;
        if let Some(found) = hosts.machines.iter().find(carries) {
            return Ok(AdoptedMachine { server: found.clone(), rediscovered: true, operation: None });
        }
        let counts = |host: &&Server| {
            host.name.starts_with(&request.claim_prefix)
                || is_between(&host.name)
                || request.pool_prefix.as_ref().is_some_and(|prefix| prefix.holds(&host.name))
        };
        let mut undelivered = 0;
        for order in lost_orders(shared, &request.zone)? {
            if order.claim == request.claim.as_str() {
                return self.answer_to(order, control).await;
            }
            undelivered += usize::from(!hosts.machines.iter().any(|host| host.name == order.claim));
        }
        let existing = hosts.machines.iter().filter(counts).count() + undelivered;
        if existing >= request.limit {
            return Err(full(existing));
        }
        let policies = shared.pin(&request.requested_by, None);
        let (id, active) =
            shared.begin(OperationKind::OrderMachine, &group(), &request.zone, json!(request), &policies).await?;
        let span = tracing::info_span!("order-machine", operation = %id, zone = %request.zone, claim = %request.claim);
        let run = Run::new(
            Arc::clone(shared),
            id.clone(),
            OperationKind::OrderMachine,
            group(),
            request.zone.clone(),
            policies,
            control.clone(),
            Some(HELD),
        );
        let traced = run.trace.operation();
        async move {
            run.event(EventKind::Opened);
            match order(&run, request).await {
                Ok(server) => delivered(&run, &active, server, None).await,
                Err(Stop::Failed(cause)) => give_up(&run, &active, &request.claim, *cause).await,
                Err(stop) => Err(left_open(&run, &active, stop)),
            }
        }
        .instrument(traced)
        .instrument(span)
        .await
    }

    /// What came of an earlier order for this claim whose answer was lost, and whose host is not there.
    async fn answer_to(&self, order: LostOrder, control: &Control) -> Result<AdoptedMachine, Error> {
        let shared = &self.shared;
        let LostOrder { operation, look_at, .. } = order;
        let unknown = Error::OrderUnverified { operation: operation.id.clone(), look_at };
        if shared.clock.now() < look_at {
            return Err(unknown);
        }
        // Somebody else looks right now, and has the answer soon.
        let Some(active) = Active::new(shared, &operation.id, operation.kind) else { return Err(unknown) };
        if !shared.journal.claim(&operation, shared.runner.name(), shared.clock.now()).await? {
            return Err(unknown);
        }
        let request: OrderRequest = super::specification(&operation)?;
        let run = Run::new(
            Arc::clone(shared),
            operation.id.clone(),
            operation.kind,
            group(),
            request.zone.clone(),
            shared.pin(&request.requested_by, None),
            control.clone(),
            Some(HELD),
        );
        let run = run.going_on(&operation, false);
        let cause = operation.cause.as_ref().and_then(stored_cause).unwrap_or_else(interrupted);
        let traced = run.trace.operation();
        give_up(&run, &active, &request.claim, cause).instrument(traced).await
    }
}

fn interrupted() -> StepFailure {
    StepFailure {
        step: ORDER_STEP.to_owned(),
        failure: failure::of_class(
            FailureClass::Interrupted,
            "the process that ordered it ended before it had an answer",
        ),
    }
}

async fn order(run: &Run, request: &OrderRequest) -> Result<Server, Stop> {
    let api = run.shared.client.apple_silicon(&run.zone);
    let os_id = match &request.operating_system {
        None => None,
        Some(wanted) => {
            let list = ListOperatingSystems {
                server_type: Some(request.machine_type.clone()),
                ..ListOperatingSystems::default()
            };
            let systems = run.look(ORDER_STEP, || api.list_os(&list)).await?;
            match super::actions::find_system(&systems, wanted) {
                Some(id) => Some(id),
                None => {
                    let words = format!(
                        "Scaleway has no operating system {wanted:?} for {} in {}",
                        request.machine_type, run.zone
                    );
                    return Err(Stop::failed(ORDER_STEP, failure::of_class(FailureClass::InvalidArguments, words)));
                }
            }
        }
    };
    let body = CreateServer {
        name: request.claim.to_string(),
        server_type: request.machine_type.clone(),
        os_id,
        ..CreateServer::default()
    };
    let server = run
        .create(
            (ORDER_STEP, json!({ "name": request.claim, "type": request.machine_type })),
            None,
            Some(&request.machine_type),
            // It costs a day at least: it is never sent a second time while the first may still arrive.
            |failed| failed.ambiguous,
            || api.create_server(&body),
            || find(run, &request.claim),
        )
        .await?;
    run.done((ORDER_STEP, json!({ "name": request.claim })), Some(resource(&run.zone, &server.id))).await?;
    run.shared.machines.hosts.replace(&run.zone, &server);
    Ok(server)
}

async fn find(run: &Run, claim: &ClaimName) -> Result<Option<Server>, windlass_scaleway::Error> {
    let hosts = run.shared.client.apple_silicon(&run.zone).list_servers(&ListServers::default()).await?;
    Ok(hosts.into_iter().find(|host| host.name == claim.as_str() && !host.deletion_scheduled))
}

/// Ends a failed order. Where its answer was lost, the host is looked for by its name once more; while one may still
/// come, or nobody can see whether one has, the caller hears just that. A host that did come stays, and is the answer.
async fn give_up(run: &Run, active: &Active, claim: &ClaimName, cause: StepFailure) -> Result<AdoptedMachine, Error> {
    let lost = run.lost_call().map_err(|error| left_open(run, active, Stop::Journal(error)))?;
    let (report, found) = match look_once_more(run, claim, lost).await {
        Ok(seen) => seen,
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    if let Some(server) = found {
        let host = Some(resource(&run.zone, &server.id));
        if let Err(stop) = run.done((ORDER_STEP, json!({ "name": claim })), host).await {
            return Err(left_open(run, active, stop));
        }
        return delivered(run, active, server, Some(report)).await;
    }
    let state = match (report.is_clean(), report.look_at) {
        (false, _) => OperationState::Left,
        (true, Some(_)) => OperationState::Unverified,
        (true, None) => OperationState::Undone,
    };
    run.shared.close(run, active, state, Some(&cause), Some(&report), Vec::new()).await?;
    match lost.filter(|_| state != OperationState::Undone) {
        Some(lost) => Err(Error::OrderUnverified {
            operation: run.id.clone(),
            look_at: report.look_at.unwrap_or_else(|| lost.saturating_add(second_look(&run.shared))),
        }),
        None => Err(failed(run, state, cause, report)),
    }
}

/// Closes an order whose host is there. A Mac cannot be deleted on its first day, so where the order was cancelled, the
/// host is left under its claim, and the caller hears that.
async fn delivered(
    run: &Run,
    active: &Active,
    server: Server,
    report: Option<Report>,
) -> Result<AdoptedMachine, Error> {
    let shared = &run.shared;
    if shared.close(run, active, OperationState::Done, None, report.as_ref(), Vec::new()).await? {
        return Ok(AdoptedMachine { server, rediscovered: false, operation: Some(run.id.clone()) });
    }
    let why =
        "the order was cancelled after it was sent, and Scaleway delivered the Mac, which is paid for a day at least"
            .to_owned();
    let left = LeftResource { resource: resource(&run.zone, &server.id), why };
    let report = Report { left: vec![left], ..Report::default() };
    let (state, cause) = (OperationState::Kept, StepFailure { step: ORDER_STEP.to_owned(), failure: cancelled() });
    shared.close(run, active, state, Some(&cause), Some(&report), Vec::new()).await?;
    Err(failed(run, state, cause, report))
}

async fn look_once_more(run: &Run, claim: &ClaimName, lost: Option<u64>) -> Result<(Report, Option<Server>), Stop> {
    let mut report = Report::default();
    if lost.is_none() {
        return Ok((report, None));
    }
    run.begin_undo();
    run.settle(lost).await?;
    let looked = run.now();
    let found = match run.look(ORDER_STEP, || find(run, claim)).await {
        Ok(found) => found,
        Err(Stop::Failed(failed)) => {
            report.unverified = Some(failed.failure.words());
            return Ok((report, None));
        }
        Err(stop) => return Err(stop),
    };
    match &found {
        Some(server) => report.kept.push(resource(&run.zone, &server.id)),
        None => report.look_at = run.shared.limits.next_look(lost, looked),
    }
    Ok((report, found))
}

/// After a restart, and at the second look: what came of the order is written down. The claimant finds the host by its
/// claim; where there is no claimant any more, a reclaim does.
pub(crate) async fn resume(run: &Run, active: &Active, operation: &Operation) -> Result<(), Error> {
    let request: OrderRequest = super::specification(operation)?;
    run.event(EventKind::Opened);
    let entries = run.shared.journal.entries(&run.id)?;
    let answered = entries.iter().find(|entry| entry.step == ORDER_STEP && entry.phase == Phase::Outcome);
    let there = match answered.and_then(|entry| entry.resource.as_ref()) {
        Some(host) => presence(&run.shared, &run.control, &run.zone, &host.id).await,
        None => Ok(Presence::Gone),
    };
    let ended = match there {
        Ok(Presence::Here(server)) => delivered(run, active, *server, None).await,
        Ok(Presence::Gone) => {
            let cause = operation.cause.as_ref().and_then(stored_cause).unwrap_or_else(interrupted);
            give_up(run, active, &request.claim, cause).await
        }
        // It is looked at again later.
        Err(_) => return Err(left_open(run, active, Stop::Left)),
    };
    match ended {
        // What became of it stands in the journal.
        Ok(_) | Err(Error::Failed(_) | Error::OrderUnverified { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
