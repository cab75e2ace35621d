//! A stand-in for GitLab's runner: the loop that scales a group by what it is told, with the plugin's own copy of
//! GitLab's provisioner.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_fleeting::protocol::{ConnectorConfig, InstanceGroup, Report, State};
use windlass_fleeting::{
    Common, Configuration, Dependencies, GroupConfiguration, Provisioner, ScalewayGroup, StartError, ZonalIds,
};
use windlass_lifecycle::{AddressKind, ImageChoice, ServerSpecification};
use windlass_scaleway::Zone;

use crate::account::{OWNER, settings, zone};

pub(crate) const GROUP: &str = "runners";
/// The owner of what the group makes.
pub(crate) const GROUP_OWNER: &str = "team-runners";
/// The most instances that the runner asks for.
const MOST: usize = 6;
/// Between two updates while something is expected, and otherwise.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// An instance that was asked to go and is still there is asked for again.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// The folder of the group's journal below its state directory.
pub(crate) fn folder_of_group(state_directory: PathBuf) -> PathBuf {
    state_directory.join("fleeting").join(GROUP)
}

/// What can be configured of a group.
#[derive(Clone, Debug)]
pub(crate) struct GroupShape {
    /// The zones, in the operator's order.
    pub(crate) zones: Vec<Zone>,
    /// The server types, in the order in which they are tried.
    pub(crate) types: Vec<String>,
    /// The most instances.
    pub(crate) max_size: u32,
    /// Whether all go when the runner shuts down.
    pub(crate) delete_on_shutdown: bool,
}

impl Default for GroupShape {
    fn default() -> Self {
        Self { zones: vec![zone()], types: vec!["DEV1-S".to_owned()], max_size: 10, delete_on_shutdown: false }
    }
}

/// Starts the group as the plugin's Init does.
pub(crate) async fn start(
    state_directory: PathBuf,
    shape: &GroupShape,
    dependencies: Dependencies,
) -> Result<ScalewayGroup, StartError> {
    let group: windlass_lifecycle::GroupName = GROUP.parse()?;
    let image = ImageChoice::parse("ubuntu_noble");
    let mut server = ServerSpecification::new(group.clone(), zone(), "DEV1-S", image);
    server.addresses = vec![AddressKind::Ipv4];
    server.types.clone_from(&shape.types);
    let configuration = Configuration {
        common: Common {
            group,
            written_name: GROUP.to_owned(),
            owner: Some(OWNER.parse()?),
            adopt: None,
            settings: settings(),
            zones: shape.zones.clone(),
            max_size: shape.max_size,
            max_leftovers: 10,
            delete_on_shutdown: shape.delete_on_shutdown,
            state_directory,
            shared_state: None,
            policies: windlass_policy::Policies::default(),
            policy_folder: PathBuf::from("."),
            brake: windlass_policy::Brake::default(),
            metrics: None,
            console: None,
        },
        server,
        zonal: ZonalIds::default(),
        watched_tags: Vec::new(),
        max_parallel_creates: 20,
        suspend: false,
    };
    let configuration = GroupConfiguration::Instances(Box::new(configuration));
    // The operator's own credentials: a key would be made anew for each world.
    let connector = ConnectorConfig { use_static_credentials: true, ..ConnectorConfig::default() };
    ScalewayGroup::start_on(configuration, connector, dependencies).await
}

/// What the runner wants and believes. The demand outlives its process, what it believes does not.
#[derive(Debug)]
pub(crate) struct Runner {
    /// How many instances are wanted.
    pub(crate) demand: usize,
    /// What it believes.
    pub(crate) provisioner: Provisioner,
    /// Instances that were reported as running, ever.
    pub(crate) given: BTreeSet<String>,
    /// Instances whose removal was asked for, ever.
    pub(crate) unwanted: BTreeSet<String>,
    /// Instances that were told to be going, and then to be there again.
    pub(crate) returned: BTreeSet<String>,
}

impl Default for Runner {
    fn default() -> Self {
        Self::wanting(0)
    }
}

impl Runner {
    /// One that wants so many instances.
    pub(crate) fn wanting(demand: usize) -> Self {
        Self {
            demand,
            provisioner: Provisioner::new(MOST),
            given: BTreeSet::new(),
            unwanted: BTreeSet::new(),
            returned: BTreeSet::new(),
        }
    }

    /// A new process knows nothing.
    pub(crate) fn restart(&mut self) {
        self.provisioner.restart();
    }

    /// The ids of what it has.
    pub(crate) fn instances(&self) -> BTreeSet<&str> {
        self.provisioner.instances().map(|(id, ..)| id).collect()
    }

    /// An update has arrived.
    pub(crate) fn take(&mut self, reports: &[Report]) {
        for Report { instance, state } in reports {
            if *state == State::Running {
                self.given.insert(instance.clone());
            }
            let is_there = !matches!(state, State::Deleting | State::Deleted | State::Timeout);
            if is_there && self.provisioner.state(instance) == Some(State::Deleting) {
                self.returned.insert(instance.clone());
            }
        }
        self.provisioner.take(reports);
    }

    /// Whether it was told last that this one runs.
    pub(crate) fn believes_running(&self, id: &str) -> bool {
        self.provisioner.state(id) == Some(State::Running)
    }

    /// The ids of those that stay.
    fn serving(&self) -> Vec<String> {
        let stays = |&(_, state, removing): &(&str, State, bool)| state != State::Deleting && !removing;
        self.provisioner.instances().filter(stays).map(|(id, ..)| id.to_owned()).collect()
    }

    /// How many more it wants.
    fn missing(&self) -> usize {
        let has = self.provisioner.pending() + self.serving().len();
        self.demand.saturating_sub(has).min(self.provisioner.room())
    }

    /// Which it wants no more: those that are too many, and those that were asked to go and are still there.
    fn surplus(&mut self, now: Instant) -> Vec<String> {
        let serving = self.serving();
        let too_many = (self.provisioner.pending() + serving.len()).saturating_sub(self.demand);
        for id in serving.iter().take(too_many) {
            self.provisioner.delete(id);
        }
        self.provisioner.removals(now, ASKED_AGAIN)
    }

    /// What is not as the runner wants it.
    pub(crate) fn unsettled(&self) -> Option<String> {
        let instances = self.provisioner.instances();
        let settled = self.provisioner.pending() == 0
            && instances.len() == self.demand
            && self.provisioner.instances().all(|(_, state, removing)| state == State::Running && !removing);
        (!settled).then(|| {
            let states: Vec<String> = instances.map(|(id, state, _)| format!("{id} {state}")).collect();
            let pending = self.provisioner.pending();
            format!("the runner wants {}, {pending} are pending, it has [{}]", self.demand, states.join(", "))
        })
    }
}

/// Scales the group until it is dropped.
pub(crate) async fn work(group: Arc<ScalewayGroup>, runner: Arc<Mutex<Runner>>) {
    loop {
        scale(&group, &runner).await;
        let expects = runner.lock().provisioner.expects();
        tokio::time::sleep(if expects { INTERVALS.0 } else { INTERVALS.1 }).await;
    }
}

async fn scale(group: &ScalewayGroup, runner: &Mutex<Runner>) {
    // Where nothing can be said about the group, a whole round is skipped.
    let Ok(update) = group.update().await else { return };
    runner.lock().take(&update.reports);
    if let Some(delivered) = update.delivered {
        delivered();
    }
    let missing = runner.lock().missing();
    if missing > 0
        && let Ok(accepted) = group.increase(u32::try_from(missing).unwrap_or(0)).await
    {
        runner.lock().provisioner.increased(accepted as usize);
    }
    let surplus = runner.lock().surplus(Instant::now());
    if surplus.is_empty() {
        return;
    }
    // Whatever becomes of the call: from here on the instance may go.
    runner.lock().unwanted.extend(surplus.iter().cloned());
    if let Ok(accepted) = group.decrease(surplus).await {
        runner.lock().provisioner.removal_accepted(&accepted, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(runner: &mut Runner, reports: &[(&str, State)]) {
        let reports: Vec<Report> =
            reports.iter().map(|&(id, state)| Report { instance: id.to_owned(), state }).collect();
        runner.take(&reports);
    }

    #[tokio::test(start_paused = true)]
    async fn it_asks_for_what_is_missing_and_has_what_is_too_much_removed() {
        let mut runner = Runner::wanting(2);
        assert_eq!(runner.missing(), 2);
        runner.provisioner.increased(1);
        assert_eq!(runner.missing(), 1);
        reported(&mut runner, &[("a", State::Creating)]);
        assert_eq!(runner.missing(), 1);
        assert!(runner.unsettled().is_some());
        reported(&mut runner, &[("a", State::Running), ("b", State::Running)]);
        assert_eq!((runner.missing(), runner.unsettled()), (0, None));
        runner.demand = 1;
        assert_eq!(runner.surplus(Instant::now()), ["a"]);
        runner.provisioner.removal_accepted(&["a".to_owned()], Instant::now());
        assert!(runner.surplus(Instant::now()).is_empty());
        reported(&mut runner, &[("a", State::Deleting), ("b", State::Running)]);
        reported(&mut runner, &[("b", State::Running)]);
        assert_eq!(runner.unsettled(), None);
        reported(&mut runner, &[("b", State::Deleting)]);
        reported(&mut runner, &[("b", State::Running)]);
        assert_eq!(runner.returned, BTreeSet::from(["b".to_owned()]));
    }
}
