//! The group on a simulated Scaleway, under simulated time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use windlass_lifecycle::{Clock, Durability, ImageChoice, ServerSpecification, StateDirectory};
use windlass_policy::slots::{Slot as _, SlotName, StateMapping};
use windlass_policy::{Brake, DecisionFilter, Host, HostOptions, Link, Policies};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{FaultKind, FaultRule, Options, Simulator};

use super::{Ground, ScalewayGroup};
use crate::configuration::Configuration;
use crate::protocol::{ConnectorConfig, InstanceGroup as _, State};

const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

/// The built-in policies, compiled once for all tests.
fn policies() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let host = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
        (folder, Arc::new(host))
    });
    Arc::clone(host)
}

async fn start(simulator: &Simulator, folder: &Path) -> ScalewayGroup {
    start_under(policies(), simulator, folder).await
}

/// A group whose servers carry the second of two watched tags.
async fn start_under(policies: Arc<Host>, simulator: &Simulator, folder: &Path) -> ScalewayGroup {
    let settings = Settings::new(KEY.parse().unwrap());
    let zone: windlass_scaleway::Zone = "fr-par-1".parse().unwrap();
    let group: windlass_lifecycle::GroupName = "ci".parse().unwrap();
    let ground = Ground {
        client: Client::with_transport(settings.clone(), simulator.transport()).unwrap(),
        policies,
        clock: Clock::simulated(1_790_000_000_000 + u64::try_from(simulator.now().as_millis()).unwrap()),
        durability: Durability::Process,
        seed: Some(1),
    };
    let mut server =
        ServerSpecification::new(group.clone(), zone.clone(), "DEV1-S", ImageChoice::parse("ubuntu_noble"));
    server.tags = vec!["role=runner".to_owned()];
    let configuration = Configuration {
        written_name: group.to_string(),
        owner: Some("team".parse().unwrap()),
        settings,
        server,
        watched_tags: vec!["debug".to_owned(), "role=runner".to_owned()],
        group,
        zone,
        max_size: 10,
        max_parallel_creates: 10,
        suspend: false,
        delete_on_shutdown: false,
        state_directory: folder.to_owned(),
        policies: Policies::default(),
        policy_folder: PathBuf::from("."),
        brake: Brake::default(),
        metrics: None,
    };
    let connector = ConnectorConfig { use_static_credentials: true, ..ConnectorConfig::default() };
    ScalewayGroup::start_on(configuration, connector, ground).await.unwrap()
}

/// The states that the group tells.
async fn told(group: &ScalewayGroup) -> Vec<State> {
    let update = group.update().await.unwrap();
    if let Some(delivered) = update.delivered {
        delivered();
    }
    update.reports.into_iter().map(|report| report.state).collect()
}

/// A group that runs one instance, and ends as a process does that leaves it running.
async fn run_one_and_end(simulator: &Simulator, folder: &Path) {
    let group = start(simulator, folder).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(told(&group).await, [State::Running]);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_is_told_place_group_types_and_watched_tags_once_and_each_server_refers_to_them() {
    let simulator = Simulator::new(Options::default());
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = StateDirectory::open(state.path()).unwrap();
    let host = Arc::new(Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap());
    let group = start_under(Arc::clone(&host), &simulator, folder.path()).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(told(&group).await, [State::Running]);
    group.stop().await;
    host.flush_decisions();
    let log = host.decisions().unwrap();
    let mut filter = DecisionFilter::default();
    filter.slot = Some(SlotName::StateMapping);
    filter.limit = 1;
    let last = log.list(&filter).unwrap().decisions[0].id;
    let question = log.show(&last.to_string()).unwrap().question;
    assert_eq!((&question["zone"], &question["group"]), (&json!("fr-par-1"), &json!("ci")));
    assert_eq!(question["server-types"], json!(["DEV1-S"]));
    assert_eq!(question["watched-tags"], json!(["debug", "role=runner"]));
    let server = &question["servers"][0];
    assert_eq!((&server["server-type"], &server["watched-tags"]), (&json!(0), &json!(0b10)));
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_the_list_at_the_start_leaves_out_is_not_taken_for_gone() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    run_one_and_end(&simulator, folder.path()).await;
    let left_out = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::Omit(1));
    simulator.add_fault(left_out).unwrap();
    let group = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    simulator.clear_faults();
    assert_eq!(told(&group).await, [State::Running]);
    assert_eq!(simulator.resources().servers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_wrong_not_found_costs_no_running_instance_also_at_the_start() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    run_one_and_end(&simulator, folder.path()).await;
    let lie_once = || {
        let left_out = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::Omit(1));
        simulator.add_fault(left_out).unwrap();
        let not_found = FaultRule::new("GET", "/instance/v1/zones/*/servers/*", FaultKind::NotFound);
        simulator.add_fault(FaultRule { nth: Some(1), ..not_found }).unwrap();
    };
    lie_once();
    let group = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    simulator.clear_faults();
    assert_eq!(told(&group).await, [State::Running]);
    lie_once();
    assert_eq!(told(&group).await, [State::Running]);
    simulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(told(&group).await, [State::Running]);
    assert_eq!(simulator.resources().servers.len(), 1);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_an_instance_that_vanished_while_nobody_looked_is_removed_at_the_start() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    run_one_and_end(&simulator, folder.path()).await;
    let server = simulator.resources().servers[0]["id"].as_str().unwrap().to_owned();
    simulator.set_server_state(&server, windlass_simulator::ForcedState::Deleted).unwrap();
    let volumes = simulator.resources().volumes.len();
    assert_eq!(volumes, 1, "its boot volume outlives it");
    let group = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(simulator.resources().volumes.len(), 0);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taken_up_creation_that_is_to_be_reaped_and_ends_well_is_removed_and_not_told_as_deleting_for_ever() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let delay = FaultKind::Delay(Duration::from_secs(30));
    simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", delay)).unwrap();
    let group = start(&simulator, folder.path()).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(simulator.resources().servers[0]["state"], "stopped");
    group.stop().await;
    drop(group);
    // Longer than a server may take to be powered on: the next process judges it while it takes it up.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let group = start(&simulator, folder.path()).await;
    told(&group).await;
    let mut states = Vec::new();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        states = told(&group).await;
    }
    let running = simulator.resources().servers.iter().filter(|server| server["state"] == "running").count();
    assert_eq!(states, vec![State::Running; running], "what is told is what there is");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_would_reap_every_instance_is_braked_and_all_run_on() {
    for (brake, expected) in [(Brake::default(), State::Running), (Brake { servers: 8, share: 0.0 }, State::Deleting)] {
        let simulator = Simulator::new(Options::default());
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = StateDirectory::open(state.path()).unwrap();
        let mut options = HostOptions::new(state.handle().try_clone().unwrap());
        options.brake = brake;
        let host = Arc::new(Host::new(options).unwrap());
        let group = start_under(Arc::clone(&host), &simulator, folder.path()).await;
        assert_eq!(group.increase(8).await, Ok(8));
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(told(&group).await, [State::Running; 8]);

        let settings = json!({ "behaviour": "delete-foreign", "during": "decide" });
        let reaping = Link::bytes(windlass_test_guests::HOSTILE.bytes).with_settings(settings);
        host.configure(&Policies::built_in().with(SlotName::StateMapping, reaping)).unwrap();
        assert_eq!(told(&group).await, [expected; 8]);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let running = if expected == State::Running { 8 } else { 0 };
        assert_eq!(simulator.resources().servers.len(), running);
        let mut failed = DecisionFilter::default();
        failed.only_fallbacks = true;
        let braked = host.decisions().unwrap().list(&failed).unwrap().decisions.len();
        assert_eq!(braked, usize::from(expected == State::Running));
        group.stop().await;
    }
}

#[tokio::test]
async fn the_configured_brake_is_that_of_the_groups_policies() {
    let simulator = Simulator::new(Options::default());
    let client = Client::with_transport(Settings::new(KEY.parse().unwrap()), simulator.transport()).unwrap();
    let settings = json!({ "behaviour": "delete-foreign", "during": "decide" });
    let reaping = Link::bytes(windlass_test_guests::HOSTILE.bytes).with_settings(settings);
    let policies = Policies::built_in().with(SlotName::StateMapping, reaping);
    let mut question = StateMapping::example();
    question.servers = vec![question.servers[0]; 12];
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    for (brake, braked) in [(Brake::default(), 1), (Brake { servers: 12, ..Brake::default() }, 0)] {
        let host = super::start::policy_host(&policies, Path::new("."), brake, &client, &state, None).unwrap();
        let decision = host.pin().decide::<StateMapping>(question.clone(), |_, _| Ok(())).await;
        assert_eq!(decision.fallbacks.len(), braked, "{brake:?}: {:?}", decision.fallbacks);
    }
}
