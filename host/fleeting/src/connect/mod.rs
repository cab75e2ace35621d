//! How a runner reaches an instance: keys and users.

mod key;
mod openssh;
mod user;

pub use key::KeyError;
pub(crate) use key::KeyPair;
pub(crate) use user::{Family, family};
