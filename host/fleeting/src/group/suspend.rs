//! Suspend and Resume: `stop_in_place` and `poweron`. A server that is stopped in place keeps its hypervisor, and **is
//! still billed**: what is won is a quick start with a warm disk, not money. Hence only where the configuration asks.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use parking_lot::Mutex;
use windlass_scaleway::types::instance::{Server, ServerAction, ServerState};

use super::book::Work;
use super::fleet::Fleet;
use crate::protocol::{Failure, Partial, State};

/// The file with the ids of suspended instances, one in each line.
const FILE: &str = "suspended";
/// More than a group can hold.
const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Looks at a server until it has come to rest: Scaleway takes up to 46 s to stop one in place (recorded).
const LOOKS: u32 = 60;
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);

/// Which instances are suspended, kept over a restart: a server that is stopped in place for another reason is reaped.
pub(crate) struct Suspensions {
    directory: Dir,
    ids: Mutex<BTreeSet<String>>,
}

impl Suspensions {
    /// Reads what is known. An unreadable file counts as empty, which the log says: those servers are then reaped, as
    /// any other that was stopped.
    pub(crate) fn open(directory: Dir) -> Self {
        let ids = match directory.read_to_string(FILE) {
            Ok(text) if text.len() <= MAX_FILE_BYTES => text.lines().map(str::to_owned).collect(),
            Ok(_) => {
                tracing::warn!("the list of suspended instances is too long to be ours and is ignored");
                BTreeSet::new()
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => {
                tracing::warn!(%error, "the list of suspended instances cannot be read and is ignored");
                BTreeSet::new()
            }
        };
        Self { directory, ids: Mutex::new(ids) }
    }

    /// Whether the instance was suspended and not resumed since.
    pub(crate) fn holds(&self, id: &str) -> bool {
        self.ids.lock().contains(id)
    }

    /// Before the server is stopped, so that a crash in between never takes it for one that stopped by itself.
    fn remember(&self, id: &str) -> std::io::Result<()> {
        let mut ids = self.ids.lock();
        if ids.insert(id.to_owned()) { self.write(&ids) } else { Ok(()) }
    }

    /// When it runs again, or is gone.
    pub(crate) fn forget(&self, id: &str) {
        let mut ids = self.ids.lock();
        if ids.remove(id)
            && let Err(error) = self.write(&ids)
        {
            tracing::warn!(%error, "the list of suspended instances cannot be written");
        }
    }

    fn write(&self, ids: &BTreeSet<String>) -> std::io::Result<()> {
        let temporary = format!("{FILE}.new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = self.directory.open_with(&temporary, &options)?;
        for id in ids {
            writeln!(file, "{id}")?;
        }
        file.sync_all()?;
        self.directory.rename(&temporary, &self.directory, FILE)
    }
}

/// The two directions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Suspend,
    Resume,
}

impl Fleet {
    /// Accepts suspensions and carries them out in the background. One that is suspended already is accepted.
    pub(crate) fn suspend(self: Arc<Self>, instances: Vec<String>) -> Partial {
        self.turn(instances, Direction::Suspend)
    }

    /// Accepts resumptions and carries them out in the background.
    pub(crate) fn resume(self: Arc<Self>, instances: Vec<String>) -> Partial {
        self.turn(instances, Direction::Resume)
    }

    fn turn(self: &Arc<Self>, instances: Vec<String>, direction: Direction) -> Partial {
        if !self.configuration.suspend {
            let words = "capability not supported: suspend_resume; set suspend = true in plugin_config";
            return Partial { succeeded: Vec::new(), failure: Some(Failure(words.to_owned())) };
        }
        let mut partial = Partial::default();
        let mut refused = Vec::new();
        for id in instances {
            match self.accept(&id, direction) {
                Ok(server) => {
                    if let Some(server) = server {
                        let fleet = Arc::clone(self);
                        let id = id.clone();
                        self.spawn(async move { fleet.carry_out(&id, &server, direction).await });
                    }
                    partial.succeeded.push(id);
                }
                Err(words) => refused.push(format!("{id}: {words}")),
            }
        }
        if !refused.is_empty() {
            partial.failure = Some(Failure(refused.join("; ")));
        }
        partial
    }

    /// The server to act on; none when there is nothing to do.
    fn accept(&self, id: &str, direction: Direction) -> Result<Option<String>, String> {
        let mut book = self.book.lock();
        let Some(entry) = book.get_mut(id) else { return Err("there is no such instance".to_owned()) };
        let Some(server) = entry.server.clone() else { return Err("it has no server yet".to_owned()) };
        match (&entry.work, direction) {
            (Work::Suspending, Direction::Suspend) | (Work::Resuming, Direction::Resume) => Ok(None),
            (Work::Idle, Direction::Suspend) if entry.suspended => Ok(None),
            (Work::Idle, Direction::Resume) if !entry.suspended && entry.told == Some(State::Running) => Ok(None),
            (Work::Idle, Direction::Suspend) => {
                self.suspensions.remember(id).map_err(|error| format!("it cannot be noted: {error}"))?;
                entry.suspended = true;
                entry.work = Work::Suspending;
                Ok(Some(server))
            }
            (Work::Idle, Direction::Resume) => {
                entry.work = Work::Resuming;
                Ok(Some(server))
            }
            _ => Err("something else is being done with it".to_owned()),
        }
    }

    async fn carry_out(&self, id: &str, server: &str, direction: Direction) {
        let ended = tokio::select! {
            biased;
            () = self.leaving.cancelled() => return,
            ended = self.turn_server(server, direction) => ended,
        };
        if let Err(words) = &ended {
            tracing::error!(instance = id, "it could not be {}: {words}", direction.done());
        }
        let mut book = self.book.lock();
        if let Some(entry) = book.get_mut(id)
            && matches!(entry.work, Work::Suspending | Work::Resuming)
        {
            entry.work = Work::Idle;
            // A failed suspension leaves it running, a failed resumption leaves it suspended.
            entry.suspended = (direction == Direction::Suspend) == ended.is_ok();
            if !entry.suspended {
                self.suspensions.forget(id);
            }
        }
    }

    /// Re-reads the server, checks that it is ours, acts, and waits until it has come to rest.
    async fn turn_server(&self, id: &str, direction: Direction) -> Result<(), String> {
        let instance = self.client.instance(&self.configuration.zone);
        let owner = format!("windlass-owner={}", self.lifecycle.owner());
        let mut asked = false;
        let mut last = String::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            let server: Server = match instance.get_server(id).await {
                Ok(server) => server,
                Err(error) if error.is_not_found() => return Err("its server is gone".to_owned()),
                Err(error) => {
                    last = error.to_string();
                    continue;
                }
            };
            if !server.has_all_tags(&[&owner]) {
                return Err("its server does not carry our owner tag".to_owned());
            }
            let wanted = match direction {
                Direction::Suspend => ServerState::StoppedInPlace,
                Direction::Resume => ServerState::Running,
            };
            last = format!("it is {}", server.state.as_str());
            if server.state == wanted {
                return Ok(());
            }
            let ready = match direction {
                Direction::Suspend => server.state == ServerState::Running,
                Direction::Resume => matches!(server.state, ServerState::StoppedInPlace | ServerState::Stopped),
            };
            if ready && !asked {
                let action = match direction {
                    Direction::Suspend => ServerAction::StopInPlace,
                    Direction::Resume => ServerAction::PowerOn,
                };
                match instance.server_action(id, action).await {
                    Ok(_) => asked = true,
                    // Whether it took effect shows at the next look.
                    Err(error) => last = error.to_string(),
                }
            }
        }
        Err(format!("it did not come to rest: {last}"))
    }
}

impl Direction {
    fn done(self) -> &'static str {
        match self {
            Self::Suspend => "suspended",
            Self::Resume => "resumed",
        }
    }
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn suspensions_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Suspensions::open(Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap());
        let suspensions = open();
        suspensions.remember("a").unwrap();
        suspensions.remember("b").unwrap();
        suspensions.forget("a");
        let after = open();
        assert!(!after.holds("a") && after.holds("b"));
    }
}
