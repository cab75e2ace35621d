use std::sync::Arc;

use super::{adopt, order};
use crate::Error;
use crate::journal::{Operation, OperationKind};
use crate::release;
use crate::run::Run;
use crate::shared::{Active, Shared};

/// After a restart: what an operation on a machine left open is ended.
pub(crate) async fn resume(shared: &Arc<Shared>, operation: &Operation, run: Run, active: Active) -> Result<(), Error> {
    match operation.kind {
        OperationKind::AdoptMachine => adopt::resume(&run, &active).await,
        OperationKind::OrderMachine => order::resume(&run, &active, operation).await,
        OperationKind::ReleaseMachine => release::resume(shared, operation, run, active).await,
        OperationKind::CreateServer | OperationKind::CleanupServer | OperationKind::Sweep => Ok(()),
    }
}
