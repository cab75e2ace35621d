//! Knows which assumptions about Scaleway's real API Windlass relies on without a recording that proves them, and how
//! each is put to an API as a question. Must not know command lines or policies.
//!
//! # Guide
//! - [`Assumption::all`] are the assumptions. `docs/assumptions.md` is made of them, and the code that relies on one
//!   names its id: `(assumption: <id>)`.
//! - [`Probe::all`] are the questions, each about one assumption.
//! - [`Plan::make`] reads the zone's catalogue, chooses the cheapest server and says what a run [costs](Plan::cost).
//!   It changes nothing.
//! - [`Plan::run`] asks, removes what it made, and [reports](Report).
//!
//! # Guarantees
//! - Everything that a run makes carries a tag of its own, is written down before it is used, and is removed at the
//!   end: when a probe fails, when the time is up, when it is called off. What is not proven gone is reported.
//! - Nothing else is touched: only what Scaleway's answers say that this run made, and what carries its tag, each
//!   read again by its id.
//! - Macs are never ordered: one costs a day.
//!
//! # How it asks
//! With raw calls. The typed client is made to survive an API that behaves otherwise, so it would hide what is asked
//! about. Filters, totals and even listings are on trial here; so a removal reads listings whole, filters them
//! itself, and believes only what it reads by id.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod assumptions;
mod bench;
mod catalogue;
mod fixture;
mod plan;
mod probe;
mod probes;
mod remove;
mod run;

pub use api::Kind;
pub use assumptions::{Assumption, Check, Topic};
pub use catalogue::{Error, ServerChoice};
pub use fixture::Fixture;
pub use plan::{Bounds, Cost, Plan};
pub use probe::{Probe, Verdict};
pub use remove::Leftover;
pub use run::{Answered, Report};
