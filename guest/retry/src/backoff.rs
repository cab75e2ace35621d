//! Waits in milliseconds, from a random word. Pure arithmetic.

/// The jitter that is added to a short wait, in milliseconds.
pub(crate) const SHORT_JITTER_MS: u64 = 500;

/// What doubles with each attempt, up to `cap`: the bound of the wait after attempt number `attempt` (from 1).
pub(crate) fn bound(base: u64, cap: u64, attempt: u32) -> u64 {
    let factor = 1u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    base.saturating_mul(factor).min(cap)
}

/// Anything from nothing to the bound: spreads a crowd that failed together best.
pub(crate) fn full_jitter(base: u64, cap: u64, attempt: u32, random: u64) -> u64 {
    up_to(bound(base, cap, attempt), random)
}

/// Half of the bound, and anything up to the other half: never nearly at once.
pub(crate) fn equal_jitter(base: u64, cap: u64, attempt: u32, random: u64) -> u64 {
    let bound = bound(base, cap, attempt);
    let half = bound / 2;
    half + up_to(bound - half, random)
}

/// A fixed wait and a little jitter.
pub(crate) fn short(fixed: u64, random: u64) -> u64 {
    fixed.saturating_add(up_to(SHORT_JITTER_MS, random))
}

/// Evenly from 0 to `most`, both included: the upper half of a 128-bit product, which needs no division.
fn up_to(most: u64, random: u64) -> u64 {
    (((u128::from(most) + 1) * u128::from(random)) >> 64) as u64
}
