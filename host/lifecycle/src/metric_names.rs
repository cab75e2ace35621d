//! The names of this crate's metrics.

/// Counter `kind`, `outcome`: operations that ended; `outcome` is the state in which they closed, or `left-open`.
pub const OPERATIONS: &str = "windlass_operations_total";
/// Gauge `kind`: operations under way in this process.
pub const OPERATIONS_IN_FLIGHT: &str = "windlass_operations_in_flight";
/// Histogram `kind`, `outcome`: seconds from the opening to the end.
pub const OPERATION_SECONDS: &str = "windlass_operation_seconds";
/// Counter `step`, `outcome` (`done`, `failed`): steps that ended.
pub const STEPS: &str = "windlass_steps_total";
/// Counter `class`: creations that failed, by the class of the first cause.
pub const FAILURES: &str = "windlass_failures_total";
/// Counter: resources that a sweep found to be ours and unexplained.
pub const LEAKS_FOUND: &str = "windlass_leaks_found_total";
/// Counter: resources that an undo could not remove.
pub const LEFT_BEHIND: &str = "windlass_left_behind_total";
/// Counter `part` (`resume`, `sweep`, `prune`), `outcome` (`done`, `failed`, or `busy` where another process does it):
/// parts of the supervisor's rounds.
pub const SUPERVISOR_PARTS: &str = "windlass_supervisor_parts_total";
/// Histogram `part`: seconds that it took.
pub const SUPERVISOR_PART_SECONDS: &str = "windlass_supervisor_part_seconds";
/// Gauge `kind`, `state` (`open`, `left`, `unverified`): operations of the journal that are not ended, also those that
/// others work on, as of the last look for those that nobody works on. Processes that share a state show the same.
pub const UNFINISHED: &str = "windlass_unfinished_operations";
/// Gauge `zone`, `kind`, `reason`: resources that are left. `not-removed`: an operation of the journal could not remove
/// it and tries again. By the last sweep of the zone: `kept` (on purpose), `abandoned` (with its operation),
/// `unexplained` (nothing explains it, and it was not removed).
pub const LEFT: &str = "windlass_left_resources";
/// Gauge: operations that wait for their second look, since a call of theirs may still take effect.
pub const UNVERIFIED: &str = "windlass_unverified_operations";
/// Gauge: resources that the last sweep of each zone found to be ours and unexplained, also those that it left alone.
pub const UNEXPLAINED: &str = "windlass_unexplained_resources";
/// Counter: operations that were forgotten because of their age.
pub const JOURNAL_PRUNED: &str = "windlass_journal_pruned_total";
