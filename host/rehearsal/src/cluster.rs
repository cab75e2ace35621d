//! A cluster in a scenario: the real engine with what its operator asks for, and hooks that are assumed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_cluster::{
    ClusterControl, ClusterOptions, ClusterSpecification, ClusterState, ClusterStatus, Clusters, Error, Hook,
    HookFailure, HookInput, HookOutput, HookProblem, LogClusterStore, NodeObservation, RunHooks, ScaleRequest,
};
use windlass_contract::meant;
use windlass_fleeting::{ClusterConduct, Counted, RehearsalError, Rehearser, Scale, Scenario, WaitTimes};
use windlass_lifecycle::{Journal, OperationFilter, OperationKind, OperationState, Requester};
use windlass_policy::Policies;
use windlass_policy::slots::provisioning::Stage;
use windlass_policy::slots::types::FailureClass;
use windlass_simulator::IMAGE_LABELS;

use crate::outcome::{ArmKind, ClusterChange, ClusterOutcome, Outcome};
use crate::run::RehearsedArm;

/// How the rehearsal of a cluster differs from what will be, beside what is simulated of Scaleway.
const SIMPLIFIED: [&str; 2] = [
    "hooks are not run: they take the time and fail at the rate that the scenario says; by default they take no time and \
     succeed",
    "the operator asks for one thing after the other, and terminates the cluster at the end, with --force if that fails",
];
/// The image that replaces images of the user's own account.
const IMAGE: &str = "ubuntu_noble";
/// How long the operator waits until a failed termination is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// How long the end may take.
const REST: Duration = Duration::from_secs(2 * 3_600);

/// A cluster as it is to be, and the policies that decide about it.
#[derive(Clone)]
pub struct ClusterArm {
    specification: ClusterSpecification,
    policies: Policies,
    notes: Vec<String>,
}

impl ClusterArm {
    /// The cluster of a specification, under these policies, whose paths are absolute. What only the user's account has
    /// is replaced or left out.
    #[must_use]
    pub fn new(mut specification: ClusterSpecification, policies: Policies) -> Self {
        let (mut notes, mut left_out) = (Vec::new(), BTreeSet::new());
        specification.project = None;
        for (name, group) in &mut specification.groups {
            if !IMAGE_LABELS.contains(&group.image.as_str()) {
                notes.push(format!(
                    "groups.{name}.image: the simulator has no {:?}, so it uses {IMAGE}; `windlass cluster validate` says \
                     whether Scaleway has it",
                    group.image
                ));
                group.image = IMAGE.to_owned();
            }
            let keys = [
                ("placement_group", group.placement_group.take().is_some()),
                ("private_networks", !std::mem::take(&mut group.private_networks).is_empty()),
                ("security_group", group.security_group.take().is_some()),
            ];
            left_out.extend(keys.iter().filter(|(_, is_set)| *is_set).map(|(key, _)| *key));
        }
        if !left_out.is_empty() {
            notes.push(format!("{}: of your account, and left out", Vec::from_iter(left_out).join(", ")));
        }
        Self { specification, policies, notes }
    }

    /// What is wrong with the scenario for this cluster.
    fn problems(&self, scenario: &Scenario) -> Vec<String> {
        let (mut problems, mut wanted) = (Vec::new(), self.specification.clone());
        for (index, scale) in scenario.scales.iter().enumerate() {
            for name in scale.groups.keys() {
                let known = wanted.groups.keys().map(|known| known.as_str());
                if known.clone().all(|known| known != name) {
                    problems.push(format!(
                        "scale[{index}].groups.{name}: the cluster has no such group{}",
                        meant(name, known)
                    ));
                }
            }
            set_counts(&mut wanted, scale);
            let found = wanted.problems();
            problems.extend(found.iter().map(|found| format!("scale[{index}].groups: {}", found.words)));
        }
        problems
    }
}

impl RehearsedArm for ClusterArm {
    const KIND: ArmKind = ArmKind::Cluster;

    fn time_zone(&self) -> Option<String> {
        None
    }

    fn rehearse(&self, scenario: &Scenario, seed: u64, rehearser: &Rehearser) -> Result<Outcome, RehearsalError> {
        self.rehearse_and_read(scenario, seed, rehearser, async |_| ()).map(|(outcome, ())| outcome)
    }
}

impl ClusterArm {
    /// What comes of it in a scenario with a seed, and what is read from the journal at its end.
    ///
    /// # Errors
    /// As those of [`RehearsedArm::rehearse`].
    pub fn rehearse_and_read<T>(
        &self,
        scenario: &Scenario,
        seed: u64,
        rehearser: &Rehearser,
        read: impl AsyncFnOnce(&Journal) -> T,
    ) -> Result<(Outcome, T), RehearsalError> {
        let rehearsed = rehearser.rehearse_with(scenario, seed, async |mut course| {
            let Self { specification, policies, notes } = self;
            let name = specification.name.as_str();
            let (client, policies, lifecycle) = course.lifecycle(policies).await?;
            let store = Arc::new(LogClusterStore::of(lifecycle.journal()));
            let mut options = ClusterOptions::new(lifecycle.clone(), client.clone(), policies, store);
            let conduct = scenario.cluster.clone().unwrap_or_default();
            let (repair_every, exists) = (conduct.repair_every.map(|every| every.0), conduct.exists);
            options.hooks = Arc::new(AssumedHooks { seed, conduct });
            let clusters = Clusters::new(options);
            let mut problems = self.problems(scenario);
            match clusters.validate(specification).await {
                // A shortage is the scenario's.
                Ok(found) => problems.extend(
                    found
                        .into_iter()
                        .filter(|it| matches!(it.class, FailureClass::InvalidArguments | FailureClass::NotFound))
                        .map(|failure| failure.message),
                ),
                Err(error) => problems.push(error.to_string()),
            }
            if !problems.is_empty() {
                return Err(RehearsalError::wrong(name, problems));
            }
            let types: Vec<String> = specification.groups.values().flat_map(|group| group.types.clone()).collect();
            course.begin(&client, &specification.zone, &types).await?;
            let mut scales = scenario.scales.clone();
            scales.sort_by_key(|scale| scale.at);
            let mut operator = Operator {
                clusters: &clusters,
                wanted: specification.clone(),
                origin: course.origin(),
                starts_at: course.starts_at(),
                end: scenario.length(),
                scales: scales.into(),
                repair_every,
                exists,
                whole: None,
                growth: BTreeMap::new(),
                failed: BTreeMap::new(),
                refused: BTreeSet::new(),
                outcome: ClusterOutcome::default(),
            };
            // Boxed: the engine's futures are large, and this one would be on the thread's stack.
            course.beside(Box::pin(operator.operate())).await;
            let end = course.origin() + scenario.length() + REST;
            while !course.is_empty() && Instant::now() < end {
                course.beside(sleep(AGAIN)).await;
            }
            let mut notes = notes.clone();
            notes.extend(operator.refused.iter().cloned());
            let journal = lifecycle.journal();
            let (cluster, read) = (operator.outcome(journal)?, read(journal).await);
            Ok((course.outcome(name, journal, notes, &SIMPLIFIED)?, (cluster, read)))
        });
        rehearsed.map(|(outcome, (cluster, read))| (Outcome::of_cluster(outcome, cluster), read))
    }
}

/// Changes how many nodes groups are to have.
fn set_counts(wanted: &mut ClusterSpecification, scale: &Scale) {
    for (name, group) in &mut wanted.groups {
        group.count = scale.groups.get(name.as_str()).copied().unwrap_or(group.count);
    }
}

/// The nodes whose servers are off: nobody but their operator knows whether they may go.
fn off(status: &ClusterStatus) -> BTreeSet<String> {
    let seen = status.seen.iter().flat_map(|seen| &seen.nodes);
    let is_off = |node: &&NodeObservation| node.state.as_deref().is_some_and(|state| state.starts_with("stopped"));
    seen.filter(is_off).map(|node| node.node.clone()).collect()
}

/// The operator, who creates, scales, repairs and terminates the cluster.
struct Operator<'c> {
    clusters: &'c Clusters,
    /// The cluster as it is wanted now.
    wanted: ClusterSpecification,
    origin: Instant,
    /// Milliseconds since 1970.
    starts_at: u64,
    /// When the cluster is terminated.
    end: Duration,
    /// What is still to come, the next one first.
    scales: VecDeque<Scale>,
    repair_every: Option<Duration>,
    /// Whether its creation is before the scenario.
    exists: bool,
    /// The cluster as it was wanted when it was whole the last time.
    whole: Option<ClusterSpecification>,
    /// By the number of an operation, for how many nodes more than there were before it began.
    growth: BTreeMap<u64, usize>,
    /// By operation, stage and cause.
    failed: BTreeMap<String, usize>,
    /// What was refused before it began.
    refused: BTreeSet<String>,
    outcome: ClusterOutcome,
}

impl Operator<'_> {
    /// From the creation to the termination.
    async fn operate(&mut self) {
        while let Some(scale) = self.scales.pop_front_if(|scale| scale.at.0.is_zero()) {
            set_counts(&mut self.wanted, &scale);
        }
        self.change(Duration::ZERO).await;
        let mut looks_at = self.repair_every;
        loop {
            let scales_at = self.scales.front().map(|scale| scale.at.0);
            let next = scales_at.into_iter().chain(looks_at).chain([self.end]).min().unwrap_or(self.end);
            sleep_until(self.origin + next).await;
            if self.origin.elapsed() >= self.end {
                break;
            }
            if let Some(scale) = self.scales.pop_front_if(|scale| scale.at.0 <= next) {
                set_counts(&mut self.wanted, &scale);
                self.change(scale.at.0).await;
            } else if let Some(every) = self.repair_every {
                self.look().await;
                looks_at = Some(self.origin.elapsed() + every);
            }
        }
        let waited = |at: u64| self.now().saturating_sub(at);
        let never: Vec<u64> = self.outcome.changes.iter().map(|change| waited(change.at)).collect();
        for (change, waited) in self.outcome.changes.iter_mut().zip(never).filter(|(change, _)| !change.is_ready) {
            change.waited_ms = waited;
        }
        self.terminate().await;
    }

    fn now(&self) -> u64 {
        self.starts_at + milliseconds(self.origin.elapsed())
    }

    /// Asks for the cluster as it is wanted from this time on.
    async fn change(&mut self, at: Duration) {
        let at = self.starts_at + milliseconds(at);
        self.outcome.changes.push(ClusterChange { at, is_ready: false, waited_ms: 0 });
        self.apply(BTreeSet::new()).await;
    }

    /// Looks at the cluster, and repairs it.
    async fn look(&mut self) {
        let is_missing = self.outcome.changes.iter().any(|change| !change.is_ready);
        let (is_wrong, off) = match self.clusters.refresh(&self.wanted.name).await {
            Ok(status) => (status.cluster.state != ClusterState::Active, off(&status)),
            Err(Error::Unknown { .. }) => (true, BTreeSet::new()),
            Err(error) => {
                self.refused.insert(format!("cluster refresh was refused: {error}"));
                (false, BTreeSet::new())
            }
        };
        if is_missing || is_wrong {
            self.outcome.repairs += 1;
            self.apply(off).await;
        }
    }

    /// Brings the cluster to what is wanted, as `windlass cluster apply` does, or replaces these nodes as well. If the
    /// end comes first, the cluster is deleted meanwhile.
    async fn apply(&mut self, replace: BTreeSet<String>) {
        let (control, name) = (ClusterControl::new(), self.wanted.name.clone());
        let counts = self.wanted.groups.iter().map(|(name, group)| (name.clone(), group.count)).collect();
        let request = ScaleRequest { counts, replace, ..ScaleRequest::default() };
        let ended = {
            let mut operation = match request.replace.is_empty() {
                true => self.clusters.apply(&self.wanted, &control).boxed(),
                false => self.clusters.scale(&name, &request, &control).boxed(),
            };
            tokio::select! {
                biased;
                ended = &mut operation => ended,
                () = sleep_until(self.origin + self.end) => {
                    tokio::join!(operation, Box::pin(self.clusters.terminate(&name, false, &control))).0
                }
            }
        };
        self.outcome.operations += 1;
        let number = match &ended {
            Ok(ended) => Some(ended.number),
            Err(Error::Failed(failed)) => Some(failed.number),
            Err(_) => None,
        };
        self.growth.extend(number.map(|number| (number, self.wanted_more())));
        match ended {
            Ok(ended) if ended.cluster.as_ref().is_some_and(|cluster| cluster.state == ClusterState::Active) => {
                self.whole = Some(self.wanted.clone());
                let now = self.now();
                for change in self.outcome.changes.iter_mut().filter(|change| !change.is_ready) {
                    (change.is_ready, change.waited_ms) = (true, now.saturating_sub(change.at));
                }
            }
            Ok(_) => {}
            Err(error) => self.note(&error),
        }
    }

    /// How many nodes more are wanted than when the cluster was whole.
    fn wanted_more(&self) -> usize {
        let there = |name| self.whole.as_ref().and_then(|whole| whole.groups.get(name)).map_or(0, |group| group.count);
        self.wanted.groups.iter().map(|(name, group)| group.count.saturating_sub(there(name)) as usize).sum()
    }

    async fn terminate(&mut self) {
        let mut force = false;
        while self.origin.elapsed() < self.end + REST {
            match Box::pin(self.clusters.terminate(&self.wanted.name, force, &ClusterControl::new())).await {
                Err(Error::Unknown { .. }) => return,
                Ok(_) => {
                    self.outcome.operations += 1;
                    return;
                }
                Err(error) => {
                    self.outcome.operations += 1;
                    self.note(&error);
                }
            }
            force = true;
            sleep(AGAIN).await;
        }
    }

    fn note(&mut self, error: &Error) {
        match error {
            Error::Failed(failed) => {
                let class = serde_json::to_value(failed.cause.class).unwrap_or_default();
                let class = class.as_str().unwrap_or("unknown");
                let what = format!("{} at {}: {class}", failed.kind, failed.stage);
                *self.failed.entry(what).or_default() += 1;
            }
            error => {
                self.refused.insert(error.to_string());
            }
        }
    }

    /// What was done with the cluster, which is gone.
    fn outcome(self, journal: &Journal) -> Result<ClusterOutcome, RehearsalError> {
        let mut created: BTreeMap<u64, usize> = BTreeMap::new();
        for operation in journal.operations(&OperationFilter::default())? {
            let is_created = operation.kind == OperationKind::CreateServer && operation.state == OperationState::Done;
            if let Some(Requester::Cluster { operation, .. }) = operation.requested_by().map(|by| by.requester)
                && is_created
            {
                *created.entry(operation).or_default() += 1;
            }
        }
        let mut outcome = self.outcome;
        let more = |number| self.growth.get(number).copied().unwrap_or_default();
        outcome.replaced = created.iter().map(|(number, created)| created.saturating_sub(more(number))).sum();
        let waited =
            outcome.changes.iter().skip(usize::from(self.exists)).map(|change| Duration::from_millis(change.waited_ms));
        outcome.ready = WaitTimes::of(waited.collect());
        outcome.failed_operations = self.failed.into_iter().map(|(name, count)| Counted { name, count }).collect();
        Ok(outcome)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Runs no hooks: they take their time, and end well or not.
#[derive(Debug)]
struct AssumedHooks {
    seed: u64,
    conduct: ClusterConduct,
}

#[async_trait]
impl RunHooks for AssumedHooks {
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        // The same run of all arms draws the same.
        let run = format!("{} {:?} {}", input.operation_number, input.stage, input.attempt);
        let seed = run.bytes().fold(self.seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let conduct = &self.conduct;
        let of_stage = match input.stage {
            Stage::Decommission => &conduct.decommission,
            Stage::Configure => &conduct.configure,
            _ => &conduct.start,
        };
        let of_stage = of_stage.clone().unwrap_or_default();
        let (shortest, longest) = of_stage.hook_seconds.or(conduct.hook_seconds).unwrap_or_default();
        let time = Duration::from_secs(random.random_range(shortest..=longest).into());
        let fails = random.random_range(0.0..1.0) < of_stage.failed_hooks.or(conduct.failed_hooks).unwrap_or_default();
        sleep(time.min(hook.time_limit)).await;
        let problem = match fails {
            _ if time > hook.time_limit => HookProblem::TimedOut(hook.time_limit),
            true => HookProblem::ExitCode(1),
            false => return Ok(HookOutput::default()),
        };
        Err(Box::new(HookFailure { hook: hook.to_string(), problem, output: HookOutput::default() }))
    }
}
