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
use super::host::resource;
use super::lock::lock;
use super::names::{ClaimName, PoolPrefix, is_between};
use crate::control::{Control, Happening};
use crate::error::OperationFailure;
use crate::journal::{OperationKind, OperationState};
use crate::lifecycle::{Active, Lifecycle, left_open};
use crate::run::{Run, StepFailure, Stop};
use crate::undo::Report;
use crate::{Error, failure};

pub(crate) const ORDER_STEP: &str = "order-host";
/// No further attempt begins after this: the lock is held, since hosts are counted.
const HELD: std::time::Duration = std::time::Duration::from_secs(60);

/// A host to order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRequest {
    /// The zone.
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
}

impl Lifecycle {
    /// Orders a host under the claim's name. It is `starting` when this returns, and `ready` some minutes later.
    ///
    /// # Guarantees
    /// A host that carries the claim already is answered and none is ordered. With all that share the state directory, never more
    /// than the limit. A lost answer is looked up by the name before anything is sent again. What was ordered is never deleted by this:
    /// only a release does that, by the slot's verdict.
    ///
    /// # Errors
    /// [`Error::MachineLimit`] when there are as many as may be; [`Error::Failed`] when Scaleway refused (out of stock, quota); the
    /// lock's and the journal's errors.
    pub async fn order_machine(&self, request: &OrderRequest, control: &Control) -> Result<AdoptedMachine, Error> {
        if let Some(prefix) = &request.pool_prefix {
            request.claim.check_against(prefix)?;
        }
        let full = |existing: usize| Error::MachineLimit { existing, limit: request.limit };
        if request.claim_prefix.is_empty() || !request.claim.as_str().starts_with(&request.claim_prefix) {
            return Err(Error::MachineName {
                what: "claim",
                name: request.claim.to_string(),
                problem: format!(
                    "it does not begin with the claims' prefix {:?}, so it would not be counted",
                    request.claim_prefix
                ),
            });
        }
        if request.limit == 0 {
            return Err(full(0));
        }
        let shared = &self.shared;
        let _held = lock(shared, control).await?;
        let hosts = fresh(shared, &request.zone).await?;
        let carries = |host: &&Server| host.name == request.claim.as_str() && !host.deletion_scheduled;
        if let Some(found) = hosts.machines.iter().find(carries) {
            return Ok(AdoptedMachine { server: found.clone(), rediscovered: true, operation: None });
        }
        let counts = |host: &&Server| {
            host.name.starts_with(&request.claim_prefix)
                || is_between(&host.name)
                || request.pool_prefix.as_ref().is_some_and(|prefix| prefix.holds(&host.name))
        };
        let existing = hosts.machines.iter().filter(counts).count();
        if existing >= request.limit {
            return Err(full(existing));
        }
        let policies = shared.policies.pin();
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
        async move {
            run.event(Happening::Opened);
            match order(&run, request).await {
                Ok(server) => {
                    shared.close(&run, &active, OperationState::Done, None, None, Vec::new()).await?;
                    Ok(AdoptedMachine { server, rediscovered: false, operation: Some(id) })
                }
                Err(Stop::Failed(cause)) => Err(give_up(&run, &active, request, *cause).await),
                Err(stop) => Err(left_open(&run, &active, stop)),
            }
        }
        .instrument(span)
        .await
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
            match super::deeds::find_system(&systems, wanted) {
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
    run.intend(ORDER_STEP, None, json!({ "name": request.claim, "type": request.machine_type })).await?;
    let server = run
        .create(ORDER_STEP, Some(&request.machine_type), || api.create_server(&body), || find(run, &request.claim))
        .await?;
    run.conclude(ORDER_STEP, Some(resource(&run.zone, &server.id)), json!({ "name": request.claim })).await?;
    run.shared.machines.hosts.replace(&run.zone, &server).await;
    Ok(server)
}

async fn find(run: &Run, claim: &ClaimName) -> Result<Option<Server>, windlass_scaleway::Error> {
    let hosts = run.shared.client.apple_silicon(&run.zone).list_servers(&ListServers::default()).await?;
    Ok(hosts.into_iter().find(|host| host.name == claim.as_str() && !host.deletion_scheduled))
}

/// Ends a failed order. Whether a host came of it all the same is looked up; if that cannot be seen, the next start looks
/// again. A host that did come stays: it carries the claim, and the claimant finds it.
async fn give_up(run: &Run, active: &Active, request: &OrderRequest, cause: StepFailure) -> Error {
    let report = match look_once_more(run, &request.claim).await {
        Ok(report) => report,
        Err(stop) => return left_open(run, active, stop),
    };
    let state = if report.is_clean() { OperationState::Undone } else { OperationState::Left };
    if let Err(error) = run.shared.close(run, active, state, Some(&cause), Some(&report), Vec::new()).await {
        return error;
    }
    Error::Failed(Box::new(OperationFailure {
        operation: run.id.clone(),
        kind: run.kind,
        state,
        step: cause.step,
        cause: cause.failure,
        report,
        reasons: run.reasons(),
    }))
}

async fn look_once_more(run: &Run, claim: &ClaimName) -> Result<Report, Stop> {
    let mut report = Report::default();
    if !run.saw_ambiguity() {
        return Ok(report);
    }
    // Calling off has led here; it does not end this look.
    run.begin_undo();
    run.settled(ORDER_STEP).await?;
    match run.look(ORDER_STEP, || find(run, claim)).await {
        Ok(Some(server)) => report.kept.push(resource(&run.zone, &server.id)),
        Ok(None) => {}
        Err(Stop::Failed(failed)) => report.unverified = Some(failure::words(&failed.failure)),
        Err(stop) => return Err(stop),
    }
    Ok(report)
}

/// After a restart: what came of the order is written down. The claimant finds the host by its claim; where there is no
/// claimant any more, a reclaim does.
pub(crate) async fn resume(run: &Run, active: &Active, request: &OrderRequest) -> Result<(), Error> {
    run.event(Happening::Opened);
    run.suspect();
    let report = match look_once_more(run, &request.claim).await {
        Ok(report) => report,
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    let state = match (report.is_clean(), report.kept.first()) {
        (false, _) => OperationState::Left,
        (true, None) => OperationState::Undone,
        (true, Some(host)) => {
            if let Err(stop) = run.conclude(ORDER_STEP, Some(host.clone()), json!({ "name": request.claim })).await {
                return Err(left_open(run, active, stop));
            }
            OperationState::Done
        }
    };
    run.shared.close(run, active, state, None, Some(&report), Vec::new()).await
}
