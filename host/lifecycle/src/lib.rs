//! Knows operations: how servers are created, undone, cleaned up and swept, with a journal, under policies. Must not
//! know command lines, runners or Kubernetes.
//!
//! # Guide
//! - Open a [`Lifecycle`] on a Scaleway client, a policy host and a [`StateDirectory`]; call [`Lifecycle::resume`]
//!   first, so that what an earlier process left open is finished or undone.
//! - [`Lifecycle::create_server`] gives a running server or nothing, [`Lifecycle::create_servers`] many at once,
//!   [`Lifecycle::begin_create`] an id that is journalled before anything is called. [`Lifecycle::machines`] lists
//!   what is ours, [`Lifecycle::sweep`] removes what nothing explains. [`Lifecycle::begin_abandon`] closes an operation
//!   without finishing or undoing it.
//! - [`Lifecycle::adopt_machine`] claims a host of a pool (a Mac), [`Lifecycle::order_machine`] orders one,
//!   [`Lifecycle::reclaim`] finds claims that nobody explains. [`Lifecycle::hosts`] and [`Lifecycle::servers`] are
//!   lists that everybody shares.
//! - [`Lifecycle::release`] lets a server or a host go as the release slot decides. [`Lifecycle::cleanup`] removes a
//!   server with all that belongs to it without asking that slot: what a failed creation left, or by force.
//! - A [`Supervisor`] runs beside them: it resumes what nobody works on, makes second looks, sweeps as configured,
//!   and prunes the journal.
//! - A [`Control`] follows operations (events) and ends them early: undone at once, or left to the next start.
//! - The [`Journal`] can be read at any time, also by another process ([`Journal::read_only`]). It is kept in a
//!   [`log::Log`]: another place to keep state is one implementation of that.
//! - [`Runtime::build`] puts together what a process works with.
//!
//! # The three promises
//! - *Intent before effect*: a step is in the journal before its call leaves the process, and its outcome before the
//!   next begins. That something is to be undone is there before the first look, and that something is kept before the
//!   plan is run: what was called off stays called off, what was kept stays kept, over crashes and in every process.
//! - *Provenance before change*: only what is proven ours, in a resource that was read again by its id, is changed or
//!   deleted. The outcome of the step that made it names it; or it carries the owner tag, and our journal holds its id;
//!   or an answer was lost, and it carries the operation's unique tag while nobody uses it. A tag alone, an attachment,
//!   an absence from a list prove nothing. What is attached to a server of ours and not proven ours is detached and
//!   survives.
//! - *Ambiguity is looked up*: after any failed creation the resource is searched for by its operation tag before the
//!   call is sent again or given up. (A host has no tags: there it is the name, see `docs/machines.md`.)
//!
//! # What policies decide here
//! The `retry` slot, after each failed attempt; the `rollback` slot, about what is undone and in which order; the
//! `release` slot, about what becomes of a machine. Never a policy's: look-ups, the check of a plan, whose a host is,
//! the look at the end.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod abandon;
mod absence;
mod account;
mod aftermath;
mod answer;
mod audit;
mod cancels;
mod capabilities;
mod change;
mod cleanup;
mod clock;
mod control;
mod create;
mod error;
mod execute;
mod failure;
mod history;
mod host_state;
mod identifier;
mod images;
mod inventory;
mod journal;
mod known;
mod lifecycle;
pub mod log;
mod machines;
pub mod metric_names;
mod migrate;
mod name;
mod other_owners;
mod outstanding;
mod ownership;
mod placement;
mod policy_hosts;
mod poller;
mod quotas;
mod release;
mod remembered;
mod report;
mod requested_by;
mod resume;
mod retry;
mod run;
mod runtime;
mod server_action;
mod server_state;
mod shared;
mod shared_tags;
mod size;
mod specification;
mod state_directory;
mod stop;
mod subject;
mod supervisor;
mod sweep;
mod tags;
mod tasks;
mod trace;
mod undo;
mod watch;

pub use abandon::{AbandonTarget, AbandonedResource, Abandonment, PendingAbandonment};
pub use absence::read_or_absent;
pub use account::{AccountProblem, Catalogue, account_problems, look_up, no_servers_in, volume_problems};
pub use aftermath::Aftermath;
pub use audit::{ClaimedMac, Existing, ListedMachine, Tried};
pub use cancels::Cancellation;
pub use capabilities::scaleway_capabilities;
pub use cleanup::{CleanedUp, CleanupRequest, PendingCleanup, Target};
pub use clock::Clock;
pub use control::{Cancellable, Control, Event, EventKind, MayBegin, NotNoted};
pub use error::{Error, OperationFailure};
pub use failure::of_error as failure_of;
pub use history::{FileMark, History, Place};
pub use host_state::host_state;
pub use identifier::{GroupName, OperationId, OwnerName};
pub use journal::{
    Course, Entry, Journal, Operation, OperationCount, OperationFilter, OperationKind, OperationState, Phase,
    RemovedMachine, ResourceKind, ResourceName,
};
pub use known::KnownServer;
pub use lifecycle::{CreatedServer, Lifecycle, Options, PendingCreate};
pub use log::Durability;
pub use machines::{
    AdoptedMachine, ClaimName, HostOrigin, Ineligible, JournalledClaim, Listing, OrderRequest, Pool, PoolPrefix,
    Reclaim, ReclaimMode, ReclaimRequest, Stranded,
};
pub use migrate::Migrated;
pub use other_owners::OtherOwners;
pub use placement::{Placement, euros};
pub use policy_hosts::{PolicyHost, StatusPublisher};
pub use quotas::{QuotaDemand, QuotaRefusal, check_quotas};
pub use release::{Asking, Decided, Release, ReleaseOutcome, ReleaseRequest, Released, Removal};
pub use remembered::RememberedServer;
pub use report::{LeftResource, Report};
pub use requested_by::{RequestedBy, Requester};
pub use resume::{Resumed, ResumedOperation, UnverifiedOperation, WaitingOperation};
pub use retry::Attempts;
pub use runtime::{Runtime, RuntimeOptions};
pub use server_state::server_state;
pub use shared::Limits;
pub use shared_tags::{LockedBy, SharedTag, shared_tags, tag_lock};
pub use size::parse_size;
pub use specification::{
    AddressKind, AddressPool, CloudInit, DEFAULT_DEADLINE_MILLISECONDS, ExtraVolume, ImageChoice, RootVolume,
    ServerSpecification, SpecificationProblem, VolumeKind,
};
pub use state_directory::StateDirectory;
pub use subject::SubjectOf;
pub use supervisor::{Part, Problem, Round, Supervisor, SupervisorOptions};
pub use sweep::{
    GroupMember, LastSweep, Machine, MachineReader, Sweep, SweepFailure, SweepRequest, Unexplained, members_of_group,
};
pub use tasks::{Tasks, Uncarried};
