//! The metrics of the controller. Those of operations, decisions and calls are described by the crates below.

use metrics::{describe_counter, describe_gauge, describe_histogram};

/// Reconciles, by `kind` and `outcome` (`done`, `settled`, `failed`).
pub const RECONCILES: &str = "windlass_reconciles_total";
/// How long reconciles take, in seconds, by `kind`.
pub const RECONCILE_SECONDS: &str = "windlass_reconcile_seconds";
/// Work on machines that is under way in the background, by `kind` (`adopt`, `release`, ...).
pub const JOBS: &str = "windlass_jobs_in_flight";
/// Releases that ended, by `outcome` (`returned-to-pool`, `deletion-scheduled`, `terminated`, `kept`, ...).
pub const RELEASES: &str = "windlass_releases_total";
/// Hosts that carry a claim of ours which no object explains, by `zone`.
pub const ORPHANS: &str = "windlass_orphaned_hosts";
/// Whether this process leads: 1 or 0.
pub const LEADER: &str = "windlass_leader";

pub(crate) fn describe() {
    describe_counter!(RECONCILES, "Reconciles, by kind and outcome");
    describe_histogram!(RECONCILE_SECONDS, "How long reconciles take, by kind");
    describe_gauge!(JOBS, "Work on machines under way in the background, by kind");
    describe_counter!(RELEASES, "Releases that ended, by outcome");
    describe_gauge!(ORPHANS, "Hosts with a claim of ours that no object explains, by zone");
    describe_gauge!(LEADER, "Whether this process leads");
}
