//! The command line, as data. Every option can also be an environment variable, as a Deployment sets them.

// The docs of this file are the help on the terminal.
#![allow(rustdoc::bare_urls)]

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use windlass_inspect::output::OutputFormat;
use windlass_lifecycle::OwnerName;
use windlass_policy::slots::SlotName;
use windlass_scaleway::Zone;

use crate::address::{Address, address};
use crate::console::ConsoleArguments;

/// Scaleway machines as an infrastructure provider of Cluster API: releasing a machine never destroys it by accident.
#[derive(Debug, Parser)]
// As Kubernetes' own programs do, the last of two wins: a chart's further options come behind its own.
#[command(name = "windlass-controller", version, max_term_width = 100, args_override_self = true)]
pub struct Arguments {
    /// What to do; without one the controller runs.
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
    /// Print what the machines of this cluster have, as the ConfigMap that hands it over to them after a move to
    /// another cluster
    Approvals {
        /// The kubeconfig file; absent: KUBECONFIG, else the pod's service account
        #[arg(long, value_name = "FILE")]
        kubeconfig: Option<PathBuf>,
        /// The namespace of the machines; absent: all
        #[arg(long, short)]
        namespace: Option<String>,
        /// The namespace of the controller that is to find them
        #[arg(long, value_name = "NAMESPACE", default_value = "windlass-system", value_parser = non_empty)]
        controller_namespace: String,
    },
    /// List the decisions, the newest first, or show one: what was asked, who was asked, what came of it, and why
    Decisions {
        /// The decision's id, or its beginning; absent: all are listed
        #[arg(value_name = "DECISION")]
        decision: Option<String>,
        /// Only of this slot
        #[arg(long, value_name = "SLOT", conflicts_with = "decision", value_parser = slot)]
        slot: Option<SlotName>,
        /// Only those in which a policy of this name was asked
        #[arg(long, value_name = "NAME", conflicts_with = "decision")]
        policy: Option<String>,
        /// Only those where a policy failed and another had to decide
        #[arg(long, conflicts_with = "decision")]
        fallbacks: bool,
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
    /// List the operations on machines, the newest first, or show one: its steps, what failed, what was undone, and why
    Operations {
        /// The operation's id, as `status.operation` has it; absent: all are listed
        #[arg(value_name = "OPERATION")]
        operation: Option<String>,
        /// Only those that are not closed
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
    /// How the policies of the controller that runs are doing: deciding, failing, suspended, replaced, refused
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
    /// Tables for people, documents for programs, or ids alone
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: OutputFormat,
    /// The folder with journal and decision log
    #[arg(long, env = "WINDLASS_STATE_DIR", value_name = "DIRECTORY", default_value = "/var/lib/windlass")]
    pub state_dir: PathBuf,
}

/// The command by which the program starts itself to compile a policy.
pub(crate) const COMPILE: &str = "compile-policy-for-host";

/// How the controller runs.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// The namespace to watch; absent: all
    #[arg(long, env = "WATCH_NAMESPACE", value_parser = non_empty)]
    pub namespace: Option<String>,
    /// The kubeconfig file; absent: KUBECONFIG, else the pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The configuration with the key `policies`, as YAML or JSON; absent: the built-in policies decide
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where relative paths of policies start; absent: the folder of the configuration
    #[arg(long, env = "WINDLASS_POLICY_FOLDER", value_name = "DIRECTORY")]
    pub policy_folder: Option<PathBuf>,
    /// Where journal, decision log and compiled policies are kept: on a volume that survives the pod
    #[arg(long, env = "WINDLASS_STATE_DIR", value_name = "DIRECTORY", default_value = "/var/lib/windlass")]
    pub state_dir: PathBuf,
    /// Whose machines these are: in owner tags and in the names of claimed hosts; absent: made from the UID of the
    /// namespace kube-system. Two clusters need two owners
    #[arg(long, env = "WINDLASS_OWNER", value_name = "NAME")]
    pub owner: Option<OwnerName>,
    /// The zone of machines that name none [env: SCW_DEFAULT_ZONE]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<Zone>,
    /// Where Scaleway's API is [env: SCW_API_URL] [default: https://api.scaleway.com]
    #[arg(long, value_name = "URL")]
    pub api_url: Option<String>,
    /// The pool of machines that name none: the prefix of its hosts' names
    #[arg(long, env = "WINDLASS_POOL_PREFIX", value_name = "PREFIX")]
    pub pool_prefix: Option<String>,
    /// A further pool, for all namespaces or for those behind the `=`: `ci-pool-`, `ci-pool-=team-a,team-b`. Machines
    /// take hosts from these pools and from that of --pool-prefix only
    #[arg(long, env = "WINDLASS_POOLS", value_name = "PREFIX[=NAMESPACE,...]", value_delimiter = ';')]
    pub pool: Vec<String>,
    /// Let machines whose spec allows it order hosts (each is billed for at least 24 hours)
    #[arg(long, env = "WINDLASS_ALLOW_ORDERS")]
    pub allow_orders: bool,
    /// What becomes of hosts that carry a claim of ours which no object explains
    #[arg(long, env = "WINDLASS_ORPHANS", value_enum, default_value_t)]
    pub orphans: Orphans,
    /// How often orphans are looked for
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration)]
    pub orphans_interval: Duration,
    /// How long a host must have been an orphan before it returns to the pool
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub orphans_grace: Duration,
    /// What becomes of servers, addresses and volumes of ours, in the zone of machines that name none, which no
    /// operation explains
    #[arg(long, env = "WINDLASS_SWEEP", value_enum, default_value_t)]
    pub sweep: Sweep,
    /// Reconciles at a time; none of them waits for Scaleway's slow work
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub concurrency: u16,
    /// Operations on machines at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub operations: u16,
    /// How often machines are compared with what Scaleway has: one listing for each zone, however many machines there
    /// are
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub listing_interval: Duration,
    /// How long a waiting machine waits, when nothing tells it to go on sooner
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
    /// Work only while holding the Lease; `false` for a controller that is surely alone
    #[arg(
        long,
        env = "WINDLASS_LEADER_ELECT",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
    )]
    pub leader_elect: bool,
    /// The namespace of the controller itself, where administrators keep the ConfigMap `windlass-approvals`
    #[arg(
        long,
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "windlass-system",
        value_parser = non_empty,
    )]
    pub controller_namespace: String,
    /// The namespace of the Lease: the same for all controllers of a cluster, and one where tenants do not write
    #[arg(
        long,
        env = "WINDLASS_LEADER_ELECT_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "kube-system",
        value_parser = non_empty,
    )]
    pub leader_elect_namespace: String,
    /// The Lease's name; absent: made from what is watched, so that two controllers of the same never work both
    #[arg(long, value_name = "NAME", value_parser = non_empty)]
    pub leader_elect_name: Option<String>,
    /// The name of the Secret with a namespace's own credentials: machines of a namespace that has one, and that name
    /// no other, are made with these; absent: with the controller's
    #[arg(long, env = "WINDLASS_NAMESPACE_CREDENTIALS", value_name = "NAME", value_parser = non_empty)]
    pub namespace_credentials: Option<String>,
    /// Make nothing with the controller's own key: an object without credentials of its own, or of its namespace, waits
    #[arg(long, requires = "namespace_credentials")]
    pub require_namespace_credentials: bool,
    /// How long a Lease holds that is not renewed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub lease_duration: Duration,
    /// This process's name in the Lease and in events; absent: the host's name with a random part
    #[arg(long, env = "POD_NAME", value_parser = non_empty)]
    pub identity: Option<String>,
    /// Where metrics are served; `0` for nowhere
    #[arg(
        long,
        alias = "metrics-address",
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        value_parser = address,
    )]
    pub metrics_bind_address: Address,
    /// Where /healthz and /readyz are served; `0` for nowhere
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
    /// How long operations under way get to reach a safe point when the process is to end
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub shutdown_grace: Duration,
    /// The form of log lines
    #[arg(long, env = "WINDLASS_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// What becomes of orphaned hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Orphans {
    /// They are reported: metric, log line and event. The default, since a claim that nothing explains here may be
    /// explained elsewhere
    #[default]
    Report,
    /// They go back to the pool, when the release policy says so, after the grace
    Return,
}

/// What becomes of resources that nothing explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sweep {
    /// They are not looked for
    Off,
    /// They are reported: metric and log lines. The default, since after the loss of the state directory nothing here
    /// explains what runs
    #[default]
    Report,
    /// They are removed, unless a server that runs is among them
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
            (vec!["--claim-settle", "11s"], "above 10s"),
            (vec!["--claim-settle", "1ms"], "below 100ms"),
            (vec!["--orphans", "delete"], "possible values: report, return"),
            (vec!["--naemspace", "x"], "--namespace"),
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
