//! The names under which calls are counted. Labels have few values: `path` is the template of the path
//! (`/instance/v1/zones/{zone}/servers/{server_id}`), never an id.

/// Counter `method`, `path`, `status` (HTTP status, or `none` when no answer came), `class` (`ok`, or the
/// [`ErrorClass`](crate::ErrorClass) in the contract's spelling): finished calls.
pub const CALLS: &str = "windlass_scaleway_calls_total";

/// Histogram `method`, `path`: seconds from sending to the whole answer.
pub const CALL_SECONDS: &str = "windlass_scaleway_call_seconds";

/// Histogram: seconds that calls waited for the client's own rate and concurrency limits.
pub const QUEUE_SECONDS: &str = "windlass_scaleway_queue_seconds";

/// Gauge: calls under way.
pub const CALLS_IN_FLIGHT: &str = "windlass_scaleway_calls_in_flight";

/// Counter `path`: lists that had to be read again because they were shorter than they said.
pub const LISTS_READ_AGAIN: &str = "windlass_scaleway_lists_read_again_total";

/// Describes these metrics to the recorder that the program has installed: unit and one line each.
pub fn describe() {
    use metrics::Unit;

    metrics::describe_counter!(CALLS, Unit::Count, "Finished calls to Scaleway by method, path, status and class");
    metrics::describe_histogram!(CALL_SECONDS, Unit::Seconds, "Time from sending a call to its whole answer");
    metrics::describe_histogram!(QUEUE_SECONDS, Unit::Seconds, "Time that calls waited for the client's own limits");
    metrics::describe_gauge!(CALLS_IN_FLIGHT, Unit::Count, "Calls under way");
    metrics::describe_counter!(
        LISTS_READ_AGAIN,
        Unit::Count,
        "Lists read again because they were shorter than they said"
    );
}
