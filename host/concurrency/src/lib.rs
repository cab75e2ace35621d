//! What the host's threads and tasks share: building blocks that know nothing of servers, policies or files.
//!
//! What each of them promises holds under every schedule. `just interleavings` builds this crate once more, with
//! `--cfg windlass_interleavings`: the same code then runs on the primitives of a scheduler that draws which thread or
//! task goes on at every step (module `sync`), and the module `interleavings` holds what is checked.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod active_keys;
mod flight;
mod generations;
mod group_commit;
mod health;
mod sync;

#[cfg(all(test, windlass_interleavings))]
mod interleavings;

pub use active_keys::{ActiveKey, ActiveKeys};
pub use flight::Flight;
pub use generations::{Generations, Locked};
pub use group_commit::{Bounds, Closed, GroupCommit};
pub use health::Health;
