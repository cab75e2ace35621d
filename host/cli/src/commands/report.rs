//! `windlass report`: what happened, in one file.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windlass_console::{Error, Report, ReportFormat};
use windlass_inspect::failure::Failure;
use windlass_inspect::output::print;
use windlass_inspect::words::counted;

use crate::arguments;
use crate::context::Context;
use crate::files::{Existing, write_atomically};

pub(crate) async fn run(context: &Context, arguments: &arguments::Report) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let report = match (&arguments.operation, arguments.since) {
        (Some(operation), _) => Report::of_operation(state, operation),
        (None, since) => Report::since(state, since_ms(since.unwrap_or_default())),
    };
    let report = report.map_err(|error| match error {
        Error::Unknown { .. } => Failure::unknown(error.to_string()).remedy("windlass operation list"),
        error => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Failure::usage(error.to_string()).because(cause)
        }
    })?;
    if report.operations() == 0 {
        context.say_notes(&context.other_owners(&context.state_directory()?, false).await);
    }
    let text = report.write(match arguments.format {
        arguments::ReportFormat::Html => ReportFormat::Html,
        arguments::ReportFormat::Markdown => ReportFormat::Markdown,
    });
    match &arguments.out {
        None => print(&text),
        Some(path) => {
            write_atomically(path, text.as_bytes(), Existing::Keep).map_err(|error| {
                let failure = Failure::usage("the report cannot be written").at(path.display().to_string());
                match error.kind() {
                    _ if path.is_dir() => failure.because("it is a directory").remedy("name a file in it with --out"),
                    std::io::ErrorKind::AlreadyExists => {
                        failure.because("the file exists").remedy("name a file that is not there yet")
                    }
                    _ => failure.because(error.to_string()).remedy("name a file in a folder that you may write"),
                }
            })?;
            context.output.say(&format!("{}: {}", path.display(), counted(report.operations(), "operation")));
        }
    }
    Ok(())
}

/// The instant so long ago, in milliseconds since 1970.
fn since_ms(ago: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(u64::MAX)
}
