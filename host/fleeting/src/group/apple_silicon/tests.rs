//! A group of Macs against the simulator, in process and under paused time.

mod asking;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_lifecycle::{Clock, Durability, OperationFilter, StateDirectory};
use windlass_policy::{Host, HostOptions, Policies};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{
    AppleSilicon, AppleSiliconPool, Effect, FaultKind, FaultRule, FloorRefusal, ForcedState, Options, Resources,
    Simulator,
};

use super::Macs;
use crate::configuration::{GroupConfiguration, ProcessEnvironment};
use crate::group::error::StartError;
use crate::group::fleet::{Calls as _, Fleet};
use crate::group::start::{Dependencies, start_on};
use crate::group::tests::unwritable::FullDisk;
use crate::protocol::{ConnectorConfig, State};

type Hosts = Fleet<Macs>;

const SECRET: &str = "11111111-2222-4333-8444-555555555555";
const SYSTEM: &str = "macos-sequoia-15.6";
/// When the simulator starts: 2026-08-01T00:00:00Z, in milliseconds since 1970.
const EPOCH: u64 = 1_785_542_400_000;

/// Runs a case on one thread under paused time.
fn paused<T>(case: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(case)
}

/// The built-in policies, compiled once for all tests.
fn policies() -> Arc<Host> {
    static POLICIES: LazyLock<(Arc<Host>, tempfile::TempDir)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let directory = StateDirectory::open(folder.path()).unwrap().handle().try_clone().unwrap();
        let host = Host::new(HostOptions::new(directory)).unwrap();
        host.configure(&Policies::built_in()).unwrap();
        (Arc::new(host), folder)
    });
    Arc::clone(&POLICIES.0)
}

struct World {
    simulator: Simulator,
    state: tempfile::TempDir,
    seed: Option<u64>,
}

impl World {
    /// A Scaleway in which these pools stand.
    fn with(pools: &[&str], options: Options) -> Self {
        let pools: Vec<AppleSiliconPool> = pools.iter().map(|pool| pool.parse().unwrap()).collect();
        let apple_silicon = AppleSilicon { pools, ..options.apple_silicon.clone() };
        let simulator = Simulator::new(Options { apple_silicon, ..options });
        Self { simulator, state: tempfile::tempdir().unwrap(), seed: None }
    }

    fn of_three() -> Self {
        Self::with(&["prefix=pool-,count=3,type=M4-S"], Options::default())
    }

    fn configuration(&self, changes: &Value) -> Value {
        let mut all = json!({
            "kind": "apple-silicon", "name": "macs", "secret_key": SECRET, "zone": "fr-par-1", "server_type": "M4-S",
            "pool_prefix": "pool-", "state_dir": self.state.path(),
        });
        for (key, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(all.as_object_mut().unwrap().remove(key)),
                value => all[key] = value.clone(),
            }
        }
        all
    }

    async fn try_start(&self, changes: Value) -> Result<Arc<Hosts>, StartError> {
        self.try_start_with(changes, ConnectorConfig::default()).await
    }

    async fn try_start_with(&self, changes: Value, connector: ConnectorConfig) -> Result<Arc<Hosts>, StartError> {
        let text = self.configuration(&changes).to_string();
        let home = Path::new("/nowhere").to_str().unwrap();
        let process_environment = [("HOME", home)].into_iter().collect::<ProcessEnvironment>();
        let GroupConfiguration::AppleSilicon(configuration) =
            GroupConfiguration::read(text.as_bytes(), &process_environment).unwrap()
        else {
            panic!("a group of Macs")
        };
        let settings = Settings::new(SECRET.parse().unwrap());
        let client = Client::with_transport(settings, self.simulator.transport()).unwrap();
        let clock = Clock::simulated(EPOCH + u64::try_from(self.simulator.now().as_millis()).unwrap());
        let (policies, durability) = (policies(), Durability::Process);
        let dependencies = Dependencies { client, policies, clock, durability, seed: self.seed, host: None };
        start_on(*configuration, connector, dependencies).await
    }

    async fn start(&self, changes: Value) -> Arc<Hosts> {
        self.try_start(changes).await.unwrap()
    }

    fn resources(&self) -> Resources {
        self.simulator.resources()
    }

    fn hosts(&self) -> Vec<Value> {
        self.resources().apple_silicon_servers
    }

    fn host(&self, name: &str) -> Value {
        let found = self.hosts().into_iter().find(|host| host["name"] == name);
        found.unwrap_or_else(|| panic!("no host is called {name}"))
    }

    fn in_pool(&self) -> usize {
        self.hosts().iter().filter(|host| host["name"].as_str().unwrap().starts_with("pool-")).count()
    }

    /// Each host is in the pool or called off by a claim, none was wiped under a claim's name, none was destroyed.
    fn assert_nothing_lost(&self, hosts: usize) {
        let resources = self.resources();
        assert_eq!(resources.apple_silicon_servers.len(), hosts, "{:?}", resources.gone_apple_silicon_servers);
        for host in &resources.apple_silicon_servers {
            for wipe in host["simulator"]["wiped"].as_array().unwrap() {
                let name = wipe["name"].as_str().unwrap();
                assert!(!name.starts_with("macs-"), "{name} was wiped while it was claimed");
            }
        }
    }
}

/// What the runner's loop does with each of its rounds; and what it was told.
async fn round(hosts: &Arc<Hosts>) -> Vec<(String, State)> {
    let update = Arc::clone(hosts).update().await.unwrap();
    let reported = update.reports.iter().map(|report| (report.instance.clone(), report.state)).collect();
    if let Some(delivered) = update.delivered {
        delivered();
    }
    reported
}

/// Rounds, two seconds apart, until the reports are as wanted.
async fn until(hosts: &Arc<Hosts>, what: &str, wanted: impl Fn(&[(String, State)]) -> bool) -> Vec<(String, State)> {
    let mut reported = Vec::new();
    for _ in 0..900 {
        reported = round(hosts).await;
        if wanted(&reported) {
            return reported;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    panic!("never {what}: {reported:?}");
}

async fn until_running(hosts: &Arc<Hosts>, count: usize) -> Vec<String> {
    let running = |reported: &[(String, State)]| {
        reported.len() == count && reported.iter().all(|(_, state)| *state == State::Running)
    };
    let reported = until(hosts, &format!("{count} running"), running).await;
    reported.into_iter().map(|(id, _)| id).collect()
}

async fn until_none(hosts: &Arc<Hosts>) {
    until(hosts, "none left", |reported| reported.is_empty()).await;
}

#[test]
fn hosts_come_from_the_pool_and_return_to_it_wiped_and_none_is_destroyed() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        assert_eq!(hosts.clone().increase(2).await.unwrap(), 2);
        let first = round(&hosts).await;
        assert!(first.len() == 2 && first.iter().all(|(_, state)| *state == State::Creating), "{first:?}");
        let ids = until_running(&hosts, 2).await;
        assert_eq!(world.in_pool(), 1);
        for id in &ids {
            assert!(id.starts_with("macs-"), "{id}");
            assert_eq!(world.host(id)["simulator"]["reinstalls"], 0);
            let info = hosts.connect_info(id).await.unwrap();
            assert_eq!((info.connector.username.as_str(), info.connector.operating_system.as_str()), ("m1", "darwin"));
            assert_eq!(info.connector.architecture, "arm64");
            assert!(!info.connector.password.is_empty() && info.connector.password != "<sealed>");
            assert_eq!(info.external_address, world.host(id)["ip"].as_str().unwrap());
            Arc::clone(&hosts).heartbeat(id).await.unwrap();
        }
        assert_eq!(hosts.clone().decrease(ids.clone()).await, ids);
        until_none(&hosts).await;
        assert_eq!(world.in_pool(), 3);
        world.assert_nothing_lost(3);
        let wiped: u64 = world.hosts().iter().map(|host| host["simulator"]["reinstalls"].as_u64().unwrap()).sum();
        assert_eq!(wiped, 2, "each of the two that were used, once");
        // Wiped and ready again, they serve the next demand.
        tokio::time::sleep(Duration::from_secs(1_300)).await;
        assert_eq!(hosts.clone().increase(3).await.unwrap(), 3);
        until_running(&hosts, 3).await;
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_seed_makes_the_claims_of_a_group_the_same_in_each_run() {
    let claims = |seed: u64| {
        paused(async {
            let world = World { seed: Some(seed), ..World::of_three() };
            let hosts = world.start(json!({"owner": "team"})).await;
            hosts.clone().increase(2).await.unwrap();
            let ids = until_running(&hosts, 2).await;
            hosts.leave(Duration::from_secs(5)).await;
            ids
        })
    };
    assert_eq!(claims(7), claims(7));
    assert_ne!(claims(7), claims(8));
}

#[test]
fn an_empty_pool_is_a_pause_and_never_a_hot_loop_of_failing_claims() {
    paused(async {
        let world =
            World::with(&["prefix=pool-,count=1,type=M4-S", "prefix=pool-,count=2,type=M2-M"], Options::default());
        let hosts = world.start(json!({})).await;
        assert_eq!(hosts.clone().increase(2).await.unwrap(), 2);
        until_running(&hosts, 1).await;
        let before = world.simulator.requests().len();
        let mut answers = Vec::new();
        for _ in 0..20 {
            answers.push(hosts.clone().increase(1).await.unwrap());
            round(&hosts).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(answers.contains(&0), "it pauses: {answers:?}");
        let called = world.simulator.requests().len() - before;
        assert!(called < 20, "{called} calls in two seconds");
        let orders = world.simulator.requests().iter().filter(|call| call.method == "POST").count();
        assert_eq!(orders, 0, "none is ordered unasked");
        world.assert_nothing_lost(3);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn hosts_are_ordered_where_that_is_said_up_to_the_limit_and_those_under_their_floor_are_scheduled() {
    paused(async {
        let world = World::with(&[], Options::default());
        let hosts = world.start(json!({"pool_prefix": null, "max_size": 2})).await;
        assert_eq!(hosts.clone().increase(5).await.unwrap(), 2, "max_size is honest");
        let ids = until_running(&hosts, 2).await;
        assert_eq!(hosts.clone().increase(1).await.unwrap(), 0);
        hosts.clone().decrease(ids).await;
        until_none(&hosts).await;
        for host in world.hosts() {
            assert_eq!(host["deletion_scheduled"], true, "a day has not passed");
        }
        let deletes = |world: &World| world.simulator.requests().iter().filter(|call| call.method == "DELETE").count();
        assert!(deletes(&world) <= 2, "the floor is asked about once each: {}", deletes(&world));
        let again = world.start(json!({"pool_prefix": null, "max_size": 2, "name": "others"})).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(
                round(&hosts).await.is_empty(),
                "what Scaleway will delete is nobody's, though it carries the claim"
            );
            assert!(round(&again).await.is_empty());
        }
        again.leave(Duration::from_secs(5)).await;
        tokio::time::sleep(Duration::from_secs(25 * 3_600)).await;
        assert!(world.hosts().is_empty(), "and then they are gone");
        assert!(round(&hosts).await.is_empty());
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_host_whose_order_was_not_answered_keeps_its_place_and_none_is_ordered_in_its_stead() {
    paused(async {
        let world = World::with(&[], Options::default());
        let servers = "/apple-silicon/v1alpha1/zones/*/servers";
        world.simulator.add_fault(FaultRule::new("POST", servers, FaultKind::DroppedConnection).nth(1)).unwrap();
        let hosts = world.start(json!({"pool_prefix": null, "max_size": 2})).await;
        assert_eq!(hosts.clone().increase(1).await.unwrap(), 1);
        // The second look is not due yet.
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            round(&hosts).await;
        }
        let orders = || world.simulator.requests().iter().filter(|call| call.method == "POST").count();
        assert_eq!((orders(), world.hosts().len()), (1, 0));
        assert_eq!(hosts.clone().increase(2).await.unwrap(), 1, "there is room for one more");
        until(&hosts, "the other one ordered", |_| orders() == 2).await;
        assert_eq!(world.hosts().len(), 1);
        // The second look finds none: it is ordered again.
        until_running(&hosts, 2).await;
        assert_eq!((orders(), world.hosts().len()), (3, 2));
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_host_ordered_beside_the_pool_does_not_go_into_it_and_one_of_the_pool_does() {
    paused(async {
        let world = World::with(&["prefix=pool-,count=1,type=M4-S"], Options::default());
        let hosts = world.start(json!({"order": true})).await;
        hosts.clone().increase(2).await.unwrap();
        let ids = until_running(&hosts, 2).await;
        assert_eq!(world.hosts().len(), 2);
        hosts.clone().decrease(ids).await;
        until_none(&hosts).await;
        assert_eq!(world.in_pool(), 1);
        assert_eq!(world.hosts().iter().filter(|host| host["deletion_scheduled"] == true).count(), 1);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn an_ordered_host_is_deleted_however_long_it_has_worked() {
    paused(async {
        let world = World::with(&["prefix=pool-,count=1,type=M4-S"], Options::default());
        let hosts = world.start(json!({"order": true})).await;
        hosts.clone().increase(2).await.unwrap();
        let ids = until_running(&hosts, 2).await;
        // Everything that may be forgotten is.
        hosts.lifecycle.journal().prune(u64::MAX).await.unwrap();
        hosts.clone().decrease(ids).await;
        until_none(&hosts).await;
        assert_eq!(world.in_pool(), 1);
        assert_eq!(world.hosts().iter().filter(|host| host["deletion_scheduled"] == true).count(), 1);
        // Both claims have ended, so nothing of them is remembered any more.
        hosts.lifecycle.journal().prune(u64::MAX).await.unwrap();
        let rest = hosts.lifecycle.journal().operations(&OperationFilter::default()).unwrap();
        assert!(rest.is_empty(), "{rest:?}");
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn an_ordered_host_joins_the_pool_where_that_is_requested() {
    paused(async {
        let world = World::with(&["prefix=pool-,count=1,type=M4-S"], Options::default());
        let hosts = world.start(json!({"order": true, "release_requested": "pool"})).await;
        hosts.clone().increase(2).await.unwrap();
        let ids = until_running(&hosts, 2).await;
        hosts.clone().decrease(ids).await;
        until_none(&hosts).await;
        assert_eq!(world.in_pool(), 2);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn the_billing_floor_is_never_an_endless_retry_in_any_of_its_shapes() {
    for floor_refusal in FloorRefusal::ALL.map(|(_, shape)| shape) {
        paused(async move {
            let apple_silicon = AppleSilicon { floor_refusal, ..AppleSilicon::default() };
            let pool = ["prefix=pool-,count=1,type=M4-S"];
            let world = World::with(&pool, Options { apple_silicon, ..Options::default() });
            let hosts = world.start(json!({"release_requested": "terminate"})).await;
            hosts.clone().increase(1).await.unwrap();
            let ids = until_running(&hosts, 1).await;
            hosts.clone().decrease(ids).await;
            until_none(&hosts).await;
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            round(&hosts).await;
            let deletes = world.simulator.requests().iter().filter(|call| call.method == "DELETE").count();
            assert!(deletes <= 1, "{floor_refusal:?}: {deletes}");
            assert_eq!(world.hosts()[0]["deletion_scheduled"], true, "{floor_refusal:?}");
            hosts.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn a_release_that_keeps_failing_gives_its_capacity_back_and_is_tried_ever_more_seldom() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({"max_size": 1})).await;
        hosts.clone().increase(1).await.unwrap();
        let ids = until_running(&hosts, 1).await;
        let rule = FaultRule::new("PATCH", "/apple-silicon/**", FaultKind::PermissionDenied);
        world.simulator.add_fault(rule).unwrap();
        hosts.clone().decrease(ids.clone()).await;
        until_none(&hosts).await;
        assert_eq!(hosts.clone().increase(1).await.unwrap(), 0, "it still takes up room in the group");
        world.simulator.clear_requests();
        tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
        let calls = world.simulator.requests().len();
        assert!(calls < 400, "{calls} calls in four hours");
        world.simulator.clear_faults();
        for _ in 0..3_000 {
            if world.in_pool() == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert_eq!(world.in_pool(), 3, "and once it can be done, it is");
        world.assert_nothing_lost(3);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn whatever_a_policy_answers_a_release_is_asked_for_ever_more_seldom() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        let seconds = |policy: u64, attempt| hosts.again("x", Duration::from_secs(policy), attempt).as_secs();
        assert_eq!([1, 2, 3, 8, 9, u32::MAX].map(|attempt| seconds(0, attempt)), [5, 10, 20, 640, 900, 900]);
        assert_eq!((seconds(60, 1), seconds(7_200, 9)), (60, 7_200), "and not before the policy says");
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_host_that_the_policy_keeps_is_not_shown_again() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({"release_requested": "keep"})).await;
        hosts.clone().increase(1).await.unwrap();
        let ids = until_running(&hosts, 1).await;
        hosts.clone().decrease(ids.clone()).await;
        until_none(&hosts).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert!(round(&hosts).await.is_empty());
        }
        let kept = world.host(&ids[0]);
        assert_eq!((&kept["simulator"]["reinstalls"], &kept["deletion_scheduled"]), (&json!(0), &json!(false)));
        assert_eq!(hosts.clone().decrease(ids.clone()).await, ids, "asked again, it counts as gone");
        world.assert_nothing_lost(3);
        hosts.leave(Duration::from_secs(5)).await;
        drop(hosts);
        let next = world.start(json!({})).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(round(&next).await.is_empty(), "nor by the next process");
        assert_eq!(world.host(&ids[0])["simulator"]["reinstalls"], 0);
        next.leave(Duration::from_secs(5)).await;
    });
}

/// What the group tells of one host in each round until there is nothing more to tell.
async fn states_until_none(hosts: &Arc<Hosts>) -> Vec<State> {
    let mut states = Vec::new();
    for _ in 0..900 {
        match round(hosts).await.as_slice() {
            [] => return states,
            [(_, state)] => states.push(*state),
            more => panic!("more than one: {more:?}"),
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    panic!("never none left: {states:?}");
}

#[test]
fn a_host_whose_release_a_dead_process_left_is_told_as_deleting_from_the_first_update_on() {
    let servers = "/apple-silicon/v1alpha1/zones/*/servers/*";
    for (case, fault, wait) in [
        ("open", FaultKind::Delay(Duration::from_secs(8)), 1),
        ("it waits to be asked for again", FaultKind::PermissionDenied, 60),
    ] {
        paused(async {
            let world = World::with(&[], Options::default());
            let hosts = world.start(json!({"pool_prefix": null})).await;
            hosts.clone().increase(1).await.unwrap();
            let ids = until_running(&hosts, 1).await;
            world.simulator.add_fault(FaultRule::new("PATCH", servers, fault)).unwrap();
            hosts.clone().decrease(ids.clone()).await;
            tokio::time::sleep(Duration::from_secs(wait)).await;
            hosts.tasks().stop().await;
            drop(hosts);
            let hosts = world.start(json!({"pool_prefix": null})).await;
            assert_eq!(round(&hosts).await, [(ids[0].clone(), State::Deleting)], "{case}");
            assert!(hosts.connect_info(&ids[0]).await.is_err(), "{case}: nobody is let onto it");
            assert!(Arc::clone(&hosts).heartbeat(&ids[0]).await.is_err(), "{case}");
            world.simulator.clear_faults();
            let states = states_until_none(&hosts).await;
            assert!(states.iter().all(|state| *state == State::Deleting), "{case}: {states:?}");
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(world.host(&ids[0])["deletion_scheduled"], true, "{case}");
            hosts.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn a_host_whose_order_was_cancelled_is_released_and_never_becomes_an_instance() {
    for dies in [false, true] {
        paused(async {
            let world = World::with(&[], Options::default());
            let start = || world.start(json!({"pool_prefix": null}));
            let mut hosts = start().await;
            let slow = FaultKind::Delay(Duration::from_secs(3));
            let orders = "/apple-silicon/v1alpha1/zones/*/servers";
            world.simulator.add_fault(FaultRule::new("POST", orders, slow).after_effect()).unwrap();
            hosts.clone().increase(1).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let order = hosts.lifecycle.journal().operations(&OperationFilter::default()).unwrap().remove(0);
            hosts.lifecycle.cancel(&order.id, "somebody").await.unwrap();
            if dies {
                hosts.tasks().stop().await;
                drop(hosts);
                hosts = start().await;
            }
            let mut states = Vec::new();
            for _ in 0..60 {
                states.extend(round(&hosts).await.into_iter().map(|(_, state)| state));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            assert!(!states.contains(&State::Running), "{dies}: {states:?}");
            assert!(round(&hosts).await.is_empty(), "{dies}: {states:?}");
            let order = hosts.lifecycle.journal().operation(&order.id).unwrap();
            assert!(order.ended_by.is_some(), "{dies}: {order:?}");
            assert_eq!(world.hosts().len(), 1, "{dies}");
            assert_eq!(world.hosts()[0]["deletion_scheduled"], true, "{dies}");
            hosts.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn a_claim_that_breaks_off_on_a_full_disk_keeps_its_place_and_gets_its_host() {
    for entries in 0..3 {
        paused(async {
            let world = World::with(&[], Options::default());
            let hosts = world.start(json!({"pool_prefix": null})).await;
            let full = FullDisk::after(&hosts.common().folder(), entries);
            hosts.clone().increase(1).await.unwrap();
            let mut states = Vec::new();
            for _ in 0..30 {
                states.extend(round(&hosts).await.into_iter().map(|(_, state)| state));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            drop(full);
            assert!(states.iter().all(|state| *state == State::Creating), "{entries}: {states:?}");
            until_running(&hosts, 1).await;
            assert_eq!(world.hosts().len(), 1, "{entries}");
            hosts.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn what_happens_behind_our_back_is_told_and_never_holds_capacity() {
    for (change, wiped) in [("deleted", 0), ("renamed", 0), ("reinstalled", 1), ("broken", 1)] {
        paused(async move {
            let world = World::of_three();
            let hosts = world.start(json!({})).await;
            hosts.clone().increase(2).await.unwrap();
            let ids = until_running(&hosts, 2).await;
            let (victim, other) = (&ids[0], &ids[1]);
            let host = world.host(victim)["id"].as_str().unwrap().to_owned();
            match change {
                "deleted" => world.simulator.set_server_state(&host, ForcedState::Deleted).unwrap(),
                "renamed" => world.simulator.rename_server(&host, "somebody-elses").unwrap(),
                "reinstalled" => world.simulator.set_server_state(&host, ForcedState::Reinstalling).unwrap(),
                _ => world.simulator.set_server_state(&host, ForcedState::Error).unwrap(),
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
            let reported = round(&hosts).await;
            let of = |reported: &[(String, State)], id: &str| {
                reported.iter().find(|(known, _)| known == id).map(|(_, state)| *state)
            };
            assert_eq!(of(&reported, other), Some(State::Running), "{change}");
            let word = of(&reported, victim);
            assert!(matches!(word, Some(State::Deleted | State::Deleting)), "{change}: {word:?}");
            until(&hosts, change, |reported| of(reported, victim).is_none()).await;
            assert_eq!(hosts.clone().increase(1).await.unwrap(), 1, "{change}: there is room again");
            match change {
                "renamed" => {
                    let host = world.host("somebody-elses");
                    assert_eq!(host["simulator"]["reinstalls"], 0, "what is not ours is left alone");
                }
                "deleted" => assert_eq!(world.hosts().len(), 2),
                _ => {
                    let host = world.hosts().into_iter().find(|known| known["id"] == host.as_str()).unwrap();
                    assert!(host["name"].as_str().unwrap().starts_with("pool-"), "{change}: {host}");
                    assert!(host["simulator"]["reinstalls"].as_u64().unwrap() <= wiped, "{change}");
                }
            }
            hosts.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn a_new_process_shows_the_hosts_that_an_earlier_one_claimed() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        hosts.clone().increase(2).await.unwrap();
        let mut before = until_running(&hosts, 2).await;
        hosts.leave(Duration::from_secs(5)).await;
        drop(hosts);
        let hosts = world.start(json!({})).await;
        let mut reported: Vec<String> = round(&hosts).await.into_iter().map(|(id, _)| id).collect();
        before.sort();
        reported.sort();
        assert_eq!(reported, before);
        hosts.clone().decrease(reported).await;
        until_none(&hosts).await;
        assert_eq!(world.in_pool(), 3);
        world.assert_nothing_lost(3);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn groups_with_another_state_or_a_longer_name_leave_each_others_hosts_alone() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        hosts.clone().increase(1).await.unwrap();
        until_running(&hosts, 1).await;
        let elsewhere = tempfile::tempdir().unwrap();
        let same_name = world.start(json!({"state_dir": elsewhere.path(), "adopt": false})).await;
        let longer = world.start(json!({"name": "macs-more"})).await;
        for other in [&same_name, &longer] {
            assert!(round(other).await.is_empty());
            other.clone().increase(1).await.unwrap();
            assert_eq!(until_running(other, 1).await.len(), 1);
        }
        assert_eq!(round(&hosts).await.len(), 1);
        let claims = hosts.kind.claims.clone();
        assert!(hosts.claim_of(&format!("{claims}0123456789ab")).is_some());
        for name in ["more-0123456789ab", "0123456789a", "0123456789abc", "0123456789aB", ""] {
            assert!(hosts.claim_of(&format!("{claims}{name}")).is_none(), "{name}");
        }
        for group in [hosts, same_name, longer] {
            group.leave(Duration::from_secs(5)).await;
        }
    });
}

#[test]
fn two_hosts_with_one_group_of_macs_notice_each_other_and_take_over_only_on_purpose() {
    for owner in [Some("team"), None] {
        paused(async {
            let world = World::of_three();
            let elsewhere = tempfile::tempdir().unwrap();
            let here = || json!({ "owner": owner });
            let there = |adopt: Option<bool>| json!({ "owner": owner, "adopt": adopt, "state_dir": elsewhere.path() });
            let first = world.start(here()).await;
            first.clone().increase(1).await.unwrap();
            let ids = until_running(&first, 1).await;
            let refused = world.try_start(there(None)).await.err().unwrap().to_string();
            assert!(refused.contains(&ids[0]) && refused.contains("adopt = false"), "{refused}");
            let remedy =
                if owner.is_some() { "adopt = true takes them over" } else { "rename them with the prefix of a pool" };
            assert!(refused.contains(remedy), "{refused}");

            // Told to live with it, each has its own, also what it does not know from its start.
            let second = world.start(there(Some(false))).await;
            assert!(round(&second).await.is_empty());
            second.clone().increase(1).await.unwrap();
            until_running(&second, 1).await;
            tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
            assert_eq!(until_running(&first, 1).await, ids);
            second.leave(Duration::from_secs(5)).await;
            drop(second);
            let taken_over = world.try_start(there(Some(true))).await;
            let Some(_) = owner else {
                let refused = taken_over.err().unwrap().to_string();
                assert!(refused.contains("mark of another `owner`"), "{refused}");
                return first.leave(Duration::from_secs(5)).await;
            };
            first.leave(Duration::from_secs(5)).await;
            drop(first);
            let second = taken_over.unwrap();
            until_running(&second, 2).await;
            second.leave(Duration::from_secs(5)).await;
            drop(second);
            // What was taken over stays so, also when it is no longer asked for; the first says that it lost nothing.
            let second = world.start(there(None)).await;
            let both = until_running(&second, 2).await;
            second.clone().decrease(both).await;
            until_none(&second).await;
            assert_eq!(world.in_pool(), 3);
            world.assert_nothing_lost(3);
            second.leave(Duration::from_secs(5)).await;
        });
    }
}

#[test]
fn a_claim_is_known_for_longer_than_the_journal_remembers_it_and_no_longer_than_a_host_carries_it() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        hosts.clone().increase(1).await.unwrap();
        let ids = until_running(&hosts, 1).await;
        assert!(hosts.known.holds(&ids[0]), "whatever becomes of the journal");
        hosts.clone().decrease(ids.clone()).await;
        until_none(&hosts).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        round(&hosts).await;
        assert!(!hosts.known.holds(&ids[0]));
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_claim_that_is_called_off_ends_in_the_pool() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        hosts.clone().increase(2).await.unwrap();
        let ids: Vec<String> = round(&hosts).await.into_iter().map(|(id, _)| id).collect();
        // One may wait for the other.
        let journal = hosts.lifecycle.journal();
        let claiming = || ids.iter().flat_map(|id| journal.operations_of_machine(id).unwrap()).collect::<Vec<_>>();
        while claiming().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let begun = claiming();
        hosts.clone().decrease(ids.clone()).await;
        for operation in begun {
            // A process that is killed now leaves the claim called off.
            let entries = journal.entries(&operation.id).unwrap();
            assert!(entries.iter().any(|entry| entry.step == "cancelled"), "{entries:?}");
        }
        let reported = round(&hosts).await;
        assert!(reported.iter().all(|(_, state)| *state == State::Deleting), "{reported:?}");
        until_none(&hosts).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.in_pool(), 3);
        world.assert_nothing_lost(3);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_listing_that_fails_is_an_error_of_update_and_tells_nothing() {
    paused(async {
        let world = World::of_three();
        let hosts = world.start(json!({})).await;
        hosts.clone().increase(1).await.unwrap();
        until_running(&hosts, 1).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let rule = FaultRule::new("GET", "/apple-silicon/**/servers", FaultKind::InternalServerError);
        world.simulator.add_fault(rule).unwrap();
        assert!(Arc::clone(&hosts).update().await.is_err());
        world.simulator.clear_faults();
        assert_eq!(until_running(&hosts, 1).await.len(), 1);
        hosts.leave(Duration::from_secs(5)).await;
    });
}

#[test]
fn init_names_everything_that_is_wrong_with_what_there_is() {
    paused(async {
        let world = World::of_three();
        let said = async |changes: Value| {
            world.try_start(changes).await.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let both = said(json!({"server_type": "M9-S", "os_id": "33333333-2222-4333-8444-555555555555"})).await;
        assert!(both.contains("M9-S does not exist in fr-par-1") && both.contains("M4-S"), "{both}");
        assert!(both.contains("os_id"), "all at once: {both}");
        let system = said(json!({"operating_system": "macos-cheetah-10.0", "order": true})).await;
        assert!(system.contains(SYSTEM), "{system}");
        let of_the_pool = said(json!({"operating_system": "macos-cheetah-10.0"})).await;
        assert!(of_the_pool.contains(SYSTEM), "no host has it: {of_the_pool}");
        world.simulator.add_fault(FaultRule::new("GET", "/apple-silicon/**", FaultKind::NotFound)).unwrap();
        let nowhere = said(json!({})).await;
        assert!(nowhere.contains("zone: "), "{nowhere}");
        world.simulator.clear_faults();
        world.simulator.add_fault(FaultRule::new("GET", "/apple-silicon/**", FaultKind::PermissionDenied)).unwrap();
        let denied = said(json!({})).await;
        assert!(denied.contains("secret_key"), "{denied}");
        let winrm = ConnectorConfig { protocol: "winrm".to_owned(), ..ConnectorConfig::default() };
        let refused = world.try_start_with(json!({}), winrm).await.err().unwrap();
        assert!(matches!(refused, StartError::Protocol(_)));
    });
}

#[test]
fn the_operators_own_credentials_win_over_the_hosts_password() {
    paused(async {
        let world = World::of_three();
        let connector =
            ConnectorConfig { username: "ci".to_owned(), key: "-----BEGIN".into(), ..ConnectorConfig::default() };
        let hosts = world.try_start_with(json!({}), connector).await.unwrap();
        hosts.clone().increase(1).await.unwrap();
        let ids = until_running(&hosts, 1).await;
        let info = hosts.connect_info(&ids[0]).await.unwrap();
        assert_eq!((info.connector.username.as_str(), info.connector.password.as_str()), ("ci", ""));
        assert!(!info.connector.key.is_empty());
        // Its name is somebody else's now: its password is, too.
        let host = world.host(&ids[0])["id"].as_str().unwrap().to_owned();
        world.simulator.rename_server(&host, "somebody-elses").unwrap();
        assert!(hosts.connect_info(&ids[0]).await.unwrap_err().0.contains("another name"));
        hosts.leave(Duration::from_secs(5)).await;
    });
}

/// What a runner does that wants one host (unless it had one) and then none, until every host is in the pool again.
/// False where the policy keeps one: a refusal that looks like a wrong request.
async fn one_up_and_down(world: &World, hosts: &Arc<Hosts>, mut ran: bool, case: &str) -> bool {
    let mut idle = 0;
    for turn in 0..1_500 {
        // The fault is met once; what is left of the way has to be gone without it.
        let Ok(update) = Arc::clone(hosts).update().await else {
            tokio::time::sleep(Duration::from_secs(2)).await;
            continue;
        };
        let reported: Vec<(String, State)> =
            update.reports.iter().map(|reported| (reported.instance.clone(), reported.state)).collect();
        if let Some(delivered) = update.delivered {
            delivered();
        }
        let running: Vec<String> =
            reported.iter().filter(|(_, state)| *state == State::Running).map(|(id, _)| id.clone()).collect();
        ran |= !running.is_empty();
        if ran && reported.is_empty() && world.in_pool() == 2 {
            return true;
        }
        // Longer than any wait before a release is asked for again.
        idle = if ran && reported.is_empty() { idle + 1 } else { 0 };
        if idle > 500 {
            return false;
        }
        if reported.is_empty() && !ran {
            hosts.clone().increase(1).await.unwrap();
        }
        if turn % 3 == 2 && ran {
            hosts.clone().decrease(running).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let names: Vec<Value> = world.hosts().iter().map(|host| host["name"].clone()).collect();
    panic!("{case}: ran: {ran}, {names:?}");
}

#[test]
fn each_fault_at_each_call_of_a_claim_and_a_release_ends_with_every_host_in_its_pool() {
    let calls = [
        ("GET", "/**/servers", 4),
        ("GET", "/**/servers/*", 6),
        ("PATCH", "/**/servers/*", 4),
        ("POST", "/**/reinstall", 1),
    ];
    let cases = calls.into_iter().flat_map(|(method, path, last)| {
        let faults = FaultKind::ALL.into_iter().flat_map(|kind| [(kind, Effect::Before), (kind, Effect::After)]);
        (1..=last).flat_map(move |nth| faults.clone().map(move |(kind, effect)| (method, path, nth, kind, effect)))
    });
    for (method, path, nth, kind, effect) in windlass_test_guests::share(cases) {
        let case = format!("{kind} {effect:?} at call {nth} of {method} {path}");
        paused(async {
            let world = World::with(&["prefix=pool-,count=2,type=M4-S"], Options::default());
            let hosts = world.start(json!({})).await;
            let rule = FaultRule::new(method, format!("/apple-silicon{path}"), kind).nth(nth);
            let rule = if effect == Effect::After { rule.after_effect() } else { rule };
            world.simulator.add_fault(rule).unwrap();
            let all = one_up_and_down(&world, &hosts, false, &case).await;
            hosts.leave(Duration::from_secs(5)).await;
            drop(hosts);
            if !all {
                let refusals = [FaultKind::QuotaExceeded, FaultKind::OutOfStock, FaultKind::NotFound];
                assert!(refusals.contains(&kind), "{case}: kept for no reason");
                // It carries its claim, so the next process shows it, and it goes back.
                let hosts = world.start(json!({})).await;
                assert!(one_up_and_down(&world, &hosts, true, &case).await, "{case}: kept for ever");
                hosts.leave(Duration::from_secs(5)).await;
            }
            let resources = world.resources();
            assert_eq!(resources.apple_silicon_servers.len(), 2, "{case}");
            for host in &resources.apple_silicon_servers {
                for wipe in host["simulator"]["wiped"].as_array().unwrap() {
                    assert!(!wipe["name"].as_str().unwrap().starts_with("macs-"), "{case}: wiped while claimed");
                }
            }
        });
    }
}
