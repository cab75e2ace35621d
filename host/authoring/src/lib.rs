//! Knows how a policy's folder looks, how it becomes a component, and how the contract reads as a schema or a page;
//! must not know what a policy decides.
//!
//! * [`NewPolicy`] writes the folder of a new policy, which needs nothing of this repository.
//! * [`build`] makes a component of such a folder; for scripts with tools that it installs once.
//! * [`schema`] and [`reference()`] say the contract in `wit/policy` once more: for editors, and for people.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod build;
mod contract;
mod error;
mod new;
mod reference;
mod schema;
mod script;
mod shape;
mod toolchain;

mod packed {
    include!(concat!(env!("OUT_DIR"), "/packed.rs"));
}

pub use build::{Built, build, is_built};
pub use error::Error;
pub use new::{Language, NewPolicy, PolicyName};
pub use reference::reference;
pub use schema::{SchemaOf, schema};
