//! `--detach`: the same command in a process of its own that goes on without the terminal.
//!
//! The process has no terminal and no input; what it writes goes to a file of the state directory that is named after
//! its mark in the journal. Credentials reach it as they reached this one: by the environment and by files.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use cap_std::fs::{DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt};
use serde_json::json;
use windlass_cluster::ClusterStore;
use windlass_lifecycle::{Error, Journal, OperationFilter, OperationId, StateDirectory};

use crate::arguments::{self, ClusterCommand, OperationCommand, ServerCommand};
use crate::context::{Context, cluster_store};
use crate::failure::{Exit, Failure};
use crate::output::printable;

/// Says to the process that it is to have a session of its own.
const MARK: &str = "WINDLASS_DETACHED";
/// Where the output of detached processes is, in the state directory.
const FOLDER: &str = "detached";
/// What a process writes beyond this makes its file begin anew.
pub(crate) const LARGEST_LOG_BYTES: u64 = 4 << 20;
/// So many files stay, the youngest.
const MOST_LOGS: usize = 100;
/// How often it is looked whether the operation is in the journal.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const BOUND_AGAIN: Duration = Duration::from_secs(1);

/// Whether a command is to go on in a process of its own.
pub(crate) fn is_wanted(command: &arguments::Command) -> bool {
    use arguments::Command;
    // What was started to go on by itself never starts another.
    if std::env::var_os(MARK).is_some() {
        return false;
    }
    match command {
        Command::Server(ServerCommand::Create(create)) => create.detach.detach,
        Command::Server(ServerCommand::Delete(delete)) => delete.detach.detach,
        Command::Operation(OperationCommand::Resume(resume)) => resume.detach,
        Command::Cluster(ClusterCommand::Create(create)) => create.run.detach.detach,
        Command::Cluster(ClusterCommand::Apply(apply)) => apply.removal.run.detach.detach,
        Command::Cluster(ClusterCommand::Scale(scale)) => scale.removal.run.detach.detach,
        Command::Cluster(ClusterCommand::Terminate(terminate)) => terminate.removal.run.detach.detach,
        Command::Cluster(ClusterCommand::Replace(replace)) => replace.removal.run.detach.detach,
        _ => false,
    }
}

/// In a process that was started by [`run`]: leaves the terminal's session, and bounds the file that it writes to.
pub(crate) fn begin() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    // It fails only for the leader of a group, which a process of ours is not: then there is nothing to leave.
    let _ = rustix::process::setsid();
    let bound = || loop {
        std::thread::sleep(BOUND_AGAIN);
        let stderr = std::io::stderr();
        if rustix::fs::fstat(&stderr)
            .is_ok_and(|data| u64::try_from(data.st_size).is_ok_and(|size| size > LARGEST_LOG_BYTES))
        {
            let _ = rustix::fs::ftruncate(&stderr, 0);
        }
    };
    // Without the thread the file has no bound, and the work is done all the same.
    let _ = std::thread::Builder::new().name("bound".to_owned()).spawn(bound);
}

/// What the process with this mark in the journal wrote, where it is a detached one.
pub(crate) fn log_of(state: &StateDirectory, runner: &str) -> Result<Option<std::fs::File>, Failure> {
    if runner.contains('/') {
        return Ok(None);
    }
    match state.handle().open(format!("{FOLDER}/{runner}.log")) {
        Ok(file) => Ok(Some(file.into_std())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(state)(error)),
    }
}

fn unusable(state: &StateDirectory) -> impl Fn(std::io::Error) -> Failure {
    let place = state.path().join(FOLDER).display().to_string();
    move |error| {
        Failure::usage("the output of detached operations cannot be kept; nothing was touched")
            .at(place.clone())
            .because(error.to_string())
    }
}

/// What a detached process has begun.
enum Begun {
    Operations { runner: String, ids: Vec<OperationId> },
    Cluster { runner: String, name: String, number: u64 },
}

/// Starts this command line again, without its option, and waits until the journal knows of it.
pub(crate) async fn run(context: &Context, command: &arguments::Command) -> Result<(), Failure> {
    if let arguments::Command::Server(ServerCommand::Create(create)) = command
        && create.cloud_init.as_deref().is_some_and(|path| path.as_os_str() == "-")
    {
        return Err(Failure::usage("a detached operation has no stdin to read cloud-init from")
            .remedy("write it into a file and name that with --cloud-init"));
    }
    let of_cluster = matches!(command, arguments::Command::Cluster(_));
    let state = context.state_directory()?;
    let failed = unusable(&state);
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match state.handle().create_dir_with(FOLDER, &builder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    prune(&state);
    let name = format!("{FOLDER}/starting-{}.log", std::process::id());
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let log = state.handle().open_with(&name, &options).map_err(&failed)?.into_std();
    log.set_len(0).map_err(&failed)?;
    let program = std::env::current_exe().map_err(&failed)?;
    let mut child = Command::new(program)
        .args(without_option(std::env::args_os().skip(1)))
        .env(MARK, "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(&failed)?)
        .stderr(log)
        .spawn()
        .map_err(&failed)?;
    let begun = wait_until_begun(&state, &mut child, of_cluster).await;
    let begun = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(status)) => {
            let told = read_log(&state, &name);
            let _ = state.handle().remove_file(&name);
            return ended_early(context, status, &told);
        }
        // It goes on; only this process cannot follow it.
        Err(failure) => return Err(failure),
    };
    let (Begun::Operations { runner, .. } | Begun::Cluster { runner, .. }) = &begun;
    state.handle().rename(&name, state.handle(), format!("{FOLDER}/{runner}.log")).map_err(&failed)?;
    let document = match &begun {
        Begun::Operations { ids, .. } => json!({ "detached": { "process": child.id(), "operations": ids } }),
        Begun::Cluster { name, number, .. } => {
            json!({ "detached": { "process": child.id(), "cluster": name, "operation": number } })
        }
    };
    context.output.result(&document, || match &begun {
        Begun::Operations { ids, .. } => ids
            .iter()
            .map(|id| format!("{id} goes on without the terminal; windlass operation attach {id}\n"))
            .collect(),
        Begun::Cluster { name, number, .. } => {
            format!(
                "operation {number} of cluster {name} goes on without the terminal; windlass cluster watch {name}\n"
            )
        }
    });
    Ok(())
}

/// The command line for the process: the same, so that no secret stands there that was not there before.
fn without_option(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut options = true;
    arguments
        .filter(|argument| {
            options &= argument != "--";
            !options || argument != "--detach"
        })
        .collect()
}

/// What it has begun; or how it ended before it had begun anything.
async fn wait_until_begun(
    state: &StateDirectory,
    child: &mut Child,
    of_cluster: bool,
) -> Result<Result<Begun, ExitStatus>, Failure> {
    let mark = format!("{}-", child.id());
    loop {
        // Asked before the journal: what has ended has written there by then.
        let ended = child.try_wait().map_err(|error| {
            Failure::new(Exit::Left, "whether the detached process runs cannot be seen").because(error.to_string())
        })?;
        let of_cluster = if of_cluster { cluster_of(state, &mark).await? } else { None };
        // Servers that it makes are enough to know that it works, also where the cluster's own row does not show it.
        let begun = of_cluster.map_or_else(|| operations_of(state, &mark), |begun| Ok(Some(begun)))?;
        match (begun, ended) {
            (Some(begun), _) => return Ok(Ok(begun)),
            (None, Some(status)) => return Ok(Err(status)),
            (None, None) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

fn unread(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Left, "the operation may go on, and its journal cannot be read")
        .because(error.to_string())
        .remedy("windlass operation list --open")
}

fn operations_of(state: &StateDirectory, mark: &str) -> Result<Option<Begun>, Failure> {
    let journal = match Journal::read_only(state) {
        Ok(journal) => journal,
        Err(Error::JournalAbsent { .. }) => return Ok(None),
        Err(error) => return Err(unread(&error)),
    };
    let operations = journal.operations(&OperationFilter::default()).map_err(|error| unread(&error))?;
    // A number of a process is used again: only what the mark's lock says to live, or has just ended, is meant.
    let newest = operations.iter().find(|operation| operation.runner.starts_with(mark));
    let Some(newest) = newest.filter(|operation| is_recent(operation.updated_at)) else { return Ok(None) };
    let runner = newest.runner.clone();
    let ids = operations.iter().filter(|operation| operation.runner == runner).map(|it| it.id.clone()).collect();
    Ok(Some(Begun::Operations { runner, ids }))
}

async fn cluster_of(state: &StateDirectory, mark: &str) -> Result<Option<Begun>, Failure> {
    let clusters = cluster_store(state)?.clusters().await.map_err(|error| unread(&error))?;
    let operation = clusters.iter().find_map(|stored| {
        let operation = stored.open.as_ref()?;
        let ours = operation.runner.starts_with(mark) && is_recent(operation.began_at);
        ours.then(|| (stored.cluster.name.to_string(), operation))
    });
    Ok(operation.map(|(name, operation)| Begun::Cluster {
        runner: operation.runner.clone(),
        name,
        number: operation.number,
    }))
}

/// Whether an instant is of the last minutes: far longer than a process needs to begin.
fn is_recent(milliseconds: u64) -> bool {
    milliseconds >= super::decision::ago(Duration::from_secs(600))
}

fn read_log(state: &StateDirectory, name: &str) -> String {
    let mut text = Vec::new();
    let opened = state.handle().open(name);
    // What cannot be read is left out of the message; the exit code says that it failed.
    let _ = opened.and_then(|file| file.take(LARGEST_LOG_BYTES).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// Nothing goes on: what the process said is said here, and its exit code is ours.
fn ended_early(context: &Context, status: ExitStatus, told: &str) -> Result<(), Failure> {
    let exit = match status.code() {
        Some(0) => {
            told.lines().for_each(|line| context.output.say(&printable(line)));
            return Ok(());
        }
        Some(2) => Exit::Usage,
        Some(3) => Exit::Left,
        Some(4) => Exit::Unwritten,
        Some(130) => Exit::Interrupted,
        _ => Exit::Undone,
    };
    let failure = Failure::new(exit, "the detached command ended before it had begun an operation");
    Err(failure.because(anstream::adapter::strip_str(told).to_string()))
}

/// Removes the oldest files. What cannot be removed now is removed another time.
fn prune(state: &StateDirectory) {
    let Ok(entries) = state.handle().read_dir(FOLDER) else { return };
    let mut logs: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?.into_std(), entry.file_name())))
        .collect();
    logs.sort();
    let more = (logs.len() + 1).saturating_sub(MOST_LOGS);
    for (_, name) in logs.into_iter().take(more) {
        let _ = state.handle().remove_file(std::path::Path::new(FOLDER).join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_gets_the_same_command_line_without_the_option() {
        let line = |text: &str| without_option(text.split(' ').map(OsString::from)).join(std::ffi::OsStr::new(" "));
        assert_eq!(line("server delete --detach a --yes"), "server delete a --yes");
        assert_eq!(line("server delete --yes -- --detach"), "server delete --yes -- --detach");
    }

    #[test]
    fn only_the_youngest_outputs_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = StateDirectory::open(directory.path()).expect("opened");
        state.handle().create_dir(FOLDER).expect("made");
        for number in 0..MOST_LOGS + 5 {
            state.handle().write(format!("{FOLDER}/{number}.log"), "x").expect("written");
        }
        prune(&state);
        assert_eq!(state.handle().read_dir(FOLDER).expect("read").count(), MOST_LOGS - 1);
    }
}
