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
