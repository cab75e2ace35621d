//! Machines that are not made but claimed and released: Apple silicon hosts, each a physical Mac.
//!
//! A host's name is the only mark of whose it is. What follows from that, and what a crash leaves at each point, is
//! described in `docs/machines.md`.

pub(crate) mod actions;
mod adopt;
mod eligibility;
pub(crate) mod host;
mod list;
mod listing;
pub(crate) mod lock;
mod lost_order;
pub(crate) mod names;
mod order;
pub(crate) mod origin;
mod reclaim;
pub(crate) mod restart;
mod resume;
mod shared;
mod standing;
pub(crate) mod steps;

pub(crate) use adopt::AdoptSpecification;
pub use adopt::AdoptedMachine;
pub use eligibility::{Ineligible, Pool};
pub use listing::Listing;
pub use names::{ClaimName, PoolPrefix};
pub use order::OrderRequest;
pub use origin::HostOrigin;
pub use reclaim::{Reclaim, ReclaimMode, ReclaimRequest, Stranded};
pub(crate) use resume::resume;
pub(crate) use shared::Machines;
pub use standing::JournalledClaim;
pub(crate) use steps::ORDER_STEP;

use crate::Error;
use crate::identifier::GroupName;
use crate::journal::Operation;

/// The group of all operations on hosts: they have no tags, and so no group of their own.
pub(crate) fn group() -> GroupName {
    match "machines".parse() {
        Ok(group) => group,
        Err(_) => unreachable!("a constant that is a good name"),
    }
}

/// What was asked of an operation, by its row in the journal.
pub(crate) fn specification<T: serde::de::DeserializeOwned>(operation: &Operation) -> Result<T, Error> {
    serde_json::from_value(operation.specification.clone())
        .map_err(|error| Error::journal_row("operations", operation.id.as_str(), "specification", error))
}
