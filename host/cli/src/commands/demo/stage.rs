//! What the story is played on: a simulated Scaleway, a policy host over a real file, a journal, all temporary.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_inspect::failure::Failure;
use windlass_lifecycle::{ImageChoice, scaleway_capabilities};
use windlass_lifecycle::{Journal, Lifecycle, OperationFilter, Options, ServerSpecification, StateDirectory};
use windlass_policy::slots::SlotName;
use windlass_policy::{Compiler, DecisionFilter, Host, HostOptions, Link, Policies, Watch, built_in_component};
use windlass_scaleway::{Client, SecretKey, Settings, Zone};
use windlass_simulator::{Latency, Simulator};

/// How much faster the simulated Scaleway is than the real one: a server that takes 4 s to boot takes 1 s.
const TIME_SCALE: f64 = 4.0;
/// What a call to Scaleway's API takes, roughly.
const LATENCY: Latency = Latency { base_ms: 25, jitter_ms: 30 };
/// How soon a replaced policy file is noticed.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// How often a server that changes is looked at: as often in simulated time as the real one is.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Any UUID is a key to the simulator.
const KEY: &str = "11111111-1111-1111-1111-111111111111";
const ZONE: &str = "fr-par-1";
const PROJECT: &str = "22222222-2222-2222-2222-222222222222";

/// The example policy that replaces the built-in default of the slot `state-mapping` (`just policies` makes it again).
pub(super) const GRACE_FOR_STOPPED: &[u8] = include_bytes!("../../../components/grace-for-stopped.wasm");

pub(super) struct Stage {
    pub(super) simulator: Simulator,
    pub(super) policies: Host,
    pub(super) lifecycle: Lifecycle,
    pub(super) client: Client,
    pub(super) zone: Zone,
    /// The policy file that is replaced.
    pub(super) policy_file: PathBuf,
    pace: f64,
    _watch: Watch,
    /// Last, so that it is removed when nothing uses it any more.
    directory: tempfile::TempDir,
}

/// Something that only a broken machine or a defect can cause.
pub(super) fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::undone("the demo cannot go on").because(error.to_string())
}

impl Stage {
    pub(super) fn set(seed: u64, pace: f64) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("windlass-demo-").tempdir().map_err(broken)?;
        let simulator = Simulator::new(windlass_simulator::Options {
            seed,
            time_scale: TIME_SCALE * pace,
            latency: Latency {
                base_ms: (LATENCY.base_ms as f64 / pace) as u64,
                jitter_ms: (LATENCY.jitter_ms as f64 / pace) as u64,
            },
            ..windlass_simulator::Options::default()
        });
        let zone: Zone = ZONE.parse().map_err(broken)?;
        let key: SecretKey = KEY.parse().map_err(broken)?;
        let settings = Settings::new(key).with_zone(zone.clone()).with_project_id(PROJECT);
        let client = Client::with_transport(settings, simulator.transport()).map_err(broken)?;

        let state = StateDirectory::open(&directory.path().join("state")).map_err(broken)?;
        let policy_file = directory.path().join("state-mapping.wasm");
        let default = built_in_component(SlotName::StateMapping).ok_or_else(|| broken("the slot has no default"))?;
        std::fs::write(&policy_file, default).map_err(broken)?;
        let mut options = HostOptions::new(state.handle().try_clone().map_err(broken)?);
        options.capabilities = scaleway_capabilities(&client);
        options.watch_interval = WATCH_INTERVAL;
        // The policies of the demo are its own.
        options.compiler = Some(Compiler::this_process());
        let policies = Host::new(options).map_err(broken)?;
        // The defaults try for minutes; three attempts tell the story as well.
        let retry = Link::default().with_settings(serde_json::json!({ "attempts": 3 }));
        let chains =
            Policies::built_in().with(SlotName::Retry, retry).with(SlotName::StateMapping, Link::file(&policy_file));
        policies.configure(&chains).map_err(broken)?;
        let watch = policies.watch().map_err(broken)?;
        let mut options = Options::new(client.clone(), Arc::new(policies.clone()), state);
        options.limits.poll_interval = POLL_INTERVAL.div_f64(pace);
        let lifecycle = Lifecycle::open(options).map_err(broken)?;
        Ok(Stage { simulator, policies, lifecycle, client, zone, policy_file, pace, _watch: watch, directory })
    }

    /// The state directory, for who looks on.
    pub(super) fn state(&self) -> Result<StateDirectory, Failure> {
        StateDirectory::open(&self.directory.path().join("state")).map_err(broken)
    }

    /// The servers of the story.
    pub(super) fn specification(&self) -> Result<ServerSpecification, Failure> {
        let group = "demo".parse().map_err(broken)?;
        let image = ImageChoice::parse("ubuntu_noble");
        Ok(ServerSpecification::new(group, self.zone.clone(), "DEV1-S", image))
    }

    /// A moment to read.
    pub(super) async fn pause(&self, seconds: f64) {
        tokio::time::sleep(Duration::from_secs_f64(seconds / self.pace)).await;
    }

    /// What exists, in words: `5 servers, 5 addresses, 5 volumes`.
    pub(super) fn inventory(&self) -> String {
        let resources = self.simulator.resources();
        let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        format!(
            "{}, {}, {}",
            count(resources.servers.len(), "server", "servers"),
            count(resources.ips.len(), "address", "addresses"),
            count(resources.volumes.len(), "volume", "volumes"),
        )
    }

    pub(super) fn journal(&self) -> &Journal {
        self.lifecycle.journal()
    }

    /// How many decisions were recorded.
    pub(super) fn decisions(&self) -> Result<usize, Failure> {
        let log = self.policies.decisions().map_err(broken)?;
        Ok(log.list(&DecisionFilter::default()).map_err(broken)?.decisions.len())
    }

    /// How many operations were journalled.
    pub(super) fn operations(&self) -> Result<usize, Failure> {
        Ok(self.journal().operations(&OperationFilter::default()).map_err(broken)?.len())
    }
}
