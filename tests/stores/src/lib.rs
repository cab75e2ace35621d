//! What every [`Log`](windlass_lifecycle::log::Log) and every [`ClusterStore`](windlass_cluster::ClusterStore) must keep,
//! as tests that take one. A new place to keep state is one implementation, and a test that calls these.

#![allow(clippy::unwrap_used, reason = "they are tests: a law that unwraps fails with the error")]

pub mod clusters;
pub mod log;
