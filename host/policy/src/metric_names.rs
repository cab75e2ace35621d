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
/// Gauge `slot`, `position`, `policy`, `version`, `digest`, `mode` (`decide`, `shadow`, or `suspended` once it is no
/// longer asked): 1 for a policy that is in force. One that is not in force any more has none.
pub const INFO: &str = "windlass_policy_info";
/// Gauge `slot`, `position`: when the policy there came into force, in seconds since 1970. Of one that an object of
/// Kubernetes brought there is none.
pub const LOADED: &str = "windlass_policy_loaded_timestamp_seconds";
/// Gauge: policies whose new file was refused, so that an older one stays in force.
pub const FILES_REFUSED: &str = "windlass_policy_files_refused";
/// Counter: decisions that were never recorded.
pub const RECORDS_LOST: &str = "windlass_decision_records_lost_total";
/// Counter: old records of decisions that made room for new ones.
pub const RECORDS_DROPPED: &str = "windlass_decision_records_dropped_total";
/// Counter: writes to the decision log that failed.
pub const LOG_ERRORS: &str = "windlass_decision_log_errors_total";
