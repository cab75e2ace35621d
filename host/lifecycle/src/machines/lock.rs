//! The one lock over every change of a host's name: in this process, and between all that share the state directory.

use std::time::Duration;

use tokio::time::Instant;

use crate::Error;
use crate::control::Control;
use crate::log::Lease;
use crate::shared::Shared;

const LOCK: &str = "machines.lock";
/// How long one waits for the lock. Whoever holds it makes a handful of calls and waits for seconds at most ([`HELD`]),
/// so many can go before.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// No further attempt begins under the lock after this: one slow host must not hold the others.
pub(crate) const HELD: Duration = Duration::from_secs(20);
/// The first wait between two tries of the file's lock; later ones grow to 16 times it.
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// How long this process leaves the lock alone between two of its own, so that another one that tries from time to time
/// gets its turn.
const TURN: Duration = Duration::from_millis(100);

/// The lock, held until dropped.
pub(crate) struct Held<'a> {
    lease: Option<Lease>,
    /// When this process last released it.
    process: tokio::sync::MutexGuard<'a, Option<Instant>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lease.take();
        *self.process = Some(Instant::now());
    }
}

/// Takes the lock.
///
/// # Errors
/// [`Error::MachinesLocked`] after half an hour, [`Error::NotBegun`] when the work is cancelled or left meanwhile.
pub(crate) async fn lock<'a>(shared: &'a Shared, control: &Control) -> Result<Held<'a>, Error> {
    tokio::select! {
        biased;
        () = control.cancelled().cancelled() => Err(Error::NotBegun),
        taken = lock_to_undo(shared, control) => taken,
    }
}

/// Takes the lock for work that has not begun: whoever wants it is asked whether it may, now that its turn has come.
///
/// # Errors
/// As [`lock`]; [`Error::NotBegun`] where it may not.
pub(crate) async fn lock_to_begin<'a>(shared: &'a Shared, control: &Control) -> Result<Held<'a>, Error> {
    let held = lock(shared, control).await?;
    if control.may_begin().await { Ok(held) } else { Err(Error::NotBegun) }
}

/// The same for an undo, which goes on when the work is cancelled.
pub(crate) async fn lock_to_undo<'a>(shared: &'a Shared, control: &Control) -> Result<Held<'a>, Error> {
    let locked = || Error::MachinesLocked { path: shared.state_directory.path().join(LOCK) };
    let take = async {
        let began = Instant::now();
        let process = shared.machines.lock.lock().await;
        if let Some(last) = *process {
            tokio::time::sleep_until(last + TURN).await;
        }
        let mut wait = FIRST_WAIT;
        loop {
            match shared.journal.log().lock(LOCK)? {
                lease @ Some(_) => return Ok(Held { lease, process }),
                None if began.elapsed() < PATIENCE => {}
                None => return Err(locked()),
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(FIRST_WAIT * 16);
        }
    };
    tokio::select! {
        biased;
        () = control.left().cancelled() => Err(Error::NotBegun),
        taken = tokio::time::timeout(PATIENCE, take) => {
            taken.unwrap_or_else(|_| Err(locked()))
        }
    }
}
