//! Machines that are not made but claimed and released: Apple silicon hosts, each a physical Mac.
//!
//! A host's name is the only mark of whose it is. What follows from that, and what a crash leaves at each point, is
//! told in `docs/machines.md`.

mod actions;
mod adopt;
mod eligibility;
mod host;
mod list;
mod listing;
mod lock;
mod lost_order;
mod names;
mod order;
mod origin;
mod reclaim;
mod release;
mod restart;
mod resume;
mod shared;
mod steps;

pub use adopt::AdoptedMachine;
pub use eligibility::{Ineligible, Pool};
pub use listing::Listing;
pub use names::{ClaimName, PoolPrefix};
pub use order::OrderRequest;
pub use origin::HostOrigin;
pub use reclaim::{Reclaim, ReclaimMode, ReclaimRequest, Stranded};
pub(crate) use release::ReleaseSpecification;
pub use release::{ReleaseOutcome, ReleaseRequest, Released};
pub(crate) use resume::resume;
pub(crate) use shared::Machines;
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
fn specification<T: serde::de::DeserializeOwned>(operation: &Operation) -> Result<T, Error> {
    serde_json::from_value(operation.specification.clone())
        .map_err(|error| Error::journal_row("operations", operation.id.as_str(), "specification", error))
}
