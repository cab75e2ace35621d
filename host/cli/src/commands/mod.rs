//! One file per command. Each takes the context and its arguments, and gives its result to `Output`.

mod catalogue;
mod cluster;
mod completions;
mod config;
mod conformance;
mod console;
mod decision;
mod demo;
pub(crate) mod detach;
mod doctor;
pub(crate) mod example;
mod init;
mod lifecycle;
mod man;
mod operation;
mod policy;
mod rehearse;
mod report;
mod server;
mod simulator;
mod state;
mod sweep;

use windlass_inspect::failure::Failure;
use windlass_inspect::output::OutputFormat;

use crate::arguments::{
    Arguments, Command, ConfigCommand, Global, ImageCommand, RehearseCommand, TypeCommand, ZoneCommand,
};
use crate::context::Context;

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
        Command::Example(example) => example::run(global.output(), &example),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            global.output().result(&serde_json::json!({ "version": version }), || format!("windlass {version}\n"));
            Ok(())
        }
        Command::Type(TypeCommand::List(list)) => runtime()?.block_on(catalogue::types(&Context::load(global)?, &list)),
        Command::Image(ImageCommand::List(list)) => {
            runtime()?.block_on(catalogue::images(&Context::load(global)?, &list))
        }
        Command::Zone(ZoneCommand::List) => catalogue::zones(&Context::load(global)?),
        Command::Rehearse(arguments) => match &arguments.command {
            Some(RehearseCommand::Record(record)) => {
                runtime()?.block_on(rehearse::record(&Context::load(global)?, record))
            }
            Some(RehearseCommand::Import(import)) => rehearse::import(global.output(), import),
            Some(RehearseCommand::Schema) => rehearse::schema(global.output()),
            Some(RehearseCommand::Tune(tune)) => {
                rehearse::tune(global.output(), tune, Context::load(global).ok().as_ref())
            }
            None => rehearse::run(global.output(), &arguments, Context::load(global)),
        },
        Command::Simulator(simulator) => runtime()?.block_on(simulator::run(global.output(), simulator)),
        Command::Server(server) => on_state(global, true, async |context| server::run(context, server).await),
        Command::Cluster(cluster) => on_state(global, true, async |context| cluster::run(context, cluster).await),
        Command::Operation(operation) => {
            on_state(global, true, async |context| operation::run(context, operation).await)
        }
        Command::State(state) => runtime()?.block_on(state::run(&Context::load(global)?, state)),
        Command::Init(init) => runtime()?.block_on(init::run(global, init)),
        Command::Config(ConfigCommand::Show) => config::run(&Context::load(global)?),
        Command::Doctor => runtime()?.block_on(doctor::run(global)),
        Command::Sweep(sweep) => runtime()?.block_on(sweep::run(&Context::load(global)?, sweep)),
        Command::Console(console) => runtime()?.block_on(console::run(&Context::load(global)?, console)),
        Command::Report(report) => runtime()?.block_on(report::run(&Context::load(global)?, &report)),
        Command::Conformance(conformance) => {
            runtime()?.block_on(conformance::run(&Context::load(global)?, conformance))
        }
        Command::Policy(policy) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(policy::run(&Context::load(global)?, policy));
            // A policy that is still asked, for a peer of the server that has gone, holds up nobody's end.
            runtime.shutdown_background();
            ended
        }
        Command::Decision(decision) => on_state(global, false, async |context| decision::run(context, decision).await),
        Command::Demo(demo) => runtime()?.block_on(demo::run(global.output(), &demo)),
    }
}

/// Runs a command on a state directory. Where that has nothing of the name that was asked for, it says where it may be:
/// `of_owners`, too, where an owner has it.
fn on_state(
    global: Global,
    of_owners: bool,
    command: impl AsyncFnOnce(&Context) -> Result<(), Failure>,
) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let context = Context::load(global)?;
        match command(&context).await {
            Err(mut failure) if failure.is_unknown => {
                if let Ok(state) = context.state_directory() {
                    failure.causes.extend(context.other_owners(&state, of_owners).await);
                }
                Err(failure)
            }
            ended => ended,
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::undone("the program cannot start its threads").because(error.to_string()))
}
