//! Knows how a state directory looks as web pages: what is there, what was done, who decided what, and why. Must not
//! know credentials, command lines or Kubernetes. It changes nothing, and needs nobody who does: a journal is read
//! while others write it.
//!
//! Pages are made on the server and work without scripts; with them they follow what happens. Whatever came from
//! outside (names, reasons, log lines, outputs) is escaped where it stands, and the content security policy lets
//! nothing run that is not the console's own.
//!
//! With the feature `clusters` (a default) there are pages of clusters, too.
//!
//! An [`Endpoint`] lets nobody else look than it is to, and whoever looks cannot harm the host: connections, their
//! time, and the threads that read for pages are bounded, and [`Endpoint::serve_beside`] has threads of its own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod candidates;
mod connections;
mod endpoint;
mod error;
mod options;
mod pages;
mod prices;
mod read;
mod rehearsals;
mod report;
mod server;
mod tls;

pub use access::{Access, MIN_TOKEN_CHARACTERS};
pub use candidates::Candidates;
pub use endpoint::{Beside, Endpoint};
pub use error::Error;
pub use options::{ServeOptions, TlsFiles};
pub use pages::page_alone;
pub use prices::Prices;
pub use rehearsals::{ShowRehearsal, save_rehearsal};
pub use report::{Report, ReportFormat};
pub use server::Console;
