//! What a detached process leaves in the state directory: what it wrote on stderr (`NAME.log`) and on stdout
//! (`NAME.out`), and how it ended (`NAME.exit`). NAME is its mark in the journal. While it lives, it holds a lock on
//! its log.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use cap_std::fs::{DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt};
use windlass_inspect::failure::Failure;
use windlass_inspect::text::printable;
use windlass_lifecycle::StateDirectory;

/// Names to the process the files that it writes to, before it has its mark. It is set for detached processes only.
pub(crate) const STARTING: &str = "WINDLASS_DETACHED";
/// The folder in the state directory.
const FOLDER: &str = "detached";
/// What a process writes beyond this on one of its streams makes that file begin anew.
const MAX_BYTES: u64 = 4 << 20;
/// So many processes' files stay beside those of processes that live, the youngest.
const MAX_ENDED: usize = 100;
const BOUND_AGAIN: Duration = Duration::from_secs(1);

/// The state directory and the mark of this process, where it is a detached one that has begun to work.
static WORKING: OnceLock<(StateDirectory, String)> = OnceLock::new();

/// Whether this is a detached process.
pub(crate) fn is_detached() -> bool {
    std::env::var_os(STARTING).is_some()
}

/// In a detached process: leaves the terminal's session, says that it lives, and bounds the files that it writes to.
pub(crate) fn begin() {
    if !is_detached() {
        return;
    }
    // It fails only for the leader of a group, which a process of ours is not: then there is nothing to leave.
    let _ = rustix::process::setsid();
    // The lock is the open file's, so it lasts as long as stderr. Without it the process is taken to have ended.
    let _ = rustix::fs::flock(std::io::stderr(), rustix::fs::FlockOperation::NonBlockingLockExclusive);
    let bound = |stream: &dyn AsFd| {
        let size = rustix::fs::fstat(stream).map_or(0, |data| u64::try_from(data.st_size).unwrap_or(0));
        if size > MAX_BYTES {
            let _ = rustix::fs::ftruncate(stream, 0);
        }
    };
    // Without the thread the files have no bound, and the work is done all the same.
    let _ = std::thread::Builder::new().name("bound".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(BOUND_AGAIN);
            bound(&std::io::stderr());
            bound(&std::io::stdout());
        }
    });
}

/// In a detached process: names its files after its mark, before anything of it stands in the journal.
pub(crate) fn works_as(state: &StateDirectory, mark: &str) {
    let Some(starting) = std::env::var_os(STARTING).and_then(|name| name.into_string().ok()) else { return };
    if WORKING.set((state.clone(), mark.to_owned())).is_err() {
        return;
    }
    for kind in ["log", "out"] {
        // Under its old name it is only not found by `attach`; the work is the same.
        let _ = state.handle().rename(path(&starting, kind), state.handle(), path(mark, kind));
    }
}

/// In a detached process: notes how it ends.
pub(crate) fn end(code: u8) {
    if let Some((state, mark)) = WORKING.get() {
        // Where it cannot be noted, it looks as if the process was killed, and its operation tells how far it came.
        let _ = state.handle().write(path(mark, "exit"), code.to_string());
    }
}

fn path(name: &str, kind: &str) -> String {
    format!("{FOLDER}/{name}.{kind}")
}

pub(crate) fn unusable(state: &StateDirectory) -> impl Fn(std::io::Error) -> Failure {
    let place = state.path().join(FOLDER).display().to_string();
    move |error| {
        Failure::usage("the output of detached operations cannot be kept; nothing was touched")
            .at(place.clone())
            .because(error.to_string())
    }
}

/// The files for a process that is about to start, by this name until it has its mark: its stdout and stderr.
pub(crate) fn prepare(state: &StateDirectory, starting: &str) -> Result<(File, File), Failure> {
    let failed = unusable(state);
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match state.handle().create_dir_with(FOLDER, &builder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    prune(state);
    let mut options = OpenOptions::new();
    options.read(true).append(true).create_new(true).mode(0o600);
    let open = |kind| {
        let path = path(starting, kind);
        // One that a process of the same number left when it was killed.
        let _ = state.handle().remove_file(&path);
        state.handle().open_with(&path, &options).map(cap_std::fs::File::into_std).map_err(&failed)
    };
    Ok((open("out")?, open("log")?))
}

/// What stands in a file of [`prepare`].
pub(crate) fn written(mut file: &File) -> String {
    let mut content = Vec::new();
    // What cannot be read is left out of the message; the exit code says that it failed.
    let _ = file.rewind().and_then(|()| file.take(2 * MAX_BYTES).read_to_end(&mut content));
    String::from_utf8_lossy(&content).into_owned()
}

/// Removes the files of a process that ended before it had its mark.
pub(crate) fn forget(state: &StateDirectory, starting: &str) {
    for kind in ["out", "log"] {
        let _ = state.handle().remove_file(path(starting, kind));
    }
}

fn read(state: &StateDirectory, mark: &str, kind: &str) -> Option<String> {
    Some(written(&state.handle().open(path(mark, kind)).ok()?.into_std()))
}

/// What a detached process has written and still writes.
pub(crate) struct Kept {
    state: StateDirectory,
    mark: String,
    log: File,
    /// How much of the log was read.
    at: u64,
}

impl Kept {
    /// That of the process with this mark in the journal; none where it is no detached one, or where its files are
    /// gone.
    pub(crate) fn of(state: &StateDirectory, mark: &str) -> Result<Option<Kept>, Failure> {
        if mark.contains('/') || mark.starts_with('.') {
            return Ok(None);
        }
        match state.handle().open(path(mark, "log")) {
            Ok(log) => Ok(Some(Kept { state: state.clone(), mark: mark.to_owned(), log: log.into_std(), at: 0 })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::usage("what the detached process wrote cannot be read")
                .at(state.path().join(path(mark, "log")).display().to_string())
                .because(error.to_string())),
        }
    }

    /// Whether the process lives.
    pub(crate) fn lives(&self) -> bool {
        is_locked(&self.log)
    }

    /// The whole lines of its log since the last time. What cannot be read is no failure of the operation.
    pub(crate) fn new_lines(&mut self) -> Vec<String> {
        let mut content = Vec::new();
        let length = self.log.metadata().map_or(0, |data| data.len());
        if length < self.at {
            // It was cut at its bound.
            self.at = 0;
        }
        let read = self.log.seek(SeekFrom::Start(self.at));
        let read = read.and_then(|_| (&self.log).take(2 * MAX_BYTES).read_to_end(&mut content));
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if read.is_err() || whole == 0 {
            return Vec::new();
        }
        self.at += whole as u64;
        String::from_utf8_lossy(&content[..whole]).lines().map(printable).collect()
    }

    /// Its exit code and what it wrote on stdout; none where it was killed.
    pub(crate) fn ended(&self) -> Option<(u8, String)> {
        let code = read(&self.state, &self.mark, "exit")?.trim().parse().ok()?;
        Some((code, read(&self.state, &self.mark, "out").unwrap_or_default()))
    }
}

fn is_locked(log: &File) -> bool {
    log.try_lock_shared().is_err_and(|error| matches!(error, std::fs::TryLockError::WouldBlock)) || {
        let _ = log.unlock();
        false
    }
}

/// Removes the oldest files of processes that have ended. What cannot be removed now is removed another time.
fn prune(state: &StateDirectory) {
    let Ok(entries) = state.handle().read_dir(FOLDER) else { return };
    let mut ended: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mark = name.strip_suffix(".log")?.to_owned();
            let is_over = entry.open().is_ok_and(|log| !is_locked(&log.into_std()));
            is_over.then_some((entry.metadata().ok()?.modified().ok()?.into_std(), mark))
        })
        .collect();
    ended.sort();
    let more = (ended.len() + 1).saturating_sub(MAX_ENDED);
    for (_, mark) in ended.into_iter().take(more) {
        for kind in ["out", "exit", "log"] {
            let _ = state.handle().remove_file(path(&mark, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn directory() -> (tempfile::TempDir, StateDirectory) {
        let directory = tempfile::tempdir().expect("a directory");
        let state = StateDirectory::open(directory.path()).expect("opened");
        state.handle().create_dir(FOLDER).expect("made");
        (directory, state)
    }

    #[test]
    fn only_the_youngest_stay_and_all_of_processes_that_live() {
        let (_directory, state) = directory();
        let mut first = None;
        for number in 0..MAX_ENDED + 5 {
            for kind in ["log", "out", "exit"] {
                state.handle().write(path(&number.to_string(), kind), "0").expect("written");
            }
            let log = state.handle().open(path(&number.to_string(), "log")).expect("opened").into_std();
            let age = Duration::from_secs(1_000_000 - number as u64);
            log.set_modified(std::time::SystemTime::now() - age).expect("set");
            if number == 0 {
                log.try_lock().expect("locked");
                first = Some(log);
            }
        }
        prune(&state);
        let there = |number: usize, kind| state.handle().exists(path(&number.to_string(), kind));
        for kind in ["log", "out", "exit"] {
            let stay: Vec<_> = (0..MAX_ENDED + 5).filter(|number| there(*number, kind)).collect();
            assert_eq!(stay.len(), MAX_ENDED, "{kind}");
            assert_eq!(stay[..2], [0, 6], "{kind}: the one that lives, and none of the oldest");
        }
        drop(first);
        prune(&state);
        assert!(!there(0, "log"));
    }

    #[test]
    fn a_growing_log_is_told_by_whole_lines_each_once_and_cannot_steer_the_terminal() {
        let (_directory, state) = directory();
        let mut writer = state.handle().create(path("1-a", "log")).expect("made").into_std();
        let mut kept = Kept::of(&state, "1-a").expect("readable").expect("there");
        assert!(kept.new_lines().is_empty());
        writer.write_all(b"one\n\x1b[2Jtw").expect("written");
        assert_eq!(kept.new_lines(), ["one"]);
        writer.write_all(b"o\n").expect("written");
        assert_eq!(kept.new_lines(), ["\u{fffd}[2Jtwo"]);
        assert!(kept.new_lines().is_empty());
        writer.set_len(0).expect("cut");
        writer.seek(SeekFrom::Start(0)).expect("at its begin");
        writer.write_all(b"anew\n").expect("written");
        assert_eq!(kept.new_lines(), ["anew"]);
    }

    #[test]
    fn a_process_lives_as_long_as_its_log_is_locked_and_was_killed_where_no_end_is_noted() {
        let (_directory, state) = directory();
        let log = state.handle().create(path("1-a", "log")).expect("made").into_std();
        log.try_lock().expect("locked");
        let kept = Kept::of(&state, "1-a").expect("readable").expect("there");
        assert!(kept.lives());
        drop(log);
        assert!(!kept.lives());
        assert!(kept.ended().is_none());
        state.handle().write(path("1-a", "exit"), "3").expect("written");
        state.handle().write(path("1-a", "out"), "{}\n").expect("written");
        assert_eq!(kept.ended(), Some((3, "{}\n".to_owned())));
        assert!(Kept::of(&state, "../1-a").expect("no failure").is_none());
    }
}
