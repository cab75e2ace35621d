//! Clusters on the simulated Scaleway.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod kill;
mod life;
mod model;
mod named;
mod promises;
mod store;
mod support;
mod table;
