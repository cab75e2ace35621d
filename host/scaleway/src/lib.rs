//! Scaleway's HTTP APIs, typed: Instance, Block Storage, Marketplace, IPAM, Apple silicon. Knows how Scaleway answers
//! and refuses; must not know WebAssembly, policies, operations, or what anybody wants to do with a server.
//!
//! # Guide
//! - Get [`Settings`] from where Scaleway's tools have them ([`Settings::load`]), make a [`Client`], and ask it for an
//!   API: `client.instance(&zone).create_server(&request).await`. Methods are named as in Scaleway's SDK, objects live
//!   in [`types`].
//! - A failed call is an [`Error`]. Three questions matter: its [`class`](Error::class) (by the body's `type` first and
//!   the status after that), whether it [is ambiguous](Error::is_ambiguous), and whether it proves that something
//!   [is not there](Error::is_not_found). Nothing is retried here.
//! - Lists return all pages. Filter them again by tags ([`has_all_tags`]): Scaleway's filters are looser than they
//!   look. What is in a list was there; what is missing from it may be there all the same: read it by its id.
//! - Another [`Transport`] puts something else under the client, in the same process and under simulated time; a tower
//!   service becomes one by [`ServiceTransport`].
//!
//! ```no_run
//! use windlass_scaleway::types::instance::{ListServers, ServerAction};
//! use windlass_scaleway::{Client, Environment, Error, ExplicitSettings, Settings};
//!
//! # async fn example() -> Result<(), Error> {
//! let settings = Settings::load(&ExplicitSettings::default(), &Environment::of_process())?;
//! let zone = settings.require_zone()?.clone();
//! let instance = Client::new(settings)?.instance(&zone);
//! for server in instance.list_servers(&ListServers::default()).await? {
//!     match instance.server_action(&server.id, ServerAction::PowerOn).await {
//!         Ok(_) => println!("{} starts", server.name),
//!         Err(error) if error.is_not_found() => println!("{} has gone meanwhile", server.name),
//!         Err(error) if error.is_ambiguous() => println!("{} may start: {error}", server.name),
//!         Err(error) => return Err(error),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

// Tests may unwrap; the build without tests is still held to the rule.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod api;
mod call;
mod client;
mod concurrency;
mod error;
mod location;
pub mod metric_names;
mod paging;
mod rate_limit;
mod raw;
mod redaction;
mod sent;
mod settings;
mod transport;
pub mod types;

pub use api::{AppleSiliconApi, BlockApi, IamApi, InstanceApi, IpamApi, MarketplaceApi};
pub use client::{Client, RawAnswer};
pub use error::{ApiError, DeadlinePhase, Error, ErrorClass, ErrorDetail, MalformedAnswer};
pub use location::{IdElsewhere, InvalidLocation, Region, Zone};
pub use sent::Sent;
pub use settings::{
    ConfigurationError, DEFAULT_API_URL, Environment, ExplicitSettings, Limits, SecretKey, Settings, SettingsPlaces,
    check_api_url, check_identifier,
};
pub use transport::{Cause, ServiceTransport, Transport, TransportError};
pub use types::has_all_tags;
