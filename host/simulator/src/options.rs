use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use crate::apple_silicon::AppleSilicon;
use crate::behaviour::Behaviour;
use crate::request_limit::RequestLimit;

/// How a simulated Scaleway behaves. `Options::default()` is a generous one: no latency, real durations, no limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// Decides every id, address, MAC, jitter and with them the interleaving of concurrent callers. The same seed and
    /// the same calls give byte-identical answers.
    pub seed: u64,
    /// Simulated milliseconds that pass in one millisecond of tokio's time. `0.0` stands still except for
    /// [`Simulator::advance`](crate::Simulator::advance). Negative and non-finite values count as `0.0`.
    pub time_scale: f64,
    /// How long every API call takes.
    pub latency: Latency,
    /// How many calls are let through; `None`: all.
    pub request_limit: Option<RequestLimit>,
    /// How long Scaleway takes for what it does in the background.
    pub durations: Durations,
    /// How much of each kind may exist.
    pub quotas: Quotas,
    /// Server types of both products (`DEV1-S`, `M4-M`) of which nothing is left. More can be said later with
    /// [`Simulator::set_stock`](crate::Simulator::set_stock).
    pub out_of_stock: BTreeSet<String>,
    /// The secret keys that are let in. Empty: every well-formed UUID.
    pub tokens: BTreeSet<String>,
    /// The project of requests that name none.
    pub default_project: String,
    /// The organization of every resource. `None`: the same id as the resource's project, as it is for an
    /// organization's first project (recorded).
    pub organization: Option<String>,
    /// HTTP status of refused preconditions of the Instance API. Both were seen: 400 (recorded) and 412 (issue).
    pub refusal_status: RefusalStatus,
    /// How long an Apple silicon server may not be deleted after its creation. A customer's 24 hours; the recorded
    /// organization was exempt, which is `Duration::ZERO`.
    pub apple_silicon_commitment: Duration,
    /// Who is exempt from that, how it is refused, how many hosts are left, and which are there from the start.
    pub apple_silicon: AppleSilicon,
    /// How many calls the request log holds; beyond that the oldest are forgotten. 0: no call is logged.
    pub logged_requests: usize,
    /// Largest request body that is read, in bytes. A larger one gets 413.
    pub body_bytes: usize,
    /// Whether public IPv4 addresses are loopback addresses of this machine (127.64.0.0/15), each of which can be
    /// listened on: a test can so put a real ssh server behind each simulated one. Otherwise they are of 198.18.0.0/15.
    pub loopback_addresses: bool,
    /// In what this Scaleway differs from what is believed of the real one. More can be said later with
    /// [`Simulator::set_behaviour`](crate::Simulator::set_behaviour).
    pub behaviours: Vec<Behaviour>,
}

/// The time an API call takes: `base_ms` and up to `jitter_ms` more, evenly spread, drawn from the seed.
///
/// This is tokio time and not scaled by `time_scale`: the client's own deadlines run in it, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// Milliseconds of every call.
    pub base_ms: u64,
    /// Largest addition in milliseconds.
    pub jitter_ms: u64,
}

/// How long Scaleway takes for what it does after it has answered, in simulated time. The defaults lie near the
/// recorded medians.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durations {
    /// `poweron` until `running`: recorded 5 s (n = 106, at most 35 s).
    pub power_on: Duration,
    /// How much longer `poweron` takes with local volumes, which are filled meanwhile: recorded 5 to 30 s in
    /// "provisioning node".
    pub provision: Duration,
    /// `poweroff` until `stopped`: recorded 36 s (n = 14).
    pub power_off: Duration,
    /// `terminate` until the server is gone: recorded 5 s (n = 85, at most 118 s).
    pub terminate: Duration,
    /// `stop_in_place` until `stopped in place`: recorded 46 s (n = 4).
    pub stop_in_place: Duration,
    /// `reboot` until `running`: recorded 41 s (n = 1).
    pub reboot: Duration,
    /// A new Block Storage volume until `available`: recorded below 5 s.
    pub block_create: Duration,
    /// A Block Storage volume's new size or speed until it is `in_use` or `available` again: recorded below 5 s.
    pub block_update: Duration,
    /// A file system until it is attached to a server, or detached: recorded over within a few polls.
    pub filesystem: Duration,
    /// A volume of a deleted server until `available`: recorded 0 to 6 s.
    pub block_detach: Duration,
    /// A private network interface of API v2alpha1 until `available`: recorded about 55 s (12 polls). API v1 says
    /// `available` at once (recorded).
    pub private_nic_attach: Duration,
    /// An image of `backup`, and a snapshot, until `available`. Assumption.
    pub snapshot: Duration,
    /// A new Apple silicon server until `ready`: recorded 119 to 162 s (n = 25).
    pub apple_silicon_create: Span,
    /// The same of type M1: recorded 30 and 46 s.
    pub apple_silicon_create_m1: Span,
    /// An Apple silicon server from `reboot` to `ready`: recorded 106, 136 and 136 s.
    pub apple_silicon_reboot: Span,
    /// An Apple silicon server from `reinstall` to `ready`: 5 to 20 minutes. Assumption; no recording exists.
    pub apple_silicon_reinstall: Span,
}

/// A duration from `shortest` to `longest`, evenly spread and drawn from the seed; any [`Duration`] is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// At least.
    pub shortest: Duration,
    /// At most; what is shorter than `shortest` counts as that.
    pub longest: Duration,
}

impl Span {
    const fn seconds(shortest: u64, longest: u64) -> Self {
        Self { shortest: Duration::from_secs(shortest), longest: Duration::from_secs(longest) }
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self { shortest: duration, longest: duration }
    }
}

/// How much of each kind may exist over all zones; `None`: any number. One more is answered 403 `quotas_exceeded`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Instances.
    pub servers: Option<usize>,
    /// Flexible IPs.
    pub ips: Option<usize>,
    /// Local volumes.
    pub volumes: Option<usize>,
    /// Block Storage volumes.
    pub block_volumes: Option<usize>,
    pub apple_silicon_servers: Option<usize>,
    /// IAM ssh keys. The only quota with a recorded refusal; there it was 50.
    pub ssh_keys: Option<usize>,
}

/// With which status the Instance API refuses a precondition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RefusalStatus {
    /// 400 with `help_message` and `precondition` (recorded 2025-10-08).
    #[default]
    BadRequest,
    /// 412 with `message` and `type` only (scaleway-cli issue 4827, 2025-06-16).
    PreconditionFailed,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            time_scale: 1.0,
            latency: Latency::default(),
            request_limit: None,
            durations: Durations::default(),
            quotas: Quotas::default(),
            out_of_stock: BTreeSet::new(),
            tokens: BTreeSet::new(),
            default_project: "7d0e3a4c-0000-4000-8000-000000000001".to_owned(),
            organization: None,
            refusal_status: RefusalStatus::default(),
            apple_silicon_commitment: Duration::from_secs(24 * 60 * 60),
            apple_silicon: AppleSilicon::default(),
            logged_requests: 100_000,
            body_bytes: 4 * 1024 * 1024,
            loopback_addresses: false,
            behaviours: Vec::new(),
        }
    }
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            power_on: Duration::from_secs(4),
            provision: Duration::from_secs(8),
            power_off: Duration::from_secs(35),
            terminate: Duration::from_secs(5),
            stop_in_place: Duration::from_secs(45),
            reboot: Duration::from_secs(40),
            block_create: Duration::from_secs(1),
            block_update: Duration::from_secs(1),
            filesystem: Duration::from_secs(5),
            block_detach: Duration::from_secs(2),
            private_nic_attach: Duration::from_secs(55),
            snapshot: Duration::from_secs(10),
            apple_silicon_create: Span::seconds(119, 162),
            apple_silicon_create_m1: Span::seconds(30, 46),
            apple_silicon_reboot: Span::seconds(106, 136),
            apple_silicon_reinstall: Span::seconds(5 * 60, 20 * 60),
        }
    }
}

/// What is said about a server type's stock, by name.
pub(crate) type Stock = BTreeMap<String, Availability>;

/// The stock of a server type, in the Instance API's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "kebab-case")]
pub enum Availability {
    /// Enough.
    Available,
    /// Nearly gone; creation still works.
    Scarce,
    /// Gone: creating or powering on a server of that type is answered 503 `out_of_stock`.
    Shortage,
}

impl Availability {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}
