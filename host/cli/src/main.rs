//! The binary `windlass`: the outside surface of the project. Knows the command line, the configuration file and the
//! terminal; knows no judgement, no HTTP and no journal of its own.

mod arguments;
mod commands;
mod completion;
mod configuration;
mod confirmation;
mod context;
mod detached;
mod files;
mod interrupt;
mod logging;
#[cfg(test)]
mod pages;
mod policy_file;
mod progress;
mod toml_reader;
mod units;

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum as _;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{self, Output, OutputFormat};
use windlass_inspect::usage::explained;

use crate::arguments::Arguments;

/// What a collector has for taking the last traces and metrics. Everything has been printed by then.
const LAST_EXPORT: Duration = Duration::from_secs(3);

/// Not for people: this program as its own compiler of policies.
pub(crate) const COMPILE: &str = "compile-policy-for-host";

// Nothing heavy before the arguments are parsed: `--version` and `--help` answer at once.
fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == COMPILE) {
        return match windlass_policy::compile_for_host() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if let Some(code) = completion::answer(<Arguments as clap::CommandFactory>::command) {
        return code;
    }
    let arguments = match Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return usage(error),
    };
    detached::begin();
    output::color(arguments.global.color);
    let output = arguments.global.output();
    let started = logging::start(&arguments.global).map_err(Failure::usage);
    let (telemetry, result) = match started {
        Ok(telemetry) => (Some(telemetry), commands::run(arguments)),
        Err(failure) => (None, Err(failure)),
    };
    let exit = match result {
        Ok(()) => match output::unwritten() {
            None => None,
            Some(problem) => {
                let failure =
                    Failure::new(Exit::Unwritten, "it is done, and its result could not be written on stdout");
                output.failure(&failure.because(problem));
                Some(Exit::Unwritten)
            }
        },
        Err(failure) => {
            output.failure(&failure);
            Some(failure.exit)
        }
    };
    detached::end(exit.map_or(0, |exit| exit as u8));
    if let Some(telemetry) = telemetry {
        telemetry.shutdown(LAST_EXPORT);
    }
    exit.map_or(ExitCode::SUCCESS, ExitCode::from)
}

/// Help and version are answers; everything else that clap says is wrong usage.
fn usage(error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match error.print() {
            Err(problem) if problem.kind() != std::io::ErrorKind::BrokenPipe => {
                output::note(&format!("error: this could not be written on stdout: {problem}\n"));
                Exit::Unwritten.into()
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let arguments: Vec<String> = std::env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    let habit = arguments::habitual(&error);
    let words = explained(error, &Arguments::documented(), arguments.iter().map(String::as_str), habit);
    output::note(&words);
    if let Some(format) = wanted_document(std::env::args_os()) {
        let message = anstream::adapter::strip_str(&words).to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let failure = Failure::usage(first).remedy("windlass --help");
        Output { document: "error", format, quiet: false }.document(&failure.document());
    }
    Exit::Usage.into()
}

/// The form of documents that was asked for on a command line that clap could not read.
fn wanted_document(arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<OutputFormat> {
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let together = arguments
        .iter()
        .filter_map(|argument| ["--output=", "-o=", "-o"].iter().find_map(|option| argument.strip_prefix(option)));
    let apart =
        arguments.windows(2).filter(|pair| pair[0] == "--output" || pair[0] == "-o").map(|pair| pair[1].as_str());
    let mut formats = together.chain(apart).filter_map(|name| OutputFormat::from_str(name, false).ok());
    formats.find(|format| matches!(format, OutputFormat::Json | OutputFormat::JsonLines | OutputFormat::Yaml))
}
