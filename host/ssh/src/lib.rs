//! Knows how one command is run on one machine over ssh. Must not know what commands are for, where keys are kept, or
//! who asks: time limits over all, retries and what becomes of output are the caller's.
//!
//! # Guarantees
//! - The host key is checked before anything of ours is sent, keys and passwords included.
//! - A command whose run is dropped is sent SIGTERM, and its input ends.
//! - No private key and no password is in errors, in logs or in what `Debug` shows.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod host_key;
mod login;
mod session;

#[cfg(test)]
mod tests;

pub use error::{Error, KeyError};
pub use host_key::{HostKey, ShownHostKey};
pub use login::{Identity, Login, Password};
pub use session::{Destination, Input, Session, Stream};
