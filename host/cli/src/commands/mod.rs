//! One file per command. Each takes the context and its arguments, and gives its result to `Output`.

mod completions;
mod decision;
mod operation;
mod policy;

use crate::arguments::{Arguments, Command};
use crate::context::Context;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { global, command } = arguments;
    match command {
        Command::Completions(completions) => {
            completions::run(&completions);
            Ok(())
        }
        Command::Operation(operation) => runtime()?.block_on(operation::run(&Context::load(global)?, operation)),
        Command::Policy(policy) => runtime()?.block_on(policy::run(&Context::load(global)?, policy)),
        Command::Decision(decision) => decision::run(&Context::load(global)?, decision),
        _ => Err(Failure::usage("not yet")),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::undone("the program cannot start its threads").because(error.to_string()))
}
