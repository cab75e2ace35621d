//! Clusters on the simulated Scaleway.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod kill;
mod life;
mod named;
mod support;
mod table;
