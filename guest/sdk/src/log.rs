//! Lines for the host's log. They are recorded with the decision, and bounded in number and length. What a panic says
//! is such a line, too.
//!
//! Granted to every policy. Not to be called from `configure`.

use crate::bindings::imports::windlass::policy::log as contract;

pub use contract::Level;

/// For the author of the policy.
pub fn debug(message: impl AsRef<str>) {
    write(Level::Debug, message.as_ref());
}

/// For the operator, in passing.
pub fn info(message: impl AsRef<str>) {
    write(Level::Info, message.as_ref());
}

/// For the operator: something is not as it should be.
pub fn warn(message: impl AsRef<str>) {
    write(Level::Warn, message.as_ref());
}

/// For the operator: something is wrong.
pub fn error(message: impl AsRef<str>) {
    write(Level::Error, message.as_ref());
}

/// Writes one line.
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    contract::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::fake::log(level, message);
}
