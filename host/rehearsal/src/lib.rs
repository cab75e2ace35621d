//! Knows how outcomes of the same scenario under several configurations are compared, judged by laws and shown, and what
//! the operator of a cluster does in one. Must not know how a runner's group is rehearsed (that is `windlass-fleeting`), a
//! command line or a terminal.
//!
//! - [`Rehearsal::run`] rehearses every arm with every seed: runners' groups, or clusters ([`ClusterArm`]).
//! - [`FIGURES`] are what an [`Outcome`] is measured by; [`Law`]s are conditions on them.
//! - [`recorded_from`] makes a scenario from the journal of a real group, [`imported`] from a GitLab's jobs, and
//!   [`with_jobs`] from both; [`recorded_cluster`] makes one of a real cluster.
//! - [`shown`] is what a console shows of a rehearsal that was saved.
//! - [`scenario_schema`] says what a scenario's file may hold.
//! - [`Tuning::run`] searches the settings that reach a goal within laws.
//! - [`Difference`]s compare arms seed by seed, so that what the seed draws is the same for both.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod cluster;
mod comparison;
mod figure;
mod halving;
mod import;
mod law;
mod outcome;
mod page;
mod record;
mod record_cluster;
mod run;
mod saved;
mod schema;
mod search;
mod tune;
mod tune_page;

pub use cluster::ClusterArm;
pub use comparison::{Difference, Parting};
pub use figure::{FIGURES, Figure, Spread, Unit};
pub use import::{ImportError, Imported, imported, with_jobs};
pub use law::{Law, LawError, LawResult, Violation};
pub use outcome::{ArmKind, ClusterChange, ClusterOutcome, Outcome};
pub use record::{recorded, recorded_from};
pub use record_cluster::{clusters_in, recorded_cluster};
pub use run::{
    ArmOutcomes, Calibrated, NOT_CALIBRATED, NamedArm, Rehearsal, RehearsalFailure, RehearsedArm, ToldScale,
};
pub use saved::shown;
pub use schema::scenario_schema;
pub use search::{Search, SearchError};
pub use tune::{Candidate, HeldOut, HeldOutArm, Set, TUNED, TuneFailure, TuneOptions, Tuning};
