//! Which cases of a long enumeration a run of the tests goes through.

/// Every seventh case; all of them where `WINDLASS_EVERY_CASE` is set, as `just search` sets it.
///
/// There are 30 or 32 faults for each call, and seven divides neither: over seven calls every fault is injected once.
pub fn share<T>(cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let step = if std::env::var_os("WINDLASS_EVERY_CASE").is_some() { 1 } else { 7 };
    cases.into_iter().step_by(step)
}
