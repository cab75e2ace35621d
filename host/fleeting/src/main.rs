//! `fleeting-plugin-scaleway`: started by GitLab Runner, which names it in `[runners.autoscaler]`.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_fleeting::protocol::{EndReason, Handshake, serve};
use windlass_fleeting::{
    BootstrapError, ProcessEnvironment, RehearsalError, ScalewayGroup, SimulateCommand, SimulateOptions, adopt,
    bootstrap, check, simulate, start_logging, version,
};
use windlass_inspect::document::Document;
use windlass_policy::{Compiler, compile_for_host, nearest};
use windlass_telemetry::Telemetry;

/// What the host's two seconds leave for ending the work in flight, beside the calls that are being answered.
const LEAVE: Duration = Duration::from_millis(1_200);
/// And what they leave for the last traces and metrics.
const LAST_EXPORT: Duration = Duration::from_millis(400);
/// Threads that answer calls and carry operations: the work is waiting, not computing.
const THREADS: usize = 2;

/// The command by which this program starts itself to compile a policy.
const COMPILE: &str = "compile-policy-for-host";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let code = run(&arguments);
    match UNWRITTEN.get() {
        None => code,
        Some(problem) => {
            eprintln!("it is done, and its result could not be written on stdout: {problem}");
            // As `windlass` has it.
            ExitCode::from(4)
        }
    }
}

fn run(arguments: &[&str]) -> ExitCode {
    match arguments {
        [] | ["serve"] => serve_the_host(),
        ["serve", ..] => wrong_usage("serve takes no options: plugin_config has them"),
        ["version" | "-version" | "--version"] => {
            say(&version::full());
            ExitCode::SUCCESS
        }
        // Not for people: this process as its own compiler, whose memory goes with it.
        [COMPILE] => match compile_for_host() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        },
        ["bootstrap", _, second, ..] => {
            wrong_usage(&format!("bootstrap takes one repository, and {second:?} is a second one"))
        }
        ["bootstrap", rest @ ..] if !matches!(rest, ["-h" | "--help"]) => install(rest.first().copied()),
        ["adopt", rest @ ..] => GroupArguments::read("adopt", rest).map_or_else(|code| code, adopt_group),
        ["check", rest @ ..] => GroupArguments::read("check", rest).map_or_else(|code| code, check_groups),
        ["simulate", rest @ ..] => simulate_group(rest),
        ["help" | "-help" | "-h" | "--help"] | ["bootstrap", _] => {
            say(USAGE);
            ExitCode::SUCCESS
        }
        [command @ ("version" | "-version" | "--version" | "help" | "-help" | "-h" | "--help"), ..] => {
            wrong_usage(&format!("{command} takes no argument"))
        }
        [unknown, ..] => wrong_usage(&format!("there is no command {unknown:?}{}", meant(unknown, &COMMANDS))),
    }
}

/// The commands for people.
const COMMANDS: [&str; 7] = ["version", "check", "simulate", "adopt", "bootstrap", "serve", "help"];

/// The end of a message about an unknown word.
fn meant(written: &str, known: &[&str]) -> String {
    match nearest(written, known.iter().copied()) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

fn wrong_usage(words: &str) -> ExitCode {
    eprintln!("{words}\n\n`fleeting-plugin-scaleway --help` shows the usage");
    ExitCode::from(2)
}

/// Why stdout could not be written, the first time that it could not.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Writes on stdout. A reader that has seen enough, such as `head`, closes it early; whatever else goes wrong is kept
/// for the exit code.
fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        let _ = UNWRITTEN.set(error.to_string());
    }
}

const USAGE: &str = "fleeting-plugin-scaleway scales GitLab Runner instances on Scaleway.

GitLab Runner starts it. You can run these commands yourself:
  version                 shows what was built, and when
  check [<group>] [--config <file>]
                          checks the groups of the runner's configuration: mistakes, zones, types, images, rights, and
                          what a full group costs. It reads the file, asks Scaleway, and changes nothing. It exits with
                          1 if something is wrong. Run it with the runner's environment, which may hold the credentials
  simulate [<group>] [--config <file>] [options]
                          simulates a day of the runner and the plugin with this configuration: how long jobs wait, and
                          what it costs. It takes seconds and changes nothing. It needs no account, no runner, and no
                          network, except to pull policies (oci://). `simulate --help` shows the options
  adopt [<group>] [--config <file>]
                          takes over the servers or Macs of a group whose state_dir was lost: once, as `adopt = true`
                          does at each start. Stop the runner first, and make sure that no other host works with them
  bootstrap <repository>  installs the plugin into $FLEETING_PLUGIN_PATH (default /plugins)
  serve                   serves GitLab Runner (also without a command)

<file> is the runner's configuration (default /etc/gitlab-runner/config.toml). <group> is the `name` in its
plugin_config; it is needed only if there are several.
";

const SIMULATE_USAGE: &str = "Simulates the runner and this plugin with a config.toml, in simulated time

Examples:
  fleeting-plugin-scaleway simulate --config config.toml
  fleeting-plugin-scaleway simulate --config config.toml --pattern burst --jobs-per-hour 100 --hours 8
  fleeting-plugin-scaleway simulate ci --hours 168 --output json

Usage: fleeting-plugin-scaleway simulate [<group>] [options]

  <group>               the `name` in its plugin_config, where there are several
  --config <file>       the runner's configuration (default /etc/gitlab-runner/config.toml)
  --pattern <pattern>   when jobs come (default office-hours):
                          office-hours  Monday to Friday from 8:00 to 18:00; a twentieth at other times
                          burst         those of an hour all at once, at some minute of it
                          steady        at any time
                          nightly       from 1:00 to 5:00; a twentieth at other times
  --hours <n>           how long jobs come, from a Monday's midnight on (default 24, at most 744)
  --jobs-per-hour <n>   how many come in an hour of the pattern (default 20)
  --job-minutes <n>     how long they run on average: from half of it to one and a half times (default 5)
  --ready-seconds <n>   from running until instance_ready_command succeeds (default 30 where it is set, otherwise 0)
  --hourly-price <eur>  what an hour of a server costs (default: the simulator's prices, see the documentation)
  --seed <n>            decides everything that is drawn: the same seed, the same result (default 1)
  --output <format>     text or json (default text)

Exits with 0 if all jobs have ended and all that was created is gone; with 1 if a job has not ended a day after the last
hour, if something is left, or if the file is wrong; and with 2 on wrong usage.
";

/// The runner's configuration, unless it is said otherwise.
const CONFIG: &str = "/etc/gitlab-runner/config.toml";

/// Which group of which configuration a command is about.
struct GroupArguments<'a> {
    group: Option<&'a str>,
    config: &'a str,
}

impl<'a> GroupArguments<'a> {
    /// Reads them; or says how they are written, and answers how to end.
    fn read(command: &str, arguments: &[&'a str]) -> Result<Self, ExitCode> {
        let mut read = Self { group: None, config: CONFIG };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match (*argument, read.group) {
                ("--help" | "-h", _) => {
                    say(USAGE);
                    return Err(ExitCode::SUCCESS);
                }
                ("--config", _) => match rest.next() {
                    Some(path) => read.config = path,
                    None => return Err(wrong_usage("--config needs a file")),
                },
                (option, _) if option.starts_with("--config=") => read.config = &option["--config=".len()..],
                // Where other programs take the file.
                (path, _) if !path.starts_with('-') && (path.ends_with(".toml") || path.contains('/')) => {
                    read.config = path;
                }
                (name, None) if !name.starts_with('-') => read.group = Some(name),
                (unknown, _) => {
                    let near = meant(unknown, &["--config", "--help"]);
                    return Err(wrong_usage(&format!("{command} has no option {unknown}{near}")));
                }
            }
        }
        Ok(read)
    }
}

/// Runs a command that asks Scaleway.
fn with_runtime(command: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => fail(&error),
    }
}

fn install(repository: Option<&str>) -> ExitCode {
    match bootstrap(repository.unwrap_or_default(), version::VERSION) {
        Ok(folder) => {
            say(&format!("{}\n", folder.display()));
            ExitCode::SUCCESS
        }
        Err(error @ (BootstrapError::NoRepository | BootstrapError::Repository { .. })) => {
            wrong_usage(&error.to_string())
        }
        Err(error) => fail(&error),
    }
}

fn check_groups(GroupArguments { group, config }: GroupArguments<'_>) -> ExitCode {
    // What is only a warning at a start, such as a zone that does not answer, is part of the answer here.
    let warnings = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).without_time().with_target(false);
    warnings.with_ansi(false).with_writer(std::io::stderr).init();
    let compiler = Compiler::this_program([COMPILE]).ok();
    with_runtime(async {
        match check(config, group, &ProcessEnvironment::of_process(), compiler).await {
            Ok(groups) => {
                groups.iter().for_each(|group| say(&group.to_string()));
                let is_good = groups.iter().all(|group| group.problems.is_empty());
                if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => fail_with(config, &error),
        }
    })
}

fn adopt_group(GroupArguments { group, config }: GroupArguments<'_>) -> ExitCode {
    let compiler = Compiler::this_program([COMPILE]).ok();
    with_runtime(async {
        match adopt(config, group, &ProcessEnvironment::of_process(), compiler).await {
            Ok(taken) if taken.is_empty() => {
                say("nothing had to be taken over\n");
                ExitCode::SUCCESS
            }
            Ok(taken) => {
                say(&format!("taken over: {}\n", taken.join(", ")));
                ExitCode::SUCCESS
            }
            Err(error) => fail_with(config, &error),
        }
    })
}

fn simulate_group(arguments: &[&str]) -> ExitCode {
    let options = match SimulateOptions::parse(arguments, CONFIG) {
        Ok(SimulateCommand::Run(options)) => options,
        Ok(SimulateCommand::Help) => {
            say(SIMULATE_USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            wrong.iter().for_each(|words| eprintln!("{words}"));
            eprintln!("\n`fleeting-plugin-scaleway simulate --help` shows the usage");
            return ExitCode::from(2);
        }
    };
    match simulate(&options, &ProcessEnvironment::of_process(), Compiler::this_program([COMPILE]).ok()) {
        Ok(simulated) => {
            let document = match options.json {
                true => {
                    match Document::new("simulate", &simulated).and_then(|document| serde_json::to_string(&document)) {
                        Ok(document) => document + "\n",
                        Err(error) => return fail(&error),
                    }
                }
                false => simulated.to_string(),
            };
            say(&document);
            if simulated.outcome.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(RehearsalError::Wrong(found)) => {
            eprint!("{found}");
            ExitCode::FAILURE
        }
        Err(RehearsalError::Interrupted) => ExitCode::from(130),
        Err(error) => fail_with(&options.config, &error),
    }
}

/// An error and its causes, on one line.
fn fail(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    eprintln!("{}", windlass_fleeting::protocol::Failure::from_error(error));
    ExitCode::FAILURE
}

/// The same of a command with this configuration. Where it is the default one and not there, another has to be named.
fn fail_with(config: &str, error: &(dyn std::error::Error + 'static)) -> ExitCode {
    let code = fail(error);
    if config == CONFIG && !Path::new(CONFIG).exists() {
        eprintln!("name the runner's configuration with --config <file>");
    }
    code
}

fn serve_the_host() -> ExitCode {
    windlass_process::spare_memory();
    let handshake = match Handshake::from_environment() {
        Ok(handshake) => handshake,
        Err(error) => return fail(&error),
    };
    let telemetry = match Telemetry::start("fleeting-plugin-scaleway", version::VERSION) {
        Ok(telemetry) => telemetry,
        Err(error) => return fail(&error),
    };
    start_logging(&telemetry);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let compiler = Compiler::this_program([COMPILE]).ok();
    let group = Arc::new(ScalewayGroup::new(ProcessEnvironment::of_process(), compiler));
    let served = runtime.block_on(async {
        let served = serve(handshake, group.clone()).await;
        group.leave(LEAVE).await;
        served
    });
    // Threads that are still in a blocking call must not keep the process.
    runtime.shutdown_background();
    telemetry.shutdown(LAST_EXPORT);
    match served {
        Ok(departure) => {
            match departure {
                EndReason::Asked => tracing::debug!("leaving, as the host asked"),
                EndReason::HostGone => tracing::warn!("leaving: the host is gone"),
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the plugin cannot serve");
            fail(&error)
        }
    }
}
