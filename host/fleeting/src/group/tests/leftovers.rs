//! What a runner's demand costs while removals fail.

use windlass_simulator::ForcedState;

use super::*;

/// What a runner wants in these tests: instances for one job each.
const WANTED: u32 = 3;
/// How many may be left.
const MAX_LEFTOVERS: u32 = 4;

/// A runner's loop over a group, as fleeting has it: each instance is used once.
struct Runner<'a> {
    simulator: &'a Simulator,
    group: ScalewayGroup,
    /// The most servers, and the most addresses, that were there at once.
    most: (usize, usize),
}

impl<'a> Runner<'a> {
    async fn start(simulator: &'a Simulator, folder: &Path) -> Self {
        let change = |configuration: &mut Configuration| {
            configuration.common.max_size = 1_000;
            configuration.common.max_leftovers = MAX_LEFTOVERS;
        };
        let group = try_start(policies(), simulator, folder, change).await.unwrap();
        Self { simulator, group, most: (0, 0) }
    }

    /// Some rounds of the loop, two seconds apart. `before` hears which instances have done their job, before the
    /// runner has them removed. Returns how many run at the end.
    async fn rounds(&mut self, count: u32, before: impl Fn(&[String])) -> usize {
        let mut running = Vec::new();
        for _ in 0..count {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let update = self.group.update().await.unwrap();
            update.delivered.unwrap()();
            let of = |state| move |report: &&crate::protocol::Report| report.state == state;
            running = update.reports.iter().filter(of(State::Running)).map(|report| report.instance.clone()).collect();
            let creating = update.reports.iter().filter(of(State::Creating)).count();
            before(&running);
            self.group.decrease(running.clone()).await.unwrap();
            let demand = WANTED.saturating_sub(u32::try_from(creating).unwrap());
            if demand > 0 {
                self.group.increase(demand).await.unwrap();
            }
            let there = self.simulator.resources();
            self.most = (self.most.0.max(there.servers.len()), self.most.1.max(there.ips.len()));
        }
        running.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_read_lets_no_fleet_grow_since_every_instance_is_removed() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let forbidden = FaultRule::new("GET", "/instance/v1/zones/*/ips", FaultKind::PermissionDenied);
    simulator.add_fault(forbidden).unwrap();
    let mut runner = Runner::start(&simulator, folder.path()).await;
    // Those that are being removed are there as well.
    runner.rounds(75, |_| ()).await;
    let early = runner.most;
    runner.rounds(75, |_| ()).await;
    assert!(runner.most == early && early.0 <= 3 * WANTED as usize, "it wanted {WANTED} and had {:?}", runner.most);
    let mut done = OperationFilter::default();
    done.kind = Some(OperationKind::CleanupServer);
    done.states = vec![OperationState::Done];
    let fleet = fleet(&runner.group);
    let journal = fleet.lifecycle.journal();
    assert!(journal.operations(&done).unwrap().len() > 10, "instances come and go");
    done.states = vec![OperationState::Left];
    assert_eq!(journal.operations(&done).unwrap().len(), 0);
    runner.group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn creations_pause_while_more_is_left_than_may_be_and_go_on_when_it_is_gone() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let mut runner = Runner::start(&simulator, folder.path()).await;
    let lock = |ids: &[String]| {
        for server in simulator.resources().servers {
            if ids.iter().any(|id| server["name"] == id.as_str()) {
                simulator.set_server_state(server["id"].as_str().unwrap(), ForcedState::Locked).unwrap();
            }
        }
    };
    runner.rounds(200, lock).await;
    assert!(runner.most.0 <= (WANTED + MAX_LEFTOVERS) as usize, "it wanted {WANTED} and had {:?}", runner.most);
    assert_eq!(runner.group.increase(1).await, Ok(0), "it is paused");
    let left = simulator.resources().servers;
    assert!(left.len() > MAX_LEFTOVERS as usize, "{}", left.len());
    for server in left {
        simulator.set_server_state(server["id"].as_str().unwrap(), ForcedState::Running).unwrap();
    }
    // An hour is the longest pace of what is left.
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    reported(&runner.group).await;
    assert_eq!(simulator.resources().servers.len(), 0);
    assert_eq!(runner.group.increase(1).await, Ok(1));
    runner.group.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removals_that_hang_count_as_left_and_one_that_failed_long_ago_stops_nothing() {
    let simulator = Simulator::new(Options::default());
    let folder = tempfile::tempdir().unwrap();
    let mut runner = Runner::start(&simulator, folder.path()).await;
    // One server is locked for good, and all else goes well.
    let locked = std::cell::Cell::new(false);
    let lock_one = |ids: &[String]| {
        let server =
            simulator.resources().servers.into_iter().find(|it| ids.iter().any(|id| it["name"] == id.as_str()));
        if let Some(server) = server.filter(|_| !locked.replace(true)) {
            simulator.set_server_state(server["id"].as_str().unwrap(), ForcedState::Locked).unwrap();
        }
    };
    runner.rounds(60, lock_one).await;
    assert!(locked.get());
    let requests = simulator.requests();
    let made = requests.iter().filter(|call| call.method == "POST" && call.path.ends_with("/servers")).count();
    assert!(made > 10, "instances come and go");
    // Then every removal hangs.
    let hangs = FaultKind::Delay(Duration::from_secs(3_600));
    simulator.add_fault(FaultRule::new("DELETE", "/**", hangs)).unwrap();
    runner.most = (0, 0);
    runner.rounds(150, |_| ()).await;
    let in_five_minutes = runner.most;
    runner.rounds(150, |_| ()).await;
    assert_eq!(runner.most, in_five_minutes, "it grows on");
    runner.group.stop().await;
}
