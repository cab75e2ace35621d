//! The names under which this crate counts.

/// Counter `kind`, `outcome`: operations on clusters that ended.
pub const OPERATIONS: &str = "windlass_cluster_operations_total";
/// Histogram `kind`, `outcome`: seconds that they took.
pub const OPERATION_SECONDS: &str = "windlass_cluster_operation_seconds";
