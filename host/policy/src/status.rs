//! How policies are doing, for whoever looks from outside: each host keeps a file in its state folder that says so,
//! from its start to its end.
//!
//! `hosts/<process>-<random>.json` is replaced as a whole whenever something changes. Beside it lies a `.lock` that the
//! host holds locked: the kernel lets it go when the process ends, however it ends. Nothing is synced, since after a
//! loss of power no host runs.

use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::changes::Changes;
use crate::decision::now_ms;
use crate::error::Error;
use crate::gauges::Gauges;
use crate::host_status::HostStatus;
use crate::text::{cut, without_controls};
use windlass_distribution::files::{private_folder, read_bounded, remove};

const FOLDER: &str = "hosts";
const CONTENT: &str = ".json";
const LOCK: &str = ".lock";
/// The end of what isn't finished yet.
const UNFINISHED: &str = ".tmp";
/// The longest file. Of the most links that there can be, each has less than 8 KiB.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest text of a link in the file, and the longest name of a program, in bytes.
const MAX_TEXT_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 64;
/// How long changes are collected before they are written.
const PAUSE: Duration = Duration::from_millis(250);

/// A host that runs on a state folder, as it said last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunningHost {
    /// The id of its process.
    pub process: u32,
    /// The name of its program.
    pub program: String,
    /// When it began, in milliseconds since 1970-01-01T00:00:00Z.
    pub started_at_ms: u64,
    /// How it is doing. Texts are cut after a kilobyte.
    pub status: HostStatus,
}

/// The hosts that run on a state folder now, the oldest first. What dead ones have left there is removed.
///
/// # Errors
/// The folder can't be read.
pub fn running_hosts(state: &Dir) -> Result<Vec<RunningHost>, Error> {
    let failed = |source| Error::StateFolder { what: "read the folder hosts".into(), source };
    let folder = match state.open_dir(FOLDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        folder => folder.map_err(failed)?,
    };
    let mut hosts = Vec::new();
    for name in living(&folder).map_err(failed)? {
        // A host that has only just begun, or is about to end, has said nothing.
        let Ok(bytes) = read_bounded(&folder, name.clone() + CONTENT, MAX_FILE_BYTES) else { continue };
        match serde_json::from_slice::<RunningHost>(&bytes) {
            Ok(host) => hosts.push(host),
            Err(error) => tracing::warn!(host = name, %error, "the status of a host can't be read"),
        }
    }
    hosts.sort_by_key(|host| (host.started_at_ms, host.process));
    Ok(hosts)
}

/// The names of the hosts that live. What dead ones have left is removed.
fn living(folder: &Dir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        let Ok(file) = entry?.file_name().into_string() else { continue };
        let Some(name) = file.strip_suffix(LOCK) else { continue };
        match lives(folder, &file) {
            Ok(true) => names.push(name.to_owned()),
            Ok(false) => {
                for end in [CONTENT, UNFINISHED, LOCK] {
                    remove(folder, format!("{name}{end}"))?;
                }
            }
            Err(error) => tracing::warn!(host = name, %error, "cannot check whether a host is running"),
        }
    }
    Ok(names)
}

fn lives(folder: &Dir, lock: &str) -> io::Result<bool> {
    let file = match folder.open(lock) {
        // It ended meanwhile, and has removed everything.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?.into_std(),
    };
    // Shared, so that two who look at the same time don't take each other for the host.
    match file.try_lock_shared() {
        Ok(()) => {
            // Not left to the closing of the file, which a child process that is being started may have open as well.
            file.unlock()?;
            Ok(false)
        }
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Somebody who is told how the host is doing. False: no longer.
type Follower = Box<dyn Fn(&RunningHost) -> bool + Send>;

/// Tells the writer that something has changed.
#[derive(Default)]
pub(crate) struct StatusSignal {
    state: Mutex<Signal>,
    wake: Condvar,
    /// Who is told what is written.
    followers: Mutex<Vec<Follower>>,
}

#[derive(Default)]
struct Signal {
    changed: bool,
    /// Whether the policies are those that somebody wants: before, a host has its built-in defaults only.
    configured: bool,
    stop: bool,
}

impl StatusSignal {
    /// Never waits for the disk.
    pub(crate) fn changed(&self) {
        self.state.lock().changed = true;
        self.wake.notify_one();
    }

    /// The policies that somebody wants are in place: from now on their changes are written down.
    pub(crate) fn configured(&self) {
        self.state.lock().configured = true;
        self.changed();
    }

    fn is_configured(&self) -> bool {
        self.state.lock().configured
    }

    /// From now on this is called with what is written, until it returns false.
    pub(crate) fn follow(&self, follower: Follower) {
        self.followers.lock().push(follower);
        self.changed();
    }

    fn tell(&self, host: &RunningHost) {
        self.followers.lock().retain(|follower| follower(host));
    }

    /// Waits until something has changed. Returns false when it is over.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.changed && !state.stop {
            self.wake.wait(&mut state);
        }
        state.changed = false;
        !state.stop
    }

    /// Lets more changes come together. Ends at once when the policies that somebody wants come into place: nobody is to
    /// read any longer that the built-in defaults decide. Returns whether it lasted to its end.
    fn pause(&self, was_configured: bool) -> bool {
        let until = Instant::now() + PAUSE;
        let mut state = self.state.lock();
        while !state.stop && state.configured == was_configured {
            if self.wake.wait_until(&mut state, until).timed_out() {
                return true;
            }
        }
        false
    }

    fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_one();
    }
}

/// Writes what a host says of itself until it is dropped.
pub(crate) struct StatusWriter {
    signal: Arc<StatusSignal>,
    thread: Option<JoinHandle<()>>,
}

impl StatusWriter {
    /// Begins to write what `status` says, now and after each change. Of a host that is no trial, metrics and events
    /// tell it as well.
    pub(crate) fn start(
        state: &Dir,
        word: u32,
        is_trial: bool,
        signal: Arc<StatusSignal>,
        status: impl Fn() -> HostStatus + Send + 'static,
    ) -> Result<StatusWriter, Error> {
        let failed = |source| Error::StateFolder { what: "say in the folder hosts that this host runs".into(), source };
        let folder = private_folder(state, FOLDER).map_err(failed)?;
        // So that those who die again and again don't fill it.
        living(&folder).map_err(failed)?;
        let mark = Mark::make(folder, word).map_err(failed)?;
        let state = state.try_clone().map_err(failed)?;
        // Opened when there is something to write: most hosts of a command line live for a moment.
        let mut changes: Option<Changes> = None;
        let mut gauges = Gauges::default();
        let (started_at_ms, signalled) = (now_ms(), signal.clone());
        signal.changed();
        let write = move || {
            let mut was_written = true;
            loop {
                // The last look is for the changes only: who ends does nothing any more.
                let goes_on = signalled.wait();
                let (process, program) = (std::process::id(), program());
                let is_configured = signalled.is_configured();
                let host = RunningHost { process, program, started_at_ms, status: shortened(status()) };
                let noted = if is_configured && !is_trial {
                    gauges.show(&host.status);
                    note(&mut changes, &state, &host)
                } else {
                    Ok(())
                };
                if !goes_on {
                    return;
                }
                signalled.tell(&host);
                let written = noted.and(mark.write(&host));
                if let Err(error) = &written
                    && was_written
                {
                    tracing::warn!(%error, "the status of the policies can't be written");
                }
                was_written = written.is_ok();
                signalled.pause(is_configured);
            }
        };
        let thread = std::thread::Builder::new().name("policy-status".into()).spawn(write).map_err(Error::Thread)?;
        Ok(StatusWriter { signal, thread: Some(thread) })
    }
}

/// Writes down what has changed.
fn note(changes: &mut Option<Changes>, state: &Dir, host: &RunningHost) -> io::Result<()> {
    let changes = match changes {
        Some(changes) => changes,
        None => changes.insert(Changes::open(state, host.process, host.program.clone())?),
    };
    changes.note(&host.status, now_ms())
}

impl Drop for StatusWriter {
    fn drop(&mut self) {
        self.signal.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the status of policies panicked");
        }
    }
}

/// What says that a host lives. Removed when it is dropped.
struct Mark {
    folder: Dir,
    name: String,
    /// Locked.
    _lock: File,
}

impl Mark {
    fn make(folder: Dir, word: u32) -> io::Result<Mark> {
        let name = format!("{}-{word:08x}", std::process::id());
        let unfinished = format!("{name}{UNFINISHED}");
        let lock = create(&folder, &unfinished)?;
        lock.lock()?;
        // It has its name only when it is locked, so that nobody takes it for a dead one's.
        folder.rename(&unfinished, &folder, format!("{name}{LOCK}"))?;
        Ok(Mark { folder, name, _lock: lock })
    }

    fn write(&self, host: &RunningHost) -> io::Result<()> {
        let unfinished = format!("{}{UNFINISHED}", self.name);
        let mut file = create(&self.folder, &unfinished)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(host)?)?;
        self.folder.rename(&unfinished, &self.folder, format!("{}{CONTENT}", self.name))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for end in [UNFINISHED, CONTENT, LOCK] {
            if let Err(error) = remove(&self.folder, format!("{}{end}", self.name)) {
                tracing::warn!(%error, "the status of a host that ends can't be removed");
            }
        }
    }
}

fn create(folder: &Dir, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    Ok(folder.open_with(name, &options)?.into_std())
}

/// The name of this program, as it was called.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    without_controls(&name, MAX_NAME_BYTES)
}

fn shortened(mut status: HostStatus) -> HostStatus {
    for link in &mut status.links {
        let texts = [Some(&mut link.source), Some(&mut link.summary), link.last_failure.as_mut(), link.error.as_mut()];
        for text in texts.into_iter().flatten() {
            *text = cut(std::mem::take(text), MAX_TEXT_BYTES);
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use cap_std::ambient_authority;

    use super::*;
    use crate::configuration::Mode;
    use crate::decision::PolicyIdentity;
    use crate::host_status::LinkStatus;
    use crate::slots::SlotName;

    fn state() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, state)
    }

    fn host(process: u32) -> RunningHost {
        let status = HostStatus { links: Vec::new(), lost_records: 1, dropped_records: 2 };
        RunningHost { process, program: "test".into(), started_at_ms: process.into(), status }
    }

    #[test]
    fn who_lives_is_told_and_what_the_dead_left_is_removed() {
        let (folder, state) = state();
        assert_eq!(running_hosts(&state).unwrap(), []);
        let hosts = private_folder(&state, FOLDER).unwrap();
        let mark = |word| Mark::make(hosts.try_clone().unwrap(), word).unwrap();
        let (living, dying) = (mark(1), mark(2));
        living.write(&host(7)).unwrap();
        dying.write(&host(5)).unwrap();
        assert_eq!(running_hosts(&state).unwrap(), [host(5), host(7)], "the oldest first");

        // It dies: the kernel unlocks its file, and nobody removes it.
        dying._lock.unlock().unwrap();
        std::mem::forget(dying);
        assert_eq!(running_hosts(&state).unwrap(), [host(7)]);
        let left = || std::fs::read_dir(folder.path().join(FOLDER)).unwrap().count();
        assert_eq!(left(), 2, "a file and a lock");
        drop(living);
        assert_eq!(left(), 0);
    }

    #[test]
    fn a_host_that_starts_removes_what_the_dead_left() {
        let (folder, state) = state();
        let hosts = private_folder(&state, FOLDER).unwrap();
        for word in 0..3 {
            let dead = Mark::make(hosts.try_clone().unwrap(), word).unwrap();
            dead.write(&host(word)).unwrap();
            dead._lock.unlock().unwrap();
            std::mem::forget(dead);
        }
        let status = || host(1).status;
        let writer = StatusWriter::start(&state, 9, false, Arc::default(), status).unwrap();
        let locks = || {
            let entries = std::fs::read_dir(folder.path().join(FOLDER)).unwrap();
            entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "lock")).count()
        };
        assert_eq!(locks(), 1);
        drop(writer);
        assert_eq!(locks(), 0);
    }

    #[test]
    fn configured_policies_are_written_without_a_pause() {
        let signal = StatusSignal::default();
        assert!(signal.pause(false));
        signal.configured();
        assert!(!signal.pause(false), "it had been written before");
        assert!(signal.pause(true));
    }

    #[test]
    fn followers_are_told_of_each_change_until_they_want_no_more() {
        let (_folder, state) = state();
        let signal = Arc::<StatusSignal>::default();
        let lost = Arc::new(AtomicU64::new(1));
        let status = {
            let lost = lost.clone();
            move || HostStatus { lost_records: lost.load(Ordering::SeqCst), ..host(1).status }
        };
        let writer = StatusWriter::start(&state, 9, false, signal.clone(), status).unwrap();
        let (told, heard) = mpsc::channel();
        signal.follow(Box::new(move |host| told.send(host.status.lost_records).is_ok()));
        assert_eq!(heard.recv(), Ok(1));
        lost.store(7, Ordering::SeqCst);
        signal.changed();
        assert!(heard.iter().any(|lost| lost == 7));
        // Who wants no more is dropped, and with it what it tells through.
        let (told, heard) = mpsc::channel();
        signal.follow(Box::new(move |host| {
            told.send(host.process).unwrap();
            false
        }));
        assert_eq!(heard.iter().collect::<Vec<_>>(), [std::process::id()]);
        drop(writer);
    }

    #[test]
    fn long_texts_are_cut() {
        let mut status = host(1).status;
        let identity = PolicyIdentity {
            slot: SlotName::Retry,
            name: "a".into(),
            version: "1.0.0".into(),
            component: crate::Digest::of(b"a"),
            settings: crate::Digest::of(b"b"),
            configuration: None,
            origin: None,
        };
        let long = "x".repeat(100_000);
        status.links.push(LinkStatus {
            slot: SlotName::Retry,
            position: 0,
            mode: Mode::Decide,
            policy: identity,
            summary: long.clone(),
            source: long.clone(),
            loaded_at_ms: 0,
            suspended: false,
            failures_in_a_row: 0,
            last_failure: Some(long.clone()),
            error: Some(long),
            refused_at_ms: None,
        });
        assert!(serde_json::to_vec(&shortened(status)).unwrap().len() < 8 << 10);
    }
}
