//! The decision log: what was decided, by whom, and everything between, as JSON lines in `state_dir/decisions`.
//!
//! A decision hands its record over and goes on; a thread serialises and writes. So a record can be lost in two ways,
//! both visible: when more is decided than the disk takes (the queue is bounded; the next record says how many are
//! missing in `lost-before`, and a metric counts them), and when the machine loses power (nothing is synced).

mod read;
mod record;
mod redaction;
mod write;

pub use read::{DecisionFilter, DecisionList, DecisionReader, DecisionSummary};
pub use record::{Asked, DecisionRecord, Outcome};
pub use redaction::Redaction;
pub(crate) use write::DecisionLog;
pub use write::DecisionLogOptions;

/// The folder within the state folder.
const FOLDER: &str = "decisions";
/// The end of a segment's name.
const SUFFIX: &str = ".jsonl";
