//! Machine lifecycles on Scaleway under policies in WebAssembly, in one dependency. Knows what an embedder needs; must
//! do nothing itself.
//!
//! # Guide
//! - [`policy`] asks: a [`Host`](policy::Host) loads, limits, records and replaces policies, and answers questions.
//! - [`scaleway`] calls: a [`Client`](scaleway::Client) with Scaleway's own configuration, and a taxonomy of failures.
//! - [`lifecycle`] does both: servers and Macs, created, cleaned up and released with a journal, under policies.
//! - `cluster` (feature `cluster`) does it to servers that belong together.
//! - `simulator` (feature `simulator`) is a Scaleway in the same process, for tests.
//!
//! Two whole programs stand in `examples/`: one asks a policy, one creates a server under policies. The guide is
//! [docs/embedding.md](https://github.com/windlass-dev/windlass/blob/main/docs/embedding.md).
//!
//! # Ask a policy
//! ```no_run
#![doc = include_str!("../examples/ask_a_policy.rs")]
//! ```
//!
//! # Create a server under policies
//! ```no_run
#![doc = include_str!("../examples/create_a_server.rs")]
//! ```
//!
//! # What may grow
//! Options are made with their `new` or `default` and changed field by field; they, and enums that may grow, are
//! `#[non_exhaustive]`. Questions and answers ([`policy::slots`]) are the contract's: they grow with its version.
//! Scaleway's own objects ([`scaleway::types`]) grow with its API: write the rest of a request as
//! `..Default::default()`.
//!
//! # What comes from elsewhere
//! Types of other crates that stand in signatures are reached through this one, so that their versions agree:
//! [`async_trait`], [`bytes`], [`cap_std`], [`http`], [`jiff`], [`serde_json`], [`url`], [`BoxFuture`],
//! [`CancellationToken`].

pub use windlass_lifecycle as lifecycle;
pub use windlass_policy as policy;
pub use windlass_scaleway as scaleway;

#[cfg(feature = "cluster")]
pub use windlass_cluster as cluster;
#[cfg(feature = "simulator")]
pub use windlass_simulator as simulator;

/// Makes a trait of async functions: [`policy::GrantedCapability`] is one.
pub use async_trait;
/// Bodies of [`scaleway::Transport`] and [`scaleway::RawAnswer`].
pub use bytes;
/// The state directory's handle: [`policy::HostOptions::state_dir`], [`lifecycle::StateDirectory::handle`].
pub use cap_std;
/// What a [`scaleway::Transport`] returns.
pub use futures::future::BoxFuture;
/// Requests and responses of [`scaleway::Transport`].
pub use http;
/// Points in time of Scaleway's objects.
pub use jiff;
/// Settings of policies, and what is recorded.
pub use serde_json;
/// What ends operations early: [`lifecycle::Control`].
pub use tokio_util::sync::CancellationToken;
/// Addresses: [`scaleway::Settings::api_url`].
pub use url;
