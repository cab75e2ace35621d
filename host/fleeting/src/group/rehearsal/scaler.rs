//! What stands above GitLab's provisioner in a runner, taskscaler: it gives jobs to instances, asks for more, and
//! removes what is idle or worn. Its source cannot be had as a module; the rules here are those of the runner's
//! documentation (`advanced-configuration.md`, "The `[[runners.autoscaler.policy]]` sections") and of how the runner
//! uses it (`executors/internal/autoscaler/provider.go`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::autoscaling::{Autoscaling, Idle};
use super::provisioner::Provisioner;
use crate::protocol::{Failure, InstanceGroup, State};

/// A job that has not started.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    came: Instant,
    /// When the runner took it.
    taken: Instant,
    length: Duration,
}

/// What the scaler knows of an instance.
#[derive(Debug)]
struct Slot {
    running_since: Option<Instant>,
    ready: bool,
    /// When each running job ends.
    jobs: Vec<Instant>,
    uses: u32,
    /// Failed heartbeats in a row.
    failures: u32,
    idle_since: Instant,
    deleted: bool,
}

/// Totals so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// How long each job waited that has begun.
    pub(super) waited: Vec<Duration>,
    pub(super) finished: usize,
    /// Jobs that timed out while they waited for an instance.
    pub(super) timed_out: usize,
    /// Jobs whose instance disappeared.
    pub(super) lost: usize,
    /// Instances that an update listed.
    pub(super) created: usize,
    /// Instances that disappeared before they ran, although the runner did not remove them.
    pub(super) failed: usize,
    /// By the call of the plugin: how often it failed, and with which error the last time.
    pub(super) failed_calls: BTreeMap<&'static str, (usize, String)>,
}

impl Counts {
    pub(super) fn call_failed(&mut self, call: &'static str, failure: &Failure) {
        let (count, last) = self.failed_calls.entry(call).or_default();
        *count += 1;
        last.clone_from(&failure.0);
    }
}

/// The runner's scaler.
pub(super) struct Scaler {
    pub(super) rules: Autoscaling,
    /// Jobs that wait at GitLab.
    queue: VecDeque<Waiting>,
    /// Jobs that the runner has taken and that wait for an instance.
    taken: VecDeque<Waiting>,
    slots: BTreeMap<String, Slot>,
    /// The number of the provisioner's last update that was seen.
    seen: u64,
    pub(super) counts: Counts,
}

impl Scaler {
    pub(super) fn new(rules: Autoscaling) -> Self {
        Self {
            rules,
            queue: VecDeque::new(),
            taken: VecDeque::new(),
            slots: BTreeMap::new(),
            seen: 0,
            counts: Counts::default(),
        }
    }

    /// A job has come.
    pub(super) fn come(&mut self, came: Instant, length: Duration) {
        self.queue.push_back(Waiting { came, taken: came, length });
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len() + self.taken.len()
    }

    pub(super) fn running(&self) -> usize {
        self.slots.values().map(|slot| slot.jobs.len()).sum()
    }

    /// Instances on which a job runs.
    pub(super) fn used(&self) -> usize {
        self.slots.values().filter(|slot| !slot.jobs.is_empty()).count()
    }

    /// One round.
    pub(super) async fn tick(
        &mut self,
        now: Instant,
        idle: Idle,
        provisioner: &mut Provisioner,
        group: &impl InstanceGroup,
    ) {
        // Between two updates, only this scaler changes what the provisioner knows.
        if std::mem::replace(&mut self.seen, provisioner.updates()) != provisioner.updates() {
            self.see(now, provisioner);
        }
        self.finish(now, provisioner);
        self.prepare(now, provisioner, group).await;
        self.take(now, idle);
        self.assign(now, provisioner, group).await;
        self.scale(now, idle, provisioner);
    }

    /// Learns which instances exist.
    fn see(&mut self, now: Instant, provisioner: &Provisioner) {
        let mut there = BTreeSet::new();
        let counts = &mut self.counts;
        for (id, state, removing) in provisioner.instances() {
            there.insert(id);
            let slot = self.slots.entry(id.to_owned()).or_insert_with(|| {
                counts.created += 1;
                Slot::new(now)
            });
            match state {
                // A creation can fail before the first update lists it.
                State::Deleting => slot.disappear(counts),
                State::Running if slot.running_since.is_none() || slot.deleted && !removing => {
                    *slot = Slot { running_since: Some(now), ..Slot::new(now) };
                }
                _ => {}
            }
        }
        self.slots.retain(|id, slot| {
            let exists = there.contains(id.as_str());
            if !exists {
                slot.disappear(counts);
            }
            exists
        });
    }

    fn finish(&mut self, now: Instant, provisioner: &mut Provisioner) {
        for (id, slot) in &mut self.slots {
            let before = slot.jobs.len();
            slot.jobs.retain(|ends| *ends > now);
            let ended = before - slot.jobs.len();
            if ended > 0 {
                self.counts.finished += ended;
                slot.idle_since = now;
            }
            if self.rules.is_worn(slot.uses) && slot.jobs.is_empty() && !slot.deleted {
                slot.delete(id, provisioner);
            }
        }
    }

    /// Waits until an instance is ready, then asks the plugin how to connect to it.
    async fn prepare(&mut self, now: Instant, provisioner: &mut Provisioner, group: &impl InstanceGroup) {
        for (id, slot) in &mut self.slots {
            let due = slot.running_since.is_some_and(|since| now.duration_since(since) >= self.rules.ready_after);
            if slot.ready || slot.deleted || !due {
                continue;
            }
            match group.connect_info(id.clone()).await {
                Ok(_) => slot.ready = true,
                Err(failure) => {
                    self.counts.call_failed("connect_info", &failure);
                    slot.delete(id, provisioner);
                }
            }
        }
    }

    /// Takes jobs from GitLab: as many as instances may exist for; in preemptive mode only as many as instances are
    /// free for.
    fn take(&mut self, now: Instant, idle: Idle) {
        let most = match self.rules.max_instances {
            0 => usize::MAX,
            most => (most as usize).saturating_mul(self.rules.capacity()),
        };
        let waiting_slots = self.slots.values().filter(|slot| slot.ready).map(|slot| slot.free(&self.rules)).sum();
        let mut has = self.running() + self.taken.len();
        while has < most.min(self.rules.most_jobs) && !(idle.preemptive && self.taken.len() >= waiting_slots) {
            let Some(job) = self.queue.pop_front() else { return };
            self.taken.push_back(Waiting { taken: now, ..job });
            has += 1;
        }
    }

    /// Assigns jobs to instances. A job that has waited too long fails.
    async fn assign(&mut self, now: Instant, provisioner: &mut Provisioner, group: &impl InstanceGroup) {
        for (id, slot) in &mut self.slots {
            while slot.ready && slot.free(&self.rules) > 0 {
                let Some(job) = self.taken.front().copied() else { break };
                if let Err(failure) = group.heartbeat(id.clone()).await {
                    self.counts.call_failed("heartbeat", &failure);
                    slot.failures += 1;
                    if slot.failures >= self.rules.failure_threshold {
                        slot.delete(id, provisioner);
                    }
                    break;
                }
                self.taken.pop_front();
                slot.failures = 0;
                slot.uses += 1;
                slot.jobs.push(now + job.length);
                self.counts.waited.push(now.duration_since(job.came));
            }
        }
        let before = self.taken.len();
        self.taken.retain(|job| now.duration_since(job.taken) < self.rules.instance_acquire_timeout);
        self.counts.timed_out += before - self.taken.len();
    }

    /// Requests missing instances, and removes those that were idle for too long.
    fn scale(&mut self, now: Instant, idle: Idle, provisioner: &mut Provisioner) {
        let capacity = self.rules.capacity();
        let wanted = self.taken.len() + idle.target(self.running());
        let awaited = provisioner.awaited();
        let mut free: usize =
            self.slots.values().map(|slot| slot.free(&self.rules)).sum::<usize>() + awaited * capacity;
        let missing = wanted.saturating_sub(free).div_ceil(capacity);
        let room = (provisioner.room() + provisioner.pending()).saturating_sub(awaited);
        provisioner.request(missing.min(room));
        let mut unused: Vec<(&String, &mut Slot)> =
            self.slots.iter_mut().filter(|(_, slot)| slot.ready && !slot.deleted && slot.jobs.is_empty()).collect();
        unused.sort_by_key(|(_, slot)| slot.idle_since);
        for (id, slot) in unused {
            let room = slot.free(&self.rules);
            if now.duration_since(slot.idle_since) >= idle.time && free >= wanted + room {
                free -= room;
                slot.delete(id, provisioner);
            }
        }
    }
}

impl Slot {
    fn new(now: Instant) -> Self {
        Self {
            running_since: None,
            ready: false,
            jobs: Vec::new(),
            uses: 0,
            failures: 0,
            idle_since: now,
            deleted: false,
        }
    }

    fn free(&self, rules: &Autoscaling) -> usize {
        if self.deleted { 0 } else { rules.free(self.jobs.len(), self.uses) }
    }

    /// The instance is gone, or is being deleted. Its jobs are lost.
    fn disappear(&mut self, counts: &mut Counts) {
        counts.lost += self.jobs.drain(..).len();
        counts.failed += usize::from(self.running_since.is_none() && !self.deleted);
        self.deleted = true;
    }

    fn delete(&mut self, id: &str, provisioner: &mut Provisioner) {
        self.deleted = true;
        provisioner.delete(id);
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use bytes::Bytes;

    use super::*;
    use crate::group::runner_file::RunnerFile;
    use crate::protocol::{ConnectInfo, ConnectorConfig, Failure, Partial, ProviderInfo, Report, Update};

    /// A group whose instances are all healthy, or all sick.
    struct Group {
        healthy: bool,
    }

    #[async_trait]
    impl InstanceGroup for Group {
        async fn init(&self, _: Bytes, _: ConnectorConfig) -> Result<ProviderInfo, Failure> {
            Err(Failure("it is not asked".to_owned()))
        }
        async fn update(&self) -> Result<Update, Failure> {
            Ok(Update::of([], || {}))
        }
        async fn increase(&self, _: u32) -> Result<u32, Failure> {
            Ok(0)
        }
        async fn decrease(&self, _: Vec<String>) -> Result<Vec<String>, Failure> {
            Ok(Vec::new())
        }
        async fn connect_info(&self, _: String) -> Result<ConnectInfo, Failure> {
            Ok(ConnectInfo::default())
        }
        async fn heartbeat(&self, _: String) -> Result<(), Failure> {
            if self.healthy { Ok(()) } else { Err(Failure("it is sick".to_owned())) }
        }
        async fn suspend(&self, _: Vec<String>) -> Partial {
            Partial::default()
        }
        async fn resume(&self, _: Vec<String>) -> Partial {
            Partial::default()
        }
        async fn shutdown(&self) -> Result<(), Failure> {
            Ok(())
        }
    }

    struct Runner {
        scaler: Scaler,
        provisioner: Provisioner,
        group: Group,
        now: Instant,
    }

    impl Runner {
        fn new(autoscaler: &str) -> Self {
            let text = format!("concurrent = 50\n[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\n{autoscaler}");
            let file = RunnerFile::parse(&text).unwrap();
            let mut problems = Vec::new();
            let rules = Autoscaling::read(&file, file.group(None).unwrap(), None, &mut problems);
            assert!(problems.is_empty(), "{problems:?}");
            let provisioner = Provisioner::new(10);
            Self { scaler: Scaler::new(rules), provisioner, group: Group { healthy: true }, now: Instant::now() }
        }

        /// So many jobs come, each of a minute.
        fn come(&mut self, count: usize) {
            (0..count).for_each(|_| self.scaler.come(self.now, Duration::from_secs(60)));
        }

        /// The plugin says that these run, and time passes.
        async fn pass(&mut self, running: &[&str], seconds: u64) {
            let report = |id: &&str| Report { instance: (*id).to_owned(), state: State::Running };
            self.provisioner.take(&running.iter().map(report).collect::<Vec<_>>());
            for _ in 0..seconds.max(1) {
                let idle = self.scaler.rules.idle_at("2026-08-03T12:00:00Z".parse().unwrap());
                self.scaler.tick(self.now, idle, &mut self.provisioner, &self.group).await;
                self.now += Duration::from_secs(u64::from(seconds > 0));
            }
        }

        fn removed(&self) -> Vec<String> {
            self.provisioner.removals(self.now, Duration::from_secs(60))
        }
    }

    const IDLE: &str = "[[runners.autoscaler.policy]]\nidle_count = 2\nidle_time = '5m'\n";

    #[tokio::test(start_paused = true)]
    async fn a_job_asks_for_an_instance_and_in_preemptive_mode_only_idle_ones_are_asked_for() {
        let mut plain = Runner::new("capacity_per_instance = 2\n");
        plain.come(5);
        plain.pass(&[], 0).await;
        assert_eq!((plain.provisioner.demand(), plain.scaler.waiting()), (3, 5));
        let mut preemptive = Runner::new(IDLE);
        preemptive.come(5);
        preemptive.pass(&[], 0).await;
        assert_eq!(preemptive.provisioner.demand(), 2, "as many as are to be idle");
        preemptive.provisioner.increased(2);
        preemptive.pass(&["a", "b"], 0).await;
        preemptive.pass(&["a", "b"], 0).await;
        assert_eq!((preemptive.scaler.running(), preemptive.scaler.waiting()), (2, 3));
        assert_eq!(preemptive.provisioner.demand(), 2, "two are to be idle beside those that work");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_instance_has_no_room_for_more_jobs_than_it_may_ever_run() {
        let mut runner = Runner::new("capacity_per_instance = 4\nmax_use_count = 2\n");
        runner.come(5);
        runner.pass(&[], 0).await;
        assert_eq!(runner.provisioner.demand(), 3);
        runner.provisioner.increased(3);
        runner.pass(&[], 0).await;
        assert_eq!(runner.provisioner.awaited(), 3, "the instances that come are enough");
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_that_fails_before_the_first_update_is_counted_once() {
        let mut runner = Runner::new("");
        let report = Report { instance: "a".to_owned(), state: State::Deleting };
        runner.provisioner.take(&[report]);
        for _ in 0..3 {
            runner.scaler.tick(runner.now, Idle::default(), &mut runner.provisioner, &runner.group).await;
        }
        runner.provisioner.take(&[]);
        runner.scaler.tick(runner.now, Idle::default(), &mut runner.provisioner, &runner.group).await;
        let Counts { lost, failed, created, .. } = runner.scaler.counts;
        assert_eq!((lost, failed, created), (0, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_the_runner_took_fails_when_no_instance_comes_in_time() {
        let mut runner = Runner::new("max_instances = 1\ninstance_acquire_timeout = '10m'\n");
        runner.come(2);
        runner.pass(&[], 600).await;
        assert_eq!((runner.scaler.counts.timed_out, runner.scaler.waiting()), (0, 2));
        runner.pass(&[], 1).await;
        assert_eq!((runner.scaler.counts.timed_out, runner.scaler.waiting()), (1, 1), "the other one is at GitLab");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_goes_when_it_is_worn_or_was_idle_for_long_and_is_not_needed() {
        let mut runner = Runner::new(&format!("max_use_count = 2\n{IDLE}"));
        runner.pass(&["a", "b", "c"], 299).await;
        assert!(runner.removed().is_empty());
        runner.pass(&["a", "b", "c"], 2).await;
        assert_eq!(runner.removed().len(), 1, "two stay idle");
        let kept: Vec<&str> = ["a", "b", "c"].into_iter().filter(|id| runner.removed()[0] != **id).collect();
        runner.come(2);
        runner.pass(&kept, 70).await;
        assert_eq!((runner.scaler.counts.finished, runner.removed()), (2, Vec::new()), "each was used once");
        runner.come(2);
        runner.pass(&kept, 70).await;
        assert_eq!((runner.scaler.counts.finished, runner.removed().len()), (4, 2), "and now twice");
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_whose_heartbeats_fail_is_removed_and_its_job_goes_to_another() {
        let mut runner = Runner::new("failure_threshold = 2\n");
        runner.group.healthy = false;
        runner.come(1);
        runner.pass(&["a"], 1).await;
        assert!(runner.removed().is_empty());
        runner.pass(&["a"], 1).await;
        assert_eq!(runner.removed(), ["a"]);
        runner.group.healthy = true;
        runner.pass(&["b"], 1).await;
        assert_eq!((runner.scaler.running(), runner.scaler.counts.lost), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_goes_away_by_itself_is_counted() {
        let mut runner = Runner::new("");
        runner.come(1);
        runner.pass(&["a"], 1).await;
        assert_eq!(runner.scaler.running(), 1);
        let reported = [("a", State::Deleted), ("b", State::Creating)];
        let report = |(id, state): (&str, State)| Report { instance: id.to_owned(), state };
        runner.provisioner.take(&reported.map(report));
        let idle = Idle::default();
        runner.scaler.tick(runner.now, idle, &mut runner.provisioner, &runner.group).await;
        runner.provisioner.take(&[report(("b", State::Deleted))]);
        runner.scaler.tick(runner.now, idle, &mut runner.provisioner, &runner.group).await;
        let Counts { lost, failed, created, .. } = runner.scaler.counts;
        assert_eq!((lost, failed, created), (1, 1, 2));
    }
}
