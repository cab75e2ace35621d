//! A stand-in for GitLab's runner: the loop that scales a group by what it is told, as fleeting's source has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_fleeting::protocol::{ConnectorConfig, InstanceGroup, Report, State};
use windlass_fleeting::{Common, Configuration, Dependencies, GroupConfiguration, ScalewayGroup, StartError, ZonalIds};
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
/// Updates that an instance may be missing from before the runner forgets it.
const MAX_MISSED: u32 = 5;

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

/// What the runner knows of an instance.
#[derive(Clone, Debug)]
struct Instance {
    state: State,
    missed: u32,
    asked: Option<Instant>,
}

/// What the runner wants and believes. The demand outlives its process, what it believes does not.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    /// How many instances are wanted.
    pub(crate) demand: usize,
    /// Accepted and never seen.
    pub(crate) pending: usize,
    instances: BTreeMap<String, Instance>,
    /// Instances that were reported as running, ever.
    pub(crate) given: BTreeSet<String>,
    /// Instances whose removal was asked for, ever.
    pub(crate) unwanted: BTreeSet<String>,
    /// Instances that were told to be going, and then to be there again.
    pub(crate) returned: BTreeSet<String>,
}

impl Runner {
    /// One that wants so many instances.
    pub(crate) fn wanting(demand: usize) -> Self {
        Self { demand, ..Self::default() }
    }

    /// A new process knows nothing.
    pub(crate) fn restart(&mut self) {
        self.pending = 0;
        self.instances.clear();
    }

    /// The ids of what it has.
    pub(crate) fn instances(&self) -> BTreeSet<&str> {
        self.instances.keys().map(String::as_str).collect()
    }

    /// An update has arrived.
    pub(crate) fn take(&mut self, reports: &[Report]) {
        for report in reports {
            if matches!(report.state, State::Deleted | State::Timeout) {
                self.instances.remove(&report.instance);
                continue;
            }
            if report.state == State::Running {
                self.given.insert(report.instance.clone());
            }
            match self.instances.get_mut(&report.instance) {
                Some(known) => {
                    if known.state == State::Deleting && report.state != State::Deleting {
                        self.returned.insert(report.instance.clone());
                    }
                    (known.state, known.missed) = (report.state, 0);
                }
                None => {
                    self.pending = self.pending.saturating_sub(1);
                    let instance = Instance { state: report.state, missed: 0, asked: None };
                    self.instances.insert(report.instance.clone(), instance);
                }
            }
        }
        let told: BTreeSet<&str> = reports.iter().map(|report| report.instance.as_str()).collect();
        self.instances.retain(|id, instance| {
            if told.contains(id.as_str()) {
                return true;
            }
            instance.missed += 1;
            instance.state != State::Deleting && instance.asked.is_none() && instance.missed <= MAX_MISSED
        });
    }

    /// Whether it was told last that this one runs.
    pub(crate) fn believes_running(&self, id: &str) -> bool {
        self.instances.get(id).is_some_and(|instance| instance.state == State::Running)
    }

    /// How many more it wants.
    fn missing(&self) -> usize {
        let serving = self.instances.values().filter(|it| it.state != State::Deleting && it.asked.is_none()).count();
        let room = MOST.saturating_sub(self.pending + self.instances.len());
        self.demand.saturating_sub(self.pending + serving).min(room)
    }

    /// Which it wants no more: those that are too many, and those that were asked to go and are still there.
    fn surplus(&self, now: Instant) -> Vec<String> {
        let serving =
            self.instances.iter().filter(|(_, it)| it.state != State::Deleting && it.asked.is_none()).map(|(id, _)| id);
        let too_many = (self.pending + serving.clone().count()).saturating_sub(self.demand);
        let again = self.instances.iter().filter(|(_, it)| {
            it.state != State::Deleting && it.asked.is_some_and(|asked| now.duration_since(asked) >= ASKED_AGAIN)
        });
        serving.take(too_many).chain(again.map(|(id, _)| id)).cloned().collect()
    }

    /// What is not as the runner wants it.
    pub(crate) fn unsettled(&self) -> Option<String> {
        let settled = self.pending == 0
            && self.instances.len() == self.demand
            && self.instances.values().all(|it| it.state == State::Running && it.asked.is_none());
        (!settled).then(|| {
            let states: Vec<String> = self.instances.iter().map(|(id, it)| format!("{id} {}", it.state)).collect();
            format!("the runner wants {}, {} are pending, it has [{}]", self.demand, self.pending, states.join(", "))
        })
    }
}

/// Scales the group until it is dropped.
pub(crate) async fn work(group: Arc<ScalewayGroup>, runner: Arc<Mutex<Runner>>) {
    loop {
        scale(&group, &runner).await;
        let expects = {
            let runner = runner.lock();
            runner.pending > 0 || runner.instances.values().any(|it| it.state != State::Running)
        };
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
        runner.lock().pending += accepted as usize;
    }
    let surplus = runner.lock().surplus(Instant::now());
    if surplus.is_empty() {
        return;
    }
    // Whatever becomes of the call: from here on the instance may go.
    runner.lock().unwanted.extend(surplus.iter().cloned());
    if let Ok(accepted) = group.decrease(surplus).await {
        let mut runner = runner.lock();
        for id in accepted {
            if let Some(instance) = runner.instances.get_mut(&id) {
                instance.asked = Some(Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(runner: &mut Runner, reports: &[(&str, State)]) {
        let reports: Vec<Report> =
            reports.iter().map(|&(id, state)| Report { instance: id.to_owned(), state }).collect();
        runner.take(&reports);
    }

    #[test]
    fn an_instance_is_pending_until_it_is_seen_and_a_first_sight_as_deleted_is_none() {
        let mut runner = Runner { demand: 1, pending: 1, ..Runner::default() };
        told(&mut runner, &[("a", State::Deleted)]);
        assert_eq!((runner.pending, runner.missing()), (1, 0));
        told(&mut runner, &[("a", State::Creating)]);
        assert_eq!(runner.pending, 0);
        assert!(runner.unsettled().is_some());
        told(&mut runner, &[("a", State::Running)]);
        assert_eq!(runner.unsettled(), None);
    }

    #[test]
    fn what_is_left_out_is_forgotten_at_once_where_it_was_going_and_after_five_more_updates_otherwise() {
        let mut runner = Runner { demand: 2, ..Runner::default() };
        told(&mut runner, &[("a", State::Deleting), ("b", State::Running)]);
        told(&mut runner, &[]);
        assert_eq!(runner.instances(), BTreeSet::from(["b"]));
        for _ in 0..4 {
            told(&mut runner, &[]);
        }
        assert_eq!(runner.instances().len(), 1);
        told(&mut runner, &[]);
        assert_eq!(runner.instances().len(), 0);
        assert_eq!(runner.missing(), 2, "its capacity is back");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_much_is_asked_to_go_and_asked_again_when_it_stays() {
        let mut runner = Runner { demand: 0, ..Runner::default() };
        told(&mut runner, &[("a", State::Running)]);
        assert_eq!(runner.surplus(Instant::now()), ["a"]);
        if let Some(instance) = runner.instances.get_mut("a") {
            instance.asked = Some(Instant::now());
        }
        assert!(runner.surplus(Instant::now()).is_empty());
        assert_eq!(runner.surplus(Instant::now() + ASKED_AGAIN), ["a"]);
        told(&mut runner, &[("a", State::Deleting)]);
        assert!(runner.surplus(Instant::now() + ASKED_AGAIN).is_empty(), "it goes");
    }
}
