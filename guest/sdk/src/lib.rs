//! Knows the contract between policies and the host, from a policy's side; must not know what any policy decides.
//!
//! A whole policy, compiled to a component that imports nothing but the log, where a panic is heard:
//!
//! ```
//! use windlass_guest_sdk::prelude::*;
//!
//! settings! {
//!     /// Waits a fixed time when the type is out of stock, and leaves everything else to the next policy.
//!     pub struct Patience {
//!         /// Milliseconds between two attempts.
//!         pub wait_ms: u64 = 60_000,
//!     }
//! }
//!
//! impl Retry for Patience {
//!     fn decide(&self, question: retry::Question) -> retry::Answer {
//!         match question.failure.class {
//!             FailureClass::OutOfStock => retry::Answer::wait(self.wait_ms).because("stock may come back"),
//!             _ => retry::Answer::defer(),
//!         }
//!     }
//! }
//!
//! export_policy!(Patience: retry);
//! ```
//!
//! * [`settings!`] makes the settings type: documented fields with defaults, its JSON Schema, errors that name the key.
//!   [`choices!`] makes an enumeration for one of them.
//! * One trait for each slot: [`StateMapping`], [`Retry`], [`Rollback`], [`Release`], [`Provisioning`], [`Placement`].
//!   Questions and answers are the contract's own types, in the module that has the slot's name.
//! * [`export_policy!`] exports the slots that it names. The policy's name, version and summary are its package's.
//! * [`log`] and [`scaleway`] are what a policy may ask of the host. A component imports what its source calls; each
//!   import but `log` has to be granted by the operator.
//! * [`testing`] runs a policy natively in `cargo test`, with fake answers from Scaleway.
//!
//! A policy that has to compute something from its settings implements [`Policy`] for a type of its own.

// The macros name this crate as a policy does; its own tests use them too.
extern crate self as windlass_guest_sdk;

#[cfg(all(target_arch = "wasm32", feature = "bump-allocator"))]
mod allocator;
#[doc(hidden)]
pub mod bindings;
mod configuration;
mod exported;
pub mod log;
mod macros;
mod names;
#[doc(hidden)]
pub mod rules;
pub mod scaleway;
mod setting;
mod slots;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use configuration::{Policy, Settings};
pub use setting::Setting;
pub use slots::{Placement, Provisioning, Release, Retry, Rollback, StateMapping};
pub use slots::{placement, provisioning, release, retry, rollback, state_mapping};

/// What more than one slot speaks about.
pub mod types {
    pub use crate::bindings::imports::windlass::policy::types::{
        Failure, FailureClass, Label, Milliseconds, Money, Object, Program, Requester, ResourceKind, Subject, Timestamp,
    };
}

/// Everything a policy needs, in one `use`.
pub mod prelude {
    pub use crate::types::{Failure, FailureClass, Milliseconds, Money, Requester, ResourceKind, Subject, Timestamp};
    pub use crate::{
        Placement, Policy, Provisioning, Release, Retry, Rollback, Setting, Settings, StateMapping, choices,
        export_policy, log, placement, provisioning, release, retry, rollback, scaleway, settings, state_mapping,
    };
}

/// What the macros name in a policy's crate, so that it needs no dependency but this one.
#[doc(hidden)]
pub mod reexports {
    #[cfg(target_arch = "wasm32")]
    pub use crate::exported::report_panics;
    pub use crate::exported::{Configured, describe};
    pub use crate::setting::{ObjectSchema, member, quote};
    pub use serde;
}
