//! The policy host against real components: the built-in defaults, the examples, and guests that mean harm.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod arbitrary;
mod brakes;
mod cache;
mod capabilities;
mod chains;
mod contract;
/// Keys and bundles as cosign makes them.
#[path = "../../../distribution/tests/it/cosign.rs"]
#[allow(dead_code, unreachable_pub)]
mod cosign;
mod crowds;
mod deciding;
mod direct;
mod guests;
mod hostile;
mod loading;
mod named_guests;
mod observing;
mod recording;
mod rules;
mod scoped;
mod shadows;
mod support;
mod swapping;
mod trials;
mod trust;
