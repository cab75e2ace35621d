//! Knows clusters of servers: how they are created, scaled and terminated as one thing, and what a failure undoes. Must
//! not know command lines or Kubernetes.
//!
//! # Guide
//! - A [`ClusterSpecification`] says what a cluster is to be; [`ClusterSpecification::read`] takes it from TOML or
//!   YAML.
//! - Make [`Clusters`] from a lifecycle, a [`ClusterStore`] and something that runs hooks ([`HookRunner`]); call
//!   [`Clusters::resume`] first, so that what an earlier process left open is finished or undone.
//! - [`Clusters::create`], [`Clusters::scale`] and [`Clusters::terminate`] run an operation to its end;
//!   [`Clusters::cancel`] calls it off, also from another process. A [`ClusterReader`] looks at clusters and writes
//!   nothing.
//! - A [`ClusterControl`] follows operations (events; [`progress`] adds them up) and ends them early.
//!
//! # The one handler
//! Whatever fails in an operation is met in one function at its top, and nowhere below. It looks whether the user
//! deletes the cluster: then the operation stops quietly and leaves nothing behind. Otherwise the `provisioning` slot
//! says which nodes are deleted and in which state the cluster is left. What a recovery needs is stored before the
//! first stage, and what it is to do before it does it, so another process can take it over at any moment.

#![cfg_attr(not(feature = "ssh-hooks"), allow(dead_code, reason = "what only hooks over ssh use"))]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod abandon;
mod apply;
mod audit;
mod begin;
mod cloud_init;
mod clusters;
mod dry_run;
mod error;
mod failure;
mod handler;
mod hooks;
pub mod metric_names;
mod name;
mod operation;
mod read;
mod reader;
mod record;
mod refresh;
mod resume;
mod run;
mod selection;
mod shared;
mod specification;
mod stages;
mod standing;
mod status;
mod store;
mod trace;
pub mod units;

pub use abandon::AbandonedCluster;
pub use apply::{ClusterDifference, SpecificationChange, Takes};
pub use cloud_init::{CloudInitFiles, ReadCloudInit};
pub use clusters::Clusters;
pub use dry_run::{ClusterPlan, PlannedHook};
pub use error::{ClusterFailure, Error};
pub use name::{ClusterName, InvalidName, NodeGroupName};
pub use read::Format;
pub use reader::ClusterReader;
pub use record::{
    Cluster, ClusterEvent, ClusterEventKind, ClusterOperation, ClusterState, Counts, KeptNode, Node, NodeRole,
    NodeState, OperationKind, OperationState, Progress, Recovery, Stage, progress,
};
pub use resume::ResumedCluster;
pub use selection::ScaleRequest;
pub use shared::{ClusterLimits, ClusterObjects, ClusterOptions};
pub use specification::{ClusterSpecification, HookSet, InvalidSpecification, NodeGroup, VolumeSpecification};
pub use status::{CalledOff, ClusterHistory, ClusterObservation, ClusterOutcome, ClusterStatus, NodeObservation};
/// Follows and ends operations on clusters.
pub type ClusterControl = windlass_lifecycle::Control<ClusterEvent>;

// Where clusters are kept.
pub use store::{Begin, Change, ClusterStore, Fence, LogClusterStore, Requests, StoreError, StoredCluster};
// The user's hooks.
pub use hooks::{
    CAPTURED_BYTES, Captured, DEFAULT_TIME_LIMIT, Destinations, HOOK_INPUT_VERSION, Hook, HookAction, HookFailure,
    HookInput, HookNode, HookOutput, HookPlan, HookProblem, HookRunner, NodeFailure, NodeOutput, PlannedRun,
    ProgramHook, RunHooks, SshAddress, SshHook, Tail, WebhookHook, WebhookSecret,
};
