//! Knows clusters of servers: how they are created, scaled and terminated as one thing, and what a failure undoes. Must not know
//! command lines or Kubernetes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod hooks;
mod units;
