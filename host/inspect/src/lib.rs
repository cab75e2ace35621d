//! Knows how the content of a state directory is shown to people and programs: operations, decisions and policies, in
//! each form of output, and how a command says what failed. Must not know credentials, the network, configuration
//! files or Kubernetes. It changes nothing, and needs nobody who does: a journal is read while others write it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod audit;
#[cfg(feature = "terminal")]
pub mod decisions;
pub mod document;
pub mod explain;
#[cfg(feature = "terminal")]
pub mod failure;
#[cfg(feature = "terminal")]
mod inspector;
#[cfg(feature = "terminal")]
pub mod listing;
#[cfg(feature = "terminal")]
pub mod operations;
#[cfg(feature = "terminal")]
pub mod output;
#[cfg(feature = "terminal")]
mod pager;
#[cfg(feature = "terminal")]
pub mod policies;
#[cfg(feature = "terminal")]
pub mod removals;
#[cfg(feature = "terminal")]
mod table;
pub mod text;
pub mod timeline;
#[cfg(feature = "terminal")]
pub mod usage;
pub mod words;

#[cfg(feature = "terminal")]
pub use inspector::{Commands, Inspector};
