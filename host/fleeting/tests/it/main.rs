//! The program as a runner starts it, over a simulated Scaleway.

#![allow(clippy::unwrap_used)]

mod checking;
mod console;
mod plugin;
mod sharing;
mod simulating;
mod traces;
