//! The command line, as data: every command, option, default and range. Nothing here does anything.

// The docs of this file are the help on the terminal, where a URL needs no brackets.
#![allow(rustdoc::bare_urls)]

mod catalogue;
mod cluster;
mod conformance;
mod example;
mod examples;
mod policy_audit;
mod policy_author;
mod policy_distribution;
mod policy_proof;
mod policy_serve;
mod policy_shadow;
mod rehearse;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_complete::engine::ArgValueCandidates;
use windlass_inspect::output::{Color, Output, OutputFormat};

use windlass_lifecycle::{GroupName, OperationState};
use windlass_policy::slots::SlotName;
use windlass_simulator::{AppleSiliconPool, Behaviour, FloorRefusal};

use crate::completion;
use crate::configuration::VolumeType;
use crate::units::{Size, parse_duration, parse_size};

pub(crate) use catalogue::{ImageCommand, ListImages, ListTypes, TypeCommand, ZoneCommand};
pub(crate) use conformance::Conformance;
pub(crate) use example::Example;
pub(crate) use policy_author::{BuildPolicy, Language, NewPolicy, PolicySchema, SchemaOf, TestPolicy};
pub(crate) use policy_proof::{BenchPolicy, DiffPolicies, ProvePolicy, SpaceOptions};

pub(crate) use policy_audit::AuditPolicy;
pub(crate) use policy_distribution::{LockPolicies, PullPolicy, PushPolicy, SignPolicy, VerifyPolicy};
pub(crate) use policy_serve::{ServePolicies, UnixAddress};
pub(crate) use policy_shadow::ShadowPolicy;
pub(crate) use rehearse::{ImportScenario, RecordScenario, Rehearse, RehearseCommand, TuneScenarios};

pub(crate) use cluster::{
    AbandonCluster, ApplyCluster, ClusterCommand, ClusterHistory, ClusterStatus, CreateCluster, DiffCluster,
    ExportCluster, NameCluster, ReplaceCluster, ScaleCluster, TerminateCluster, ValidateCluster,
};

/// Machine lifecycles on Scaleway: transactional, with policies that you can replace.
#[derive(Debug, Parser)]
#[command(
    name = "windlass",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done · 1 failed, and nothing is left; or what you named does not exist · 2 wrong usage or \
configuration, or the journal cannot be written; nothing was touched · 3 failed, and something is left or may still \
appear; it is listed · 4 done, but the result could not be written to stdout · 130 interrupted: undone, or journalled \
for the next start.\n\n\
New here? `windlass demo` shows all of Windlass on an embedded simulator; no account needed."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// All commands, with their examples.
    pub(crate) fn documented() -> clap::Command {
        examples::add(<Self as clap::CommandFactory>::command())
    }

    /// The command line of this process.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        let mut matches = Self::documented().try_get_matches()?;
        let mut words = Vec::new();
        let mut innermost = &matches;
        while let Some((word, below)) = innermost.subcommand() {
            words.push(word);
            innermost = below;
        }
        // Once in each process.
        let document: &'static str = words.join(" ").leak();
        let mut read = <Self as clap::FromArgMatches>::from_arg_matches_mut(&mut matches)?;
        read.global.document = document;
        // Not clap's to read: it would show an option whose variable is set as a part of each usage.
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let Global { config, state_dir, .. } = &mut read.global;
        *config = config.take().or_else(|| variable("WINDLASS_CONFIG"));
        *state_dir = state_dir.take().or_else(|| variable("WINDLASS_STATE_DIR"));
        Ok(read)
    }
}

/// What people type at the top level that is no command there, and the command that does it.
const HABITS: &[(&[&str], &str)] = &[
    (&["ls", "list", "ps", "servers"], "windlass server list"),
    (&["get", "show", "describe"], "windlass server show NAME"),
    (&["create", "new", "run", "up"], "windlass server create"),
    (&["rm", "delete", "destroy", "terminate", "down"], "windlass server delete NAME"),
    (&["logs", "log", "events", "history"], "windlass operation list"),
    (&["status", "top"], "windlass operation list --open"),
    (&["cancel", "stop", "abort"], "windlass operation cancel OPERATION"),
    (&["resume", "retry"], "windlass operation resume"),
    (&["apply", "plan", "diff"], "windlass cluster apply FILE --dry-run"),
    (&["scale"], "windlass cluster scale NAME GROUP=COUNT"),
    (&["clean", "cleanup", "gc", "prune"], "windlass sweep"),
    (&["check", "validate", "test"], "windlass doctor"),
    (&["login", "configure", "setup", "auth"], "windlass init"),
    (&["completion"], "windlass completions SHELL"),
    (&["ui", "dashboard", "web"], "windlass console"),
    (&["prices", "types"], "windlass type list"),
    (&["examples", "template", "sample"], "windlass example"),
    (&["ssh", "connect", "exec"], "windlass server show NAME"),
];

/// The command that does what somebody tried at the top level.
pub(crate) fn habitual(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(written)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // A group of commands names itself in its usage.
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let is_top = usage.to_string().contains("windlass [OPTIONS]");
    HABITS.iter().find(|(words, _)| is_top && words.contains(&written.as_str())).map(|(_, command)| *command)
}

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Output format on stdout: tables for people, documents for programs, or names alone
    #[arg(long, short, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: OutputFormat,
    /// When to use colours; `auto` uses them on a terminal unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// URL of Scaleway's API [env: SCW_API_URL] [default: https://api.scaleway.com]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) api_url: Option<String>,
    /// The profile of Scaleway's own configuration file [env: SCW_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// The availability zone, for example fr-par-1 [env: SCW_DEFAULT_ZONE]
    #[arg(long, global = true, value_name = "ZONE", add = ArgValueCandidates::new(completion::zones))]
    pub(crate) zone: Option<String>,
    /// Windlass's configuration file [env: WINDLASS_CONFIG] [default: ~/.config/windlass/config.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// State directory: journal, decision log, caches [env: WINDLASS_STATE_DIR] [default: ~/.local/state/windlass]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Print more to stderr; repeat up to three times for more detail
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Print only errors to stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    #[arg(skip)]
    pub(crate) document: &'static str,
}

impl Global {
    /// How this invocation writes.
    pub(crate) fn output(&self) -> Output {
        Output { document: self.document, format: self.output, quiet: self.quiet }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show all of Windlass in about 15 seconds on an embedded simulator; no account needed
    Demo(Demo),
    /// Create, list, show and delete servers
    #[command(subcommand)]
    Server(ServerCommand),
    /// Create, scale and terminate clusters of servers
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// List, resume and cancel operations: what was done, what failed, what was undone
    #[command(subcommand)]
    Operation(OperationCommand),
    /// Show the state directory, or take over a copy of it
    #[command(subcommand)]
    State(StateCommand),
    /// Find and delete leaked resources; asks first
    Sweep(Sweep),
    /// List server types with price and stock
    #[command(subcommand)]
    Type(TypeCommand),
    /// List images
    #[command(subcommand)]
    Image(ImageCommand),
    /// List zones
    #[command(subcommand)]
    Zone(ZoneCommand),
    /// Check your setup; read-only and free
    Doctor,
    /// Create a configuration interactively
    Init(Init),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write, check, test and distribute policies
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List, show and replay decisions: who decided what, and why
    #[command(subcommand)]
    Decision(DecisionCommand),
    /// Show what runner configurations would do in a scenario, over simulated time; no account needed
    Rehearse(Rehearse),
    /// Serve read-only web pages of servers, operations, decisions, policies and clusters
    Console(Console),
    /// Export operations and their decisions into one file, for a ticket or a post-mortem
    Report(Report),
    /// Check that an API behaves as Windlass assumes; creates a few cheap resources and removes them
    Conformance(Conformance),
    /// Serve a simulated Scaleway API; prints its URL first
    Simulator(Simulator),
    /// Print an example file: a cluster, a hook, a configuration, rules
    Example(Example),
    /// Print a shell's completion script
    Completions(Completions),
    /// Write manual pages, one per command, into a folder
    Man(Man),
    /// Print the version
    Version,
}

impl Command {
    /// Whether it lists things that have names, for `--output name`.
    pub(crate) fn lists(&self) -> bool {
        match self {
            Command::Server(ServerCommand::Create(create)) => !create.detach.detach,
            Command::Server(command) => matches!(command, ServerCommand::List(_)),
            Command::Cluster(command) => {
                matches!(command, ClusterCommand::List | ClusterCommand::Status(_) | ClusterCommand::History(_))
            }
            Command::Operation(command) => matches!(command, OperationCommand::List(_)),
            Command::Policy(command) => matches!(command, PolicyCommand::List | PolicyCommand::Status(_)),
            Command::Decision(command) => matches!(command, DecisionCommand::List(_)),
            Command::Conformance(conformance) => conformance.list,
            Command::Example(example) => example.name.is_none(),
            Command::Config(ConfigCommand::Show)
            | Command::Type(TypeCommand::List(_))
            | Command::Image(ImageCommand::List(_))
            | Command::Zone(ZoneCommand::List) => true,
            _ => false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Speed of the demo: 1 takes about 15 s
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_pace)]
    pub(crate) pace: f64,
    /// Seed of the simulator's ids and jitter
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    pub(crate) seed: u64,
    /// Also serve the console, until Ctrl-C, on http://127.0.0.1:7474 or another port if that one is taken
    #[arg(long)]
    pub(crate) console: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Create servers; a server that fails is rolled back completely
    Create(Box<CreateServer>),
    /// List the servers of this owner in one zone
    #[command(visible_alias = "ls")]
    List(ListServers),
    /// Show a server, its resources and its operations
    #[command(aliases = ["status", "get", "describe"])]
    Show(ShowServer),
    /// Delete servers and everything created with them
    #[command(visible_alias = "rm", aliases = ["terminate", "destroy"])]
    Delete(DeleteServers),
}

#[derive(Debug, Args)]
pub(crate) struct CreateServer {
    /// Group name, stored as a tag [default: the configuration's]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<GroupName>,
    /// Number of servers
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// Server types, tried in this order when one is out of stock: DEV1-S,PLAY2-PICO
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', action = ArgAction::Append)]
    pub(crate) server_types: Vec<String>,
    /// An image label (ubuntu_noble) or an image id
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Server name; a number is appended if --count is above 1 [default: the operation's id]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Number of public IPv4 addresses per server; they are deleted with it
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=5)
    )]
    pub(crate) ipv4: Option<u32>,
    /// Number of public IPv6 addresses per server; they are deleted with it
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(0..=5)
    )]
    pub(crate) ipv6: Option<u32>,
    /// Size of the root volume, for example 20GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub(crate) volume_size: Option<Size>,
    /// Kind of the root volume
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) volume_type: Option<VolumeType>,
    /// An additional volume: block:20GB, local:20GB, scratch:1600GB, or the id of an existing volume (repeatable)
    #[arg(long = "extra-volume", value_name = "VOLUME", value_parser = parse_extra_volume)]
    pub(crate) extra_volumes: Vec<ExtraVolume>,
    /// Id of a private network to attach (repeatable)
    #[arg(long = "private-network", value_name = "ID")]
    pub(crate) private_networks: Vec<String>,
    /// Id of the security group
    #[arg(long, value_name = "ID")]
    pub(crate) security_group: Option<String>,
    /// Id of the placement group
    #[arg(long, value_name = "ID")]
    pub(crate) placement_group: Option<String>,
    /// A cloud-init file; - reads stdin
    #[arg(long = "cloud-init", value_name = "FILE")]
    pub(crate) cloud_init: Option<PathBuf>,
    /// An additional tag (repeatable)
    #[arg(long = "tag", value_name = "TAG", value_parser = parse_tag)]
    pub(crate) tags: Vec<String>,
    /// The project [env: SCW_DEFAULT_PROJECT_ID]
    #[arg(long, value_name = "ID")]
    pub(crate) project: Option<String>,
    /// How long a server may take to run before it is rolled back, for example 10m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    /// Maximum number of servers handled in parallel
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) parallel: Option<u32>,
    #[command(flatten)]
    pub(crate) detach: Detach,
}

/// The option to go on without the terminal.
#[derive(Debug, Args)]
pub(crate) struct Detach {
    /// Run in the background and print how to attach to it; asks nothing
    #[arg(long)]
    pub(crate) detach: bool,
}

/// A volume beside the root volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExtraVolume {
    /// To be made with the server and to go with it.
    New(VolumeType, Size),
    /// It exists; it is attached, and detached (never deleted) when the server goes.
    Existing(String),
}

#[derive(Debug, Args)]
pub(crate) struct ListServers {
    /// Only this group
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowServer {
    /// The server's id, name, operation or address
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completion::servers))]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["servers", "group"])))]
pub(crate) struct DeleteServers {
    /// Servers, by id, name, operation or address; a server that is gone is accepted, to delete what is left of it
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completion::servers))]
    pub(crate) servers: Vec<String>,
    /// All servers of this group that the journal knows, and what is left of those that are gone
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<String>,
    /// Only print what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Delete without asking the policies that you configured, also what they have kept
    #[arg(long)]
    pub(crate) force: bool,
    /// Maximum number of servers handled in parallel
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) parallel: Option<u32>,
    #[command(flatten)]
    pub(crate) detach: Detach,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Show the state directory: its owner, its history, and whether it is a copy
    Show,
    /// Take over a copy or a restored backup whose original is no longer used
    TakeOver(TakeOverState),
    /// List the processes that have the state in a database open
    Hosts,
    /// Move journal and clusters from a directory to a database, or back
    Migrate(MigrateState),
    /// Take a database back to the version of an older windlass
    Downgrade(DowngradeState),
}

#[derive(Debug, Args)]
pub(crate) struct DowngradeState {
    /// The version that the older windlass knows, according to its message; 0 removes all tables
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: u32,
    /// Only print what would be lost
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take it back without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateState {
    /// Where they are: a state directory, or a database's URL
    #[arg(long, value_name = "DIRECTORY|URL")]
    pub(crate) from: String,
    /// Where they go: an empty or new folder, or a database without a journal
    #[arg(long, value_name = "DIRECTORY|URL")]
    pub(crate) to: String,
}

#[derive(Debug, Args)]
pub(crate) struct TakeOverState {
    /// Take it over without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Take it over even if nothing shows that it was copied, restored or set back, or if its state was moved
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OperationCommand {
    /// List operations, newest first
    #[command(visible_alias = "ls")]
    List(ListOperations),
    /// Show an operation: its steps, what failed, what was undone, and why
    #[command(aliases = ["status", "get", "describe", "logs"])]
    Show(ShowOperation),
    /// Follow an operation, or all open ones, until they end
    Watch(WatchOperation),
    /// Follow the output of a detached operation and exit with its code; Ctrl-C leaves it running
    Attach(AttachOperation),
    /// Finish or undo operations that an interrupted process left open
    Resume(ResumeOperations),
    /// Cancel operations of any process and roll them back
    Cancel(CancelOperations),
    /// Close operations without finishing or undoing them; their resources are left alone
    Abandon(AbandonOperations),
}

#[derive(Debug, Args)]
pub(crate) struct AbandonOperations {
    /// The operations' ids
    #[arg(value_name = "OPERATION", required = true, add = ArgValueCandidates::new(completion::operations))]
    pub(crate) operations: Vec<String>,
    #[command(flatten)]
    pub(crate) options: AbandonOptions,
}

/// How something is abandoned.
#[derive(Debug, Args)]
pub(crate) struct AbandonOptions {
    /// Reason, recorded in the journal
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only print what would be left alone
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Abandon without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchOperation {
    /// The operation's id [default: all open operations]
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AttachOperation {
    /// The operation's id
    #[arg(value_name = "OPERATION")]
    pub(crate) operation: String,
}

#[derive(Debug, Args)]
pub(crate) struct CancelOperations {
    /// The operations' ids
    #[arg(value_name = "OPERATION", required = true, add = ArgValueCandidates::new(completion::operations))]
    pub(crate) operations: Vec<String>,
    /// Do not wait for the rollback
    #[arg(long)]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeOperations {
    /// Run in the background and print how to attach to it
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListOperations {
    /// Only operations that are open, left or unverified
    #[arg(long, conflicts_with = "state")]
    pub(crate) open: bool,
    /// Only operations that removed or wiped machines, on any host that shares the state: for each machine when, where,
    /// who asked, which policy decided it, and why
    #[arg(long)]
    pub(crate) removals: bool,
    /// Only operations that changed in this last period, for example 7d, or are open; with --removals, only what was
    /// removed in it
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only operations in these states (repeatable)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = operation_states())]
    pub(crate) state: Vec<OperationState>,
    /// Only this group
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowOperation {
    /// An operation's id; or a server's id, name or address, or a Mac's id or claim, even if it is gone
    #[arg(value_name = "OPERATION", add = ArgValueCandidates::new(completion::operations))]
    pub(crate) operation: String,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// Only print what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Skip resources younger than this: another process may still be creating them [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub(crate) older_than: Option<Duration>,
    /// Also remove servers that this journal does not know, whatever their state, and what is attached to them;
    /// otherwise they are only reported
    #[arg(long)]
    pub(crate) running_too: bool,
    /// Delete without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show every value and where it comes from: an option, a variable, a file, a default; never prints secrets
    Show,
}

/// Create a configuration interactively
///
/// What is given as an option is not asked: --profile, --zone, --state-dir, --group, --try-policy. The file is the one
/// that --config or WINDLASS_CONFIG names, else the usual one. Credentials are never written into it.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Default group of servers
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::groups))]
    pub(crate) group: Option<GroupName>,
    /// Whether to try a policy on an example question [default with --yes: true]
    #[arg(long, value_name = "BOOLEAN")]
    pub(crate) try_policy: Option<bool>,
    /// Replace an existing configuration
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Use defaults instead of asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Create a policy project
    New(NewPolicy),
    /// Build a policy project into a component
    Build(BuildPolicy),
    /// Print the JSON Schemas of a slot: question, answer, fixtures, rules
    Schema(PolicySchema),
    /// Run a policy's fixtures
    Test(TestPolicy),
    /// Show a policy file: name, version, digest, slots, imports, settings
    #[command(alias = "show")]
    Inspect(InspectPolicy),
    /// Load a policy as the host would and report every problem
    Check(CheckPolicy),
    /// Ask a policy one question and print its answer
    Run(RunPolicy),
    /// Prove laws over every answer of a policy within bounds; prints the smallest counterexample
    Prove(Box<ProvePolicy>),
    /// Compare the answers of two policies to recorded and generated questions
    Diff(Box<DiffPolicies>),
    /// Show what a policy would decide about the machines that exist now; nothing is changed
    Audit(AuditPolicy),
    /// Measure a policy's decisions against the built-in default
    Bench(BenchPolicy),
    /// List the configured policies by slot
    #[command(visible_alias = "ls")]
    List,
    /// Show the state of policies in running hosts: failing, suspended, replaced, refused
    Status(PolicyStatus),
    /// Compare recorded decisions with what shadow policies would have decided
    Shadow(ShadowPolicy),
    /// Serve decisions to other programs over a Unix socket
    Serve(ServePolicies),
    /// Sign a policy with a minisign key; writes the signature next to it
    Sign(SignPolicy),
    /// Show who signed a policy, and whether its signature is trusted
    Verify(VerifyPolicy),
    /// Push a policy to a registry, with its signature
    Push(PushPolicy),
    /// Pull a policy from a registry into a file, with its signature
    Pull(PullPolicy),
    /// Pin the digest of each configured tag, in a lock file next to the configuration or in the shared database
    Lock(LockPolicies),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyStatus {
    /// The hosts of all machines that share the state in a database, as each said last; without such a state, the same
    /// hosts as without this option
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectPolicy {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// How a policy file is loaded when it is tried by hand.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadOptions {
    /// A policy: a component (.wasm) or a file of rules (.rules.toml)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Settings for the policy: a JSON object, or @FILE [default: the configuration's for this file]
    #[arg(long, value_name = "JSON")]
    pub(crate) settings: Option<String>,
    /// An import the policy may use, for example windlass:scaleway/look-ups (repeatable)
    /// [default: the configuration's for this file]
    #[arg(long = "grant", value_name = "GRANT")]
    pub(crate) grants: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckPolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// Check this slot only [default: all slots that the policy exports]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("question").required(true).args(["input", "input_file", "example"])))]
pub(crate) struct RunPolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot to ask [default: the only one that the policy decides]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// The question as in a fixture, what differs from the slot's example: JSON, @FILE, or - for stdin
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Read the question from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) input_file: Option<PathBuf>,
    /// Use the slot's example question
    #[arg(long)]
    pub(crate) example: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DecisionCommand {
    /// List decisions, newest first
    #[command(visible_alias = "ls")]
    List(ListDecisions),
    /// Show a decision: question, policies asked, answer, reason
    #[command(alias = "status")]
    Show(ShowDecision),
    /// Ask recorded questions again and compare the answers
    Replay(ReplayDecision),
}

#[derive(Debug, Args)]
pub(crate) struct ListDecisions {
    /// Only this slot
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Only decisions that asked a policy of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Only decisions in which a policy failed
    #[arg(long)]
    pub(crate) fallbacks: bool,
    /// Only decisions that remove or wipe something: which policy deleted what, and why
    #[arg(long)]
    pub(crate) removals: bool,
    /// Only decisions of this last period, for example 7d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Maximum number of results
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowDecision {
    /// The decision's id
    #[arg(value_name = "DECISION", add = ArgValueCandidates::new(completion::decisions))]
    pub(crate) decision: String,
    /// Print the complete record as JSON
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct ReplayDecision {
    /// The decision's id
    #[arg(value_name = "DECISION", group = "what", add = ArgValueCandidates::new(completion::decisions))]
    pub(crate) decision: Option<String>,
    /// All decisions of this last period, for example 24h, grouped by what changes
    #[arg(long, value_name = "DURATION", group = "what", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only decisions of this slot [default with --policy: the slots that it exports]
    #[arg(long, value_name = "SLOT", requires = "since", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Exit with code 1 if a verdict changes
    #[arg(long, requires = "since")]
    pub(crate) fail_on_change: bool,
    /// Ask this policy file instead of the policies that decided
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Settings for --policy: a JSON object, or @FILE
    #[arg(long, value_name = "JSON", requires = "policy")]
    pub(crate) settings: Option<String>,
    /// A grant for --policy (repeatable); host calls are answered from the record
    #[arg(long = "grant", value_name = "GRANT", requires = "policy")]
    pub(crate) grants: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Simulator {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Simulated seconds per real second; with 0, time stands still until the clock is advanced
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_time_scale)]
    pub(crate) time_scale: f64,
    /// Seed of ids and random faults [default: a random one, which is printed]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Latency of every call in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(crate) latency_ms: u64,
    /// Rate limit in calls per second, also the burst; further calls get 429
    #[arg(long, value_name = "NUMBER")]
    pub(crate) requests_per_second: Option<std::num::NonZeroU32>,
    /// Give servers addresses in 127.64.0.0/15, so that real services can answer on them
    #[arg(long)]
    pub(crate) loopback_addresses: bool,
    /// A belief about Scaleway that does not hold here: tag-filter-ignored, late-listing:5000 and more (any other word
    /// lists them); may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) behaviour: Vec<Behaviour>,
    /// Macs that exist from the start: prefix=ci-,count=3,type=M4-S; optional: os=, age=1h+26h, zone=,
    /// project=; may be repeated
    #[arg(long, value_name = "POOL")]
    pub(crate) apple_silicon_pool: Vec<AppleSiliconPool>,
    /// How long a Mac cannot be deleted after its creation; 0s for an exempt organization
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration)]
    pub(crate) apple_silicon_floor: Duration,
    /// How that deletion is refused: in-words, without-details or status-alone
    #[arg(long, value_name = "SHAPE", default_value = "in-words")]
    pub(crate) apple_silicon_refusal: FloorRefusal,
    /// A Mac type that can be deleted at any time (repeatable)
    #[arg(long, value_name = "TYPE")]
    pub(crate) apple_silicon_exempt_type: Vec<String>,
    /// Stock of a Mac type, as M4-S=3 (repeatable) [default: unlimited]
    #[arg(long, value_name = "TYPE=NUMBER", value_parser = parse_stock)]
    pub(crate) apple_silicon_stock: Vec<(String, u32)>,
}

/// Serve read-only web pages of servers, operations, decisions, policies and clusters
///
/// The pages come from the state directory. Reading them changes nothing and does not affect running hosts.
/// On an address that others than this machine can reach a token is needed, which a browser asks for as a password, or
/// a client's certificate; where both are there, one is enough. Files are read again when they change.
#[derive(Debug, Args)]
pub(crate) struct Console {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7474")]
    pub(crate) listen: SocketAddr,
    /// A file whose first line is the access token, at least 16 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// An additional host name of the console, without port, for example behind a proxy (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// TLS certificate chain of the console, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate authorities of clients, in PEM; their certificates grant access
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) client_ca: Option<PathBuf>,
    /// A folder of policies that recorded decisions can be put to, to see what they would decide. They run in the
    /// sandbox as any policy, call nobody, and nothing is recorded
    #[arg(long, value_name = "FOLDER")]
    pub(crate) policies: Option<PathBuf>,
}

/// Export operations and their decisions into one file, for a ticket or a post-mortem
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Report {
    /// One operation
    #[arg(long, value_name = "OPERATION", group = "what")]
    pub(crate) operation: Option<String>,
    /// All operations that began in this last period, for example 24h
    #[arg(long, value_name = "DURATION", group = "what", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "html")]
    pub(crate) format: ReportFormat,
    /// File to write; must not exist yet [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One self-contained page
    Html,
    /// Markdown
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write to, created if missing; a manual path expects section 1 in `man1`
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: PathBuf,
}

/// Print a shell's completion script
///
/// With --names the script asks windlass itself at each completion, and so offers the names of clusters, nodes, groups,
/// operations, decisions and zones, too. It reads only the state directory for them.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Also complete names
    #[arg(long)]
    pub(crate) names: bool,
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// The slots by the names they have in the contract (wit/policy); clap lists them in help, errors and completions.
fn slot_names() -> impl TypedValueParser<Value = SlotName> {
    PossibleValuesParser::new(SlotName::ALL.map(SlotName::as_str)).try_map(|name| name.parse::<SlotName>())
}

fn operation_states() -> impl TypedValueParser<Value = OperationState> {
    PossibleValuesParser::new(OperationState::ALL.iter().map(|state| state.as_str())).map(|word| {
        let state = OperationState::ALL.iter().find(|state| state.as_str() == word);
        *state.expect("only these words are possible values")
    })
}

fn parse_factor(text: &str, lowest: f64) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !factor.is_finite() || factor < lowest || factor > 1_000_000.0 {
        return Err(format!("must be between {lowest} and 1000000"));
    }
    Ok(factor)
}

fn parse_time_scale(text: &str) -> Result<f64, String> {
    parse_factor(text, 0.0)
}

fn parse_pace(text: &str) -> Result<f64, String> {
    parse_factor(text, 0.1)
}

fn parse_stock(text: &str) -> Result<(String, u32), String> {
    let (server_type, left) = text.split_once('=').ok_or("must be a type and a number, as M4-S=3")?;
    Ok((server_type.to_owned(), left.parse().map_err(|_| format!("`{left}` is not a number"))?))
}

/// Scaleway filters by tags as a comma-separated list, so a comma inside a tag would break every search.
fn parse_tag(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a tag cannot be empty".to_owned());
    }
    if text.contains(',') {
        return Err("a tag cannot contain a comma: Scaleway's tag filter splits at commas".to_owned());
    }
    if text.starts_with("windlass-") {
        return Err("tags that begin with windlass- are windlass's own".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_extra_volume(text: &str) -> Result<ExtraVolume, String> {
    if let Some((kind, size)) = text.split_once(':') {
        let kind = VolumeType::from_str(kind, true)
            .map_err(|_| format!("'{kind}' is no kind of volume: write block:20GB, local:20GB or scratch:1600GB"))?;
        return Ok(ExtraVolume::New(kind, parse_size(size)?));
    }
    // Terraform prints the zone before the id; whether it is the right one is seen when the zone is known.
    let id = text.split_once('/').map_or(text, |(_, id)| id);
    let is_uuid = id.len() == 36
        && id.char_indices().all(|(position, character)| match position {
            8 | 13 | 18 | 23 => character == '-',
            _ => character.is_ascii_hexdigit(),
        });
    if is_uuid {
        Ok(ExtraVolume::Existing(text.to_owned()))
    } else {
        Err("write block:20GB, local:20GB or scratch:1600GB for a new volume, or the id of an existing one".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_other_verb_for_one_thing_is_taken_and_not_shown() {
        for (hidden, primary) in [
            ("cluster delete farm --yes", "cluster terminate farm --yes"),
            ("cluster show farm", "cluster status farm"),
            ("server status web", "server show web"),
            ("server terminate web", "server delete web"),
            ("operation status ci-1", "operation show ci-1"),
            ("decision status 1", "decision show 1"),
            ("policy show a.wasm", "policy inspect a.wasm"),
        ] {
            let command = |line: &str| format!("{:?}", parse(&format!("windlass {line}")).expect(line).command);
            assert_eq!(command(hidden), command(primary));
            let mut words = hidden.split(' ');
            let (of, verb) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let mut all = Arguments::command();
            let help = all.find_subcommand_mut(of).expect("a command").render_long_help().to_string();
            // `[alias: ls]` or `[aliases: ls, all]`, perhaps broken into two lines.
            let unbroken = help.split_whitespace().collect::<Vec<_>>().join(" ");
            let aliases = unbroken.split("[alias").skip(1).filter_map(|rest| rest.split(']').next());
            let is_shown = help.lines().any(|line| line.split_whitespace().next() == Some(verb))
                || aliases.flat_map(|list| list.split([':', ','])).any(|alias| alias.trim() == verb);
            assert!(!is_shown, "{help}");
        }
    }

    #[test]
    fn global_options_are_taken_before_and_after_the_command() {
        for line in ["windlass --output json server list", "windlass server list --output json"] {
            assert_eq!(parse(line).expect("parses").global.output, OutputFormat::Json);
        }
    }

    #[test]
    fn server_types_are_taken_as_one_list_in_order() {
        let arguments =
            parse("windlass server create --group g --type DEV1-S,DEV1-M --type PLAY2-PICO --image i").expect("parses");
        let Command::Server(ServerCommand::Create(create)) = arguments.command else { panic!("a create") };
        assert_eq!(create.server_types, ["DEV1-S", "DEV1-M", "PLAY2-PICO"]);
    }

    #[test]
    fn a_delete_without_a_server_or_a_group_is_wrong_usage() {
        assert!(parse("windlass server delete").is_err());
        assert!(parse("windlass server delete --group g").is_ok());
        assert!(parse("windlass server delete one two").is_ok());
        assert!(parse("windlass server delete one --group g").is_err());
    }

    #[test]
    fn a_count_of_zero_or_beyond_the_bound_is_wrong_usage() {
        assert!(parse("windlass server create --group g --count 0").is_err());
        assert!(parse("windlass server create --group g --count 1001").is_err());
    }

    #[test]
    fn a_tag_that_would_break_searches_or_imitate_ours_is_refused() {
        assert!(parse_tag("a,b").is_err());
        assert!(parse_tag("windlass-owner=someone").is_err());
        assert!(parse_tag("").is_err());
        assert_eq!(parse_tag("team=ci").as_deref(), Ok("team=ci"));
    }

    #[test]
    fn extra_volumes_are_new_ones_or_ids() {
        assert_eq!(parse_extra_volume("block:20GB"), Ok(ExtraVolume::New(VolumeType::Block, Size(20_000_000_000))));
        assert_eq!(parse_extra_volume("l_ssd:1TB"), Ok(ExtraVolume::New(VolumeType::Local, Size(1_000_000_000_000))));
        let id = "11111111-2222-3333-4444-555555555555";
        assert_eq!(parse_extra_volume(id), Ok(ExtraVolume::Existing(id.to_owned())));
        assert!(parse_extra_volume("my-volume").is_err());
        assert!(parse_extra_volume("floppy:1GB").is_err());
    }

    #[test]
    fn time_scale_may_be_zero_but_never_negative_or_infinite() {
        assert_eq!(parse_time_scale("0"), Ok(0.0));
        for wrong in ["-1", "inf", "NaN", "fast"] {
            assert!(parse_time_scale(wrong).is_err(), "{wrong}");
        }
    }

    fn sources(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry")) {
            if entry.file_type().expect("a kind").is_dir() {
                sources(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|it| it == "rs") {
                found.push(std::fs::read_to_string(entry.path()).expect("text"));
            }
        }
    }

    #[test]
    fn every_command_that_a_message_names_exists() {
        let mut texts = Vec::new();
        let hosts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder above");
        for one in std::fs::read_dir(hosts).expect("a folder").map(|entry| entry.expect("an entry").path().join("src"))
        {
            sources(&one, &mut texts);
        }
        let (mut program, mut named) = (Arguments::command(), 0);
        // With `help`, as it is when it runs.
        program.build();
        for text in &texts {
            for rest in ["\"windlass ", "`windlass "].iter().flat_map(|begin| text.split(begin).skip(1)) {
                let line = rest.split(['"', '`', '\\', '{', '\n']).next().unwrap_or_default();
                let words =
                    line.split(' ').take_while(|word| word.chars().all(|it| it.is_ascii_lowercase() || it == '-'));
                let mut command = &program;
                for word in words.take_while(|word| !word.is_empty() && !word.starts_with('-')) {
                    if !command.has_subcommands() {
                        break;
                    }
                    let next = command.find_subcommand(word);
                    command = next.unwrap_or_else(|| panic!("there is no command `{}`: windlass {line}", word));
                    named += 1;
                }
            }
        }
        assert!(named > 100, "{named}");
    }
}
