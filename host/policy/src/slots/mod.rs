//! The slots: for each decision point the question and answer as Rust types, equal to the WIT in `wit/policy`, and how
//! a host handles them. Every slot is laid out alike; who has read [`retry`] can read all.
//!
//! The types serialise as the contract spells them (kebab-case; a variant without payload is a string, one with payload
//! an object with one key), so a decision record, a command line's JSON and the WIT use the same words.

pub mod placement;
pub mod provisioning;
pub mod release;
pub mod retry;
pub mod rollback;
pub(crate) mod slot;
pub mod state_mapping;
mod topic;
pub mod types;

pub use placement::Placement;
pub use provisioning::Provisioning;
pub use release::Release;
pub use retry::Retry;
pub use rollback::Rollback;
pub use slot::{Answer, CONTRACT_VERSION, Deferred, Reasons, Slot};
pub(crate) use slot::{DECIDE, sealed};
pub use state_mapping::StateMapping;
pub use topic::Topic;

pub use crate::slot_name::{OnFailure, SlotName};

impl sealed::Sealed for StateMapping {}
impl sealed::Sealed for Retry {}
impl sealed::Sealed for Rollback {}
impl sealed::Sealed for Release {}
impl sealed::Sealed for Provisioning {}
impl sealed::Sealed for Placement {}

/// Runs `$body` with `$slot` standing for the slot type that `$name` names.
#[macro_export]
macro_rules! with_slot {
    ($name:expr, $slot:ident => $body:expr) => {
        match $name {
            $crate::slots::SlotName::StateMapping => {
                type $slot = $crate::slots::StateMapping;
                $body
            }
            $crate::slots::SlotName::Retry => {
                type $slot = $crate::slots::Retry;
                $body
            }
            $crate::slots::SlotName::Rollback => {
                type $slot = $crate::slots::Rollback;
                $body
            }
            $crate::slots::SlotName::Release => {
                type $slot = $crate::slots::Release;
                $body
            }
            $crate::slots::SlotName::Provisioning => {
                type $slot = $crate::slots::Provisioning;
                $body
            }
            $crate::slots::SlotName::Placement => {
                type $slot = $crate::slots::Placement;
                $body
            }
        }
    };
}
pub use with_slot;
