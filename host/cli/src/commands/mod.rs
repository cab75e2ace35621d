//! One file per command. Each takes the context and its arguments, and gives its result to `Output`.

mod cluster;
mod completions;
mod config;
mod conformance;
mod console;
mod decision;
mod demo;
pub(crate) mod detach;
mod doctor;
mod init;
mod man;
mod operation;
mod policy;
mod report;
mod server;
mod simulator;
mod sweep;

use std::time::Duration;

pub(crate) use windlass_inspect::words::failure_words;
use windlass_lifecycle::{Control, Error, OperationFilter, OperationId, OperationState, Report};

use crate::arguments::{Arguments, Command, ConfigCommand};
use crate::context::{Context, Work};
use crate::failure::{Failure, Leftover};
use crate::output::OutputFormat;

/// How often a view looks for news of another process.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    if global.output == OutputFormat::Name && !command.lists() {
        return Err(Failure::usage(
            "--output name is for commands that list, and this one lists nothing that has a name",
        )
        .remedy("--output table, json or yaml"));
    }
    if detach::is_wanted(&command) {
        return runtime()?.block_on(detach::run(&Context::load(global)?, &command));
    }
    match command {
        Command::Completions(completions) => completions::run(&completions),
        Command::Man(man) => man::run(global.output(), &man),
        Command::Simulator(simulator) => runtime()?.block_on(simulator::run(global.output(), simulator)),
        Command::Server(server) => runtime()?.block_on(server::run(&Context::load(global)?, server)),
        Command::Cluster(cluster) => runtime()?.block_on(cluster::run(&Context::load(global)?, cluster)),
        Command::Operation(operation) => runtime()?.block_on(operation::run(&Context::load(global)?, operation)),
        Command::Init(init) => runtime()?.block_on(init::run(global, init)),
        Command::Config(ConfigCommand::Show) => config::run(&Context::load(global)?),
        Command::Doctor => runtime()?.block_on(doctor::run(global)),
        Command::Sweep(sweep) => runtime()?.block_on(sweep::run(&Context::load(global)?, sweep)),
        Command::Console(console) => runtime()?.block_on(console::run(&Context::load(global)?, console)),
        Command::Report(report) => runtime()?.block_on(report::run(&Context::load(global)?, &report)),
        Command::Conformance(conformance) => {
            runtime()?.block_on(conformance::run(&Context::load(global)?, conformance))
        }
        Command::Policy(policy) => runtime()?.block_on(policy::run(&Context::load(global)?, policy)),
        Command::Decision(decision) => runtime()?.block_on(decision::run(&Context::load(global)?, decision)),
        Command::Demo(demo) => runtime()?.block_on(demo::run(global.output(), &demo)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::undone("the program cannot start its threads").because(error.to_string()))
}

/// Keeps the promise that the next start ends what an earlier one left open, before new work begins.
async fn note_resumed(context: &Context, work: &Work, control: &Control) {
    match work.lifecycle.resume(control).await {
        Ok(resumed) => {
            for operation in &resumed.operations {
                let report =
                    operation.report.as_ref().map(|report| format!(": {}", report.words())).unwrap_or_default();
                let problem = operation.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
                context.output.say(&format!(
                    "note: {} was left open by an earlier process; it is {} now{report}{problem}",
                    operation.operation, operation.state
                ));
            }
        }
        // Somebody else is doing it.
        Err(Error::RecoveryRunning { .. }) => {}
        Err(error) => {
            context.output.say(&format!("note: what earlier processes left open cannot be ended now: {error}"))
        }
    }
}

/// What will be ended before the command's own work, in words to be followed by its question: operations that this
/// state directory has open and whose process has died. Empty where there are none.
fn left_open_words(work: &Work) -> Result<String, Failure> {
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open];
    let open = work.lifecycle.journal().operations(&filter);
    let open = open.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    Ok(match open.iter().filter(|operation| !work.state.runner_lives(&operation.runner)).count() {
        0 => String::new(),
        1 => "An operation that an earlier process left open is finished or undone first. ".to_owned(),
        count => format!("{count} operations that an earlier process left open are finished or undone first. "),
    })
}

/// An error of the lifecycle that is not about a single server.
fn lifecycle_failure(what: &str, error: &Error) -> Failure {
    match error {
        Error::Scaleway { what: doing, source } => {
            let failure = Failure::undone(format!("{what}: {doing}")).caused_by(source.as_ref());
            match (source.method(), source.path()) {
                (Some(method), Some(path)) => failure.at(format!("{method} {path}")),
                _ => failure,
            }
        }
        Error::Specification { .. } | Error::Name { .. } => Failure::usage(error.to_string()),
        other => Failure::undone(what).caused_by(other),
    }
}

fn left_of(report: &Report) -> impl Iterator<Item = Leftover> + '_ {
    report.left.iter().map(|left| Leftover {
        kind: left.resource.kind.to_string(),
        id: left.resource.id.clone(),
        zone: left.resource.zone.clone(),
        reason: left.why.clone(),
    })
}

/// What a lost call of an operation may still leave.
fn unverified(operation: &OperationId, zone: &str, look_at: u64) -> Leftover {
    Leftover {
        kind: "unverified".to_owned(),
        id: operation.to_string(),
        zone: zone.to_owned(),
        reason: format!(
            "a call whose answer was lost may still take effect; it is looked again from {} on",
            crate::output::instant(look_at)
        ),
    }
}
