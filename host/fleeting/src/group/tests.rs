//! The group on a simulated Scaleway, under simulated time.

pub(super) mod asking;
mod leftovers;
mod registry;
#[cfg(feature = "postgres")]
mod shared;
pub(super) mod unwritable;
mod zones;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use windlass_lifecycle::{
    AddressPool, Clock, Durability, ExtraVolume, ImageChoice, OperationFilter, OperationId, OperationKind,
    OperationState, RequestedBy, Requester, Runtime, RuntimeOptions, ServerSpecification, StateDirectory, VolumeKind,
};
use windlass_policy::slots::state_mapping::{Action, Operation, ServerState, Verdict};
use windlass_policy::slots::{Slot as _, SlotName, StateMapping};
use windlass_policy::{Asker, Brake, Compiler, DecisionFilter, Host, HostOptions, Link, Policies};
use windlass_scaleway::types::instance::{CreateIp, IpType, UpdateServer};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{FaultKind, FaultRule, Options, Simulator};

use super::entry::{Entry, Phase};
use super::fleet::Fleet;
use super::places::Place;
use super::start::adopt;
use super::{Dependencies, Instances, ScalewayGroup, StartError};
use crate::configuration::{Common, Configuration, GroupConfiguration, ZonalIds};
use crate::protocol::{ConnectorConfig, InstanceGroup as _, State};

const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

/// The folder in which all tests keep what they compile.
fn compiled() -> Dir {
    Dir::open_ambient_dir(windlass_test_guests::cache_dir().unwrap(), ambient_authority()).unwrap()
}

/// The built-in policies, compiled once for all tests.
fn policies() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    let (_, host) = HOST.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let mut options = HostOptions::new(state.handle().try_clone().unwrap());
        options.cache_dir = Some(compiled());
        (folder, Arc::new(Host::new(options).unwrap()))
    });
    Arc::clone(host)
}

fn client_of(simulator: &Simulator) -> Client {
    Client::with_transport(Settings::new(KEY.parse().unwrap()), simulator.transport()).unwrap()
}

async fn start(simulator: &Simulator, folder: &Path) -> ScalewayGroup {
    start_under(policies(), simulator, folder).await
}

/// A group whose servers carry the second of two watched tags.
async fn start_under(policies: Arc<Host>, simulator: &Simulator, folder: &Path) -> ScalewayGroup {
    try_start(policies, simulator, folder, |_| {}).await.unwrap()
}

/// The same with changes of its configuration.
async fn try_start(
    policies: Arc<Host>,
    simulator: &Simulator,
    folder: &Path,
    change: impl FnOnce(&mut Configuration),
) -> Result<ScalewayGroup, StartError> {
    let settings = Settings::new(KEY.parse().unwrap());
    let zone: windlass_scaleway::Zone = "fr-par-1".parse().unwrap();
    let group: windlass_lifecycle::GroupName = "ci".parse().unwrap();
    let dependencies = Dependencies {
        client: Client::with_transport(settings.clone(), simulator.transport()).unwrap(),
        policies,
        clock: Clock::simulated(1_790_000_000_000 + u64::try_from(simulator.now().as_millis()).unwrap()),
        durability: Durability::Process,
        seed: Some(1),
        host: Some("host-a".to_owned()),
    };
    let mut server =
        ServerSpecification::new(group.clone(), zone.clone(), "DEV1-S", ImageChoice::parse("ubuntu_noble"));
    server.tags = vec!["role=runner".to_owned()];
    let mut configuration = Configuration {
        common: Common {
            written_name: group.to_string(),
            owner: Some("team".parse().unwrap()),
            adopt: None,
            settings,
            group,
            zones: vec![zone],
            max_size: 10,
            max_leftovers: 10,
            delete_on_shutdown: false,
            state_directory: folder.to_owned(),
            shared_state: None,
            policies: Policies::default(),
            policy_folder: PathBuf::from("."),
            brake: Brake::default(),
            metrics: None,
            console: None,
        },
        server,
        watched_tags: vec!["debug".to_owned(), "role=runner".to_owned()],
        zonal: ZonalIds::default(),
        max_parallel_creates: 10,
        suspend: false,
    };
    let connector = ConnectorConfig { use_static_credentials: true, ..ConnectorConfig::default() };
    change(&mut configuration);
    let configuration = GroupConfiguration::Instances(Box::new(configuration));
    ScalewayGroup::start_on(configuration, connector, dependencies).await
}

/// What is behind a group of instances.
fn fleet(group: &ScalewayGroup) -> Arc<Fleet<Instances>> {
    let fleet: Arc<dyn Any + Send + Sync> = group.fleet.get().unwrap().clone();
    fleet.downcast().unwrap()
}

/// The states that the group tells.
async fn reported(group: &ScalewayGroup) -> Vec<State> {
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
    assert_eq!(reported(&group).await, [State::Running]);
    group.stop().await;
}

/// The last question to a slot.
fn last_of(host: &Host, slot: SlotName) -> serde_json::Value {
    host.flush_decisions();
    let log = host.decisions().unwrap();
    let mut filter = DecisionFilter::default();
    (filter.slot, filter.limit) = (Some(slot), 1);
    let last = log.list(&filter).unwrap().decisions[0].id;
    log.show(&last.to_string()).unwrap().question
}

#[tokio::test(start_paused = true)]
async fn policies_are_told_what_the_runner_did_with_an_instance() {
    let simulator = Simulator::new(Options::default());
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = StateDirectory::open(state.path()).unwrap();
    let host = Arc::new(Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap());
    let group = start_under(Arc::clone(&host), &simulator, folder.path()).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running]);
    assert_eq!(last_of(&host, SlotName::StateMapping)["servers"][0]["unused-for"], json!(null));
    let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        assert_eq!(group.heartbeat(id.clone()).await, Ok(()));
        group.connect_info(id.clone()).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    reported(&group).await;
    let unused = last_of(&host, SlotName::StateMapping)["servers"][0]["unused-for"].as_u64().unwrap();
    assert!((60_000..90_000).contains(&unused), "{unused}");
    assert_eq!(group.decrease(vec![id.clone()]).await, Ok(vec![id]));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let question = last_of(&host, SlotName::Release);
    let activity = &question["machine"]["activity"];
    assert_eq!(activity["connections"], 2, "{question}");
    assert_eq!(question["now"].as_u64().unwrap().abs_diff(activity["last-used"].as_u64().unwrap()) / 60_000, 1);
    assert_eq!(question["subject"]["requester"], "runner");
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
    assert_eq!(reported(&group).await, [State::Running]);
    group.stop().await;
    let question = last_of(&host, SlotName::StateMapping);
    assert_eq!((&question["zone"], &question["subject"]["group"]), (&json!("fr-par-1"), &json!("ci")));
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
    assert_eq!(reported(&group).await, [State::Running]);
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
    assert_eq!(reported(&group).await, [State::Running]);
    lie_once();
    assert_eq!(reported(&group).await, [State::Running]);
    simulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running]);
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
async fn what_was_removed_before_is_not_removed_once_more_at_the_next_start() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    group.decrease(vec![id]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    group.stop().await;
    drop(group);
    let group = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let mut filter = OperationFilter::default();
    filter.kind = Some(OperationKind::CleanupServer);
    assert_eq!(fleet(&group).lifecycle.journal().operations(&filter).unwrap().len(), 1);
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
    reported(&group).await;
    let mut states = Vec::new();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        states = reported(&group).await;
    }
    let running = simulator.resources().servers.iter().filter(|server| server["state"] == "running").count();
    assert_eq!(states, vec![State::Running; running], "what is told is what there is");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_the_end_of_a_creation_reaps_nothing() {
    let mut stopped = 0;
    for delay in [5, 10, 15, 20] {
        let simulator = Simulator::new(Options::default());
        let folder = tempfile::tempdir().unwrap();
        let late = FaultKind::Delay(Duration::from_secs(delay));
        simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", late)).unwrap();
        let group = start(&simulator, folder.path()).await;
        assert_eq!(group.increase(1).await, Ok(1));
        tokio::time::sleep(Duration::from_secs(4)).await;
        stopped += usize::from(simulator.resources().servers[0]["state"] == "stopped");
        // What is listed now arrives when the server runs.
        let late = FaultKind::Delay(Duration::from_secs(29));
        simulator.add_fault(FaultRule::new("GET", SERVERS, late).nth(1).after_effect()).unwrap();
        assert_eq!(reported(&group).await, [State::Creating]);
        assert_eq!(simulator.resources().servers[0]["state"], "running", "after {delay} s");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(reported(&group).await, [State::Running], "after {delay} s");
        group.stop().await;
    }
    assert!(stopped > 0);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_would_reap_every_instance_is_braked_and_all_run_on() {
    for (brake, expected) in [(Brake::default(), State::Running), (Brake { servers: 8, share: 0.0 }, State::Deleting)] {
        let simulator = Simulator::new(Options::default());
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = StateDirectory::open(state.path()).unwrap();
        let mut options = HostOptions::new(state.handle().try_clone().unwrap());
        options.cache_dir = Some(compiled());
        options.brake = brake;
        options.compiler = Some(Compiler::this_process());
        let host = Arc::new(Host::new(options).unwrap());
        let group = start_under(Arc::clone(&host), &simulator, folder.path()).await;
        assert_eq!(group.increase(8).await, Ok(8));
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(reported(&group).await, [State::Running; 8]);

        let settings = json!({ "behaviour": "delete-foreign", "during": "decide" });
        let reaping = Link::bytes(windlass_test_guests::HOSTILE.bytes).with_settings(settings);
        host.configure(&Policies::built_in().with(SlotName::StateMapping, reaping)).unwrap();
        assert_eq!(reported(&group).await, [expected; 8]);
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
async fn a_policy_for_a_slot_that_the_plugin_never_asks_is_refused() {
    let client = client_of(&Simulator::new(Options::default()));
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    for (asker, slot) in [(Asker::Instances, SlotName::Provisioning), (Asker::Macs, SlotName::Placement)] {
        let policies = Policies::built_in().with(slot, Link::default());
        let mut options = RuntimeOptions::new(client.clone(), state.clone(), asker);
        options.policies = policies;
        let refused = Runtime::build(options).err().unwrap().to_string();
        assert!(refused.contains(&format!("policies.{slot}: {asker} does not use the slot {slot}")), "{refused}");
        assert!(refused.contains("it uses state-mapping, retry"), "{refused}");
    }
}

#[tokio::test]
async fn the_configured_brake_is_that_of_the_groups_policies() {
    let simulator = Simulator::new(Options::default());
    let client = client_of(&simulator);
    let settings = json!({ "behaviour": "delete-foreign", "during": "decide" });
    let reaping = Link::bytes(windlass_test_guests::HOSTILE.bytes).with_settings(settings);
    let policies = Policies::built_in().with(SlotName::StateMapping, reaping);
    let mut question = StateMapping::example();
    question.servers = vec![question.servers[0]; 12];
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    for (brake, braked) in [(Brake::default(), 1), (Brake { servers: 12, ..Brake::default() }, 0)] {
        let mut options = RuntimeOptions::new(client.clone(), state.clone(), Asker::Instances);
        (options.policies, options.brake) = (policies.clone(), brake);
        options.lending_dir = Some(compiled());
        options.compiler = Some(Compiler::this_process());
        let decision = Runtime::build(options).unwrap().policies.pin().decide::<StateMapping>(question.clone()).await;
        assert_eq!(decision.fallbacks.len(), braked, "{brake:?}: {:?}", decision.fallbacks);
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_the_release_policy_keeps_leaves_the_group_for_good() {
    let simulator = Simulator::new(Options::default());
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rules = state.path().join("keep.rules.toml");
    std::fs::write(&rules, "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n").unwrap();
    let state = StateDirectory::open(state.path()).unwrap();
    let host = Arc::new(Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap());
    host.configure(&Policies::built_in().with(SlotName::Release, Link::file(rules))).unwrap();
    let group = start_under(host, &simulator, folder.path()).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running]);
    let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
    assert_eq!(group.decrease(vec![id.clone()]).await, Ok(vec![id.clone()]));
    tokio::time::sleep(Duration::from_secs(60)).await;
    reported(&group).await;
    assert_eq!(reported(&group).await, []);
    assert_eq!(simulator.resources().servers.len(), 1);
    group.stop().await;
    drop(group);
    // The next process has another policy, and sweeps.
    let next = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(7_200)).await;
    assert_eq!(reported(&next).await, []);
    assert_eq!(simulator.resources().servers[0]["state"], "running");
    next.stop().await;
}

const SERVERS: &str = "/instance/v1/zones/*/servers";

/// A group with one instance that runs, and its id.
async fn running_one(simulator: &Simulator, folder: &Path) -> (ScalewayGroup, String) {
    let group = start(simulator, folder).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running]);
    let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
    (group, id)
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_server_a_user_takes_over_is_gone_and_its_server_stays() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    let server = simulator.resources().servers[0]["id"].as_str().unwrap().to_owned();
    let taken = UpdateServer { tags: Some(vec!["role=web".to_owned()]), ..UpdateServer::default() };
    #[allow(clippy::disallowed_methods, reason = "a user changes it")]
    client_of(&simulator).instance(&"fr-par-1".parse().unwrap()).update_server(&server, &taken).await.unwrap();
    reported(&group).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let states = reported(&group).await;
    assert!(states.iter().all(|state| *state == State::Deleted), "{id}: {states:?}");
    group.stop().await;
    drop(group);
    let group = start(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(reported(&group).await, []);
    let resources = simulator.resources();
    assert_eq!((resources.servers.len(), resources.volumes.len()), (1, 1));
    assert_eq!(resources.servers[0]["state"], "running");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn heartbeats_outlive_an_outage_of_a_quarter_of_an_hour_and_many_are_one_look() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    simulator.add_fault(FaultRule::new("GET", "/**", FaultKind::InternalServerError)).unwrap();
    simulator.clear_requests();
    for _ in 0..15 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(group.update().await.is_err(), "nothing can be said about the group");
        for _ in 0..12 {
            assert_eq!(group.heartbeat(id.clone()).await, Ok(()));
        }
    }
    let listings = simulator.requests().iter().filter(|call| call.path.ends_with("/servers")).count();
    assert_eq!(listings, 15, "one for each update");
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    assert!(group.heartbeat(id.clone()).await.is_err(), "in the end nothing is known any more");
    simulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(group.heartbeat(id).await, Ok(()));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_wait_for_a_look_that_hangs() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    simulator.add_fault(FaultRule::new("GET", SERVERS, FaultKind::Delay(Duration::from_secs(25)))).unwrap();
    let began = tokio::time::Instant::now();
    let all = futures::future::join_all((0..12).map(|_| group.heartbeat(id.clone()))).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "simulated: {:?}", began.elapsed());
    group.stop().await;
}

/// Polls a call a few times and drops it, as a host does that gives it up.
async fn given_up<T>(call: impl Future<Output = T>, polls: usize) -> bool {
    let mut call = Box::pin(call);
    for _ in 0..polls {
        if futures::poll!(&mut call).is_ready() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn updates_and_heartbeats_can_be_given_up_at_any_await_and_what_they_began_is_ended() {
    for heartbeat in [false, true] {
        for polls in [1, 2, 3, 4, 6, 9, 14, 20, 40] {
            let simulator = Simulator::new(Options::default());
            let folder = tempfile::tempdir().unwrap();
            let (group, id) = running_one(&simulator, folder.path()).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            let server = simulator.resources().servers[0]["id"].as_str().unwrap().to_owned();
            simulator.set_server_state(&server, windlass_simulator::ForcedState::Stopped).unwrap();
            let ready = if heartbeat {
                given_up(group.heartbeat(id), polls).await
            } else {
                given_up(group.update(), polls).await
            };
            for _ in 0..4 {
                reported(&group).await;
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            assert_eq!(reported(&group).await, [], "given up after {polls} polls");
            assert_eq!(simulator.resources().servers.len(), 0, "given up after {polls} polls");
            group.stop().await;
            if ready {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_another_process_ended_is_not_told_as_deleting_for_ever() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    group.decrease(vec![id.clone()]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Deleted]);
    // As after a start beside a program that has taken the removal up, and ends it without a word to us.
    let fleet = fleet(&group);
    let mut filter = OperationFilter::default();
    filter.kind = Some(OperationKind::CleanupServer);
    let removal = fleet.lifecycle.journal().operations(&filter).unwrap().remove(0);
    assert_eq!(removal.state, OperationState::Done);
    let phase = Phase::Removing { by: Some(removal.id) };
    let place = Place { zone: "fr-par-1".parse().unwrap(), server_type: "DEV1-S".to_owned() };
    fleet.book.lock().insert(Entry::found(OperationId::parse(&id).unwrap(), place, phase));
    assert_eq!(reported(&group).await, []);
    assert_eq!(fleet.book.lock().occupied(), 0, "its room is free");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_another_owners_process_left_open_is_nobodys_here_and_told_as_nothing() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    let slow = FaultKind::Delay(Duration::from_secs(20));
    simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", slow)).unwrap();
    group.decrease(vec![id]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    group.stop().await;
    drop(group);
    simulator.clear_faults();
    let other = |configuration: &mut Configuration| configuration.common.owner = Some("others".parse().unwrap());
    let group = try_start(policies(), &simulator, folder.path(), other).await.unwrap();
    for _ in 0..3 {
        assert_eq!(reported(&group).await, []);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taken_up_creation_that_the_runner_wants_no_more_is_finished_by_no_later_start() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let delay = FaultKind::Delay(Duration::from_secs(25));
    simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", delay)).unwrap();
    let group = start(&simulator, folder.path()).await;
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(10)).await;
    group.stop().await;
    drop(group);
    simulator.clear_faults();
    let group = start(&simulator, folder.path()).await;
    assert_eq!(reported(&group).await, [State::Creating]);
    let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
    assert_eq!(group.decrease(vec![id.clone()]).await.unwrap(), [id]);
    group.stop().await;
    drop(group);
    let group = start(&simulator, folder.path()).await;
    for _ in 0..10 {
        assert!(!reported(&group).await.contains(&State::Running), "it was called off");
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert_eq!(reported(&group).await, []);
    assert_eq!(simulator.resources().servers.len(), 0);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_journal_says_who_ended_a_creation() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let everything = |configuration: &mut Configuration| configuration.common.delete_on_shutdown = true;
    let group = try_start(policies(), &simulator, folder.path(), everything).await.unwrap();
    let fleet = fleet(&group);
    let notes = |id: &OperationId| -> String {
        let entries = fleet.lifecycle.journal().entries(id).unwrap();
        entries.iter().filter(|entry| entry.step == "cancelled").map(|entry| entry.data.to_string()).collect()
    };
    let decision = "019b2f3c4d5e-9f8a7b6c-0000002a";
    let policy = RequestedBy::new(Requester::Policy, "it is late").decided(decision.parse().unwrap());
    let delay = FaultKind::Delay(Duration::from_secs(25));
    simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", delay)).unwrap();
    assert_eq!(group.increase(2).await, Ok(2));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let ids: Vec<String> = fleet.book.lock().iter().map(|(id, _)| id.clone()).collect();
    assert!(fleet.end_creation(&ids[0], &policy).await.unwrap());
    assert!(!fleet.end_creation(&ids[0], &policy).await.unwrap(), "asked once is enough");
    simulator.clear_faults();
    group.shutdown().await.unwrap();
    let of = |id: &str| notes(&OperationId::parse(id).unwrap());
    assert!(of(&ids[0]).contains("a state-mapping policy") && of(&ids[0]).contains(decision), "{}", of(&ids[0]));
    assert!(of(&ids[1]).contains("the shutdown of the runner plugin"), "{}", of(&ids[1]));
    assert_eq!(simulator.resources().servers.len(), 0);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_the_removals_that_are_in_flight() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, id) = running_one(&simulator, folder.path()).await;
    group.decrease(vec![id]).await.unwrap();
    group.shutdown().await.unwrap();
    group.leave(Duration::ZERO).await;
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.ips.len(), left.volumes.len()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_failures_is_one_pause_of_ten_seconds() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let group = start(&simulator, folder.path()).await;
    simulator.add_fault(FaultRule::new("POST", SERVERS, FaultKind::OutOfStock)).unwrap();
    assert_eq!(group.increase(8).await, Ok(8));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(group.increase(1).await, Ok(0), "it pauses");
    simulator.clear_faults();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(group.increase(1).await, Ok(1), "and not for a quarter of an hour");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn servers_of_a_lost_state_directory_are_noticed_and_taken_over_only_on_purpose() {
    for owner in [Some("team"), None] {
        let simulator = Simulator::new(Options::default());
        let (lost, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let with = |adopt: Option<bool>| {
            move |configuration: &mut Configuration| {
                configuration.common.owner = owner.map(|owner| owner.parse().unwrap());
                configuration.common.adopt = adopt;
            }
        };
        let group = try_start(policies(), &simulator, lost.path(), with(None)).await.unwrap();
        assert_eq!(group.increase(1).await, Ok(1));
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(reported(&group).await, [State::Running]);
        let id = simulator.resources().servers[0]["name"].as_str().unwrap().to_owned();
        group.stop().await;

        let refused = try_start(policies(), &simulator, fresh.path(), with(None)).await.err().unwrap().to_string();
        assert!(refused.contains(&id) && refused.contains("made on host-a"), "{refused}");
        let group = try_start(policies(), &simulator, fresh.path(), with(Some(true))).await.unwrap();
        assert_eq!(reported(&group).await, [State::Running]);
        group.stop().await;
        drop(group);
        // What was taken over stays so, also when it is no longer asked for.
        let group = try_start(policies(), &simulator, fresh.path(), with(None)).await.unwrap();
        assert_eq!(reported(&group).await, [State::Running]);
        group.decrease(vec![id]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        let left = simulator.resources();
        assert_eq!((left.servers.len(), left.ips.len(), left.volumes.len()), (0, 0, 0), "{owner:?}");
        group.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn servers_that_a_command_took_over_are_shown_by_the_next_start_without_a_key() {
    for owner in [Some("team"), None] {
        let simulator = Simulator::new(Options::default());
        let (lost, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let with_owner =
            |configuration: &mut Configuration| configuration.common.owner = owner.map(|owner| owner.parse().unwrap());
        let group = try_start(policies(), &simulator, lost.path(), with_owner).await.unwrap();
        assert_eq!(group.increase(2).await, Ok(2));
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(reported(&group).await, [State::Running; 2]);
        let known = fleet(&group);
        let (mut configuration, client) = (known.configuration.clone(), known.client.clone());
        configuration.common.adopt = Some(true);
        let beside = adopt::<Instances>(&configuration, client.clone(), policies());
        assert!(matches!(beside.await, Err(StartError::Locked { .. })), "the plugin works on the group");
        group.stop().await;
        drop(group);

        configuration.common.state_directory = fresh.path().to_owned();
        let mut taken = adopt::<Instances>(&configuration, client.clone(), policies()).await.unwrap();
        let resources = simulator.resources();
        let mut ids: Vec<&str> = resources.servers.iter().map(|server| server["name"].as_str().unwrap()).collect();
        taken.sort();
        ids.sort_unstable();
        // Where they are of another owner, this state directory has become his, and knows each from the next look on.
        assert_eq!(taken, ids, "{owner:?}");
        assert!(adopt::<Instances>(&configuration, client, policies()).await.unwrap().is_empty());
        let group = try_start(policies(), &simulator, fresh.path(), with_owner).await.unwrap();
        assert_eq!(reported(&group).await, [State::Running; 2], "{owner:?}");
        group.stop().await;
    }
}

/// What a restored backup, or a volume that was rolled back, makes of a folder's journal.
fn write_back(folder: &Path, journal: &[u8], in_place: bool) {
    let file = folder.join("journal.sqlite");
    if !in_place {
        std::fs::remove_file(&file).unwrap();
    }
    std::fs::write(&file, journal).unwrap();
    for beside in ["journal.sqlite-wal", "journal.sqlite-shm"] {
        let _ = std::fs::remove_file(folder.join(beside));
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_directory_that_was_restored_or_set_back_shows_nothing_and_removes_nothing() {
    for in_place in [false, true] {
        let (simulator, folder) = (Simulator::new(Options::default()), tempfile::tempdir().unwrap());
        run_one_and_end(&simulator, folder.path()).await;
        let state = folder.path().join("fleeting/ci");
        let earlier = std::fs::read(state.join("journal.sqlite")).unwrap();
        let group = start(&simulator, folder.path()).await;
        assert_eq!(group.increase(1).await, Ok(1));
        tokio::time::sleep(Duration::from_secs(120)).await;
        group.stop().await;
        drop(group);
        let before = simulator.resources().servers.len();
        write_back(&state, &earlier, in_place);
        let refused = try_start(policies(), &simulator, folder.path(), |_| {}).await.err().unwrap().to_string();
        assert!(refused.contains("windlass state take-over --state-dir"), "{refused}");
        assert_eq!((before, simulator.resources().servers.len()), (2, 2), "in place: {in_place}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_hosts_with_one_name_and_owner_leave_each_others_servers_alone() {
    let simulator = Simulator::new(Options::default());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = start(&simulator, here.path()).await;
    let second = start(&simulator, there.path()).await;
    assert_eq!(first.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&first).await, [State::Running]);
    assert_eq!(reported(&second).await, [], "it is not the second's to remove");
    assert_eq!(second.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
    assert_eq!((reported(&first).await, reported(&second).await), (vec![State::Running], vec![State::Running]));
    assert_eq!(simulator.resources().servers.len(), 2, "and no sweep takes it for lost");
    assert_eq!((simulator.resources().ips.len(), simulator.resources().volumes.len()), (2, 2));
    second.stop().await;
    drop(second);
    // At its next start the second says that it is not alone, unless it is told to live with it.
    let refused = try_start(policies(), &simulator, there.path(), |_| {}).await.err().unwrap();
    assert!(matches!(refused, StartError::Strangers { .. }), "{refused}");
    let told_so = |configuration: &mut Configuration| configuration.common.adopt = Some(false);
    let second = try_start(policies(), &simulator, there.path(), told_so).await.unwrap();
    assert_eq!(reported(&second).await, [State::Running]);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn the_deadline_that_follows_from_create_timeout_is_the_policys() {
    let simulator = Simulator::new(Options::default());
    let client = client_of(&simulator);
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let mut question = StateMapping::example();
    let mut server = question.servers[0];
    server.state = ServerState::Starting;
    server.in_flight = Operation::Create;
    (server.has_run, server.age) = (false, 20 * 60_000);
    question.servers = vec![server];
    let longer = Policies::built_in().with_default_setting(SlotName::StateMapping, "deadline-ms", json!(45 * 60_000));
    for (policies, reaped) in [(Policies::built_in(), true), (longer, false)] {
        let mut options = RuntimeOptions::new(client.clone(), state.clone(), Asker::Instances);
        (options.policies, options.lending_dir) = (policies, Some(compiled()));
        let decision = Runtime::build(options).unwrap().policies.pin().decide::<StateMapping>(question.clone()).await;
        let Verdict::Mapped(mapping) = &decision.answer[0].verdict else { panic!("the default never defers") };
        assert_eq!(mapping.action == Action::Reap, reaped);
    }
}

const POOL: &str = "ci-egress";

/// Reserves addresses with the pool's tag.
async fn reserve(simulator: &Simulator, count: usize) -> Vec<String> {
    let client = client_of(simulator);
    let mut ids = Vec::new();
    for _ in 0..count {
        let request = CreateIp { tags: vec![POOL.to_owned()], ..CreateIp::default() };
        ids.push(client.instance(&"fr-par-1".parse().unwrap()).create_ip(&request).await.unwrap().id);
    }
    ids
}

fn with_pool(configuration: &mut Configuration) {
    configuration.server.addresses.clear();
    configuration.server.address_pool = Some(AddressPool::Tag(POOL.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn instances_hand_the_addresses_of_a_pool_round_and_leave_them_behind() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let pool = reserve(&simulator, 2).await;
    let group = try_start(policies(), &simulator, folder.path(), with_pool).await.unwrap();
    assert_eq!(group.increase(3).await, Ok(3));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(group.increase(1).await, Ok(0), "the third found no address, so there is a pause");
    tokio::time::sleep(Duration::from_secs(120)).await;
    let states = reported(&group).await;
    assert_eq!(states.iter().filter(|state| **state == State::Running).count(), 2, "{states:?}");
    assert_eq!(reported(&group).await, [State::Running; 2]);
    let serving = || -> Vec<String> {
        let ips = simulator.resources().ips;
        ips.iter().filter_map(|ip| ip["server"]["name"].as_str().map(str::to_owned)).collect()
    };
    let mut first = serving();
    first.sort();
    first.dedup();
    assert_eq!((first.len(), simulator.resources().ips.len()), (2, 2), "each has one, and no other was made");
    let info = group.connect_info(first[0].clone()).await.unwrap();
    let of_pool = simulator.resources().ips.iter().any(|ip| ip["address"] == info.external_address.as_str());
    assert!(of_pool, "{}", info.external_address);
    // A process that takes over hands on what the first one leaves.
    group.stop().await;
    drop(group);
    let group = try_start(policies(), &simulator, folder.path(), with_pool).await.unwrap();
    assert_eq!(reported(&group).await, [State::Running; 2]);
    group.decrease(vec![first[0].clone()]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    reported(&group).await;
    assert_eq!(serving(), [first[1].as_str()]);
    assert_eq!(group.increase(1).await, Ok(1));
    // Through the rounds of the supervisor, sweeps among them.
    tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
    assert_eq!(reported(&group).await, [State::Running; 2]);
    assert_eq!(serving().len(), 2);
    let all: Vec<String> = simulator.resources().servers.iter().map(|it| it["name"].as_str().unwrap().into()).collect();
    group.decrease(all).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.volumes.len()), (0, 0));
    let mut ids: Vec<&str> = left.ips.iter().map(|ip| ip["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    let mut pool: Vec<&str> = pool.iter().map(String::as_str).collect();
    pool.sort_unstable();
    assert_eq!(ids, pool, "the pool is whole");
    assert!(left.ips.iter().all(|ip| ip["server"].is_null() && ip["tags"] == json!([POOL])));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_what_is_not_there_or_not_free_for_all_is_refused_at_init() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let ids = reserve(&simulator, 2).await;
    let resources = simulator.resources();
    let address = |place: usize| resources.ips[place]["address"].as_str().unwrap().to_owned();
    let client = client_of(&simulator);
    let instance = client.instance(&"fr-par-1".parse().unwrap());
    let other = CreateIp { tags: vec!["windlass-owner=a".into(), "mine".into()], ..CreateIp::default() };
    let owned = instance.create_ip(&other).await.unwrap().id;
    let six = CreateIp { ip_type: Some(IpType::RoutedIpv6), tags: vec!["six".into()], ..CreateIp::default() };
    let six = instance.create_ip(&six).await.unwrap().id;
    let start = |pool: AddressPool| {
        let change = move |configuration: &mut Configuration| configuration.server.address_pool = Some(pool);
        try_start(policies(), &simulator, folder.path(), change)
    };
    let tag = |tag: &str| AddressPool::Tag(tag.to_owned());
    let of = |ips: &[&str]| AddressPool::Ips(ips.iter().map(|ip| (*ip).to_owned()).collect());
    let twice = [address(0), resources.ips[0]["id"].as_str().unwrap().to_owned()];
    for (pool, words) in [
        (of(&["192.0.2.1"]), "reserved_ips: there is no address 192.0.2.1 in fr-par-1"),
        (of(&[&six]), "is no IPv4 address"),
        (of(&[&ids[0], &owned]), "was made for a server and goes with it"),
        (of(&[&twice[0], &twice[1]]), "are the same address"),
        (tag("nobodys"), "reserved_ip_tag: no IPv4 address in fr-par-1"),
        (tag("mine"), "reserved_ip_tag: no IPv4 address in fr-par-1"),
        (tag("six"), "reserved_ip_tag: no IPv4 address in fr-par-1"),
    ] {
        let refused = start(pool).await.err().unwrap_or_else(|| panic!("accepted, not {words}")).to_string();
        assert!(refused.contains(words), "{words}: {refused}");
    }
    for pool in [of(&[&address(0), &address(1)]), of(&[&ids[0]]), tag(POOL)] {
        // A list that leaves them out proves nothing of those that are named.
        if matches!(pool, AddressPool::Ips(_)) {
            let left_out = FaultRule::new("GET", "/instance/v1/zones/*/ips", FaultKind::Omit(2));
            simulator.add_fault(left_out).unwrap();
        }
        start(pool).await.unwrap().stop().await;
        simulator.clear_faults();
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_of_ones_own_is_looked_for_at_init_and_is_that_of_each_new_instance() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let by = |image: ImageChoice, types: &'static [&'static str]| {
        move |configuration: &mut Configuration| {
            configuration.server.image = image;
            configuration.server.types = types.iter().map(|name| (*name).to_owned()).collect();
        }
    };
    let name = || ImageChoice::Name("ci-image".to_owned());
    for image in [name(), ImageChoice::Tag("ci".to_owned())] {
        let refused = try_start(policies(), &simulator, folder.path(), by(image, &["DEV1-S"])).await.err().unwrap();
        let refused = refused.to_string();
        assert!(refused.contains("no available image") && refused.contains("for x86_64 in fr-par-1"), "{refused}");
    }
    let (group, _) = running_one(&simulator, folder.path()).await;
    let server = simulator.resources().servers[0]["id"].as_str().unwrap().to_owned();
    let client = client_of(&simulator);
    let place = format!("/instance/v1/zones/fr-par-1/servers/{server}/action");
    let body = r#"{"action":"backup","name":"ci-image"}"#;
    let answer = client.send_raw("POST", &place, Some(body.into())).await.unwrap();
    let task: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let image = task["task"]["href_result"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    group.stop().await;
    drop(group);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let arm = try_start(policies(), &simulator, folder.path(), by(name(), &["COPARM1-2C-8G"])).await.err().unwrap();
    assert!(arm.to_string().contains("arm64"), "{arm}");
    let group = try_start(policies(), &simulator, folder.path(), by(name(), &["DEV1-S"])).await.unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    let of_image = simulator.resources().servers.iter().filter(|it| it["image"]["id"] == image.as_str()).count();
    assert_eq!(of_image, 1);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn extra_volumes_are_there_when_an_instance_runs_and_go_with_it() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let volumes = |configuration: &mut Configuration| {
        let new = |kind, size| ExtraVolume::New { kind, size, operations_per_second: None };
        configuration.server.volumes =
            vec![new(VolumeKind::Block, 50_000_000_000), new(VolumeKind::Local, 10_000_000_000)];
    };
    let group = try_start(policies(), &simulator, folder.path(), volumes).await.unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running]);
    let there = simulator.resources();
    let sizes: Vec<u64> = there.volumes.iter().filter_map(|volume| volume["size"].as_u64()).collect();
    assert!(sizes.contains(&50_000_000_000) && sizes.contains(&10_000_000_000), "{sizes:?}");
    assert_eq!(sizes.len(), 3);
    group.decrease(vec![there.servers[0]["name"].as_str().unwrap().to_owned()]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(300)).await;
    reported(&group).await;
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.volumes.len(), left.ips.len()), (0, 0, 0), "{left:?}");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_reach_their_instances_while_scaleway_cannot_be_asked() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let group = start(&simulator, folder.path()).await;
    group.increase(3).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    reported(&group).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    let servers = simulator.resources().servers;
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let ids: Vec<String> = servers.iter().map(|server| text(&server["name"])).collect();
    let mut before = Vec::new();
    // The last one was never asked for: it is known from the listing alone.
    for id in &ids[..2] {
        before.push(group.connect_info(id.clone()).await.unwrap().external_address);
    }
    before.push(text(&servers[2]["public_ips"][0]["address"]));
    for fault in [FaultKind::InternalServerError, FaultKind::Delay(Duration::from_secs(600))] {
        simulator.add_fault(FaultRule::new("GET", "/**", fault)).unwrap();
        for _ in 0..9 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            for (id, address) in ids.iter().zip(&before) {
                let info = group.connect_info(id.clone()).await.unwrap();
                assert_eq!((&info.external_address, &info.internal_address), (address, address));
            }
        }
        simulator.clear_faults();
        reported(&group).await;
    }
    // One that is gone is not told as it was, and after twenty minutes nothing is known any more.
    let gone = FaultRule::new("GET", "/instance/v1/zones/*/servers/*", FaultKind::NotFound);
    simulator.add_fault(gone).unwrap();
    assert!(group.connect_info(ids[0].clone()).await.is_err());
    simulator.clear_faults();
    simulator.add_fault(FaultRule::new("GET", "/**", FaultKind::InternalServerError)).unwrap();
    tokio::time::sleep(Duration::from_secs(21 * 60)).await;
    assert!(group.connect_info(ids[0].clone()).await.is_err());
    group.stop().await;
}
