//! State in a real PostgreSQL, which each test starts for itself.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod cut;
mod downgrading;
mod failures;
mod hosts;
mod laws;
mod parts;
mod proxy;
mod refusals;
mod server;
mod silence;
mod tags;
mod tls;
