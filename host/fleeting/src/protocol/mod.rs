//! Fleeting's wire protocol over HashiCorp's go-plugin. Knows nothing of Scaleway: a provider is an [`InstanceGroup`].
//!
//! *Expected flow*: the host starts the process with a cookie in its environment → [`Handshake::from_environment`] →
//! [`serve`] binds a unix socket, prints the one handshake line, and answers calls until the host asks it to leave.
//!
//! Facts about the host come from the source of fleeting (v0.0.0-20260630131728-ef4ba33c8ab8) and go-plugin 1.8.0.

mod companions;
mod handshake;
mod instance_group;
mod server;
mod service;
mod wire;

pub use handshake::{COOKIE_KEY, COOKIE_VALUE, Handshake, HandshakeError};
pub use instance_group::{
    Capability, ConnectInfo, ConnectorConfig, Failure, InstanceGroup, Partial, ProviderInfo, Report, State, Update,
};
pub use server::{EndReason, ServeError, serve};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
