//! The command line, as data. Every option can also be an environment variable, as a Deployment sets them.

// The docs of this file are the help on the terminal.
#![allow(rustdoc::bare_urls)]

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use windlass_inspect::output::OutputFormat;
use windlass_lifecycle::OwnerName;
use windlass_policy::slots::SlotName;
use windlass_scaleway::Zone;

use crate::address::{Address, address};
use crate::console::ConsoleArguments;
use crate::state::StateArguments;

/// An infrastructure provider of Cluster API for Scaleway machines; releasing a machine never destroys it by accident.
#[derive(Debug, Parser)]
// As Kubernetes' own programs do, the last of two wins: a chart's further options come behind its own.
#[command(name = "windlass-controller", version, max_term_width = 100, args_override_self = true)]
pub struct Arguments {
    /// Command; without one the controller runs.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How the controller runs.
    #[command(flatten)]
    pub run: RunArguments,
}

/// What else the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the definitions of all kinds as YAML
    Crds,
    /// Print the state of this cluster's machines as the ConfigMap that restores it after a move to another cluster
    Approvals {
        /// The kubeconfig file [default: KUBECONFIG, else the pod's service account]
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// The namespace of the machines [default: all]
        #[arg(long, short, value_parser = namespace)]
        namespace: Option<String>,
        /// The namespace of the target controller
        #[arg(long, value_name = "NAMESPACE", default_value = "windlass-system", value_parser = namespace)]
        controller_namespace: String,
    },
    /// Convert objects of tuist's controller of Mac minis, read from standard input, to objects of this one, with the
    /// commands that hand each host over without wiping it
    Convert {
        /// The pool to write into machines that name none. Without it they get no `poolPrefix`, so that the pool is the
        /// controller's --pool-prefix
        #[arg(long, value_name = "PREFIX", value_parser = non_empty)]
        pool_prefix: Option<String>,
        /// The namespace of this controller
        #[arg(long, value_name = "NAMESPACE", default_value = "windlass-system", value_parser = namespace)]
        controller_namespace: String,
    },
    /// List decisions, newest first, or show one: question, policies asked, answer, reason
    Decisions {
        /// The decision's id or a prefix of it [default: list all]
        #[arg(value_name = "DECISION")]
        decision: Option<String>,
        /// Only this slot
        #[arg(long, value_name = "SLOT", conflicts_with = "decision", value_parser = slot)]
        slot: Option<SlotName>,
        /// Only decisions that asked a policy of this name
        #[arg(long, value_name = "NAME", conflicts_with = "decision")]
        policy: Option<String>,
        /// Only decisions in which a policy failed
        #[arg(long, conflicts_with = "decision")]
        fallbacks: bool,
        /// Only decisions that remove or wipe something: which policy deleted what, and why
        #[arg(long, conflicts_with = "decision")]
        removals: bool,
        /// Only decisions of this last period, for example 7d
        #[arg(long, value_name = "DURATION", conflicts_with = "decision", value_parser = duration)]
        since: Option<Duration>,
        /// At most so many
        #[arg(
            long,
            value_name = "NUMBER",
            default_value_t = 50,
            value_parser = clap::value_parser!(u32).range(1..=10_000),
        )]
        limit: u32,
        /// How it is written, and where it stands.
        #[command(flatten)]
        look: LookArguments,
    },
    /// List operations, newest first, or show one: its steps, what failed, what was undone, and why
    Operations {
        /// The operation's id, as in `status.operation` [default: list all]
        #[arg(value_name = "OPERATION")]
        operation: Option<String>,
        /// Only operations that are open, left or unverified
        #[arg(long, conflicts_with = "operation")]
        open: bool,
        /// At most so many
        #[arg(
            long,
            value_name = "NUMBER",
            default_value_t = 50,
            value_parser = clap::value_parser!(u32).range(1..=10_000),
        )]
        limit: u32,
        /// How it is written, and where it stands.
        #[command(flatten)]
        look: LookArguments,
    },
    /// Show the state of policies in the running controller: deciding, failing, suspended, replaced, refused
    Policies {
        /// How it is written, and where it stands.
        #[command(flatten)]
        look: LookArguments,
    },
    /// Not for people: this program as its own compiler of policies, whose memory goes with it
    #[command(name = COMPILE, hide = true)]
    CompilePolicyForHost,
}

/// How a command that looks writes, and where it looks.
#[derive(Debug, Args)]
pub struct LookArguments {
    /// Output format: tables for people, documents for programs, or ids alone
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// The folder with journal and decision log
    #[arg(long, env = "WINDLASS_STATE_DIR", value_name = "DIRECTORY", default_value = "/var/lib/windlass")]
    pub state_dir: PathBuf,
    /// Where the journal is, if not there.
    #[command(flatten)]
    pub state: StateArguments,
}

/// The command by which the program starts itself to compile a policy.
pub(crate) const COMPILE: &str = "compile-policy-for-host";

/// How the controller runs.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// The namespace to watch [default: all]
    #[arg(long, env = "WATCH_NAMESPACE", value_parser = namespace)]
    pub namespace: Option<String>,
    /// Work only on objects whose label `cluster.x-k8s.io/watch-filter` has this value; all others belong to other
    /// controllers [default: all]
    #[arg(long, env = "WINDLASS_WATCH_FILTER", value_name = "VALUE", value_parser = label_value)]
    pub watch_filter: Option<String>,
    /// The kubeconfig file [default: KUBECONFIG, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Configuration with the keys `policies` and `limits`, as YAML or JSON [default: the built-in policies decide]
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder that relative paths of policies start from [default: the folder of the configuration]
    #[arg(long, env = "WINDLASS_POLICY_FOLDER", value_name = "DIRECTORY")]
    pub policy_folder: Option<PathBuf>,
    /// Which objects may bring policies
    #[arg(long, env = "WINDLASS_OBJECT_POLICIES", value_enum, default_value_t)]
    pub object_policies: ObjectPolicies,
    /// A registry from which the Policy objects of namespaces may take policies (repeatable) [default: none]
    #[arg(long, env = "WINDLASS_TENANT_REGISTRIES", value_name = "HOST", value_delimiter = ',', value_parser = registry)]
    pub tenant_registry: Vec<String>,
    /// State directory: journal, decision log, compiled policies; must be on a volume that survives the pod, unless a
    /// database has the journal
    #[arg(long, env = "WINDLASS_STATE_DIR", value_name = "DIRECTORY", default_value = "/var/lib/windlass")]
    pub state_dir: PathBuf,
    /// Where the journal is, if not there.
    #[command(flatten)]
    pub state: StateArguments,
    /// Owner name, used in owner tags and in the names of claimed hosts; must be different for each cluster [default:
    /// derived from the UID of the namespace kube-system and from --watch-filter]
    #[arg(long, env = "WINDLASS_OWNER", value_name = "NAME")]
    pub owner: Option<OwnerName>,
    /// Default zone of machines [env: SCW_DEFAULT_ZONE]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<Zone>,
    /// URL of Scaleway's API [env: SCW_API_URL] [default: https://api.scaleway.com]
    #[arg(long, value_name = "URL")]
    pub api_url: Option<String>,
    /// Default pool of machines: the prefix of its hosts' names
    #[arg(long, env = "WINDLASS_POOL_PREFIX", value_name = "PREFIX")]
    pub pool_prefix: Option<String>,
    /// An additional pool, for all namespaces or only for those after the `=`: `ci-pool-`, `ci-pool-=team-a,team-b`.
    /// Machines take hosts only from these pools and from --pool-prefix
    #[arg(long, env = "WINDLASS_POOLS", value_name = "PREFIX[=NAMESPACE,...]", value_delimiter = ';')]
    pub pool: Vec<String>,
    /// Let machines whose spec allows it order hosts (each is billed for at least 24 hours)
    #[arg(long, env = "WINDLASS_ALLOW_ORDERS")]
    pub allow_orders: bool,
    /// Let machines whose annotation asks for it have the hosts of pools deleted. Hosts that were ordered for a machine
    /// may be in any case
    #[arg(
        long,
        env = "WINDLASS_ALLOW_TERMINATE",
        action = ArgAction::Set,
        default_value_t = false,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub allow_terminate: bool,
    /// What becomes of hosts that were ordered for a machine when it goes and asks for nothing else
    #[arg(long, env = "WINDLASS_ORDERED_HOSTS", value_enum, default_value_t)]
    pub ordered_hosts: OrderedHosts,
    /// Keep a deleted Mac's object until its host shows that it is being wiped. Without it the object goes as soon as the
    /// host is on its way into the pool, and the controller goes on with the release
    #[arg(
        long,
        env = "WINDLASS_WAIT_FOR_WIPE",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub wait_for_wipe: bool,
    /// A project in which machines may be made with the controller's own key, beside the key's own (repeatable)
    #[arg(long, env = "WINDLASS_ALLOW_PROJECTS", value_name = "ID", value_delimiter = ',', value_parser = project)]
    pub allow_project: Vec<String>,
    /// Work on clusters of servers. Without it ServerCluster objects stay as they are
    #[arg(
        long,
        env = "WINDLASS_SERVER_CLUSTERS",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub server_clusters: bool,
    /// Let clusters of servers have hooks that are Jobs: it needs the right to create Jobs
    #[arg(
        long,
        env = "WINDLASS_HOOK_JOBS",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub hook_jobs: bool,
    /// Let clusters of servers have hooks that are webhooks
    #[arg(
        long,
        env = "WINDLASS_WEBHOOKS",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub webhooks: bool,
    /// Look after MachineRemediations. Without it they stay as they are
    #[arg(
        long,
        env = "WINDLASS_REMEDIATION",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub remediation: bool,
    /// Run the scripts of Macs' `spec.setup`. Without it something else sets Macs up
    #[arg(
        long,
        env = "WINDLASS_SET_UP",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub set_up: bool,
    /// A network that webhooks may reach although it is not public: `10.1.0.0/16` (repeatable) [default: none]
    #[arg(long, env = "WINDLASS_WEBHOOK_NETWORKS", value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    pub webhook_network: Vec<IpNet>,
    /// What to do with claimed hosts that belong to no object
    #[arg(long, env = "WINDLASS_ORPHANS", value_enum, default_value_t)]
    pub orphans: Orphans,
    /// Interval between searches for orphans
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub orphans_interval: Duration,
    /// How long a host must be an orphan before it returns to the pool
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub orphans_grace: Duration,
    /// What to do with leaked servers, addresses and volumes in the default zone
    #[arg(long, env = "WINDLASS_SWEEP", value_enum, default_value_t)]
    pub sweep: Sweep,
    /// Number of concurrent reconciles; none of them waits for slow operations at Scaleway
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Number of concurrent operations on machines
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub operations: u16,
    /// Interval between comparisons of machines with Scaleway; one listing per zone
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub listing_interval: Duration,
    /// How long a waiting machine waits unless an event wakes it up earlier
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub retry_interval: Duration,
    /// How long an adoption looks whether anybody else wants the same host: longer than a rename takes at Scaleway. `0`
    /// where nothing claims from these pools but what shares this state directory; at most 10s
    #[arg(long, env = "WINDLASS_CLAIM_SETTLE", value_name = "DURATION", default_value = "2s", value_parser = settling)]
    pub claim_settle: Duration,
    /// How long a call whose answer was lost may still take effect at Scaleway: so long after it, what came of it is
    /// looked for a second and last time, and no other host is ordered before
    #[arg(long, env = "WINDLASS_SECOND_LOOK", value_name = "DURATION", default_value = "10m", value_parser = duration)]
    pub second_look: Duration,
    /// Work only while holding the Lease; use `false` only for a single controller
    #[arg(
        long,
        env = "WINDLASS_LEADER_ELECT",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub leader_elect: bool,
    /// Number of parts that replicas divide the objects into; a namespace is in one part. More than 1 needs a database,
    /// and has no use where all objects use the controller's own key. --concurrency and --operations count for each
    #[arg(
        long,
        env = "WINDLASS_SHARDS",
        value_name = "NUMBER",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=64),
    )]
    pub shards: u32,
    /// The namespace of the controller itself, where administrators keep the ConfigMap `windlass-approvals`
    #[arg(
        long,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "windlass-system",
        value_parser = namespace,
    )]
    pub controller_namespace: String,
    /// The namespace of the Lease: the same for all controllers of a cluster, and one where tenants do not write
    #[arg(
        long,
        env = "WINDLASS_LEADER_ELECT_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "kube-system",
        value_parser = namespace,
    )]
    pub leader_elect_namespace: String,
    /// The Lease's name [default: derived from what is watched, so that two controllers never watch the same objects]
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub leader_elect_name: Option<String>,
    /// The name of the Secret with a namespace's own credentials. Machines that name no other Secret use it; without
    /// such a Secret they use the controller's credentials
    #[arg(long, env = "WINDLASS_NAMESPACE_CREDENTIALS", value_name = "NAME", value_parser = non_empty)]
    pub namespace_credentials: Option<String>,
    /// Never use the controller's own key: objects without credentials of their own or of their namespace wait
    #[arg(long, requires = "namespace_credentials")]
    pub require_namespace_credentials: bool,
    /// How long a Lease is valid without renewal
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub lease_duration: Duration,
    /// Name of this process in the Lease and in events [default: host name and a random suffix]
    #[arg(long, env = "POD_NAME", value_parser = non_empty)]
    pub identity: Option<String>,
    /// Address of the metrics; `0` disables them
    #[arg(
        long,
        alias = "metrics-address",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        value_parser = address,
    )]
    pub metrics_bind_address: Address,
    /// Address of /healthz and /readyz; `0` disables them
    #[arg(
        long,
        alias = "health-address",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8081",
        value_parser = address,
    )]
    pub health_probe_bind_address: Address,
    /// Where the console is, and for whom.
    #[command(flatten)]
    pub console: ConsoleArguments,
    /// How long running operations get to reach a safe point at shutdown
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub shutdown_grace: Duration,
    /// Format of log lines
    #[arg(long, env = "WINDLASS_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// What becomes of hosts that were ordered for a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OrderedHosts {
    /// As the release policy decides: by default they join the machine's pool
    #[default]
    Pool,
    /// The release policy is asked to have them deleted
    Delete,
}

/// What becomes of orphaned hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Orphans {
    /// Report them by metric, log line and event. The default, since such a claim may belong to another cluster
    #[default]
    Report,
    /// Return them to the pool after the grace period, if the release policy agrees
    Return,
}

/// Which objects may bring policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ObjectPolicies {
    /// None
    Off,
    /// ClusterPolicy, which operators write
    Cluster,
    /// The same, and Policy, which the teams of namespaces write
    #[default]
    All,
}

/// What becomes of resources that nothing explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sweep {
    /// Do not search for them
    Off,
    /// Report them by metric and log lines. The default, since a lost state directory makes running servers look leaked
    #[default]
    Report,
    /// Delete them, unless one of them is a running server
    Remove,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line
    #[default]
    Json,
    /// For people
    Text,
}

/// A slot by the name that it has in the contract (wit/policy).
fn slot(name: &str) -> Result<SlotName, String> {
    name.parse().map_err(|_| format!("the slots are {}", SlotName::ALL.map(SlotName::as_str).join(", ")))
}

fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The name of a namespace: one that Kubernetes cannot have would silently watch, or allow, nothing.
fn namespace(text: &str) -> Result<String, String> {
    match is_namespace(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not a namespace: {NAMESPACE}")),
    }
}

/// How a namespace is called.
pub(crate) const NAMESPACE: &str = "its name has lower-case letters, digits and dashes, at most 63";

pub(crate) fn is_namespace(text: &str) -> bool {
    let is_within = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(is_within) && !text.starts_with('-') && !text.ends_with('-')
}

/// A registry as references name it: with a scheme or a path it would silently allow nothing.
fn registry(text: &str) -> Result<String, String> {
    let of = |host: &str| format!("oci://{host}/policy:1").parse::<windlass_distribution::Reference>();
    let is_host = |host: &str| !host.contains('/') && of(host).is_ok();
    if is_host(text) {
        return Ok(text.to_owned());
    }
    // What may be meant as the host in a URL.
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = host.split_once('/').map_or(host, |(host, _)| host);
    let instead = if is_host(host) { host } else { "ghcr.io or registry.example.com:5000" };
    Err(format!("a registry is a host name, with or without a port, and no more: write {instead}"))
}

fn project(text: &str) -> Result<String, String> {
    match uuid::Uuid::parse_str(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err("a project's id is a UUID: copy it from the project's settings in Scaleway's console".to_owned()),
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| "a network is an address and the length of its prefix: 10.1.0.0/16".to_owned())
}

/// The value of a label, as Kubernetes has them, but for the empty one.
fn label_value(text: &str) -> Result<String, String> {
    let is_at_an_end = |character: Option<char>| character.is_some_and(|it| it.is_ascii_alphanumeric());
    let is_within = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    let is_value = text.len() <= 63
        && text.chars().all(is_within)
        && is_at_an_end(text.chars().next())
        && is_at_an_end(text.chars().next_back());
    if is_value {
        return Ok(text.to_owned());
    }
    Err("expected the value of a label: at most 63 letters, digits, `-`, `_` and `.`, the first and the last a letter or \
         a digit"
        .to_owned())
}

/// `500ms`, `30s`, `15m`, `1h`; between 100 ms and a day.
fn duration(text: &str) -> Result<Duration, String> {
    let problem = || "expected a number with its unit: 500ms, 30s, 15m or 1h".to_owned();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| problem())?;
    let milliseconds = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(problem()),
    };
    milliseconds
        .filter(|milliseconds| (100..=86_400_000).contains(milliseconds))
        .map(Duration::from_millis)
        .ok_or_else(|| "it is below 100ms or above 24h".to_owned())
}

/// The longest settling time: well below the time for which a claim may hold the lock (`HELD` in the lifecycle, 20 s).
const MAX_SETTLING: Duration = Duration::from_secs(10);

/// A duration, or nothing.
fn settling(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s" | "0ms") {
        return Ok(Duration::ZERO);
    }
    match duration(text)? {
        settling if settling > MAX_SETTLING => Err("it is above 10s".to_owned()),
        settling => Ok(settling),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<RunArguments, String> {
        Arguments::try_parse_from([&["windlass-controller"], arguments].concat())
            .map(|arguments| arguments.run)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        for (arguments, part) in [
            (vec!["--listing-interval", "60"], "expected a number with its unit"),
            (vec!["--listing-interval", "99h"], "above 24h"),
            (vec!["--metrics-bind-address", "8080"], "such as 0.0.0.0:8080"),
            (vec!["--owner", "Big Team"], "lower-case letters"),
            (vec!["--zone", "Paris"], "zone"),
            (vec!["--concurrency", "0"], "1..=1024"),
            (vec!["--watch-filter", "a b"], "the value of a label"),
            (vec!["--watch-filter", "team-"], "the value of a label"),
            (vec!["--claim-settle", "11s"], "above 10s"),
            (vec!["--claim-settle", "1ms"], "below 100ms"),
            (vec!["--orphans", "delete"], "possible values: report, return"),
            (vec!["--naemspace", "x"], "--namespace"),
            (vec!["--namespace", "Team A"], "is not a namespace"),
            (vec!["--controller-namespace", "a_b"], "is not a namespace"),
            (vec!["--allow-project", "web"], "is a UUID"),
            (vec!["--tenant-registry", "https://ghcr.io/x"], "and no more: write ghcr.io"),
            (vec!["--tenant-registry", "localhost:5000/"], "write localhost:5000"),
            (vec!["--tenant-registry", "ghcr io"], "write ghcr.io or"),
            (vec!["approvals", "--namespace", "Team A"], "is not a namespace"),
            (vec!["convert", "--controller-namespace", "a_b"], "is not a namespace"),
            (vec!["--webhook-network", "10.1.0.0"], "10.1.0.0/16"),
        ] {
            let error = parse(&arguments).unwrap_err();
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
    }

    #[test]
    fn the_settling_time_is_two_seconds_and_may_be_none() {
        assert_eq!(parse(&[]).unwrap().claim_settle, Duration::from_secs(2));
        for none in ["0", "0s", "0ms"] {
            assert_eq!(parse(&["--claim-settle", none]).unwrap().claim_settle, Duration::ZERO);
        }
        assert_eq!(parse(&["--claim-settle=100ms"]).unwrap().claim_settle, Duration::from_millis(100));
    }

    #[test]
    fn the_spellings_of_other_controllers_work() {
        let run =
            parse(&["--leader-elect=false", "--metrics-bind-address=:9090", "--health-probe-bind-address=0"]).unwrap();
        assert!(!run.leader_elect);
        assert_eq!(run.metrics_bind_address.0, Some("0.0.0.0:9090".parse().unwrap()));
        assert_eq!(run.health_probe_bind_address, Address(None));
        assert!(parse(&["--leader-elect"]).unwrap().leader_elect);
        let twice = parse(&["--listing-interval=1s", "--listing-interval=5s"]).unwrap();
        assert_eq!(twice.listing_interval, Duration::from_secs(5), "the last one counts");
    }
}
