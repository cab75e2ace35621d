//! Calls whose effect nobody has seen: sent, and their answers lost. Such a call may still take effect.

use std::time::Duration;

use crate::Error;
use crate::journal::Operation;
use crate::journal::progress::Progress;
use crate::run::{Run, milliseconds};
use crate::shared::Limits;
use crate::stop::Stop;

/// When the latest call of an operation was sent that makes something and whose effect nobody has seen. One that was
/// looked at before has its time in its row.
pub(crate) fn lost_by(operation: &Operation, progress: &Progress, limits: &Limits) -> Option<u64> {
    let looked_for = operation.look_at.map(|look_at| look_at.saturating_sub(milliseconds(limits.second_look)));
    looked_for.or_else(|| progress.lost_call())
}

/// The same of a running operation.
pub(crate) fn lost(run: &Run) -> Result<Option<u64>, Error> {
    Ok(lost_by(&run.shared.journal.operation(&run.id)?, &run.progress()?, &run.shared.limits))
}

/// When an operation whose lost call was sent at `lost` has to be looked at again, after a look at `looked`. `None`:
/// that look was the last one. A call of a time to come was sent by a clock that was ahead: it counts from the look.
///
/// Nothing recorded tells how late a call can take effect at Scaleway (assumption: late-effect-within-second-look).
pub(crate) fn next_look(lost: Option<u64>, looked: u64, limits: &Limits) -> Option<u64> {
    let last = lost?.min(looked).saturating_add(milliseconds(limits.second_look));
    (looked < last).then_some(last)
}

/// Waits until a call that was sent at `lost` has had the time to arrive, as a rule.
pub(crate) async fn settle(run: &Run, lost: Option<u64>) -> Result<(), Stop> {
    let limits = &run.shared.limits;
    let Some(settled) = lost.map(|lost| lost.saturating_add(milliseconds(limits.settle))) else { return Ok(()) };
    // No longer than that, also where the clock was set back since.
    let wait = Duration::from_millis(settled.saturating_sub(run.now())).min(limits.settle);
    run.sleep("settle", wait).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_is_one_after_the_second_looks_time() {
        let limits = Limits { second_look: Duration::from_millis(100), ..Limits::default() };
        assert_eq!(next_look(None, 0, &limits), None);
        assert_eq!(next_look(Some(50), 60, &limits), Some(150));
        assert_eq!(next_look(Some(50), 149, &limits), Some(150));
        assert_eq!(next_look(Some(50), 150, &limits), None);
        // A clock that was ahead by years does not put the look off by years.
        assert_eq!(next_look(Some(u64::MAX), 7, &limits), Some(107));
    }
}
