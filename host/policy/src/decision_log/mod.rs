//! The decision log: what was decided, by whom, and everything between, as JSON lines in `state_dir/decisions`.
//!
//! A decision hands its record over and goes on; a thread serialises and writes. So a record can be lost, visibly: when
//! more is decided than the disk takes or the disk takes nothing (the queue is bounded; the next record says how many
//! are missing in `lost-before`, and a metric counts them), and when the machine loses power within a second (what was
//! written is synced by then). Each slot has segments of its own. The oldest of the slot that has most bytes make room
//! for new ones, which is counted and reported as well; one that a host has open stays.
//!
//! Shadows answer later, so their answers have a log of their own, `state_dir/shadows`: no decision's record waits
//! for a shadow.

mod activity;
mod page;
mod read;
mod record;
mod redaction;
mod shadows;
mod weight;
mod write;

pub use activity::{Activity, PolicyActivity, Spread};
pub use page::DecisionPage;
pub use read::{DecisionFilter, DecisionList, DecisionReader, DecisionSummary, UnreadRecord, UnreadRecords};
pub use record::{Agreement, AppliedRule, DecisionRecord, LinkRecord, Outcome, ShadowRecord};
pub(crate) use redaction::REDACTED;
pub use redaction::Redaction;
pub use shadows::{ShadowAgreement, ShadowDifference, ShadowFailure, ShadowFilter, ShadowReport};
pub(crate) use weight::{of as weight, of_question as weight_of_question};
pub(crate) use write::DecisionLog;
pub use write::DecisionLogOptions;

use crate::slot_name::SlotName;

/// The folder within the state folder.
pub(crate) const FOLDER: &str = "decisions";
/// The folder of what shadows answered.
pub(crate) const SHADOWS: &str = "shadows";
/// The end of a segment's name.
const SUFFIX: &str = ".jsonl";

/// The name of a segment: when it was begun, by which process, its number there, and for which slot.
fn segment_name(begun_ms: u64, process: u32, number: u32, slot: SlotName) -> String {
    format!("{begun_ms:012x}-{process:08x}-{number:08x}.{slot}{SUFFIX}")
}

/// The slot whose decisions the segment of this name has.
fn slot_of(segment: &str) -> Option<SlotName> {
    segment.strip_suffix(SUFFIX)?.split_once('.')?.1.parse().ok()
}
