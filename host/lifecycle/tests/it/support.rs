//! A simulated Scaleway with a lifecycle on it, all from one seed.

use std::future::Future;
use std::num::NonZeroU32;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::Value;
use windlass_lifecycle::{
    AddressKind, Clock, CloudInit, Durability, ExtraVolume, ImageChoice, Lifecycle, OperationFilter, OperationState,
    Options, OwnerName, ServerSpecification, StateDirectory, VolumeKind,
};
use windlass_policy::{Compiler, Host, HostOptions};
use windlass_scaleway::types::block::{CreateBlockVolume, FromEmpty};
use windlass_scaleway::{Client, Settings, Zone};
use windlass_simulator::{Effect, Fault, FaultKind, Resources, Simulator};
use windlass_test_guests::{cache_dir, share};

pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
/// 2026-09-21T14:13:20Z.
pub(crate) const NOW: u64 = 1_790_000_000_000;
pub(crate) const OWNER: &str = "team";

/// The built-in policies, compiled once for all cases.
pub(crate) fn host() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        (folder, host)
    });
    Arc::clone(host)
}

pub(crate) fn host_in(folder: &std::path::Path) -> Arc<Host> {
    let state = StateDirectory::open(folder).unwrap();
    let mut options = HostOptions::new(state.handle().try_clone().unwrap());
    options.compiler = Some(Compiler::this_process());
    options.cache_dir = Some(Dir::open_ambient_dir(cache_dir().unwrap(), ambient_authority()).unwrap());
    Arc::new(Host::new(options).unwrap())
}

/// Runs a case on one thread under paused time.
pub(crate) fn run<F: Future>(case: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(case)
}

/// Runs a case on one thread in real time, and no longer than far more than any takes, also on a busy machine.
pub(crate) fn real_time<F: Future>(case: F) -> F::Output {
    const LIMIT: Duration = Duration::from_secs(300);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let case = runtime.block_on(async { tokio::time::timeout(LIMIT, case).await });
    case.unwrap_or_else(|_| panic!("the case has not ended within {LIMIT:?}"))
}

/// This test binary again, as a process that a test kills. It never outlives the test.
pub(crate) struct Spawned(Child);

impl Spawned {
    /// Runs the test of this name, which reads from these variables what it is to do.
    pub(crate) fn start(test: &str, variables: &[(&str, &std::ffi::OsStr)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"]).envs(variables.iter().copied());
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until it was caught by a delay and kills it. False when it has ended by itself.
    pub(crate) async fn kill_when_caught(&mut self, simulator: &Simulator) -> bool {
        let is_caught = |fault: &Fault| matches!(fault.rule.kind, FaultKind::Delay(_)) && fault.applied > 0;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "the child failed: {status}");
                return false;
            }
            if simulator.faults().iter().any(is_caught) {
                self.0.kill().unwrap();
                assert_eq!(self.0.wait().unwrap().signal(), Some(9));
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn zone() -> Zone {
    "fr-par-1".parse().unwrap()
}

/// Limits that never make a test wait for our own rate.
pub(crate) fn settings() -> Settings {
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = windlass_scaleway::Limits::default();
    limits.calls_per_second = many;
    limits.burst = many;
    limits.concurrent_calls = NonZeroU32::new(512).unwrap();
    Settings::new(KEY.parse().unwrap()).with_limits(limits)
}

pub(crate) struct World {
    pub(crate) simulator: Simulator,
    pub(crate) client: Client,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) network: String,
    seed: u64,
    starts: std::cell::Cell<u64>,
}

impl World {
    /// An empty Scaleway with one private network.
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with(windlass_simulator::Options { seed, ..windlass_simulator::Options::default() }).await
    }

    pub(crate) async fn with(options: windlass_simulator::Options) -> Self {
        let seed = options.seed;
        let simulator = Simulator::new(options);
        let client = Client::with_transport(settings(), simulator.transport()).unwrap();
        let network = make_network(&client).await;
        simulator.clear_requests();
        Self { simulator, client, folder: tempfile::tempdir().unwrap(), network, seed, starts: std::cell::Cell::new(0) }
    }

    pub(crate) fn state(&self) -> StateDirectory {
        StateDirectory::open(self.folder.path()).unwrap()
    }

    /// A process start: opens the journal that an earlier one may have left.
    pub(crate) fn start(&self) -> Lifecycle {
        self.start_under(host())
    }

    pub(crate) fn start_under(&self, host: Arc<Host>) -> Lifecycle {
        self.starts.set(self.starts.get() + 1);
        let mut options = Options::new(self.client.clone(), host, self.state());
        options.owner = Some(owner());
        options.durability = Durability::Process;
        options.clock = Clock::simulated(NOW + self.starts.get() * 3_600_000);
        options.seed = Some(self.seed ^ (self.starts.get() << 32));
        Lifecycle::open(options).unwrap()
    }

    /// A server with one of everything.
    pub(crate) fn everything(&self) -> ServerSpecification {
        everything(&self.network)
    }

    /// A Block Storage volume that a user made, ready to be attached.
    pub(crate) async fn block_volume_of_a_user(&self) -> String {
        let request = CreateBlockVolume {
            name: "theirs".into(),
            perf_iops: Some(5_000),
            from_empty: Some(FromEmpty { size: 5_000_000_000 }),
            ..CreateBlockVolume::default()
        };
        let volume = self.client.block(&zone()).create_volume(&request).await.unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        volume.id
    }

    pub(crate) fn resources(&self) -> Resources {
        self.simulator.resources()
    }

    pub(crate) fn assert_empty(&self, case: &str) {
        let resources = self.resources();
        assert!(resources.is_empty(), "{case}: still there: {}", brief(&resources));
    }

    /// Exactly one server, running, with everything that [`World::everything`] asks for.
    pub(crate) async fn assert_complete(&self, case: &str) {
        let resources = self.resources();
        let text = brief(&resources);
        assert_eq!(resources.servers.len(), 1, "{case}: {text}");
        let server = &resources.servers[0];
        assert_eq!(server["state"], "running", "{case}: {text}");
        assert_eq!(resources.ips.len(), 2, "{case}: {text}");
        assert!(
            resources.ips.iter().all(|ip| ip["server"]["id"] == server["id"]),
            "{case}: an address is not attached: {text}"
        );
        assert_eq!(resources.volumes.len(), 2, "{case}: {text}");
        assert_eq!(resources.private_nics.len(), 1, "{case}: {text}");
        for (kind, list) in [
            ("server", &resources.servers),
            ("ip", &resources.ips),
            ("volume", &resources.volumes),
            ("nic", &resources.private_nics),
        ] {
            for resource in list {
                let tags: Vec<&str> =
                    resource["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                assert!(
                    tags.contains(&format!("windlass-owner={OWNER}").as_str()),
                    "{case}: a {kind} without our tag: {tags:?}"
                );
            }
        }
        let data = self
            .client
            .instance(&zone())
            .get_server_user_data(server["id"].as_str().unwrap(), "cloud-init")
            .await
            .unwrap_or_else(|error| panic!("{case}: no cloud-init: {error}"));
        assert_eq!(&data[..], b"#cloud-config\n", "{case}");
    }

    pub(crate) fn assert_closed(&self, lifecycle: &Lifecycle, case: &str) {
        let mut filter = OperationFilter::default();
        filter.states = vec![OperationState::Open, OperationState::Left];
        let open = lifecycle.journal().operations(&filter).unwrap();
        assert!(open.is_empty(), "{case}: the journal is open: {open:?}");
        assert!(lifecycle.in_flight().is_empty(), "{case}");
    }
}

pub(crate) fn owner() -> OwnerName {
    OWNER.parse().unwrap()
}

pub(crate) fn everything(network: &str) -> ServerSpecification {
    let mut specification =
        ServerSpecification::new("ci".parse().unwrap(), zone(), "DEV1-S", ImageChoice::parse("ubuntu_noble"));
    specification.addresses = vec![AddressKind::Ipv4, AddressKind::Ipv6];
    specification.volumes =
        vec![ExtraVolume::New { kind: VolumeKind::Block, size: 10_000_000_000, operations_per_second: None }];
    specification.private_networks = vec![network.to_owned()];
    specification.cloud_init = Some(CloudInit::new("#cloud-config\n"));
    specification.tags = vec!["role=runner".into()];
    specification
}

pub(crate) async fn make_network(client: &Client) -> String {
    let answer = client
        .send_raw(
            "POST",
            "/vpc/v2/regions/fr-par/private-networks",
            Some(r#"{"name":"test","tags":[],"subnets":[]}"#.into()),
        )
        .await
        .unwrap();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    body["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// What is there, short enough for a message.
pub(crate) fn brief(resources: &Resources) -> String {
    let list = |name: &str, list: &[Value]| {
        list.iter()
            .map(|value| {
                format!(
                    "{name} {} {}{} tags {}",
                    value["id"].as_str().unwrap_or("?"),
                    value["state"].as_str().unwrap_or(""),
                    value["status"].as_str().unwrap_or(""),
                    value["tags"]
                )
            })
            .collect::<Vec<_>>()
    };
    [
        list("server", &resources.servers),
        list("ip", &resources.ips),
        list("volume", &resources.volumes),
        list("nic", &resources.private_nics),
    ]
    .concat()
    .join("; ")
}

/// A number from the environment, for longer runs.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text:?}"))
}

/// The seeds of so many cases: from 0, or from the number in `variable`. With a count of 1 that plays the case again
/// whose failure named its seed.
pub(crate) fn seeds(variable: &str, count: u64) -> Vec<u64> {
    let first = number(variable, 0);
    (first..first + count).collect()
}

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// Each kind of fault, and an answer after 45 seconds.
pub(crate) fn kinds() -> Vec<FaultKind> {
    FaultKind::ALL.into_iter().chain([FaultKind::Delay(Duration::from_secs(45))]).collect()
}

/// Each of them, before and after its effect, at each of so many calls; of all these cases a share.
pub(crate) fn faults_at(calls: u64) -> impl Iterator<Item = (u64, FaultKind, Effect)> {
    let faults = || kinds().into_iter().flat_map(|kind| [(kind, Effect::Before), (kind, Effect::After)]);
    share((1..=calls).flat_map(move |nth| faults().map(move |(kind, effect)| (nth, kind, effect))))
}
