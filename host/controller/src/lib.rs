//! Knows the Kubernetes kinds of the group `infrastructure.windlass.dev` and how they are reconciled: an infrastructure
//! provider of Cluster API, and clusters of servers. Must not know GitLab, command lines of people, or how Scaleway's
//! calls look.
//!
//! # Guide
//! - [`kinds`] are the types; [`definitions`] makes the API server's definitions of them (committed under
//!   `deploy/crds`).
//! - [`run`] is the process: credentials and policies, the Lease, what a dead predecessor left, the controllers, and an
//!   orderly end. Replicas that share a database can divide the objects into shards, each with a Lease of its own.
//!
//! # How a machine is reconciled
//! A reconcile *looks* (the object, what stands above it, the zone's listing, its job), *decides* (a function on data,
//! with a table for a test: `apple_silicon::decide`, `instance::decide`) and does one thing: a write, or the start of a
//! *job*. Jobs are calls of the lifecycle; they run in the background, one for each object, mirror their progress into
//! `status.operation`, and their end brings the next reconcile. So no reconcile ever waits for Scaleway's slow work,
//! and a machine about which there is nothing to do costs nothing.
//!
//! The set-up of a Mac (`apple_silicon::setup`) is a job as well, with a script of the operator's over ssh instead of
//! calls to Scaleway: it has no journal, since it may run more than once, and the Mac itself ends what a dead process
//! left.
//!
//! An unhealthy Machine (`remediation`) is a request in the status of the machine below it, which that machine's own
//! reconcile answers. Under a Machine nothing is exchanged in place, since a provider id must not change: `turn` marks
//! the Machine, and whoever owns it replaces it. What templates promise (`capacity`) is read in Scaleway's catalogue.
//!
//! # How a cluster of servers is reconciled
//! In the same way (`server_cluster::decide`), but its jobs are operations of the floor below, which keep their record
//! in the object's status themselves (`server_cluster::store`): there it is the only copy. Hooks are Jobs of
//! Kubernetes' (`server_cluster::hooks`).
//!
//! # Guarantees
//! *What is to be called stands in the object first*: finalizer and claim before a host is claimed, the operation's id
//! before a server is made. *Nothing is lost with a machine's status*: everything in it is found again from the
//! provider id, the annotations and Scaleway. *A judgement that fails destroys nothing*: the finalizer stays, a Warning
//! tells of it, and the question is put again.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account_of;
mod accounts;
mod action;
mod address;
mod apple_silicon;
mod approvals;
mod arguments;
mod audits;
mod capacity;
mod catalogue;
mod cluster_api;
mod common_failures;
mod configuration;
mod console;
mod context;
mod controllers;
mod convert;
mod crash;
mod definitions;
mod error;
mod events;
mod external_cluster;
mod instance;
mod job_kind;
mod jobs;
#[allow(clippy::duplicated_attributes, reason = "columns of one kind have the same type, which is no duplicate")]
#[allow(unreachable_pub, reason = "the derive of the schemas declares public types inside functions")]
pub mod kinds;
mod kubernetes;
mod lease;
mod limits;
mod look;
pub mod metric_names;
mod names;
mod next_step;
mod object_policies;
mod observe;
mod orphans;
mod outcome;
mod owners;
mod pools;
mod process;
mod remediation;
mod requested;
mod server_cluster;
mod server_fields;
mod settings;
mod shard;
mod shards;
mod state;
mod status;
mod turn;
mod writes;

pub use address::Address;
pub use approvals::print_approvals;
pub use arguments::{Arguments, Command, LogFormat, LookArguments, OrderedHosts, Orphans, RunArguments};
pub use console::ConsoleArguments;
pub use convert::convert_standard_input;
pub use definitions::{definitions, definitions_yaml};
pub use error::Error;
pub use look::look;
pub use observe::start_logging;
pub use process::run;
pub use state::StateArguments;
