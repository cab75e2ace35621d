//! A Scaleway that runs in this process: its APIs with their states, refusals, paging and timing, and with failures on
//! demand. Knows how Scaleway behaves; must not know what our own client, operations or policies make of it.
//!
//! # Guide
//! - [`Simulator::new`] with [`Options`] makes an empty Scaleway at its simulated time 0.
//! - [`Simulator::transport`] puts it under a [`windlass_scaleway::Client`] in the same process, also under tokio's
//!   paused time; [`Simulator::serve`] serves it on a socket; [`Simulator::router`] is the tower service in between.
//! - [`Simulator::add_fault`] makes calls fail, before or after their effect; [`Simulator::set_server_state`] does what
//!   an owner does behind our back; [`Simulator::set_behaviour`] makes the whole of it differ from what is believed;
//!   [`Simulator::advance`] moves simulated time; [`Simulator::resources`] and [`Simulator::requests`] show what is
//!   there and what was asked. All of them exist over HTTP under `/_simulator`.
//!
//! Where a recording of the real API proves a behaviour, the code says *recorded*; where only the SDK does, *SDK*;
//! where nothing does, `Assumption:` stands at that spot.

// Tests may unwrap; the build without tests is still held to the rule.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod api;
mod apple_silicon;
mod behaviour;
mod call;
mod catalogue;
mod clock;
mod control;
mod control_error;
mod fault;
mod forced_state;
mod offer;
mod options;
mod paging;
mod random;
mod refusal;
mod request_limit;
mod resources;
mod serve;
mod simulator;
mod transport;
mod world;

pub use apple_silicon::{AppleSilicon, AppleSiliconPool, FloorRefusal, InvalidPool};
pub use behaviour::{Behaviour, UnknownBehaviour};
pub use catalogue::{LABELS as IMAGE_LABELS, recorded_price};
pub use clock::EPOCH_SECONDS;
pub use control_error::ControlError;
pub use fault::{Effect, Fault, FaultKind, FaultRule, UnknownFaultKind};
pub use forced_state::{ForcedState, UnknownState};
pub use offer::Offer;
pub use options::{Availability, Durations, Latency, Options, Quotas, RefusalStatus, Span};
pub use request_limit::RequestLimit;
pub use resources::Resources;
pub use simulator::{RequestRecord, Simulator, key_mark};
