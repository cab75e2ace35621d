//! Knows what others may do to a host of policies, by seed, and which laws the host keeps meanwhile. Must not know how
//! the host keeps them.

mod good;
mod log;
mod messages;
pub mod peers;
pub mod policies;
mod server;

use std::path::PathBuf;
use std::time::Duration;

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program `windlass`.
    pub program: PathBuf,
    /// What is drawn.
    pub seed: u64,
    /// How long harm is done.
    pub time: Duration,
    /// Whether the client's time-out and the time to the end count: not on a machine that does much else.
    pub is_timed: bool,
}
