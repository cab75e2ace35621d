//! One module for each slot, all laid out alike: the contract's types, the trait, the ways to answer.

pub mod placement;
pub mod provisioning;
pub mod release;
pub mod retry;
pub mod rollback;
pub mod state_mapping;

pub use placement::Policy as Placement;
pub use provisioning::Policy as Provisioning;
pub use release::Policy as Release;
pub use retry::Policy as Retry;
pub use rollback::Policy as Rollback;
pub use state_mapping::Policy as StateMapping;
