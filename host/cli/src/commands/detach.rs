//! `--detach`: the same command in a process of its own that goes on without the terminal; and attaching to it.
//!
//! The process has no terminal and no input. Credentials reach it as they reached this one: by the environment and by
//! files.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use serde_json::json;
use windlass_cluster::{ClusterStore, LogClusterStore};
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output;
use windlass_inspect::text::{before_now, printable};
use windlass_lifecycle::{Error, Journal, OperationFilter, OperationId, StateDirectory};

use crate::arguments::{self, ClusterCommand, OperationCommand, ServerCommand};
use crate::context::Context;
use crate::detached::{self, Kept};
use crate::interrupt::EndSignals;
use crate::progress::LOOK_AGAIN;

/// How often it is looked whether the operation is in the journal.
const LOOK_SOON: Duration = Duration::from_millis(50);

/// Whether a command is to go on in a process of its own.
pub(crate) fn is_wanted(command: &arguments::Command) -> bool {
    use arguments::Command;
    // What was started to go on by itself never starts another.
    if detached::is_detached() {
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

/// What a detached process has begun.
enum Begun {
    Operations { ids: Vec<OperationId> },
    Cluster { name: String, number: u64 },
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
    let failed = detached::unusable(&state);
    let mut ends = EndSignals::listen()?;
    let starting = format!("starting-{}", std::process::id());
    let (out, log) = detached::prepare(&state, &starting)?;
    let program = std::env::current_exe().map_err(&failed)?;
    let mut child = Command::new(program)
        .args(without_option(std::env::args_os().skip(1)))
        .env(detached::STARTING, &starting)
        .stdin(Stdio::null())
        .stdout(out.try_clone().map_err(&failed)?)
        .stderr(log.try_clone().map_err(&failed)?)
        .spawn()
        .map_err(&failed)?;
    let begun = match wait_until_begun(context, &state, &mut child, &mut ends, of_cluster).await? {
        Ok(begun) => begun,
        Err(status) => {
            detached::forget(&state, &starting);
            return ended_early(context, status, &detached::written(&out), &detached::written(&log));
        }
    };
    let process = child.id();
    let document = match &begun {
        Begun::Operations { ids } => json!({ "detached": { "process": process, "operations": ids } }),
        Begun::Cluster { name, number } => {
            json!({ "detached": { "process": process, "cluster": name, "operation": number } })
        }
    };
    context.output.result(&document, || match &begun {
        Begun::Operations { ids } => ids
            .iter()
            .map(|id| format!("{id} goes on without the terminal; windlass operation attach {id}\n"))
            .collect(),
        Begun::Cluster { name, number } => {
            format!(
                "operation {number} of cluster {name} goes on without the terminal; windlass cluster attach {name}\n"
            )
        }
    });
    Ok(())
}

/// Follows what the process with this mark in the journal has written and writes from now on, and ends with its exit
/// code. `false`: it is no detached process, or its output has been removed since.
pub(crate) async fn attach(context: &Context, state: &StateDirectory, mark: &str, what: &str) -> Result<bool, Failure> {
    let Some(mut kept) = Kept::of(state, mark)? else { return Ok(false) };
    let mut ends = EndSignals::listen()?;
    context.output.say(&format!("attached to {what}; Ctrl-C leaves it running"));
    loop {
        // Asked before its log: a process that ends in between has written its last line by then.
        let lives = kept.lives();
        kept.new_lines().iter().for_each(|line| context.output.say(line));
        if !lives {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = ends.recv() => {
                let failure = Failure::new(Exit::Interrupted, format!("detached again; {what} goes on"));
                return Err(failure.remedy("windlass operation list --open"));
            }
        }
    }
    let Some((code, out)) = kept.ended() else {
        return Err(Failure::new(Exit::Left, format!("the process of {what} was killed before it ended"))
            .remedy("windlass operation resume, or windlass cluster resume for a cluster"));
    };
    output::print(&out);
    match Exit::of_code(code) {
        None => Ok(true),
        Some(exit) => Err(Failure::reported(exit)),
    }
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

/// What it has begun; or how it ended before it had begun anything. An interruption is passed on: then its end is
/// waited for.
async fn wait_until_begun(
    context: &Context,
    state: &StateDirectory,
    child: &mut Child,
    ends: &mut EndSignals,
    of_cluster: bool,
) -> Result<Result<Begun, ExitStatus>, Failure> {
    let mark = format!("{}-", child.id());
    let mut called_off = false;
    loop {
        // Asked before the journal: what has ended has written there by then.
        let ended = child.try_wait().map_err(|error| {
            Failure::new(Exit::Left, "cannot tell whether the detached process runs").because(error.to_string())
        })?;
        let begun = match called_off {
            true => None,
            false if of_cluster => cluster_of(state, &mark).await?,
            false => operations_of(state, &mark)?,
        };
        match (begun, ended) {
            (Some(begun), _) => return Ok(Ok(begun)),
            (None, Some(status)) => return Ok(Err(status)),
            (None, None) => {}
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_SOON) => {}
            signal = ends.recv() => {
                called_off = true;
                context.output.say("interrupted: the detached command is cancelled");
                // One that the terminal has interrupted as well, before it left the terminal's session, is gone by
                // then.
                let _ = rustix::process::kill_process(Pid::from_child(child), signal);
            }
        }
    }
}

fn unread(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Left, "the operation may go on, and its journal cannot be read")
        .because(error.to_string())
        .remedy("windlass operation list --open")
}

fn journal_of(state: &StateDirectory) -> Result<Option<Journal>, Failure> {
    match Journal::read_only(state) {
        Ok(journal) => Ok(Some(journal)),
        Err(Error::JournalAbsent { .. }) => Ok(None),
        Err(error) => Err(unread(&error)),
    }
}

fn operations_of(state: &StateDirectory, mark: &str) -> Result<Option<Begun>, Failure> {
    let Some(journal) = journal_of(state)? else { return Ok(None) };
    // It has just begun, so it is among the newest, and this is asked several times a second.
    let mut filter = OperationFilter::default();
    filter.limit = Some(1_000);
    let operations = journal.operations(&filter).map_err(|error| unread(&error))?;
    // A number of a process is used again: only what the mark's lock says to live, or has just ended, is meant.
    let newest = operations.iter().find(|operation| operation.runner.starts_with(mark));
    let Some(newest) = newest.filter(|operation| is_recent(operation.updated_at)) else { return Ok(None) };
    let of_it = operations.iter().filter(|operation| operation.runner == newest.runner);
    Ok(Some(Begun::Operations { ids: of_it.map(|operation| operation.id.clone()).collect() }))
}

async fn cluster_of(state: &StateDirectory, mark: &str) -> Result<Option<Begun>, Failure> {
    let Some(journal) = journal_of(state)? else { return Ok(None) };
    let clusters = LogClusterStore::of(&journal).clusters().await.map_err(|error| unread(&error))?;
    Ok(clusters.iter().find_map(|stored| {
        let operation = stored.open.as_ref()?;
        let ours = operation.runner.starts_with(mark) && is_recent(operation.began_at);
        ours.then(|| Begun::Cluster { name: stored.cluster.name.to_string(), number: operation.number })
    }))
}

/// Whether an instant is of the last minutes: far longer than a process needs to begin.
fn is_recent(milliseconds: u64) -> bool {
    milliseconds >= before_now(Duration::from_secs(600))
}

/// Nothing goes on: what the process said is said here, each on its stream, and its exit code is ours.
fn ended_early(context: &Context, status: ExitStatus, out: &str, log: &str) -> Result<(), Failure> {
    log.lines()
        .for_each(|line| context.output.say(&printable(anstream::adapter::strip_str(line).to_string().as_str())));
    output::print(out);
    if status.success() {
        return Ok(());
    }
    context.output.say("the detached command ended before it had begun an operation");
    if log.trim().is_empty() {
        context
            .output
            .say("its output could not be saved (is the disk full?): run it without --detach to see why it failed");
    }
    let interrupted = matches!(status.signal(), Some(2 | 15)).then_some(Exit::Interrupted);
    let exit = status.code().and_then(|code| Exit::of_code(u8::try_from(code).ok()?)).or(interrupted);
    Err(Failure::reported(exit.unwrap_or(Exit::Undone)))
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
}
