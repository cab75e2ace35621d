//! A group is worked on by one process, whether a folder or a database has its journal, and its servers carry one owner.

use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{OpenOptions, OpenOptionsExt as _};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use windlass_lifecycle::log::{LEASE, Lease};
use windlass_lifecycle::{GroupName, Lifecycle, OwnerName, StateDirectory};

use super::error::StartError;
use crate::configuration::Common;

/// The lock's file in the group's folder.
const LOCK: &str = "lock";
/// How long a process that is on its way out is waited for: the plugin of a runner that was killed notices within a
/// second and needs another to leave.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
/// The name of the lock on a group in a database.
const GROUP: &str = "group";
/// How much longer than a lease `alone` waits. The runner gives a minute to Init.
const SHARED_MARGIN: Duration = Duration::from_secs(5);
/// Between two tries.
const SHARED_INTERVAL: Duration = Duration::from_secs(1);
/// The longest name of an owner, in bytes (a rule of the lifecycle, checked there again).
const MAX_OWNER_LEN: usize = 48;

/// The exclusive lock on a group, released by the kernel when the process ends, however it ends.
pub(crate) struct Lock(std::fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child process that is being started meanwhile has it open, too, until
        // it is under way.
        let _ = self.0.unlock();
    }
}

async fn lock(state: &StateDirectory, group: &str) -> Result<Lock, StartError> {
    let path = state.path().join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = state
        .handle()
        .open_with(LOCK, &options)
        .map_err(|source| StartError::Lock { path: path.clone(), source })?
        .into_std();
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < patience => {
                tokio::time::sleep(LOCK_INTERVAL).await;
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(StartError::Locked { group: group.to_owned(), path });
            }
            Err(std::fs::TryLockError::Error(source)) => return Err(StartError::Lock { path, source }),
        }
    }
}

/// The group's folder, for this process alone.
pub(super) async fn claim(configuration: &Common) -> Result<(StateDirectory, Lock), StartError> {
    let state = open(configuration)?;
    let lock = lock(&state, configuration.group.as_str()).await?;
    Ok((state, lock))
}

/// The group's folder, with the journal in the database that is configured.
pub(super) fn open(configuration: &Common) -> Result<StateDirectory, StartError> {
    let state = StateDirectory::open(&configuration.folder())?;
    Ok(match &configuration.shared_state {
        Some(shared) => state.with_shared_log(Arc::clone(shared)),
        None => state,
    })
}

/// Takes the lock on the group in the database, before anything else is done with the group. Waits until a silent host's
/// lease has expired; that host can then write nothing more. `None`: the folder has the journal, and its lock is enough.
pub(super) async fn alone(lifecycle: &Lifecycle, configuration: &Common) -> Result<Option<Lease>, StartError> {
    let Some(shared) = &configuration.shared_state else { return Ok(None) };
    let log = lifecycle.journal().log();
    let patience = Instant::now() + LEASE + SHARED_MARGIN;
    loop {
        if let Some(lease) = log.lock(GROUP)? {
            return Ok(Some(lease));
        }
        if Instant::now() >= patience {
            let holder = shared.holder(GROUP)?.map(|host| format!("{} (process {})", host.host, host.process));
            return Err(StartError::Shared {
                group: configuration.group.to_string(),
                location: shared.location().to_owned(),
                holder: holder.unwrap_or_else(|| "a process that has just ended".to_owned()),
            });
        }
        tokio::time::sleep(SHARED_INTERVAL).await;
    }
}

/// Two groups of one owner must not sweep each other's resources, since each knows only its own journal.
pub(super) fn owner_of_group(owner: &OwnerName, group: &GroupName) -> Result<OwnerName, windlass_lifecycle::Error> {
    let name = format!("{owner}-{group}");
    if name.len() <= MAX_OWNER_LEN {
        return name.parse();
    }
    // A hash of the whole distinguishes two long names.
    let mark = hex::encode(&Sha256::digest(name.as_bytes())[..5]);
    let kept = MAX_OWNER_LEN - mark.len() - 1;
    format!("{}-{mark}", name[..kept].trim_end_matches('-')).parse()
}
