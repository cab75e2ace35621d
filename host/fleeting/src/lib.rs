//! The GitLab Runner plugin. Knows fleeting's wire protocol and what a runner expects; must not know how a server is
//! created or undone (that is `windlass-lifecycle`) nor judge anything itself (that is a policy).

pub mod protocol;

mod bootstrap;
mod observe;
pub mod version;

pub use bootstrap::{BootstrapError, bootstrap};
pub use observe::start_logging;
