//! The binary `windlass` from outside, against its own simulator.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod abandoning;
mod asking;
mod authors;
mod bad_input;
mod beginning;
mod clusters;
mod completion;
mod conformance;
mod console;
mod cosign;
mod demo;
mod detached;
mod distribution;
mod doctor;
mod endings;
mod failures;
mod help;
mod links;
mod output;
mod policies;
mod servers;
mod serving;
mod shapes;
mod state;
mod support;
mod telemetry;
mod tutorial;
mod unwritable;
