//! Knows how to search for a violation of the promise: random work of several processes over one simulated Scaleway,
//! with failing calls, lost power, and users who do things of their own; after each run the laws are checked. Must not
//! know how the lifecycle does its work.
//!
//! # Guide
//! - [`Story::of_seed`] draws a run from a seed; [`run`] carries it out under simulated time and says which laws it
//!   broke; [`Story::shrink`] finds the shortest story that still breaks one. The same story always ends in the same
//!   way.
//! - [`Disk`] is the file system under the journals: what was not synced is lost with the power.
//! - [`Day::of_seed`] draws a day of a runner whose loop is GitLab's own; [`DayWorld`] is the rest of that world, which
//!   the binary `runner-world` serves to `tests/fleeting-go`.
//! - `just simulate` runs many seeds; `docs/testing.md` says what the laws are.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod day;
mod day_world;
mod disk;
mod farm;
mod laws;
mod runner;
mod story;
mod users;
mod wire;
mod world;

pub use day::{Day, DayEvent, Setting, Swap, Timed};
pub use day_world::{Answer, Ask, Belief, Call, DayWorld, Done, Request};
pub use disk::Disk;
pub use story::{
    CLUSTERS, Cast, Collection, Endpoint, Event, Oddity, OutageKind, PROCESSES, RUNNER, SEATS, Shape, Story, User, What,
};
pub use world::{Ending, keep_compiled_policies, run};
