use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::wait::LIMIT;

/// Between two looks whether a program has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines of a log that stand in a message.
const LAST_LINES: usize = 40;

/// A program that runs beside the test and never outlives it.
///
/// A guard, a tiny shell, reads from a pipe that only this process holds; when this process ends in whatever way, the
/// pipe closes and the guard kills the program. Dropping kills it at once.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    guard: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both its outputs appended to `log`.
    ///
    /// # Errors
    /// When the program or its guard cannot be started, or the log not be written.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log).context("open the log")?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share the log")?)
            .stderr(output)
            // Ctrl-C is for the test; what it started ends by the guard, after the test has had its say.
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}: {}", command.get_program().display()))?;
        match guard(r#"kill -9 "$0" 2>/dev/null"#, &child.id().to_string()) {
            Ok(guard) => Ok(Self { name: name.to_owned(), child, guard, log: log.to_owned() }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no goodbye, nothing flushed.
    pub fn kill(&mut self) {
        // The guard first: once the program is reaped, its id may be somebody else's.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal, `TERM` for example.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status()?;
        if !status.success() {
            bail!("{} could not be sent {signal}", self.name);
        }
        Ok(())
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// When it still runs after far more looks than that takes; with its last words.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let still = || format!("{} still runs; its last words:\n{}", self.name, last_words(&self.log));
        wait(&mut self.child)?.with_context(still)
    }

    /// The end of what it wrote, for messages.
    #[must_use]
    pub fn last_words(&self) -> String {
        last_words(&self.log)
    }

    /// Everything it, and those before it with the same log, wrote.
    #[must_use]
    pub fn written(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until a program has ended by itself, for far more looks than any takes that is waited for; `None` when it
/// still runs.
pub(crate) fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    for _ in 0..LIMIT.as_millis() / PAUSE.as_millis() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(child.try_wait()?)
}

/// Removes `folder` when this process ends, however that happens, and everything guarded had its time to die.
pub(crate) fn remove_at_the_end(folder: &Path) -> Result<Child> {
    guard(r#"sleep 2; rm -rf "$0""#, folder.to_str().context("a folder name that is not UTF-8")?)
}

/// A shell that does `action` with `$0` = `argument` once this process no longer holds its input.
fn guard(action: &str, argument: &str) -> Result<Child> {
    Command::new("sh")
        .args(["-c", &format!("cat >/dev/null; {action}"), argument])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("start a guard (needs `sh`)")
}

fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_dies_with_its_guard_s_pipe() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = folder.path().join("log");
        let mut sleeper = Process::start("sleep", Command::new("sleep").arg("3600"), &log).expect("started");
        assert_eq!(sleeper.ended().expect("known"), None);
        // What the system does when the test process ends.
        drop(sleeper.guard.stdin.take());
        let status = sleeper.wait().expect("ended");
        assert!(!status.success());
    }
}
