//! Steps that more than one kind of operation looks for in the journal.

pub(crate) const ORDER_STEP: &str = "order-host";
pub(crate) const PENDING_STEP: &str = "claim-pending";
