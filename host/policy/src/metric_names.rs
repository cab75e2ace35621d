//! The names of this crate's metrics.

/// Histogram `slot`: seconds that a decision took, the waiting for capabilities included.
pub const DECISION_SECONDS: &str = "windlass_policy_decision_seconds";
/// Counter `slot`, `policy`: answers that would have removed too much of what runs, and were refused.
pub const BRAKES: &str = "windlass_policy_brakes_total";
/// Counter `slot`, `policy`: policies that failed at a question, so that the next one was asked.
pub const FAILURES: &str = "windlass_policy_failures_total";
/// Counter `slot`, `policy`, `agreement` (`agreed`, `differed`, `failed`, `not-comparable`, `not-asked`): questions
/// that reached a shadow.
pub const SHADOWS: &str = "windlass_policy_shadows_total";
/// Counter: decisions that were never recorded.
pub const RECORDS_LOST: &str = "windlass_decision_records_lost_total";
/// Counter: old records of decisions that made room for new ones.
pub const RECORDS_DROPPED: &str = "windlass_decision_records_dropped_total";
/// Counter: writes to the decision log that failed.
pub const LOG_ERRORS: &str = "windlass_decision_log_errors_total";
