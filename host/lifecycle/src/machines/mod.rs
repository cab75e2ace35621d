//! Machines that are not made but claimed and released: Apple silicon hosts, each a physical Mac.
//!
//! A host's name is the only mark of whose it is. What follows from that, and what a crash leaves at each point, is
//! told in `docs/machines.md`.

mod actions;
mod adopt;
mod eligibility;
mod host;
mod listing;
mod lock;
mod names;
mod order;
mod reclaim;
mod release;
mod restart;

use std::sync::Arc;

use windlass_scaleway::types::apple_silicon;
use windlass_scaleway::types::instance;

pub use adopt::AdoptedMachine;
pub use eligibility::{Ineligible, Pool};
pub use listing::Listing;
pub use names::{ClaimName, PoolPrefix};
pub(crate) use order::ORDER_STEP;
pub use order::OrderRequest;
pub use reclaim::{Reclaim, ReclaimMode, ReclaimRequest, Stranded};
pub use release::{ReleaseOutcome, ReleaseRequest, Released};

use crate::Error;
use crate::identifier::GroupName;
use crate::journal::{Operation, OperationKind};
use crate::lifecycle::{Active, Shared};
use crate::run::Run;

/// What the machines of a process share.
#[derive(Default)]
pub(crate) struct Machines {
    /// The part of the lock that holds within this process.
    lock: tokio::sync::Mutex<Option<tokio::time::Instant>>,
    pub(crate) hosts: listing::Listings<apple_silicon::Server>,
    pub(crate) servers: listing::Listings<instance::Server>,
}

/// The group of all operations on hosts: they have no tags, and so no group of their own.
fn group() -> GroupName {
    match "machines".parse() {
        Ok(group) => group,
        Err(_) => unreachable!("a constant that is a good name"),
    }
}

/// What was asked of an operation, by its row in the journal.
fn specification<T: serde::de::DeserializeOwned>(operation: &Operation) -> Result<T, Error> {
    serde_json::from_value(operation.specification.clone())
        .map_err(|error| Error::journal_row("operations", operation.id.as_str(), "specification", error))
}

/// After a restart: what an operation on a machine left open is ended.
pub(crate) async fn resume(shared: &Arc<Shared>, operation: &Operation, run: Run, active: Active) -> Result<(), Error> {
    match operation.kind {
        OperationKind::AdoptMachine => adopt::resume(&run, &active).await,
        OperationKind::OrderMachine => order::resume(&run, &active, operation).await,
        OperationKind::ReleaseMachine => release::resume(shared, specification(operation)?, run, active).await,
        OperationKind::CreateServer | OperationKind::CleanupServer | OperationKind::Sweep => Ok(()),
    }
}
