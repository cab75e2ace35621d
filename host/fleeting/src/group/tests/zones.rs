//! A group in several zones.

use std::collections::{BTreeMap, BTreeSet};

use windlass_scaleway::Zone;
use windlass_simulator::ForcedState;

use super::*;

const ZONES: [&str; 3] = ["fr-par-1", "fr-par-2", "fr-par-3"];

fn zones(names: &[&str]) -> Vec<Zone> {
    names.iter().map(|zone| zone.parse().unwrap()).collect()
}

/// The built-in policies, of which that of placement spreads over the zones: one host for all tests.
fn spreading() -> Arc<Host> {
    static HOST: OnceLock<(tempfile::TempDir, Arc<Host>)> = OnceLock::new();
    Arc::clone(&HOST.get_or_init(spreading_host).1)
}

fn spreading_host() -> (tempfile::TempDir, Arc<Host>) {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let host = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
    let spread = Link::default().with_settings(json!({ "spread": "zones" }));
    host.configure(&Policies::built_in().with(SlotName::Placement, spread)).unwrap();
    (folder, Arc::new(host))
}

async fn start_in(zone_names: &[&str], policies: Arc<Host>, simulator: &Simulator, folder: &Path) -> ScalewayGroup {
    let zones = zones(zone_names);
    try_start(policies, simulator, folder, |configuration| configuration.common.zones = zones).await.unwrap()
}

/// A group with one instance in each of the three zones, which run, and the ids of these by zone.
async fn one_in_each(simulator: &Simulator, folder: &Path) -> (ScalewayGroup, BTreeMap<String, String>) {
    let group = start_in(&ZONES, spreading(), simulator, folder).await;
    assert_eq!(group.increase(3).await, Ok(3));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    let ids = ids_by_zone(simulator);
    assert_eq!(ids.keys().map(String::as_str).collect::<Vec<_>>(), ZONES);
    (group, ids)
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The name of the last server of each zone.
fn ids_by_zone(simulator: &Simulator) -> BTreeMap<String, String> {
    simulator.resources().servers.iter().map(|server| (text(&server["zone"]), text(&server["name"]))).collect()
}

fn count_in(simulator: &Simulator, zone: &str) -> usize {
    simulator.resources().servers.iter().filter(|server| server["zone"] == zone).count()
}

fn server_in(simulator: &Simulator, zone: &str) -> String {
    text(&simulator.resources().servers.iter().find(|server| server["zone"] == zone).unwrap()["id"])
}

fn fault_in(zone: &str, method: &str, rest: &str, kind: FaultKind) -> FaultRule {
    FaultRule::new(method, format!("/instance/v1/zones/{zone}/{rest}"), kind)
}

fn silence(simulator: &Simulator, zone: &str) {
    for product in ["instance", "block"] {
        let path = format!("/{product}/v1/zones/{zone}/**");
        simulator.add_fault(FaultRule::new("*", path, FaultKind::InternalServerError)).unwrap();
    }
}

/// What the update says of each instance.
async fn told_of(group: &ScalewayGroup) -> BTreeMap<String, State> {
    let update = group.update().await.unwrap();
    if let Some(delivered) = update.delivered {
        delivered();
    }
    update.reports.into_iter().map(|report| (report.instance, report.state)).collect()
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn where_a_zone_has_nothing_left_the_next_one_serves_and_the_first_again_once_it_has() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let group = start_in(&ZONES, policies(), &simulator, folder.path()).await;
    for zone in &ZONES[..2] {
        simulator.add_fault(fault_in(zone, "POST", "servers", FaultKind::OutOfStock)).unwrap();
    }
    let mut asked = 0;
    while count_in(&simulator, "fr-par-3") < 2 {
        assert_eq!(group.increase(2).await, Ok(2), "one place that backs off stops nothing");
        seconds(5).await;
        reported(&group).await;
        asked += 1;
        assert!(asked <= 3, "each demand that finds nothing goes one zone on");
    }
    assert_eq!(asked, 3);
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running; 2]);
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(60).await;
    simulator.clear_faults();
    seconds(900).await;
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(120).await;
    reported(&group).await;
    assert_eq!(count_in(&simulator, "fr-par-1"), 1, "in the operator's order again");
    let left = simulator.resources();
    assert_eq!(left.servers.len(), left.ips.len(), "nothing is left of what failed");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_every_zone_has_nothing_left_the_demand_waits() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let group = start_in(&ZONES[..2], policies(), &simulator, folder.path()).await;
    simulator.add_fault(FaultRule::new("POST", SERVERS, FaultKind::OutOfStock)).unwrap();
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(group.increase(1).await.unwrap());
        seconds(3).await;
        reported(&group).await;
    }
    assert_eq!(answers, [1, 1, 0]);
    simulator.clear_faults();
    seconds(8).await;
    assert_eq!(group.increase(1).await, Ok(1));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_creation_tries_the_types_of_its_zone_and_the_journal_says_in_which_zone_it_is() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let several = |configuration: &mut Configuration| {
        configuration.common.zones = zones(&["fr-par-1", "pl-waw-1"]);
        // Of which Warsaw has only the first (recorded).
        configuration.server.types = vec!["DEV1-S".to_owned(), "GP1-XS".to_owned()];
    };
    let group = try_start(policies(), &simulator, folder.path(), several).await.unwrap();
    simulator.set_stock("DEV1-S", windlass_simulator::Availability::Shortage);
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running]);
    let server = simulator.resources().servers[0].clone();
    assert_eq!((&server["zone"], &server["commercial_type"]), (&json!("fr-par-1"), &json!("GP1-XS")));
    simulator.add_fault(fault_in("fr-par-1", "POST", "servers", FaultKind::OutOfStock)).unwrap();
    simulator.set_stock("DEV1-S", windlass_simulator::Availability::Available);
    for _ in 0..2 {
        assert_eq!(group.increase(1).await, Ok(1));
        seconds(5).await;
        reported(&group).await;
    }
    let fleet = fleet(&group);
    let mut filter = OperationFilter::default();
    filter.kind = Some(OperationKind::CreateServer);
    let mut journalled = Vec::new();
    for operation in fleet.lifecycle.journal().operations(&filter).unwrap() {
        journalled.push((operation.zone, operation.specification["types"].clone()));
    }
    let both = json!(["DEV1-S", "GP1-XS"]);
    let expected = [("pl-waw-1", json!(["DEV1-S"])), ("fr-par-1", both.clone()), ("fr-par-1", both)];
    assert_eq!(journalled, expected.map(|(zone, types)| (zone.to_owned(), types)));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_one_zone_touches_nobody_and_hides_nobody_and_the_others_go_on() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    silence(&simulator, "fr-par-2");
    simulator.clear_requests();
    let all: BTreeMap<String, State> = ids.values().map(|id| (id.clone(), State::Running)).collect();
    for _ in 0..15 {
        seconds(60).await;
        assert_eq!(told_of(&group).await, all);
        for id in ids.values() {
            assert_eq!(group.heartbeat(id.clone()).await, Ok(()));
        }
    }
    let changes = simulator.requests().iter().filter(|call| call.method != "GET").count();
    assert_eq!(changes, 0, "nothing is changed anywhere");
    // The others are served: one is replaced, and one that is wanted more is made where somebody answers.
    simulator.set_server_state(&server_in(&simulator, "fr-par-1"), ForcedState::Stopped).unwrap();
    assert_eq!(group.increase(2).await, Ok(2));
    for _ in 0..3 {
        reported(&group).await;
        seconds(60).await;
    }
    let mut states = reported(&group).await;
    states.retain(|state| *state == State::Running);
    assert_eq!(states.len(), 4);
    assert_eq!(ZONES.map(|zone| count_in(&simulator, zone)), [1, 1, 2]);
    // In the end nothing is known of the zone any more, and of the others it is.
    seconds(10 * 60).await;
    reported(&group).await;
    for (zone, id) in ids.iter().filter(|(zone, _)| *zone != "fr-par-1") {
        assert_eq!(group.heartbeat(id.clone()).await.is_ok(), zone == "fr-par-3");
    }
    simulator.clear_faults();
    reported(&group).await;
    assert_eq!(group.heartbeat(ids["fr-par-2"].clone()).await, Ok(()));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_hangs_keeps_the_others_waiting_for_seconds_only() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    simulator.add_fault(fault_in("fr-par-2", "GET", "servers", FaultKind::Delay(Duration::from_secs(600)))).unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(told_of(&group).await.len(), ids.len());
    assert!(began.elapsed() < Duration::from_secs(12), "simulated: {:?}", began.elapsed());
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_fails_creations_for_other_reasons_is_left_for_another_and_never_for_none() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let group = start_in(&ZONES[..2], policies(), &simulator, folder.path()).await;
    simulator.add_fault(fault_in("fr-par-1", "POST", "servers", FaultKind::InternalServerError)).unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    for _ in 0..60 {
        seconds(5).await;
        if reported(&group).await.is_empty() && simulator.resources().servers.is_empty() {
            assert_eq!(group.increase(1).await, Ok(1));
            seconds(30).await;
        }
    }
    assert_eq!((count_in(&simulator, "fr-par-1"), count_in(&simulator, "fr-par-2")), (0, 1));
    simulator.add_fault(fault_in("fr-par-2", "POST", "servers", FaultKind::InternalServerError)).unwrap();
    let mut tries = 0;
    for _ in 0..120 {
        if reported(&group).await == [State::Running] {
            assert_eq!(group.increase(1).await, Ok(1), "where both fail so, it is tried all the same");
            tries += 1;
        }
        seconds(10).await;
    }
    assert!(tries > 3, "{tries}");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_shows_the_instances_of_all_zones_and_ends_what_was_under_way_in_each() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    let slow = FaultKind::Delay(Duration::from_secs(20));
    simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", slow)).unwrap();
    group.decrease(vec![ids["fr-par-2"].clone()]).await.unwrap();
    seconds(1).await;
    group.stop().await;
    drop(group);
    simulator.clear_faults();
    // While nobody looked, one lost its server.
    simulator.set_server_state(&server_in(&simulator, "fr-par-3"), ForcedState::Deleted).unwrap();
    let group = start_in(&ZONES, policies(), &simulator, folder.path()).await;
    seconds(180).await;
    let states = told_of(&group).await;
    assert_eq!(states.get(&ids["fr-par-1"]), Some(&State::Running));
    reported(&group).await;
    assert_eq!(told_of(&group).await.len(), 1);
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.ips.len(), left.volumes.len()), (1, 1, 1));
    let mut filter = OperationFilter::default();
    filter.kind = Some(OperationKind::CleanupServer);
    let removals = fleet(&group).lifecycle.journal().operations(&filter).unwrap();
    let zones: BTreeSet<&str> = removals.iter().map(|removal| removal.zone.as_str()).collect();
    assert_eq!(zones, ["fr-par-2", "fr-par-3"].into(), "neither waits for a sweep");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_start_nothing_is_told_until_each_zone_with_instances_was_seen_once() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    group.stop().await;
    drop(group);
    silence(&simulator, "fr-par-3");
    let group = start_in(&ZONES, policies(), &simulator, folder.path()).await;
    assert!(group.update().await.is_err(), "the runner would take those of the zone for gone");
    simulator.clear_faults();
    assert_eq!(told_of(&group).await.len(), ids.len());
    silence(&simulator, "fr-par-3");
    assert_eq!(told_of(&group).await.len(), ids.len());
    group.stop().await;
    drop(group);
    // A zone in which nothing is known to be keeps nobody waiting.
    simulator.clear_faults();
    let empty = tempfile::tempdir().unwrap();
    let other = |configuration: &mut Configuration| {
        configuration.common.zones = zones(&ZONES);
        configuration.common.owner = Some("others".parse().unwrap());
        configuration.common.adopt = Some(false);
    };
    let group = try_start(policies(), &simulator, empty.path(), other).await.unwrap();
    silence(&simulator, "fr-par-3");
    assert_eq!(told_of(&group).await.len(), 0);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_in_a_zone_that_is_configured_no_more_is_seen_and_can_be_removed_and_gets_no_company() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    group.stop().await;
    drop(group);
    let group = start_in(&["fr-par-1"], spreading(), &simulator, folder.path()).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    group.heartbeat(ids["fr-par-3"].clone()).await.unwrap();
    assert_eq!(group.increase(2).await, Ok(2));
    seconds(120).await;
    assert_eq!(ZONES.map(|zone| count_in(&simulator, zone)), [3, 1, 1]);
    let gone = vec![ids["fr-par-2"].clone(), ids["fr-par-3"].clone()];
    assert_eq!(group.decrease(gone.clone()).await.unwrap(), gone);
    seconds(120).await;
    reported(&group).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    assert_eq!(ZONES.map(|zone| count_in(&simulator, zone)), [3, 0, 0]);
    group.stop().await;
    drop(group);
    let group = start_in(&["fr-par-1"], policies(), &simulator, folder.path()).await;
    simulator.clear_requests();
    reported(&group).await;
    let elsewhere = |call: &&windlass_simulator::RequestRecord| call.path.contains("fr-par-2/servers");
    assert_eq!(simulator.requests().iter().filter(elsewhere).count(), 0, "nothing is there to be looked at");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn servers_of_a_lost_state_directory_are_noticed_and_taken_over_in_every_zone() {
    let simulator = Simulator::new(Options::default());
    let (lost, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (group, ids) = one_in_each(&simulator, lost.path()).await;
    group.stop().await;
    let with = |adopt: Option<bool>| {
        move |configuration: &mut Configuration| {
            configuration.common.zones = zones(&ZONES);
            configuration.common.adopt = adopt;
        }
    };
    let refused = try_start(policies(), &simulator, fresh.path(), with(None)).await.err().unwrap().to_string();
    assert!(
        refused.contains("fr-par-1, fr-par-2, fr-par-3") && ids.values().all(|id| refused.contains(id)),
        "{refused}"
    );
    let group = try_start(policies(), &simulator, fresh.path(), with(Some(true))).await.unwrap();
    assert_eq!(reported(&group).await, [State::Running; 3]);
    group.decrease(ids.into_values().collect()).await.unwrap();
    seconds(120).await;
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.ips.len(), left.volumes.len()), (0, 0, 0));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fresh_state_directory_is_used_only_when_every_zone_was_asked_whether_it_is_alone() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    silence(&simulator, "fr-par-2");
    let several = |configuration: &mut Configuration| configuration.common.zones = zones(&ZONES);
    assert!(try_start(policies(), &simulator, folder.path(), several).await.is_err());
    simulator.clear_faults();
    try_start(policies(), &simulator, folder.path(), several).await.unwrap().stop().await;
    silence(&simulator, "fr-par-2");
    let group = try_start(policies(), &simulator, folder.path(), several).await.unwrap();
    assert_eq!(group.increase(1).await, Ok(1));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_nothing_explains_is_swept_in_every_zone_although_one_cannot_be_asked() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, _) = one_in_each(&simulator, folder.path()).await;
    let owner = fleet(&group).lifecycle.owner().to_string();
    let client = client_of(&simulator);
    let lost = |zone: &'static str| {
        let (client, owner) = (client.clone(), owner.clone());
        async move {
            // An operation of long ago that no journal knows.
            let tags = [
                "windlass".to_owned(),
                format!("windlass-owner={owner}"),
                "windlass-operation=ci-000000000000".to_owned(),
            ];
            let body =
                json!({ "type": "routed_ipv4", "project": "22222222-2222-4333-8444-555555555555", "tags": tags });
            let path = format!("/instance/v1/zones/{zone}/ips");
            client.send_raw("POST", &path, Some(body.to_string().into())).await.unwrap();
        }
    };
    for zone in ZONES {
        lost(zone).await;
    }
    assert_eq!(simulator.resources().ips.len(), 6);
    simulator.add_fault(fault_in("fr-par-1", "GET", "ips", FaultKind::InternalServerError)).unwrap();
    seconds(2 * 3_600).await;
    assert_eq!(simulator.resources().ips.len(), 4, "all but the one of the zone that fails");
    simulator.clear_faults();
    seconds(2 * 3_600).await;
    assert_eq!(simulator.resources().ips.len(), 3);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn instances_of_any_zone_are_suspended_resumed_and_reached() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    group.stop().await;
    drop(group);
    let suspending = |configuration: &mut Configuration| {
        configuration.common.zones = zones(&ZONES);
        configuration.suspend = true;
    };
    let group = try_start(policies(), &simulator, folder.path(), suspending).await.unwrap();
    reported(&group).await;
    let all: Vec<String> = ids.into_values().collect();
    assert_eq!(group.suspend(all.clone()).await.failure, None);
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Suspended; 3]);
    assert_eq!(group.resume(all.clone()).await.failure, None);
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    let mut addresses = BTreeSet::new();
    for id in all {
        addresses.insert(group.connect_info(id).await.unwrap().external_address);
    }
    assert_eq!(addresses.len(), 3);
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn max_size_and_shutdown_are_those_of_all_zones_together() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let few = |configuration: &mut Configuration| {
        configuration.common.zones = zones(&ZONES);
        configuration.common.max_size = 4;
        configuration.common.delete_on_shutdown = true;
    };
    let group = try_start(spreading(), &simulator, folder.path(), few).await.unwrap();
    assert_eq!(group.increase(9).await, Ok(4));
    assert_eq!(group.increase(1).await, Ok(0));
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running; 4]);
    assert_eq!(ZONES.map(|zone| count_in(&simulator, zone)), [2, 1, 1]);
    group.shutdown().await.unwrap();
    let left = simulator.resources();
    assert_eq!((left.servers.len(), left.ips.len(), left.volumes.len()), (0, 0, 0));
    group.stop().await;
}

/// Why a group does not start.
async fn refusal(simulator: &Simulator, change: impl FnOnce(&mut Configuration)) -> String {
    let folder = tempfile::tempdir().unwrap();
    match try_start(policies(), simulator, folder.path(), change).await {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_valid_in_one_zone_only_are_refused_for_the_others_by_name() {
    let simulator = Simulator::new(Options::default());
    let client = client_of(&simulator);
    let make = |path: String, key: &'static str| {
        let client = client.clone();
        async move {
            let project = "22222222-2222-4333-8444-555555555555";
            let body = json!({
                "name": "n",
                "project": project,
                "project_id": project,
                "policy_type": "max_availability",
                "policy_mode": "optional",
            });
            let answer = client.send_raw("POST", &path, Some(body.to_string().into())).await.unwrap();
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            text(if key.is_empty() { &body["id"] } else { &body[key]["id"] })
        }
    };
    let mut security_groups = Vec::new();
    let mut placement_groups = Vec::new();
    for zone in ["fr-par-1", "nl-ams-1"] {
        let path = |kind: &str| format!("/instance/v1/zones/{zone}/{kind}");
        security_groups.push(make(path("security_groups"), "security_group").await);
        placement_groups.push(make(path("placement_groups"), "placement_group").await);
    }
    let mut networks = Vec::new();
    for region in ["fr-par", "nl-ams"] {
        networks.push(make(format!("/vpc/v2/regions/{region}/private-networks"), "").await);
    }
    let both = || zones(&["fr-par-1", "nl-ams-1"]);
    let words = refusal(&simulator, |configuration| {
        configuration.common.zones = both();
        configuration.server.security_group = Some(security_groups[0].clone());
        configuration.server.placement_group = Some(placement_groups[1].clone());
        configuration.server.private_networks = vec![networks[0].clone()];
        configuration.server.image = ImageChoice::Id("99999999-2222-4333-8444-555555555555".to_owned());
    })
    .await;
    for problem in [
        format!("security_group: there is no security group {} in nl-ams-1", security_groups[0]),
        format!("placement_group: there is no placement group {} in fr-par-1", placement_groups[1]),
        format!("private_networks: there is no private network {} in nl-ams, where nl-ams-1 is", networks[0]),
        "image: there is no image 99999999-2222-4333-8444-555555555555 in fr-par-1".to_owned(),
        "image: there is no image 99999999-2222-4333-8444-555555555555 in nl-ams-1".to_owned(),
    ] {
        assert!(words.contains(&problem), "{problem} is not in {words}");
    }
    for wrong in [
        format!("there is no security group {} in fr-par-1", security_groups[0]),
        format!("there is no placement group {} in nl-ams-1", placement_groups[1]),
        format!("there is no private network {} in fr-par,", networks[0]),
    ] {
        assert!(!words.contains(&wrong), "{wrong} is in {words}");
    }
    // One of each zone is what each server gets.
    let folder = tempfile::tempdir().unwrap();
    let of_each = |configuration: &mut Configuration| {
        configuration.common.zones = both();
        let by_zone = |ids: &[String]| both().into_iter().zip(ids.iter().cloned()).collect();
        configuration.zonal.security_groups = by_zone(&security_groups);
        configuration.zonal.placement_groups = by_zone(&placement_groups);
        configuration.zonal.private_networks =
            both().iter().zip(&networks).map(|(zone, network)| (zone.region(), vec![network.clone()])).collect();
    };
    let group = try_start(spreading(), &simulator, folder.path(), of_each).await.unwrap();
    assert_eq!(group.increase(2).await, Ok(2));
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running; 2]);
    for server in &simulator.resources().servers {
        let position = usize::from(server["zone"] == "nl-ams-1");
        assert_eq!(server["security_group"]["id"], security_groups[position]);
        assert_eq!(server["placement_group"]["id"], placement_groups[position]);
        assert_eq!(server["private_nics"][0]["private_network_id"], networks[position]);
        let info = group.connect_info(text(&server["name"])).await.unwrap();
        assert_ne!(info.internal_address, info.external_address, "of its own region's network");
    }
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_type_that_one_zone_lacks_is_left_out_there_and_one_that_all_lack_is_refused() {
    let simulator = Simulator::new(Options::default());
    let in_zones = |types: &'static [&'static str]| {
        move |configuration: &mut Configuration| {
            configuration.common.zones = zones(&["fr-par-1", "pl-waw-1"]);
            configuration.server.types = types.iter().map(|name| (*name).to_owned()).collect();
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let group = try_start(policies(), &simulator, folder.path(), in_zones(&["GP1-XS", "DEV1-S"])).await.unwrap();
    group.stop().await;
    let words = refusal(&simulator, in_zones(&["GP1-XS"])).await;
    assert!(words.contains("server_type: GP1-XS does not exist in pl-waw-1"), "{words}");
    let words = refusal(&simulator, in_zones(&["DEV1-S", "DEV9-S"])).await;
    assert!(words.contains("server_type: DEV9-S exists in none of the zones"), "{words}");
    let words = refusal(&simulator, |configuration| {
        configuration.server.types = vec!["DEV9-S".to_owned()];
        configuration.server.image = ImageChoice::parse("ubuntu_nobel");
    });
    let words = words.await;
    assert!(words.contains("DEV9-S does not exist") && words.contains("ubuntu_nobel"), "all at once: {words}");
    let words = refusal(&simulator, in_zones(&["DEV1-S", "COPARM1-2C-8G"])).await;
    assert!(words.contains("one architecture"), "{words}");
    // Each zone has one of them.
    let words = refusal(&simulator, |configuration| {
        configuration.common.zones = zones(&["nl-ams-1", "fr-par-2"]);
        configuration.server.types = vec!["COPARM1-2C-8G".to_owned(), "MEMORY4-X2C-16G".to_owned()];
    })
    .await;
    assert!(words.contains("those of fr-par-2 are x86_64 and those of nl-ams-1 are arm64"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn a_policy_chooses_the_places_is_told_the_numbers_and_what_it_does_not_place_is_not_created() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (_folder, host) = spreading_host();
    let group = start_in(&ZONES, Arc::clone(&host), &simulator, folder.path()).await;
    simulator.add_fault(fault_in("fr-par-2", "POST", "servers", FaultKind::QuotaExceeded)).unwrap();
    assert_eq!(group.increase(3).await, Ok(3));
    seconds(5).await;
    reported(&group).await;
    assert_eq!(group.increase(1).await, Ok(1));
    seconds(120).await;
    assert_eq!(reported(&group).await, [State::Running; 3]);
    host.flush_decisions();
    let log = host.decisions().unwrap();
    let mut filter = DecisionFilter::default();
    filter.slot = Some(SlotName::Placement);
    let decisions = log.list(&filter).unwrap().decisions;
    assert_eq!(decisions.len(), 2);
    let question = log.show(&decisions[0].id.to_string()).unwrap().question;
    assert_eq!((&question["wanted"], &question["subject"]["group"]), (&json!(1), &json!("ci")));
    let places = question["places"].as_array().unwrap();
    let seen: Vec<_> = places.iter().map(|place| (text(&place["zone"]), place["servers"].clone())).collect();
    assert_eq!(
        seen,
        [("fr-par-1", 1), ("fr-par-2", 0), ("fr-par-3", 1)].map(|(zone, count)| (zone.to_owned(), json!(count)))
    );
    assert_eq!(places[1]["failures"], 1);
    assert_eq!(places[1]["last-failure"]["class"], "quota-exceeded");
    assert!(places[1]["backoff-until"].as_u64().unwrap() > question["now"].as_u64().unwrap());
    assert!(places[0]["price-per-hour"]["micros"].as_u64().unwrap() > 0);
    // The retry policy is told in which zone the creation failed.
    filter.slot = Some(SlotName::Retry);
    let asked: Vec<_> = log.list(&filter).unwrap().decisions;
    let of_the_group: Vec<_> = asked
        .iter()
        .map(|decision| log.show(&decision.id.to_string()).unwrap().question)
        .filter(|question| question["operation"] == "increase-group")
        .collect();
    assert_eq!(of_the_group.len(), 1);
    assert_eq!((&of_the_group[0]["zone"], &of_the_group[0]["server-type"]), (&json!("fr-par-2"), &json!("DEV1-S")));
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_zone_has_its_part_of_the_brake() {
    let folder = tempfile::tempdir().unwrap();
    let simulator = Simulator::new(Options::default());
    let mut seen = None;
    let group = try_start(policies(), &simulator, folder.path(), |configuration| {
        let mut brake = |zone_names: &[&str], servers: u32| {
            configuration.common.zones = zones(zone_names);
            configuration.common.brake.servers = servers;
            configuration.common.brake_of_each_zone().servers
        };
        seen = Some([brake(&ZONES[..1], 5), brake(&ZONES, 5), brake(&ZONES, 2), brake(&ZONES, 0)]);
        configuration.common.zones = zones(&ZONES[..1]);
    })
    .await
    .unwrap();
    assert_eq!(seen, Some([5, 1, 1, 0]));
    group.stop().await;
}

/// The zone answers nothing any more but that it is not there.
fn close(simulator: &Simulator, zone: &str) {
    for product in ["instance", "block"] {
        let path = format!("/{product}/v1/zones/{zone}/**");
        simulator.add_fault(FaultRule::new("*", path, FaultKind::NotFound)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_start_a_closed_zone_holds_the_others_up_for_a_minute_only_and_is_asked_rarely() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    group.stop().await;
    drop(group);
    close(&simulator, "fr-par-3");
    let group = start_in(&ZONES, policies(), &simulator, folder.path()).await;
    assert!(group.update().await.is_err(), "it may be a gateway");
    seconds(61).await;
    let _ = group.update().await;
    let others: BTreeMap<String, State> =
        ids.iter().filter(|(zone, _)| *zone != "fr-par-3").map(|(_, id)| (id.clone(), State::Running)).collect();
    simulator.clear_requests();
    for _ in 0..120 {
        assert_eq!(told_of(&group).await, others, "of what cannot be seen nothing is said, least that it is deleted");
        seconds(10).await;
    }
    let is_list = |path: &str| path == "/instance/v1/zones/fr-par-3/servers";
    let asked = simulator.requests().iter().filter(|call| is_list(&call.path)).count();
    assert!(asked < 20, "{asked} lists in twenty minutes, those of the sweep included");
    assert_eq!(group.increase(2).await, Ok(2));
    seconds(120).await;
    assert_eq!(ZONES.map(|zone| count_in(&simulator, zone)), [3, 1, 1]);
    simulator.clear_faults();
    seconds(600).await;
    assert_eq!(told_of(&group).await.get(&ids["fr-par-3"]), Some(&State::Running), "it is back");
    group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_seen_in_a_zone_before_it_closed_is_told_on_and_a_fresh_group_starts_without_it() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let (group, ids) = one_in_each(&simulator, folder.path()).await;
    close(&simulator, "fr-par-3");
    let all: BTreeMap<String, State> = ids.values().map(|id| (id.clone(), State::Running)).collect();
    for _ in 0..15 {
        seconds(60).await;
        assert_eq!(told_of(&group).await, all);
    }
    group.stop().await;
    drop(group);
    let empty = tempfile::tempdir().unwrap();
    let fresh = |configuration: &mut Configuration| {
        configuration.common.zones = zones(&ZONES);
        configuration.common.group = "others".parse().unwrap();
        configuration.server.group = "others".parse().unwrap();
        configuration.common.owner = Some("others".parse().unwrap());
    };
    let group = try_start(policies(), &simulator, empty.path(), fresh).await.unwrap();
    assert_eq!(told_of(&group).await.len(), 0);
    assert_eq!(group.increase(1).await, Ok(1));
    group.stop().await;
}
