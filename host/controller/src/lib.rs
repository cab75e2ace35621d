//! Knows the Kubernetes kinds of the group `infrastructure.windlass.dev` and how they are reconciled: an infrastructure provider of
//! Cluster API. Must not know GitLab, command lines of people, or how Scaleway's calls look.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod above;
mod apple_silicon;
mod arguments;
mod cluster_api;
mod configuration;
mod context;
mod definitions;
mod error;
mod external_cluster;
mod instance;
mod jobs;
#[allow(clippy::duplicated_attributes, reason = "columns of one kind have the same type, which is no duplicate")]
#[allow(unreachable_pub, reason = "the derive of the schemas declares public types inside functions")]
pub mod kinds;
mod lease;
pub mod metric_names;
mod names;
mod observe;
mod orphans;
mod outcome;
mod process;
mod status;
mod wish;

pub use arguments::{Address, Arguments, Command, LogFormat, Orphans, RunArguments};
pub use definitions::{definitions, definitions_yaml};
pub use error::Error;
pub use observe::start_logging;
pub use process::run;
