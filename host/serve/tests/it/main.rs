//! The server and its messages, from outside.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod deciding;
mod hostile;
mod socket;
mod support;
