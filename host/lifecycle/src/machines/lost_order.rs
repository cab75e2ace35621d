use windlass_scaleway::Zone;

use super::names::ClaimName;
use crate::Error;
use crate::journal::progress::Progress;
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState};
use crate::run::milliseconds;
use crate::shared::Shared;

/// An order whose answer was lost, and which may still be delivered.
pub(super) struct LostOrder {
    pub(super) operation: Operation,
    pub(super) claim: String,
    pub(super) look_at: u64,
}

pub(super) fn second_look(shared: &Shared) -> u64 {
    milliseconds(shared.limits.second_look)
}

/// The orders of a zone whose answers were lost, and that nobody has looked at for the last time. To be asked for under
/// the lock: an order that is under way holds it.
pub(super) fn lost_orders(shared: &Shared, zone: &Zone) -> Result<Vec<LostOrder>, Error> {
    let filter = OperationFilter {
        kind: Some(OperationKind::OrderMachine),
        states: vec![OperationState::Open, OperationState::Left, OperationState::Unverified],
        ..OperationFilter::default()
    };
    let mut lost = Vec::new();
    for operation in shared.journal.operations(&filter)?.into_iter().filter(|order| order.zone == zone.as_str()) {
        let entries = shared.journal.entries(&operation.id)?;
        let Some(at) = Progress::of(&entries)?.lost_call(&operation, &shared.limits) else { continue };
        let claim = operation.specification["claim"].as_str().unwrap_or_default().to_owned();
        lost.push(LostOrder { operation, claim, look_at: at.saturating_add(second_look(shared)) });
    }
    Ok(lost)
}

/// Refuses to claim another host for a claim for which one may still be delivered.
pub(super) fn check_undelivered(shared: &Shared, zone: &Zone, claim: &ClaimName) -> Result<(), Error> {
    match lost_orders(shared, zone)?.into_iter().find(|order| order.claim == claim.as_str()) {
        Some(order) => Err(Error::OrderUnverified { operation: order.operation.id, look_at: order.look_at }),
        None => Ok(()),
    }
}
