//! The names under which this crate counts.

/// Ended operations, by `kind` and `outcome`.
pub const OPERATIONS: &str = "windlass_cluster_operations_total";
/// How long they took, in seconds, by `kind` and `outcome`.
pub const OPERATION_SECONDS: &str = "windlass_cluster_operation_seconds";
