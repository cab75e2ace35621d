//! `windlass-controller`: the process around the library.

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass_controller::{Arguments, Command, Error, RunArguments};
use windlass_inspect::failure::Exit;
use windlass_inspect::output;
use windlass_inspect::usage::explained;
use windlass_telemetry::Telemetry;

/// Wrong usage or configuration: nothing was touched.
const WRONG_USAGE: u8 = Exit::Usage as u8;
/// It failed otherwise.
const FAILED: u8 = Exit::Undone as u8;
/// What a collector has for taking the last traces and metrics.
const LAST_EXPORT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => return printed(&error.render().ansi().to_string()),
        Err(error) => {
            let line: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let words = explained(error, &Arguments::command(), line.iter().map(String::as_str), None);
            output::note(&words);
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if let Some(code) = arguments.command.as_ref().and_then(windlass_controller::look) {
        return if code == 0 { printed("") } else { ExitCode::from(code) };
    }
    match arguments.command {
        Some(Command::Approvals { kubeconfig, namespace, controller_namespace }) => {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return failed(&format!("threads cannot be started: {error}"), FAILED),
            };
            let approvals = windlass_controller::print_approvals(
                kubeconfig.as_deref(),
                namespace.as_deref(),
                &controller_namespace,
            );
            return print(runtime.block_on(approvals));
        }
        Some(Command::Convert { pool_prefix, controller_namespace }) => {
            return print(windlass_controller::convert_standard_input(pool_prefix.as_deref(), &controller_namespace));
        }
        Some(Command::Crds) => return printed(&windlass_controller::definitions_yaml()),
        Some(Command::CompilePolicyForHost) => {
            return match windlass_policy::compile_for_host() {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error.to_string(), FAILED),
            };
        }
        // Those that look were answered above.
        Some(_) | None => {}
    }
    windlass_process::spare_memory();
    let telemetry = match Telemetry::start("windlass-controller", env!("CARGO_PKG_VERSION")) {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(&error.to_string(), WRONG_USAGE),
    };
    windlass_controller::start_logging(arguments.run.log_format, &telemetry);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("threads cannot be started: {error}"), FAILED),
    };
    let ended = runtime.block_on(run(arguments.run));
    // Work that has not reached a safe point stands in the journal: nothing is waited for.
    runtime.shutdown_background();
    telemetry.shutdown(LAST_EXPORT);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ended_by(&error),
    }
}

fn ended_by(error: &Error) -> ExitCode {
    let wrong = matches!(
        error,
        Error::Configuration { .. }
            | Error::Option { .. }
            | Error::Scaleway(_)
            | Error::Kubeconfig(_)
            | Error::NotConverted { .. }
            | Error::Lifecycle(windlass_lifecycle::Error::Policy(_) | windlass_lifecycle::Error::StateDirectory { .. })
    );
    failed(&error.to_string(), if wrong { WRONG_USAGE } else { FAILED })
}

fn failed(words: &str, code: u8) -> ExitCode {
    output::note(&format!("windlass-controller: {words}\n"));
    ExitCode::from(code)
}

fn print(yaml: Result<String, Error>) -> ExitCode {
    match yaml {
        Ok(yaml) => printed(&yaml),
        Err(error) => ended_by(&error),
    }
}

/// Ends with this as the last of the result. A reader that has gone away is no failure.
fn printed(text: &str) -> ExitCode {
    output::print(text);
    match output::unwritten() {
        None => ExitCode::SUCCESS,
        Some(problem) => {
            let words =
                format!("the result cannot be written to stdout: {problem}; nothing was changed, so run it again");
            failed(&words, Exit::Unwritten as u8)
        }
    }
}

async fn run(arguments: RunArguments) -> Result<(), Error> {
    let shutdown = CancellationToken::new();
    tokio::spawn({
        let shutdown = shutdown.clone();
        async move {
            wait_for_signal().await;
            tracing::info!("received a signal to exit; stopping at the next safe point");
            shutdown.cancel();
        }
    });
    windlass_controller::run(arguments, shutdown).await
}

async fn wait_for_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::warn!("cannot listen for signals");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
