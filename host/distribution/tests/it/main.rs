//! Attacks on the way from a registry to the bytes, each by a registry that does as it is told; the trust in keys.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub)]

mod credentials;
mod hostile;
mod locked_and_cached;
mod support;
mod trust;
