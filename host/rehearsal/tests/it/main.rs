//! Rehearsals of small mornings, each with the real group over the simulator.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod bad_policies;
mod calibration;
mod clusters;
mod incidents;
mod macs;
mod support;
mod tuning;
