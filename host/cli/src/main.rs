//! The binary `windlass`: the outside surface of the project. Knows the command line, the configuration file and the
//! terminal; knows no judgement, no HTTP and no journal of its own.

mod arguments;
mod commands;
mod configuration;
mod confirmation;
mod context;
mod failure;
mod files;
mod interrupt;
mod logging;
mod output;
mod progress;
mod toml_reader;
mod units;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

// Nothing heavy before the arguments are parsed: `--version` and `--help` answer at once.
fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let output = Output::new(&arguments.global);
    let result = logging::start(&arguments.global).map_err(Failure::usage).and_then(|()| commands::run(arguments));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Help and version are answers; everything else that clap says is wrong usage.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a closed terminal.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if wants_json(std::env::args_os()) {
        let message = anstream::adapter::strip_str(&error.to_string()).to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let failure = Failure::usage(first).remedy("windlass --help");
        output::print(&format!("{}\n", failure.document()));
    }
    Exit::Usage.into()
}

/// Whether JSON was asked for on a command line that clap could not read.
fn wants_json(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let arguments: Vec<_> = arguments.collect();
    arguments.iter().any(|argument| argument == "--output=json")
        || arguments.windows(2).any(|pair| pair[0] == "--output" && pair[1] == "json")
}
