//! The runner's loop over the group, in simulated time.

use std::collections::VecDeque;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use windlass_lifecycle::PoolPrefix;
use windlass_simulator::Simulator;

use super::conditions::Conditions;
use super::jobs::Job;
use super::meter::Meter;
use super::outcome::Leftover;
use super::provisioner::Provisioner;
use super::scaler::Scaler;
use crate::group::ScalewayGroup;
use crate::protocol::{Failure, InstanceGroup as _, State, Update};

/// How often the runner checks whether there is work.
const TICK: Duration = Duration::from_secs(1);
/// How long jobs may run on after the last one has come.
const UNFINISHED: Duration = Duration::from_secs(24 * 3_600);
/// How long the removal of the last resources may take. The second look after a call without an answer comes later than
/// removals.
const REST: Duration = Duration::from_secs(2 * 3_600);

/// How often it is looked whether hosts are deleted whose deletion is scheduled.
const BILL: Duration = Duration::from_secs(60);

/// What is left at Scaleway: neither in this pool nor about to be deleted.
pub(super) fn left(simulator: &Simulator, pool: Option<&PoolPrefix>) -> Vec<Leftover> {
    let mut resources = simulator.resources();
    let is_in_pool = |name: &Value| name.as_str().zip(pool).is_some_and(|(name, pool)| pool.holds(name));
    resources.apple_silicon_servers.retain(|host| !is_in_pool(&host["name"]) && !is_scheduled(host));
    let lists = [
        ("server", resources.servers),
        ("ip", resources.ips),
        ("volume", resources.volumes),
        ("private-nic", resources.private_nics),
        ("apple-silicon-server", resources.apple_silicon_servers),
    ];
    let ids = |(kind, list): (&'static str, Vec<Value>)| {
        list.into_iter().map(move |value| Leftover { kind, id: value["id"].as_str().unwrap_or_default().to_owned() })
    };
    lists.into_iter().flat_map(ids).collect()
}

/// Whether Scaleway will delete a host.
fn is_scheduled(host: &Value) -> bool {
    host["deletion_scheduled"] == true
}

/// A runner with its group and its jobs.
pub(super) struct Day {
    pub(super) origin: Instant,
    pub(super) starts_at: Timestamp,
    pub(super) jobs: VecDeque<Job>,
    pub(super) simulator: Simulator,
    pub(super) conditions: Conditions,
    pub(super) scaler: Scaler,
    pub(super) provisioner: Provisioner,
    pub(super) meter: Meter,
    /// Jobs that had not ended when the runner stopped.
    pub(super) unfinished: usize,
    /// The number of the last call to Scaleway whose servers are counted.
    pub(super) counted: u64,
    /// The pool of a group of Macs.
    pub(super) pool: Option<PoolPrefix>,
}

/// The answers to the provisioner's calls of one round.
enum Answered {
    /// Of Decrease, where there was something to remove, and of Update.
    Looked(Option<Result<Vec<String>, Failure>>, Result<Update, Failure>),
    /// Of Increase.
    Increased(Result<u32, Failure>),
}

impl Day {
    /// Runs until all jobs have ended and everything is removed.
    pub(super) async fn live(&mut self, group: &ScalewayGroup) {
        let over = self.meter.over();
        let mut looked: Option<Instant> = None;
        let mut stopped: Option<Duration> = None;
        let mut tick = self.origin;
        let mut was_over = false;
        // The provisioner waits for its calls; jobs are assigned meanwhile.
        let mut calls: Option<BoxFuture<'_, Answered>> = None;
        loop {
            let (now, age) = (Instant::now(), self.origin.elapsed());
            let is_reclaimed = self.conditions.pass(age, &self.simulator);
            self.meter.pass(age, self.scaler.used());
            // Servers come through calls, and go through calls or incidents. The pool counts until no more jobs come.
            let last_call = self.simulator.last_sequence();
            let is_called = std::mem::replace(&mut self.counted, last_call) != last_call;
            let is_over = std::mem::replace(&mut was_over, age >= over) != was_over;
            if is_called || is_reclaimed || is_over {
                self.meter.count(&self.simulator, self.pool.as_ref());
            }
            while let Some(job) = self.jobs.pop_front_if(|job| job.comes <= age) {
                self.scaler.come(self.origin + job.comes, job.length);
                self.meter.hour(job.comes).jobs += 1;
            }
            if stopped.is_none() {
                let idle = self.scaler.rules.idle_at(self.starts_at + age);
                self.scaler.tick(now, idle, &mut self.provisioner, group).await;
                let under_way = self.scaler.waiting() + self.scaler.running();
                if age >= over && (under_way == 0 || age >= over + UNFINISHED) {
                    (stopped, self.unfinished) = (Some(age), under_way);
                }
            }
            if stopped.is_some() {
                self.provisioner.delete_all();
            }
            let rules = &self.scaler.rules;
            let interval = match self.provisioner.expects() {
                true => rules.update_interval_when_expecting,
                false => rules.update_interval,
            };
            if calls.is_none() && looked.is_none_or(|looked| now.duration_since(looked) >= interval) {
                looked = Some(now);
                calls = Some(self.look(group));
            }
            self.note(age);
            if let Some(stopped) = stopped
                && calls.is_none()
            {
                let is_gone = self.provisioner.instances().len() == 0 && self.provisioner.pending() == 0;
                if is_gone && self.left().is_empty() || age >= stopped + REST {
                    return;
                }
            }
            // If the assignment took longer than a tick, skip the ticks that are over.
            while tick <= Instant::now() {
                tick += TICK;
            }
            while let Some(waiting) = &mut calls {
                tokio::select! {
                    biased;
                    answered = waiting => calls = self.answered(answered, group),
                    () = tokio::time::sleep_until(tick) => break,
                }
            }
            tokio::time::sleep_until(tick).await;
        }
    }

    /// Lets time pass until Scaleway has deleted the hosts whose deletion is scheduled: it bills them until then.
    pub(super) async fn bill_scheduled(&mut self) {
        while self.simulator.resources().apple_silicon_servers.iter().any(is_scheduled) {
            tokio::time::sleep(BILL).await;
            self.meter.pass(self.origin.elapsed(), 0);
            self.meter.count(&self.simulator, self.pool.as_ref());
        }
    }

    /// What is left at Scaleway: neither in the pool nor about to be deleted.
    pub(super) fn left(&self) -> Vec<Leftover> {
        left(&self.simulator, self.pool.as_ref())
    }

    /// The first calls of a round of GitLab's provisioner.
    fn look<'g>(&self, group: &'g ScalewayGroup) -> BoxFuture<'g, Answered> {
        let removals = self.provisioner.removals(Instant::now(), self.scaler.rules.deletion_retry_interval);
        async move {
            let removed = match removals.is_empty() {
                true => None,
                false => Some(group.decrease(removals).await),
            };
            Answered::Looked(removed, group.update().await)
        }
        .boxed()
    }

    /// Takes the answers in. The last call of the round, if there is one.
    fn answered<'g>(&mut self, answered: Answered, group: &'g ScalewayGroup) -> Option<BoxFuture<'g, Answered>> {
        let counts = &mut self.scaler.counts;
        match answered {
            Answered::Looked(removed, update) => {
                match removed {
                    Some(Ok(accepted)) => self.provisioner.removal_accepted(&accepted, Instant::now()),
                    Some(Err(failure)) => counts.call_failed("decrease", &failure),
                    None => {}
                }
                let update = match update {
                    Ok(update) => update,
                    // A runner requests nothing then.
                    Err(failure) => {
                        counts.call_failed("update", &failure);
                        return None;
                    }
                };
                self.provisioner.take(&update.reports);
                if let Some(delivered) = update.delivered {
                    delivered();
                }
                let demand = u32::try_from(self.provisioner.demand()).unwrap_or(u32::MAX);
                (demand > 0).then(|| async move { Answered::Increased(group.increase(demand).await) }.boxed())
            }
            Answered::Increased(Ok(accepted)) => {
                self.provisioner.increased(accepted as usize);
                None
            }
            Answered::Increased(Err(failure)) => {
                counts.call_failed("increase", &failure);
                None
            }
        }
    }

    /// Records the maxima of this hour.
    fn note(&mut self, age: Duration) {
        let (mut running, mut creating) = (0, self.provisioner.awaited());
        for (_, state, _) in self.provisioner.instances() {
            running += usize::from(state == State::Running);
            creating += usize::from(state == State::Creating);
        }
        let (waiting, jobs) = (self.scaler.waiting(), self.scaler.running());
        let hour = self.meter.hour(age);
        hour.waiting = hour.waiting.max(waiting);
        hour.running = hour.running.max(jobs);
        hour.instances = hour.instances.max(running);
        hour.creating = hour.creating.max(creating);
    }
}
