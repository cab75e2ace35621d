//! Knows how a state directory looks as web pages: what is there, what was done, who decided what, and why. Must not
//! know credentials, command lines or Kubernetes. It changes nothing, and needs nobody who does: a journal is read
//! while others write it.
//!
//! Pages are made on the server and work without scripts; with them they follow what happens. Whatever came from
//! outside (names, reasons, log lines, outputs) is escaped where it stands, and the content security policy lets
//! nothing run that is not the console's own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod candidates;
mod error;
mod pages;
mod prices;
mod read;
mod report;
mod server;
mod timeline;

pub use access::{Access, LEAST_TOKEN_CHARACTERS};
pub use candidates::Candidates;
pub use error::Error;
pub use prices::Prices;
pub use report::{Report, ReportFormat};
pub use server::{Console, serve};
