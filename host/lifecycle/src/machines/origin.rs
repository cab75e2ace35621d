//! Where a claimed host came from: a host that was ordered is paid for until somebody deletes it.

use serde::Serialize;

use super::names::ClaimName;
use super::steps::ORDER_STEP;
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState, Phase};
use crate::lifecycle::Lifecycle;
use crate::machines::adopt::CLAIM_STEP;
use crate::release::{ReleaseOutcome, ReleaseRequest};
use crate::shared::Shared;
use crate::{Error, OperationId};

/// Where a claimed host came from, as far as the journal knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HostOrigin {
    /// It was claimed from a pool.
    Pool,
    /// It was ordered for its claim.
    Ordered,
    /// The journal does not say: another journal's operation claimed or ordered it. It is not deleted for that, and a
    /// caller that puts it into a pool says so: the pool may grow by a host that was ordered.
    Unknown,
}

impl Lifecycle {
    /// Where the host that carries this claim came from. The journal remembers it until the host is released.
    ///
    /// # Errors
    /// When the journal cannot be read. The origin is not known then, either.
    pub fn host_origin(&self, host: &str, claim: &ClaimName) -> Result<HostOrigin, Error> {
        origin(&self.shared, host, claim)
    }
}

pub(crate) fn origin(shared: &Shared, host: &str, claim: &ClaimName) -> Result<HostOrigin, Error> {
    for operation in shared.journal.operations_of_resource(host)? {
        let step = match operation.kind {
            OperationKind::AdoptMachine => CLAIM_STEP,
            OperationKind::OrderMachine => ORDER_STEP,
            _ => continue,
        };
        let entries = shared.journal.entries(&operation.id)?;
        let took_effect = entries.iter().any(|entry| {
            entry.step == step
                && (entry.phase == Phase::Outcome || operation.state == OperationState::Done)
                && entry.resource.as_ref().is_some_and(|resource| resource.id == host)
        });
        if took_effect {
            return Ok(match operation.kind {
                OperationKind::OrderMachine => HostOrigin::Ordered,
                _ => HostOrigin::Pool,
            });
        }
    }
    // The answer to the order was lost, and the host came later than anybody looked for it.
    let orders = OperationFilter { kind: Some(OperationKind::OrderMachine), ..OperationFilter::default() };
    let is_for = |order: &Operation| order.specification["claim"].as_str() == Some(claim.as_str());
    let ordered = shared.journal.operations(&orders)?.iter().any(is_for);
    Ok(if ordered { HostOrigin::Ordered } else { HostOrigin::Unknown })
}

/// The operations that claimed or ordered this host and that a release ends with this outcome. The claim of somebody
/// else goes on where the host only carries another name now.
pub(crate) fn ended_claims(
    shared: &Shared,
    request: &ReleaseRequest,
    outcome: &ReleaseOutcome,
) -> Result<Vec<OperationId>, Error> {
    if !outcome.ends_claim() {
        return Ok(Vec::new());
    }
    let every = !matches!(outcome, ReleaseOutcome::NotOurs { .. });
    let claims = shared.journal.operations_of_resource(&request.host)?.into_iter().filter(|operation| {
        matches!(operation.kind, OperationKind::AdoptMachine | OperationKind::OrderMachine)
            && matches!(operation.state, OperationState::Done | OperationState::Kept)
            && operation.ended_by.is_none()
            && (every || operation.specification["claim"].as_str() == Some(request.claim.as_str()))
    });
    Ok(claims.map(|operation| operation.id).collect())
}
