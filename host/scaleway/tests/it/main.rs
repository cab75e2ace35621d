//! The crate from outside: what it sends, what it understands, how it waits, and what it never tells.

#![allow(clippy::unwrap_used)]

mod answers;
mod apple_silicon;
mod limits;
mod observation;
mod recordings;
mod requests;
mod socket;
mod support;
