//! Knows operations: how servers are created, undone, cleaned up and swept, with a journal, under policies. Must not know
//! command lines, runners or Kubernetes.

mod capabilities;
mod cleanup;
mod clock;
mod control;
mod create;
mod error;
mod execute;
mod failure;
mod identifier;
mod images;
mod inventory;
mod journal;
mod lifecycle;
pub mod metric_names;
mod plan;
mod poller;
mod resume;
mod run;
mod specification;
mod state_directory;
mod sweep;
mod tags;
mod undo;

pub use capabilities::scaleway_capabilities;
pub use cleanup::{CleanedUp, PendingCleanup, Target};
pub use clock::Clock;
pub use control::{Control, Event, Happening};
pub use error::{Error, OperationFailure};
pub use identifier::{GroupName, OperationId, OwnerName};
pub use journal::{
    Durability, Entry, Journal, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind,
    ResourceName,
};
pub use lifecycle::{CreatedServer, Lifecycle, Limits, Options, PendingCreate};
pub use resume::{Resumed, ResumedOperation};
pub use specification::{
    AddressKind, CloudInit, DEFAULT_DEADLINE_MILLISECONDS, ExtraVolume, ImageChoice, RootVolume, ServerSpecification,
    VolumeKind,
};
pub use state_directory::StateDirectory;
pub use sweep::{Machine, Sweep, SweepRequest, Unexplained};
pub use undo::{Left, Report};
