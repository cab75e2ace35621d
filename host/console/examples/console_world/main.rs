//! A world to walk through with a browser (`just test-console`): servers, Macs and clusters on a simulated Scaleway,
//! made, failed, undone and under way; policies that were swapped, refused, suspended and asked as shadows; and ten
//! thousand operations around them. A second world holds a thousand hostile texts wherever text from outside can stand.
//!
//! Compiled policies are kept in the folder that the first argument names, for the next time.
//!
//! Prints the addresses of both consoles as one line of JSON, and serves until its standard input ends.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod hostile;
mod many;

use std::io::Read as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    ClusterControl, ClusterOptions, ClusterSpecification, Clusters, Hook, HookAction, HookSet, LogClusterStore,
    NodeGroup, ProgramHook, ScaleRequest,
};
use windlass_console::{Candidates, Console, Endpoint, Prices, ServeOptions};
use windlass_lifecycle::{
    Control, Durability, ImageChoice, Lifecycle, Options, OrderRequest, RequestedBy, ServerSpecification,
    StateDirectory, SweepRequest, Target,
};
use windlass_policy::slots::{Retry, Slot as _, SlotName, StateMapping, state_mapping};
use windlass_policy::{Host, HostOptions, Link, Policies};
use windlass_scaleway::{Client, Limits, Settings, Zone};
use windlass_simulator::{FaultKind, FaultRule, ForcedState, Simulator};

const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";
const OPERATIONS: usize = 10_000;
const PATIENCE: &str = r#"slot = "retry"

[[rules]]
name = "stock"
when = "failure.class == 'out-of-stock' && attempt < 4"
answer = { wait = 20 }
reason = "stock may come back"
"#;
/// Removes whatever it is asked about: the brake holds it back.
const REAP_ALL: &str = r#"slot = "state-mapping"

[[rules]]
name = "all of them"
when = "server.state == 'running'"
answer = { mapped = { report = "deleting", action = "reap" } }
reason = "it should all go"
"#;
const STOPPED_IS_GONE: &str = r#"slot = "state-mapping"

[[rules]]
name = "stopped is gone"
when = "server.state == 'stopped'"
answer = { mapped = { report = "deleted", action = "none" } }
reason = "a stopped server does no work"
"#;

struct World {
    simulator: Simulator,
    client: Client,
    policies: Host,
    lifecycle: Lifecycle,
    zone: Zone,
}

#[tokio::main]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (files, state) = (at("policies"), at("state"));
    let kept = std::env::args_os().nth(1).map(std::path::PathBuf::from);
    if let Some(kept) = &kept {
        copy_compiled(kept, &state);
    }
    let world = World::new(&state, &files);
    world.policies(&files).await;
    world.servers().await;
    world.clusters().await;
    world.policies.flush_decisions();
    many::multiply(&state, OPERATIONS);
    let hostile = at("hostile");
    let hostile_texts = hostile::copy(&state, &hostile);

    let end = CancellationToken::new();
    let prices = Prices::new();
    let types = world.client.instance(&world.zone).list_server_types().await.unwrap();
    prices.set(world.zone.as_str(), types.into_iter().map(|(name, of)| (name, of.hourly_price)));
    let scratch = at("scratch");
    copy_compiled(&state, &scratch);
    if let Some(kept) = &kept {
        copy_compiled(&state, kept);
    }
    let host = Host::new(HostOptions::new(Dir::open_ambient_dir(&scratch, ambient_authority()).unwrap())).unwrap();
    let candidates = Candidates::new(Dir::open_ambient_dir(&files, ambient_authority()).unwrap(), host);
    let good = start(&state, end.clone(), |console| console.with_prices(prices).with_candidates(candidates));
    let hostile = start(&hostile, end.clone(), |console| console);
    println!(
        "{}",
        json!({ "world": good, "hostile": hostile, "hostile_texts": hostile_texts, "operations": OPERATIONS })
    );
    // The parent process ends it by closing its input, also by dying.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()).unwrap()).await.unwrap();
    end.cancel();
}

/// Copies the cache of compiled policies from one state folder to another, with the key that its files are signed with.
fn copy_compiled(from: &Path, to: &Path) {
    if !from.join("cache.key").exists() {
        return;
    }
    std::fs::create_dir_all(to.join("cache")).unwrap();
    std::fs::copy(from.join("cache.key"), to.join("cache.key")).unwrap();
    for entry in std::fs::read_dir(from.join("cache")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("cache").join(entry.file_name())).unwrap();
    }
}

fn start(state: &Path, end: CancellationToken, with: impl FnOnce(Console) -> Console) -> String {
    let endpoint = Endpoint::bind(ServeOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let console = with(endpoint.console(StateDirectory::open(state).unwrap()));
    let url = endpoint.url();
    tokio::spawn(endpoint.serve(console, end));
    url
}

impl World {
    fn new(state: &Path, files: &Path) -> Self {
        let simulator = Simulator::new(windlass_simulator::Options {
            time_scale: 1_000.0,
            ..windlass_simulator::Options::default()
        });
        let many = NonZeroU32::new(1_000_000).unwrap();
        let mut limits = Limits::default();
        (limits.calls_per_second, limits.burst) = (many, many);
        let settings = Settings::new(KEY.parse().unwrap()).with_limits(limits);
        let client = Client::with_transport(settings, simulator.transport()).unwrap();
        let state = StateDirectory::open(state).unwrap();
        let policies = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
        std::fs::write(files.join("patience.rules.toml"), PATIENCE).unwrap();
        std::fs::write(files.join("reap-all.rules.toml"), REAP_ALL).unwrap();
        std::fs::write(files.join("stopped-is-gone.rules.toml"), STOPPED_IS_GONE).unwrap();
        let chains = Policies::built_in()
            .with(SlotName::Retry, Link::file(files.join("patience.rules.toml")))
            .with(SlotName::Retry, Link::default().with_settings(json!({ "attempts": 2 })))
            .with(SlotName::StateMapping, Link::file(files.join("reap-all.rules.toml")))
            .with(SlotName::StateMapping, Link::file(files.join("stopped-is-gone.rules.toml")).as_shadow());
        policies.configure(&chains).unwrap();
        let mut options = Options::new(client.clone(), Arc::new(policies.clone()), state);
        options.durability = Durability::Process;
        options.limits.poll_interval = Duration::from_millis(2);
        let lifecycle = Lifecycle::open(options).unwrap();
        Self { simulator, client, policies, lifecycle, zone: "fr-par-1".parse().unwrap() }
    }

    /// Decisions of each kind; a policy that the brake holds back until it is suspended, a swap and a refused one.
    async fn policies(&self, files: &Path) {
        for round in 0..8_usize {
            let mut question = StateMapping::example();
            let server = question.servers[0];
            let states = [state_mapping::ServerState::Running, state_mapping::ServerState::Stopped];
            question.subject.group = Some("ci".to_owned());
            question.servers = (0..24)
                .map(|number| state_mapping::Server {
                    state: states[usize::from(number < round)],
                    detail: state_mapping::StateDetail::None,
                    has_run: true,
                    in_flight: state_mapping::Operation::None,
                    ..server
                })
                .collect();
            self.policies.pin().decide::<StateMapping>(question).await;
        }
        self.policies.pin().decide::<Retry>(Retry::example()).await;
        // What follows within a moment is reported as one change.
        tokio::time::sleep(Duration::from_millis(600)).await;
        std::fs::write(files.join("patience.rules.toml"), PATIENCE.replace("wait = 20", "wait = 30")).unwrap();
        assert_eq!(self.policies.reload().swapped.len(), 1);
        tokio::time::sleep(Duration::from_millis(600)).await;
        std::fs::write(files.join("patience.rules.toml"), PATIENCE.replace("out-of-stock", "out_of_stock")).unwrap();
        assert_eq!(self.policies.reload().errors.len(), 1);
        self.policies.pin().decide::<Retry>(Retry::example()).await;
        std::fs::copy(files.join("patience.rules.toml"), files.join("broken.rules.toml")).unwrap();
    }

    fn specification(&self, group: &str, server_type: &str) -> ServerSpecification {
        let image = ImageChoice::parse("ubuntu_noble");
        ServerSpecification::new(group.parse().unwrap(), self.zone.clone(), server_type, image)
    }

    fn fault(&self, method: &str, path: &str, kind: FaultKind) {
        self.simulator.add_fault(FaultRule::new(method, path, kind)).unwrap();
    }

    /// Servers that run, that failed, that are removed and that are left; a Mac; one creation that is under way.
    async fn servers(&self) {
        let control = Control::new();
        for (group, server_type, count) in [("ci", "DEV1-S", 4), ("web", "PLAY2-PICO", 2)] {
            for made in self.lifecycle.create_servers(&self.specification(group, server_type), count, &control).await {
                made.unwrap();
            }
        }
        // It cannot be started: what was made for it is removed.
        self.fault("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError);
        self.lifecycle.create_server(self.specification("ci", "DEV1-S"), &control).await.unwrap_err();
        self.simulator.clear_faults();
        self.fault("POST", "/instance/v1/zones/*/servers", FaultKind::OutOfStock);
        self.lifecycle.create_server(self.specification("gpu", "DEV1-S"), &control).await.unwrap_err();
        // And what was made for this one cannot be removed.
        self.simulator.clear_faults();
        self.fault("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::InternalServerError);
        self.fault("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::PermissionDenied);
        self.lifecycle.create_server(self.specification("ci", "DEV1-S"), &control).await.unwrap_err();
        self.simulator.clear_faults();
        let removed = self.lifecycle.create_server(self.specification("ci", "DEV1-S"), &control).await.unwrap();
        self.lifecycle.cleanup(&Target::Operation(removed.operation), &control).await.unwrap();
        let request = OrderRequest {
            zone: "fr-par-3".parse().unwrap(),
            claim: "ci-mac-1".parse().unwrap(),
            machine_type: "M4-S".into(),
            operating_system: None,
            limit: 3,
            claim_prefix: "ci-mac-".into(),
            pool_prefix: None,
            requested_by: RequestedBy::default(),
        };
        self.lifecycle.order_machine(&request, &control).await.unwrap();
        // Somebody deletes a server behind our back: what belonged to it is unexplained.
        let lost = self.lifecycle.create_server(self.specification("web", "DEV1-S"), &control).await.unwrap();
        self.simulator.set_server_state(&lost.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut look = SweepRequest::new(vec![self.zone.clone()]);
        (look.dry_run, look.grace) = (true, Duration::ZERO);
        assert!(!self.lifecycle.sweep(&look, &control).await.unwrap().unexplained.is_empty());
        // It takes longer than anybody looks.
        self.fault(
            "POST",
            "/instance/v1/zones/*/servers/*/action",
            FaultKind::Delay(Duration::from_secs(86_400 * 1_000)),
        );
        self.simulator.clear_requests();
        let (lifecycle, specification) = (self.lifecycle.clone(), self.specification("ci", "DEV1-M"));
        tokio::spawn(async move { lifecycle.create_server(specification, &Control::new()).await });
        // However busy the machine is, the fault stays until it met the call.
        while !self.simulator.requests().iter().any(|request| request.fault.is_some()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.simulator.clear_faults();
    }

    /// A cluster that serves, one whose hook failed, and one that is gone.
    async fn clusters(&self) {
        let store = LogClusterStore::of(self.lifecycle.journal());
        let policies = Arc::new(self.policies.clone());
        let options = ClusterOptions::new(self.lifecycle.clone(), self.client.clone(), policies, Arc::new(store));
        let clusters = Clusters::new(options);
        let shell = |script: &str| {
            let mut hook = ProgramHook::new("/bin/sh");
            hook.arguments = vec!["-c".to_owned(), format!("cat >/dev/null; {script}")];
            Some(Hook::new(HookAction::Program(hook)))
        };
        let specification = |name: &str, count| {
            let mut specification = ClusterSpecification::new(name.parse().unwrap(), self.zone.clone());
            specification.groups.insert("web".parse().unwrap(), NodeGroup::new(count, "DEV1-S", "ubuntu_noble"));
            let configure = shell("echo configured by the hook; echo a warning on stderr >&2");
            specification.hooks =
                HookSet { decommission: shell("echo drained"), configure, start: shell("echo started") };
            specification
        };
        let control = ClusterControl::new();
        clusters.create(specification("farm", 3), &control).await.unwrap();
        let counts = [("web".parse().unwrap(), 2)].into();
        let smaller = ScaleRequest { counts, ..ScaleRequest::default() };
        clusters.scale(&"farm".parse().unwrap(), &smaller, &control).await.unwrap();
        let mut failing = specification("broken", 2);
        failing.hooks.configure = shell("echo it cannot reach the registry >&2; exit 7");
        clusters.create(failing, &control).await.unwrap_err();
        let gone = "gone".parse().unwrap();
        clusters.create(specification("gone", 1), &control).await.unwrap();
        clusters.terminate(&gone, false, &control).await.unwrap();
    }
}
