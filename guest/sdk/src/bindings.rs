//! What wit-bindgen makes of the contract in `wit/`, checked in: a policy's build then compiles no parser of WIT, which
//! was most of it. `just bindings` makes it again, and a test holds it equal to the contract.
//!
//! One world for each slot, so that a component exports just the slots it names, and one for everything that can be
//! imported, from which the linker keeps what is used. The types of `windlass:policy/types`, and the functions that
//! lift and free what crosses the boundary, stand once and are shared by all.
#![allow(unsafe_code, missing_docs, unreachable_pub)]
#![allow(clippy::all, clippy::unwrap_used)]

#[rustfmt::skip]
pub mod imports;
#[rustfmt::skip]
pub mod placement;
#[rustfmt::skip]
pub mod policy;
#[rustfmt::skip]
pub mod provisioning;
#[rustfmt::skip]
pub mod release;
#[rustfmt::skip]
pub mod retry;
#[rustfmt::skip]
pub mod rollback;
#[rustfmt::skip]
pub mod rules;
#[rustfmt::skip]
mod runtime;
#[rustfmt::skip]
pub mod state_mapping;
