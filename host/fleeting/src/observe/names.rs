//! The names of the plugin's own metrics. Beside them stand those of `windlass-lifecycle` (operations, steps, failures
//! by class, leaks), `windlass-scaleway` (calls, latency) and `windlass-policy` (decisions, fallbacks).

/// Gauge `state`: instances by what the runner was told last.
pub const INSTANCES: &str = "windlass_fleeting_instances";
/// Counter `outcome` (`done`, `failed`): creations that ended.
pub const CREATIONS: &str = "windlass_fleeting_creations_total";
/// Counter `outcome` (`done`, `left`, `failed`): removals that ended.
pub const CLEANUPS: &str = "windlass_fleeting_cleanups_total";
/// Counter: removals that the state-mapping policy ordered.
pub const REAPS: &str = "windlass_fleeting_reaps_total";
/// Gauge: instances of which something is left that should be gone, and is tried again.
pub const LEFT: &str = "windlass_fleeting_left";
/// Counter: Increase calls that were answered with 0 because of the pause after hopeless failures.
pub const INCREASES_PAUSED: &str = "windlass_fleeting_increases_paused_total";
/// Histogram: seconds that an Update took.
pub const UPDATE_SECONDS: &str = "windlass_fleeting_update_seconds";
