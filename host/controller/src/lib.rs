//! Knows the Kubernetes kinds of the group `infrastructure.windlass.dev` and how they are reconciled: an infrastructure provider of
//! Cluster API. Must not know GitLab, command lines of people, or how Scaleway's calls look.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod definitions;
#[allow(unreachable_pub, reason = "the derive of the schemas declares public types inside functions")]
pub mod kinds;

pub use arguments::{Address, Arguments, Command, LogFormat, Orphans, RunArguments};
pub use definitions::{definitions, definitions_yaml};
