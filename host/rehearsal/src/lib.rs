//! Knows how outcomes of the same scenario under several configurations are compared, judged by laws and shown. Must not
//! know how a rehearsal runs (that is `windlass-fleeting`), a command line or a terminal.
//!
//! - [`Rehearsal::run`] rehearses every arm with every seed.
//! - [`FIGURES`] are what an [`Outcome`](windlass_fleeting::Outcome) is measured by; [`Law`]s are conditions on them.
//! - [`recorded`] makes a scenario from the journal of a real group, [`imported`] from a GitLab's jobs.
//! - [`Difference`]s compare arms seed by seed, so that what the seed draws is the same for both.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod comparison;
mod figure;
mod import;
mod law;
mod page;
mod record;
mod run;

pub use comparison::{Difference, Parting};
pub use figure::{FIGURES, Figure, Spread, Unit};
pub use import::{ImportError, Imported, imported};
pub use law::{Law, LawError, LawResult, Violation};
pub use record::recorded;
pub use run::{ArmOutcomes, Calibrated, NamedArm, Rehearsal, RehearsalFailure};
