//! Attacks on the way from a registry to the bytes, each by a registry that does as it is told; the trust in keys.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod cosign;
mod credentials;
mod hostile;
mod locked_and_cached;
mod referrers;
mod sigstore;
mod support;
mod trust;
