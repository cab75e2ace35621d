//! A program beside windlass, in a process group of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::Instant;
use windlass_policy::kind_word;

use super::failure::HookProblem;
use super::hook::ProgramHook;
use super::input::{HookInput, trace_context};
use super::output::{CAPTURED_BYTES, HookOutput, Tail};

/// What a program sees of windlass's own environment, where it is set.
pub(super) const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"];
/// Between "please end" (SIGTERM) and the end (SIGKILL).
const GRACE: Duration = Duration::from_secs(2);
/// How long is read on after a program has ended while something that it started holds its streams open.
const LINGER: Duration = Duration::from_millis(200);

/// The program's file.
pub(super) fn find(program: &ProgramHook) -> Result<PathBuf, HookProblem> {
    let runnable = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.command.contains('/') {
        let path = std::path::absolute(&program.command).map_err(|error| HookProblem::NotStarted(error.to_string()))?;
        return match std::fs::metadata(&path) {
            Ok(_) if runnable(&path) => Ok(path),
            Ok(_) => Err(HookProblem::NotStarted(format!("{} is no executable file: chmod +x", path.display()))),
            Err(error) => Err(HookProblem::NotStarted(format!("{}: {error}", path.display()))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(&program.command))
        .find(|file| file.is_absolute() && runnable(file))
        .ok_or_else(|| {
            HookProblem::NotStarted(format!(
                "there is no program {:?} in PATH; write ./{} for one beside the specification",
                program.command, program.command
            ))
        })
}

/// Whether the folder that it is to run in is there.
pub(super) fn check_folder(program: &ProgramHook) -> Result<(), HookProblem> {
    match &program.working_directory {
        Some(folder) if !folder.is_dir() => {
            Err(HookProblem::NotStarted(format!("there is no folder {}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// The whole environment of the program: names and values.
pub(super) fn environment(program: &ProgramHook, input: &HookInput) -> Vec<(String, std::ffi::OsString)> {
    let own = |name: &str| std::env::var_os(name).map(|value| (name.to_owned(), value));
    let mut variables: Vec<_> = INHERITED.iter().copied().filter_map(own).collect();
    variables.extend(program.pass_environment.iter().map(String::as_str).filter_map(own));
    variables.extend(program.environment.iter().map(|(name, value)| (name.clone(), value.into())));
    variables.extend([
        ("WINDLASS_HOOK_VERSION".to_owned(), input.version.to_string().into()),
        ("WINDLASS_CLUSTER".to_owned(), input.cluster.clone().into()),
        ("WINDLASS_ZONE".to_owned(), input.zone.clone().into()),
        ("WINDLASS_OPERATION".to_owned(), kind_word(&input.operation).into()),
        ("WINDLASS_OPERATION_ID".to_owned(), input.operation_id.clone().into()),
        ("WINDLASS_STAGE".to_owned(), kind_word(&input.stage).into()),
        ("WINDLASS_ATTEMPT".to_owned(), input.attempt.to_string().into()),
    ]);
    variables.extend(trace_context().map(|context| ("TRACEPARENT".to_owned(), context.into())));
    variables
}

/// Runs it until `deadline`. A future that is dropped takes the program with it, and all that it started in its process
/// group.
pub(super) async fn run(
    program: &ProgramHook,
    input: &HookInput,
    limit: Duration,
    output: &mut HookOutput,
) -> Result<(), HookProblem> {
    let deadline = Instant::now() + limit;
    let mut command = Command::new(find(program)?);
    command
        .args(&program.arguments)
        .env_clear()
        .envs(environment(program, input))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own group: a Ctrl-C on the terminal reaches windlass alone, and the whole group can be ended.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = &program.working_directory {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(|error| {
        let place = program.working_directory.as_deref().map(|folder| format!(" in {}", folder.display()));
        HookProblem::NotStarted(format!("{error}{}", place.unwrap_or_default()))
    })?;
    let group = ProcessGroup::of(&child);
    let mut stdout = Tail::new(CAPTURED_BYTES);
    let mut stderr = Tail::new(CAPTURED_BYTES);
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ended = {
        let read_and_write = async {
            tokio::join!(write(streams.0, input.json()), read(streams.1, &mut stdout), read(streams.2, &mut stderr));
        };
        tokio::pin!(read_and_write);
        let mut open = true;
        let ended = tokio::select! {
            status = wait(&mut child, read_and_write.as_mut(), &mut open) => status,
            () = tokio::time::sleep_until(deadline) => {
                group.signal(Signal::TERM);
                // What it says on its way out is worth reading.
                let _ = tokio::time::timeout(GRACE, wait(&mut child, read_and_write.as_mut(), &mut open)).await;
                Err(HookProblem::TimedOut(limit))
            }
        };
        // Whatever still holds its streams open has been started by it: a moment for last words, and then its end.
        if open {
            let _ = tokio::time::timeout(LINGER, read_and_write).await;
        }
        ended
    };
    drop(group);
    output.stdout = stdout.finish();
    output.stderr = stderr.finish();
    judge(ended?)
}

/// The program's end. Its streams are read and written meanwhile, for as long as it runs; `open` says whether they
/// still are.
async fn wait(
    child: &mut Child,
    mut streams: std::pin::Pin<&mut impl Future<Output = ()>>,
    open: &mut bool,
) -> Result<ExitStatus, HookProblem> {
    loop {
        tokio::select! {
            status = child.wait() => {
                return status.map_err(|error| HookProblem::NotStarted(format!("its end could not be waited for: \
                    {error}")));
            }
            () = streams.as_mut(), if *open => *open = false,
        }
    }
}

fn judge(status: ExitStatus) -> Result<(), HookProblem> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(HookProblem::ExitCode(code)),
        (None, signal) => Err(HookProblem::Signal(signal.map_or_else(|| "?".to_owned(), |signal| signal.to_string()))),
    }
}

async fn write(stdin: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        // A program that doesn't read its input closes the pipe: that is its right.
        let _ = stdin.write_all(&input).await;
        let _ = stdin.shutdown().await;
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>, tail: &mut Tail) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 8 * 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => tail.push(&buffer[..length]),
        }
    }
}

/// A process group that ends when this is dropped, whichever way its run came to an end.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // No such group: everything in it has ended. The number cannot have been given to another one while a
            // member lives, and in the moments since the last one was waited for the system doesn't go once around all
            // its numbers.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
