//! The probes against the simulator, as it is and with one assumption broken at a time.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod assumptions;
mod ending;
mod misbehaviour;
mod support;
mod verdicts;
